"""`--json`, `--csv` and `--parquet` of commands that show rows: one decorator adds and obeys them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_type_hints

import typer
from rich.table import Table as Shown

from hacs_crawler.analysis import Table
from hacs_crawler.cli.common import ending_in_a_line, say, writing_to_stdout
from hacs_crawler.cli.files import STDOUT, check_target, write_file
from hacs_crawler.utils.terminal import laid_out, terminal_width
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

_OPTIONS: Final[dict[str, Any]] = {
    "flag": Annotated[bool, typer.Option("--json", help="print JSON instead of text")],
    "file": Annotated[
        Path | None,
        typer.Option("--json", help="a file for all numbers as JSON; - for standard output"),
    ],
    "csv": Annotated[
        Path | None, typer.Option("--csv", help="a file for the rows as CSV; - for standard output")
    ],
    "parquet": Annotated[
        Path | None, typer.Option("--parquet", help="a file for the rows as Parquet")
    ],
}


@dataclass(frozen=True, slots=True)
class Records:
    """What a command has found, in each form in which it may be asked for; made when it is.

    `notes` are logged below it, `status` is the exit status.
    """

    rows: Callable[[], Table]
    text: Callable[[], Iterable[str | Shown]]
    json: Callable[[], Iterable[str]] = tuple
    notes: tuple[str, ...] = ()
    status: int = 0


def shows_rows(
    json: Literal["flag", "file", ""] = "flag",
) -> Callable[[Callable[..., Records | None]], Callable[..., None]]:
    """Give a command `--csv`, `--parquet` and `--json`, a flag or a file; it returns its records.

    With the flag, text is shown where nothing is asked for; else unless something goes to standard
    output. Errors end the command with one line.
    """

    def decorated(command: Callable[..., Records | None]) -> Callable[..., None]:
        @wraps(command)
        def run(
            *,
            json_: Path | bool | None = None,
            csv: Path | None = None,
            parquet: Path | None = None,
            **given: object,
        ) -> None:
            json_file = STDOUT if json_ is True else json_ or None
            targets = {"--json": json_file, "--csv": csv, "--parquet": parquet}
            with ending_in_a_line(), writing_to_stdout():
                for option, target in targets.items():
                    check_target(target, option)
                found = command(**given)
                if found is None:
                    return
                asked = [target for target in targets.values() if target is not None]
                if json_file is not None:
                    _write(json_file, "".join(found.json()))
                _write_rows(found.rows, csv, parquet)
                if STDOUT not in asked and not (asked and json == "flag"):
                    show(*found.text())
                for note in found.notes:
                    logger.info("%s", note)
            if found.status:
                raise typer.Exit(found.status)

        own = {"json_": json, "csv": "csv", "parquet": "parquet"}
        options = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=False if kind == "flag" else None,
                annotation=_OPTIONS[kind],
            )
            for name, kind in own.items()
            if kind
        ]
        hints = get_type_hints(command, include_extras=True)
        parameters = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[parameter.name])
            for parameter in inspect.signature(command).parameters.values()
        ]
        place = next(
            (n for n, parameter in enumerate(parameters) if parameter.name == "settings"), None
        )
        last = parameters[place:] if place is not None else []
        parameters = [*parameters[:place], *options, *last]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorated


def show(*parts: str | Shown) -> None:
    """Print tables and sentences, laid out for what standard output is written for."""
    text = laid_out(*parts, width=terminal_width())
    for line in text.split("\n") if parts else ():
        typer.echo(line)  # a line at a time: unbuffered, Python loses the end of a longer write


def _write(target: Path, text: str) -> None:
    if target == STDOUT:
        for line in text.splitlines():
            say(line)
    else:
        write_file(target, [text.encode()])


def _write_rows(rows: Callable[[], Table], csv: Path | None, parquet: Path | None) -> None:
    if csv is None and parquet is None:
        return
    table = rows()
    if csv == STDOUT:
        _write(STDOUT, table.csv_text())
    elif csv is not None:
        table.to_csv(csv)
    if parquet is not None:
        table.to_parquet(parquet)

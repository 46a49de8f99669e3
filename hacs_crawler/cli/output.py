"""What commands print and write: tables, sentences, JSON and CSV; and how errors end them."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_type_hints

import typer
from rich.table import Table as Shown

from hacs_crawler.analysis import Table
from hacs_crawler.exceptions import HacsError
from hacs_crawler.utils.files import Writable, replacing
from hacs_crawler.utils.terminal import Progress, laid_out, terminal_width
from hacs_crawler.utils.text import printable, safe_logger

logger = safe_logger(__name__)

# The exit status that a shell reports for a command ended by SIGPIPE.
BROKEN_PIPE_STATUS: Final = 141
STDOUT: Final = Path("-")
Output = Annotated[
    Path, typer.Option("-o", "--output", help="a file, gzipped if named .gz; - for standard output")
]
_OPTIONS: Final[dict[str, Any]] = {
    "flag": Annotated[bool, typer.Option("--json", help="print JSON instead of text")],
    "file": Annotated[
        Path | None,
        typer.Option("--json", help="a file for all numbers as JSON; - for standard output"),
    ],
    "csv": Annotated[
        Path | None, typer.Option("--csv", help="a file for the rows as CSV; - for standard output")
    ],
}


@contextmanager
def ending_in_a_line() -> Iterator[None]:
    """End the command with exit status 1 and one line if HacsError is raised."""
    try:
        yield
    except HacsError as error:
        logger.error("%s", error)
        raise typer.Exit(1) from None


@contextmanager
def writing_to_stdout() -> Iterator[None]:
    """Flush standard output after the block; end the command quietly if its reader is gone.

    Raises HacsError if standard output cannot be written to.
    """
    if sys.stdout is None:
        raise HacsError("cannot write to standard output: it is closed")
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        # the rest of the buffer must not be written again when the interpreter exits
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            raise typer.Exit(BROKEN_PIPE_STATUS) from None
        msg = f"cannot write to standard output: {error.strerror or error}"
        raise HacsError(msg) from error


def check_target(target: Path | None, option: str) -> None:
    """Raise HacsError if the file given for an option cannot be written, before any work is done."""
    if target is None or target == STDOUT:
        return
    if target.is_dir() or not target.absolute().parent.is_dir():
        raise HacsError(f"{option} {str(target)!r}: must be a file in an existing folder")


@contextmanager
def output_file(target: Path) -> Iterator[Writable]:
    """Open a file for writing, gzipped if named .gz, or standard output ("-"); raises HacsError."""
    if target == STDOUT:
        with writing_to_stdout():
            yield sys.stdout.buffer
        return
    try:
        with replacing(target) as file:
            yield file
    except OSError as error:
        raise HacsError(f"cannot write {target}: {error.strerror or error}") from error


def write_file(target: Path, pieces: Iterable[bytes]) -> None:
    """Write a file, or standard output ("-"); raises HacsError."""
    with output_file(target) as file:
        for piece in pieces:
            file.write(piece)


def export_progress(target: Path) -> Progress:
    """Return a progress bar, hidden if the exported lines go to the same terminal."""
    is_hidden = target == STDOUT and sys.stdout is not None and sys.stdout.isatty()
    return Progress("export", is_shown=not is_hidden)


def say(line: str) -> None:
    """Print a line that may hold foreign text."""
    typer.echo(printable(line))


def show(*parts: str | Shown) -> None:
    """Print tables and sentences, laid out for the terminal, pipe or file behind standard output."""
    text = laid_out(*parts, width=terminal_width())
    for line in text.split("\n") if parts else ():
        # a line at a time: unbuffered, Python loses the end of a longer write
        typer.echo(line)


@dataclass(frozen=True, slots=True)
class Records:
    """The result of a command, in every format; each is made only when it is asked for.

    `notes` are logged after it, `status` is the exit status.
    """

    rows: Callable[[], Table]
    text: Callable[[], Iterable[str | Shown]]
    json: Callable[[], Iterable[str]] = tuple
    notes: tuple[str, ...] = ()
    status: int = 0


def shows_rows(
    json: Literal["flag", "file", ""] = "flag",
) -> Callable[[Callable[..., Records | None]], Callable[..., None]]:
    """Add `--csv` and `--json` (a flag or a file) to a command that returns records.

    With the flag, text is shown if no other format is asked for; else unless another format goes to
    standard output. Errors end the command with one line.
    """

    def decorated(command: Callable[..., Records | None]) -> Callable[..., None]:
        @wraps(command)
        def run(
            *, json_: Path | bool | None = None, csv: Path | None = None, **given: object
        ) -> None:
            json_file = STDOUT if json_ is True else json_ or None
            with ending_in_a_line(), writing_to_stdout():
                check_target(json_file, "--json")
                check_target(csv, "--csv")
                if json_file == csv == STDOUT:
                    raise HacsError("--json and --csv: only one of them can be standard output")
                rows = command(**given)
                if rows is None:
                    return
                if json_file is not None:
                    _write(json_file, "".join(rows.json()))
                if csv is not None:
                    _write(csv, rows.rows().csv_text())
                asked = [target for target in (json_file, csv) if target is not None]
                if STDOUT not in asked and not (asked and json == "flag"):
                    show(*rows.text())
                for note in rows.notes:
                    logger.info("%s", note)
            if rows.status:
                raise typer.Exit(rows.status)

        parameters = _parameters(command, {"json_": json, "csv": "csv"})
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorated


def _parameters(command: Callable[..., object], added: dict[str, str]) -> list[inspect.Parameter]:
    """Return a command's parameters, with the added ones before `settings`, which stays last."""
    hints = get_type_hints(command, include_extras=True)
    parameters = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[parameter.name])
        for parameter in inspect.signature(command).parameters.values()
    ]
    parameters += [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=False if kind == "flag" else None,
            annotation=_OPTIONS[kind],
        )
        for name, kind in added.items()
        if kind
    ]
    return sorted(parameters, key=lambda parameter: parameter.name == "settings")


def _write(target: Path, text: str) -> None:
    if target == STDOUT:
        for line in text.splitlines():
            say(line)
    else:
        write_file(target, [text.encode()])


def days_text(days: float) -> str:
    """Return a number of days in a few characters: 3 h, 4.5 d, 120 d, 7.3 y."""
    if days < 1:
        return f"{24 * days:.0f} h" if days * 24 >= 1 else f"{1440 * days:.0f} min"
    if days < 10:
        return f"{days:.1f} d"
    return f"{days:.0f} d" if days < 1000 else f"{days / 365.25:.1f} y"


def interval_text(rate_per_day: float) -> str:
    """Return a rate as the mean time between updates."""
    if not rate_per_day > 0 or 1 / rate_per_day > 36_525:
        return "100 y or more" if rate_per_day > 0 else "-"
    return days_text(1 / rate_per_day)


def chance_text(p: float) -> str:
    """Return a probability with four digits; < 0.001 if it is smaller."""
    return f"{p:.4f}" if p >= 0.001 or not p else "< 0.001"


def iso_text(at: float | None) -> str | None:
    """Return seconds since 1970 UTC as 2026-01-31T13:00:00Z; None for None and 0."""
    return f"{datetime.fromtimestamp(int(at), UTC):%Y-%m-%dT%H:%M:%SZ}" if at else None

"""The output of commands: tables, sentences, JSON and CSV."""

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.table import Table as Shown

from hacs_crawler.analysis import Table
from hacs_crawler.exceptions import HacsError, StateError
from hacs_crawler.state import PAGES_A_CALL
from hacs_crawler.utils.files import Writable, replacing
from hacs_crawler.utils.terminal import Progress, laid_out, terminal_width
from hacs_crawler.utils.text import counted, printable, safe_logger

logger = safe_logger(__name__)

# The exit status that a shell reports for a command ended by SIGPIPE.
BROKEN_PIPE_STATUS: Final = 141
STDOUT: Final = Path("-")


def checked_target(option: typer.CallbackParam, target: Path | None) -> Path | None:
    """Check before any work that an option's file can be written; raises HacsError."""
    if target is None or target == STDOUT:
        return target
    if target.is_dir() or not target.absolute().parent.is_dir():
        raise HacsError(f"{option.opts[0]} {str(target)!r}: must be a file in an existing folder")
    return target


Output = Annotated[
    Path,
    typer.Option(
        "-o",
        "--output",
        help="a file, gzipped if named .gz; - for standard output",
        callback=checked_target,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="print JSON instead of text")]
Csv = Annotated[
    Path | None,
    typer.Option(help="a file for the rows as CSV; - for standard output", callback=checked_target),
]


@contextmanager
def writing_to_stdout() -> Iterator[None]:
    """Flush standard output after the block; exit quietly if the reader is gone.

    Raises HacsError if standard output cannot be written.
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
        raise HacsError(f"cannot write to standard output: {error.strerror or error}") from error


@contextmanager
def output_file(target: Path) -> Iterator[Writable]:
    """Open a file for writing, gzipped if named .gz, or standard output ("-"); raises HacsError."""
    if target == STDOUT:
        with writing_to_stdout():
            yield sys.stdout.buffer
        return
    with replacing(target) as file:
        yield file


def write_file(target: Path, pieces: Iterable[bytes]) -> None:
    """Write a file, or standard output ("-"); raises HacsError."""
    with output_file(target) as file:
        for piece in pieces:
            file.write(piece)


def write_lines(
    lines: Iterable[bytes], noun: str, fault: str, output: Path, total: int | None = None
) -> None:
    """Write the lines of an export; raise StateError at the end if any were empty.

    An empty line stands for an entry with the `fault`.
    """
    is_hidden = output == STDOUT and sys.stdout is not None and sys.stdout.isatty()
    number = left_out = 0
    with output_file(output) as file, Progress("export", is_shown=not is_hidden) as progress:
        for line in lines:
            file.write(line)
            number += bool(line)
            left_out += not line
            if not (number + left_out) % PAGES_A_CALL:
                progress.update(f"{number} {noun}s", number, total)
    if left_out:
        raise StateError(f"{counted(number, noun)} exported, {left_out} {fault} left out")
    logger.info("%s exported", counted(number, noun))


def show_lines(lines: Iterable[str]) -> None:
    """Print lines, with control characters in them escaped."""
    with writing_to_stdout():
        for line in lines:
            # by line: unbuffered, Python loses the end of a long write
            typer.echo(printable(line))


def show(*parts: str | Shown) -> None:
    """Print tables and sentences, formatted for the terminal, pipe or file."""
    if parts:
        show_lines(laid_out(*parts, width=terminal_width()).split("\n"))


def show_json(document: object) -> None:
    """Print a document as JSON."""
    show_lines(json.dumps(document, indent=2).splitlines())


def show_rows(
    rows: Table,
    text: Callable[[], Iterable[str | Shown]],
    csv: Path | None = None,
    *,
    is_json: bool = False,
) -> None:
    """Print rows as JSON Lines or text, and write CSV; no text if CSV goes to standard output.

    Raises HacsError if both JSON and CSV go to standard output.
    """
    if is_json and csv == STDOUT:
        raise HacsError("--json and --csv: only one of them can be standard output")
    if csv is not None and csv != STDOUT:
        rows.to_csv(csv)
    if is_json:
        names = list(rows.columns)
        show_lines(json.dumps(dict(zip(names, row, strict=True))) for row in rows.rows())
    elif csv == STDOUT:
        show_lines(rows.csv_text().splitlines())
    else:
        show(*text())


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

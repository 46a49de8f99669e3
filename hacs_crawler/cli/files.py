"""Files that commands write: whole or not at all, each with one line where that cannot be."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from hacs_crawler.cli.common import writing_to_stdout
from hacs_crawler.exceptions import HacsError
from hacs_crawler.utils.files import Writable, replacing
from hacs_crawler.utils.progress import Progress

STDOUT = Path("-")
Output = Annotated[
    Path, typer.Option("-o", "--output", help="a file, gzipped if named .gz; - for standard output")
]


def check_target(target: Path | None, option: str) -> None:
    """Raise HacsError where a file that an option names cannot be written, before the work is done."""
    if target is None or target == STDOUT:
        return
    if target.is_dir() or not target.absolute().parent.is_dir():
        raise HacsError(f"{option} {str(target)!r}: allowed is a file in a folder that exists")


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
    """Return the progress of writing lines, which shows nothing amid lines in a terminal."""
    amid_lines = target == STDOUT and sys.stdout is not None and sys.stdout.isatty()
    return Progress("export", is_shown=not amid_lines)

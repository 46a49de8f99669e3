"""Files that commands write: whole or not at all, each with one line where that cannot be."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from hacs_crawler.cli.common import writing_to_stdout
from hacs_crawler.exceptions import HacsError
from hacs_crawler.utils.files import replacing

STDOUT = Path("-")


def check_target(target: Path | None, option: str) -> None:
    """Raise HacsError where a file that an option names cannot be written, before the work is done."""
    if target is None or target == STDOUT:
        return
    if target.is_dir() or not target.absolute().parent.is_dir():
        raise HacsError(f"{option} {str(target)!r}: allowed is a file in a folder that exists")


def write_file(target: Path, pieces: Iterable[bytes]) -> None:
    """Write a file, or standard output ("-"); raises HacsError."""
    if target == STDOUT:
        with writing_to_stdout():
            for piece in pieces:
                sys.stdout.buffer.write(piece)
        return
    try:
        with replacing(target) as file:
            for piece in pieces:
                file.write(piece)
    except OSError as error:
        raise HacsError(f"cannot write {target}: {error.strerror or error}") from error

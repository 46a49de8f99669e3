"""`hacs export`: all pages as JSON Lines."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from hacs_crawler.cli.common import Set, opened, writing_to_stdout
from hacs_crawler.exceptions import StateError
from hacs_crawler.state import PAGES_A_CALL, ExportError, Page, State, to_line
from hacs_crawler.utils.files import Writable, replacing
from hacs_crawler.utils.progress import Progress
from hacs_crawler.utils.text import counted, safe_logger

logger = safe_logger(__name__)


def export(
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="a file, gzipped if named .gz")
    ] = None,
    settings: Set = None,
) -> None:
    """Write everything that is known of pages as JSON Lines, one page a line.

    The lines go to standard output or to a file, which appears under its name when it is whole.
    """
    target = None if output == Path("-") else output
    with opened(settings) as (_, state), nullcontext() if target else writing_to_stdout():
        number = export_pages(state, target)
        logger.info("%s exported", counted(number, "page"))


def export_pages(state: State, target: Path | None) -> int:
    """Write every page as a line of JSON to a file, gzipped if so named, or to standard output.

    Returns their number. Raises StateError at the end if some pages are damaged (they are left out),
    ExportError if the lines cannot be written, BrokenPipeError if nobody reads standard output on.
    """
    stdout = getattr(sys.stdout, "buffer", None)  # None if it was closed before the start
    if target is None and stdout is None:
        raise ExportError("cannot write to standard output: it is closed")
    try:
        if target is None:
            number, damaged = _write(state, sys.stdout.buffer)
            sys.stdout.buffer.flush()
        else:
            with replacing(target) as file:
                number, damaged = _write(state, file)
    except OSError as error:
        if target is None and isinstance(error, BrokenPipeError):
            raise
        name = target or "to standard output"
        raise ExportError(f"cannot write {name}: {error.strerror or error}") from error
    if damaged:
        raise StateError(f"{counted(number, 'page')} exported, {damaged} damaged left out")
    return number


def _write(state: State, file: Writable) -> tuple[int, int]:
    """Return how many pages were written, and how many cannot be."""
    number = damaged = 0
    progress = Progress("export")
    is_shown = file is getattr(sys.stdout, "buffer", None) and sys.stdout.isatty()
    with nullcontext(progress) if is_shown else progress:  # no bar amid the lines
        total = state.store.count()
        for page in state.pages():
            line = _line(page)
            file.write(line)
            number += bool(line)
            damaged += not line
            if not (number + damaged) % PAGES_A_CALL:
                progress.update(f"{number} pages", number, total)
    return number, damaged


def _line(page: Page | None) -> bytes:
    if page is None:
        return b""
    try:
        return to_line(page)
    except ValueError as error:
        logger.error("the page %s cannot be exported: %s", page.url, error)
        return b""

"""`hacs export`: all pages as JSON Lines."""

from __future__ import annotations

from hacs_crawler.cli.common import Set, Shards, opened
from hacs_crawler.cli.files import STDOUT, Output, export_progress, output_file
from hacs_crawler.exceptions import StateError
from hacs_crawler.state import PAGES_A_CALL, Page, State, to_line
from hacs_crawler.utils.files import Writable
from hacs_crawler.utils.progress import Progress
from hacs_crawler.utils.text import counted, safe_logger

logger = safe_logger(__name__)


def export(output: Output = STDOUT, shards: Shards = None, settings: Set = None) -> None:
    """Write everything that is known of pages as JSON Lines, one page a line.

    The lines go to standard output or to a file, which appears under its name when it is whole.
    """
    with opened(settings, shards) as (_, state):
        with output_file(output) as file, export_progress(output) as progress:
            number, damaged = write_pages(state, file, progress)
        if damaged:
            raise StateError(f"{counted(number, 'page')} exported, {damaged} damaged left out")
        logger.info("%s exported", counted(number, "page"))


def write_pages(state: State, file: Writable, progress: Progress) -> tuple[int, int]:
    """Write every page as a line of JSON; return how many were written, and how many cannot be."""
    number = damaged = 0
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

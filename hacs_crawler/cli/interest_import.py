"""`hacs interest import`: page views of logs and exports, gathered into one file."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Annotated, Final

import numpy as np
import typer

from hacs_crawler.archive import Source, open_source, read_lines
from hacs_crawler.cli.common import ending_in_a_line, writing_to_stdout
from hacs_crawler.exceptions import HacsError
from hacs_crawler.interest import (
    LINES_TO_TELL,
    ROLES,
    LogReader,
    Problems,
    TableReader,
    Views,
    ViewsError,
    check_site,
    day_of,
    day_text,
    gathered,
    hours_by,
    is_log,
    views_csv,
    zone_named,
)
from hacs_crawler.utils.files import replacing
from hacs_crawler.utils.progress import Progress
from hacs_crawler.utils.text import safe_logger
from hacs_crawler.utils.times import DAY

logger = safe_logger(__name__)

_LINES_A_STEP: Final = 20_000


def import_views(  # noqa: PLR0917 - one for each option
    files: Annotated[
        list[Path], typer.Argument(help="access logs or CSV of page views; .gz too; - for stdin")
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="CSV; gzipped if named .gz; - for stdout")
    ],
    site: Annotated[str | None, typer.Option(help="what is before paths: https://host")] = None,
    timezone: Annotated[str, typer.Option(help="whose midnight ends a day")] = "UTC",
    hourly: Annotated[bool, typer.Option(help="keep hours, where a file has them")] = False,
    column: Annotated[
        list[str] | None, typer.Option(help=f"ROLE=NAME; roles are {', '.join(ROLES)}")
    ] = None,
    date: Annotated[str | None, typer.Option(help="the day of tables that have no dates")] = None,
) -> None:
    """Read page views from access logs and analytics exports into one file: page, date, views.

    Of logs, in Common or Combined format, robots and assets are left out, and each visitor counts once a
    page and day. Tables are those of Matomo, Plausible, Google Analytics and Wikimedia, or any with
    columns for page, date and views.
    """
    with ending_in_a_line():
        check_target(output, "-o")
        hour_of = hours_by(zone_named(timezone))
        base = None if site is None else check_site(site)
        now = time.time()
        log = LogReader(base, hour_of, now + DAY)
        table = TableReader(base, hour_of, hour_of(now + DAY), _columns(column), _day_text(date))
        for file in files:
            _read(str(file), log, table)
        views = _together(log.views(hourly=hourly), table.views(hourly=hourly))
        if not views.views.any():
            raise ViewsError(f"no views in {', '.join(map(str, files))}")
        if hourly and views.bins_a_day == 1:
            logger.warning("no file names hours: views are by the day")
        _say_of_log(log)
        _say_of_table(table)
        write(output, views_csv(views))
        first, last = views.days
        logger.info(
            "%s: %.0f views of %d pages, %s to %s",
            output,
            views.views.sum(),
            len(views.pages),
            day_text(first),
            day_text(last),
        )


def _columns(pairs: list[str] | None) -> dict[str, str]:
    names: dict[str, str] = {}
    for pair in pairs or []:
        role, _, name = pair.partition("=")
        if role not in ROLES or not name:
            raise HacsError(
                f"--column {pair!r}: allowed is ROLE=NAME, with a role of {', '.join(ROLES)}"
            )
        names[role] = name
    return names


def day_named(text: str | None, option: str) -> int | None:
    """Return the day since 1970 that an option names; raises HacsError where it names none."""
    try:
        return None if text is None else day_of(text)
    except ValueError:
        raise HacsError(f"{option} {text!r}: allowed is a day such as 2026-01-31") from None


def _day_text(text: str | None) -> str | None:
    day = day_named(text, "--date")
    return None if day is None else day_text(day)


def _read(path: str, log: LogReader, table: TableReader) -> None:
    """Add the views of a file to those of its kind; says what of it was left out."""
    with closing(open_source(path)) as source, Progress(source.name) as progress:
        beginning = source.beginning()
        if is_blank(source):
            logger.warning("%s: there is nothing in it", source.name)
            return
        if is_log(islice(beginning.splitlines(), LINES_TO_TELL)):
            log.problems = problems = Problems()
            log.read(_counted(read_lines(source), progress))
        else:
            table.problems = problems = Problems()
            table.read(source, lambda rows: progress.update(f"{rows} rows"))
        for line in problems.lines():
            logger.warning("%s: %s", source.name, line)


def is_blank(source: Source) -> bool:
    """Whether nothing is in a file; raises ArchiveError where that is because it is damaged."""
    if source.beginning().strip():
        return False
    return not any(line.strip() for line in read_lines(source))


def _counted(lines: Iterable[bytes], progress: Progress) -> Iterator[bytes]:
    for number, line in enumerate(lines):
        if number % _LINES_A_STEP == 0:
            progress.update(f"{number} lines")
        yield line


def _together(one: Views, other: Views) -> Views:
    """Join the views of logs and of tables; with hours only if both have them."""
    if not one.page.size or not other.page.size:
        return one if one.page.size else other
    numbers = {page: place for place, page in enumerate(one.pages)}
    places = [numbers.setdefault(page, len(numbers)) for page in other.pages]
    per_day = min(one.bins_a_day, other.bins_a_day)
    return gathered(
        list(numbers),
        np.concatenate([one.page, np.array(places, dtype=np.int64)[other.page]]),
        np.concatenate([x.bin // (x.bins_a_day // per_day) for x in (one, other)]),
        np.concatenate([one.views, other.views]),
        per_day,
    )[0]


def _say_of_log(log: LogReader) -> None:
    if not log.requests:
        return
    logger.info(
        "%d page requests in logs, %d of them by robots (left out)", log.requests, log.robots
    )
    if log.without_agent:
        logger.warning(
            "%d requests name no user agent (Common format): only robots that asked for robots.txt are "
            "left out of them",
            log.without_agent,
        )
    if log.robots_in_disguise:
        logger.warning(
            "%d views are of visitors that saw hundreds of pages on a day, which robots do that call "
            "themselves browsers",
            log.robots_in_disguise,
        )


def _say_of_table(table: TableReader) -> None:
    if not table.rows:
        return
    logger.info("%d rows in tables; views are of the column %r", table.rows, table.views_column)
    if table.added_to_others:
        logger.warning(
            "%d rows repeat a page and a day: their views were added up", table.added_to_others
        )
    if table.ranks_cut:
        logger.warning(
            "%d rows sum up pages that the export left out: export more rows a day", table.ranks_cut
        )


def check_target(target: Path, option: str) -> None:
    """Raise HacsError where a file cannot be written, before the work is done."""
    if target.is_dir() or not target.absolute().parent.is_dir():
        raise HacsError(f"{option} {str(target)!r}: allowed is a file in a folder that exists")


def write(target: Path, pieces: Iterable[bytes]) -> None:
    """Write a file, whole or not at all, or standard output ("-")."""
    if target == Path("-"):
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

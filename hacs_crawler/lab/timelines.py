"""Timelines, the true histories of pages, from CSV files: updates, and captures by an archive.

`pages.csv` has the columns url, site, level ("homepage" or "subpage") and first_seen, `updates.csv` url,
updated_at and new_links, `captures.csv` url and captured_at; other columns are ignored. Times are
ISO 8601, in UTC unless they name a zone.
"""

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.exceptions import HacsError
from hacs_crawler.links import check_url, page_id_of
from hacs_crawler.utils.text import reason_of
from hacs_crawler.utils.times import parse_iso

Seconds = NDArray[np.int64]
LEVELS: Final = ("homepage", "subpage")


class TimelineError(HacsError):
    """A file of timelines cannot be used; the message names file and line."""


@dataclass(frozen=True, slots=True)
class Events:
    """Updates or captures of pages, by page and time.

    Page `i` has the elements `offsets[i]` to `offsets[i + 1]` of `at` (seconds since 1970 UTC) and of
    `new_links` (how many links an update added; zeros for captures).
    """

    at: Seconds
    new_links: NDArray[np.int64]
    offsets: NDArray[np.int64]

    def of(self, page: int) -> Seconds:
        """Return the times of one page's events."""
        return self.at[self.offsets[page] : self.offsets[page + 1]]

    def new_links_of(self, page: int) -> NDArray[np.int64]:
        """Return how many links each of one page's events added."""
        return self.new_links[self.offsets[page] : self.offsets[page + 1]]


@dataclass(frozen=True, slots=True)
class Timelines:
    """Pages and their true histories; arrays and lists have one element a page."""

    urls: list[str]
    page_ids: NDArray[np.int64]
    sites: list[str]
    is_homepage: NDArray[np.bool_]
    first_seen: Seconds
    updates: Events
    captures: Events


def read_timelines(pages: Path, updates: Path, captures: Path | None) -> Timelines:
    """Read the three files; captures may be left out.

    Raises TimelineError if a file cannot be read, a column is missing, a value does not parse, an event
    has an unknown page or is before its `first_seen`, or two URLs are the same page.
    """
    places: dict[str, int] = {}
    ids: dict[int, str] = {}
    sites: list[str] = []
    is_homepage: list[bool] = []
    first_seen: list[int] = []
    for row in _rows(pages, ("url", "site", "level", "first_seen")):
        url = row.text("url")
        problem = check_url(url)
        if problem is not None:
            raise row.wrong("url", problem)
        if ids.setdefault(page_id_of(url), url) != url or url in places:
            raise row.wrong("url", f"the same page as {ids[page_id_of(url)]!r} above")
        places[url] = len(places)
        sites.append(row.text("site"))
        level = row.text("level")
        if level not in LEVELS:
            raise row.wrong("level", f"must be one of {', '.join(LEVELS)}")
        is_homepage.append(level == LEVELS[0])
        first_seen.append(row.time("first_seen"))
    if not places:
        raise TimelineError(f"{pages}: there is no page in it")
    seen = np.array(first_seen, np.int64)
    return Timelines(
        urls=list(places),
        page_ids=np.array(list(ids), np.int64),
        sites=sites,
        is_homepage=np.array(is_homepage, np.bool_),
        first_seen=seen,
        updates=_events(updates, "updated_at", places, seen, has_links=True),
        captures=_events(captures, "captured_at", places, seen, has_links=False),
    )


def read_given(
    pages: Path | None,
    updates: Path | None,
    captures: Path | None,
    needed: Mapping[str, object | None],
) -> Timelines | None:
    """Read the files that a user gave, None if there are none.

    Raises HacsError if one of the first two is missing, or one of the options `needed` with them.
    """
    if pages is updates is captures is None:
        return None
    given = {"--pages": pages, "--updates": updates, **needed}
    missing = [name for name, value in given.items() if value is None]
    if pages is None or updates is None or missing:
        raise HacsError(f"histories of your own need {', '.join(missing)} too")
    return read_timelines(pages, updates, captures)


@dataclass(frozen=True, slots=True)
class _Row:
    """One line of a file; `place` names it in errors."""

    place: str
    values: Mapping[str, str | None]

    def wrong(self, column: str, problem: str) -> TimelineError:
        value = self.values[column]
        return TimelineError(f"{self.place}: {column} = {value!r}: {problem}")

    def text(self, column: str) -> str:
        value = self.values[column]
        if not value:
            raise self.wrong(column, "a value is missing")
        return value

    def number(self, column: str) -> int:
        text = self.text(column)
        if not (text.isascii() and text.isdigit()) or len(text) > 9 or int(text) < 1:
            raise self.wrong(column, "must be a whole number of at least 1")
        return int(text)

    def time(self, column: str) -> int:
        second = parse_iso(self.text(column))
        if second is None:
            raise self.wrong(column, "not a time in ISO 8601, from 1970 to 2106")
        return second


def _rows(path: Path, columns: tuple[str, ...]) -> Iterator[_Row]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file, strict=True)
            missing = [name for name in columns if name not in (reader.fieldnames or ())]
            if missing:
                raise TimelineError(f"{path}, line 1: there is no column {', '.join(missing)}")
            for values in reader:
                line = f"{path}, line {reader.line_num}"
                if None in values:
                    raise TimelineError(f"{line}: more values than columns")
                yield _Row(line, values)
    except (OSError, ValueError) as error:
        raise TimelineError(f"{path}: cannot read: {reason_of(error)}") from error
    except csv.Error as error:
        raise TimelineError(f"{path}, line {reader.line_num}: not CSV: {error}") from error


def _events(
    path: Path | None,
    column: str,
    places: Mapping[str, int],
    first_seen: Seconds,
    *,
    has_links: bool,
) -> Events:
    events: list[tuple[int, int, int]] = []
    columns = ("url", column, *["new_links"] * has_links)
    for row in () if path is None else _rows(path, columns):
        number = places.get(row.text("url"))
        if number is None:
            raise row.wrong("url", "not among the pages")
        at = row.time(column)
        if at < first_seen[number]:
            raise row.wrong(column, "before the page was first seen")
        events.append((number, at, row.number("new_links") if has_links else 0))
    table = np.array(sorted(events), np.int64).reshape(-1, 3)
    offsets = np.searchsorted(table[:, 0], np.arange(len(places) + 1))
    return Events(table[:, 1], table[:, 2], offsets.astype(np.int64))


def parse_day(text: str, name: str) -> int:
    """Return the second at which a day (ISO 8601) begins in UTC; `name` is for the error."""
    try:
        day = date.fromisoformat(text)
    except ValueError:
        raise HacsError(f"{name} = {text!r}: must be a day such as 2022-01-01") from None
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp())

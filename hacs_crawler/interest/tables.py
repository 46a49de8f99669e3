"""CSV of page views as analytics tools export it: columns known by their names."""

from __future__ import annotations

import codecs
import csv
import io
import re
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from itertools import chain, islice
from typing import Final

import numpy as np

from hacs_crawler.archive import Source, open_source, read_lines
from hacs_crawler.interest.clock import EARLIEST_HOUR
from hacs_crawler.interest.problems import Problems
from hacs_crawler.interest.views import HOURS, Views, ViewsError, gathered
from hacs_crawler.links import canonical_url

ROLES: Final[Mapping[str, tuple[str, ...]]] = {
    "page": (
        "page", "url", "page url", "metadata_url", "metadata: url", "page location", "pagelocation",
        "full page url", "page path and query string", "page path + query string",
        "page path and screen class", "page path", "pagepath", "article", "page_title", "path",
        "label", "page title",
    ),
    "host": ("hostname", "host name", "host", "project"),
    "date": (
        "date", "day", "date + hour (yyyymmddhh)", "datehour", "date hour (yyyymmddhh)",
        "date and hour", "timestamp", "datetime", "time",
    ),
    "views": (
        "visitors", "nb_uniq_visitors", "unique visitors", "active users", "activeusers",
        "total users", "totalusers", "nb_visits", "unique pageviews", "views", "pageviews",
        "page views", "screenpageviews", "nb_hits", "hits", "visits", "sessions",
    ),
    "agent": ("agent", "agent_type"),
}  # fmt: skip
"""Names of columns, in small letters, the best first: of views those that count a visitor once a day."""

HEADER_LINES: Final = 40
"""A table's header is among so many lines at the beginning; Google Analytics puts comments before it."""
_LINES_A_STEP: Final = 20_000
LONGEST_CELL: Final = 65_536
OTHERS: Final = frozenset({"others", "(other)", "other", "sonstige", "autres"})
_NO_PAGES: Final = frozenset({"", "total", "totals", "grand total", "(not set)", "(data deleted)"})
_GROUPED: Final = re.compile(r"\d{1,3}(?:,\d{3})+").fullmatch
_DIGITS: Final = re.compile(r"(\d{4})(\d\d)(\d\d)(\d\d)?").fullmatch
_BOMS: Final = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


@dataclass(frozen=True, slots=True)
class Columns:
    """Where a table has what; `wide` are its pages, if each has a column, as Wikimedia's tool has it."""

    delimiter: str
    page: int | None
    host: int | None
    date: int | None
    views: int | None
    agent: int | None
    label: int | None = None
    wide: tuple[tuple[int, str], ...] = ()


@dataclass(slots=True)
class TableReader:
    """Gathers views from tables of Matomo, Plausible, Google Analytics, Wikimedia, or page,date,views.

    `names` are columns' names by role where they differ from `ROLES`. `day` is the date (2026-01-31) of
    a table that has none. Paths get `site` before them. Dates are taken as they are; times that name
    their offset from UTC go through `hour_of`. Dates after `latest_hour` (hours since 1970) are wrong.
    """

    site: str | None
    hour_of: Callable[[float], int]
    latest_hour: int
    names: Mapping[str, str] = field(default_factory=dict)
    day: str | None = None
    problems: Problems = field(default_factory=Problems)
    rows: int = 0
    added_to_others: int = 0
    ranks_cut: int = 0
    """Rows that sum up what a report left out, such as Matomo's "Others"."""
    views_column: str = ""
    has_hours: bool = False
    _places: dict[str, int] = field(default_factory=dict)
    _page: array[int] = field(default_factory=lambda: array("q"))
    _hour: array[int] = field(default_factory=lambda: array("q"))
    _views: array[float] = field(default_factory=lambda: array("d"))

    def read(
        self, source: str | Source, on_rows: Callable[[int], None] = lambda _rows: None
    ) -> None:
        """Read a table; lines that are none of it are counted in `problems`.

        `on_rows` is told now and then how many rows all tables have had.

        Raises ViewsError where it has no header that names what is needed, and ArchiveError where it
        cannot be read to its end.
        """
        raw = open_source(source) if isinstance(source, str) else source
        with closing(raw):
            lines = _text_lines(raw)
            head = list(islice(lines, HEADER_LINES))
            columns, rest = self._header(head, raw.name)
            hour_of_text = lru_cache(maxsize=65_536)(self._hour_of_text)
            for number, line in enumerate(chain(head[rest:], lines), start=rest + 1):
                if number % _LINES_A_STEP == 0:
                    on_rows(self.rows)
                cells = _cells(line, columns.delimiter)
                if cells is None:
                    self.problems.add("no line of a table", number)
                elif cells:
                    self._add(cells, columns, hour_of_text, number)

    def views(self, *, hourly: bool = False) -> Views:
        """Return the views by day, or by the hour where any table names hours."""
        hourly = hourly and self.has_hours
        page, hour = (np.array(values, dtype=np.int64) for values in (self._page, self._hour))
        bins = hour if hourly else hour // HOURS
        numbers = np.array(self._views, dtype=np.float64)
        views, self.added_to_others = gathered(
            list(self._places), page, bins, numbers, HOURS if hourly else 1
        )
        return views

    def _header(self, head: Sequence[str], name: str) -> tuple[Columns, int]:
        """Return the columns and how many lines the header and what is before it take."""
        for number, line in enumerate(head):
            if not line.strip() or line.startswith("#"):
                continue
            for delimiter in (",", ";", "\t"):
                titles = [title.strip() for title in _cells(line, delimiter) or []]
                columns = self._columns(titles, delimiter)
                if columns is not None:
                    if columns.date is None and self.day is None:
                        raise ViewsError(
                            f"{name}, line {number + 1}: there is no column of dates: name it, "
                            "--column date=NAME, or the day of the whole file, --date 2026-01-31"
                        )
                    return columns, number + 1
        raise ViewsError(
            f"{name}: no line of an access log, and no header of a table with columns for pages, dates "
            f"and views (such as page, date, views; --column page=NAME names others)"
        )

    def _columns(self, titles: list[str], delimiter: str) -> Columns | None:
        small = [title.lower() for title in titles]
        found = {role: self._place(role, titles, small) for role in ROLES}
        date = found["date"]
        if (
            found["page"] is None
            and found["views"] is None
            and date is not None
            and len(titles) > 1
        ):
            wide = tuple((place, title) for place, title in enumerate(titles) if place != date)
            return Columns(delimiter, None, None, date, None, None, wide=wide)
        if found["page"] is None or found["views"] is None:
            return None
        self.views_column = titles[found["views"]]
        label = small.index("label") if "label" in small else None
        return Columns(
            delimiter, found["page"], found["host"], date, found["views"], found["agent"], label
        )

    def _place(self, role: str, titles: list[str], small: list[str]) -> int | None:
        if (name := self.names.get(role)) is not None:
            return titles.index(name) if name in titles else None
        return next((small.index(name) for name in ROLES[role] if name in small), None)

    def _add(
        self,
        cells: list[str],
        columns: Columns,
        hour_of_text: Callable[[str], int | str],
        number: int,
    ) -> None:
        last = max(
            place for place in (columns.page, columns.date, columns.views, 0) if place is not None
        )
        if len(cells) <= last:
            if not (len(cells) == 1 and cells[0].lstrip().startswith("#")):
                self.problems.add("too few columns", number)
            return
        hour = hour_of_text(cells[columns.date] if columns.date is not None else self.day or "")
        if isinstance(hour, str):
            self.problems.add(hour, number)
            return
        if columns.wide:
            for place, title in columns.wide:
                if place < len(cells):
                    self._count(title, hour, cells[place], number)
            return
        assert columns.page is not None and columns.views is not None  # noqa: PT018, S101
        if columns.agent is not None and cells[columns.agent] in {"spider", "bot", "automated"}:
            self.problems.add("views by robots", number)
            return
        page = cells[columns.page].strip()
        if not page and columns.label is not None and len(cells) > columns.label:
            page = cells[columns.label].strip()  # Matomo's sum of the rest has no address
        if columns.host is not None and page.startswith("/") and len(cells) > columns.host:
            page = f"https://{cells[columns.host].strip()}{page}"
        self._count(page, hour, cells[columns.views], number)

    def _count(self, page: str, hour: int, text: str, number: int) -> None:
        small = page.lower()
        if small in OTHERS:
            self.ranks_cut += 1
            self.problems.add("a sum of what the report left out", number)
            return
        if small in _NO_PAGES:
            self.problems.add("a total, or no page", number)
            return
        views = _number(text)
        if views is None:
            self.problems.add("no number of views", number)
            return
        self.rows += 1
        url = _page_named(page, self.site)
        self._page.append(self._places.setdefault(url, len(self._places)))
        self._hour.append(hour)  # of rows without views, too: they tell how far the record goes
        self._views.append(views)

    def _hour_of_text(self, text: str) -> int | str:
        """Return the hour since 1970 of a date, or in words what is wrong with it."""
        text = text.strip()
        found = _DIGITS(text)
        if found is not None:
            text = f"{found[1]}-{found[2]}-{found[3]}" + (f"T{found[4]}" if found[4] else "")
        try:
            moment = datetime.fromisoformat(text)
            if moment.tzinfo is None:
                hour = int(moment.replace(tzinfo=UTC).timestamp()) // 3600
            else:
                hour = self.hour_of(moment.timestamp())
        except (ValueError, OverflowError):
            return "no date such as 2026-01-31, 20260131, 2026013113 or 2026-01-31T13:00"
        if hour < EARLIEST_HOUR:
            return "a date before 1995"
        if hour > self.latest_hour:
            return "a date in the future"
        self.has_hours = self.has_hours or len(text) > 10
        return hour


def _text_lines(source: Source) -> Iterator[str]:
    """Yield the lines of a table in UTF-8, or in UTF-16 with its mark, as Matomo writes it."""
    encoding = _BOMS.get(source.beginning(2)[:2])
    if encoding is None:
        for number, line in enumerate(read_lines(source, LONGEST_CELL)):
            text = line.decode("utf-8", "replace")
            yield text.removeprefix("\ufeff") if number == 0 else text
        return
    with io.TextIOWrapper(io.BufferedReader(source), encoding, "replace", newline="") as stream:
        first = True
        while text := stream.readline(LONGEST_CELL):
            yield text.removeprefix("\ufeff") if first else text
            first = False


def _cells(line: str, delimiter: str) -> list[str] | None:
    """Return the cells of a line, None where it cannot be read.

    Lines are read one by one: a quote that is never closed must not take the rest of the file.
    """
    try:
        return next(csv.reader([line.rstrip("\r\n")], delimiter=delimiter), [])
    except csv.Error:
        return None


@lru_cache(maxsize=65_536)
def _page_named(page: str, site: str | None) -> str:
    """Return a page's URL, or what the table calls it where that is none and no site is known."""
    if site is not None and "://" not in page:
        page = f"{site}/{page.replace(' ', '_').lstrip('/')}"
    return canonical_url(page) or page if "://" in page else page


def _number(text: str) -> float | None:
    text = text.strip()
    try:
        number = float(text.replace(",", "") if _GROUPED(text) else text)
    except ValueError:
        return None
    return number if 0 <= number < 1e15 else None

"""Views of pages by day or hour: read from CSV, cut into windows, written."""

import csv
import io
import math
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from typing import Final

import numpy as np

from hacs_crawler.archive import read_lines
from hacs_crawler.exceptions import HacsError
from hacs_crawler.links import canonical_url
from hacs_crawler.utils.arrays import FloatArray, IndexArray
from hacs_crawler.utils.times import DAY, day_text

HOURS: Final = 24
_EPOCH: Final = date(1970, 1, 1)
_COLUMNS: Final = ("page", "date", "views")
_MOST_DAYS: Final = 36_525
_ROWS_A_STEP: Final = 20_000


@dataclass(frozen=True, slots=True)
class Views:
    """How often pages were viewed; the arrays have an element for each page and bin with a record.

    `page` are places in `pages`; `bin` counts days since 1970, or hours if `bins_a_day` is 24;
    rows are sorted by page and bin, without duplicates.
    """

    pages: list[str]
    page: IndexArray
    bin: IndexArray
    views: FloatArray
    bins_a_day: int = 1

    @property
    def days(self) -> tuple[int, int]:
        """The first and the last day with a record, in days since 1970."""
        return int(self.bin.min()) // self.bins_a_day, int(self.bin.max()) // self.bins_a_day


@dataclass(frozen=True, slots=True)
class Window:
    """The views of a window of days, of the pages that have enough.

    `views` is of shape (n, days * bins_a_day), `first_day` in days since 1970, `left_out` how many
    pages of the window have too few views.
    """

    pages: list[str]
    views: FloatArray
    first_day: int
    days: int
    bins_a_day: int
    left_out: int

    @property
    def daily(self) -> FloatArray:
        """Views a day, (n, days)."""
        shape = (len(self.pages), self.days, self.bins_a_day)
        daily: FloatArray = self.views.reshape(shape).sum(axis=2)
        return daily


def gathered(
    pages: Sequence[str], page: IndexArray, bins: IndexArray, views: FloatArray, bins_a_day: int
) -> Views:
    """Sort rows by page and bin, and add up the views of equal page and bin."""
    order = np.lexsort((bins, page))
    page, bins, views = page[order], bins[order], views[order]
    starts = np.flatnonzero((np.diff(page, prepend=-1) != 0) | (np.diff(bins, prepend=-1) != 0))
    summed = np.add.reduceat(views, starts)
    return Views(list(pages), page[starts], bins[starts], summed, bins_a_day)


def window_of(views: Views, days: int, least_views: float) -> Window:
    """Cut out the last `days` days on record, or all if there are fewer.

    Pages with fewer than `least_views` views in them are left out. Raises HacsError if there are no
    views in the window.
    """
    first, last = views.days
    start = max(last - days + 1, first)
    k = views.bins_a_day
    inside = views.bin >= start * k
    page, bins, number = views.page[inside], views.bin[inside] - start * k, views.views[inside]
    total = np.bincount(page, weights=number, minlength=len(views.pages))
    if not total.any():
        raise HacsError(f"there are no views since {day_text(DAY * start)}")
    enough = np.flatnonzero((total >= least_views) & (total > 0))
    row_of = np.full(len(views.pages), -1)
    row_of[enough] = np.arange(enough.size)
    table = np.zeros((enough.size, (last - start + 1) * k))
    is_used = row_of[page] >= 0
    table[row_of[page[is_used]], bins[is_used]] = number[is_used]
    return Window(
        [views.pages[bins] for bins in enough.tolist()],
        table,
        start,
        last - start + 1,
        k,
        int((total > 0).sum()) - enough.size,
    )


def read_views(path: str, on_rows: Callable[[int], None] = lambda _rows: None) -> Views:
    """Read CSV with the columns page, date and views, gzipped or not; "-" is standard input.

    Dates are 2026-01-31, or all of them 2026-01-31T13; rows of one page and time are added up.
    `on_rows` gets the number of rows from time to time. Raises HacsError that names the line, and
    ArchiveError if the file cannot be read to its end.
    """
    lines = (line.decode("utf-8-sig", "replace") for line in read_lines(path))
    rows = csv.reader(lines)
    pages: dict[str, int] = {}
    page, bins, views = array("q"), array("q"), array("d")
    has_hour: set[bool] = set()
    url_of = lru_cache(maxsize=65_536)(lambda text: canonical_url(text) or text)
    try:
        titles = [title.strip().lower() for title in next(rows, [])]
        columns = [titles.index(name) for name in _COLUMNS]
        for number, row in enumerate(rows):
            if number % _ROWS_A_STEP == 0:
                on_rows(number)
            if not row:
                continue
            name, day, views_text = (row[column] for column in columns)
            page.append(pages.setdefault(url_of(name.strip()), len(pages)))
            bins.append(_bin_of(day.strip()))
            views.append(_number_of(views_text))
            has_hour.add("T" in day)
    except (csv.Error, ValueError, IndexError) as error:
        raise HacsError(
            f"{path}, line {rows.line_num}: {error}; what is read is CSV with the columns page, date "
            "(2026-01-31, or 2026-01-31T13 in all rows) and views"
        ) from error
    if len(has_hour) > 1:
        raise HacsError(f"{path}: some dates have an hour and others have none")
    numbers = np.array(views, dtype=np.float64)
    if not numbers.any():
        raise HacsError(f"{path}: there are no views in it")
    page_of, bin_of = np.array(page, dtype=np.int64), np.array(bins, dtype=np.int64)
    return gathered(list(pages), page_of, bin_of, numbers, HOURS if True in has_hour else 1)


def views_csv(views: Views) -> Iterator[bytes]:
    """Yield CSV: page, date, views; a date is 2026-01-31, or 2026-01-31T13 by the hour."""
    yield b"page,date,views\n"
    k = views.bins_a_day
    for start in range(0, views.page.size, _ROWS_A_STEP):
        text = io.StringIO()
        rows = slice(start, start + _ROWS_A_STEP)
        columns = (column[rows].tolist() for column in (views.page, views.bin, views.views))
        csv.writer(text, lineterminator="\n").writerows(
            (
                views.pages[page],
                day_text(DAY * (bin_ // k)) + f"T{bin_ % k:02}" * (k > 1),
                f"{number:g}" if number < 1e6 else int(number),
            )
            for page, bin_, number in zip(*columns, strict=True)
        )
        yield text.getvalue().encode("utf-8", "replace")


@lru_cache(maxsize=65_536)
def _bin_of(text: str) -> int:
    """Return the day, or if it names one the hour, since 1970; raises ValueError."""
    if len(text) == len("2026-01-31"):
        day, hour, k = date.fromisoformat(text), 0, 1
    else:
        moment = datetime.strptime(text, "%Y-%m-%dT%H")
        day, hour, k = moment.date(), moment.hour, HOURS
    days = (day - _EPOCH).days
    if not 0 <= days <= _MOST_DAYS:
        raise ValueError(f"{text!r} is no date of 1970 to 2070")
    return days * k + hour


def _number_of(text: str) -> float:
    number = float(text)
    if not 0 <= number < math.inf:
        raise ValueError(f"{text!r} is no number of views")
    return number

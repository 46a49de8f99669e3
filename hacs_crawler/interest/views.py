"""Views of pages by day or hour: counted, cut into windows, written and read."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

import numpy as np

from hacs_crawler.exceptions import HacsError
from hacs_crawler.utils.arrays import FloatArray, IndexArray

HOURS: Final = 24
_EPOCH: Final = date(1970, 1, 1)
_ROWS_A_WRITE: Final = 20_000


class ViewsError(HacsError):
    """A file of views cannot be used; the message names it."""


@dataclass(frozen=True, slots=True)
class Views:
    """How often pages were viewed; the arrays have an element for each page and bin with a record.

    `page` are places in `pages`; `bin` counts days since 1970, or hours where `bins_a_day` is 24, of
    the clock that the file keeps; rows are sorted by page and bin, and none is double.
    """

    pages: list[str]
    page: IndexArray
    bin: IndexArray
    views: FloatArray
    bins_a_day: int = 1

    @property
    def days(self) -> tuple[int, int]:
        """The first and the last day with a record, in days since 1970."""
        return (
            int(self.bin.min()) // self.bins_a_day,
            int(self.bin.max()) // self.bins_a_day,
        )


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
    pages: Sequence[str],
    page: IndexArray,
    bins: IndexArray,
    views: FloatArray,
    bins_a_day: int,
) -> tuple[Views, int]:
    """Sort rows and add up those of one page and bin; also return how many were added to others."""
    if not page.size:
        return Views(list(pages), page, bins, views, bins_a_day), 0
    order = np.lexsort((bins, page))
    page, bins, views = page[order], bins[order], views[order]
    is_first = np.r_[True, (page[1:] != page[:-1]) | (bins[1:] != bins[:-1])]
    starts = np.flatnonzero(is_first)
    summed = np.add.reduceat(views, starts)
    return (
        Views(list(pages), page[starts], bins[starts], summed, bins_a_day),
        int(page.size - starts.size),
    )


def window_of(views: Views, days: int, until: int | None, least_views: float) -> Window:
    """Cut out the last `days` days up to `until` (days since 1970; by default the last on record).

    A window does not begin before the first day on record. Pages with fewer than `least_views` views in
    it are left out. Raises ViewsError where there is no record in it.
    """
    if not views.views.any():
        raise ViewsError("there are no views")
    first, last = views.days
    end = last if until is None else until
    start = max(end - days + 1, first)
    k = views.bins_a_day
    inside = (views.bin >= start * k) & (views.bin < (end + 1) * k)
    if not views.views[inside].any():
        raise ViewsError(
            f"no views between {day_text(start)} and {day_text(end)}: they are of {day_text(first)} "
            f"to {day_text(last)}"
        )
    page, place, number = views.page[inside], views.bin[inside] - start * k, views.views[inside]
    total = np.bincount(page, weights=number, minlength=len(views.pages))
    kept = np.flatnonzero((total >= least_views) & (total > 0))
    row_of = np.full(len(views.pages), -1)
    row_of[kept] = np.arange(kept.size)
    table = np.zeros((kept.size, (end - start + 1) * k))
    is_kept = row_of[page] >= 0
    table[row_of[page[is_kept]], place[is_kept]] = number[is_kept]
    return Window(
        [views.pages[place] for place in kept.tolist()],
        table,
        start,
        end - start + 1,
        k,
        int((total > 0).sum()) - kept.size,
    )


def views_csv(views: Views) -> Iterator[bytes]:
    """Yield CSV: page, date, views; a date is 2026-01-31, or 2026-01-31T13 by the hour."""
    yield b"page,date,views\n"
    for start in range(0, views.page.size, _ROWS_A_WRITE):
        text = io.StringIO()
        rows = _rows(views, slice(start, start + _ROWS_A_WRITE))
        csv.writer(text, lineterminator="\n").writerows(rows)
        yield text.getvalue().encode("utf-8", "replace")


def _rows(views: Views, rows: slice) -> Iterator[tuple[str, str, str]]:
    k = views.bins_a_day
    for page, place, number in zip(
        views.page[rows].tolist(), views.bin[rows].tolist(), views.views[rows].tolist(), strict=True
    ):
        day, hour = divmod(place, k)
        text = day_text(day) if k == 1 else f"{day_text(day)}T{hour:02}"
        yield views.pages[page], text, f"{number:g}" if number < 1e6 else f"{number:.0f}"


def day_text(day: int) -> str:
    """Return the date of a day since 1970."""
    return (_EPOCH + timedelta(days=day)).isoformat()


def day_of(text: str) -> int:
    """Return the day since 1970 of a date in ISO 8601; raises ValueError where there is none."""
    return (date.fromisoformat(text) - _EPOCH).days

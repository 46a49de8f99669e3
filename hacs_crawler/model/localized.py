"""The estimators of S. R. Singh, "Estimating the Rate of Web Page Updates", IJCAI 2007.

Updates are a Poisson process whose rate changes with time. The rate is estimated from the last window of
updates in which the gaps keep their trend. Unlike in the paper, a page's last window ends with its last
visit T, not with the last update, so that quiet time since then counts. The expected number of updates
up to t days after a window's origin is a power of time, Λ(t) = c (t / T)^b, and λ is the rate at T.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hacs_crawler.model.gaps import Visits
from hacs_crawler.model.survival import TIMES
from hacs_crawler.utils.arrays import (
    BoolArray,
    FloatArray,
    IndexArray,
    offsets_of,
    page_of_value,
    sum_by_page,
)

# Windows with fewer update points are merged into their neighbours.
MIN_POINTS: Final = 4
# The threshold in the paper's figures, which do not name the unit.
THRESHOLD_DAYS: Final = 3.0
# days; gaps that differ by less are equal: midpoints of whole days have rounding errors
_SAME: Final = 1e-9
# Bounds of b.
SHAPES: Final = 0.001, 1000.0
_ROUNDING: Final = 1e-6  # days, a tenth of a second; visits are whole seconds apart
_MOST_LOG: Final = 600.0


class Kind(IntEnum):
    """The trend of a window's gaps: the sign of the difference between successive gaps."""

    SHRINKING = -1
    CONSTANT = 0
    GROWING = 1
    # A window of fewer than three points, without such a difference.
    REMAINS = 2


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of many pages, in the order of pages and of time.

    Window w has the update points days[offsets[w]:offsets[w + 1]], strictly increasing times since its
    origin, in days, all above 0. `origin_days` is the time of the update before the window, or of the
    first visit for a page's first window. `page` is the window's page, `kind` its `Kind`.
    """

    days: FloatArray
    offsets: IndexArray
    origin_days: FloatArray
    page: IndexArray
    kind: NDArray[np.int8]

    def __len__(self) -> int:
        return self.offsets.size - 1

    @property
    def counts(self) -> IndexArray:
        """Number of update points of each window."""
        return self.offsets[1:] - self.offsets[:-1]

    @property
    def last_days(self) -> FloatArray:
        """The last update point of each window, in days since its origin."""
        return self.days[self.offsets[1:] - 1]

    @property
    def is_last(self) -> BoolArray:
        """Whether each window is the last of its page."""
        return np.append(self.page[1:] != self.page[:-1], np.ones(min(len(self), 1), np.bool_))

    def of(self, chosen: BoolArray) -> "Windows":
        """Return the chosen windows (a mask)."""
        counts = self.counts
        return Windows(
            self.days[np.repeat(chosen, counts)],
            offsets_of(counts[chosen]),
            self.origin_days[chosen],
            self.page[chosen],
            self.kind[chosen],
        )


def consistent_windows(
    point_days: FloatArray,
    offsets: IndexArray,
    first_days: FloatArray,
    threshold_days: float = THRESHOLD_DAYS,
) -> Windows:
    """Cut each page's update points into windows of one trend, from the last point backward.

    point_days, offsets: as `Visits.update_points` returns them; first_days: each page's first visit,
    before its first point. Shape (n_pages,).

    A window begins with three points, and its trend is the sign of the difference between their two
    gaps. The next point follows the trend if its gap differs from the gap before in the same direction
    (or not at all, if the trend is constant). A point that does not follow it is accepted as long as the
    differences of such points, in days, add up to no more than the threshold; otherwise it is the first
    point of the next window.

    Then windows with fewer than `MIN_POINTS` points are split between their neighbours, in the order in
    which they were found: the half next to the neighbour found earlier, and an odd point, go to that
    neighbour, the rest to the other. If there is only one neighbour, it gets all points. A page with
    fewer points than `MIN_POINTS` has one window.
    """
    counts = np.diff(offsets)
    sizes, kinds, windows = _cut(-point_days[::-1], counts[::-1], threshold_days)
    sizes, kinds, windows = _without_small(sizes, kinds, windows)
    # the cut ran backward in time, so growing and shrinking are swapped
    kinds = np.where(kinds == Kind.REMAINS, kinds, -kinds)[::-1].astype(np.int8)
    sizes, windows = sizes[::-1], windows[::-1]
    page = np.repeat(np.arange(len(counts)), windows)
    cut = offsets_of(sizes)
    is_first = np.diff(page, prepend=-1) != 0
    origin = np.where(is_first, first_days[page], point_days[cut[:-1] - 1])
    return Windows(point_days - np.repeat(origin, sizes), cut, origin, page, kinds)


def _by_step(counts: IndexArray) -> tuple[IndexArray, Iterator[IndexArray]]:
    """Return the pages by descending number of values, and the places of all first values, second, ...

    In this order the pages with a k-th value come first: the k-th places belong to the first pages.
    """
    order = np.argsort(-counts, kind="stable")
    active = np.searchsorted(-counts[order], -np.arange(counts.max(initial=0)))
    first = offsets_of(counts)[:-1][order]
    return order, (first[:number] + step for step, number in enumerate(active.tolist()))


def _cut(
    days: FloatArray, counts: IndexArray, threshold: float
) -> tuple[IndexArray, NDArray[np.int8], IndexArray]:
    """Return sizes and kinds of the windows, and the number of windows of each page."""
    order, places = _by_step(counts)
    begins = np.zeros(len(days), np.bool_)
    kind_at = np.full(len(days), Kind.REMAINS, np.int8)
    size, used, before, state, started = (np.zeros(len(order)) for _ in range(5))
    for step, end in enumerate(places):
        mine = slice(len(end))
        gap = days[end] - days[end - 1] if step else 0.0
        change = gap - before[mine]
        sign = np.where(np.abs(change) <= _SAME, 0.0, np.sign(change))
        is_third = size[mine] == 2
        state[mine] = np.where(is_third, sign, state[mine])
        kind_at[started[mine][is_third].astype(np.int64)] = sign[is_third]
        breaks = (size[mine] >= 3) & (sign != state[mine])
        off = used[mine] + np.where(breaks, np.abs(change), 0.0)
        opens = (breaks & (off > threshold)) | (step == 0)
        begins[end[opens]] = True
        started[mine] = np.where(opens, end, started[mine])
        size[mine] = np.where(opens, 1, size[mine] + 1)
        used[mine] = np.where(opens, 0.0, off)
        before[mine] = gap
    starts = np.flatnonzero(begins)
    windows = np.diff(np.searchsorted(starts, offsets_of(counts)))
    return np.diff(starts, append=len(days)), kind_at[starts], windows


def _without_small(
    sizes: IndexArray, kinds: NDArray[np.int8], windows: IndexArray
) -> tuple[IndexArray, NDArray[np.int8], IndexArray]:
    """Merge windows with fewer than `MIN_POINTS` points into their neighbours."""
    order, places = _by_step(windows)
    kept = np.zeros_like(sizes)
    carried = np.zeros(len(order), np.int64)
    neighbour = np.full(len(order), -1, np.int64)
    for end in places:
        mine = slice(len(end))
        size = sizes[end] + carried[mine]
        is_large = size >= MIN_POINTS
        kept[end[is_large]] = size[is_large]
        neighbour[mine] = np.where(is_large, end, neighbour[mine])
        takes = ~is_large & (neighbour[mine] >= 0)
        half = (size + 1) // 2
        kept[neighbour[mine][takes]] += half[takes]
        carried[mine] = np.where(is_large, 0, np.where(takes, size - half, size))
    has_points = windows[order] > 0
    target = np.where(neighbour >= 0, neighbour, offsets_of(windows)[:-1][order])[has_points]
    kept[target] += carried[has_points]
    is_kept = kept > 0
    page = np.repeat(np.arange(len(windows)), windows)[is_kept]
    return kept[is_kept], kinds[is_kept], np.bincount(page, minlength=len(windows))


class LastWindows(NamedTuple):
    """The last windows of pages: c, b and T, and the places of the pages."""

    page: IndexArray
    expected: FloatArray
    shape: FloatArray
    watched_days: FloatArray

    def rate_per_day(self) -> FloatArray:
        """Return λ = c b / T."""
        return np.asarray(self.expected * self.shape / self.watched_days)

    def survival(self) -> FloatArray:
        """Return e^-(Λ(T + x) - Λ(T)) for each x of `TIMES`; (n_windows, times)."""
        grown = self.shape[:, None] * np.log1p(TIMES / self.watched_days[:, None])
        more = self.expected[:, None] * np.expm1(np.minimum(grown, _MOST_LOG))
        return np.asarray(np.exp(-more))


def last_windows(name: str, visits: Visits) -> LastWindows:
    """Return the last windows of the pages with at least `MIN_POINTS` updates.

    `name` is one of `estimators.LOCALIZED`. weibull: b = n / sum log(T / t_i) and c = n, the maximum
    likelihood for n updates up to T. duane: b = 1 - gamma, from Duane's plot, and c = n, as the plot
    ignores quiet time. matloff: b = 1 and the rate -log(1 - X / k) / tau for k visits in the window, X
    of them with an update, tau their mean distance.
    """
    days, offsets = visits.visit_days, visits.offsets
    first = (
        days[np.minimum(offsets[:-1], len(days) - 1)] if len(days) else np.zeros(len(offsets) - 1)
    )
    windows = consistent_windows(*visits.update_points(), first)
    windows = windows.of(windows.is_last & (windows.counts >= MIN_POINTS))
    watched = days[offsets[windows.page + 1] - 1] - windows.origin_days
    count, shape = windows.counts.astype(np.float64), np.ones(len(windows))
    if name == "matloff":
        k = np.maximum(_visits_in(windows, watched, visits), windows.counts)
        count = watched * matloff_rate(k, windows.counts, watched / k)
    elif name == "duane":
        shape = duane_line(windows)[0]
    else:
        ages = np.log(watched[page_of_value(windows.offsets)] / windows.days)
        shape = count / np.maximum(sum_by_page(ages, windows.offsets), 1e-300)
    return LastWindows(windows.page, count, np.clip(shape, *SHAPES), watched)


def _visits_in(windows: Windows, watched_days: FloatArray, visits: Visits) -> IndexArray:
    """Return how many visits each window has."""
    days = visits.visit_days
    # all pages on one time axis, one after the other
    span, least = np.ptp(days) + 1.0 if days.size else 1.0, days.min(initial=np.inf)
    order = page_of_value(visits.offsets) * span + (days - least)
    origin = windows.page * span + (windows.origin_days - least) + _ROUNDING
    begins = np.searchsorted(order, origin, side="right")
    return np.asarray(np.searchsorted(order, origin + watched_days, side="right") - begins)


def matloff_rate(intervals: ArrayLike, updated: ArrayLike, interval_days: ArrayLike) -> FloatArray:
    """Return -log(1 - X / k) / tau, 1/day; shapes broadcast, k is at least 1.

    N. Matloff, "Estimation of Internet file-access/modification rates from indirect data", ACM TOMACS
    15(3), 2005. The paper's M_n is read as X. If every interval has an update (X = k), that would be
    infinite: X = k - 1/2 is used instead.
    """
    k = np.asarray(intervals, np.float64)
    share = np.minimum(np.asarray(updated, np.float64), k - 0.5) / k
    return np.asarray(-np.log1p(-share) / np.asarray(interval_days, np.float64))


def duane_line(windows: Windows) -> tuple[FloatArray, FloatArray]:
    """Return 1 - gamma and log alpha of the line fitted to Duane's plot of each window."""
    window = page_of_value(windows.offsets)
    n = windows.counts
    number = np.arange(len(windows.days)) - windows.offsets[window] + 1.0
    x = np.log(windows.days)
    y = x - np.log(number)
    x_mean = sum_by_page(x, windows.offsets) / n
    y_mean = sum_by_page(y, windows.offsets) / n
    x_off = x - x_mean[window]
    squares = sum_by_page(x_off * x_off, windows.offsets)
    slope = np.divide(
        sum_by_page(x_off * y, windows.offsets),
        squares,
        out=np.full(len(windows), np.nan),
        where=(squares > 0) & (n > 1),
    )
    return 1.0 - slope, y_mean - slope * x_mean

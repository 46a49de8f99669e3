"""A page's updates, cut into windows within which the gaps between them keep their trend.

S. R. Singh, "Estimating the Rate of Web Page Updates", IJCAI 2007: updates are a Poisson process whose
rate changes with time, and the rate to use is that of the last consistent window.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.utils.arrays import BoolArray, FloatArray, IndexArray, offsets_of

# Windows of fewer update points are given to their neighbours.
MIN_POINTS: Final = 4
# The threshold of the paper's figures, which give no unit.
THRESHOLD_DAYS: Final = 3.0
# days; gaps that differ by less are equal, as are midpoints of whole days
_SAME: Final = 1e-9


class Kind(IntEnum):
    """How the gaps of a window go: the sign of the difference between two of them."""

    SHRINKING = -1
    CONSTANT = 0
    GROWING = 1
    # Joined from the rest of windows under three points, which lack such a difference.
    REMAINS = 2


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows of many pages, in the order of pages and of time.

    Window w has the update points days[offsets[w]:offsets[w + 1]], strictly increasing times since its
    origin, in days, all above 0. `origin_days` is the update before the window, the first visit for a
    page's first window, in the time of the visits. `page` is whose window it is, `kind` a `Kind`.
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
        """Whether a window is the last window of its page."""
        return np.append(self.page[1:] != self.page[:-1], np.ones(min(len(self), 1), np.bool_))

    def of(self, chosen: BoolArray) -> Windows:
        """Return the chosen windows."""
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
    """Cut each page's update points into windows that keep their state, from the last one backward.

    point_days, offsets: as `Visits.update_points` returns them; first_days: each page's first visit,
    before its first point. Shape (n_pages,).

    A window begins with three points, and its state is the sign of the difference between their two
    gaps. The next point keeps the state if its gap differs from the gap before in the same direction
    (or not at all, if the state is constant). A point that does not is let in while the discrepancy, the
    days by which its gap differs from the gap before, summed over all points so let in, is within the
    threshold. Else it is the first point of the next window.

    Then windows under `MIN_POINTS` points are given away, in the order in which they were found: the
    half nearer to the neighbour found before (and the odd point) goes to that, the rest to the next one.
    Points with a neighbour on one side only go there together. A page of fewer points has one window.
    """
    counts = np.diff(offsets)
    sizes, kinds, windows = _cut(-point_days[::-1], counts[::-1], threshold_days)
    sizes, kinds, windows = _without_small(sizes, kinds, windows)
    # time ran backward: gaps that grew shrink
    kinds = np.where(kinds == Kind.REMAINS, kinds, -kinds)[::-1].astype(np.int8)
    sizes, windows = sizes[::-1], windows[::-1]
    page = np.repeat(np.arange(len(counts)), windows)
    cut = offsets_of(sizes)
    is_first = np.diff(page, prepend=-1) != 0
    origin = np.where(is_first, first_days[page], point_days[cut[:-1] - 1])
    return Windows(point_days - np.repeat(origin, sizes), cut, origin, page, kinds)


def _by_step(counts: IndexArray) -> tuple[IndexArray, Iterator[IndexArray]]:
    """Return the pages, those with most first, and the places of their first, second, ... values.

    Pages with a k-th value are a beginning of all: the k-th places are of so many pages.
    """
    order = np.argsort(-counts, kind="stable")
    active = np.searchsorted(-counts[order], -np.arange(counts.max(initial=0)))
    first = offsets_of(counts)[:-1][order]
    return order, (first[:number] + step for step, number in enumerate(active.tolist()))


def _cut(
    days: FloatArray, counts: IndexArray, threshold: float
) -> tuple[IndexArray, NDArray[np.int8], IndexArray]:
    """Return sizes and kinds of the windows as they are cut, and how many each page has."""
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
    """Give windows under `MIN_POINTS` points to their neighbours, for all pages together."""
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

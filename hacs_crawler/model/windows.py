"""A page's updates, cut into windows within which the gaps between them keep their trend.

S. R. Singh, "Estimating the Rate of Web Page Updates", IJCAI 2007: updates are a Poisson process whose
rate changes with time, and the rate to use is that of the last consistent window.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.model.gaps import checked_visits
from hacs_crawler.utils.arrays import (
    BoolArray,
    FloatArray,
    IndexArray,
    checked_offsets,
    offsets_of,
    page_of_value,
)

# Windows of fewer update points are given to their neighbours.
MIN_POINTS: Final = 4
# The threshold of the paper's figures, which give no unit.
THRESHOLD_DAYS: Final = 3.0
# days; gaps that differ by less are equal, as are midpoints of whole days
_SAME: Final = 1e-9


class Kind(IntEnum):
    """How the gaps of a window go: the sign of the difference between its first two."""

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


def update_points(
    visit_days: FloatArray, updated: BoolArray, offsets: IndexArray
) -> tuple[FloatArray, IndexArray]:
    """Return the update times of each page, a time for each gap between visits with an update.

    Visits as for `gaps_between`; the update point is the middle of its gap. Returns the points, strictly
    increasing within a page, and n_pages + 1 positions in them.
    """
    visit_days, updated, offsets = checked_visits(visit_days, updated, offsets)
    points = updated.copy()
    points[offsets[:-1][offsets[1:] > offsets[:-1]]] = False
    at = np.flatnonzero(points)
    start, end = visit_days[at - 1], visit_days[at]
    return start + (end - start) / 2, np.searchsorted(at, offsets).astype(np.int64)


def consistent_windows(
    point_days: FloatArray,
    offsets: IndexArray,
    first_days: FloatArray,
    *,
    threshold_days: float = THRESHOLD_DAYS,
    is_summed: bool = True,
    backward: bool = True,
) -> Windows:
    """Cut each page's update points into windows that keep their state, from the last one backward.

    point_days, offsets: as `update_points` returns them; first_days: each page's first visit, before its
    first point. Shape (n_pages,).

    A window begins with three points, and its state is the sign of the difference between their two
    gaps: shrinking, constant or growing. The next point keeps the state if its gap differs from the
    gap before in the same direction (or not at all, if the state is constant). A point that does not is
    let in while the discrepancy, the days by which its gap differs from the gap before, is within the
    threshold: summed over all points so let in (`is_summed`), or each by itself. Else it is the first
    point of the next window. The paper does not say which; benchmarks/README.md compares both.

    Then windows under `MIN_POINTS` points are given away, in the order in which they were found: the
    half nearer to the neighbour found before (and the odd point) goes to that, the rest to the next one.
    Points with a neighbour on one side only go there together. A page of fewer points has one window.

    With backward = False all of it runs from the first update forward. Raises ValueError for points that
    are not strictly increasing, or not after the first visit.
    """
    days, offsets, first_days = _checked_points(point_days, offsets, first_days)
    counts = np.diff(offsets)
    scan = _Scan(days if not backward else -days[::-1], counts if not backward else counts[::-1])
    sizes, kinds, windows = scan.windows(threshold_days, is_summed=is_summed)
    sizes, kinds, windows = _without_small(sizes, kinds, windows)
    if backward:  # a mirror leaves shrinking gaps growing
        is_known = kinds != Kind.REMAINS
        kinds = np.where(is_known, -kinds, kinds)[::-1].astype(np.int8)
        sizes, windows = sizes[::-1], windows[::-1]
    page = np.repeat(np.arange(len(counts)), windows)
    cut = offsets_of(sizes)
    starts = cut[:-1]
    is_first = np.append(np.ones(min(len(page), 1), np.bool_), page[1:] != page[:-1])
    origin = np.where(is_first, first_days[page], days[starts - 1])
    return Windows(days - np.repeat(origin, sizes), cut, origin, page, kinds)


class _Scan:
    """Update points of all pages in the order in which they are scanned."""

    def __init__(self, days: FloatArray, counts: IndexArray) -> None:
        self.days, self.counts = days, counts
        self.offsets = offsets_of(counts)

    def windows(
        self, threshold: float, *, is_summed: bool
    ) -> tuple[IndexArray, NDArray[np.int8], IndexArray]:
        """Return sizes and kinds of the windows as they are cut, and how many each page has.

        Step k looks at the k-th point of every page that has one: the longest pages stand in front, so
        that those are a beginning of each array.
        """
        order = np.argsort(-self.counts, kind="stable")
        active = np.searchsorted(-self.counts[order], -np.arange(self.counts.max(initial=0)))
        first = self.offsets[:-1][order]
        begins = np.zeros(len(self.days), np.bool_)
        kind_at = np.full(len(self.days), Kind.REMAINS, np.int8)
        size, used, before = (np.zeros(len(order)) for _ in range(3))
        state = np.zeros(len(order), np.int8)
        started = first.copy()
        for step, number in enumerate(active.tolist()):
            end = first[:number] + step
            if step == 0:
                begins[end], size[:number] = True, 1
                continue
            gap = self.days[end] - self.days[end - 1]
            change = gap - before[:number]
            sign = np.where(np.abs(change) <= _SAME, 0.0, np.sign(change))
            is_third = size[:number] == 2
            breaks = (size[:number] >= 3) & (sign != state[:number])
            off = np.where(breaks, np.abs(change), 0.0)
            total = used[:number] + off if is_summed else off
            opens = breaks & (total > threshold)
            state[:number] = np.where(is_third, sign, state[:number])
            kind_at[started[:number][is_third]] = sign[is_third]
            begins[end[opens]] = True
            started[:number] = np.where(opens, end, started[:number])
            size[:number] = np.where(opens, 1, size[:number] + 1)
            used[:number] = np.where(opens, 0.0, used[:number] + off)
            before[:number] = gap
        starts = np.flatnonzero(begins)
        ends = np.append(starts[1:], len(self.days))[: len(starts)]
        windows = np.diff(np.searchsorted(starts, self.offsets))
        return ends - starts, kind_at[starts], windows.astype(np.int64)


def _without_small(
    sizes: IndexArray, kinds: NDArray[np.int8], windows: IndexArray
) -> tuple[IndexArray, NDArray[np.int8], IndexArray]:
    """Give windows under `MIN_POINTS` points to their neighbours, for all pages together."""
    order = np.argsort(-windows, kind="stable")
    active = np.searchsorted(-windows[order], -np.arange(windows.max(initial=0)))
    first = offsets_of(windows)[:-1][order]
    kept = np.zeros_like(sizes)
    carried = np.zeros(len(order), np.int64)
    neighbour = np.full(len(order), -1, np.int64)
    for step, number in enumerate(active.tolist()):
        end = first[:number] + step
        size = sizes[end] + carried[:number]
        is_large = size >= MIN_POINTS
        kept[end[is_large]] = size[is_large]
        neighbour[:number] = np.where(is_large, end, neighbour[:number])
        takes = ~is_large & (neighbour[:number] >= 0)
        half = (size + 1) // 2
        kept[neighbour[:number][takes]] += half[takes]
        carried[:number] = np.where(is_large, 0, np.where(takes, size - half, size))
    has_points = windows[order] > 0
    target = np.where(neighbour >= 0, neighbour, first)[has_points]
    kept[target] += carried[has_points]
    is_kept = kept > 0
    page = np.repeat(np.arange(len(windows)), windows)[is_kept]
    return kept[is_kept], kinds[is_kept], np.bincount(page, minlength=len(windows))


def _checked_points(
    point_days: FloatArray, offsets: IndexArray, first_days: FloatArray
) -> tuple[FloatArray, IndexArray, FloatArray]:
    days = np.ascontiguousarray(point_days, np.float64)
    offsets = checked_offsets(offsets, days.size)
    first_days = np.asarray(first_days, np.float64)
    if first_days.shape != (offsets.size - 1,):
        raise ValueError("first_days must have one element a page")
    if days.size:
        before = np.roll(days, 1)
        starts = np.unique(offsets[:-1][np.diff(offsets) > 0])
        before[starts] = first_days[page_of_value(offsets)[starts]]
        if not (np.isfinite(days).all() and (days > before).all()):
            raise ValueError("update points must be finite, after the first visit, and increase")
    return days, offsets, first_days

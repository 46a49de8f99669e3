"""Visits of a page -> the gaps between them, each with or without an update."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.utils.arrays import (
    BoolArray,
    FloatArray,
    IndexArray,
    blocks,
    offsets_of,
    page_of_value,
)

# For each visit or gap, the `LinkLifetime` of the links that the visit brought.
LinkLifetimes = NDArray[np.uint8]


class LinkLifetime(IntEnum):
    """What became of the new links of a visit."""

    # No later visit showed links, or there were no new links.
    UNKNOWN = 0
    # At least one of the links was on the page at the latest visit, or all of the page's new links
    # stayed until the next visit.
    LASTING = 1
    # At least one of the links was seen again, but none at the latest visit.
    PASSING = 2
    # None of the links was seen again.
    FLEETING = 3


@dataclass(frozen=True, slots=True)
class Gaps:
    """Gaps between visits, of many pages; page i owns [offsets[i]:offsets[i+1]], n_pages + 1 positions.

    days: length of each gap, > 0. updated: whether links appeared in it (when exactly is unknown:
    interval censoring). weight: the weight of the gap as evidence, 0 to 1.
    """

    days: FloatArray
    updated: BoolArray
    weight: FloatArray
    offsets: IndexArray

    def __len__(self) -> int:
        return self.offsets.size - 1

    @property
    def counts(self) -> IndexArray:
        """Number of gaps of each page."""
        return self.offsets[1:] - self.offsets[:-1]

    def in_blocks(self, most_gaps: int) -> Iterator[tuple[slice, slice, "Gaps"]]:
        """Yield blocks of pages with about `most_gaps` gaps: slices of pages and gaps, and the gaps."""
        for first, last in blocks(self.offsets, most_gaps):
            cut = self.offsets[first : last + 1]
            mine = slice(int(cut[0]), int(cut[-1]))
            some = Gaps(self.days[mine], self.updated[mine], self.weight[mine], cut - cut[0])
            yield slice(first, last), mine, some

    def of(self, chosen: BoolArray) -> "Gaps":
        """Return the gaps of the chosen pages (a mask of all pages)."""
        mine = np.repeat(chosen, self.counts)
        counts = offsets_of(self.counts[chosen])
        return Gaps(self.days[mine], self.updated[mine], self.weight[mine], counts)


@dataclass(frozen=True, slots=True)
class Visits:
    """Visits of many pages; page i owns [offsets[i]:offsets[i+1]], n_pages + 1 positions.

    visit_days: times t_0 < t_1 < ... of each page's visits, in days from any origin. updated[k]: links
    appeared between visit k-1 and visit k; ignored at a page's first visit. `fade_days` is the scale of
    the gaps' weights, inf: every gap has the weight 1. baselines[k]: visit k is a baseline, so that no
    gap ends there (None: no baselines). `lifetimes` are the lifetimes of the links that each visit
    brought, see `LinkLifetime` (None: unknown).
    """

    visit_days: FloatArray
    updated: BoolArray
    offsets: IndexArray
    fade_days: float = math.inf
    baselines: BoolArray | None = None
    lifetimes: LinkLifetimes | None = None

    def end_gaps(self) -> BoolArray:
        """Return which visits end a gap: all but each page's first, and baselines."""
        are_ends = np.ones(self.visit_days.size, np.bool_)
        are_ends[self.offsets[:-1][np.diff(self.offsets) > 0]] = False
        return are_ends if self.baselines is None else are_ends & ~self.baselines

    def gaps(self, *, is_interpolated: bool = False) -> Gaps:
        """Return the gaps t_k - t_(k-1) between successive visits (the t_c and t_u of Eq. 5).

        weight = exp(-age / fade_days), where age is the page's last visit minus the end of the gap.

        With `is_interpolated` gaps run between events (the t~_c and t~_u of HACS, Jayawardana et al.
        2020, section II-B2): the first visit t_0; the midpoint (t_(k-1) + t_k) / 2 of each gap with an
        update, in place of the update; and the end t_k of each gap without. So a quiet interval after an
        update starts at that update, not at the visit that found it, and the time from a last update to
        the last visit belongs to no interval.

        Raises ValueError for visits that are not strictly increasing within a page or not finite.
        """
        end = np.flatnonzero(self.end_gaps())
        updated, days = self.updated[end], self.visit_days
        if is_interpolated:
            days = days.copy()
            days[end[updated]] = self.update_points()[0]
        offsets = np.searchsorted(end, self.offsets)
        weight = np.ones(end.size)
        if math.isfinite(self.fade_days) and end.size:
            last_visit = self.visit_days[self.offsets[1:] - 1][page_of_value(offsets)]
            weight = np.exp((days[end] - last_visit) / self.fade_days)
        gap_days = days[end] - days[end - 1]
        if not ((gap_days > 0) & (gap_days < math.inf)).all():
            raise ValueError("every gap must be longer than 0 days, and finite")
        return Gaps(gap_days, updated, weight, offsets)

    def update_points(self) -> tuple[FloatArray, IndexArray]:
        """Return the middle of each gap with an update, in days, and n_pages + 1 offsets of pages."""
        at = np.flatnonzero(self.end_gaps() & self.updated)
        start, end = self.visit_days[at - 1], self.visit_days[at]
        return start + (end - start) / 2, np.searchsorted(at, self.offsets)

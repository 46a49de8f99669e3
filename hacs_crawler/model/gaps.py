"""Visits of a page -> the gaps between them, each with or without an update."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hacs_crawler.utils.arrays import (
    BoolArray,
    FloatArray,
    IndexArray,
    blocks,
    checked_offsets,
    offsets_of,
    page_of_value,
    sum_by_page,
)


@dataclass(frozen=True, slots=True)
class Gaps:
    """Gaps between visits, of many pages; page i owns [offsets[i]:offsets[i+1]].

    days: length of each gap, > 0. updated: whether links appeared in it (an update is only known
    to lie somewhere in its gap: interval censoring). weight: the weight of the gap as evidence, 0
    to 1. offsets: n_pages + 1 positions. Raises ValueError if the arrays do not fit together.
    """

    days: FloatArray
    updated: BoolArray
    weight: FloatArray
    offsets: IndexArray

    def __post_init__(self) -> None:
        if not self.days.shape == self.updated.shape == self.weight.shape == (self.days.size,):
            raise ValueError("days, updated and weight must be flat arrays of one length")
        if self.updated.dtype != np.bool_:
            raise ValueError("updated must be an array of booleans")
        checked_offsets(self.offsets, self.days.size)
        if self.days.size:
            if not (self.days.min() > 0 and self.days.max() < math.inf):
                raise ValueError("every gap must be longer than 0 days, and finite")
            if not (self.weight.min() >= 0 and self.weight.max() <= 1):
                raise ValueError("every weight must lie between 0 and 1")

    def __len__(self) -> int:
        return self.offsets.size - 1

    @property
    def counts(self) -> IndexArray:
        """Number of gaps of each page."""
        return self.offsets[1:] - self.offsets[:-1]

    def in_blocks(self, most_gaps: int) -> Iterator[tuple[slice, slice, Gaps]]:
        """Yield runs of pages with about `most` gaps: the places of pages and of gaps, and the gaps."""
        for first, last in blocks(self.offsets, most_gaps):
            cut = self.offsets[first : last + 1]
            mine = slice(int(cut[0]), int(cut[-1]))
            some = Gaps(self.days[mine], self.updated[mine], self.weight[mine], cut - cut[0])
            yield slice(first, last), mine, some

    def of(self, chosen: BoolArray) -> Gaps:
        """Return the gaps of the pages chosen; an element a page."""
        mine = np.repeat(chosen, self.counts)
        counts = offsets_of(self.counts[chosen])
        return Gaps(self.days[mine], self.updated[mine], self.weight[mine], counts)


def gaps_between(
    visit_days: FloatArray,
    updated: BoolArray,
    offsets: IndexArray,
    fade_days: float = math.inf,
    baselines: BoolArray | None = None,
    *,
    is_interpolated: bool = False,
) -> Gaps:
    """Gaps t_k - t_(k-1) between successive visits (the t_c and t_u of Eq. 5).

    visit_days: times t_0 < t_1 < ... of each page's visits, in days from any origin, flat.
    updated[k]: links appeared between visit k-1 and visit k; ignored at a page's first visit.
    offsets: n_pages + 1 positions in visit_days. A page of n visits has n-1 gaps, a page of 0 visits
    0. baselines[k]: visit k says nothing of the time since visit k-1, so that there is no gap;
    None if all visits do. weight = exp(-age / fade_days), where age is the page's last visit minus the
    end of the gap; fade_days = inf lets every gap count 1.

    With `is_interpolated` gaps run between events (the t~_c and t~_u of HACS, Jayawardana et al.
    2020, section II-B2): the first visit t_0; for a gap with an update the update, at its midpoint
    (t_(k-1) + t_k) / 2; for a gap without update its end t_k. So a quiet interval after an update
    starts at that update, not at the visit that found it, and the time from an interpolated update
    to the last visit belongs to no interval if the update is the last event.

    Raises ValueError for visits that are not strictly increasing within a page or not finite.
    """
    visit_days, updated, offsets = checked_visits(visit_days, updated, offsets, baselines)
    if not fade_days > 0:
        raise ValueError(f"fade_days must be greater than 0, not {fade_days}")
    visits = offsets[1:] - offsets[:-1]
    ends = np.ones(visit_days.size, dtype=np.bool_)
    ends[offsets[:-1][visits > 0]] = False
    event_days = visit_days
    if is_interpolated:
        event_days = visit_days.copy()
        at = np.flatnonzero(ends & updated)
        event_days[at] = visit_days[at - 1] + (visit_days[at] - visit_days[at - 1]) / 2
    counts = np.maximum(visits - 1, 0)
    if baselines is not None:
        ends &= ~baselines
        counts = sum_by_page(ends.astype(np.float64), offsets).astype(np.int64)
    end = np.flatnonzero(ends)
    days = event_days[end] - event_days[end - 1]
    gap_offsets = offsets_of(counts)
    if math.isinf(fade_days):
        weight = np.ones(end.size)
    else:
        last_visit = visit_days[offsets[1:] - 1][page_of_value(gap_offsets)] if end.size else days
        weight = np.exp((event_days[end] - last_visit) / fade_days)
    return Gaps(days, updated[end], weight, gap_offsets)


def checked_visits(
    visit_days: FloatArray,
    updated: BoolArray,
    offsets: IndexArray,
    baselines: BoolArray | None = None,
) -> tuple[FloatArray, BoolArray, IndexArray]:
    """Return visits as arrays of their types. Raises ValueError if they do not fit together."""
    visit_days = np.asarray(visit_days, dtype=np.float64)
    updated = np.asarray(updated, dtype=np.bool_)
    if visit_days.ndim != 1 or visit_days.shape != updated.shape:
        raise ValueError("visit_days and updated must be flat arrays of one length")
    if baselines is not None:
        if baselines.shape != visit_days.shape or baselines.dtype != np.bool_:
            raise ValueError("baselines must be an array of booleans as long as visit_days")
        updated = updated & ~baselines
    return visit_days, updated, checked_offsets(offsets, visit_days.size)

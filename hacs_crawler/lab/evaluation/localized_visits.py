"""Visits at the rate of the last window: Table 4 of Singh, IJCAI 2007."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from hacs_crawler.lab.evaluation.localized_error import CONTESTANTS
from hacs_crawler.lab.evaluation.update_points import Points
from hacs_crawler.model import MIN_POINTS, consistent_windows
from hacs_crawler.utils.arrays import FloatArray, page_of_value

HISTORY: Final = 0.5
"""The share of a page's time that is known; the rest is visited."""
LEAST_GAP_DAYS: Final = 0.01


@dataclass(slots=True)
class LocalizedVisits:
    """Visits of the second half of each page's time, one every 1/rate days.

    The rate is that at the last update of the last consistent window of the first half, and is held. A
    visit that comes after an update not seen yet observes it, however many there are; another is
    premature. Pages with fewer than `MIN_POINTS` updates in the first half are not visited.
    """

    pages: int = 0
    observed: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CONTESTANTS, 0))
    visits: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CONTESTANTS, 0))

    def add(self, points: Points) -> None:
        """Add pages."""
        split = points.first_days + HISTORY * (points.until_days - points.first_days)
        known = points.before(split)
        windows = consistent_windows(*known, points.first_days)
        mine = windows.of(windows.is_last & (windows.counts >= MIN_POINTS))
        self.pages += len(mine)
        for name, contestant in CONTESTANTS.items():
            rate = np.zeros(len(points))
            rate[mine.page] = contestant.rate(contestant.law(mine), mine.last_days)
            rate = np.minimum(rate, 1.0 / LEAST_GAP_DAYS)
            visits = np.floor((points.until_days - split) * rate)
            self.visits[name] += int(visits.sum())
            self.observed[name] += _observed(points, split, rate, visits)


def _observed(points: Points, split: FloatArray, rate: FloatArray, visits: FloatArray) -> int:
    """Return how many visits observe an update: visit k comes k / rate days after the split."""
    page = page_of_value(points.offsets)
    visit = np.ceil((points.days - split[page]) * rate[page])
    is_first = (np.diff(page, prepend=-1) != 0) | (np.diff(visit, prepend=0.0) != 0)
    return int((is_first & (visit >= 1) & (visit <= visits[page])).sum())

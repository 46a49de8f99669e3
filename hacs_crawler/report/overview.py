"""What the ranking rows of all pages tell: counts, their intervals, and pages worth a look."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.model import CHURNING
from hacs_crawler.state import Ids, Rows
from hacs_crawler.utils.arrays import IndexArray

INTERVAL_EDGES_DAYS: Final = 2.0 ** np.arange(-10.0, 13.5, 0.5)
"""Bounds of the classes of update intervals: 84 seconds to 22 years, two classes for each doubling.
The outer ones take what is beyond."""
_SPAN: Final = (INTERVAL_EDGES_DAYS[0], INTERVAL_EDGES_DAYS[-1])
REMARKABLE: Final = 100
"""How many pages of each kind are listed whatever their place in the plan."""


@dataclass(frozen=True, slots=True)
class Overview:
    """Counts over all pages.

    `evident` pages were visited twice or more, so that λ rests on them. `intervals` counts those by
    1/λ, in the classes of `INTERVAL_EDGES_DAYS`. `remarkable` are the pages with the lowest λ, with new
    links at every second request, gone, and updated last.
    """

    known: int
    visited: int
    evident: int
    intervals: IndexArray
    remarkable: Ids


def overview(page_ids: Ids, rows: Rows, now: float) -> Overview:
    """Return what ranking rows tell; `now` is in seconds since 1970 UTC."""
    is_waiting = rows["not_before"] > now
    is_evident = rows["visits"] > 1
    interval_days = 1.0 / rows["rate"][is_evident & (rows["rate"] > 0)]

    def first(which: NDArray[np.bool_], key: NDArray[np.number]) -> Ids:
        """Return the pages with the lowest keys."""
        places = np.flatnonzero(which)
        return page_ids[places[np.argsort(key[places], kind="stable")[:REMARKABLE]]]

    remarkable = (
        first(is_evident & ~is_waiting, rows["rate"]),
        first(rows["churn"] >= CHURNING, -rows["visits"].astype(np.int64)),
        first(is_waiting, -rows["not_before"].astype(np.int64)),
        first(rows["updates"] > 0, -rows["last_update"].astype(np.int64)),
    )
    return Overview(
        known=len(page_ids),
        visited=int((rows["visits"] > 0).sum()),
        evident=int(is_evident.sum()),
        intervals=np.histogram(interval_days.clip(*_SPAN), INTERVAL_EDGES_DAYS)[0],
        remarkable=np.unique(np.concatenate(remarkable)),
    )

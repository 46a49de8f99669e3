"""What the ranking rows of all pages tell: counts, distributions, and the pages at their ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.model import CHURNING
from hacs_crawler.ranking.policies import scramble
from hacs_crawler.state import Ids, Rows
from hacs_crawler.utils.arrays import FloatArray, IndexArray
from hacs_crawler.utils.times import DAY

LATELY_DAYS: Final = 30
INTERVAL_EDGES_DAYS: Final = 2.0 ** np.arange(-10.0, 13.5, 0.5)
"""Bounds of the classes of update intervals: 84 seconds to 22 years, two classes for each doubling."""
_MOST: Final = 65_536
VISIT_CLASSES: Final = np.array([1, 2, 3, 5, 9, 17, 33, 65, 129])
"""Where classes of numbers of visits begin; the last one has no end."""
UPDATE_CLASSES: Final = np.array([0, 1, 2, 3, 5, 9, 17, 33])
SAMPLED_PAGES: Final = 2_000
"""Of so many pages, chosen at random, the gaps between updates are looked at."""


@dataclass(frozen=True, slots=True)
class Overview:
    """Counts and distributions over all pages, and pages by id, most remarkable first.

    `evident` pages were visited twice or more, so that λ rests on them; `updated_lately` were found
    updated within `LATELY_DAYS`. `intervals` counts evident pages by 1/λ, in the classes of
    `INTERVAL_EDGES_DAYS`; `unmoved` are those whose λ is 0. `evidence` counts visited pages by class
    of visits (rows) and of updates (columns). `slowest` have the lowest λ, `quietest` were watched for
    longest without an update, `churning` show new links at half of all requests or more, however soon;
    `sample` is random.
    """

    known: int
    visited: int
    evident: int
    waiting: int
    failing: int
    updated_lately: int
    intervals: IndexArray
    unmoved: int
    evidence: IndexArray
    slowest: Ids
    quietest: Ids
    churning: Ids
    gone: Ids
    sample: Ids


def overview(page_ids: Ids, rows: Rows, now: float, limit: int) -> Overview:
    """Return what ranking rows tell; `now` is in seconds since 1970 UTC, lists have `limit` pages."""
    is_waiting = rows["not_before"] > now
    is_visited = rows["visits"] > 0
    is_evident = rows["visits"] > 1
    has_update = rows["updates"] > 0
    is_listed = is_evident & ~is_waiting
    # Rows hold unsigned numbers, of which a negative difference would be a large one.
    quiet_seconds = rows["last_visit"].astype(np.int64) - rows["last_update"]
    moving = page_ids[rows["updates"] > 1]
    with np.errstate(divide="ignore"):
        interval_days = 1.0 / rows["rate"][is_evident]

    def first(which: NDArray[np.bool_], *keys: NDArray[np.number]) -> Ids:
        """Return those pages that come first by the keys, the last of which matters most."""
        places = np.flatnonzero(which)
        return page_ids[places[np.lexsort([key[places] for key in keys])[:limit]]]

    return Overview(
        known=len(page_ids),
        visited=int(is_visited.sum()),
        evident=int(is_evident.sum()),
        waiting=int(is_waiting.sum()),
        failing=int((rows["failures"] > 0).sum()),
        updated_lately=int((has_update & (rows["last_update"] > now - LATELY_DAYS * DAY)).sum()),
        intervals=interval_counts(interval_days[np.isfinite(interval_days)]),
        unmoved=int(np.isinf(interval_days).sum()),
        evidence=_evidence(rows[is_visited]),
        slowest=first(is_listed, -rows["visits"].astype(np.int64), rows["rate"]),
        quietest=first(is_listed & (quiet_seconds > 0), -quiet_seconds),
        churning=first(rows["churn"] >= CHURNING, -rows["visits"].astype(np.int64)),
        gone=first(is_waiting, -rows["not_before"].astype(np.int64)),
        sample=moving[np.argsort(scramble(moving), kind="stable")[:SAMPLED_PAGES]],
    )


def interval_counts(days: FloatArray) -> IndexArray:
    """Count intervals by the classes of `INTERVAL_EDGES_DAYS`; the outer ones take what is beyond."""
    inside = np.clip(days, INTERVAL_EDGES_DAYS[0], INTERVAL_EDGES_DAYS[-1])
    return np.histogram(inside, INTERVAL_EDGES_DAYS)[0]


def _evidence(rows: Rows) -> IndexArray:
    edges = [np.append(classes, _MOST) for classes in (VISIT_CLASSES, UPDATE_CLASSES)]
    counts: IndexArray = np.histogram2d(rows["visits"], rows["updates"], edges)[0].astype(np.int64)
    return counts

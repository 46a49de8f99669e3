"""Which pages are news: what the days of a window tell of a page's views, without a curve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.model.interest_curves import Curves, bins_to_half, rise_of
from hacs_crawler.utils.arrays import BoolArray, FloatArray, IndexArray

Classes = NDArray[np.int8]
CLASSES: Final = ("temporal", "steady", "unknown", "unstable")
TEMPORAL, STEADY, UNKNOWN, UNSTABLE = range(4)

BEST_DAYS: Final = 3
"""The paper's n: interest that lasts so many days is short."""
PAPER_SHARE: Final = 0.7
"""The paper's q: a page is temporal if Phi(n) is more."""
CONCENTRATION: Final = 0.4
"""A page is temporal if its concentration is more: on labelled windows, of those with a spike 99.4 % are
above and of those without 99.1 % below (benchmarks/README.md)."""
LEFT_WEEK: Final = 7
LEFT_RATIO: Final = 1.75
"""A page that was falling when the window began has so many times its mean in the first week."""
LEAST_HALF: Final = 15
"""Days: half a window that is shorter tells nothing of how stable a class is."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How each page's views lie in the window; arrays of shape (n,).

    `best_share` is the share of the views on the best days (3), `gini` the Gini coefficient over the
    days, `half_life` the days from the rise until half of the views since then have come, `rise` the
    day of the rise, and `concentration` how much of what an even spread since the rise would leave
    for the other days lies on the best days instead: (best_share - e) / (1 - e), with e the share that
    as many of the days since the rise have. All but `rise` are nan where a page has no views.
    """

    best_share: FloatArray
    gini: FloatArray
    half_life: FloatArray
    concentration: FloatArray
    rise: IndexArray


def shape_of(views: FloatArray, best_days: int = BEST_DAYS) -> Shape:
    """Return what the views (n, days) tell of each page without a curve."""
    views = np.asarray(views, dtype=np.float64)
    n, days = views.shape
    total = views.sum(axis=1)
    whole = np.where(total > 0, total, np.nan)
    ascending = np.sort(views, axis=1)
    best = ascending[:, max(days - best_days, 0) :].sum(axis=1) / whole
    gini = (2 * (ascending @ np.arange(1.0, days + 1)) / (days * whole)) - (days + 1) / days
    rise = rise_of(views, best_days)
    since = np.where(np.arange(days) >= rise[:, None], views, 0.0)
    even = np.minimum(best_days / (days - rise), 1.0)
    spare = np.where(even < 1, 1 - even, np.nan)
    half_life = (
        np.where(total > 0, bins_to_half(since) - rise, np.nan) if days else np.full(n, np.nan)
    )
    return Shape(best, gini, half_life, (best - even) / spare, rise)


def classify(
    views: FloatArray, best_days: int = BEST_DAYS, concentration: float = CONCENTRATION
) -> Classes:
    """Return the place in `CLASSES` of each page of views (n, days), by its concentration.

    - *unknown*: it rose less than `best_days` days before the window's end; or before the window began,
      and was falling: how fast it rose and fell is not seen. Also a page without views.
    - *unstable*: the half of the window from its rise on has it in another class than the whole, or its
      class goes when its top day is capped at the next best (one robot, one burst). A page with views
      on one day only stays temporal.
    - *temporal* or *steady* otherwise.
    """
    views = np.asarray(views, dtype=np.float64)
    days = views.shape[1]
    shape = shape_of(views, best_days)
    is_temporal = shape.concentration > concentration
    is_changed = _is_temporal(_capped(views), best_days, concentration) != is_temporal
    half = days // 2
    if half >= LEAST_HALF:
        starts = np.minimum(shape.rise, days - half)
        in_half = np.take_along_axis(views, starts[:, None] + np.arange(half), axis=1)
        is_changed |= _is_temporal(in_half, best_days, concentration) != is_temporal
    classes = np.where(is_temporal, TEMPORAL, STEADY)
    classes[is_changed] = UNSTABLE
    is_late = shape.rise > days - best_days - 1
    classes[is_late | is_cut_left(views, shape.rise) | np.isnan(shape.best_share)] = UNKNOWN
    return classes.astype(np.int8)


def classify_by_curve(
    curves: Curves, best_days: int = BEST_DAYS, share: float = PAPER_SHARE
) -> Classes:
    """Return the classes as the paper has them: temporal if Phi(best_days) > share, else steady."""
    return np.where(curves.phi(best_days) > share, TEMPORAL, STEADY).astype(np.int8)


def is_cut_left(views: FloatArray, rise: IndexArray) -> BoolArray:
    """Whether a page was there, and falling, when the window began.

    It has risen by the second day, the first brings more than the mean day, and the first week
    `LEFT_RATIO` times as much. Windows of less than two weeks tell nothing.
    """
    if views.shape[1] < 2 * LEFT_WEEK:
        return np.zeros(len(views), dtype=np.bool_)
    mean = views.mean(axis=1)
    week = views[:, :LEFT_WEEK].mean(axis=1)
    is_cut: BoolArray = (rise <= 1) & (views[:, 0] > mean) & (week > LEFT_RATIO * mean)
    return is_cut


def _is_temporal(views: FloatArray, best_days: int, concentration: float) -> BoolArray:
    return shape_of(views, best_days).concentration > concentration


def _capped(views: FloatArray) -> FloatArray:
    """Return views with the top day cut down to the next best, where that is not 0."""
    if views.shape[1] < 2:
        return views
    next_best = np.partition(views, -2, axis=1)[:, -2:-1]
    return np.where(next_best > 0, np.minimum(views, next_best), views)

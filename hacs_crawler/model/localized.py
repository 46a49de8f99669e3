"""The estimators of S. R. Singh, IJCAI 2007, on stored visits: the rate of the last consistent window.

Unlike in the evaluation's forms (`power_law`), a page's last window ends with the last visit T, not with
the last update, so that quiet time since then counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from hacs_crawler.model.bayes import bayes_with_spread
from hacs_crawler.model.gaps import gaps_between
from hacs_crawler.model.power_law import PowerLaw, duane_shape, matloff_rate, weibull_shape_at
from hacs_crawler.model.prior import LogNormalPrior
from hacs_crawler.model.trend import MIN_POINTS, SHAPES, packed_trend
from hacs_crawler.model.windows import Windows, consistent_windows, update_points
from hacs_crawler.utils.arrays import BoolArray, FloatArray, IndexArray, page_of_value

_ROUNDING: Final = 1e-6  # days, a tenth of a second; visits are whole seconds apart


def windows_of_visits(
    visit_days: FloatArray, updated: BoolArray, offsets: IndexArray
) -> tuple[Windows, FloatArray]:
    """Return the windows of each page's updates, and for how long each window was watched.

    Visits as for `gaps_between`. A window is watched from its origin to its last update, a page's last
    window to the page's last visit; in days, shape (n_windows,).
    """
    points, point_offsets = update_points(visit_days, updated, offsets)
    starts = np.minimum(offsets[:-1], max(len(visit_days) - 1, 0))
    first = visit_days[starts] if len(visit_days) else np.zeros(len(starts))
    windows = consistent_windows(points, point_offsets, first)
    if not len(windows):
        return windows, np.zeros(0)
    until = visit_days[offsets[windows.page + 1] - 1] - windows.origin_days
    return windows, np.where(windows.is_last, until, windows.last_days)


def laws_of_windows(
    name: str,
    windows: Windows,
    watched_days: FloatArray,
    visit_days: FloatArray,
    offsets: IndexArray,
) -> PowerLaw:
    """Fit windows that were watched for so long, by the estimator of that name of `LOCALIZED`.

    weibull: beta = n / sum log(T / t_i), Lambda(T) = n: maximum likelihood. duane: the shape 1 - gamma
    of Duane's plot, and Lambda(T) = n, as the plot itself knows nothing of quiet time. matloff:
    -log(1 - X / k) / tau for k visits in the window, X of them with an update, tau their mean distance.
    Shapes are kept within `trend.SHAPES`. Times in days since a window's origin.
    """
    return _LAWS[name](windows, watched_days, visit_days, offsets)


def expected_up_to(
    name: str, visit_days: FloatArray, updated: BoolArray, days: FloatArray
) -> FloatArray | None:
    """Return how many updates of one page are expected from its first visit up to each of `days`.

    visit_days, updated: as for `gaps_between`, of one page. The sum of the laws of its windows, by the
    estimator of `LOCALIZED` of that name; its slope is the rate. Shape of `days`; nan outside of the
    time from the first to the last visit. None where the page has fewer than `MIN_POINTS` updates.
    """
    visits = visit_days, updated, np.array([0, len(visit_days)])
    windows, watched = windows_of_visits(*visits)
    if not len(windows) or windows.counts[0] < MIN_POINTS:
        return None
    law = laws_of_windows(name, windows, watched, visit_days, visits[2])
    number = np.maximum(np.searchsorted(windows.origin_days, days, side="right") - 1, 0)
    before = np.concatenate([[0.0], np.cumsum(law.expected(watched))])[number]
    is_known = (days >= visit_days[0]) & (days <= visit_days[-1])
    since = np.where(is_known, days, windows.origin_days[number]) - windows.origin_days[number]
    return np.where(is_known, before + law.of(number).expected(since), np.nan)


def localized_with_spread(
    name: str,
    visit_days: FloatArray,
    updated: BoolArray,
    offsets: IndexArray,
    *,
    fade_days: float,
    prior: LogNormalPrior,
    baselines: BoolArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Rates per day at the last visit, and how each goes on (`packed_trend`); shape (n_pages,) each.

    Visits as for `gaps_between`. A page with fewer than `MIN_POINTS` updates gets rate and log_sd of
    `bayes`, which is told by a second number below `MIN_POINTS`.
    """
    gaps = gaps_between(visit_days, updated, offsets, fade_days, baselines)
    windows, watched = windows_of_visits(visit_days, updated, offsets)
    is_last = windows.is_last & (windows.counts >= MIN_POINTS)
    mine, watched = windows.of(is_last), watched[is_last]
    rates, spreads = np.zeros(len(offsets) - 1), np.zeros(len(offsets) - 1)
    is_bayes = np.ones(len(rates), np.bool_)
    is_bayes[mine.page] = False
    rates[is_bayes], spreads[is_bayes] = bayes_with_spread(gaps.of(is_bayes), prior)
    if len(mine):
        law = laws_of_windows(name, mine, watched, visit_days, offsets)
        rates[mine.page] = law.rate(watched)
        spreads[mine.page] = packed_trend(mine.counts, law.shape)
    return rates, spreads


def _weibull(
    windows: Windows, watched_days: FloatArray, _visit_days: FloatArray, _offsets: IndexArray
) -> PowerLaw:
    return _through_n(windows, weibull_shape_at(windows, watched_days), watched_days)


def _duane(
    windows: Windows, watched_days: FloatArray, _visit_days: FloatArray, _offsets: IndexArray
) -> PowerLaw:
    return _through_n(windows, duane_shape(windows), watched_days)


def _through_n(windows: Windows, shape: FloatArray, watched_days: FloatArray) -> PowerLaw:
    n = windows.counts.astype(np.float64)
    return PowerLaw(n, np.clip(shape, *SHAPES), watched_days)


def _matloff(
    windows: Windows, watched_days: FloatArray, visit_days: FloatArray, offsets: IndexArray
) -> PowerLaw:
    """Count the visits within each window; X counts its updates, one a visit."""
    page = page_of_value(offsets)
    # the pages one after the other on one time line
    span = np.ptp(visit_days) + 1.0 if visit_days.size else 1.0
    least = visit_days.min(initial=np.inf)
    order = page * span + (visit_days - least)
    origin = windows.page * span + (windows.origin_days - least) + _ROUNDING
    ends = np.searchsorted(order, origin + watched_days, side="right")
    begins = np.searchsorted(order, origin, side="right")
    k = np.maximum(ends - begins, windows.counts)
    rate = matloff_rate(k, windows.counts, watched_days / k)
    return PowerLaw(rate * watched_days, np.ones(len(windows)), watched_days)


_LAWS: Final[Mapping[str, Callable[[Windows, FloatArray, FloatArray, IndexArray], PowerLaw]]] = (
    MappingProxyType({"weibull": _weibull, "duane": _duane, "matloff": _matloff})
)

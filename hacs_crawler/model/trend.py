"""A rate that changes with time, in the two numbers that the state keeps of a posterior.

The state keeps a rate and a log_sd of each page. Where a page's rate is that of a window of its own
updates, the second number holds how the rate goes on instead. No posterior has a log_sd of `MIN_POINTS`
(priors have at most 3), and no window fewer points: so that number itself tells which of the two it is.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from hacs_crawler.model.churn import Rates
from hacs_crawler.model.predictive import predictive_probability
from hacs_crawler.model.two_rates import chance_by_two_rates, has_two_rates
from hacs_crawler.utils.arrays import BoolArray, FloatArray

MIN_POINTS: Final = 4
"""Windows of fewer update points are given to their neighbours."""
MOST_POINTS: Final = 2_047
"""As many as a 32-bit float leaves 12 bits beside; the visits kept of a page are fewer."""
SHAPES: Final = 0.001, 1000.0
_SHARES: Final = SHAPES[0] / (1.0 + SHAPES[0]), SHAPES[1] / (1.0 + SHAPES[1])
_SECOND: Final = 1 / 86_400


def packed_trend(points: ArrayLike, shape: ArrayLike) -> FloatArray:
    """Return n + b / (1 + b) of a window of n update points and shape b; n at least `MIN_POINTS`.

    b is kept within `SHAPES`, n at `MOST_POINTS` at most. As a 32-bit float, which is what the state
    keeps, b is exact to 3e-6 (1 + b)²/b for n up to 31, and to 1.3e-4 (1 + b)²/b at worst.
    """
    n = np.clip(np.asarray(points, np.float64), MIN_POINTS, MOST_POINTS)
    b = np.clip(np.asarray(shape, np.float64), *SHAPES)
    packed: FloatArray = n + b / (1.0 + b)
    return packed


def unpacked_trend(spread: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return points and shape of what `packed_trend` packed; nan and nan for a posterior's log_sd."""
    packed = np.asarray(spread, np.float64)
    points = np.where(is_trend(packed), np.floor(packed), np.nan)
    share = np.clip(packed - points, *_SHARES)
    return points, share / (1.0 - share)


def is_trend(spread: ArrayLike) -> BoolArray:
    """Whether it is what `packed_trend` packed, and no log_sd."""
    found: BoolArray = np.asarray(spread) >= MIN_POINTS
    return found


def watched_days(rate_per_day: ArrayLike, spread: ArrayLike) -> FloatArray:
    """Return L = n b / rate, the days from a window's origin to the last visit; nan without a trend."""
    points, shape = unpacked_trend(spread)
    rate = np.asarray(rate_per_day, np.float64)
    days: FloatArray = points * shape / np.where(rate > 0, rate, np.nan)
    return days


def expected_updates(
    rate_per_day: ArrayLike, spread: ArrayLike, start_days: ArrayLike, end_days: ArrayLike
) -> FloatArray:
    """Return Lambda(T + end) - Lambda(T + start), the updates expected between two moments.

    Lambda(t) = n (t / L)^b, t counted from the window's origin, T = L the last visit, at which the
    intensity is `rate_per_day`; start_days and end_days are counted from it, negative before. A moment
    before the origin is taken for the origin. nan without a trend.
    """
    points, shape = unpacked_trend(spread)
    length = np.maximum(watched_days(rate_per_day, spread), _SECOND)

    def grown(days: ArrayLike) -> FloatArray:
        since = np.maximum(np.asarray(days, np.float64) / length, -1.0)
        with np.errstate(over="ignore", divide="ignore"):
            found: FloatArray = np.expm1(shape * np.log1p(since))
        return found

    with np.errstate(over="ignore"):
        expected: FloatArray = points * (grown(end_days) - grown(start_days))
    return expected


def chance_of_update(
    rates: Rates,
    elapsed_days: ArrayLike,
    *,
    quiet_days: ArrayLike = 0.0,
    before_days: ArrayLike = 0.0,
) -> FloatArray:
    """Return p, the probability of at least one update in e days; in [0, 1], shapes broadcast.

    With two rates or a log_sd, that of e - quiet_days (`two_rates`, `predictive`). With a packed trend,
    1 - exp(-(Lambda(now) - Lambda(start))), of which the share of e that is quiet is taken off; start is
    `before_days` before the last visit, now e after start. Infinite e gives 1.
    """
    elapsed = np.asarray(elapsed_days, np.float64)
    active = np.maximum(elapsed - np.asarray(quiet_days, np.float64), 0.0)
    rate_per_day, spread = rates.rate_per_day, rates.log_sd
    is_mixed = has_two_rates(spread)
    known = predictive_probability(rate_per_day, np.maximum(spread, 0.0), active)
    if is_mixed.any():
        mixed = chance_by_two_rates(spread, rates.fast_per_day, rates.slow_per_day, active)
        known = np.where(is_mixed, mixed, known)
    has_trend = is_trend(spread) & np.isfinite(elapsed)
    if not has_trend.any():
        return known
    start = -np.asarray(before_days, np.float64)
    finite = np.where(np.isfinite(elapsed), elapsed, 0.0)
    expected = expected_updates(rate_per_day, spread, start, start + finite)
    share = np.divide(active, elapsed, out=np.zeros_like(known), where=has_trend & (elapsed > 0))
    return np.where(has_trend, -np.expm1(-expected * share), known)

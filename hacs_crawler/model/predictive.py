"""The probability of an update where the rate itself is uncertain: log-normal about its mean."""

import math
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from hacs_crawler.utils.arrays import FloatArray

MOST_SPREAD: Final = 3.5
"""The largest log_sd that is told from a larger one; priors have at most 3."""
_SPREADS: Final = np.linspace(0.0, MOST_SPREAD, 106)
_LOG_UPDATES: Final = np.linspace(-16.0, 24.0, 641)  # log of the mean rate times the days
_Z: Final = np.linspace(-9.0, 9.0, 181)


def predictive_probability(
    rate_per_day: ArrayLike, log_sd: ArrayLike, elapsed_days: ArrayLike
) -> FloatArray:
    """Probability p = E[1 - exp(-lambda e)] of at least one update in e days.

    lambda is log-normal with mean `rate_per_day` and the standard deviation `log_sd` of its logarithm
    (0: the rate is known, p = 1 - exp(-lambda e)). In [0, 1], never above that of a known rate; shapes
    broadcast. It grows with rate and time. Infinite e gives 1 whatever the rate: e is infinite for a
    page never visited. Absolute error below 0.0005 (interpolated in a table). Raises ValueError for a
    rate, spread or time that is negative or nan, or an infinite rate.
    """
    rate = np.asarray(rate_per_day, np.float64)
    spread = np.asarray(log_sd, np.float64)
    elapsed = np.asarray(elapsed_days, np.float64)
    if not ((rate >= 0) & (rate < math.inf)).all():
        raise ValueError("rates must be at least 0 and finite")
    if not (spread >= 0).all():
        raise ValueError("log_sd must be at least 0, not nan")
    if not (elapsed >= 0).all():
        raise ValueError("elapsed days must be at least 0, not nan")
    never = np.isinf(elapsed)
    with np.errstate(divide="ignore", over="ignore"):
        updates = np.log(rate * np.where(never, 0.0, elapsed))
        p = -np.expm1(-np.exp(_interpolated(np.clip(updates, -745.0, 700.0), spread)))
    return np.where(never, 1.0, np.where(np.isneginf(updates), 0.0, p))


def spread_of(p: ArrayLike) -> FloatArray:
    """Return the log_sd with which `predictive_probability` is p after 1/rate days.

    Where p is above 1 - 1/e, which no uncertain rate gives, that is 0; `MOST_SPREAD` at most.
    """
    after_one = _table()[:, int(np.searchsorted(_LOG_UPDATES, 0.0))]
    effective = np.log(-np.log1p(-np.asarray(p, np.float64)))
    spread: FloatArray = np.interp(-effective, -after_one, _SPREADS)
    return spread


def _interpolated(updates: FloatArray, spread: FloatArray) -> FloatArray:
    """Return log(-log(1 - p)) for the log of the updates expected, by lines between the table's points.

    Left of the table p is the updates expected; right of it p is 1 to within the error.
    """
    table = _table()
    inside = np.clip(updates, _LOG_UPDATES[0], _LOG_UPDATES[-1])
    column = (inside - _LOG_UPDATES[0]) * ((len(_LOG_UPDATES) - 1) / np.ptp(_LOG_UPDATES))
    row = np.minimum(spread, MOST_SPREAD) * ((len(_SPREADS) - 1) / MOST_SPREAD)
    left = np.minimum(column.astype(np.intp), len(_LOG_UPDATES) - 2)
    low = np.minimum(row.astype(np.intp), len(_SPREADS) - 2)
    across, up = column - left, row - low
    lower = table[low, left] * (1 - across) + table[low, left + 1] * across
    upper = table[low + 1, left] * (1 - across) + table[low + 1, left + 1] * across
    found: FloatArray = lower * (1 - up) + upper * up + (updates - inside)
    return found


@cache
def _table() -> FloatArray:
    """Return log(-log(1 - p)) by spread and by the log of the updates expected.

    1 - p = E exp(-u exp(s z - s^2/2)), z standard normal, by the trapezoid rule: for an analytic
    integrand that vanishes at both ends its error falls exponentially in the number of points.
    """
    weight = np.exp(-_Z * _Z / 2)
    weight /= weight.sum()
    table = np.empty((len(_SPREADS), len(_LOG_UPDATES)))
    # one array for all rows: to get the memory of a new one takes longer than to fill it
    found = np.empty((len(_LOG_UPDATES), len(_Z)))
    for row, spread in zip(table, _SPREADS.tolist(), strict=True):
        factors = np.exp(spread * _Z - spread * spread / 2)
        np.multiply.outer(-np.exp(_LOG_UPDATES), factors, out=found)
        p = -np.expm1(found, out=found) @ weight
        with np.errstate(divide="ignore"):
            row[:] = np.log(-np.log1p(-p))
    # where p is 1 to the last bit, its logarithm says nothing: from there on as if the rate were known
    exact = _LOG_UPDATES
    table[0] = exact
    bad = ~np.isfinite(table)
    table[bad] = np.broadcast_to(exact, table.shape)[bad]
    return np.maximum.accumulate(table, axis=1)

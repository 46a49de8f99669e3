"""A page that goes on by two rates: S(x) = w e^(-a x) + (1 - w) e^(-b x) of no update in x days.

a >= b are fitted to the page's posterior at three times. w is kept where others keep the log_sd of a
rate, as -1 - w: no log_sd is below 0, so that the number itself tells which of the two it is.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from hacs_crawler.utils.arrays import BoolArray, FloatArray

_OCTAVES: Final = 2.0 ** np.arange(-6, 13)
TIMES: Final = np.concatenate([_OCTAVES, 3.0 * _OCTAVES])
"""Days after a visit, from 20 minutes to 34 years: at which the survival is wanted that is fitted."""
_LEVEL: Final = 0.85
"""The fit begins at the last octave with so much survival: most next visits come in three times that."""
_LEAST: Final = 1e-12
_DEAD: Final = 1e-3
"""Of less than this of the fast part at the first of the three times, they do not tell its rate."""


def fitted_two_rates(survival: FloatArray) -> FloatArray:
    """Return w, a and b of pages from their survival at `TIMES`, (n_pages, times); shape (3, n_pages).

    By Prony's method from S(t), S(2t) and S(3t): of any mixture of exponentials that is the Gauss
    quadrature with two points, w from 0 to 1. Where a page's rate grows with time, as it may in a quiet
    time, there is none: then a single rate, that of S(t).
    """
    pages = np.arange(len(survival))
    number = len(_OCTAVES)
    at = np.clip((survival[:, :number] >= _LEVEL).sum(axis=1) - 1, 0, number - 2)
    days = _OCTAVES[at]
    one, two, three = survival[pages, at], survival[pages, at + 1], survival[pages, at + number]
    spread = two - one * one
    is_mixed = spread > 1e-9
    safe = np.where(is_mixed, spread, 1.0)
    total, product = (three - one * two) / safe, (one * three - two * two) / safe
    root = np.sqrt(np.maximum(total * total - 4.0 * product, 0.0))
    slow, fast = (total + root) / 2, (total - root) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        share = (slow - one) / root
    is_mixed &= (fast > -_DEAD) & (slow < 1) & (root > 1e-9) & (share >= 0) & (share <= 1)
    single = np.clip(one, _LEAST, 1 - _LEAST)
    share = np.where(is_mixed, share, 0.0)
    slow_per_day = -np.log(np.where(is_mixed, slow, single)) / days
    fast_per_day = -np.log(np.where(is_mixed, np.maximum(fast, _LEAST), single)) / days
    is_dead = np.flatnonzero(is_mixed & (fast < _DEAD) & (share > _DEAD))
    if len(is_dead):
        fast_per_day[is_dead] = _fast_of(
            survival[is_dead, :number], share[is_dead], slow_per_day[is_dead]
        )
    return np.stack([share, np.maximum(fast_per_day, slow_per_day), slow_per_day])


def _fast_of(survival: FloatArray, share: FloatArray, slow_per_day: FloatArray) -> FloatArray:
    """Return the fast rate of pages of which nothing is left of it at the times of the fit.

    From the last octave at which half of its share is left.
    """
    slow = (1.0 - share[:, None]) * np.exp(-np.multiply.outer(slow_per_day, _OCTAVES))
    rest = (survival - slow) / share[:, None]
    last = np.maximum((rest >= 0.5).sum(axis=1) - 1, 0)
    left = np.clip(rest[np.arange(len(last)), last], _LEAST, 1 - _LEAST)
    found: FloatArray = -np.log(left) / _OCTAVES[last]
    return found


def packed_share(share: ArrayLike) -> FloatArray:
    """Return -1 - w."""
    packed: FloatArray = -1.0 - np.asarray(share, np.float64)
    return packed


def has_two_rates(log_sd: ArrayLike) -> BoolArray:
    """Whether it is what `packed_share` packed, and no log_sd."""
    found: BoolArray = np.asarray(log_sd) < 0
    return found


def unpacked_share(log_sd: ArrayLike) -> FloatArray:
    """Return w of what `packed_share` packed, 0 of others."""
    packed = np.asarray(log_sd, np.float64)
    return np.where(packed < 0, -1.0 - packed, 0.0)


def rate_at_visit(
    rate_per_day: FloatArray, log_sd: FloatArray, fast_per_day: ArrayLike, slow_per_day: ArrayLike
) -> FloatArray:
    """Return the rate right after the last visit: of two w a + (1 - w) b, of others `rate_per_day`."""
    is_mixed = has_two_rates(log_sd)
    if not is_mixed.any():
        return rate_per_day
    share = unpacked_share(log_sd)
    mixed = share * np.asarray(fast_per_day) + (1.0 - share) * np.asarray(slow_per_day)
    return np.where(is_mixed, mixed, rate_per_day)


def chance_by_two_rates(
    log_sd: ArrayLike, fast_per_day: ArrayLike, slow_per_day: ArrayLike, days: ArrayLike
) -> FloatArray:
    """Return 1 - S(days); shapes broadcast. Infinite days give 1."""
    share, time = unpacked_share(log_sd), np.asarray(days, np.float64)
    with np.errstate(invalid="ignore"):
        quick, late = (
            -np.expm1(-np.asarray(rate, np.float64) * time) for rate in (fast_per_day, slow_per_day)
        )
    found = share * quick + (1.0 - share) * late
    return np.where(np.isinf(time), 1.0, found)

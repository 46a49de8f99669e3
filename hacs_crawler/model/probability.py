"""From a rate and a time span to the probability of an update."""

import math

import numpy as np
from numpy.typing import ArrayLike

from hacs_crawler.utils.arrays import FloatArray


def elapsed_days(now_day: ArrayLike, reference_day: ArrayLike) -> FloatArray:
    """Elapsed time e = now - reference, in days, at least 0. Shapes broadcast.

    reference_day is the last visit, or tau, the last known update, under the paper's rule; nan
    means that there is none yet, and gives inf. A reference in the future (clocks that disagree)
    gives 0.
    """
    now = np.asarray(now_day, dtype=np.float64)
    reference = np.asarray(reference_day, dtype=np.float64)
    days = np.maximum(now - reference, 0.0)
    return np.where(np.isnan(reference), math.inf, days)


def update_probability(rate_per_day: ArrayLike, elapsed_days: ArrayLike) -> FloatArray:
    """Probability p = 1 - exp(-lambda e), the chance of at least one Poisson update in e days.

    In [0, 1]; shapes broadcast. Infinite e gives 1 whatever the rate, 0 included: e is infinite
    for a page that was never visited, and all that such a page holds is new. Raises ValueError for
    a rate or time that is negative or nan, or an infinite rate.
    """
    rate = np.asarray(rate_per_day, dtype=np.float64)
    elapsed = np.asarray(elapsed_days, dtype=np.float64)
    if not ((rate >= 0) & (rate < math.inf)).all():
        raise ValueError("rates must be at least 0 and finite")
    if not (elapsed >= 0).all():
        raise ValueError("elapsed days must be at least 0, not nan")
    never = np.isinf(elapsed)
    with np.errstate(over="ignore"):
        p = -np.expm1(-rate * np.where(never, 0.0, elapsed))
    return np.where(never, 1.0, p)

"""The log-normal curve of interest: how a page's views are spread over the days after its birth."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
import scipy

from hacs_crawler.utils.arrays import FloatArray

_ROOT_TWO_PI: Final = math.sqrt(2 * math.pi)


def lognormal_cumulative(days: FloatArray | float, mu: FloatArray, sigma: FloatArray) -> FloatArray:
    """Share of a page's interest that has come after so many days: N((ln t - mu) / sigma).

    N is the standard normal distribution function; `mu` and `sigma` are of ln(days). 0 at or before
    day 0. The arguments broadcast. The paper's Phi (Wang et al., "Identify Temporal Websites Based on
    User Behavior Analysis", IJCNLP 2008), with its A = 1 and b = 0.
    """
    return np.asarray(scipy.special.ndtr((log_days(days) - mu) / sigma))


def lognormal_density(days: FloatArray, mu: FloatArray, sigma: FloatArray) -> FloatArray:
    """Density a day of a page's interest after so many days; 0 at or before day 0. Broadcasts."""
    logs = log_days(days)
    z = (logs - mu) / sigma
    return np.asarray(np.exp(-0.5 * z * z - np.where(np.isinf(logs), 0.0, logs))) / (
        sigma * _ROOT_TWO_PI
    )


def log_days(days: FloatArray | float) -> FloatArray:
    """Natural logarithm, minus infinity at or below 0."""
    values = np.asarray(days, dtype=np.float64)
    return np.log(values, out=np.full(values.shape, -np.inf), where=values > 0)

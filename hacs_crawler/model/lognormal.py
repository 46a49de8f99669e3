"""The log-normal curve of interest: how a page's views are spread over the days after its birth."""

from __future__ import annotations

import numpy as np
import scipy

from hacs_crawler.utils.arrays import FloatArray


def lognormal_cumulative(days: FloatArray | float, mu: FloatArray, sigma: FloatArray) -> FloatArray:
    """Share of a page's interest that has come after t days: N((ln t - mu) / sigma).

    N is the standard normal distribution function; `mu` and `sigma` are of ln(days). 0 at or before
    day 0. The arguments broadcast. The paper's Phi (Wang et al., "Identify Temporal Websites Based on
    User Behavior Analysis", IJCNLP 2008), with its A = 1 and b = 0.
    """
    return np.asarray(scipy.special.ndtr((log_days(days) - mu) / sigma))


def log_days(days: FloatArray | float) -> FloatArray:
    """Natural logarithm, minus infinity at or below 0."""
    values = np.asarray(days, dtype=np.float64)
    return np.log(values, out=np.full(values.shape, -np.inf), where=values > 0)

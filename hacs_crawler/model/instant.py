"""The value of a visit to a hub: its links appear all the time, and interest in each of them fades.

Interest in a link t days old is 1 - Phi(t), the rest of the log-normal curve of a page's views
(`lognormal_cumulative`). With λ links a day, each worth w while it is new, a visit e days after the
last one is worth V(e) = λ w ∫₀ᵉ (1 - Phi(t)) dt. All functions broadcast; days and links a day are at
least 0.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import scipy
from numpy.typing import ArrayLike

from hacs_crawler.utils.arrays import FloatArray

# Shape of the gamma prior of hubs' links a day: rates of one tier differ by factors, not by shares.
RATE_SHAPE: Final = 0.5


def lognormal_cumulative(days: FloatArray | float, mu: FloatArray, sigma: FloatArray) -> FloatArray:
    """Share of a page's interest that has come after t days: N((ln t - mu) / sigma).

    N is the standard normal distribution function; `mu` and `sigma` are of ln(days). 0 at or before
    day 0. The arguments broadcast. The paper's Phi (Wang et al., "Identify Temporal Websites Based on
    User Behavior Analysis", IJCNLP 2008), with its A = 1 and b = 0.
    """
    return np.asarray(scipy.special.ndtr((_log_days(days) - mu) / sigma))


def mean_days(mu: ArrayLike, sigma: ArrayLike) -> FloatArray:
    """Mean time of interest in a link, m = ∫₀^∞ (1 - Phi) = exp(mu + sigma² / 2), in days."""
    mu, sigma = _floats(mu), _floats(sigma)
    return np.asarray(np.exp(mu + 0.5 * sigma * sigma))


def instant_index(
    days: ArrayLike,
    links_per_day: ArrayLike,
    mu: ArrayLike,
    sigma: ArrayLike,
    worth: ArrayLike = 1.0,
) -> FloatArray:
    """M(e) = V(e) - e V'(e) = λ w m G((ln e - mu - sigma²) / sigma), in links.

    V'(e) = λ w (1 - Phi(e)) is what waiting adds to a visit, and G the standard normal distribution
    function: m G is ∫₀ᵉ t φ(t) dt, φ the density of the curve. Of visits every τ days more frequent ones
    pay as long as M(τ) is above the price of a visit; at the best interval it is that price. It grows
    with e, from 0 to λ w m.
    """
    days, mu, sigma = _floats(days), _floats(mu), _floats(sigma)
    links = _floats(links_per_day) * _floats(worth)
    of_mean = scipy.special.ndtr((_log_days(days) - mu - sigma * sigma) / sigma)
    return np.asarray(links * mean_days(mu, sigma) * of_mean)


def update_index(p: ArrayLike) -> FloatArray:
    """1 - (1 + x) exp(-x) with x = -ln(1 - p): the index of a page whose updates keep their worth.

    A visit of it is worth 1 - exp(-λe) = p, the chance that there is an update, and V - e V' is the
    above at x = λe. Given by p, it orders pages as p does. p from 0 to 1; 1 gives 1. It is also what
    one more visit would find: V evenly spaced visits over a time T find V (1 - exp(-λT / V)) updates,
    and this is the derivative by V, with x = λT / V (Olston and Pandey 2008).
    """
    p = _floats(p)
    rest = 1.0 - p
    logs = np.log1p(-p, out=np.zeros_like(p), where=rest > 0)
    return np.asarray(np.maximum(p + rest * logs, 0.0))


def tier_rate(links: ArrayLike, days: ArrayLike, optimistic: float) -> float:
    """Mean links a day of a tier's hubs, from the number that each gained in its days.

    `optimistic` is the value without any data: it weighs as a day of one hub.
    """
    return float((optimistic + np.sum(links)) / (1.0 + np.sum(days)))


def hub_rate(links: ArrayLike, days: ArrayLike, tier_rate_per_day: ArrayLike) -> FloatArray:
    """Links a day of hubs, from the links that they gained in days, shrunk to the rate of their tier.

    Posterior mean (a + links) / (a / λ₀ + days) with a gamma prior of shape a = `RATE_SHAPE` and mean
    λ₀; λ₀ itself without any data. λ₀ is above 0.
    """
    before = RATE_SHAPE / _floats(tier_rate_per_day)
    return np.asarray((RATE_SHAPE + _floats(links)) / (before + _floats(days)))


def _floats(values: ArrayLike) -> FloatArray:
    return np.asarray(values, np.float64)


def _log_days(days: FloatArray | float) -> FloatArray:
    """Natural logarithm, minus infinity at or below 0."""
    values = np.asarray(days, dtype=np.float64)
    return np.log(values, out=np.full(values.shape, -np.inf), where=values > 0)

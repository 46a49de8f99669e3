"""The paper's fit of a curve of interest, as it is: least squares with a free birth b."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from hacs_crawler.lab.interest.curves import (
    Curves,
    best_of_starts,
    bins_to_half,
    by_block,
    products,
    rise_of,
)
from hacs_crawler.lab.interest.levenberg_marquardt import Quadratic
from hacs_crawler.utils.arrays import FloatArray, IndexArray

PAST_DAYS: Final = 1000.0
"""How far in the past b may go; beyond, the curve changes no more, but its parameters do."""
_LOG_ROOT_TWO_PI: Final = 0.5 * math.log(2 * math.pi)
_STARTS: Final = ((1.0, 0.7), (0.5, 1.5), (0.05, 1.0), (4.0, 0.3), (30.0, 0.1))
"""Days of b before the rise, and sigma."""
_LOG_SIGMA_RANGE: Final = (math.log(1e-4), math.log(20.0))
_MU_RANGE: Final = (-10.0, 12.0)


def fit_paper(
    views: FloatArray, on_rows: Callable[[int, int], None] = lambda _done, _total: None
) -> Curves:
    """Fit f(x) = A phi(x - b; mu, sigma) to each row of views (n, days), at x = 1, 2, ... days.

    phi is the log-normal density. Least squares over all days of the window with A, b, mu and sigma
    free, by Levenberg-Marquardt from several starts. Source: Wang, Liu, Zhang, Ma, Ru, "Identify
    Temporal Websites Based on User Behavior Analysis", IJCNLP 2008, section 3.

    It is not identifiable: a spike is fitted as well by a b far in the past, with a large mu and a
    sigma near 0, as by one at the spike, and Phi(3) is 0 for the one and 1 for the other.
    """
    return by_block(np.asarray(views, dtype=np.float64), _fit, on_rows)


class _Loss:
    """Half the sum of squares of A phi(x - b; mu, sigma) - y; parameters A, b, mu, ln sigma."""

    def __init__(self, y: FloatArray) -> None:
        self._y = y
        self._x = np.arange(1.0, y.shape[1] + 1)

    def __call__(self, parameters: FloatArray, rows: IndexArray) -> Quadratic:
        scale, b, mu, log_sigma = (column[:, None] for column in parameters.T)
        per_sigma = np.exp(-log_sigma)
        u = self._x - b
        is_before = u <= 0
        u[is_before] = 1.0
        logs = np.log(u)
        z = (logs - mu) * per_sigma
        # in place: an array more costs more than what is computed with it
        density = z * z
        density *= -0.5
        density -= logs
        density -= log_sigma + _LOG_ROOT_TWO_PI
        np.exp(density, out=density)
        density[is_before] = 0.0
        curve = scale * density
        by_log_sigma = curve * z
        by_mu = by_log_sigma * per_sigma
        by_b = curve + by_mu
        by_b /= u
        by_log_sigma *= z
        by_log_sigma -= curve
        slopes = (density, by_b, by_mu, by_log_sigma)
        off = curve
        off -= self._y[rows]
        return Quadratic(
            0.5 * np.einsum("nb,nb->n", off, off),
            np.stack([np.einsum("nb,nb->n", slope, off) for slope in slopes], axis=1),
            products(slopes, slopes),
        )


def _fit(views: FloatArray) -> Curves:
    total = views.sum(axis=1)
    rise = rise_of(views) + 1.0
    half = bins_to_half(views) + 1.0
    starts = []
    for before, sigma in _STARTS:
        b = rise - before
        mu = np.log(np.maximum(half - b, 0.3))
        starts.append(np.stack([np.ones_like(b), b, mu, np.full_like(b, math.log(sigma))], axis=1))
    lower = np.array([0.0, -PAST_DAYS, _MU_RANGE[0], _LOG_SIGMA_RANGE[0]])
    upper = np.array([np.inf, float(views.shape[1]), _MU_RANGE[1], _LOG_SIGMA_RANGE[1]])
    found = best_of_starts(_Loss(views / total[:, None]), starts, lower, upper)
    scale, b, mu, log_sigma = found.parameters.T
    return Curves(mu, np.exp(log_sigma), b, scale * total)

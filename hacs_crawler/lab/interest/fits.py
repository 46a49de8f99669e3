"""The fit of a curve of interest, anchored at the rise of a page's views."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np
import scipy

from hacs_crawler.lab.interest.curves import (
    ROOT_TWO_PI,
    STRAY_SHARE,
    Curves,
    Quadratic,
    best_of_starts,
    bins_to_half,
    by_block,
    lognormal_cumulative,
    products,
    rise_of,
)
from hacs_crawler.utils.arrays import FloatArray, IndexArray

# How many bins (days, or hours) before the rise b lies at most.
ANCHOR_BINS: Final = 2.0
MU_RANGE: Final = (-6.0, 8.0)
# For curves that daily views can distinguish: half of the interest in four minutes to eight years.
LOG_SIGMA_RANGE: Final = (math.log(0.05), math.log(4.0))
# Hourly views are used by the hour for so long after the rise, and by the day from then on.
FINE_DAYS: Final = 7
# Weight, in views, of a pull to mu = 0 and sigma = 1, which decides only if the views do not.
_PENALTY: Final = 1e-4
# Least share of a bin, so that one stray view does not rule a curve out.
_FLOOR: Final = 1e-9
# b - rise in bins, mu - ln(days to half of the views), sigma.
_ANCHORED_STARTS: Final = ((-0.1, 0.0, 0.5), (-0.1, 0.0, 1.2), (-1.0, 0.7, 0.5), (-1.0, 4.0, 2.5))


def fit_anchored(
    views: FloatArray,
    bins_a_day: int = 1,
    on_rows: Callable[[int, int], None] = lambda _done, _total: None,
) -> Curves:
    """Fit to each row of views (n, bins) the share of a log-normal curve that lies in each bin.

    The likelihood of Poisson counts in the bins from the rise (`rise_of`) to the end of the window,
    with A at its best value, so that the window's end cuts the curve and does not end it. A bin is a
    day, or an hour if `bins_a_day` is 24; b is at most two bins before the rise, and not after it. Where
    the views do not decide, as of a page with all of them in one bin, a weak penalty takes mu towards 0
    and sigma towards 1. Multiples of the views have the same mu, sigma and b.
    """
    views = np.asarray(views, dtype=np.float64)
    return by_block(views, lambda some: _anchored(some, bins_a_day), on_rows)


class _LogLoss:
    """Minus the log-likelihood of a view's bin, for each view; parameters b - rise, mu, ln sigma.

    `y` (n, bins) are the shares of each page's views in its bins, `edges` (n, bins + 1) the bins' ends
    in days since the rise: all bins beyond the window's end are empty, and have the same ends.
    """

    def __init__(self, y: FloatArray, edges: FloatArray) -> None:
        self._y = y
        self._edges = edges

    def __call__(self, parameters: FloatArray, rows: IndexArray) -> Quadratic:
        b, mu, log_sigma = parameters.T
        sigma = np.exp(log_sigma)[:, None]
        u = self._edges[rows] - b[:, None]
        is_after = u > 0
        u = np.where(is_after, u, 1.0)
        z = (np.log(u) - mu[:, None]) / sigma
        density = np.where(is_after, np.exp(-0.5 * z * z), 0.0) / ROOT_TWO_PI
        share = np.diff(np.where(is_after, scipy.special.ndtr(z), 0.0), axis=1) + _FLOOR
        whole = share.sum(axis=1, keepdims=True)
        slopes = []  # of ln(share / whole)
        for of_edge in (-density / (sigma * u), -density / sigma, -density * z):
            slope = np.diff(of_edge, axis=1)
            slopes.append(slope / share - slope.sum(axis=1, keepdims=True) / whole)
        expected = share / whole
        y = self._y[rows]
        loss = -np.einsum("nb,nb->n", y, np.log(expected))
        gradient = np.stack([-np.einsum("nb,nb->n", y, slope) for slope in slopes], axis=1)
        curvature = products(slopes, [expected * slope for slope in slopes])
        loss += 0.5 * _PENALTY * (mu**2 + log_sigma**2)
        gradient[:, 1] += _PENALTY * mu
        gradient[:, 2] += _PENALTY * log_sigma
        curvature[:, [1, 2], [1, 2]] += _PENALTY
        return Quadratic(loss, gradient, curvature)


def _rise_bins(views: FloatArray, bins_a_day: int) -> IndexArray:
    """Bin of each page's rise: the day's, or the hour of that day before which hardly a view came."""
    daily = views.reshape(len(views), -1, bins_a_day).sum(axis=2)
    rise: IndexArray = bins_a_day * rise_of(daily)
    if bins_a_day == 1:
        return rise
    since = np.where(np.arange(views.shape[1]) >= rise[:, None], views, 0.0)
    by_end = np.cumsum(since, axis=1)
    hour: IndexArray = np.argmax(by_end > STRAY_SHARE * by_end[:, -1:], axis=1)
    return np.maximum(rise, hour)


def _edges(bins: int, bins_a_day: int) -> IndexArray:
    """Where the bins of a fit end, in bins of the views since the rise."""
    fine = min(FINE_DAYS * bins_a_day, bins) if bins_a_day > 1 else bins
    return np.concatenate([np.arange(fine), np.arange(fine, bins, bins_a_day), [bins]])


def _anchored(views: FloatArray, bins_a_day: int) -> Curves:
    bins = views.shape[1]
    rise = _rise_bins(views, bins_a_day)
    ends = np.minimum(rise[:, None] + _edges(bins, bins_a_day), bins)
    before_end = np.pad(np.cumsum(views, axis=1), ((0, 0), (1, 0)))
    since = np.diff(np.take_along_axis(before_end, ends, axis=1), axis=1)
    total = since.sum(axis=1)
    edges = (ends - rise[:, None]) / bins_a_day
    from_rise = np.where(np.arange(bins) >= rise[:, None], views, 0.0)
    half = np.log(np.maximum(bins_to_half(from_rise) - rise, 0.1) / bins_a_day)
    starts = [
        np.stack(
            [np.full_like(half, b / bins_a_day), half + more, np.full_like(half, math.log(sigma))],
            axis=1,
        )
        for b, more, sigma in _ANCHORED_STARTS
    ]
    loss = _LogLoss(since / total[:, None], edges)
    lower = np.array([-ANCHOR_BINS / bins_a_day, MU_RANGE[0], LOG_SIGMA_RANGE[0]])
    upper = np.array([0.0, MU_RANGE[1], LOG_SIGMA_RANGE[1]])
    best = best_of_starts(loss, starts, lower, upper)
    after_rise, mu, log_sigma = best.parameters.T
    sigma = np.exp(log_sigma)
    ends_since_birth = edges[:, [0, -1]] - after_rise[:, None]
    seen = np.diff(lognormal_cumulative(ends_since_birth, mu[:, None], sigma[:, None]))[:, 0]
    return Curves(mu, sigma, rise / bins_a_day + after_rise, total / np.maximum(seen, _FLOOR))

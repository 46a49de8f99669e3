"""Curves of interest, one for each page, fitted to the views from their rise on, thousands together."""

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
import scipy

from hacs_crawler.utils.arrays import FloatArray, IndexArray

_FIRST_DAMPING: Final = 1e-2
_MIN_DAMPING: Final = 1e-9
_MAX_DAMPING: Final = 1e8
_TINY: Final = 1e-14
_MOST_STEPS: Final = 60
_TOLERANCE: Final = 1e-8


class Quadratic(NamedTuple):
    """Each problem near its parameters: loss (n,), gradient (n, k), curvature (n, k, k)."""

    loss: FloatArray
    gradient: FloatArray
    curvature: FloatArray


class Solution(NamedTuple):
    """The best parameters found (n, k), and their loss (n,)."""

    parameters: FloatArray
    loss: FloatArray


# Takes parameters (m, k) and the numbers of their problems (m,).
Evaluate = Callable[[FloatArray, IndexArray], Quadratic]


def minimise(
    evaluate: Evaluate, start: FloatArray, lower: FloatArray, upper: FloatArray
) -> Solution:
    """Minimise many losses together, each from its row of `start` (n, k), within bounds.

    `lower` and `upper` are of shape (k,); a step that leaves them ends on them, and a parameter that
    presses against its bound is held there for the step. Each problem has a damping of its own, scaled
    by the diagonal of its curvature (Marquardt, "An Algorithm for Least-Squares Estimation of Nonlinear
    Parameters", 1963). A problem is done when its loss falls by less than 1e-8 of itself, or
    when no damping makes it fall.
    """
    parameters = np.clip(start, lower, upper)
    rows = np.arange(len(start))
    here = evaluate(parameters, rows)
    loss = here.loss.copy()
    damping = np.full(len(start), _FIRST_DAMPING)
    for _ in range(_MOST_STEPS):
        if not rows.size:
            break
        step = _step(here, damping[rows], parameters[rows], lower, upper)
        tried = np.clip(parameters[rows] + step, lower, upper)
        there = evaluate(tried, rows)
        better = there.loss < loss[rows]
        fall = loss[rows] - there.loss
        done = (better & (fall <= _TOLERANCE * (np.abs(loss[rows]) + _TINY))) | (
            ~better & (damping[rows] >= _MAX_DAMPING)
        )
        taken = rows[better]
        parameters[taken], loss[taken] = tried[better], there.loss[better]
        damping[rows] = np.clip(
            damping[rows] * np.where(better, 0.1, 8.0), _MIN_DAMPING, _MAX_DAMPING
        )
        for kept, new in zip(here, there, strict=True):
            kept[better] = new[better]
        rows, here = rows[~done], Quadratic(*(values[~done] for values in here))
    return Solution(parameters, loss)


def _step(
    here: Quadratic,
    damping: FloatArray,
    parameters: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
) -> FloatArray:
    """Solve (H + damping * diag H) step = -gradient, without moving held parameters."""
    gradient, curvature = here.gradient.copy(), here.curvature.copy()
    held = ((parameters <= lower) & (gradient > 0)) | ((parameters >= upper) & (gradient < 0))
    gradient[held] = 0.0
    curvature[held] = 0.0
    np.swapaxes(curvature, 1, 2)[held] = 0.0
    diagonal = np.einsum("nii->ni", curvature)
    largest = diagonal.max(axis=1, keepdims=True)
    diagonal += damping[:, None] * diagonal + _TINY * largest + held
    diagonal[diagonal <= 0] = 1.0
    return -np.asarray(np.linalg.solve(curvature, gradient[:, :, None]), np.float64)[:, :, 0]


def lognormal_cumulative(days: FloatArray | float, mu: FloatArray, sigma: FloatArray) -> FloatArray:
    """Share of a page's interest that has come after t days: N((ln t - mu) / sigma).

    N is the standard normal distribution function; `mu` and `sigma` are of ln(days). 0 at or before
    day 0. The arguments broadcast. The paper's Phi (Wang et al., "Identify Temporal Websites Based on
    User Behavior Analysis", IJCNLP 2008), with its A = 1 and b = 0.
    """
    with np.errstate(divide="ignore"):
        logs = np.log(np.maximum(days, 0.0))
    return np.asarray(scipy.special.ndtr((logs - mu) / sigma))


ROOT_TWO_PI: Final = math.sqrt(2 * math.pi)
# Up to this share of a page's views may come before its rise: previews and strays.
STRAY_SHARE: Final = 0.02
# A rise multiplies the daily views by at least this factor.
RISE_RATIO: Final = 3.0
# Pages solved together, so that the arrays of a step fit a core's cache.
_BLOCK: Final = 1024


class Curves(NamedTuple):
    """One curve a page, each array of shape (n,); `mu` and `sigma` are of ln(days since b).

    `b` is in days since the first midnight of the window, `scale` in views. All are nan for a page
    without views.
    """

    mu: FloatArray
    sigma: FloatArray
    b: FloatArray
    scale: FloatArray

    def phi(self, days: float) -> FloatArray:
        """Share of each page's interest that comes within `days` days, with A = 1 and b = 0."""
        return lognormal_cumulative(days, self.mu, self.sigma)


def rise_of(views: FloatArray, days: int = 3) -> IndexArray:
    """Day of the window on which each page's interest rises, (n,), of views (n, days of the window).

    The candidate is the day before which views lag furthest behind an even spread, as at the end of a
    quiet time. It is the rise if the `days` days from it on have `RISE_RATIO` times the views of the
    days before it. Otherwise the rise is the first day by whose end more than `STRAY_SHARE` of all views
    have come, which is day 0 for a page that existed before. The rise does not depend on the scale of
    the views; pages without views have 0.
    """
    n_days = views.shape[1]
    total = views.sum(axis=1, keepdims=True)
    by_end = np.cumsum(views, axis=1)
    before = by_end - views
    first = np.argmax(by_end > STRAY_SHARE * total, axis=1)
    lowest = np.argmin(before - np.arange(n_days) / n_days * total, axis=1)
    rows = np.arange(len(views))
    end = np.minimum(lowest + days, n_days)
    after_a_day = (by_end[rows, end - 1] - before[rows, lowest]) / (end - lowest)
    before_a_day = before[rows, lowest] / np.maximum(lowest, 1)
    is_rise = (lowest > 0) & (after_a_day > RISE_RATIO * before_a_day)
    rise: IndexArray = np.where(is_rise, np.maximum(lowest, first), first)
    return rise


def bins_to_half(views: FloatArray) -> FloatArray:
    """Bins, from the first on, until half of each row's views have come, in the last by proportion."""
    by_end = np.cumsum(views, axis=1)
    half = 0.5 * by_end[:, -1]
    index = np.argmax(by_end >= half[:, None], axis=1)
    rows = np.arange(len(views))
    there = views[rows, index]
    missing = half - (by_end[rows, index] - there)
    part = np.divide(missing, there, out=np.zeros_like(half), where=there > 0)
    return np.asarray(index + part, np.float64)


def by_block(
    views: FloatArray,
    fit: Callable[[FloatArray], Curves],
    on_rows: Callable[[int, int], None] = lambda _done, _total: None,
) -> Curves:
    """Fit the rows that have views in blocks; `on_rows` gets the finished and the total number."""
    out = np.full((4, len(views)), np.nan)
    seen = np.flatnonzero(views.sum(axis=1) > 0)
    for start in range(0, seen.size, _BLOCK):
        rows = seen[start : start + _BLOCK]
        out[:, rows] = fit(views[rows])
        on_rows(start + rows.size, seen.size)
    return Curves(*out)


def best_of_starts(
    evaluate: Evaluate, starts: Sequence[FloatArray], lower: FloatArray, upper: FloatArray
) -> Solution:
    """Minimise from the two of the starts, each (n, k), that begin lowest; return the better end."""
    rows = np.arange(len(starts[0]))
    stacked = np.clip(np.stack(starts), lower, upper)
    order = np.argsort([evaluate(start, rows).loss for start in stacked], axis=0)
    first, second = (minimise(evaluate, stacked[order[k], rows], lower, upper) for k in (0, 1))
    is_second = second.loss < first.loss
    return Solution(
        np.where(is_second[:, None], second.parameters, first.parameters),
        np.where(is_second, second.loss, first.loss),
    )


# b is at most this many bins (days, or hours) before the rise.
ANCHOR_BINS: Final = 2.0
MU_RANGE: Final = (-6.0, 8.0)
# For curves that daily views can distinguish: half of the interest in four minutes to eight years.
LOG_SIGMA_RANGE: Final = (math.log(0.05), math.log(4.0))
# Hourly views are used by the hour for this time after the rise, and by the day afterwards.
FINE_DAYS: Final = 7
# Weight, in views, of a penalty towards mu = 0 and sigma = 1, which matters only if the views do not
# decide.
_PENALTY: Final = 1e-4
# Least share of a bin, so that a single stray view does not exclude a curve.
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
    with A at its best value, so that the curve may continue after the window. A bin is a day, or an hour
    if `bins_a_day` is 24; b is at most two bins before the rise, and not after it. If the views do not
    decide, as when all are in one bin, a weak penalty pulls mu towards 0 and sigma towards 1. mu, sigma
    and b do not depend on the scale of the views.
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
        of_edges = np.stack([-density / (sigma * u), -density / sigma, -density * z], axis=1)
        slopes = np.diff(of_edges, axis=2)
        # of ln(share / whole)
        slopes = slopes / share[:, None] - slopes.sum(axis=2, keepdims=True) / whole[:, None]
        expected = share / whole
        y = self._y[rows]
        loss = -np.einsum("nb,nb->n", y, np.log(expected))
        gradient = -np.einsum("nkb,nb->nk", slopes, y)
        curvature = (slopes * expected[:, None]) @ slopes.transpose(0, 2, 1)
        loss += 0.5 * _PENALTY * (mu**2 + log_sigma**2)
        gradient[:, 1] += _PENALTY * mu
        gradient[:, 2] += _PENALTY * log_sigma
        curvature[:, [1, 2], [1, 2]] += _PENALTY
        return Quadratic(loss, gradient, curvature)


def _rise_bins(views: FloatArray, bins_a_day: int) -> IndexArray:
    """Bin of each page's rise: the day, or the hour of that day with hardly any views before it."""
    daily = views.reshape(len(views), -1, bins_a_day).sum(axis=2)
    rise: IndexArray = bins_a_day * rise_of(daily)
    if bins_a_day == 1:
        return rise
    since = np.where(np.arange(views.shape[1]) >= rise[:, None], views, 0.0)
    by_end = np.cumsum(since, axis=1)
    hour: IndexArray = np.argmax(by_end > STRAY_SHARE * by_end[:, -1:], axis=1)
    return np.maximum(rise, hour)


def _anchored(views: FloatArray, bins_a_day: int) -> Curves:
    bins = views.shape[1]
    rise = _rise_bins(views, bins_a_day)
    fine = min(FINE_DAYS * bins_a_day, bins) if bins_a_day > 1 else bins
    since_rise = np.concatenate([np.arange(fine), np.arange(fine, bins, bins_a_day), [bins]])
    ends = np.minimum(rise[:, None] + since_rise, bins)
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

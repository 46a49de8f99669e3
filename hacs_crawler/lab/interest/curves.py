"""Curves of interest, one a page, and their fit to thousands of pages together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Final, NamedTuple

import numpy as np
import scipy

from hacs_crawler.utils.arrays import BoolArray, FloatArray, IndexArray

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


# Gets parameters (m, k) and which problems these are of (m,).
Evaluate = Callable[[FloatArray, IndexArray], Quadratic]


def minimise(
    evaluate: Evaluate,
    start: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
) -> Solution:
    """Minimise many losses together, each from its row of `start` (n, k), within bounds.

    `lower` and `upper` broadcast to (n, k); a step that leaves them ends on them, and a parameter that
    presses against its bound is held there for the step. Each problem has a damping of its own, scaled
    by the diagonal of its curvature (Marquardt, "An Algorithm for Least-Squares Estimation of Nonlinear
    Parameters", 1963). A problem is done when its loss falls by less than 1e-8 of itself, or
    when no damping makes it fall.
    """
    lower, upper = np.broadcast_to(lower, start.shape), np.broadcast_to(upper, start.shape)
    parameters = np.clip(start, lower, upper)
    rows = np.arange(len(start))
    here = evaluate(parameters, rows)
    loss = here.loss.copy()
    damping = np.full(len(start), _FIRST_DAMPING)
    for _ in range(_MOST_STEPS):
        if not rows.size:
            break
        tried = np.clip(
            parameters[rows]
            + _step(here, damping[rows], parameters[rows], lower[rows], upper[rows]),
            lower[rows],
            upper[rows],
        )
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
        here = _chosen(there, here, better)
        rows, here = rows[~done], _kept(here, ~done)
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


def _chosen(there: Quadratic, here: Quadratic, is_there: BoolArray) -> Quadratic:
    return Quadratic(
        np.where(is_there, there.loss, here.loss),
        np.where(is_there[:, None], there.gradient, here.gradient),
        np.where(is_there[:, None, None], there.curvature, here.curvature),
    )


def _kept(here: Quadratic, kept: BoolArray) -> Quadratic:
    return Quadratic(*(values[kept] for values in here))


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
# So much of a page's views before its rise may be previews and strays.
STRAY_SHARE: Final = 0.02
# By which factor a rise multiplies the views a day.
RISE_RATIO: Final = 3.0
# Pages solved together: the arrays of a step stay in a core's cache.
_BLOCK: Final = 1024


@dataclass(frozen=True, slots=True)
class Curves:
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

    Views that came before a day are fewest, compared with those that an even spread would have brought
    by then, if a rise follows a quiet time. That day is the rise if the `days` days from it on bring
    `RISE_RATIO` times the views of the days before it. Else it is the first day by whose end more than
    `STRAY_SHARE` of all views have come: day 0 of a page that existed before. Any multiple of the views
    has the same rise; pages without views have 0.
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
    out = Curves(*(np.full(len(views), np.nan) for _ in fields(Curves)))
    seen = np.flatnonzero(views.sum(axis=1) > 0)
    for start in range(0, seen.size, _BLOCK):
        rows = seen[start : start + _BLOCK]
        fitted = fit(views[rows])
        for field in fields(Curves):
            getattr(out, field.name)[rows] = getattr(fitted, field.name)
        on_rows(start + rows.size, seen.size)
    return out


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


def products(left: Sequence[FloatArray], right: Sequence[FloatArray]) -> FloatArray:
    """Symmetric matrices (n, k, k) of the sums over bins of left_i * right_j; each is (n, bins)."""
    k = len(left)
    out = np.empty((len(left[0]), k, k))
    for i in range(k):
        for j in range(i, k):
            out[:, i, j] = out[:, j, i] = np.einsum("nb,nb->n", left[i], right[j])
    return out

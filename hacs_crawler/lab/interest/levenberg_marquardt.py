"""Levenberg-Marquardt on a batch: thousands of small problems of one shape, solved at once.

`scipy.optimize` solves one problem a call: of the paper's fit 25 to 44 pages a second, and this 5,600
(benchmarks/README.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

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


Evaluate = Callable[[FloatArray, IndexArray], Quadratic]
"""Gets parameters (m, k) and which problems these are of (m,)."""


def minimise(
    evaluate: Evaluate,
    start: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
) -> Solution:
    """Minimise many losses at once, each from its row of `start` (n, k), within bounds.

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
    """Solve (H + damping * diag H) step = -gradient, with held parameters left where they are."""
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

"""The posterior rate under a log-normal prior, its mean and quantiles: by quadrature on log lambda."""

from collections.abc import Callable
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from hacs_crawler.model.gaps import Gaps
from hacs_crawler.model.posterior import Posterior
from hacs_crawler.model.prior import LogNormalPrior
from hacs_crawler.utils.arrays import (
    FloatArray,
    IndexArray,
    blocks,
    offsets_of,
    sum_by_page,
)

_BLOCK = 2048  # gaps at once; times 32 nodes, the working arrays stay in a core's cache
_DROP = 20.0  # nodes end where the log of the integrand has fallen by this: exp(-20) = 2e-9
_REACH_STEPS = 3
_NODES = (32, 64, 128, 256)
_NODES_PER_WIDTH = 1.8  # nodes per standard deviation at the mode
_NODES_PER_LOG = 2.5  # nodes per unit of log lambda: the likelihood's poles lie pi/2 off the axis
_QUANTILE_NODES = 1025


def bayes(gaps: Gaps, prior: LogNormalPrior) -> FloatArray:
    """Posterior mean of lambda per day, E[lambda | gaps]. Shape (n_pages,). Finite and > 0.

    log lambda ~ Normal(prior.log_median, prior.log_sd^2); the gaps' log-likelihood is
    sum_k w_k log(1 - exp(-lambda t_k)) over gaps with an update minus sum_k w_k lambda t_k over
    gaps without (the interval-censored Poisson process of Eq. 5, each gap raised to its weight).
    A page without gaps, or with all its weights 0, gets `prior.mean_rate`.

    Relative error at most 1e-6 for log_sd from 0.3 to 3, gaps from a minute to decades and up to
    300 gaps a page (checked against dense quadrature; 1e-9 is typical).

    More quiet time never raises the rate while the weights stay as they are. With fading, a new
    visit also ages the earlier gaps, and the page drifts back towards the prior.
    """
    rates = np.full(len(gaps), prior.mean_rate)
    _fill(rates, gaps, prior, _posterior_means)
    return rates


def bayes_quantiles(gaps: Gaps, prior: LogNormalPrior, q: ArrayLike) -> FloatArray:
    """Posterior quantiles of lambda per day, shape (n_pages, n_q), of the posterior of `bayes`.

    q: probabilities between 0 and 1, flat; (0.1, 0.5, 0.9) gives the median and the limits of the
    central 80% interval. A page without gaps, or with all its weights 0, gets the prior's quantiles.
    Relative error at most 0.1% for q from 0.01 to 0.99 (checked against dense quadrature in the
    range of `bayes`). Raises ValueError for a q that is not between 0 and 1.
    """
    levels = np.atleast_1d(np.asarray(q, np.float64))
    if levels.ndim != 1 or not ((levels > 0) & (levels < 1)).all():
        raise ValueError(f"q must be flat and between 0 and 1, not {q!r}")
    z = np.array([NormalDist().inv_cdf(level) for level in levels.tolist()])
    quantiles = np.tile(np.exp(prior.log_median + prior.log_sd * z), (len(gaps), 1))
    _fill(quantiles, gaps, prior, lambda posterior: _posterior_quantiles(posterior, levels))
    return quantiles


def _fill(
    out: FloatArray,
    gaps: Gaps,
    prior: LogNormalPrior,
    compute: Callable[[Posterior], FloatArray],
) -> None:
    """Put what `compute` makes of the pages' posteriors where there is any evidence."""
    used = gaps.updated & (gaps.weight > 0)
    quiet_days = sum_by_page(np.where(gaps.updated, 0.0, gaps.weight * gaps.days), gaps.offsets)
    if used.all():
        t, weight, offsets = gaps.days, gaps.weight, gaps.offsets
    else:
        t, weight = gaps.days[used], gaps.weight[used]
        offsets = offsets_of(sum_by_page(used.astype(np.float64), gaps.offsets).astype(np.int64))
    known = (quiet_days > 0) | (offsets[1:] > offsets[:-1])
    if not known.any():
        return
    for first, last in blocks(offsets, _BLOCK):
        cut = offsets[first : last + 1]
        mine = slice(cut[0], cut[-1])
        found = compute(
            Posterior(t[mine], weight[mine], cut - cut[0], quiet_days[first:last], prior)
        )
        out[first:last][known[first:last]] = found[known[first:last]]


def _posterior_means(posterior: Posterior) -> FloatArray:
    mode = posterior.mode()
    left, right = mode.reach(_DROP, _REACH_STEPS)
    span = right - left
    wanted = span * np.maximum(_NODES_PER_WIDTH * mode.sharpness, _NODES_PER_LOG)
    tier = np.minimum(np.searchsorted(_NODES, wanted), len(_NODES) - 1)
    if (tier == tier[0]).all():
        return _quadrature(posterior, mode.x, left, right, _NODES[tier[0]])
    means = np.empty(span.size)
    for k in np.unique(tier):
        pages: IndexArray = np.flatnonzero(tier == k)
        means[pages] = _quadrature(
            posterior.take(pages), mode.x[pages], left[pages], right[pages], _NODES[k]
        )
    return means


def _quadrature(
    posterior: Posterior, mode: FloatArray, left: FloatArray, right: FloatArray, n_nodes: int
) -> FloatArray:
    """Trapezoid rule for both integrals of the mean, on nodes from mode+left to mode+right.

    x(z) = mode + a z + b (sqrt(1 + z^2) - 1), z in [-1, 1], puts the mode at z = 0 and the ends at
    -1 and 1, so that a skewed posterior becomes nearly symmetric in z. For an analytic integrand
    that vanishes at both ends the rule's error falls exponentially in the number of nodes.
    """
    distance, dx_dz = _nodes(left, right, n_nodes)
    log_density = posterior.log_density(mode[:, None] + distance)
    log_density -= log_density.max(axis=1, keepdims=True)
    mass = np.exp(log_density) * dx_dz
    mean: FloatArray = np.exp(mode) * (mass * np.exp(distance)).sum(axis=1) / mass.sum(axis=1)
    return mean


def _nodes(left: FloatArray, right: FloatArray, n_nodes: int) -> tuple[FloatArray, FloatArray]:
    """Return the nodes' distances from the mode, x - mode, and dx/dz."""
    z = np.linspace(-1.0, 1.0, n_nodes)
    root = np.sqrt(1 + z * z)
    a, b = (right - left) / 2, (right + left) / (2 * (np.sqrt(2.0) - 1))
    distance = np.multiply.outer(a, z) + np.multiply.outer(b, root - 1)
    return distance, a[:, None] + np.multiply.outer(b, z / root)


def _posterior_quantiles(posterior: Posterior, levels: FloatArray) -> FloatArray:
    """Invert the distribution function, summed by the trapezoid rule, along straight lines."""
    mode = posterior.mode()
    distance, dx_dz = _nodes(*mode.reach(_DROP, _REACH_STEPS), _QUANTILE_NODES)
    log_density = posterior.log_density(mode.x[:, None] + distance)
    log_density -= log_density.max(axis=1, keepdims=True)
    mass = np.exp(log_density) * dx_dz
    below = np.cumsum(mass[:, 1:] + mass[:, :-1], axis=1)
    below /= below[:, -1:]
    below = np.concatenate([np.zeros((len(below), 1)), below], axis=1)
    found = np.empty((len(below), len(levels)))
    rows = np.arange(len(below))
    for column, level in enumerate(levels):
        right = np.argmax(below >= level, axis=1)  # at least 1: the first is 0
        left = right - 1
        share = (level - below[rows, left]) / (below[rows, right] - below[rows, left])
        step = distance[rows, right] - distance[rows, left]
        found[:, column] = np.exp(mode.x + distance[rows, left] + share * step)
    return found

"""The posterior rate under a log-normal prior, its mean and quantiles: by quadrature on log lambda."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from hacs_crawler.model.gaps import Gaps
from hacs_crawler.model.predictive import spread_of
from hacs_crawler.model.prior import LogNormalPrior
from hacs_crawler.utils.arrays import (
    FloatArray,
    IndexArray,
    blocks,
    offsets_of,
    page_of_value,
    sum_by_page,
)

_MAX_STEPS = 60
_LONGEST_STEP = 2.0  # on log lambda, against the flat parts of the slope
_CLOSE_ENOUGH = 0.02  # of a standard deviation: the mode only places the nodes
_MAX_EXPONENT = 700.0
_LEAST_EXPONENT = 1e-12
_LEAST_QUIET = 1e-300
_TILT = np.array([[0.0], [1.0]])  # the integrand of the mean is e^x times the density
_BLOCK = 2048  # gaps at once; times 32 nodes, the working arrays stay in a core's cache
_DROP = 20.0  # nodes end where the log of the integrand has fallen by this: exp(-20) = 2e-9
_REACH_STEPS = 3
_NODES = (32, 48, 64, 128, 256)
_NODES_PER_WIDTH = 1.8  # nodes per standard deviation at the mode
_NODES_PER_LOG = 2.5  # nodes per unit of log lambda: the likelihood's poles lie pi/2 off the axis
_QUANTILE_NODES = 1025


@dataclass(frozen=True, slots=True)
class Mode:
    """Where the posterior of each page is densest, and the shape of its terms there.

    x: log lambda. precision: 1 / log_sd^2. quiet: Q e^x, both slope (negative) and curvature of
    the quiet term. slope, bend: slope and curvature (negative) of the updates' terms.
    """

    x: FloatArray
    precision: float
    quiet: FloatArray
    slope: FloatArray
    bend: FloatArray

    @property
    def sharpness(self) -> FloatArray:
        """1 / (standard deviation of a normal density of the same curvature)."""
        sharpness: FloatArray = np.sqrt(self.precision + self.quiet + self.bend)
        return sharpness

    def reach(self, drop: float, steps: int) -> tuple[FloatArray, FloatArray]:
        """Distances left < 0 < right from the mode at which the integrands have died away.

        On the left log density has fallen by `drop`, on the right log density + x has: the mean
        of lambda integrates e^x times the density, and that reaches further right.

        The updates' terms are replaced by that of W equal gaps with the same slope and curvature
        at the mode; u solves g(u) + u - 1 = bend/slope, here to 3%. What remains are Newton steps
        on a concave function from outside its root, which stay outside.
        """
        some = self.slope > 0
        ratio = np.divide(self.bend, self.slope, out=np.ones_like(self.x), where=some)
        u = np.minimum(np.maximum(ratio - np.expm1(-ratio), _LEAST_EXPONENT), _MAX_EXPONENT)
        gaps = self.slope * np.expm1(u) / u
        tilt = _TILT + (self.quiet - self.slope)
        level = drop + self.quiet - gaps * np.log(-np.expm1(-u))
        d = self._outer_reach(drop)
        for _ in range(steps):
            grown = np.exp(d)
            quiet = self.quiet * grown
            scaled = u * grown
            seen = -np.expm1(-scaled)
            bow = self.precision * d
            value = level + d * (tilt - bow / 2) - quiet + gaps * np.log(seen)
            d = d - value / (tilt - bow - quiet + gaps * scaled * (1 - seen) / seen)
        return d[0], d[1]

    def _outer_reach(self, drop: float) -> FloatArray:
        """Distances beyond `reach`: where prior and quiet time alone bring the fall about.

        On the right quiet (e^d - 1) <= drop + (1 + quiet) d holds at the root, so that any d beyond
        the root gives a closer one.
        """
        sd = 1 / math.sqrt(self.precision)
        d = np.empty((2, self.x.size))
        d[0] = -sd * math.sqrt(2 * drop)
        right = d[1]
        right[:] = sd * (sd + math.sqrt(sd * sd + 2 * drop))
        quiet = np.maximum(self.quiet, _LEAST_QUIET)
        for _ in range(2):
            np.minimum(right, np.log1p((drop + (1 + quiet) * right) / quiet), out=right)
        return d


@dataclass(frozen=True)
class Posterior:
    """Posteriors of a batch of pages: gaps with an update (t, weight, ragged) and quiet days."""

    t: FloatArray
    weight: FloatArray
    offsets: IndexArray
    quiet_days: FloatArray
    prior: LogNormalPrior

    @cached_property
    def _page(self) -> IndexArray:
        return page_of_value(self.offsets)

    def take(self, pages: IndexArray) -> "Posterior":
        """Select some of the pages."""
        counts = (self.offsets[1:] - self.offsets[:-1])[pages]
        offsets = offsets_of(counts)
        gap = np.arange(offsets[-1]) + np.repeat(self.offsets[pages] - offsets[:-1], counts)
        return Posterior(self.t[gap], self.weight[gap], offsets, self.quiet_days[pages], self.prior)

    def log_density(self, x: FloatArray, rate: FloatArray) -> FloatArray:
        """Log density, up to a constant, at x and e^x of shape (n_pages, n_nodes)."""
        # In place throughout: fresh arrays of this size would leave the core's cache.
        out: FloatArray = (x - self.prior.log_median) / self.prior.log_sd
        out *= out
        out *= -0.5
        out -= self.quiet_days[:, None] * rate
        if self.t.size:
            term = rate[self._page]
            term *= -self.t[:, None]
            np.expm1(term, out=term)
            np.negative(term, out=term)
            np.log(term, out=term)
            term *= self.weight[:, None]
            out += sum_by_page(term, self.offsets)
        return out

    def mode(self) -> Mode:
        """Find the modes by Newton steps of limited length, inside a bracket.

        The start is the rate of a Gamma posterior: one update in exp(log_median) for each
        1/log_sd^2, and the middle of each gap with an update for the time of its update.
        """
        precision = self.prior.log_sd**-2
        m = self.prior.log_median
        evidence = sum_by_page(self.weight, self.offsets)
        days = self.quiet_days + sum_by_page(self.weight * self.t, self.offsets) / 2
        x = np.log((evidence + precision) / (days * np.exp(m) + precision)) + m
        low, high = np.full(x.size, -np.inf), np.full(x.size, np.inf)
        for _ in range(_MAX_STEPS):
            rate = np.exp(x)
            quiet = self.quiet_days * rate
            u = np.minimum(rate[self._page] * self.t, _MAX_EXPONENT)
            g = u / np.expm1(u)
            weighted = self.weight * g
            slope = sum_by_page(weighted, self.offsets)
            bend = sum_by_page(weighted * (g + u - 1), self.offsets)
            uphill = slope - quiet - (x - m) * precision
            sharpness2 = precision + quiet + bend
            step = uphill / sharpness2
            if (step * step * sharpness2).max() < _CLOSE_ENOUGH**2:
                break
            low, high = np.where(step > 0, x, low), np.where(step < 0, x, high)
            x = x + np.clip(step, -_LONGEST_STEP, _LONGEST_STEP)
            outside = (x < low) | (x > high)
            if outside.any():
                x = np.where(outside, (low + high) / 2, x)
        return Mode(x, precision, quiet, slope, np.maximum(bend, 0.0))


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
    return bayes_with_spread(gaps, prior)[0]


def bayes_with_spread(gaps: Gaps, prior: LogNormalPrior) -> tuple[FloatArray, FloatArray]:
    """Posterior mean of lambda per day, as `bayes`, and the spread of the posterior; (n_pages,) each.

    The spread is the log_sd of the log-normal distribution that has the posterior's mean and its
    probability of an update within 1/mean days, E[1 - exp(-lambda/mean)]: what
    `predictive_probability` asks for. A page without gaps, or with all its weights 0, gets the prior's
    log_sd, exactly; at any other time of a page with gaps the probability is off by at most 0.03
    (tests/model/test_predictive.py).
    """
    found = np.tile([prior.mean_rate, prior.log_sd], (len(gaps), 1))
    _fill(found, gaps, prior, _posterior_means)
    return found[:, 0], found[:, 1]


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
    found = np.empty((span.size, 2))
    for k in np.unique(tier):
        pages: IndexArray = np.flatnonzero(tier == k)
        found[pages] = _quadrature(
            posterior.take(pages), mode.x[pages], left[pages], right[pages], _NODES[k]
        )
    return found


def _quadrature(
    posterior: Posterior, mode: FloatArray, left: FloatArray, right: FloatArray, n_nodes: int
) -> FloatArray:
    """Trapezoid rule for the integrals of mean and spread, on nodes from mode+left to mode+right.

    x(z) = mode + a z + b (sqrt(1 + z^2) - 1), z in [-1, 1], puts the mode at z = 0 and the ends at
    -1 and 1, so that a skewed posterior becomes nearly symmetric in z. For an analytic integrand
    that vanishes at both ends the rule's error falls exponentially in the number of nodes.
    """
    distance, dx_dz = _nodes(left, right, n_nodes)
    x = mode[:, None] + distance
    rate = np.exp(x)
    log_density = posterior.log_density(x, rate)
    # Of a page with many gaps exp() would be 0 at every node.
    log_density -= log_density.max(axis=1, keepdims=True)
    mass = np.exp(log_density, out=log_density)
    mass *= dx_dz
    total = mass.sum(axis=1)
    mean: FloatArray = np.einsum("ij,ij->i", mass, rate) / total
    rate /= -mean[:, None]
    missed = np.einsum("ij,ij->i", mass, np.exp(rate, out=rate)) / total
    return np.stack([mean, spread_of(1.0 - missed)], axis=1)


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
    x = mode.x[:, None] + distance
    log_density = posterior.log_density(x, np.exp(x))
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

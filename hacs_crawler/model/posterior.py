"""The posterior of x = log lambda for a batch of pages: its density, mode, and reach.

log density(x) = -(x - m)^2 / (2 s^2) - Q e^x + sum_k w_k log(1 - exp(-t_k e^x)) + constant,
with Q the weighted quiet days and t_k, w_k the gaps with an update. Every term is concave in x.
With g(u) = u / (e^u - 1) and u_k = t_k e^x, a gap's term has the slope w g(u) and the curvature
-w g(u) (g(u) + u - 1).
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hacs_crawler.model.prior import LogNormalPrior
from hacs_crawler.utils.arrays import (
    FloatArray,
    IndexArray,
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

    def log_density(self, x: FloatArray) -> FloatArray:
        """Log density, up to a constant, at x of shape (n_pages, n_nodes)."""
        rate = np.exp(x)
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

"""Churn: new links that the request brought, not time; and rates of which it was told apart.

A visit after a gap of t days shows links never seen with probability 1 - (1 - c) exp(-lambda t). c is the
page's churn, the chance that any request shows new links however little time has passed: session ids,
random tokens, rotating boxes. Gaps of many lengths tell lambda from c, short ones best; of gaps of one
length only the prior does.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.polynomial.legendre import leggauss

from hacs_crawler.model.bayes import bayes_with_spread
from hacs_crawler.model.gaps import Gaps
from hacs_crawler.model.predictive import spread_of
from hacs_crawler.model.prior import LogNormalPrior
from hacs_crawler.utils.arrays import FloatArray, IndexArray, blocks, offsets_of, sum_by_page

CHURNING_PAGES: Final = 0.05
"""The share of pages that churn, before anything is known of them."""
SUSPICIOUS_RATE: Final = 1.2
"""From so many of the prior's standard deviations above its median on, a rate is suspicious."""
SUSPICIOUS_SCORE: Final = 1.5
"""And from so many standard deviations of the slope of the likelihood in c, at c = 0, on."""
_BLOCK: Final = 256  # gaps at once: times the grid, the working array stays in a core's cache
_LEFT, _RIGHT, _NODES = 5.0, 7.0, 72  # log lambda, in the prior's standard deviations about its median
_C, _C_WEIGHTS = (np.concatenate([[0.0], (leggauss(8)[0] + 1) / 2]), leggauss(8)[1] / 2)


@dataclass(frozen=True, slots=True)
class Rates:
    """What is estimated of pages; arrays of shape (n_pages,).

    `rate_per_day` is the posterior mean of lambda, the rate of what time brings, `log_sd` its spread as
    in `bayes_with_spread`, `churn` the posterior mean of c.
    """

    rate_per_day: FloatArray
    log_sd: FloatArray
    churn: FloatArray


def rates_with_churn(
    gaps: Gaps, prior: LogNormalPrior, churning_pages: float = CHURNING_PAGES
) -> Rates:
    """Posterior of lambda and c of each page, from its gaps.

    lambda has the log-normal prior. c is 0 with probability 1 - `churning_pages` (the spike), else
    uniform on (0, 1) (the slab). A Beta prior with its mass near 0 will not do: it lets a page of session
    links win after four controls (E[c] = 0.57).

    Pages without suspicion, which are nearly all, have c = 0 and cost what `bayes_with_spread` costs:
    those whose rate is not unusually high for the prior, and whose likelihood does not grow with c.
    """
    rate, log_sd = bayes_with_spread(gaps, prior)
    churn = np.zeros(len(gaps))
    pages = _suspicious(gaps, rate, prior)
    if pages.size:
        few = _taken(gaps, pages)
        rate[pages], log_sd[pages], churn[pages] = _posterior(few, prior, churning_pages)
    return Rates(rate, log_sd, churn)


def _suspicious(gaps: Gaps, rate: FloatArray, prior: LogNormalPrior) -> IndexArray:
    """Return the places of pages that may churn."""
    updates = sum_by_page(gaps.weight * gaps.updated, gaps.offsets)
    is_fast = np.log(rate) > prior.log_median + SUSPICIOUS_RATE * prior.log_sd
    each = np.repeat(rate, gaps.counts) * gaps.days
    odds = 1.0 / np.expm1(np.clip(each, 1e-12, 700.0))
    slope = sum_by_page(gaps.weight * np.where(gaps.updated, odds, -1.0), gaps.offsets)
    variance = sum_by_page(gaps.weight * odds, gaps.offsets)
    is_steep = slope > SUSPICIOUS_SCORE * np.sqrt(np.maximum(variance, 1e-12))
    return np.flatnonzero((updates > 1.0) & (is_fast | is_steep))


def _taken(gaps: Gaps, pages: IndexArray) -> Gaps:
    counts = gaps.counts[pages]
    offsets = offsets_of(counts)
    place = np.arange(offsets[-1]) + np.repeat(gaps.offsets[pages] - offsets[:-1], counts)
    return Gaps(gaps.days[place], gaps.updated[place], gaps.weight[place], offsets)


def _posterior(
    gaps: Gaps, prior: LogNormalPrior, churning_pages: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Sum over a grid of log lambda and c, whose first column is the spike."""
    x = np.linspace(
        prior.log_median - _LEFT * prior.log_sd, prior.log_median + _RIGHT * prior.log_sd, _NODES
    )
    x = np.minimum(x, 8.0)  # 3,000 updates a day: no visits tell faster ones apart
    at_rate = -0.5 * ((x - prior.log_median) / prior.log_sd) ** 2
    weights = np.concatenate([[1.0 - churning_pages], churning_pages * _C_WEIGHTS])
    found = np.empty((3, len(gaps)))
    rate = np.exp(x)
    for first, last in blocks(gaps.offsets, _BLOCK):
        cut = gaps.offsets[first : last + 1]
        mine = slice(cut[0], cut[-1])
        log_likelihood = _log_likelihood(
            Gaps(gaps.days[mine], gaps.updated[mine], gaps.weight[mine], cut - cut[0]), rate
        )
        log_likelihood += at_rate[:, None] + np.log(weights)
        log_likelihood -= log_likelihood.max(axis=(1, 2), keepdims=True)
        mass = np.exp(log_likelihood, out=log_likelihood)
        mass /= mass.sum(axis=(1, 2), keepdims=True)
        of_rate = mass.sum(axis=2)
        mean = of_rate @ rate
        missed = (of_rate * np.exp(-rate / mean[:, None])).sum(axis=1)
        found[:, first:last] = mean, spread_of(1.0 - missed), mass.sum(axis=1) @ _C
    return found[0], found[1], found[2]


def _log_likelihood(gaps: Gaps, rate: FloatArray) -> FloatArray:
    """Return the weighted log-likelihood of each page at each rate and churn; (n_pages, n_x, n_c)."""
    log_quiet = -gaps.days[:, None] * rate
    left = np.exp(log_quiet)[:, :, None] * (1.0 - _C)
    each = np.where(
        gaps.updated[:, None, None],
        np.log(np.maximum(1.0 - left, 1e-300)),
        log_quiet[:, :, None] + np.log1p(-_C),
    )
    each *= gaps.weight[:, None, None]
    flat = each.reshape(len(each), -1)
    out = np.zeros((len(gaps), flat.shape[1]))
    has_gaps = gaps.counts > 0
    if has_gaps.any():
        out[has_gaps] = np.add.reduceat(flat, gaps.offsets[:-1][has_gaps], axis=0)
    return out.reshape(len(gaps), len(rate), len(_C))

"""Churn: new links that the request brought, not time; and rates from which it is told apart.

A visit after a gap of t days shows links never seen with probability 1 - (1 - c) exp(-lambda t). c is
the page's churn, the chance that any request shows new links however little time has passed: session
ids, random tokens, rotating boxes. Gaps of many lengths tell lambda from c, short ones best (a control
visit is a gap of seconds); of gaps of one length only the prior does, and whether the new links were
seen again: what time brings mostly stays for a while, what the request brought does not (longevity:
Olston and Pandey, "Recrawl scheduling based on information longevity", WWW 2008).
"""

import math
from dataclasses import dataclass
from enum import IntEnum
from itertools import product
from typing import Final

import numpy as np
from numpy.polynomial.legendre import leggauss
from numpy.typing import NDArray

from hacs_crawler.model.bayes import bayes_with_spread
from hacs_crawler.model.gaps import Gaps
from hacs_crawler.model.predictive import spread_of
from hacs_crawler.model.prior import LogNormalPrior
from hacs_crawler.utils.arrays import (
    BoolArray,
    FloatArray,
    IndexArray,
    offsets_of,
    page_of_value,
    sum_by_page,
)

LinkLifetimes = NDArray[np.uint8]
"""Of each gap the `LinkLifetime` of what its visit brought."""


class LinkLifetime(IntEnum):
    """What became of the new links of a visit."""

    UNKNOWN = 0
    """No later visit showed links, or there were no new ones."""
    LASTING = 1
    """One of them is there on the latest visit."""
    PASSING = 2
    """One was seen again, but none is there now."""
    FLEETING = 3
    """None was seen again."""


CHURNING: Final = 0.5
"""From this chance on, that a request shows new links whatever the time, a page's updates are churn."""
CHURNING_PAGES: Final = 0.05
"""The share of pages that churn, before anything is known of a store."""
_UPDATES_OF_PRIOR: Final = 5.0
_USUALLY_CONFIRMED: Final = 0.99
_PRIOR_PAGES: Final = 50
_SHARE_BOUNDS: Final = (0.002, 0.3)
SUSPICIOUS_RATE: Final = 1.2
"""How many of the prior's standard deviations above its median a rate is suspicious."""
SUSPICIOUS_SCORE: Final = 1.5
"""And how many standard deviations of the slope of the likelihood in c, at c = 0."""
_KINDS_OF_PAGES: Final = (
    (0.7, 0.93, 0.06, 0.01),
    (0.2, 0.5, 0.46, 0.04),
    (0.04, 0.3, 0.4, 0.3),
    (0.06, 0.02, 0.03, 0.95),
)
"""The share of pages of that kind, and of the lifetimes of their links: lasting, rolling lists, news.

Of the updates of 334 scholarly pages visited every 30 days 76 % last, 23 % pass and 1 % are fleeting;
half of the pages keep all, one in twenty keeps a third. News is a guess, there is none among them: its
links go as those of churn do, so that only control visits and gaps of other lengths tell them apart.
"""
_KINDS_OF_CHURN: Final = ((0.5, 0.02, 0.03, 0.95), (0.5, 0.3, 0.4, 0.3))
"""The same for what requests bring: tokens, and boxes that draw from a pool."""
_NEWS: Final = 0.002
_FASTEST_NEWS: Final = math.log(24.0)
_BLOCK: Final = 128  # gaps at once: times the grid, the working array stays in a core's cache
_LEFT, _RIGHT, _NODES = (
    5.0,
    7.0,
    72,
)  # log lambda, in the prior's standard deviations about its median
_NEARLY_ALWAYS: Final = 0.99
_OF_CHURN_NEARLY_ALWAYS: Final = 0.6
_GAUSS: Final = leggauss(8)
_C: Final = np.concatenate([[0.0, _NEARLY_ALWAYS], (_GAUSS[0] + 1) / 2])
_C_WEIGHTS: Final = np.concatenate(
    [[_OF_CHURN_NEARLY_ALWAYS], (1.0 - _OF_CHURN_NEARLY_ALWAYS) * _GAUSS[1] / 2]
)


@dataclass(frozen=True, slots=True)
class Rates:
    """What is estimated of pages; arrays of shape (n_pages,).

    `rate_per_day` is the posterior mean of lambda, the rate of what time brings, `log_sd` its spread as
    in `bayes_with_spread`, `churn` the posterior mean of c, `churning` the probability that the page
    churns at all (c > 0). Where a page goes on by two rates (`model.two_rates`), these are the last two,
    0 elsewhere, and `log_sd` holds their shares.
    """

    rate_per_day: FloatArray
    log_sd: FloatArray
    churn: FloatArray
    churning: FloatArray
    fast_per_day: FloatArray
    slow_per_day: FloatArray

    def of(self, places: IndexArray | slice) -> "Rates":
        """Return the rates of some of the pages."""
        return Rates(*(getattr(self, name)[places] for name in Rates.__slots__))


def rates_with_churn(
    gaps: Gaps,
    prior: LogNormalPrior,
    lifetimes: LinkLifetimes | None = None,
    churning_pages: float = CHURNING_PAGES,
) -> Rates:
    """Posterior of lambda and c of each page, from its gaps and what is known of its updates.

    lambda has the log-normal prior. c is 0 with probability 1 - `churning_pages` (the spike), else
    uniform on (0, 1) (the slab), or 0.99 for those that show new links at nearly every request. A Beta
    prior with its mass near 0 will not do: it lets a page of session links win after four controls
    (E[c] = 0.57).

    Pages without suspicion, which are nearly all, have c = 0 and cost what `bayes_with_spread` costs:
    those whose rate is not unusually high for the prior, and whose likelihood does not grow with c.
    """
    if lifetimes is None:
        lifetimes = np.zeros(len(gaps.days), np.uint8)
    rate, log_sd = bayes_with_spread(gaps, prior)
    churn, churning = np.zeros(len(gaps)), np.zeros(len(gaps))
    pages = _suspicious(gaps, lifetimes, rate, prior)
    if pages.any():
        mine = lifetimes[np.repeat(pages, gaps.counts)]
        rate[pages], log_sd[pages], churn[pages], churning[pages] = _posterior(
            gaps.of(pages), mine, prior, churning_pages
        )
    return Rates(rate, log_sd, churn, churning, *np.zeros((2, len(rate))))


def confirmed_share(seen_again: int, known: int) -> float:
    """Return which share of a page's updates is expected to be seen again.

    The posterior mean under a Beta prior worth five updates, 99 % of them confirmed, as many as on
    scholarly pages visited every 30 days.
    """
    return (seen_again + _UPDATES_OF_PRIOR * _USUALLY_CONFIRMED) / (known + _UPDATES_OF_PRIOR)


def fit_churning_pages(churning: FloatArray) -> float:
    """Return the share of pages that churn, from what is known of a sample of them.

    `churning` is the probability of each. It is a step of expectation maximisation, from the share that
    they were estimated with, under a prior worth `_PRIOR_PAGES` pages of which `CHURNING_PAGES` churn.
    """
    share = (churning.sum() + _PRIOR_PAGES * CHURNING_PAGES) / (len(churning) + _PRIOR_PAGES)
    return float(np.clip(share, *_SHARE_BOUNDS))


def _suspicious(
    gaps: Gaps, lifetimes: LinkLifetimes, rate: FloatArray, prior: LogNormalPrior
) -> BoolArray:
    """Return which pages may churn."""
    updates = sum_by_page(gaps.weight * gaps.updated, gaps.offsets)
    is_fast = np.log(rate) > prior.log_median + SUSPICIOUS_RATE * prior.log_sd
    each = np.repeat(rate, gaps.counts) * gaps.days
    odds = 1.0 / np.expm1(np.clip(each, 1e-12, 700.0))
    slope = sum_by_page(gaps.weight * np.where(gaps.updated, odds, -1.0), gaps.offsets)
    variance = sum_by_page(gaps.weight * odds, gaps.offsets)
    is_steep = slope > SUSPICIOUS_SCORE * np.sqrt(np.maximum(variance, 1e-12))
    lasting = sum_by_page(gaps.weight * (lifetimes == LinkLifetime.LASTING), gaps.offsets)
    fleeting = sum_by_page(gaps.weight * (lifetimes == LinkLifetime.FLEETING), gaps.offsets)
    is_lasting = (lasting > 2.5) & (lasting > 0.7 * updates)
    looks_fast = (updates > 1.0) & (is_fast | is_steep) & ~is_lasting
    found: BoolArray = looks_fast | ((fleeting > 0.5) & (fleeting > lasting))
    return found


def _posterior(
    gaps: Gaps, lifetimes: LinkLifetimes, prior: LogNormalPrior, churning_pages: float
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Sum over a grid of log lambda and c, whose first column is the spike, and the kinds of pages."""
    x = np.linspace(
        prior.log_median - _LEFT * prior.log_sd, prior.log_median + _RIGHT * prior.log_sd, _NODES
    )
    x = np.minimum(x, 8.0)  # 3,000 updates a day: no visits tell faster ones apart
    at_rate = _log_prior(x, prior)
    weights = np.concatenate([[1.0 - churning_pages], churning_pages * _C_WEIGHTS])
    found = np.empty((4, len(gaps)))
    rate = np.exp(x)
    for pages, mine, some in gaps.in_blocks(_BLOCK):
        log_likelihood = _log_likelihood(some, lifetimes[mine], rate)
        log_likelihood += at_rate[:, None] + np.log(weights)
        log_likelihood -= log_likelihood.max(axis=(1, 2), keepdims=True)
        mass = np.exp(log_likelihood, out=log_likelihood)
        mass /= mass.sum(axis=(1, 2), keepdims=True)
        of_rate = mass.sum(axis=2)
        mean = of_rate @ rate
        missed = (of_rate * np.exp(-rate / mean[:, None])).sum(axis=1)
        of_churn = mass.sum(axis=1)
        churning = of_churn[:, 1:].sum(axis=1)
        found[:, pages] = mean, spread_of(1.0 - missed), of_churn @ _C, churning
    return found[0], found[1], np.minimum(found[2], 1.0), np.minimum(found[3], 1.0)


def _log_prior(x: FloatArray, prior: LogNormalPrior) -> FloatArray:
    """Return the log density of log lambda: log-normal, and of a share of pages, `_NEWS`, even above it.

    Without these no number of passed controls would clear a page that is updated every hour: a
    log-normal of homepages has next to none.
    """
    usual = np.exp(-0.5 * ((x - prior.log_median) / prior.log_sd) ** 2) / (
        prior.log_sd * math.sqrt(2 * math.pi)
    )
    is_news = (x >= prior.log_median) & (x <= _FASTEST_NEWS)
    above = is_news / max(_FASTEST_NEWS - prior.log_median, prior.log_sd)
    found: FloatArray = np.log((1.0 - _NEWS) * usual + _NEWS * above)
    return found


def _log_likelihood(gaps: Gaps, lifetimes: LinkLifetimes, rate: FloatArray) -> FloatArray:
    """Return the weighted log-likelihood of each page at each rate and churn; (n_pages, n_x, n_c)."""
    quiet = gaps.weight * ~gaps.updated
    days = sum_by_page(quiet * gaps.days, gaps.offsets)[:, None, None]
    number = sum_by_page(quiet, gaps.offsets)[:, None, None]
    log_quiet = number * np.log1p(-_C) - days * rate[:, None]

    page = page_of_value(gaps.offsets)[gaps.updated]
    offsets = offsets_of(np.bincount(page, minlength=len(gaps)))
    lifetimes, weight = lifetimes[gaps.updated], gaps.weight[gaps.updated, None, None]
    by_churn = np.exp(-gaps.days[gaps.updated, None] * rate)
    by_time = (1.0 - by_churn)[:, :, None]
    by_churn = by_churn[:, :, None] * _C
    parts = []
    for of_time, of_churn in product(_KINDS_OF_PAGES, _KINDS_OF_CHURN):
        seen = by_churn * _likelihood(of_churn)[lifetimes][:, None, None]
        seen += by_time * _likelihood(of_time)[lifetimes][:, None, None]
        np.maximum(seen, 1e-300, out=seen)
        each = np.log(seen, out=seen)
        each *= weight
        parts.append(log_quiet + sum_by_page(each, offsets))
        parts[-1] += np.log(of_time[0] * of_churn[0])
    found: FloatArray = np.logaddexp.reduce(parts, axis=0)
    return found


def _likelihood(kind: tuple[float, ...]) -> FloatArray:
    """Return the likelihood of each lifetime."""
    return np.array([1.0, *kind[1:]])

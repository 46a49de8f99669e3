"""Churn: new links that come from the request, not from time; and rates that allow for it.

A visit after a gap of t days shows links never seen with probability 1 - (1 - c) exp(-lambda t). c is
the page's churn, the chance that any request shows new links however little time has passed: session
ids, random tokens, rotating boxes. Gaps of many lengths tell lambda from c, short ones best (a control
visit is a gap of seconds); of gaps of one length only the prior does, and whether the new links were
seen again: links that time brings mostly stay for a while, links of the request do not (Olston and
Pandey, "Recrawl scheduling based on information longevity", WWW 2008).
"""

from itertools import product
from typing import Final, NamedTuple

import numpy as np
from numpy.polynomial.legendre import leggauss

from hacs_crawler.model.gaps import Gaps, LinkLifetime, LinkLifetimes
from hacs_crawler.model.grid import LOG_RATES, RATES, LogNormalPrior, fit_shares, log_prior
from hacs_crawler.utils.arrays import BoolArray, FloatArray, offsets_of, page_of_value, sum_by_page

# From this chance on, that a request shows new links whatever the time, a page's updates are churn.
CHURNING: Final = 0.5
# For the fit of the share of pages that churn: how many pages the first guess counts for; bounds.
_PRIOR_PAGES: Final = 50
_SHARE_BOUNDS: Final = (0.002, 0.3)
_BLOCK: Final = 128  # gaps at once: multiplied by the grid, the working array stays in a cache

# The constants from here on are set by hand. With each halved and doubled, chances as odds, hits on
# honest pages differ by less than 3 %, and 6.1 % to 7.8 % of the visits go to traps instead of 7.5 %:
# python benchmarks/churn_constants.py FOLDER

# The share of pages that churn, before anything is known of a store.
CHURNING_PAGES: Final = 0.05
# How many of the prior's standard deviations above its median a rate is suspicious.
SUSPICIOUS_RATE: Final = 1.2
# And how many standard deviations of the slope of the likelihood in c, at c = 0.
SUSPICIOUS_SCORE: Final = 1.5
# Weights of updates and of lasting ones, and the share of the latter, beyond which rates are looked at.
_UPDATES: Final = 1.0
_LASTING: Final = 2.5
_LASTING_SHARE: Final = 0.7
# The weight of fleeting updates from which a page is suspected, whatever its rate.
_FLEETING: Final = 0.5
# The share of pages of that kind, and of the lifetimes of their links: lasting, rolling lists, news.
# Of the updates of 334 scholarly pages visited every 30 days 76 % last, 23 % pass and 1 % are
# fleeting. News is a guess: only control visits and gaps of other lengths tell it from churn.
_KINDS_OF_PAGES: Final = (
    (0.7, 0.93, 0.06, 0.01),
    (0.2, 0.5, 0.46, 0.04),
    (0.04, 0.3, 0.4, 0.3),
    (0.06, 0.02, 0.03, 0.95),
)
# The same for what requests bring: tokens, and boxes that draw from a pool.
_KINDS_OF_CHURN: Final = ((0.5, 0.02, 0.03, 0.95), (0.5, 0.3, 0.4, 0.3))
# The share of pages with news every hour at the most.
_NEWS: Final = 0.002
_FASTEST_NEWS: Final = float(np.log(24.0))
# The chance of new links on pages of session links, and the share of such pages among churning ones.
_NEARLY_ALWAYS: Final = 0.99
_OF_NEARLY_ALWAYS: Final = 0.6
_NODES, _NODE_WEIGHTS = leggauss(8)
_C: Final = np.array([0.0, _NEARLY_ALWAYS, *(_NODES + 1) / 2])
_C_WEIGHTS: Final = np.array([_OF_NEARLY_ALWAYS, *(1.0 - _OF_NEARLY_ALWAYS) * _NODE_WEIGHTS / 2])


class Churn(NamedTuple):
    """The probabilities of the rates of the grid, the posterior mean of c, and the probability of c > 0.

    One row or element a page.
    """

    rates: FloatArray
    churn: FloatArray
    churning: FloatArray


def churn_of(
    gaps: Gaps,
    rates: FloatArray,
    prior: LogNormalPrior,
    lifetimes: LinkLifetimes | None = None,
    churning_pages: float = CHURNING_PAGES,
) -> Churn:
    """Return the posterior of λ and c of each page, from its gaps and the lifetimes of its updates.

    `rates` is the posterior of λ without churn (`grid.posterior`). c is 0 with probability
    1 - `churning_pages`, else uniform on (0, 1), or 0.99 for pages with new links at nearly every
    request. A Beta prior with its mass near 0 will not do: it lets a page of session links win after
    four controls (E[c] = 0.57). Nearly all pages have c = 0 and keep their `rates`: those whose rate is
    not unusually high for the prior, and whose likelihood does not grow with c.
    """
    if lifetimes is None:
        lifetimes = np.zeros(len(gaps.days), np.uint8)
    churn, churning, rates = np.zeros(len(gaps)), np.zeros(len(gaps)), rates.copy()
    is_suspicious = _suspicious(gaps, lifetimes, rates @ RATES, prior)
    pages, mine = np.flatnonzero(is_suspicious), lifetimes[np.repeat(is_suspicious, gaps.counts)]
    for some, cut, few in gaps.of(is_suspicious).in_blocks(_BLOCK):
        mass = _posterior(few, mine[cut], prior, churning_pages)
        of_churn = mass.sum(axis=1)
        rates[pages[some]] = mass.sum(axis=2)
        churn[pages[some]] = np.minimum(of_churn @ _C, 1.0)
        churning[pages[some]] = np.minimum(of_churn[:, 1:].sum(axis=1), 1.0)
    return Churn(rates, churn, churning)


def fit_churning_pages(churning: FloatArray, share: float = CHURNING_PAGES) -> float:
    """Return the share of pages that churn, estimated from a sample of pages.

    `churning` is the probability of each, given that `share` of all do. By `fit_shares`, with
    `_PRIOR_PAGES` pages more of which `CHURNING_PAGES` churn, within bounds.
    """
    given = np.stack([churning / share, (1.0 - churning) / (1.0 - share)], axis=1)
    usual = np.array([CHURNING_PAGES, 1.0 - CHURNING_PAGES])
    fitted = fit_shares(np.log(np.maximum(given, 1e-300)), usual, _PRIOR_PAGES)
    return float(np.clip(fitted[0], *_SHARE_BOUNDS))


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
    # even what the latest visit brought: all other links stayed until the next visit
    is_kept = sum_by_page(1.0 * (lifetimes != LinkLifetime.LASTING), gaps.offsets) == 0
    is_lasting = is_kept | ((lasting > _LASTING) & (lasting > _LASTING_SHARE * updates))
    looks_fast = (updates > _UPDATES) & (is_fast | is_steep) & ~is_lasting
    return np.asarray(looks_fast | ((fleeting > _FLEETING) & (fleeting > lasting)))


def _posterior(
    gaps: Gaps, lifetimes: LinkLifetimes, prior: LogNormalPrior, churning_pages: float
) -> FloatArray:
    """Return the probabilities of the rates and of c, whose first value is the spike; (pages, x, c).

    Rates have the log-normal prior, and with a share of `_NEWS` any up to `_FASTEST_NEWS` above its
    median: without these no number of passed controls would clear a page that is updated every hour.
    """
    quiet = gaps.weight * ~gaps.updated
    days = sum_by_page(quiet * gaps.days, gaps.offsets)[:, None, None]
    number = sum_by_page(quiet, gaps.offsets)[:, None, None]
    log_quiet = number * np.log1p(-_C) - days * RATES[:, None]

    page = page_of_value(gaps.offsets)[gaps.updated]
    offsets = offsets_of(np.bincount(page, minlength=len(gaps)))
    lifetimes, weight = lifetimes[gaps.updated], gaps.weight[gaps.updated, None, None]
    by_churn = np.exp(-gaps.days[gaps.updated, None] * RATES)
    by_time = (1.0 - by_churn)[:, :, None]
    by_churn = by_churn[:, :, None] * _C
    parts = []
    for of_time, of_churn in product(_KINDS_OF_PAGES, _KINDS_OF_CHURN):
        # of an unknown lifetime the likelihood is 1
        seen = by_churn * np.array([1.0, *of_churn[1:]])[lifetimes][:, None, None]
        seen += by_time * np.array([1.0, *of_time[1:]])[lifetimes][:, None, None]
        np.maximum(seen, 1e-300, out=seen)
        each = np.log(seen, out=seen)
        each *= weight
        parts.append(log_quiet + sum_by_page(each, offsets))
        parts[-1] += np.log(of_time[0] * of_churn[0])

    half = (LOG_RATES[1] - LOG_RATES[0]) / 2
    ends = np.clip([LOG_RATES - half, LOG_RATES + half], prior.log_median, _FASTEST_NEWS)
    news = np.maximum(ends[1] - ends[0], 0.0)
    at_rate = (1.0 - _NEWS) * np.exp(log_prior(prior)) + _NEWS * news / max(news.sum(), half)
    at_churn = np.concatenate([[1.0 - churning_pages], churning_pages * _C_WEIGHTS])
    logs = np.logaddexp.reduce(parts, axis=0)
    logs += np.log(np.maximum(np.multiply.outer(at_rate, at_churn), 1e-300))
    logs -= logs.max(axis=(1, 2), keepdims=True)
    mass: FloatArray = np.exp(logs, out=logs)
    mass /= mass.sum(axis=(1, 2), keepdims=True)
    return mass

"""Churn: new links that come from the request, not from time; and rates that allow for it.

A visit after a gap of t days shows new links with probability 1 - (1 - c) exp(-lambda t). c is the
page's churn, the chance that any request shows new links, however short the gap: session ids, random
tokens, rotating boxes. Gaps of different lengths distinguish lambda from c, short ones best (a control
visit is a gap of seconds). If all gaps have the same length, only the prior does, and the lifetime of
the new links: links that time brings mostly stay for a while, links of the request do not (Olston and
Pandey, "Recrawl scheduling based on information longevity", WWW 2008).
"""

from itertools import product
from typing import Final, NamedTuple

import numpy as np
from numpy.polynomial.legendre import leggauss

from hacs_crawler.model.gaps import Gaps, LinkLifetime, LinkLifetimes
from hacs_crawler.model.grid import LOG_RATES, RATES, LogNormalPrior, fit_shares, log_prior
from hacs_crawler.utils.arrays import BoolArray, FloatArray, offsets_of, page_of_value, sum_by_page

# From this churn on, a page's updates are attributed to the request.
CHURNING: Final = 0.5
# In the fit of the share of pages that churn, `CHURNING_PAGES` counts as much as this many pages.
_PRIOR_PAGES: Final = 50
_SHARE_BOUNDS: Final = (0.002, 0.3)
_BLOCK: Final = 128  # gaps per block, so that the working array, over the grid, fits a core's cache

# The constants from here on are set by hand. If each is halved or doubled (chances: as odds), hits on
# honest pages change by less than 3 %, and 6.1 % to 7.8 % of the visits go to traps instead of 7.5 %:
# python benchmarks/churn_constants.py FOLDER

# The share of pages that churn, in an unknown store.
CHURNING_PAGES: Final = 0.05
# A rate is suspicious if it is this many of the prior's standard deviations above the median.
SUSPICIOUS_RATE: Final = 1.2
# So is a slope of the likelihood in c, at c = 0, of this many standard deviations.
SUSPICIOUS_SCORE: Final = 1.5
# Either makes a page suspicious if its updates have more weight than this, ...
_UPDATES: Final = 1.0
# ... unless the lasting ones have more weight than this, and more than this share of all.
_LASTING: Final = 2.5
_LASTING_SHARE: Final = 0.7
# Fleeting updates of more weight make a page suspicious at any rate.
_FLEETING: Final = 0.5
# Kinds of pages: their share, and the shares of their links that are lasting, passing and fleeting.
# Of the updates of 334 scholarly pages visited every 30 days 76 % last, 23 % pass and 1 % are
# fleeting. News is a guess: only control visits and gaps of other lengths tell it from churn.
_KINDS_OF_PAGES: Final = (
    (0.7, 0.93, 0.06, 0.01),
    (0.2, 0.5, 0.46, 0.04),
    (0.04, 0.3, 0.4, 0.3),
    (0.06, 0.02, 0.03, 0.95),
)
# The same for links of the request: tokens, and boxes that draw from a pool.
_KINDS_OF_CHURN: Final = ((0.5, 0.02, 0.03, 0.95), (0.5, 0.3, 0.4, 0.3))
# The share of pages with news of any rate up to `_FASTEST_NEWS`, log(24 a day).
_NEWS: Final = 0.002
_FASTEST_NEWS: Final = float(np.log(24.0))
# The c of pages with session links, and the share of such pages among churning ones.
_NEARLY_ALWAYS: Final = 0.99
_OF_NEARLY_ALWAYS: Final = 0.6
_NODES, _NODE_WEIGHTS = leggauss(8)
_C: Final = np.array([0.0, _NEARLY_ALWAYS, *(_NODES + 1) / 2])
_C_WEIGHTS: Final = np.array([_OF_NEARLY_ALWAYS, *(1.0 - _OF_NEARLY_ALWAYS) * _NODE_WEIGHTS / 2])


class Churn(NamedTuple):
    """The probabilities of the grid's rates, the posterior mean of c, and the probability of c > 0.

    Arrays with one row or element a page.
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

    `rates` is the posterior of λ without churn (`grid.posterior`). The prior of c is 0 with probability
    1 - `churning_pages`, otherwise 0.99, for pages with new links at nearly every request, or uniform on
    (0, 1). A Beta prior with its mass near 0 would not do: after four control visits, a page of session
    links would still have E[c] = 0.57. Nearly all pages are not suspicious: they get c = 0 and keep
    their `rates`.
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

    `churning` is each page's probability of churn, computed with `share` as the prior. The estimate is
    by `fit_shares`, with `_PRIOR_PAGES` more pages of which `CHURNING_PAGES` churn, within bounds.
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
    fleeting = sum_by_page(gaps.weight * (lifetimes == LinkLifetime.FLEETING), gaps.offsets)
    may_be = (updates > _UPDATES) | (fleeting > _FLEETING)
    if not may_be.any():
        return np.asarray(may_be)
    is_fast = np.log(rate) > prior.log_median + SUSPICIOUS_RATE * prior.log_sd
    each = np.repeat(rate, gaps.counts) * gaps.days
    odds = 1.0 / np.expm1(np.clip(each, 1e-12, 700.0))
    slope = sum_by_page(gaps.weight * np.where(gaps.updated, odds, -1.0), gaps.offsets)
    variance = sum_by_page(gaps.weight * odds, gaps.offsets)
    is_steep = slope > SUSPICIOUS_SCORE * np.sqrt(np.maximum(variance, 1e-12))
    lasting = sum_by_page(gaps.weight * (lifetimes == LinkLifetime.LASTING), gaps.offsets)
    # if all new links stayed until the next visit, the latest visit's are taken for lasting, too
    is_kept = sum_by_page(1.0 * (lifetimes != LinkLifetime.LASTING), gaps.offsets) == 0
    is_lasting = is_kept | ((lasting > _LASTING) & (lasting > _LASTING_SHARE * updates))
    looks_fast = (updates > _UPDATES) & (is_fast | is_steep) & ~is_lasting
    return np.asarray(looks_fast | ((fleeting > _FLEETING) & (fleeting > lasting)))


def _posterior(
    gaps: Gaps, lifetimes: LinkLifetimes, prior: LogNormalPrior, churning_pages: float
) -> FloatArray:
    """Return the probabilities of the rates and of c, whose first value is 0; (pages, rates, c).

    The prior of rates is log-normal, with a share of `_NEWS` for any rate from its median up to
    `_FASTEST_NEWS`: otherwise no number of control visits could clear a page that is updated every hour.
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
        # the likelihood of an unknown lifetime is 1
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

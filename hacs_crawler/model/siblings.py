"""The evidence of siblings: what the visits of a site's other pages say of a page, and how strongly."""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import scipy

from hacs_crawler.model.estimators import mle
from hacs_crawler.model.gaps import Visits
from hacs_crawler.utils.arrays import FloatArray, IndexArray, page_of_value

# The probability that an update of a sibling, of at most the page's rate, came with one of the page.
SHARED_UPDATES: Final = 0.4
# The sibling correlation of the pages that these constants were tuned on.
USUAL_SIBLING_CORRELATION: Final = 0.6
# Each sibling that was quiet at a time makes an update at that time less likely by this share, ...
QUIET_SHARE: Final = 0.3
# ... down to this factor for many quiet siblings ...
LEAST_LEFT: Final = 0.1
# ... which this number of them reaches: more are not counted.
MOST_QUIET: Final = math.ceil(math.log(LEAST_LEFT) / math.log(1.0 - QUIET_SHARE))
_SECONDS: Final = 86_400.0
_STEPS: Final = 2.0**30
# How many updates of siblings count: the latest of the site.
MOST_UPDATES: Final = 2
_ONE, _LOW, _SITE_SHIFT = np.uint64(1), np.uint64(32), np.uint64(33)
# Limit on the siblings that a page is compared with, so that large sites do not outweigh all others.
SIBLINGS_COMPARED: Final = 8
# In the fit, the usual sibling correlation counts as much as this many sites.
PRIOR_SITES: Final = 10.0
# The grid for the Beta distribution of the sites' r: its mean, and its concentration.
MEANS: Final = np.arange(0.02, 1.0, 0.04)
CONCENTRATIONS: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
CELLS: Final = 40
_TINY: Final = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, slots=True)
class SiblingVisits:
    """When pages were last seen; arrays with one element a page, times in days, nan for never.

    `sites` are numbers, 0 for none. `last_update` is the last visit that found an update, `before` the
    visit before it. Since `quiet_since` the page is known to have had no update: it is the last update,
    or the first visit or another baseline, before which nothing is known. Visits less than a second
    apart count as simultaneous.
    """

    sites: IndexArray
    rate_per_day: FloatArray
    last_visit: FloatArray
    last_update: FloatArray
    before: FloatArray
    quiet_since: FloatArray


def sibling_evidence(
    pages: SiblingVisits,
    sibling_correlation: float = USUAL_SIBLING_CORRELATION,
    wanted: IndexArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Return for each page the evidence of its siblings on the time since its last visit.

    The evidence is the number of days to subtract from this time, because siblings were quiet, and the
    probability that the page was updated together with a sibling. Both are 0 for a page without
    siblings, a page never seen, and a page that was seen later than all its siblings. Below the usual
    `sibling_correlation` siblings are weaker evidence: `SHARED_UPDATES` is in proportion to its square,
    since wrongly assuming an update costs a visit, and `QUIET_SHARE` to its fourth power, since wrongly
    assuming none delays a discovery. Sites do not affect each other. `sites` must be below 2^32, times
    from 0 to 49,710 days (2^32 seconds). With `wanted`, places of pages, only these get a result, in
    their order; the others are only siblings.
    """
    quiet = np.zeros(len(pages.sites))
    shared = np.zeros(len(pages.sites))
    members, starts = _with_siblings(pages)
    if len(members):
        few = SiblingVisits(*(getattr(pages, name)[members] for name in SiblingVisits.__slots__))
        own = np.repeat(np.arange(len(starts)), np.diff(starts, append=len(members)))
        strength = min(1.0, sibling_correlation / USUAL_SIBLING_CORRELATION)
        is_wanted = np.zeros(len(pages.sites), np.bool_)
        is_wanted[slice(None) if wanted is None else wanted] = True
        asked = np.flatnonzero(is_wanted[members])
        quiet_share = QUIET_SHARE * strength**4
        quiet[members[asked]] = _quiet_days(few, own, quiet_share, asked)
        most = SHARED_UPDATES * strength**2
        shared[members[asked]] = most * _together(few, own, starts, asked)
    return (quiet, shared) if wanted is None else (quiet[wanted], shared[wanted])


def _with_siblings(pages: SiblingVisits) -> tuple[IndexArray, IndexArray]:
    """Return the places of seen pages with a seen sibling, by site, and the start of each site."""
    seen = np.flatnonzero((pages.sites > 0) & ~np.isnan(pages.last_visit))
    # site and place packed into one number: several times as fast as sorting places by site
    key = np.sort((pages.sites[seen].astype(np.uint64) << _LOW) | seen.astype(np.uint64))
    is_first = np.diff(key >> _LOW, prepend=np.uint64(0)) != 0
    has_sibling = ~is_first
    has_sibling[:-1] |= ~is_first[1:]
    return (key[has_sibling] & np.uint64(2**32 - 1)).astype(np.int64), np.flatnonzero(
        is_first[has_sibling]
    )


def _together(
    pages: SiblingVisits, own: IndexArray, starts: IndexArray, asked: IndexArray
) -> FloatArray:
    """Return the weight of the site's `MOST_UPDATES` latest updates for each requested page, 0 to 1.

    An update is weighted by the share of its gap that lies after the page's own last visit, and, if the
    sibling is updated more often than the page, by the ratio of their rates.
    """
    rate, last_visit = np.maximum(pages.rate_per_day, 1e-12), pages.last_visit[asked]
    together = np.zeros(len(asked))
    update = np.nan_to_num(pages.last_update, nan=-np.inf)
    for _ in range(MOST_UPDATES):
        # the first of several latest updates; any page of a site without updates
        latest = np.flatnonzero(update == np.maximum.reduceat(update, starts)[own])
        latest = latest[np.searchsorted(latest, starts)]
        update[latest] = -np.inf
        sibling = latest[own[asked]]
        latest_update, before = pages.last_update[sibling], pages.before[sibling]
        with np.errstate(divide="ignore", invalid="ignore"):
            share = (latest_update - np.maximum(before, last_visit)) / (latest_update - before)
        share *= np.minimum(1.0, rate[asked] / rate[sibling])
        np.maximum(together, np.where(share > 0.0, share, 0.0), out=together)
    return np.minimum(together, 1.0)


def _quiet_days(
    pages: SiblingVisits, own: IndexArray, quiet_share: float, asked: IndexArray
) -> FloatArray:
    """Integrate 1 - max(`LEAST_LEFT`, (1 - `quiet_share`)^m) over the time since a page's last visit.

    m is the number of pages of its site, at most `MOST_QUIET`, that are known to have been quiet at a
    moment: each was from `quiet_since` to its last visit. Days, rounded to seconds. `own` are the pages'
    sites, numbers from 0. Returns the integrals of the pages at places `asked`.

    Each site's time is cut at the starts and ends of these quiet times, and the integral up to each cut
    is kept, in whole numbers that may overflow: differences within a site are still exact, so that sites
    do not affect each other.
    """
    until, since = (
        np.rint(days * _SECONDS).astype(np.uint64) for days in (pages.last_visit, pages.quiet_since)
    )
    site = own.astype(np.uint64) << _SITE_SHIFT
    is_quiet = np.flatnonzero(since < until)
    begins = site[is_quiet] | since[is_quiet] << _ONE
    ends = site[is_quiet] | until[is_quiet] << _ONE | _ONE
    moments = np.sort(np.concatenate([begins, ends]))
    if not len(moments):
        return np.zeros(len(asked))
    number = np.cumsum(1 - 2 * (moments & _ONE).astype(np.int64))
    whose = (moments >> _SITE_SHIFT).astype(np.int64)
    left = np.maximum(LEAST_LEFT, (1.0 - quiet_share) ** np.arange(MOST_QUIET + 1))
    lost = np.rint(_STEPS * (1.0 - left)).astype(np.int64)[np.minimum(number, MOST_QUIET)]
    at = (moments & (_ONE << _SITE_SHIFT) - _ONE).astype(np.int64) >> 1
    up_to = np.zeros(len(moments), np.int64)
    # nobody is known to be quiet after a site's last moment, so the sum does not grow between sites
    np.cumsum(lost[:-1] * np.diff(at), out=up_to[1:])

    own, site, until = own[asked], site[asked], until[asked]
    last_of_site = np.searchsorted(moments, (site >> _SITE_SHIFT) + _ONE << _SITE_SHIFT) - 1
    before = np.searchsorted(moments, site | until << _ONE | _ONE, side="right") - 1
    is_within = (before >= 0) & (whose[before] == own)
    first_of_site = np.searchsorted(moments, site)
    seen = np.where(
        is_within,
        up_to[before] + lost[before] * (until.astype(np.int64) - at[before]),
        up_to[np.minimum(first_of_site, len(moments) - 1)],
    )
    has_quiet = first_of_site <= last_of_site
    return np.where(has_quiet, up_to[last_of_site] - seen, 0) / (_STEPS * _SECONDS)


def fit_sibling_correlation(sites: IndexArray, visits: Visits) -> float:
    """Return the probability that an update of a page came with a sibling's update, 0 to 1.

    This holds for a sibling of at least the page's rate; for a slower sibling it is reduced in
    proportion to the rates. `sites` has one number a page, 0 for none. Each page is compared with the
    next `SIBLINGS_COMPARED` of its site, which are random as ids are hashes.

    An update in the gap (a, b] of one page is compared with the gaps g of its sibling. If the sibling
    shares it with probability r, and is updated by itself as a Poisson process of its own rate, the
    sibling's outcomes are 1 + r x times as likely as without sharing, where

        x = sum over g of |g and (a, b]| / (b - a) * ([g has an update] / (1 - exp(-rate |g|)) - 1).

    The rates solve Eq. 5 without fading: they make the bracket, integrated over all gaps of a
    page, 0, so that x is 0 on average for unrelated pages. The likelihood of a site is composite, the
    product over all pairs, raised to a power that makes them count as half the number of their updates:
    the pairs of one update are not independent, and a shared update is seen from both pages.

    The r of sites follow a Beta distribution, whose posterior mean is returned. The posterior over
    `MEANS` and `CONCENTRATIONS` is weighted by the likelihood of all sites, and by a Beta prior of the
    mean, as after `PRIOR_SITES` sites with `USUAL_SIBLING_CORRELATION`.
    """
    site, update, excess = _pairs(sites, visits)
    if not len(excess):
        return USUAL_SIBLING_CORRELATION
    site = np.unique(site, return_inverse=True)[1]
    first = np.unique(update, return_index=True)[1]
    power = np.bincount(site[first]) / np.bincount(site) / 2
    edges = np.linspace(0.0, 1.0, CELLS + 1)
    r = (edges[1:] + edges[:-1]) / 2
    sums = np.stack([np.bincount(site, np.log1p(share * excess)) for share in r], axis=1)
    logs = sums * power[:, np.newaxis]
    likelihood = np.exp(logs - logs.max(axis=1, keepdims=True))
    mean, concentration = (axis.ravel() for axis in np.meshgrid(MEANS, CONCENTRATIONS))
    shapes = concentration * mean, concentration * (1.0 - mean)
    priors = np.maximum(
        np.diff(scipy.special.betainc(*shapes, edges[:, np.newaxis]), axis=0), _TINY
    )
    evidence = np.log(likelihood @ priors).sum(axis=0)
    usual = PRIOR_SITES * USUAL_SIBLING_CORRELATION, PRIOR_SITES * (1.0 - USUAL_SIBLING_CORRELATION)
    evidence += (usual[0] - 1.0) * np.log(mean) + (usual[1] - 1.0) * np.log1p(-mean)
    weight = np.exp(evidence - evidence.max())
    weight /= weight.sum()
    return float(r @ priors @ weight)


def _pairs(sites: IndexArray, visits: Visits) -> tuple[IndexArray, IndexArray, FloatArray]:
    """Return site, update and x of all pairs of an update and a sibling whose visits enclose its gap."""
    visit_days, offsets, is_end = visits.visit_days, visits.offsets, visits.end_gaps()
    gaps = visits.gaps()
    rates, page = mle(gaps), page_of_value(offsets)
    chance = -np.expm1(-np.repeat(rates, gaps.counts) * gaps.days)
    surplus = np.zeros(len(visit_days))
    surplus[is_end] = gaps.days * (
        np.divide(gaps.updated, chance, out=np.zeros(len(chance)), where=chance > 0) - 1.0
    )
    surplus = np.cumsum(surplus)
    # times of all pages on one axis, page after page
    epoch = visit_days.min(initial=0.0)
    span = visit_days.max(initial=0.0) - epoch + 1.0
    axis = page * span + (visit_days - epoch)

    is_compared = (sites > 0) & (rates > 0)
    ends = np.flatnonzero(is_end & visits.updated & is_compared[page])
    source, after, until = page[ends], visit_days[ends - 1], visit_days[ends]
    updates, parts = [np.zeros(0, np.int64)], [np.zeros(0)]
    for sibling in _siblings(np.where(is_compared, sites, 0), source) if len(ends) else ():
        begin = np.maximum(after, visit_days[offsets[sibling]])
        end = np.minimum(until, visit_days[offsets[sibling + 1] - 1])
        both = np.flatnonzero((sibling != source) & (begin < end))
        at = sibling[both] * span - epoch
        seen = np.interp(at + end[both], axis, surplus) - np.interp(at + begin[both], axis, surplus)
        ratio = np.minimum(1.0, rates[sibling[both]] / rates[source[both]])
        updates.append(both)
        parts.append(ratio * seen / (until - after)[both])
    update = np.concatenate(updates)
    return sites[source[update]], update, np.concatenate(parts)


def _siblings(sites: IndexArray, pages: IndexArray) -> list[IndexArray]:
    """Return the next page of each page's site, then the page after that, and so on, cyclically.

    If the site has too few pages, it is the page itself.
    """
    order = np.argsort(sites, kind="stable")
    in_order = sites[order]
    rank_of = np.empty(len(order), np.int64)
    rank_of[order] = np.arange(len(order))
    start = np.searchsorted(in_order, sites[pages], side="left")
    size = np.searchsorted(in_order, sites[pages], side="right") - start
    rank = rank_of[pages] - start
    return [
        np.where(size > step, order[start + (rank + step) % size], pages)
        for step in range(1, SIBLINGS_COMPARED + 1)
    ]

"""How often the pages of sites are updated together, beyond chance: one number for all sites."""

from __future__ import annotations

from typing import Final

import numpy as np
import scipy

from hacs_crawler.model.estimators import mle
from hacs_crawler.model.gaps import Visits
from hacs_crawler.model.siblings import USUAL_SIBLING_CORRELATION
from hacs_crawler.utils.arrays import FloatArray, IndexArray, page_of_value

# With how many others of its site a page is compared at most: giants would outweigh all else.
SIBLINGS_COMPARED: Final = 8
# How many sites the usual sibling correlation counts as: few sites are little evidence.
PRIOR_SITES: Final = 10.0
MEANS: Final = np.arange(0.02, 1.0, 0.04)
# What sites may have in common: the mean of their r, and as how many updates of a site it counts.
CONCENTRATIONS: Final = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0)
CELLS: Final = 40
_TINY: Final = float(np.finfo(np.float64).tiny)


def fit_sibling_correlation(sites: IndexArray, visits: Visits) -> float:
    """Return the probability that an update of a page came with a sibling's update, 0 to 1.

    This holds for a sibling of at least the page's rate; for a slower one it is in proportion to the
    rates. `sites` has one number a page, 0 for none. Pages in no particular order (their ids are
    hashes): each is compared with the `SIBLINGS_COMPARED` that follow in its site.

    An update in the gap (a, b] of one page is compared with the gaps g of its sibling. If the sibling
    shares it with probability r, and is updated by itself as a Poisson process of its own rate, the
    sibling's outcomes are 1 + r x times as likely as without sharing, where

        x = sum over g of |g and (a, b]| / (b - a) * ([g has an update] / (1 - exp(-rate |g|)) - 1).

    The rates are those of Eq. 5 without fading: its equation is that the bracket, integrated over all
    gaps of a page, is 0, so that pages that have nothing to do with each other have a mean x of 0
    whatever their rates. The likelihood of a site is the product over all such pairs (a composite one),
    to the power at which they count as half the updates in them: the pairs of one update are not
    independent, and an update in common is seen from both pages.

    The r of sites follow a Beta distribution, whose mean is returned. Mean and concentration are learned
    from all sites, each counting as one however large it is: averages over `MEANS` and `CONCENTRATIONS`,
    weighted by how likely they make the pairs, and by a Beta distribution of the mean as after
    `PRIOR_SITES` sites with `USUAL_SIBLING_CORRELATION`. The integrals are sums over `CELLS` cells of r.
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
    """Return x of pairs of an update and a sibling visited about that time, their site and update."""
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
    """Return for each of the pages the next page of its site, then the page after that, and so on.

    The first page of a site follows its last. Without another page it is the page itself.
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

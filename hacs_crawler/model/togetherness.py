"""How often the pages of a site are updated together, beyond chance."""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.model.estimators import mle
from hacs_crawler.model.gaps import gaps_between
from hacs_crawler.model.siblings import USUAL_TOGETHERNESS
from hacs_crawler.utils.arrays import BoolArray, FloatArray, IndexArray, page_of_value

Ints = NDArray[np.int64]
SIBLINGS_COMPARED: Final = 8
"""With how many others of its site a page is compared at most: giants would outweigh all else."""
PRIOR_PAIRS: Final = 10.0
"""How many pairs the usual togetherness counts as: below that there is little else to go by."""
_STEPS: Final = 40


def fit_togetherness(
    sites: Ints,
    visit_days: FloatArray,
    updated: BoolArray,
    offsets: IndexArray,
    baselines: BoolArray | None = None,
) -> float:
    """Return the probability that an update of a page came with one of a sibling's, 0 to 1.

    That of a sibling of at least the page's rate; of a slower one it is in proportion to the rates.
    `sites` has one number a page, 0 for none; visits are as for `gaps_between`. Pages in no particular
    order (their ids are hashes): each is compared with the `SIBLINGS_COMPARED` that follow in its site.

    An update in the gap (a, b] of one page is set against the gaps g of its sibling. If the sibling
    shares it with probability r, and is updated by itself as a Poisson process of its own rate, what
    was seen of the sibling is 1 + r x times as likely as without sharing, where

        x = sum over g of |g and (a, b]| / (b - a) * ([g has an update] / (1 - exp(-rate |g|)) - 1).

    r maximises the sum of log(1 + r x) over all such pairs (a composite likelihood, concave in r), with
    `PRIOR_PAIRS` pairs in favour of `USUAL_TOGETHERNESS`. The rates are those of Eq. 5 without fading:
    its equation is that the bracket, integrated over all gaps of a page, is 0, so that pages that have
    nothing to do with each other have a mean x of 0 whatever their rates. Gaps are intervals in which
    an update is somewhere; where they are long beside 1 / rate they tell little, and x is near 0.
    """
    x = _excess(sites, visit_days, updated, offsets, baselines)
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        r = (low + high) / 2
        usual = USUAL_TOGETHERNESS / r - (1.0 - USUAL_TOGETHERNESS) / (1.0 - r)
        slope = float(np.sum(x / (1.0 + r * x))) + PRIOR_PAIRS * usual
        low, high = (r, high) if slope > 0 else (low, r)
    return (low + high) / 2


def _excess(
    sites: Ints,
    visit_days: FloatArray,
    updated: BoolArray,
    offsets: IndexArray,
    baselines: BoolArray | None,
) -> FloatArray:
    """Return x of each pair of an update and a sibling that was visited about that time."""
    gaps = gaps_between(visit_days, updated, offsets, baselines=baselines)
    rates = mle(gaps)
    page = page_of_value(offsets)
    is_end = np.ones(len(visit_days), np.bool_)
    is_end[offsets[:-1][np.diff(offsets) > 0]] = False
    if baselines is not None:
        is_end &= ~baselines
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
    ends = np.flatnonzero(is_end & updated & is_compared[page])
    source, after, until = page[ends], visit_days[ends - 1], visit_days[ends]
    parts = [np.zeros(0)]
    for sibling in _siblings(np.where(is_compared, sites, 0), source) if len(ends) else ():
        begin = np.maximum(after, visit_days[offsets[sibling]])
        end = np.minimum(until, visit_days[offsets[sibling + 1] - 1])
        both = np.flatnonzero((sibling != source) & (begin < end))
        at = sibling[both] * span - epoch
        seen = np.interp(at + end[both], axis, surplus) - np.interp(at + begin[both], axis, surplus)
        ratio = np.minimum(1.0, rates[sibling[both]] / rates[source[both]])
        parts.append(ratio * seen / (until - after)[both])
    return np.concatenate(parts)


def _siblings(sites: Ints, pages: Ints) -> list[Ints]:
    """Return for each of the pages the next page of its site, then the one after that, and so on.

    The first page of a site follows its last. Where there is none left it is the page itself.
    """
    order = np.argsort(sites, kind="stable")
    in_order = sites[order]
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    start = np.searchsorted(in_order, sites[pages], side="left")
    size = np.searchsorted(in_order, sites[pages], side="right") - start
    rank = place[pages] - start
    return [
        np.where(size > step, order[start + (rank + step) % size], pages)
        for step in range(1, SIBLINGS_COMPARED + 1)
    ]

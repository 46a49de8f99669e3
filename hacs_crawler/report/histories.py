"""What single pages have shown: their visits, the updates, and how their λ came about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from hacs_crawler.model import estimate, gaps_between
from hacs_crawler.model.bayes import bayes_quantiles
from hacs_crawler.state.database import Estimation, histories
from hacs_crawler.state.page import Page
from hacs_crawler.utils.arrays import FloatArray, IndexArray, offsets_of, page_of_value

MOST_ESTIMATES: Final = 32
"""At so many visits of a page at most, evenly spaced, its λ is estimated."""
QUANTILES: Final = (0.05, 0.95)


@dataclass(frozen=True, slots=True)
class Course:
    """How the λ of pages went, in 1/day: page i has estimates [offsets[i]:offsets[i+1]].

    Each is what the page's visits up to number `visit` (from 0) tell, under today's settings and prior.
    `low` and `high` hold the middle 90 % of the posterior; they are None for estimators without one.
    """

    offsets: IndexArray
    visit: IndexArray
    rate_per_day: FloatArray
    low: FloatArray | None
    high: FloatArray | None


def course(pages: Sequence[Page], estimation: Estimation) -> Course:
    """Estimate λ as it was after each of the pages' visits, from the second on, all at once."""
    days, updated, offsets = histories(pages)
    lengths = [_lengths(count) for count in np.diff(offsets).tolist()]
    length = np.concatenate([np.zeros(0, np.int64), *lengths])
    number = np.array([len(some) for some in lengths], np.int64)
    first = np.repeat(offsets[:-1], number)
    starts = offsets_of(length)
    flat = np.arange(starts[-1]) + (first - starts[:-1])[page_of_value(starts)]
    prefixes = days[flat], updated[flat], starts
    low = high = None
    if estimation.estimator == "bayes":
        gaps = gaps_between(*prefixes, estimation.fade_days)
        low, high = bayes_quantiles(gaps, estimation.prior, QUANTILES).T
    return Course(
        offsets=offsets_of(number),
        visit=length - 1,
        rate_per_day=estimate(
            estimation.estimator,
            *prefixes,
            prior=estimation.prior,
            fade_days=estimation.fade_days,
        ),
        low=low,
        high=high,
    )


def gaps_between_updates(pages: Sequence[Page]) -> FloatArray:
    """Return the days between visits that found an update, one after the other, of all the pages."""
    days, updated, offsets = histories(pages)
    page = page_of_value(offsets)[updated]
    found = days[updated]
    gaps: FloatArray = np.diff(found)[np.diff(page) == 0]
    return gaps


def _lengths(visits: int) -> IndexArray:
    """Return how many of a page's first visits each estimate is made of: from 2 to all of them."""
    if visits < 2:
        return np.zeros(0, np.int64)
    evenly = np.linspace(2, visits, min(visits - 1, MOST_ESTIMATES))
    return np.unique(evenly.round()).astype(np.int64)

"""Bounds: which pages may be among the best, by a bound of p that does not depend on other pages."""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from hacs_crawler.model import SHARED_UPDATES
from hacs_crawler.ranking.candidates import Places
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.policies import Floats, patience
from hacs_crawler.state import VISITS_OF_A_RATE, Estimation, Rows, State, rates_of, signal_kinds
from hacs_crawler.utils.arrays import BoolArray
from hacs_crawler.utils.times import DAY

# Rows computed at a time, so that they fit the processor's cache.
PIECE_ROWS: Final = 16_384
# If more than one page in this many is chosen, ranking all of them is as fast.
LEAST_SHARE: Final = 8
# Pages first tried for each page that is chosen: siblings move some far below their bounds.
TRIED: Final = 4
# Size of the sample from which the first bound is estimated.
_SAMPLED: Final = 100_000
# Additional pages of this sample to try, as chance may have put too few of the best into it.
_SPARE: Final = 32
# Relative error of the expected updates from rounding.
_SLACK: Final = 1e-6
# The largest difference in p that rounding can make.
_ROUNDING: Final = 1e-12
_WAITS: Final = -1.0


class PageBounds(NamedTuple):
    """Pages that may reach a score: their places, ascending, and their bounds.

    `waiting` is the number of pages, of all, that may not be visited yet.
    """

    places: Places
    bound: Floats
    waiting: int


@dataclass(frozen=True, slots=True)
class Bounds:
    """Upper bounds of the scores of some pages, from each page's ranking row alone.

    The bound of p is the value that it would have if no sibling was quiet, and siblings were updated
    after the page's last visit (`shared`). Bounds are expected updates, -ln(1 - score), and `_WAITS` for
    pages that may not be visited yet. `expected` is the highest rate (`highest_rate`) of a page seen
    once. Times in seconds since 1970 UTC.
    """

    rows: Rows
    estimation: Estimation
    expected: float
    now: float
    shared: float

    def of(self, rows: Rows) -> Floats:
        """Return the bound of each row."""
        days = np.maximum(self.now - rows["last_visit"], 0.0) * ((1.0 + _SLACK) / DAY)
        expected = _expected(rates_of(rows, self.estimation).probability(days)) * (1.0 + _SLACK)
        expected[rows["visits"] == 0] = np.inf
        expected += self.shared
        failed = np.flatnonzero(rows["failures"])
        factor = patience(rows["failures"][failed], rows["visits"][failed])
        expected[failed] = _expected(-np.expm1(-expected[failed]) * factor) * (1.0 + _SLACK)
        expected[rows["not_before"] > self.now] = _WAITS
        return expected

    def of_some(self, most: int) -> float:
        """Estimate, from a sample, the bound that `TRIED` times `most` pages reach.

        It is never above the bound of a score of 1, which many pages may have.
        """
        step = max(1, len(self.rows) // _SAMPLED)
        sample = self.of(self.rows[::step])
        number = TRIED * most // step + _SPARE
        if number >= len(sample):
            return 0.0
        least = float(np.partition(sample, -number)[-number])
        return min(max(least, 0.0) * (1.0 - 4.0 * _SLACK), reach_of(1.0))

    def reaching(self, least: float, below: float = np.inf) -> PageBounds:
        """Return the pages whose bound is at least `least` and, if that is finite, below `below`."""
        ids, waiting = [np.zeros(0, np.int64)], 0
        for start in range(0, len(self.rows), PIECE_ROWS):
            some = self.rows[start : start + PIECE_ROWS]
            ids.append(start + np.flatnonzero(self._may_have(some, least)))
            waiting += int(np.count_nonzero(some["not_before"] > self.now))
        places = np.concatenate(ids)
        bound = np.empty(len(places))
        for start in range(0, len(places), PIECE_ROWS):
            piece = slice(start, start + PIECE_ROWS)
            bound[piece] = self.of(np.take(self.rows, places[piece]))
        is_wanted = bound >= least
        if below < np.inf:
            is_wanted &= bound < below
        return PageBounds(places[is_wanted], bound[is_wanted], waiting)

    def _may_have(self, rows: Rows, bound: float) -> BoolArray:
        """Return which pages may have that bound; waits and failures are ignored."""
        # contiguous copies are faster than fields of rows
        visits, last_visit = rows["visits"].copy(), rows["last_visit"].copy()
        seconds = np.maximum(self.now - last_visit, 0.0)
        rate = highest_rate(rows["share"], rows["fast"], rows["slow"])
        seconds *= np.where(visits < VISITS_OF_A_RATE, self.expected, rate)
        may: BoolArray = seconds >= (bound - self.shared) * (DAY / (1.0 + _SLACK))
        may |= visits == 0
        return may


def bounds_of(rows: Rows, state: State, options: RankingOptions, now: float) -> Bounds:
    """Return bounds of the pages' scores; valid if `may_be_bounded`."""
    page = state.estimation.expected()
    first = highest_rate(page.fast_share, page.fast_per_day, page.slow_per_day)
    return Bounds(
        rows=rows,
        estimation=state.estimation,
        expected=float(first[0]),
        now=now,
        shared=float(_expected(SHARED_UPDATES)) if options.counts_siblings else 0.0,
    )


def highest_rate(share: ArrayLike, fast_per_day: ArrayLike, slow_per_day: ArrayLike) -> Floats:
    """Return the least h with -ln S(x) <= h x: w a + (1 - w) b, the rate at the visit, if it falls.

    If the rate grows, h is its limit, b. Shapes broadcast.
    """
    share, slow = np.asarray(share, np.float64), np.asarray(slow_per_day, np.float64)
    falling: Floats = share * np.asarray(fast_per_day, np.float64) + (1.0 - share) * slow
    return np.where(share < 0, slow, falling)


def reach_of(score: float) -> float:
    """Return the least bound of pages that may have that score."""
    return float(_expected(max(min(score, 1.0) - _ROUNDING, 0.0)))


def may_be_bounded(options: RankingOptions, state: State, number: int, most: int) -> bool:
    """Whether bounds of p bound scores, and speed up finding the best `most` of `number` pages."""
    policy = options.policy
    return (
        number >= LEAST_SHARE * most
        and options.ranks_by_p
        and not options.least_p
        and options.elapsed_from == "visit"
        and not (policy.uses_signals and signal_kinds(state.store))
    )


def _expected(p: ArrayLike) -> Floats:
    """Return the expected number of updates if p is the probability of at least one."""
    with np.errstate(divide="ignore"):
        return -np.log1p(-np.asarray(p, np.float64))

"""Bound first: which pages may be among the best, by a bound of p that asks nothing of other pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hacs_crawler.model import SHARED_UPDATES, is_trend
from hacs_crawler.ranking.candidates import Correct, Places
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.policies import Floats
from hacs_crawler.ranking.selection import explored
from hacs_crawler.state import VISITS_OF_A_RATE, Estimation, Rows, State, heard_kinds
from hacs_crawler.utils.arrays import BoolArray
from hacs_crawler.utils.times import DAY

PIECE_ROWS: Final = 16_384
"""For so many rows bounds are made at a time: they stay in the processor's cache."""
_LOOKED_UP: Final = 65_536
LEAST_SHARE: Final = 8
"""Where one of so many pages or more is chosen, ranking all of them takes no longer."""
TRIED: Final = 2
"""How many pages are ranked first for each that is chosen: siblings bring some far below the bound."""
_SAMPLED: Final = 1_000
"""Of so many chosen pages one is enough to say about how high the bounds of the first ones are."""
_SLACK: Final = 1e-6
"""What the table of p and rounding may add to the updates expected, as a share of them."""
_ROUNDING: Final = 1e-12
"""By how much p may differ from another one that is the same but for rounding."""
_SITES: Final = 2**22
"""Sites are told apart by so many numbers: those with the same are ranked all, or none of them."""
_WAITS: Final = -1.0


@dataclass(frozen=True, slots=True)
class Bounds:
    """An upper bound of the score of each of some pages, by their ranking rows.

    Bounds are -ln(1 - score), the updates expected, `_WAITS` for pages that are not to be visited yet.
    What is returned says for each number of sites whether these are meant.
    """

    bound: NDArray[np.float32]
    rows: Rows

    @property
    def waiting(self) -> int:
        """How many pages are not to be visited yet."""
        return int((self.bound == _WAITS).sum())

    def of_highest(self, most: int) -> BoolArray:
        """Return the sites of the pages with the highest bounds, some `TRIED` for each chosen."""
        step = min(max(most // _SAMPLED, 1), 8)
        some = self.bound[::step]
        first = len(some) - TRIED * most // step
        least = np.partition(some, first)[first]
        return self._sites_of(np.flatnonzero(self.bound >= least))

    def reaching(self, score: float) -> BoolArray:
        """Return the sites of the pages that may have that score."""
        least = _expected(max(score - _ROUNDING, 0.0))
        return self._sites_of(np.flatnonzero(self.bound >= least))

    def places(self, is_meant: BoolArray) -> Places:
        """Return where all pages of these sites stand, ascending."""
        found = []
        for start in range(0, len(self.rows), _LOOKED_UP):
            numbers = _numbers(self.rows[start : start + _LOOKED_UP])
            found.append(start + np.flatnonzero(is_meant.take(numbers, mode="clip")))
        return np.concatenate(found)

    def _sites_of(self, places: Places) -> BoolArray:
        is_meant = np.zeros(_SITES, np.bool_)
        is_meant[_numbers(np.take(self.rows, places))] = True
        return is_meant


def _numbers(rows: Rows) -> Places:
    """Return the numbers of the pages' sites."""
    numbers: Places = rows["site"].astype(np.int64)
    numbers &= _SITES - 1
    return numbers


def bounds_of(
    rows: Rows,
    state: State,
    options: RankingOptions,
    now: float,
    correct: Correct | None,
    most: int | None,
) -> Bounds | None:
    """Return bounds of the pages' scores; None where the best `most` are found as fast without.

    p is bounded by what it is where the rate is known for certain, siblings were never seen quiet, and
    as many as count were updated after the page's last visit. So most pages take one multiplication.
    """
    if most is None or len(rows) < LEAST_SHARE * most or not _is_bounded(options, state):
        return None
    return _bounds(rows, state.estimation, options, now, correct)


def _is_bounded(options: RankingOptions, state: State) -> bool:
    """Whether a bound of p bounds the score, and only the best by score are asked for."""
    (arm, *others) = options.experiment.arms
    return (
        not others
        and arm.policy.is_by_p
        and not (arm.policy.uses_threshold and options.threshold)
        and not explored(options.budget, options.explore)
        and options.elapsed_from == "visit"
        and not (arm.policy.uses_signals and heard_kinds(state.store))
    )


def _bounds(
    rows: Rows,
    estimation: Estimation,
    options: RankingOptions,
    now: float,
    correct: Correct | None,
) -> Bounds:
    bound = np.empty(len(rows), np.float32)
    shared = -np.log1p(-SHARED_UPDATES) if options.counts_siblings else 0.0
    until = now + options.horizon_days * DAY
    a_second = (1.0 + _SLACK) / DAY
    for start in range(0, len(rows), PIECE_ROWS):
        piece = slice(start, start + PIECE_ROWS)
        some = rows[piece]
        days = np.maximum(until - some["last_visit"], 0.0)
        days *= a_second
        expected = some["rate"] * days
        few = np.flatnonzero(some["visits"] < VISITS_OF_A_RATE)
        of_prior = estimation.prior.mean_rate * days[few]
        expected[few] = np.where(some["visits"][few] > 0, of_prior, np.inf)
        expected[is_trend(some["log_sd"])] = np.inf
        expected += shared
        changed = np.flatnonzero(some["failures"]) if correct is None else np.arange(len(some))
        expected[changed] = _changed(expected[changed], some[changed], correct)
        expected[some["not_before"] > now] = _WAITS
        bound[piece] = expected
    return Bounds(bound, rows)


def _changed(expected: Floats, rows: Rows, correct: Correct | None) -> Floats:
    """Return bounds after the correction of p, and after what failed attempts take off."""
    p = -np.expm1(-expected)
    if correct is not None:
        p = np.where(rows["visits"] > 0, correct(p), p)
    return _expected(p * 0.5 ** rows["failures"]) * (1.0 + _SLACK)


def _expected(p: ArrayLike) -> Floats:
    """Return how many updates are expected where p is the probability of one at least."""
    with np.errstate(divide="ignore"):
        return -np.log1p(-np.asarray(p, np.float64))

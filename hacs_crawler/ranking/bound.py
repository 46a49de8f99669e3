"""Bound first: which pages may be among the best, by a bound of p that asks nothing of other pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hacs_crawler.model import SHARED_UPDATES, is_trend
from hacs_crawler.ranking.candidates import Correct, Places, candidates_from
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.policies import Floats
from hacs_crawler.ranking.selection import explored
from hacs_crawler.state import VISITS_OF_A_RATE, Estimation, Rows, State, heard_kinds
from hacs_crawler.utils.times import DAY

Bounds = NDArray[np.float32]

PIECE_ROWS: Final = 16_384
"""So many rows are looked at at a time: they stay in the processor's cache."""
LEAST_SHARE: Final = 8
"""Where one of so many pages or more is chosen, ranking all of them takes no longer."""
TRIED: Final = 2
"""How many pages are ranked first for each that is chosen: siblings bring some far below the bound."""
_SLACK: Final = 1e-6
"""What the table of p and rounding may add to the updates expected, as a share of them."""
_ROUNDING: Final = 1e-12
"""By how much p may differ from another one that is the same but for rounding."""
_SITES: Final = 2**22
"""Sites are told apart by so many numbers: those with the same are ranked all, or none of them."""
_WAITS: Final = -1.0


@dataclass(frozen=True, slots=True)
class Reach:
    """Where the pages of all sites stand that may have one of the best, and how many others there are.

    `waiting` of the others are gone and not to be visited yet, `eligible` may be visited.
    """

    places: Places
    waiting: int
    eligible: int


def within_reach(
    rows: Rows,
    state: State,
    options: RankingOptions,
    now: float,
    correct: Correct | None,
    most: int | None,
) -> Reach | None:
    """Return which pages have to be ranked so that the best `most` are those of all; None: all.

    p is bounded by what it is where the rate is known for certain, siblings were never seen quiet, and
    as many as count were updated after the page's last visit. The pages with the highest bounds are
    ranked with their sites; whoever's bound is below the worst of the best of these is not among the
    best, nor is anything that its siblings tell, of other sites, of any use.
    """
    if most is None or len(rows) < LEAST_SHARE * most or not _is_bounded(options, state):
        return None
    bound, sites = _bounds(rows, state.estimation, options, now, correct)
    looked_at = len(bound) - TRIED * most
    highest = np.argpartition(bound, looked_at)[looked_at:]
    known = np.take(rows, _of_sites(sites, highest))
    ids = np.zeros(len(known), np.int64)
    sure = candidates_from(ids, known, now, state.estimation, options, correct)
    score = np.where(known["not_before"] > now, 0.0, sure.p * 0.5**sure.failures)
    least = float(np.partition(score, len(score) - most)[len(score) - most]) - _ROUNDING
    places = _of_sites(sites, np.flatnonzero(bound >= _expected(max(least, 0.0))))
    waiting = int((bound == _WAITS).sum()) - int((bound[places] == _WAITS).sum())
    return Reach(places, waiting, len(rows) - len(places) - waiting)


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
) -> tuple[Bounds, NDArray[np.uint32]]:
    """Return an upper bound of each page's score, and the number of its site.

    Bounds are -ln(1 - score), the updates expected: for most pages that takes one multiplication.
    `_WAITS` stands for pages that are not to be visited yet.
    """
    bound, sites = np.empty(len(rows), np.float32), np.empty(len(rows), np.uint32)
    shared = -np.log1p(-SHARED_UPDATES) if options.counts_siblings else 0.0
    until = now + options.horizon_days * DAY
    a_second = (1.0 + _SLACK) / DAY
    for start in range(0, len(rows), PIECE_ROWS):
        piece = slice(start, start + PIECE_ROWS)
        some = rows[piece]
        seconds = np.maximum(until - some["last_visit"], 0.0)
        expected = some["rate"] * seconds * a_second
        few = np.flatnonzero(some["visits"] < VISITS_OF_A_RATE)
        of_prior = estimation.prior.mean_rate * seconds[few] * a_second
        expected[few] = np.where(some["visits"][few] > 0, of_prior, np.inf)
        expected[is_trend(some["log_sd"])] = np.inf
        expected += shared
        changed = np.flatnonzero((some["failures"] > 0) | (correct is not None))
        expected[changed] = _changed(expected[changed], some[changed], correct)
        expected[some["not_before"] > now] = _WAITS
        bound[piece] = expected
        sites[piece] = some["site"] & np.uint32(_SITES - 1)
    return bound, sites


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


def _of_sites(sites: NDArray[np.uint32], places: Places) -> Places:
    """Return the places of all pages of the sites of those at `places`, ascending."""
    is_wanted = np.zeros(_SITES, np.bool_)
    is_wanted[sites[places]] = True
    return np.flatnonzero(is_wanted[sites])

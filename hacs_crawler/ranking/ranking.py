"""From ranking rows to an order: candidates, scores, and the best of a stream of entries."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.model import Sightings, elapsed_days, sibling_evidence, update_probability
from hacs_crawler.ranking.policies import Candidates, Floats, Policy, brute_force
from hacs_crawler.ranking.selection import Places, explored, scored
from hacs_crawler.state import Ids, Rows
from hacs_crawler.utils.times import DAY

T = TypeVar("T")
Correct = Callable[[Floats], Floats]
"""A monotone correction of probabilities, as `hacs calibrate` fits it."""


def candidates_from(  # noqa: PLR0913 - one for each setting of p
    page_ids: Ids,
    rows: Rows,
    now: float,
    *,
    prior_rate_per_day: float,
    elapsed_from: str = "visit",
    horizon_days: float = 0.0,
    has_siblings: bool = True,
    correct: Correct | None = None,
    seed: int = 0,
) -> Candidates:
    """Return what policies look at, from ranking rows (dtype `codec.ROW`).

    `now` is in seconds since 1970 UTC. `elapsed_from` is "visit" or "update": where e starts. With
    `has_siblings` p takes into account what was seen of a site's other pages; e since the update is
    the paper's own rule, which does not. `correct` is applied to the p of pages that were visited.
    """
    is_visited = rows["visits"] > 0
    # a page seen once has no gap to learn from, and its rate in the row is of an older prior
    rate = np.where(rows["visits"] > 1, rows["rate"], prior_rate_per_day)
    last_visit = np.where(is_visited, rows["last_visit"] / DAY, np.nan)
    last_update = np.where(is_visited, rows["last_update"] / DAY, np.nan)
    now_day = now / DAY
    reference = last_visit if elapsed_from == "visit" else last_update
    since_update = elapsed_days(now_day, last_update, 0.0)
    elapsed = elapsed_days(now_day, reference, horizon_days)
    has_update = rows["updates"] > 0
    quiet_days, shared = sibling_evidence(
        Sightings(
            rows["site"].astype(np.int64) * (has_siblings and elapsed_from == "visit"),
            rate,
            last_visit,
            np.where(has_update, last_update, np.nan),
            np.where(has_update, rows["before_update"] / DAY, np.nan),
        )
    )
    alone = update_probability(rate, np.maximum(elapsed - quiet_days, 0.0))
    raw_p = 1.0 - (1.0 - alone) * (1.0 - shared)
    return Candidates(
        page_ids=page_ids,
        rate_per_day=rate,
        days_since_visit=elapsed_days(now_day, last_visit, 0.0),
        days_since_update=np.where(rows["updates"] > 0, since_update, np.inf),
        p=raw_p if correct is None else np.where(is_visited, correct(raw_p), raw_p),
        raw_p=raw_p,
        visits=rows["visits"].astype(np.int64),
        updates=rows["updates"].astype(np.int64),
        failures=rows["failures"].astype(np.int64),
        seed=seed,
    )


@dataclass(frozen=True, slots=True)
class Ranked(Generic[T]):
    """An entry as it was ranked.

    `p` and `raw_p` are as in `Candidates`, `days_since_visit` is infinite where the page was never
    visited.
    """

    entry: T
    p: float
    raw_p: float
    rate_per_day: float
    days_since_visit: float

    @property
    def is_known(self) -> bool:
        """Whether the page was visited before."""
        return math.isfinite(self.days_since_visit)


@dataclass(frozen=True, slots=True)
class Dropped(Generic[T]):
    """Entries that will not be visited, by reason."""

    gone: list[T]
    """The page answered 404 or 410, and its waiting time is not over."""
    threshold: list[T]
    duplicate: list[T]
    budget: list[T]


@dataclass(frozen=True, slots=True)
class _Pool(Generic[T]):
    """Entries with what orders them and what was found of their pages, arrays of one length."""

    entries: list[T]
    page_ids: Ids
    score: Floats
    visits: NDArray[np.int64]
    arrival: NDArray[np.int64]
    p: Floats
    raw_p: Floats
    rate_per_day: Floats
    days_since_visit: Floats

    def take(self, places: Places) -> _Pool[T]:
        entries = [self.entries[place] for place in places.tolist()]
        return _Pool(entries, *(column[places] for column in self._columns()))

    def with_(self, other: _Pool[T]) -> _Pool[T]:
        columns = zip(self._columns(), other._columns(), strict=True)
        return _Pool(self.entries + other.entries, *map(np.concatenate, columns))

    def ranked(self) -> list[Ranked[T]]:
        numbers = [column.tolist() for column in self._columns()[4:]]
        return [Ranked(*facts) for facts in zip(self.entries, *numbers, strict=True)]

    def _columns(self) -> tuple[NDArray[Any], ...]:
        return (
            self.page_ids,
            self.score,
            self.visits,
            self.arrival,
            self.p,
            self.raw_p,
            self.rate_per_day,
            self.days_since_visit,
        )


class Ranking(Generic[T]):
    """Ranks a stream of entries, each of one page, and keeps the best within the budget.

    Memory is bounded by the budget and the size of one offer. Ties keep the order of arrival.
    `explore` is the share of the budget that goes to the entries with the least evidence (fewest
    visits) among those that would not be chosen by score.
    """

    def __init__(  # noqa: PLR0913 - one for each setting
        self,
        policy: Policy,
        *,
        threshold: float = 0.0,
        budget: int | None = None,
        explore: float = 0.0,
        elapsed_from: str = "visit",
        horizon_days: float = 0.0,
        has_siblings: bool = True,
        correct: Correct | None = None,
        seed: int = 0,
    ) -> None:
        self._policy = policy
        self._threshold = 0.0 if policy is brute_force else threshold
        self._budget = budget
        self._explored = explored(budget, explore)
        self._elapsed_from = elapsed_from
        self._horizon_days = horizon_days
        self._has_siblings = has_siblings
        self._correct = correct
        self._seed = seed
        self._arrived = 0
        self._pool = self._empty_pool()

    def offer(
        self,
        entries: Sequence[T],
        page_ids: Ids,
        rows: Rows,
        now: float,
        prior_rate_per_day: float,
        may_repeat: NDArray[np.bool_] | None = None,
    ) -> Dropped[T]:
        """Score entries and keep those that may be chosen.

        `rows` are their pages' ranking rows, `now` is in seconds since 1970 UTC. Of several entries
        of one page the first is kept, and those marked in `may_repeat`. Raises ConfigError where the
        policy does not return one number an entry.
        """
        candidates = candidates_from(
            page_ids,
            rows,
            now,
            prior_rate_per_day=prior_rate_per_day,
            elapsed_from=self._elapsed_from,
            horizon_days=self._horizon_days,
            has_siblings=self._has_siblings,
            correct=self._correct,
            seed=self._seed,
        )
        score = scored(self._policy, candidates)
        is_gone = rows["not_before"] > now
        is_low = ~is_gone & (candidates.p < self._threshold)
        is_repeated = ~is_gone & ~is_low & self._repeats(page_ids, may_repeat)
        arrival = np.arange(self._arrived, self._arrived + len(entries))
        self._arrived += len(entries)
        offered = _Pool(
            list(entries),
            page_ids,
            score,
            candidates.visits,
            arrival,
            candidates.p,
            candidates.raw_p,
            candidates.rate_per_day,
            candidates.days_since_visit,
        )
        kept = np.flatnonzero(~(is_gone | is_low | is_repeated))
        self._pool = self._pool.with_(offered.take(kept))
        return Dropped(
            gone=_those(entries, is_gone),
            threshold=_those(entries, is_low),
            duplicate=_those(entries, is_repeated),
            budget=self._cut(),
        )

    def take(self) -> tuple[list[Ranked[T]], list[T]]:
        """Return the chosen entries, best first, and the others, which the budget drops."""
        chosen = self._chosen()
        taken = self._pool.take(chosen).ranked()
        others = self._others(chosen)
        self._pool = self._empty_pool()
        if self._budget is not None:
            self._budget -= len(taken)
            self._explored = min(self._explored, self._budget)
        return taken, others

    @staticmethod
    def _empty_pool() -> _Pool[T]:
        ids = np.zeros(0, np.int64)
        numbers = np.zeros(0)
        return _Pool([], ids, numbers, ids, ids, numbers, numbers, numbers, numbers)

    def _repeats(self, page_ids: Ids, may_repeat: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
        repeats = np.ones(len(page_ids), np.bool_)
        repeats[np.unique(page_ids, return_index=True)[1]] = False
        repeats |= np.isin(page_ids, self._pool.page_ids)
        return repeats if may_repeat is None else repeats & ~may_repeat

    def _by_score(self) -> Places:
        return np.lexsort((self._pool.arrival, -self._pool.score))

    def _chosen(self) -> Places:
        by_score = self._by_score()
        if self._budget is None or len(by_score) <= self._budget:
            return by_score
        best = by_score[: self._budget - self._explored]
        least_known = self._least_known()
        explored = least_known[~np.isin(least_known, best)][: self._explored]
        return by_score[np.isin(by_score, np.concatenate([best, explored]))]

    def _least_known(self) -> Places:
        return np.lexsort((self._pool.arrival, -self._pool.score, self._pool.visits))

    def _cut(self) -> list[T]:
        """Forget, and return, what can no longer be chosen."""
        if self._budget is None or len(self._pool.entries) <= self._budget:
            return []
        kept = self._by_score()[: self._budget]
        if self._explored:
            kept = np.union1d(kept, self._least_known()[: self._budget])
        others = self._others(kept)
        self._pool = self._pool.take(kept)
        return others

    def _others(self, places: Places) -> list[T]:
        is_other = np.ones(len(self._pool.entries), np.bool_)
        is_other[places] = False
        return [self._pool.entries[place] for place in np.flatnonzero(is_other).tolist()]


def _those(entries: Sequence[T], places: NDArray[np.bool_]) -> list[T]:
    return [entries[place] for place in np.flatnonzero(places).tolist()]

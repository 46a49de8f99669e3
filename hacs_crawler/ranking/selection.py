"""Who is visited, and in which order: scores, the best places, and the best of a stream of entries."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.exceptions import ConfigError
from hacs_crawler.links import site_id
from hacs_crawler.ranking.candidates import (
    Correct,
    Places,
    candidates_from,
    joined,
    nobody,
    taken,
)
from hacs_crawler.ranking.controls import control_worth, controlled
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.policies import Candidates, Floats, Policy
from hacs_crawler.ranking.signals import Signals
from hacs_crawler.rendering import Costs
from hacs_crawler.state import Estimation, Ids, Prediction, Rows, predictions

T = TypeVar("T")


def scored(policy: Policy, candidates: Candidates) -> Floats:
    """Return the policy's scores; one that is no number is the lowest.

    Raises ConfigError where the policy does not return one number a page.
    """
    score = np.asarray(policy(candidates))
    if score.shape != candidates.p.shape or not np.issubdtype(score.dtype, np.number):
        msg = (
            f"HACS_POLICY: {policy.name} returned {score.dtype} of shape {score.shape} for "
            f"{len(candidates.p)} pages: allowed is one number a page"
        )
        raise ConfigError(msg)
    return np.nan_to_num(score.astype(np.float64), nan=-np.inf, posinf=np.inf, neginf=-np.inf)


def best_places(score: Floats, budget: int | None, limit: int | None = None) -> Places:
    """Return the places of the pages to be visited, best first, `limit` of them at most.

    Ties keep their order. Takes time in proportion to the number of scores where few are chosen.
    """
    number = len(score)
    most = min(some for some in (budget, limit, number) if some is not None)
    places = foremost(-score, most)
    return places[np.lexsort((places, -score[places]))]


def for_unseen(budget: int | None, discover: float | None) -> int | None:
    """Return how many visits of a budget go to pages never seen; None where these come first.

    One at least, of two or more: what no page leads to is never found.
    """
    if budget is None or discover is None:
        return None
    share = math.floor(discover * budget + 1e-9)
    return max(share, 1) if discover and budget > 1 else share


@dataclass(frozen=True, slots=True)
class Dropped(Generic[T]):
    """Entries that will not be visited, by reason."""

    gone: list[T]
    """The page answered 404 or 410, and its waiting time is not over."""
    threshold: list[T]
    budget: list[T]

    def add(self, other: Dropped[T]) -> None:
        """Add what else will not be visited."""
        for field in fields(self):
            getattr(self, field.name).extend(getattr(other, field.name))


@dataclass(frozen=True, slots=True)
class Chosen(Generic[T]):
    """Entries of one arm, best first, with one element a page in each array.

    `p`, `raw_p`, `days_since_visit` and `churn` are as in `Candidates`; `score` is what orders the
    entries. `asked_twice` says which get a control visit, see `controlled`.
    """

    entries: list[T]
    page_ids: Ids
    score: Floats
    p: Floats
    raw_p: Floats
    rate_per_day: Floats
    days_since_visit: Floats
    churn: Floats
    asked_twice: NDArray[np.bool_]

    @property
    def controls(self) -> int:
        """How many control visits there are to be."""
        return int(np.count_nonzero(self.asked_twice))

    def predictions(self, label: int, run: int) -> list[Prediction]:
        """Return what is predicted of each, by the label of that number, in the run of that second."""
        return predictions(
            label,
            run,
            p=self.p,
            raw_p=self.raw_p,
            rate_per_day=self.rate_per_day,
            days_since_visit=self.days_since_visit,
            churn=self.churn,
        )


class Selection(Generic[T]):
    """Chooses among a stream of entries, each of one page, the best within each arm's budget.

    Memory is bounded by the budget and the size of one offer. Ties keep the order of arrival. `url_of`
    returns the URL of an entry's page. `controls` is how many control visits there may be in all, and
    `costs` what visits take, where a policy asks for that.

    With `RankingOptions.discover` pages never seen have a share of each budget, and the others the rest,
    until what one kind leaves unused is given to the other: see `take`.
    """

    def __init__(
        self,
        options: RankingOptions,
        correct: Correct | None = None,
        url_of: Callable[[T], str] = str,
        controls: int = 0,
        costs: Costs | None = None,
    ) -> None:
        self._options = options
        self._costs = costs
        self._correct = correct
        self._url_of = url_of
        self._pools = [
            _Pool[T](
                budget,
                most,
                for_unseen(budget, options.discover),
            )
            for budget, most in zip(options.budgets(), options.controls(controls), strict=True)
        ]

    def offer(
        self,
        entries: Sequence[T],
        page_ids: Ids,
        rows: Rows,
        now: float,
        estimation: Estimation,
        is_exempt: NDArray[np.bool_] | None = None,
        *,
        signals: Sequence[Signals] = (),
    ) -> Dropped[T]:
        """Score entries and keep those that may be chosen.

        `rows` are their pages' ranking rows, `now` is in seconds since 1970 UTC, `signals` what was
        heard of the pages. Pages that are gone and wait come last where there is neither budget nor
        threshold, and are left out else. `is_exempt` says which entries no threshold leaves out. Raises
        ConfigError where a policy does not return one number an entry.
        """
        candidates = candidates_from(
            page_ids,
            rows,
            now,
            estimation,
            self._options,
            self._correct,
            signals=signals,
            costs=self._costs,
        )
        dropped: Dropped[T] = Dropped([], [], [])
        arms, thresholds = self._options.experiment.arms, self._options.thresholds()
        for number, places in enumerate(self._places_by_arm(entries, rows)):
            some = candidates if len(arms) == 1 else taken(candidates, places)
            score = scored(arms[number].policy, some)
            is_gone = rows["not_before"][places] > now
            own = [entries[place] for place in places.tolist()]
            pool = self._pools[number]
            if not self._options.leaves_out:
                pool.add(own, some, np.where(is_gone, -np.inf, score))
                continue
            is_low = ~is_gone & (some.p < thresholds[number])
            if is_exempt is not None:
                is_low &= ~is_exempt[places]
            kept = ~(is_gone | is_low)
            cut = pool.add(_those(own, kept), taken(some, kept), score[kept])
            dropped.add(Dropped(_those(own, is_gone), _those(own, is_low), cut))
        return dropped

    @property
    def waits(self) -> bool:
        """Whether entries are kept for what the other kind of page may leave unused."""
        return any(pool.waits for pool in self._pools)

    def take(self, *, is_last: bool = True) -> tuple[list[Chosen[T]], list[T]]:
        """Return each arm's chosen entries, and the others of all arms, which the budget drops.

        Where pages never seen have a share, those over it, and those over the rest, are kept until the
        crawl has nothing else to do: then `is_last` gives them what is left, visited pages first.
        """
        chosen, others = [], []
        for pool in self._pools:
            best, rest = pool.take(is_last=is_last)
            chosen.append(best)
            others += rest
        return chosen, others

    def _places_by_arm(self, entries: Sequence[T], rows: Rows) -> list[Places]:
        experiment = self._options.experiment
        if not experiment.is_on:
            return [np.arange(len(entries))]
        sites = rows["site"].astype(np.int64)
        for place in np.flatnonzero(sites == 0).tolist():  # the state has no row of the page
            sites[place] = site_id(self._url_of(entries[place]))
        arms = experiment.assign(sites)
        return [np.flatnonzero(arms == number) for number in range(len(experiment.arms))]


class _Pool(Generic[T]):
    """The entries of one arm that may be chosen, in the order of their arrival."""

    def __init__(self, budget: int | None, controls: int, for_unseen: int | None = None) -> None:
        self._budget = budget
        self._controls = controls
        self._for_unseen = for_unseen
        self._entries: list[T] = []
        self._parts: list[tuple[Candidates, Floats]] = []

    def add(self, entries: list[T], candidates: Candidates, score: Floats) -> list[T]:
        """Add entries; forget, and return, those that can no longer be chosen."""
        self._entries += entries
        self._parts.append((candidates, score))
        if self._budget is None or len(self._entries) <= self._budget:
            return []
        together, scores = self._joined()
        if self._for_unseen is not None:
            kinds = _unseen_and_seen(together)
            best = [kind[foremost(-scores[kind], self._budget)] for kind in kinds]
            return self._keep(_among(np.concatenate(best), len(scores)), together, scores)
        kept = foremost(-scores, self._budget)
        return self._keep(_among(kept, len(scores)), together, scores)

    @property
    def waits(self) -> bool:
        """Whether there are entries, and a budget for some of them."""
        return bool(self._entries) and self._budget != 0

    def take(self, *, is_last: bool) -> tuple[Chosen[T], list[T]]:
        """Return the chosen entries, and those that can no longer be; forget both."""
        candidates, score = self._joined()
        if self._budget is None or self._for_unseen is None:
            places = best_places(score, self._budget)
        else:
            places = self._of_both_kinds(candidates, score, self._budget, is_last=is_last)
        best = taken(candidates, places)
        worth = control_worth(best.p, best.churning, best.visits, best.updates)
        asked_twice, number = controlled(worth, self._budget, self._controls)
        places, best = places[:number], taken(best, np.arange(number))
        entries = [self._entries[place] for place in places.tolist()]
        self._keep(~_among(places, len(score)), candidates, score)
        numbers = (score[places], best.p, best.raw_p, best.rate_per_day, best.days_since_visit)
        chosen = Chosen(entries, best.page_ids, *numbers, best.churn, asked_twice)
        if self._budget is not None:
            self._budget -= number + chosen.controls
            self._controls -= chosen.controls
        if self._for_unseen is not None:
            self._for_unseen -= int(np.count_nonzero(best.visits == 0))
            self._for_unseen = min(max(self._for_unseen, 0), self._budget or 0)
        if self._budget and self._for_unseen is not None:
            return chosen, []
        others, self._entries, self._parts = self._entries, [], []
        return chosen, others

    def _of_both_kinds(
        self, candidates: Candidates, score: Floats, budget: int, *, is_last: bool
    ) -> Places:
        """Return the places of pages never seen, and of others, within the shares of the budget."""
        unseen, seen = _unseen_and_seen(candidates)
        share = self._for_unseen or 0
        of_unseen, of_seen = min(len(unseen), share), min(len(seen), budget - share)
        if is_last:
            of_seen = min(len(seen), budget - of_unseen)
            of_unseen = min(len(unseen), budget - of_seen)
        first, newest = foremost(-score[seen], of_seen), foremost(-score[unseen], of_unseen)
        both = np.sort(np.concatenate([unseen[newest], seen[first]]))
        return both[np.argsort(-score[both], kind="stable")]

    def _keep(self, is_kept: NDArray[np.bool_], candidates: Candidates, score: Floats) -> list[T]:
        others = _those(self._entries, ~is_kept)
        self._entries = _those(self._entries, is_kept)
        self._parts = [(taken(candidates, is_kept), score[is_kept])]
        return others

    def _joined(self) -> tuple[Candidates, Floats]:
        if len(self._parts) == 1:
            return self._parts[0]
        parts = [part for part, _ in self._parts] or [nobody()]
        score = np.concatenate([np.zeros(0), *(score for _, score in self._parts)])
        return joined(parts), score


def _unseen_and_seen(candidates: Candidates) -> tuple[Places, Places]:
    """Return the places of pages never seen, and of the others."""
    return np.flatnonzero(candidates.visits == 0), np.flatnonzero(candidates.visits > 0)


def _among(places: Places, number: int) -> NDArray[np.bool_]:
    """Return of each of so many entries whether its place is among these."""
    found = np.zeros(number, np.bool_)
    found[places] = True
    return found


def _those(entries: Sequence[T], places: NDArray[np.bool_]) -> list[T]:
    return [entries[place] for place in np.flatnonzero(places).tolist()]


def foremost(key: Floats, count: int) -> Places:
    """Return the places of the `count` lowest keys, in no order; ties go to the lowest places."""
    if count <= 0 or count >= len(key):
        return np.arange(max(0, min(count, len(key))))
    last = np.partition(key, count - 1)[count - 1]
    sure = np.flatnonzero(key < last)
    tied = np.flatnonzero(key == last)
    return np.concatenate([sure, tied[: count - len(sure)]])

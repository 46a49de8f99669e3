"""Which of a stream of entries, each of one page, are visited, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.links import site_id
from hacs_crawler.ranking.candidates import candidates_from, joined, nobody, taken
from hacs_crawler.ranking.choice import Arms, arm_scores, choose, contenders, quotas_of
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.policies import Candidates, Floats
from hacs_crawler.ranking.signals import Signals
from hacs_crawler.state import Estimation, Ids, Prediction, Rows, State
from hacs_crawler.utils.arrays import BoolArray

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Dropped(Generic[T]):
    """Entries that will not be visited, by reason."""

    gone: list[T]
    """The page answered 404 or 410, and its waiting time is not over."""
    threshold: list[T]
    budget: list[T]


@dataclass(frozen=True, slots=True)
class Chosen(Generic[T]):
    """Entries of one arm, best first, with one element a page in each array.

    `p`, `days_since_visit` and `churn` are as in `Candidates`; `score` is what orders the
    entries. `visit_twice` says which get a control visit, see `controlled`.
    """

    entries: list[T]
    page_ids: Ids
    score: Floats
    p: Floats
    rate_per_day: Floats
    days_since_visit: Floats
    churn: Floats
    visit_twice: NDArray[np.bool_]

    @property
    def controls(self) -> int:
        """How many control visits there are to be."""
        return int(np.count_nonzero(self.visit_twice))

    def predictor(self, label: int, run: int) -> Callable[[int], Prediction]:
        """Return what gives the prediction of the entry at a place, by the label of that number.

        `run` is the second in which the run began. No entry is kept alive by this.
        """
        columns = (self.p, self.rate_per_day, self.days_since_visit, self.churn)
        rows = np.column_stack(columns)
        return lambda place: Prediction(label, run, *rows[place].tolist())


def informed(options: RankingOptions, state: State, now: float) -> RankingOptions:
    """Return the options with what the state knows for the policy that uses it: HACS_INSTANT's hubs.

    `now` is in seconds since 1970 UTC. Raises ConfigError, StateError.
    """
    if options.instant is None:
        return options
    from hacs_crawler.ranking.instant import with_hubs  # noqa: PLC0415 - of few crawls

    return with_hubs(options, state, now)


class Selection(Generic[T]):
    """Chooses among a stream of entries, each of one page, the best within each arm's budget.

    Memory is bounded by the budget and the size of one offer. Ties keep the order of arrival. `url_of`
    returns the URL of an entry's page.

    With `RankingOptions.discover` pages never seen have a share of each budget, and the others the rest,
    until what one kind leaves unused is given to the other: see `take`.
    """

    def __init__(
        self,
        options: RankingOptions,
        url_of: Callable[[T], str] = str,
    ) -> None:
        self._options = options
        self._url_of = url_of
        self._quotas = quotas_of(options, options.discover)
        self._entries: list[T] = []
        self._candidates = nobody()
        self._arms: Arms = np.zeros(0, np.int64)
        self._score: Floats = np.zeros(0)
        self._pages = np.zeros(len(options.experiment.arms), np.int64)

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
            signals=signals,
        )
        arms, score, is_low = arm_scores(candidates, self._sites(entries, rows), self._options)
        self._pages += np.bincount(arms, minlength=len(self._pages))
        is_gone = rows["not_before"] > now
        if not self._options.leaves_out:
            self._add(entries, candidates, arms, np.where(is_gone, -np.inf, score))
            return Dropped([], [], [])
        is_low &= ~is_gone
        if is_exempt is not None:
            is_low &= ~is_exempt
        kept = ~(is_gone | is_low)
        self._add(_those(entries, kept), taken(candidates, kept), arms[kept], score[kept])
        may_be = contenders(self._arms, self._score, self._quotas, self._candidates.visits)
        over_budget = self._keep(_among(may_be, len(self._entries)))
        return Dropped(_those(entries, is_gone), _those(entries, is_low), over_budget)

    @property
    def entries(self) -> list[T]:
        """Those that were not taken."""
        return list(self._entries)

    @property
    def waits(self) -> bool:
        """Whether entries are kept for what the other kind of page may leave unused."""
        return bool(self._entries) and any(
            quota.budget != 0 and np.any(self._arms == arm)
            for arm, quota in enumerate(self._quotas)
        )

    def take(self, *, is_last: bool = True) -> tuple[list[Chosen[T]], list[T]]:
        """Return each arm's chosen entries, and the others of all arms, which the budget drops.

        Where pages never seen have a share, those over it, and those over the rest, are kept until the
        crawl has nothing else to do: then `is_last` gives them what is left, visited pages first.
        """
        self._split()
        chosen: list[Chosen[T]] = []
        is_left = np.ones(len(self._entries), np.bool_)
        choices = choose(self._candidates, self._arms, self._score, self._quotas, is_last=is_last)
        for places, visit_twice in choices:
            best = taken(self._candidates, places)
            numbers = (best.p, best.rate_per_day, best.days_since_visit, best.churn)
            entries = [self._entries[place] for place in places.tolist()]
            is_left[places] = False
            chosen.append(
                Chosen(entries, best.page_ids, self._score[places], *numbers, visit_twice)
            )
            quota = self._quotas[len(chosen) - 1]
            self._quotas[len(chosen) - 1] = quota.without(best.visits, chosen[-1].controls)
        self._keep(is_left)
        may_come = np.array(
            [bool(quota.budget and quota.unseen is not None) for quota in self._quotas]
        )
        return chosen, self._keep(may_come[self._arms])

    @property
    def start_pages(self) -> tuple[int, ...]:
        """How many of the pages that were offered each arm has."""
        return tuple(self._pages.tolist())

    def _split(self) -> None:
        """Split the budget by the pages that were offered, where it is an experiment's first."""
        if self._options.experiment.is_on and self._options.start_pages is None:
            self._options = replace(self._options, start_pages=self.start_pages)
            self._quotas = quotas_of(self._options, self._options.discover)

    def _add(self, entries: Sequence[T], candidates: Candidates, arms: Arms, score: Floats) -> None:
        if not self._entries:
            self._entries, self._candidates = list(entries), candidates
            self._arms, self._score = arms, score
            return
        self._entries += entries
        self._candidates = joined([self._candidates, candidates])
        self._arms = np.concatenate([self._arms, arms])
        self._score = np.concatenate([self._score, score])

    def _keep(self, is_kept: BoolArray) -> list[T]:
        """Forget, and return, the other entries."""
        if is_kept.all():
            return []
        others = _those(self._entries, ~is_kept)
        self._entries = _those(self._entries, is_kept)
        self._candidates = taken(self._candidates, is_kept)
        self._arms, self._score = self._arms[is_kept], self._score[is_kept]
        return others

    def _sites(self, entries: Sequence[T], rows: Rows) -> NDArray[np.int64] | None:
        """Return the sites of the entries' pages, where an experiment is on."""
        if not self._options.experiment.is_on:
            return None
        sites = rows["site"].astype(np.int64)
        for place in np.flatnonzero(sites == 0).tolist():  # the state has no row of the page
            sites[place] = site_id(self._url_of(entries[place]))
        return sites


def _among(places: NDArray[np.int64], number: int) -> BoolArray:
    """Return for each of `number` entries whether its place is one of these."""
    is_among = np.zeros(number, np.bool_)
    is_among[places] = True
    return is_among


def _those(entries: Sequence[T], is_meant: BoolArray) -> list[T]:
    return [entries[place] for place in np.flatnonzero(is_meant).tolist()]

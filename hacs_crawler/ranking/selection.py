"""Choosing from a stream of entries, each for one page: which are visited, and in which order."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np

from hacs_crawler.ranking.candidates import Places, candidates_from, joined, nobody, taken
from hacs_crawler.ranking.choice import Quota, choose, contenders, left_out, scored
from hacs_crawler.ranking.demands import NOTHING, Demands, demanded_of, is_overdue
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.policies import Candidates, Floats
from hacs_crawler.ranking.signals import Signals
from hacs_crawler.state import Estimation, Ids, Prediction, Rows, State
from hacs_crawler.utils.arrays import BoolArray

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Dropped(Generic[T]):
    """Entries that will not be visited, by reason."""

    # The page answered 404 or 410, and its waiting time is not over.
    gone: list[T]
    # The page was visited more recently than HACS_EVERY allows.
    early: list[T]
    threshold: list[T]
    budget: list[T]


@dataclass(frozen=True, slots=True)
class Chosen(Generic[T]):
    """Entries to be visited, best first, and their pages.

    They are ordered by `score`; `visit_twice` says which get a control visit, see `controlled`.
    """

    entries: list[T]
    pages: Candidates
    score: Floats
    visit_twice: BoolArray

    def predictor(self, label: int, run: int) -> Callable[[int], Prediction]:
        """Return a function from an entry's place to its prediction, with the label of that number.

        `run` is the second in which the run began. The function does not keep entries alive.
        """
        pages = self.pages
        columns = (pages.p, pages.rate_per_day, pages.days_since_visit, pages.churn)
        rows = np.column_stack(columns)
        return lambda index: Prediction(label, run, *rows[index].tolist())


def informed(options: RankingOptions, state: State, now: float) -> RankingOptions:
    """Return the options with HACS_INSTANT's hubs, if it is set; see `with_hubs`."""
    if options.instant is None:
        return options
    from hacs_crawler.ranking.instant import with_hubs  # noqa: PLC0415 - few crawls need it

    return with_hubs(options, state, now)


class Selection(Generic[T]):
    """Chooses the best within a quota from a stream of entries, each for one page.

    Memory is bounded by the budget and the size of one offer. Ties keep the order of arrival. The quota
    defaults to the options' budget.

    With `RankingOptions.discover` pages never seen have a share of the budget, and the others the rest;
    at the end, an unused part goes to the other kind, see `take`.
    """

    def __init__(self, options: RankingOptions, quota: Quota | None = None) -> None:
        self._options = options
        self._quota = (quota or Quota(options.budget)).sharing(options.discover)
        self._entries: list[T] = []
        self._candidates = nobody()
        self._score: Floats = np.zeros(0)
        # The demands on the entries offered; of overdue pages, those not chosen so far.
        self.demanded = NOTHING
        # How many overdue pages were chosen so far.
        self.chosen_overdue = 0
        # How many pages that were never seen the budget dropped.
        self.dropped_new = 0
        # Of other pages: the scores of the chosen ones, and of those dropped.
        self._chosen_known, self._dropped_known = np.zeros(0), np.zeros(0)

    def offer(
        self,
        entries: Sequence[T],
        page_ids: Ids,
        rows: Rows,
        now: float,
        estimation: Estimation,
        is_exempt: BoolArray | None = None,
        *,
        signals: Sequence[Signals] = (),
        demands: Demands | None = None,
    ) -> Dropped[T]:
        """Score entries and keep the entries that may be chosen.

        `rows` are their pages' ranking rows, `now` is in seconds since 1970 UTC, `signals` are the
        signals of the pages' sites, `demands` the users' demands on the pages. Gone pages that wait come
        last if there is neither budget nor threshold, and are left out otherwise. `is_exempt` says to
        which entries no threshold applies. Raises ConfigError if a policy does not return one number an
        entry.
        """
        options = self._options
        candidates = candidates_from(
            page_ids, rows, now, estimation, options, signals=signals, demands=demands
        )
        score = scored(options.policy, candidates)
        is_gone, is_early, is_low = left_out(candidates, score, rows, now, options)
        if is_exempt is not None:
            is_low &= ~is_exempt
        kept = ~(is_gone | is_early | is_low)
        self.demanded = self.demanded.plus(demanded_of(candidates.most_days, score, kept))
        if self._quota.budget is None and not options.least_p:
            score[is_gone] = -np.inf
            kept, is_gone = kept | is_gone, np.zeros_like(is_gone)
        self._entries += _selected(entries, kept)
        self._candidates = joined([self._candidates, taken(candidates, kept)])
        self._score = np.concatenate([self._score, score[kept]])
        is_contender = np.zeros(len(self._entries), np.bool_)
        is_contender[contenders(self._score, self._quota, self._candidates.is_unseen)] = True
        over_budget = self._drop(is_contender)
        gone, early, low = (_selected(entries, which) for which in (is_gone, is_early, is_low))
        return Dropped(gone, early, low, over_budget)

    @property
    def dropped_better(self) -> int:
        """How many known pages that the budget dropped would have been chosen if offered earlier."""
        most = min(len(self._chosen_known), len(self._dropped_known))
        chosen = np.sort(self._chosen_known)[:most]
        return int(np.count_nonzero(self._dropped_known[:most] > chosen))

    @property
    def entries(self) -> list[T]:
        """The entries that were not taken."""
        return list(self._entries)

    @property
    def waits(self) -> bool:
        """Whether entries are kept in case the other kind of page leaves budget unused."""
        return bool(self._entries) and self._quota.budget != 0

    def waiting(self) -> tuple[Floats, BoolArray]:
        """Return the scores of the entries that were not taken, and which pages were never seen."""
        return self._score, self._candidates.is_unseen

    def take_granted(self, is_granted: BoolArray) -> Chosen[T]:
        """Return the granted entries, chosen as in `take`; the others are kept."""
        places = np.flatnonzero(is_granted)
        quota = replace(self._quota, budget=len(places), unseen=None)
        best, visit_twice = choose(taken(self._candidates, places), self._score[places], quota)
        chosen = self._chosen(places[best], visit_twice)
        controls = self._quota.controls - int(visit_twice.sum())
        self._quota = replace(self._quota, controls=controls)
        return chosen

    def drop_all(self) -> list[T]:
        """Remove and return the entries that were not taken."""
        return self._drop(np.zeros(len(self._entries), np.bool_))

    def take(self, *, is_last: bool = True) -> tuple[Chosen[T], list[T]]:
        """Return the chosen entries, and the entries that the budget drops.

        If pages never seen have a share, other entries of both kinds are kept until the crawl has
        nothing else to do: then `is_last` gives them the unused budget, visited pages first. Half of an
        unused share is kept back, as these pages may lead to pages never seen.
        """
        quota = self._quota
        if is_last and quota.budget is not None and quota.unseen:
            unused = quota.unseen - int(np.count_nonzero(self._candidates.is_unseen))
            kept = max(unused, 0) // 2
            quota = replace(quota, budget=quota.budget - kept, unseen=quota.unseen - kept)
        places, visit_twice = choose(self._candidates, self._score, quota, is_last=is_last)
        is_unseen = self._candidates.is_unseen[places]
        chosen = self._chosen(places, visit_twice)
        self._quota = self._quota.without(is_unseen, int(visit_twice.sum()))
        if self._quota.budget and self._quota.unseen is not None:
            return chosen, []
        return chosen, self.drop_all()

    def _chosen(self, places: Places, visit_twice: BoolArray) -> Chosen[T]:
        """Remove and return the entries at some places."""
        chosen = Chosen(
            [self._entries[index] for index in places.tolist()],
            taken(self._candidates, places),
            self._score[places],
            visit_twice,
        )
        if self._options.budget is not None:
            of_known = chosen.score[~chosen.pages.is_unseen]
            self._chosen_known = np.concatenate([self._chosen_known, of_known])
        overdue = int(is_overdue(chosen.score).sum())
        self.demanded = self.demanded.without(overdue)
        self.chosen_overdue += overdue
        is_left = np.ones(len(self._entries), np.bool_)
        is_left[places] = False
        self._keep(is_left)
        return chosen

    def _drop(self, is_kept: BoolArray) -> list[T]:
        """Remove and return the other entries, and count them."""
        is_unseen = self._candidates.is_unseen
        self.dropped_new += int(np.count_nonzero(is_unseen & ~is_kept))
        dropped = np.concatenate([self._dropped_known, self._score[~is_unseen & ~is_kept]])
        # no more of them could have come in the place of others
        self._dropped_known = np.sort(dropped)[::-1][: self._options.budget]
        return self._keep(is_kept)

    def _keep(self, is_kept: BoolArray) -> list[T]:
        """Remove and return the other entries."""
        if is_kept.all():
            return []
        others = _selected(self._entries, ~is_kept)
        self._entries = _selected(self._entries, is_kept)
        self._candidates = taken(self._candidates, is_kept)
        self._score = self._score[is_kept]
        return others


def _selected(entries: Sequence[T], is_selected: BoolArray) -> list[T]:
    return [entries[index] for index in np.flatnonzero(is_selected).tolist()]

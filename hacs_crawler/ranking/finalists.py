"""The pages that may be among the best of many, with what a plan needs of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.ranking.arm_pages import counted, start_pages
from hacs_crawler.ranking.bound import Bounds, bounds_of, may_be_bounded, reach_of
from hacs_crawler.ranking.candidates import (
    Places,
    candidates_from,
    evidence_of,
    joined,
    nobody,
    taken,
)
from hacs_crawler.ranking.choice import NO_ARM, Arms, arm_scores, contenders, quotas_of, scored
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.policies import Candidates, Floats
from hacs_crawler.ranking.signals import read_signals
from hacs_crawler.ranking.site_groups import groups_of
from hacs_crawler.state import Ids, Rows, State

Counts = NDArray[np.int64]

BLOCK_PAGES: Final = 50_000
"""About how many pages are scored at a time: what is computed stays in the processor's cache."""
_MOST_BLOCKS: Final = 2**16  # their numbers are sorted in linear time


@dataclass(frozen=True, slots=True)
class Finalists:
    """Pages of some whole sites that may be among the best of all, and how many others there are.

    Arrays have one element a page. `arms` are places in the experiment's arms. `places` are where the
    pages stand in the store's order: of two with the same score the first is better. `eligible` is the
    number of pages that may be visited, by arm, those left out here included; `start_pages` by which
    arms share a budget, and `known`, all pages.
    """

    candidates: Candidates
    arms: Counts
    score: Floats
    places: Places
    eligible: Counts
    start_pages: Counts
    known: int = 0
    waiting: int = 0
    below_threshold: int = 0

    def __len__(self) -> int:
        return len(self.places)


def finalists_of(
    page_ids: Ids,
    rows: Rows,
    state: State,
    options: RankingOptions,
    now: float,
    limit: int | None = None,
    *,
    stand_at: Places | None = None,
) -> Finalists:
    """Return the pages among which the best `limit` are, in the order in which they are given.

    `rows` are their ranking rows, of whole sites. `stand_at` are their `places` in the store, ascending;
    if None they are all that it has. `options` have a random seed, and their hubs. Raises
    StateError, and ConfigError where a policy does not return one number a page.

    Where bounds can tell, only pages are ranked that may be among the best, see `_by_bounds`.
    """
    most = quotas_of(options)[0].within(limit).budget
    if most and may_be_bounded(options, state, len(rows), most):
        bounds = bounds_of(rows, state, options, now)
        finalists = _by_bounds(page_ids, bounds, state, options, most)
    else:
        finalists = _of_all(page_ids, rows, state, options, now, limit)
    kept = start_pages(state, options.experiment)
    pages = counted(options.experiment, rows["site"]) if kept is None else np.array(kept)
    finalists = replace(finalists, start_pages=pages)
    return finalists if stand_at is None else replace(finalists, places=stand_at[finalists.places])


def _of_all(
    page_ids: Ids,
    rows: Rows,
    state: State,
    options: RankingOptions,
    now: float,
    limit: int | None,
) -> Finalists:
    """Return the finalists after ranking every page."""
    scores = _scores(page_ids, rows, state, options, now)
    best = _best(scores.arms, scores.score, options, limit)
    alone, few = replace(options, siblings=False), np.take(rows, best)
    candidates = candidates_from(page_ids[best], few, now, state.estimation, alone)
    return Finalists(
        candidates=replace(candidates, p=scores.p[best]),
        arms=scores.arms[best].astype(np.int64),
        score=scores.score[best],
        places=best,
        known=len(rows),
        waiting=scores.waiting,
        below_threshold=scores.below_threshold,
        eligible=_eligible(scores, options),
        start_pages=np.zeros(len(options.experiment.arms), np.int64),
    )


def _by_bounds(
    page_ids: Ids, bounds: Bounds, state: State, options: RankingOptions, most: int
) -> Finalists:
    """Return the best `most` of all pages, after ranking those whose bounds say that they may be.

    Pages are looked at from high bounds to low, a group of sites at a time, until none is left whose
    bound reaches the worst of the best so far: a threshold algorithm (Fagin, Lotem and Naor, "Optimal
    aggregation algorithms for middleware", JCSS 66, 2003).
    """
    rows, parts, best = bounds.rows, [_nobody()], _Best(most)
    least, below = bounds.of_some(most), np.inf
    while True:
        bounded = bounds.reaching(least, below)
        for group in groups_of(bounded, rows, most):
            wanted = group.wanted[group.bound >= best.reach]
            if len(wanted):
                part = _ranked(wanted, group.members, page_ids, bounds, state, options)
                parts.append(part)
                best.add(part.score)
        if best.reach >= least:
            break
        least, below = best.reach, least
    together = merged(parts, replace(options, budget=most), None)
    eligible = np.array([len(rows) - bounded.waiting])
    return replace(together, known=len(rows), waiting=bounded.waiting, eligible=eligible)


@dataclass(slots=True)
class _Best:
    """The best `most` scores so far, and the least bound of pages that may be among them."""

    most: int
    scores: Floats = field(default_factory=lambda: np.zeros(0))
    reach: float = 0.0

    def add(self, scores: Floats) -> None:
        self.scores = np.concatenate([self.scores, scores])
        if len(self.scores) >= self.most:
            self.scores = np.partition(self.scores, -self.most)[-self.most :]
            self.reach = reach_of(float(self.scores[0]))


def _ranked(
    wanted: Places,
    members: Places,
    page_ids: Ids,
    bounds: Bounds,
    state: State,
    options: RankingOptions,
) -> Finalists:
    """Rank the wanted pages, whose sites' pages are the members; places ascending."""
    ids, rows = page_ids[wanted], np.take(bounds.rows, wanted)
    family, among = np.take(bounds.rows, members), np.searchsorted(members, wanted)
    evidence = evidence_of(family, state.estimation, options, among)
    candidates = candidates_from(
        ids, rows, bounds.now, state.estimation, options, evidence=evidence
    )
    (arm,) = options.experiment.arms
    return _part(candidates, scored(arm.policy, candidates), wanted)


def merged(parts: Sequence[Finalists], options: RankingOptions, limit: int | None) -> Finalists:
    """Return the finalists of several parts, one at least, together; no site has pages in two of them.

    `options` and `limit` are those of `finalists_of`.
    """
    places = np.concatenate([part.places for part in parts])
    order = np.argsort(places, kind="stable")
    candidates = taken(joined([part.candidates for part in parts]), order)
    arms = np.concatenate([part.arms for part in parts])[order]
    score = np.concatenate([part.score for part in parts])[order]
    best = _best(arms, score, options, limit)
    return Finalists(
        candidates=taken(candidates, best),
        arms=arms[best],
        score=score[best],
        places=places[order][best],
        known=sum(part.known for part in parts),
        waiting=sum(part.waiting for part in parts),
        below_threshold=sum(part.below_threshold for part in parts),
        eligible=np.sum([part.eligible for part in parts], axis=0),
        start_pages=np.sum([part.start_pages for part in parts], axis=0),
    )


def _part(candidates: Candidates, score: Floats, places: Places) -> Finalists:
    """Return finalists of the only arm, without numbers of other pages."""
    return Finalists(
        candidates=candidates,
        arms=np.zeros(len(places), np.int64),
        score=score,
        places=places,
        eligible=np.zeros(1, np.int64),
        start_pages=np.zeros(1, np.int64),
    )


def _nobody() -> Finalists:
    return _part(nobody(), np.zeros(0), np.zeros(0, np.int64))


@dataclass(slots=True)
class _Scores:
    """What is kept of every page while the best are chosen: arrays with one element a page.

    `arms` are places in the experiment's arms, `NO_ARM` for a page that is not to be visited.
    """

    arms: NDArray[np.int8]
    p: Floats
    score: Floats
    waiting: int = 0
    below_threshold: int = 0


def _scores(
    page_ids: Ids,
    rows: Rows,
    state: State,
    options: RankingOptions,
    now: float,
) -> _Scores:
    """Score all pages, some whole sites at a time."""
    number = len(rows)
    scores = _Scores(np.empty(number, np.int8), np.empty(number), np.empty(number))
    for block in _blocks(rows["site"], options):
        some = np.take(rows, block)
        candidates = candidates_from(
            page_ids[block],
            some,
            now,
            state.estimation,
            options,
            signals=read_signals(state.store, some["site"], options.experiment),
        )
        arms, score, is_low = arm_scores(candidates, some["site"], options)
        is_waiting = some["not_before"] > now
        is_low &= ~is_waiting
        scores.p[block] = candidates.p
        scores.arms[block] = np.where(is_waiting | is_low, NO_ARM, arms)
        scores.score[block] = score
        scores.waiting += int(is_waiting.sum())
        scores.below_threshold += int(is_low.sum())
    return scores


def _blocks(sites: NDArray[np.integer], options: RankingOptions) -> Iterator[Places]:
    """Yield the places of all pages, some whole sites at a time, each site's in their order.

    Policies that may compare pages, as a user's may, get all of them at once.
    """
    number = min(len(sites) // BLOCK_PAGES, _MOST_BLOCKS)
    if number < 2 or not options.is_pointwise:
        yield np.arange(len(sites))
        return
    block = (sites % np.uint32(number)).astype(np.uint16)
    order = np.argsort(block, kind="stable")
    ends = np.cumsum(np.bincount(block, minlength=number))
    del block
    yield from np.split(order, ends[:-1])


def _best(arms: Arms, score: Floats, options: RankingOptions, limit: int | None) -> Places:
    """Return the places of the pages that may be chosen, ascending."""
    return contenders(arms, score, [quota.within(limit) for quota in quotas_of(options)])


def _eligible(scores: _Scores, options: RankingOptions) -> Counts:
    arms = len(options.experiment.arms)
    return np.bincount(scores.arms[scores.arms != NO_ARM], minlength=arms).astype(np.int64)

"""Finalists: the pages that may be among the best of many, with the data that a plan needs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.ranking.bound import Bounds, PageBounds, bounds_of, may_be_bounded, reach_of
from hacs_crawler.ranking.candidates import (
    Places,
    candidates_from,
    evidence_of,
    joined,
    nobody,
    taken,
)
from hacs_crawler.ranking.choice import Quota, contenders, foremost, left_out, scored
from hacs_crawler.ranking.demands import NOTHING, Demanded, demanded_of, demands_of
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.policies import Candidates, Floats
from hacs_crawler.ranking.signals import read_signals
from hacs_crawler.state import PAGES_A_CALL, Ids, Rows, State

# Pages scored at a time, about, so that their arrays fit the processor's cache.
BLOCK_PAGES: Final = 50_000
_MOST_BLOCKS: Final = 2**16  # 16-bit numbers are sorted in linear time
# Sites scored at a time, for the same reason.
SITES_A_GROUP: Final = 1_024
# Rows searched at a time for the pages of sites.
ROWS_A_SEARCH: Final = 65_536
# The number of hash values for sites: sites with the same value are in one group.
_NUMBERS: Final = 2**22
_NONE: Final = -1


@dataclass(frozen=True, slots=True)
class Finalists:
    """Pages of some whole sites that may be among the best of all, and the numbers of all pages.

    Arrays have one element a page. `places` are the pages' positions in the store's order: of two pages
    with the same score the first is better. `eligible` is the number of pages that may be visited,
    including pages left out here, and `known` the number of all pages. Pages with a bound below
    `unranked` were not looked at.
    """

    candidates: Candidates
    score: Floats
    places: Places
    eligible: int = 0
    known: int = 0
    waiting: int = 0
    early: int = 0
    below_threshold: int = 0
    demanded: Demanded = NOTHING
    unranked: float = 0.0

    def __len__(self) -> int:
        return len(self.places)


def finalists_of(
    page_ids: Ids,
    rows: Rows,
    state: State,
    options: RankingOptions,
    now: float,
    quota: Quota,
    *,
    is_first_try: bool = False,
) -> Finalists:
    """Return pages that include the best within the quota, in their given order.

    `rows` are the ranking rows of all pages, of whole sites. `options` must have a random seed, and the
    hubs (`with_hubs`). Raises StateError, and ConfigError if a policy does not return one number a page.

    If possible, only pages that may be among the best are ranked, see `_by_bounds`; in a first try, only
    pages that probably are, see `Finalists.unranked`.
    """
    most = quota.budget
    if most and quota.unseen is None and may_be_bounded(options, state, len(rows), most):
        bounds = bounds_of(rows, state, options, now)
        return _by_bounds(page_ids, bounds, state, options, quota, is_first_try=is_first_try)
    demands, matched = None, frozenset[str]()
    if options.demands:
        demands, matched = demands_of(urls_of(page_ids, state), options.weights, options.every)
    parts = []
    for block in _blocks(rows["site"], options):
        some = np.take(rows, block)
        candidates = candidates_from(
            page_ids[block],
            some,
            now,
            state.estimation,
            options,
            signals=read_signals(state.store, some["site"], options.policy),
            demands=None if demands is None else demands.at(block),
        )
        score = scored(options.policy, candidates)
        is_waiting, is_early, is_low = left_out(candidates, score, some, now, options)
        is_eligible = ~(is_waiting | is_early | is_low)
        best = np.flatnonzero(is_eligible)
        best = best[contenders(score[best], quota, candidates.is_unseen[best])]
        part = Finalists(
            candidates=taken(candidates, best),
            score=score[best],
            places=block[best],
            eligible=int(is_eligible.sum()),
            known=len(block),
            waiting=int(is_waiting.sum()),
            early=int(is_early.sum()),
            below_threshold=int(is_low.sum()),
            demanded=demanded_of(candidates.most_days, score, is_eligible),
        )
        parts.append(part)
    together = merged(parts, quota)
    return replace(together, demanded=together.demanded.plus(Demanded(matched=matched)))


def urls_of(page_ids: Ids, state: State) -> list[str]:
    """Return the URLs of pages, "" for damaged pages."""
    urls: list[str] = []
    for start in range(0, len(page_ids), PAGES_A_CALL):
        some = page_ids[start : start + PAGES_A_CALL].tolist()
        pages = state.load(some)
        urls += [pages[page_id].url if page_id in pages else "" for page_id in some]
    return urls


def _by_bounds(
    page_ids: Ids,
    bounds: Bounds,
    state: State,
    options: RankingOptions,
    quota: Quota,
    *,
    is_first_try: bool,
) -> Finalists:
    """Return the best of all pages within the quota, ranking only pages with high bounds.

    Pages are ranked from high bounds to low, a group of sites at a time, until no remaining page has a
    bound above the worst of the best so far, or above the quota's least score: a threshold algorithm
    (Fagin, Lotem and Naor, "Optimal aggregation algorithms for middleware", JCSS 66, 2003).
    """
    most = quota.budget or 0
    none = replace(nobody(), seed=options.random_seed or 0)
    nothing = Finalists(none, np.zeros(0), np.zeros(0, np.int64))
    rows, parts, best, reach = bounds.rows, [nothing], np.zeros(0), reach_of(quota.least)
    least, below = reach or bounds.of_some(most), np.inf
    while True:
        bounded = bounds.reaching(least, below)
        for group in groups_of(bounded, rows, most):
            wanted = group.wanted[group.bound >= reach]
            if not len(wanted):
                continue
            family, among = np.take(rows, group.members), np.searchsorted(group.members, wanted)
            candidates = candidates_from(
                page_ids[wanted],
                np.take(rows, wanted),
                bounds.now,
                state.estimation,
                options,
                evidence=evidence_of(family, state.estimation, options, among),
            )
            parts.append(Finalists(candidates, scored(options.policy, candidates), wanted))
            best = np.concatenate([best, parts[-1].score])
            if len(best) >= most:
                best = np.partition(best, -most)[-most:]
                reach = max(reach, reach_of(float(best[0])))
        if reach >= least or is_first_try:
            break
        least, below = reach, least
    together, waiting = merged(parts, Quota(most)), bounded.waiting
    return replace(
        together, known=len(rows), waiting=waiting, eligible=len(rows) - waiting, unranked=least
    )


def merged(parts: Sequence[Finalists], quota: Quota) -> Finalists:
    """Return the finalists of at least one part together, within the quota; parts share no sites."""
    places = np.concatenate([part.places for part in parts])
    order = np.argsort(places, kind="stable")
    candidates = taken(joined([part.candidates for part in parts]), order)
    score = np.concatenate([part.score for part in parts])[order]
    best = contenders(score, quota, candidates.is_unseen)
    return Finalists(
        candidates=taken(candidates, best),
        score=score[best],
        places=places[order][best],
        known=sum(part.known for part in parts),
        waiting=sum(part.waiting for part in parts),
        early=sum(part.early for part in parts),
        below_threshold=sum(part.below_threshold for part in parts),
        demanded=reduce(Demanded.plus, (part.demanded for part in parts)),
        eligible=sum(part.eligible for part in parts),
    )


def _blocks(sites: NDArray[np.integer], options: RankingOptions) -> Iterator[Places]:
    """Yield the places of all pages in blocks of whole sites, each site's pages in their order."""
    number = min(len(sites) // BLOCK_PAGES, _MOST_BLOCKS)
    # a policy that may compare pages, such as a user's own, gets all pages in one block
    if number < 2 or not options.policy.is_pointwise:
        yield np.arange(len(sites))
        return
    block = (sites % np.uint32(number)).astype(np.uint16)
    order = np.argsort(block, kind="stable")
    ends = np.cumsum(np.bincount(block, minlength=number))
    del block
    yield from np.split(order, ends[:-1])


class SiteGroup(NamedTuple):
    """Pages that may be among the best, their bounds, and all pages of their sites, by place, ascending.

    For pages never seen, `members` are the pages themselves, as siblings do not matter.
    """

    wanted: Places
    bound: Floats
    members: Places


def groups_of(bounded: PageBounds, rows: Rows, most: int) -> Iterator[SiteGroup]:
    """Yield bounded pages, of which at most `most` are chosen, in groups of whole sites.

    Pages never seen come first, as their bound is their score, then sites by their highest bound.
    """
    is_seen = rows["visits"][bounded.places] > 0
    unseen, seen = np.flatnonzero(~is_seen), np.flatnonzero(is_seen)
    # their bounds are their scores, so that only the highest can be chosen
    unseen = np.sort(unseen[foremost(-bounded.bound[unseen], most)])
    if len(unseen):
        yield SiteGroup(bounded.places[unseen], bounded.bound[unseen], bounded.places[unseen])
    if not len(seen):
        return
    places, bound = bounded.places[seen], bounded.bound[seen]
    numbers = _numbers(np.take(rows, places))
    by_bound = np.argsort(-bound, kind="stable")
    sites, first = np.unique(numbers[by_bound], return_index=True)
    # the group of each site's number
    group_of = np.full(_NUMBERS, _NONE, np.int16)
    group_of[sites[np.argsort(first)]] = np.arange(len(sites)) // SITES_A_GROUP
    members, ends = _members(rows, group_of)
    of_wanted = group_of[numbers]
    order = np.argsort(of_wanted, kind="stable")
    wanted = np.split(order, np.searchsorted(of_wanted[order], np.arange(1, len(ends))))
    for some, all_of_them in zip(wanted, np.split(members, ends[:-1]), strict=True):
        yield SiteGroup(places[some], bound[some], all_of_them)


def _members(rows: Rows, group_of: NDArray[np.int16]) -> tuple[Places, Places]:
    """Return the places of all pages by group, ascending in each group, and the end of each group."""
    is_wanted = group_of != _NONE
    members, groups = [], []
    for start in range(0, len(rows), ROWS_A_SEARCH):
        numbers = _numbers(rows[start : start + ROWS_A_SEARCH])
        here = np.flatnonzero(is_wanted.take(numbers, mode="clip"))
        members.append(start + here)
        groups.append(group_of[numbers[here]])
    group = np.concatenate(groups)
    order = np.argsort(group, kind="stable")
    return np.concatenate(members)[order], np.cumsum(np.bincount(group))


def _numbers(rows: Rows) -> Places:
    """Return the numbers of the pages' sites, below `_NUMBERS`."""
    numbers: Places = rows["site"].astype(np.int64)
    numbers &= _NUMBERS - 1
    return numbers

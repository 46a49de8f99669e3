"""One plan over shards: what each of them may visit in a round, as if one process chose among all.

Each shard is ranked whole, with its own prior. The best of all together are the plan; how
many of them a shard has is its quota, which is kept in its state for its crawl.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from hacs_crawler.cluster import HERE, Workers
from hacs_crawler.exceptions import NoStateError
from hacs_crawler.ranking.choice import Quota
from hacs_crawler.ranking.finalists import Finalists, finalists_of, merged
from hacs_crawler.ranking.instant import with_hubs
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.plan import Plan, plan_from, plan_of, read_rows
from hacs_crawler.state import (
    Ids,
    JoinedState,
    MemoryStore,
    Rows,
    State,
    StateArguments,
    open_state,
    read_note,
    without_future,
)
from hacs_crawler.utils.progress import Progress

NOTE: Final = "round"


class StartPages(NamedTuple):
    """What a spider begins with in a shard: ids and sites of pages.

    Both arrays have one element a page, in the order in which `start()` yields them. Pages of which an
    annotation of that `kind` is kept are begun with too, if `revisits` or they were never visited.
    """

    page_ids: Ids
    sites: NDArray[np.uint32]
    kind: str
    revisits: bool = False


class ShardPages(NamedTuple):
    """A shard as it is to be planned; without `starts` all that its state knows may be visited."""

    arguments: StateArguments
    starts: StartPages | None = None


@dataclass(frozen=True, slots=True)
class Round:
    """What the crawl of a shard may visit since second `began` since 1970 UTC.

    `budget` is None if nothing bounds the round, `unseen` is as in `Quota`.
    """

    began: int
    budget: int | None = None
    unseen: int | None = None


def plan_of_shards(
    workers: Workers,
    shards: Sequence[ShardPages],
    options: RankingOptions,
    now: float,
    limit: int | None = None,
) -> Plan:
    """Return the plan of all pages of the shards; `Plan.shards` are places in `shards`.

    Each shard is ranked by a worker. Where HACS_DISCOVER gives pages never seen a share, they have it of
    the whole budget. Pages of the same score, such as those of a first run, are taken from all shards by
    turns. Control visits are none here: each crawl takes them out of its own budget.
    Raises ConfigError, StateError.
    """
    options = options.seeded(secrets.randbits(63))  # the same in every shard
    seen: list[Finalists] = []
    unseen: list[Finalists] = []
    for place, parts in enumerate(workers.mapped(_finalists_of, shards, options, now, limit)):
        for part, kind in zip(parts, (seen, unseen), strict=False):
            kind.append(replace(part, places=part.places * len(shards) + place))
    quota = Quota(options.budget)
    kinds = [merged(kind, quota.within(limit)) for kind in (seen, unseen) if kind]
    together = merged(kinds, Quota())
    return plan_from(together, quota.sharing(options.discover), limit, shards=len(shards))


def plan_of_all(
    state: State,
    options: RankingOptions,
    now: float,
    limit: int | None = None,
    *,
    known: tuple[Ids, Rows] | None = None,
    progress: Progress | None = None,
) -> Plan:
    """Return the plan of a state, or that of shards which are read as one; see `make_plan`.

    `known` are all its pages, where they have been read already.
    """
    if not isinstance(state, JoinedState):
        return plan_of(*(known or read_rows(state, progress, now)), state, options, now, limit)
    shards = [ShardPages(arguments) for arguments in state.arguments]
    return plan_of_shards(HERE, shards, options, now, limit)


def rounds_of(plan: Plan, number: int, options: RankingOptions, began: int) -> list[Round | None]:
    """Return each shard's round by the plan of all, None if there is nothing to do."""
    visits = np.bincount(plan.shards, minlength=number).tolist()
    new = np.bincount(plan.shards[plan.visits == 0], minlength=number).tolist()
    rounds: list[Round | None] = []
    for budget, unseen in zip(visits, new, strict=True):
        share = unseen if options.discover is not None else None
        bounded = Round(began) if options.budget is None else Round(began, budget, share)
        rounds.append(bounded if budget else None)
    return rounds


def keep_round(arguments: StateArguments, round_: Round) -> None:
    """Keep in a shard's state what its crawl may visit."""
    with closing(open_state(*arguments)) as state:
        state.store.write_meta({NOTE: msgspec.to_builtins(round_)})


def read_round(state: State, since: int) -> Round | None:
    """Return the round that began then or later, None where there is none yet; raises StateError."""
    round_ = read_note(state.store, NOTE, Round)
    return round_ if round_ is not None and round_.began >= since else None


def quota_left(state: State, round_: Round) -> Quota:
    """Return what is left of a round, by the record of outcomes.

    Pages visited in it already were visited by an earlier try, whose worker was lost.
    """
    quota = Quota(round_.budget, unseen=round_.unseen)
    parts = [some[some["at"] >= round_.began] for some in state.store.outcomes()]
    if not any(map(len, parts)):
        return quota
    done = np.concatenate(parts)
    done = done[np.unique(done["page_id"], return_index=True)[1]]
    visits = np.isfinite(done["days_since_visit"]).astype(np.int64)
    left = quota.without(visits, _twice(state, done, round_.began))
    return Quota(
        None if left.budget is None else max(left.budget, 0),
        unseen=None if left.unseen is None else max(left.unseen, 0),
        done=done["page_id"].astype(np.int64),
    )


def _twice(state: State, visited: NDArray[np.void], since: int) -> int:
    """Return how many control visits there were of pages visited in a round."""
    pages = state.load(visited["page_id"].tolist()).values()
    return sum(max(0, sum(at >= since for at in page.visits) - 1) for page in pages)


def _finalists_of(
    shard: ShardPages, options: RankingOptions, now: float, limit: int | None
) -> list[Finalists]:
    """Return the finalists of a shard; those never seen apart, where these have a share."""
    with closing(_read(shard.arguments)) as state:
        page_ids, rows = _rows_of(state, shard.starts, now)
        options = with_hubs(options, state, now)
        is_new = rows["visits"] == 0
        kinds = (
            [~is_new, is_new] if options.discover is not None else [np.ones(len(rows), np.bool_)]
        )
        parts = []
        for kind in kinds:
            places = np.flatnonzero(kind)
            quota = Quota(options.budget).within(limit)
            finalists = finalists_of(
                page_ids[places], rows[places], state, options, now, quota, stand_at=places
            )
            parts.append(finalists)
    return parts


def _read(arguments: StateArguments) -> State:
    """Open a state to be read; a shard that no crawl has begun is empty."""
    try:
        return open_state(*arguments, reads_only=True)
    except NoStateError:
        return State(MemoryStore(), arguments[3])


def _rows_of(state: State, starts: StartPages | None, now: float) -> tuple[Ids, Rows]:
    """Return the pages of a shard that may be visited, those not known with their sites alone."""
    if starts is None:
        return read_rows(state, now=now)
    again = state.store.annotated(starts.kind)
    page_ids, first = np.unique(np.concatenate([starts.page_ids, again]), return_index=True)
    order = np.argsort(first, kind="stable")
    page_ids, first = page_ids[order], first[order]
    rows = state.rows(page_ids).copy()
    is_start = first < len(starts.page_ids)
    rows["site"][is_start] = np.where(
        rows["site"][is_start] > 0, rows["site"][is_start], starts.sites[first[is_start]]
    )
    is_begun = is_start | ((rows["site"] > 0) & (starts.revisits | (rows["visits"] == 0)))
    page_ids, rows = page_ids[is_begun], rows[is_begun]
    return page_ids, without_future(state, page_ids, rows, now)[0]

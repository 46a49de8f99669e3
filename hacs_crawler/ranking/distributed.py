"""Plans made by a Dask cluster, of states too large for one process, or of several states as one.

A state is read in parts, by its own order. Each part's rows go by their sites to as many sets; a set has
whole sites, is ranked as one process ranks all, and gives the pages that may be among the best of all.
Of these the plan is made here. Whatever is done twice, as after the loss of a worker, gives the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from operator import itemgetter
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.cluster import Cluster
from hacs_crawler.exceptions import ConfigError, StateError
from hacs_crawler.ranking.finalists import SHARD_BITS, Finalists, finalists_of, merged
from hacs_crawler.ranking.instant import with_hubs
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.plan import Plan, plan_from, planned_without_unusable
from hacs_crawler.state import (
    ROW,
    Future,
    Ids,
    Part,
    Rows,
    State,
    StateArguments,
    open_there,
    shows_future,
    without_future,
)
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

PAGES_A_PART: Final = 1_000_000
"""About so many pages are in the memory of a worker at a time: some 100 MB."""
MOST_PARTS: Final = 64
"""Each part is split for each set: more of both than these would keep the scheduler busy."""
_PART_BITS: Final = 32
_LOOKED_FOR: Final = 1_000
"""Of so many pages of each shard it is asked whether others have them, too."""


class Piece(NamedTuple):
    """Pages of a part that go to one set, in the store's order; `places` are those in the part."""

    page_ids: Ids
    rows: Rows
    places: NDArray[np.uint32]


class Read(NamedTuple):
    """A part of a state: its pieces, one a set, and what of it was later than now."""

    pieces: list[Piece]
    future: Future | None
    has_ahead: bool


def distributed_plan(
    cluster: Cluster,
    shards: Sequence[tuple[StateArguments, State]],
    options: RankingOptions,
    now: float,
    limit: int | None = None,
    *,
    controls: int = 0,
) -> Plan:
    """Return the plan of all pages of some states, as `make_plan` returns that of one.

    Each state is given by how workers open it, and as it is open here; all of a site's pages are in one
    of them. p of a page follows its own state's prior and correction, and the best of all are chosen,
    whatever state they are in. Raises ConfigError where a policy compares pages, StateError,
    ClusterError.
    """
    if not options.is_pointwise:
        names = ", ".join(arm.policy.name for arm in options.experiment.arms)
        msg = f"policy {names} compares pages with each other: one process has to make its plan"
        raise ConfigError(msg)
    states = [state for _, state in shards]
    counts = [state.store.count() for state in states]

    def planner(some: RankingOptions, ahead: int | None, without: Ids, controls: int = 0) -> Plan:
        tasks = [
            task
            for shard, (arguments, _) in enumerate(shards)
            for task in _ranked(
                cluster,
                arguments,
                counts[shard],
                _Aim(with_hubs(some, states[shard], now), now, ahead, without, shard),
            )
        ]
        together = cluster.reduced(partial(merged, options=some, limit=ahead), tasks)
        (finalists,) = cluster.results([together])
        return plan_from(finalists, some, ahead, controls=controls)

    plan, without = planned_without_unusable(planner, states, options, limit, controls)
    _check_apart(plan, states)
    return replace(plan, known=plan.known + len(without))


def _check_apart(plan: Plan, states: Sequence[State]) -> None:
    """Raise StateError where some of the first pages are in another state, too."""
    for shard in np.unique(plan.shards).tolist():
        ids = plan.page_ids[plan.shards == shard][:_LOOKED_FOR]
        for other in (place for place in range(len(states)) if place != shard):
            is_there = states[other].store.rows(ids)["site"] > 0
            if not is_there.any():
                continue
            page_id = int(ids[is_there][0])
            page = states[shard].load([page_id]).get(page_id)
            name = page_id if page is None else page.url[:200]
            msg = (
                f"the page {name} is in two shards, number {shard + 1} and {other + 1} of those named: "
                "all of a host must be in one"
            )
            raise StateError(msg)


class _Aim(NamedTuple):
    """What finalists are looked for, in the shard of that number."""

    options: RankingOptions
    now: float
    limit: int | None
    without: Ids
    shard: int


def _ranked(cluster: Cluster, arguments: StateArguments, count: int, aim: _Aim) -> list[Any]:
    """Return tasks that give the finalists of a state, one a set."""
    parts = min(MOST_PARTS, max(cluster.cores, -(-count // PAGES_A_PART)))
    reads = [cluster.submit(_read, arguments, (one, parts), aim.now) for one in range(parts)]
    told = cluster.results([cluster.submit(_told, read) for read in reads])
    if any(one.has_ahead for one in told):
        # what is later than now in one part says that more may be in the others
        for one, (_, _, has_ahead) in enumerate(told):
            if not has_ahead:
                reads[one] = cluster.submit(_read, arguments, (one, parts), aim.now, True)
        told = cluster.results([cluster.submit(_told, read) for read in reads])
    future = [one.future for one in told if one.future is not None]
    if future:
        latest = max(one.latest for one in future)
        logger.warning("%s", Future(sum(one.pages for one in future), latest))
    return [
        cluster.submit(
            _finalists, arguments, aim, [cluster.submit(_piece, read, number) for read in reads]
        )
        for number in range(parts)
    ]


def _read(arguments: StateArguments, part: Part, now: float, is_ahead: bool | None = None) -> Read:
    """Read a part of a state, and split it by sites."""
    with closing(open_there(arguments)) as state:
        batches = list(state.store.all_rows(part=part))
        ids = np.concatenate([np.zeros(0, np.int64), *map(itemgetter(0), batches)])
        rows = np.concatenate([np.zeros(0, ROW), *map(itemgetter(1), batches)])
        del batches
        has_ahead = shows_future(rows, now)
        rows, future = without_future(state, ids, rows, now, has_ahead=is_ahead or has_ahead)
    sets = part[1]
    number = (_scrambled(rows["site"]) % np.uint32(sets)).astype(np.uint16)
    order = np.argsort(number, kind="stable")
    ends = np.cumsum(np.bincount(number, minlength=sets))
    pieces = [
        Piece(ids[places], np.take(rows, places), places.astype(np.uint32))
        for places in np.split(order, ends[:-1])
    ]
    return Read(pieces, future, has_ahead)


def _told(read: Read) -> Read:
    return read._replace(pieces=[])


def _piece(read: Read, number: int) -> Piece:
    return read.pieces[number]


def _finalists(arguments: StateArguments, aim: _Aim, pieces: Sequence[Piece]) -> Finalists:
    """Rank the pages of a set, whose pieces come in the order of their parts."""
    ids = np.concatenate([piece.page_ids for piece in pieces])
    rows = np.concatenate([piece.rows for piece in pieces])
    places = np.concatenate(
        [
            (aim.shard << SHARD_BITS) + (number << _PART_BITS) + piece.places.astype(np.int64)
            for number, piece in enumerate(pieces)
        ]
    )
    is_left = ~np.isin(ids, aim.without)
    with closing(open_there(arguments)) as state:
        return finalists_of(
            ids[is_left],
            rows[is_left],
            state,
            aim.options,
            aim.now,
            aim.limit,
            stand_at=places[is_left],
        )


def _scrambled(sites: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return numbers of sites, other ones than `finalists` splits blocks by."""
    return (sites * np.uint32(0x9E3779B1)) >> np.uint32(8)

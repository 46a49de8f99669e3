"""Plans made by a Dask cluster, of states too large for one process, or of several states as one.

A state is read in parts, by its own order. Where bounds tell which pages may be among the best, only the
rows of their sites leave the part, see `bounded_parts`. Else each part's rows go by their sites to as
many sets; a set has whole sites, is ranked as one process ranks all, and gives the pages that may be
among the best of all. Of these the plan is made here. Whatever is done twice, as after the loss of a
worker, gives the same.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import closing
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.cluster import Cluster
from hacs_crawler.exceptions import ConfigError, StateError
from hacs_crawler.links import site_of
from hacs_crawler.ranking.bound import may_be_bounded
from hacs_crawler.ranking.bounded_parts import BoundedShard, bound_part, finalists_by_bounds
from hacs_crawler.ranking.choice import quotas_of
from hacs_crawler.ranking.finalists import merged
from hacs_crawler.ranking.instant import with_hubs
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.parts import (
    Aim,
    Piece,
    Told,
    all_read,
    finalists_of_pieces,
    parts_of,
    read_part,
)
from hacs_crawler.ranking.plan import Plan, plan_from
from hacs_crawler.state import Part, State, StateArguments, open_there

_LOOKED_FOR: Final = 1_000
"""Of so many pages of each shard it is asked whether others have them, too."""


class Split(NamedTuple):
    """A part of a state: its pieces, one a set of sites, and what of it was later than now."""

    told: Told
    pieces: list[Piece]


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

    options = options.seeded(secrets.randbits(63))  # the same in every task
    aims = [
        Aim(with_hubs(options, state, now), now, limit, number)
        for number, state in enumerate(states)
    ]
    most = quotas_of(options)[0].within(limit).budget
    given = [
        (arguments, parts_of(cluster, count), aim)
        for (arguments, _), count, aim in zip(shards, counts, aims, strict=True)
    ]
    if most and all(may_be_bounded(options, state, sum(counts), most) for state in states):
        bounded = [
            BoundedShard(arguments, aim, all_read(cluster, bound_part, arguments, parts, aim))
            for arguments, parts, aim in given
        ]
        finalists = finalists_by_bounds(cluster, bounded, options, limit, most)
    else:
        tasks = [task for one in given for task in _by_sites(cluster, *one)]
        together = cluster.reduced(partial(merged, options=options, limit=limit), tasks)
        (finalists,) = cluster.results([together])
    plan = plan_from(finalists, options, limit, controls=controls)
    if len(states) > 1:
        _check_apart(plan, states)
    return plan


def _check_apart(plan: Plan, states: Sequence[State]) -> None:
    """Raise StateError where some of the first pages, or of their sites, are in another state, too."""
    shard_of: dict[str, int] = {}
    for shard in np.unique(plan.shards).tolist():
        ids = plan.page_ids[plan.shards == shard][:_LOOKED_FOR]
        pages = states[shard].load(ids.tolist())
        for page in pages.values():
            site = site_of(page.url)
            if (other := shard_of.setdefault(site, shard)) != shard:
                raise _not_apart(f"site {site[:200]} has pages", other, shard)
        for other in (place for place in range(len(states)) if place != shard):
            is_there = states[other].store.rows(ids)["site"] > 0
            if is_there.any():
                page_id = int(ids[is_there][0])
                name = pages[page_id].url[:200] if page_id in pages else page_id
                raise _not_apart(f"page {name} is", shard, other)


def _not_apart(what: str, one: int, other: int) -> StateError:
    return StateError(
        f"the {what} in two shards, number {one + 1} and {other + 1} of those named: "
        "all of a host must be in one"
    )


def _by_sites(cluster: Cluster, arguments: StateArguments, parts: int, aim: Aim) -> list[Any]:
    """Return tasks that give the finalists of a state, one a set of sites."""
    reads = all_read(cluster, _split, arguments, parts, aim)
    return [
        cluster.submit(
            finalists_of_pieces,
            arguments,
            aim,
            [cluster.submit(_piece, read, number) for read in reads],
        )
        for number in range(parts)
    ]


def _split(arguments: StateArguments, part: Part, aim: Aim, is_ahead: bool | None = None) -> Split:
    """Read a part of a state, and split it by sites into as many sets as there are parts."""
    with closing(open_there(arguments)) as state:
        ids, rows, told = read_part(state, part, aim.now, is_ahead)
    sets = part[1]
    number = (_scrambled(rows["site"]) % np.uint32(sets)).astype(np.uint16)
    order = np.argsort(number, kind="stable")
    ends = np.cumsum(np.bincount(number, minlength=sets))
    pieces = [
        Piece(ids[places], np.take(rows, places), places.astype(np.uint32))
        for places in np.split(order, ends[:-1])
    ]
    return Split(told, pieces)


def _piece(split: Split, number: int) -> Piece:
    return split.pieces[number]


def _scrambled(sites: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Return numbers of sites, other ones than `finalists` splits blocks by."""
    return (sites * np.uint32(0x9E3779B1)) >> np.uint32(8)

"""The best pages of large states on a Dask cluster, by bounds: of most pages no row goes anywhere.

Each worker keeps, of the parts that it read, ids, sites and bounds of scores. Of the sites that may have
one of the best pages the rows are read again, and go to one task a state, which ranks them: first those
of the highest bounds, then those whose bound reaches the worst of the best of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.cluster import Cluster
from hacs_crawler.ranking.bound import PIECE_ROWS, TRIED, bounds_of, reach_of
from hacs_crawler.ranking.finalists import Finalists, correction_of, merged
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.parts import Aim, Piece, Told, finalists_of_pieces, read_part
from hacs_crawler.state import Ids, Part, StateArguments, open_there, without_future

_BUCKETS: Final = 2**20


class BoundedPart(NamedTuple):
    """A part of a state: arrays with one element a page, in the store's order."""

    told: Told
    page_ids: Ids
    sites: NDArray[np.uint32]
    bound: NDArray[np.float32]


class BoundedShard(NamedTuple):
    """A state of which the parts were read: their tasks, and what is looked for in it."""

    arguments: StateArguments
    aim: Aim
    parts: Sequence[Any]


def bound_part(
    arguments: StateArguments, part: Part, aim: Aim, is_ahead: bool | None = None
) -> BoundedPart:
    """Read a part of a state, and keep the bounds of its pages."""
    with closing(open_there(arguments)) as state:
        ids, rows, told = read_part(state, part, aim.now, is_ahead)
        correct = correction_of(state, aim.options)
        bounds = bounds_of(rows, state, aim.options, aim.now, correct)
        bound = np.empty(len(rows), np.float32)
        for start in range(0, len(rows), PIECE_ROWS):
            piece = slice(start, start + PIECE_ROWS)
            bound[piece] = _rounded_up(bounds.of(rows[piece]))
    return BoundedPart(told, ids, rows["site"].copy(), bound)


def finalists_by_bounds(
    cluster: Cluster,
    shards: Sequence[BoundedShard],
    options: RankingOptions,
    limit: int | None,
    most: int,
) -> Finalists:
    """Return the best `most` pages of all shards, whose parts are tasks of `bound_part`."""
    parts = [part for shard in shards for part in shard.parts]
    highest = cluster.results([cluster.submit(_highest, part, TRIED * most) for part in parts])
    least = _lowest_of(np.concatenate(highest), TRIED * most)
    nobody: list[Any] = [np.zeros(0, np.uint32) for _ in shards]
    sites, found = _ranked(cluster, shards, least, nobody, options, limit)
    best: Finalists = cluster.results([found])[0]
    worst = reach_of(float(best.score.min())) if len(best) >= most else 0.0
    if worst < least:
        _, others = _ranked(cluster, shards, worst, sites, options, limit)
        best = merged([best, *cluster.results([others])], options, limit)
    counts = np.array(cluster.results([cluster.submit(_counts, part) for part in parts]))
    known, waiting = counts.sum(axis=0).tolist()
    return replace(best, known=known, waiting=waiting, eligible=np.array([known - waiting]))


def _ranked(
    cluster: Cluster,
    shards: Sequence[BoundedShard],
    least: float,
    without: Sequence[Any],
    options: RankingOptions,
    limit: int | None,
) -> tuple[list[Any], Any]:
    """Return, as tasks, each shard's sites with a page of that bound at least, and their finalists."""
    chosen, found = [], []
    for shard, others in zip(shards, without, strict=True):
        some = [cluster.submit(_sites, part, least) for part in shard.parts]
        sites = cluster.submit(_united, some, others)
        pieces = [
            cluster.submit(_pages_of, shard.arguments, shard.aim, part, sites)
            for part in shard.parts
        ]
        chosen.append(sites)
        found.append(cluster.submit(finalists_of_pieces, shard.arguments, shard.aim, pieces))
    return chosen, cluster.reduced(partial(merged, options=options, limit=limit), found)


def _counts(part: BoundedPart) -> tuple[int, int]:
    """Return how many pages there are, and how many of them are not to be visited yet."""
    return len(part.bound), int(np.count_nonzero(part.bound < 0.0))


def _highest(part: BoundedPart, most: int) -> NDArray[np.float32]:
    """Return the highest bounds, in no order."""
    return part.bound if len(part.bound) <= most else -np.partition(-part.bound, most)[:most]


def _lowest_of(bounds: NDArray[np.float32], most: int) -> float:
    """Return the lowest of the highest bounds; never more than what a score of 1 takes."""
    if len(bounds) < most:
        return 0.0
    return min(max(float(np.partition(bounds, -most)[-most]), 0.0), reach_of(1.0))


def _sites(part: BoundedPart, least: float) -> NDArray[np.uint32]:
    return np.unique(part.sites[part.bound >= least])


def _united(parts: Sequence[NDArray[np.uint32]], without: NDArray[np.uint32]) -> NDArray[np.uint32]:
    return np.setdiff1d(np.concatenate(parts), without)


def _pages_of(
    arguments: StateArguments, aim: Aim, part: BoundedPart, sites: NDArray[np.uint32]
) -> Piece:
    """Return the pages of some sites, whose rows are read again."""
    places = _places_of(sites, part.sites)
    ids = part.page_ids[places]
    with closing(open_there(arguments)) as state:
        rows = state.store.rows(ids)
        rows, _ = without_future(state, ids, rows, aim.now, has_ahead=part.told.has_ahead)
    is_there = rows["site"] > 0
    return Piece(ids[is_there], rows[is_there], places[is_there].astype(np.uint32))


def _rounded_up(bound: NDArray[np.float64]) -> NDArray[np.float32]:
    near = bound.astype(np.float32)
    return np.where(near < bound, np.nextafter(near, np.float32(np.inf)), near)


def _places_of(few: NDArray[np.integer], many: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return where a few numbers, such as ids or sites, stand among many others, ascending."""
    # a look at 20 bits of each leaves few that are to be looked at exactly
    may_be = np.zeros(_BUCKETS, np.bool_)
    may_be[few % _BUCKETS] = True
    near = np.flatnonzero(may_be[many % _BUCKETS])
    return near[np.isin(many[near], few)]

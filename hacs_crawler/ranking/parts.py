"""Parts of a state as a Dask cluster's workers read and rank them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from operator import itemgetter
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.cluster import Cluster
from hacs_crawler.ranking.finalists import SHARD_BITS, Finalists, finalists_of
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.state import (
    ROW,
    Future,
    Ids,
    Rows,
    State,
    StateArguments,
    open_there,
    shows_future,
    without_future,
)
from hacs_crawler.state import Part as PartOf
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

PAGES_A_PART: Final = 1_000_000
"""About so many pages are in the memory of a worker at a time: some 100 MB."""
MOST_PARTS: Final = 64
"""Each part may be split for each set of sites: more of both would keep the scheduler busy."""
_PART_BITS: Final = 32


class Aim(NamedTuple):
    """What finalists are looked for, in the shard of that number."""

    options: RankingOptions
    now: float
    limit: int | None
    shard: int


class Told(NamedTuple):
    """What of a part was later than now."""

    future: Future | None
    has_ahead: bool


class Piece(NamedTuple):
    """Some pages of a part, in the store's order; `places` are those in the part."""

    page_ids: Ids
    rows: Rows
    places: NDArray[np.uint32]


def parts_of(cluster: Cluster, count: int) -> int:
    """Return into how many parts a state of so many pages is split."""
    return min(MOST_PARTS, max(cluster.cores, -(-count // PAGES_A_PART)))


def all_read(
    cluster: Cluster, read: Callable[..., Any], arguments: StateArguments, parts: int, *args: Any
) -> list[Any]:
    """Return the tasks that read the parts of a state, each with what it has `told`.

    `read` is given the state's arguments, the part, `args`, and whether visits are ahead if not only
    those of its own part say so.
    """
    reads = [cluster.submit(read, arguments, (one, parts), *args) for one in range(parts)]
    told = cluster.results([cluster.submit(_told, one) for one in reads])
    if any(one.has_ahead for one in told):
        # what is later than now in one part says that more may be in the others
        for one, (_, has_ahead) in enumerate(told):
            if not has_ahead:
                reads[one] = cluster.submit(read, arguments, (one, parts), *args, True)
        told = cluster.results([cluster.submit(_told, one) for one in reads])
    future = [one.future for one in told if one.future is not None]
    if future:
        latest = max(one.latest for one in future)
        logger.warning("%s", Future(sum(one.pages for one in future), latest))
    return reads


def _told(read: Any) -> Told:
    told: Told = read.told
    return told


def read_part(
    state: State, part: PartOf, now: float, is_ahead: bool | None
) -> tuple[Ids, Rows, Told]:
    """Return the ids and ranking rows of a part, without what is later than now."""
    batches = list(state.store.all_rows(part=part))
    ids = np.concatenate([np.zeros(0, np.int64), *map(itemgetter(0), batches)])
    rows = np.concatenate([np.zeros(0, ROW), *map(itemgetter(1), batches)])
    del batches
    has_ahead = shows_future(rows, now)
    rows, future = without_future(state, ids, rows, now, has_ahead=is_ahead or has_ahead)
    return ids, rows, Told(future, bool(is_ahead) or has_ahead)


def finalists_of_pieces(arguments: StateArguments, aim: Aim, pieces: Sequence[Piece]) -> Finalists:
    """Rank the pages of whole sites, whose pieces come in the order of their parts."""
    ids = np.concatenate([piece.page_ids for piece in pieces])
    rows = np.concatenate([piece.rows for piece in pieces])
    places = np.concatenate(
        [
            (aim.shard << SHARD_BITS) + (number << _PART_BITS) + piece.places.astype(np.int64)
            for number, piece in enumerate(pieces)
        ]
    )
    with closing(open_there(arguments)) as state:
        return finalists_of(ids, rows, state, aim.options, aim.now, aim.limit, stand_at=places)

"""What a leader notes of its plan: who is whose sibling, and which scores stand where."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.state import Ids
from hacs_crawler.utils.arrays import FloatArray

SCALE: Final = "scale"
"""The name of the note that holds the scale."""
MOST_MARKS: Final = 1_000
"""Between so many scores at most the place of another one is interpolated."""
MOST_OF_FAMILY: Final = 100
"""A site with more pages has no note: one step on the board would keep it busy for milliseconds."""
_NO_RANK: Final = 2**32 - 1
_MARK: Final = np.dtype([("position", "<f8"), ("score", "<f8")])
_MEMBER: Final = np.dtype([("page_id", "<i8"), ("rank", "<u4"), ("partition", "<u2")])


class StandingsError(ValueError):
    """A note on the board is none of a leader's."""


class Published(NamedTuple):
    """Entries of a plan: arrays with one element each."""

    page_ids: Ids
    ranks: Ids
    partitions: Ids


class Member(NamedTuple):
    """A page of a site. `rank` and `partition` name its entry; the rank is None where it has none."""

    page_id: int
    rank: int | None
    partition: int


class Scale:
    """Where a score would stand in the plan, by those of its entries."""

    def __init__(self, positions: FloatArray, scores: FloatArray) -> None:
        self._positions = positions
        self._worse = -np.minimum.accumulate(scores)

    def positions_of(self, scores: FloatArray) -> FloatArray:
        """Return the places that scores would have among the ranks; above -1, the better the lower."""
        worse = -scores
        if not len(self._positions):
            return 1.0 / (1.0 + np.exp(-worse))
        found = np.interp(worse, self._worse, self._positions)
        above = np.maximum(self._worse[0] - worse, 0.0)
        below = np.maximum(worse - self._worse[-1], 0.0)
        return found - above / (1.0 + above) + below / (1.0 + below)  # type: ignore[no-any-return]


def packed_scale(ranks: Ids, scores: FloatArray) -> bytes:
    """Return the note of a scale: the scores of entries with these ranks, both in the plan's order."""
    some = np.unique(np.linspace(0, max(len(ranks) - 1, 0), MOST_MARKS).astype(np.int64))[
        : len(ranks)
    ]
    marks = np.zeros(len(some), _MARK)
    marks["position"], marks["score"] = ranks[some], scores[some]
    return marks.tobytes()


def read_scale(note: bytes) -> Scale:
    """Return the scale of a note; raises StandingsError."""
    marks = _read(note, _MARK)
    positions, scores = marks["position"].astype(np.float64), marks["score"].astype(np.float64)
    if not (np.isfinite(positions).all() and np.isfinite(scores).all()):
        raise StandingsError("the scale of the fleet's plan has numbers that are none")
    return Scale(positions, scores)


def site_note(site: int) -> str:
    """Return the name of the note on a site's pages."""
    return f"site:{site}"


def packed_families(sites: Ids, page_ids: Ids, published: Published) -> Iterator[tuple[str, bytes]]:
    """Yield name and text of the note on each of some sites, given the site of each page.

    Of sites with more than `MOST_OF_FAMILY` pages there is none, nor of those without an entry.
    """
    order = np.argsort(sites, kind="stable")
    members = np.zeros(len(order), _MEMBER)
    members["page_id"] = page_ids[order]
    members["rank"], members["partition"] = _places_of(members["page_id"], published)
    of, first = np.unique(sites[order], return_index=True)
    ends = np.append(first, len(order))
    for site, start, end in zip(of.tolist(), ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        family = members[start:end]
        if end - start <= MOST_OF_FAMILY and (family["rank"] != _NO_RANK).any():
            yield site_note(site), family.tobytes()


def read_family(note: bytes) -> list[Member]:
    """Return the pages of a site by its note; raises StandingsError."""
    return [
        Member(page_id, None if rank == _NO_RANK else rank, partition)
        for page_id, rank, partition in _read(note, _MEMBER).tolist()
    ]


def _places_of(page_ids: Ids, published: Published) -> tuple[Ids, Ids]:
    """Return rank and partition of each page, `_NO_RANK` for those that have no entry."""
    if not len(published.page_ids):
        return np.full(len(page_ids), _NO_RANK), np.zeros(len(page_ids), np.int64)
    order = np.argsort(published.page_ids, kind="stable")
    at = np.searchsorted(published.page_ids, page_ids, sorter=order)
    place = order[np.minimum(at, len(order) - 1)]
    is_there = published.page_ids[place] == page_ids
    rank = np.where(is_there, published.ranks[place], _NO_RANK)
    return rank, np.where(is_there, published.partitions[place], 0)


def _read(note: bytes, kind: np.dtype[np.void]) -> NDArray[np.void]:
    try:
        return np.frombuffer(note, kind)
    except ValueError as error:
        raise StandingsError(f"a note of the fleet's plan is damaged: {error}") from error

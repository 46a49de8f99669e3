"""Pages that may be among the best, with their siblings: some sites at a time, by their bounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.ranking.bound import PageBounds
from hacs_crawler.ranking.candidates import Places
from hacs_crawler.ranking.choice import foremost
from hacs_crawler.ranking.policies import Floats
from hacs_crawler.state import Rows

SITES_A_GROUP: Final = 1_024
"""How many sites are scored at a time: what is computed stays in the processor's cache."""
PIECE_ROWS: Final = 65_536
"""In how many rows at a time pages of the sites are looked for."""
_NUMBERS: Final = 2**22
"""How many numbers tell sites apart: sites with the same are in one group."""
_NONE: Final = -1


class SiteGroup(NamedTuple):
    """Pages that may be among the best, their bounds, and all pages of their sites, by place, ascending.

    Of pages never seen siblings tell nothing: then `members` are the pages themselves.
    """

    wanted: Places
    bound: Floats
    members: Places


def groups_of(bounded: PageBounds, rows: Rows, most: int) -> Iterator[SiteGroup]:
    """Yield the pages found, `most` of which may be chosen, in groups of whole sites.

    Pages never seen come first, as their bound is their score; sites follow by their highest bound.
    """
    is_seen = rows["visits"][bounded.places] > 0
    unseen, seen = np.flatnonzero(~is_seen), np.flatnonzero(is_seen)
    # only the best of them can be chosen
    unseen = np.sort(unseen[foremost(-bounded.bound[unseen], most)])
    if len(unseen):
        yield SiteGroup(bounded.places[unseen], bounded.bound[unseen], bounded.places[unseen])
    if not len(seen):
        return
    places, bound = bounded.places[seen], bounded.bound[seen]
    numbers = _numbers(np.take(rows, places))
    group_of = _groups(numbers, bound)
    members, ends = _members(rows, group_of)
    of_wanted = group_of[numbers]
    order = np.argsort(of_wanted, kind="stable")
    wanted = np.split(order, np.searchsorted(of_wanted[order], np.arange(1, len(ends))))
    for some, all_of_them in zip(wanted, np.split(members, ends[:-1]), strict=True):
        yield SiteGroup(places[some], bound[some], all_of_them)


def _groups(numbers: Places, bound: Floats) -> NDArray[np.int16]:
    """Return the group of each number of sites, `_NONE` for those without a page."""
    order = np.argsort(-bound, kind="stable")
    sites, first = np.unique(numbers[order], return_index=True)
    group_of = np.full(_NUMBERS, _NONE, np.int16)
    group_of[sites[np.argsort(first)]] = np.arange(len(sites)) // SITES_A_GROUP
    return group_of


def _members(rows: Rows, group_of: NDArray[np.int16]) -> tuple[Places, Places]:
    """Return the places of all pages by group, ascending in each, and where each group ends."""
    is_meant = group_of != _NONE
    found, groups = [], []
    for start in range(0, len(rows), PIECE_ROWS):
        numbers = _numbers(rows[start : start + PIECE_ROWS])
        here = np.flatnonzero(is_meant.take(numbers, mode="clip"))
        found.append(start + here)
        groups.append(group_of[numbers[here]])
    group = np.concatenate(groups)
    order = np.argsort(group, kind="stable")
    return np.concatenate(found)[order], np.cumsum(np.bincount(group))


def _numbers(rows: Rows) -> Places:
    """Return the numbers of the pages' sites."""
    numbers: Places = rows["site"].astype(np.int64)
    numbers &= _NUMBERS - 1
    return numbers

"""Which pages are siblings: those of one site, as their ranking rows say."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.ranking.candidates import Places
from hacs_crawler.state import Ids, Rows

MOST_OF_SITE: Final = 1_000
"""Of a site with more pages none is ranked anew: each tells little of the others, at a high price."""
_BUCKETS: Final = 2**20


class Families:
    """Pages that have a sibling among those that were added with them."""

    def __init__(self) -> None:
        self._parts: list[tuple[Ids, Ids]] = []

    def __bool__(self) -> bool:
        return bool(self._parts)

    def add(self, page_ids: Ids, sites: Ids) -> None:
        """Add pages with the numbers of their sites, 0 where that is not known."""
        order = np.argsort(sites, kind="stable")
        ids, of = page_ids[order], sites[order]
        is_first = np.diff(of, prepend=-1) != 0
        has_sibling = ~is_first
        has_sibling[:-1] |= ~is_first[1:]
        has_sibling &= of > 0
        if has_sibling.any():
            self._parts.append((of[has_sibling], ids[has_sibling]))

    def all(self) -> tuple[Ids, Ids]:
        """Return the number of the site of each page, and the pages."""
        if not self._parts:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        sites = np.concatenate([of for of, _ in self._parts])
        page_ids = np.concatenate([ids for _, ids in self._parts])
        page_ids, first = np.unique(page_ids, return_index=True)
        return sites[first], page_ids

    def have(self, page_ids: Ids) -> NDArray[np.bool_]:
        """Return which pages have a sibling."""
        found = np.zeros(len(page_ids), np.bool_)
        for _, ids in self._parts:
            found |= np.isin(page_ids, ids)
        return found

    def of(self, sites: Collection[int]) -> Ids:
        """Return the pages of some sites, without those of sites with more than `MOST_OF_SITE`."""
        wanted = np.array(sorted(sites), np.int64)
        number = np.zeros(len(wanted), np.int64)
        found: list[list[Ids]] = [[] for _ in wanted]
        for of, ids in self._parts:
            first, last = np.searchsorted(of, wanted), np.searchsorted(of, wanted, "right")
            number += last - first
            for place in np.flatnonzero(last > first).tolist():
                found[place].append(ids[first[place] : last[place]])
        few = [part for place in np.flatnonzero(number <= MOST_OF_SITE) for part in found[place]]
        return np.unique(np.concatenate(few)) if few else np.zeros(0, np.int64)


def families_of(chosen: Ids, page_ids: Ids, rows: Rows) -> Families:
    """Return the families of the chosen ones of some pages, whose ranking rows these are."""
    families = Families()
    sites = np.unique(rows["site"][places_of(chosen, page_ids)])
    members = places_of(sites, rows["site"])
    families.add(page_ids[members], rows["site"][members].astype(np.int64))
    return families


def places_of(few: NDArray[np.integer], many: NDArray[np.integer]) -> Places:
    """Return where a few numbers, such as ids or sites, stand among many others, ascending."""
    # a look at 20 bits of each leaves few that are to be looked at exactly
    may_be = np.zeros(_BUCKETS, np.bool_)
    may_be[few % _BUCKETS] = True
    near = np.flatnonzero(may_be[many % _BUCKETS])
    return near[np.isin(many[near], few)]

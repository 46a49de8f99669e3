"""Which of a state's pages are looked at to learn something of all; ids are hashes, so any do."""

from __future__ import annotations

from typing import Final

import numpy as np

from hacs_crawler.state.store import Ids, Store

PAGES_TO_COMPARE: Final = 3_000
PAGES_OF_A_SITE: Final = 200
"""How many pages of a site are compared at most, that a few giants are not all of the sample."""
ROWS_TO_READ: Final = 200_000


def sampled(store: Store, size: int) -> tuple[Ids, Ids]:
    """Return ids of up to `size` pages with a gap between visits, and of some updated together, maybe.

    The latter are those of whole sites; the numbers of sites are hashes, so any do. Pages without a
    known update tell nothing, nor do sites with one such page: they are left out. Of a store with more
    than `ROWS_TO_READ` rows so many are read. These are some pages of each of its sites.
    """
    ids, sites, number = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], 0
    revisited = [np.zeros(0, np.int64)]
    for page_ids, rows in store.all_rows():
        revisited.append(page_ids[rows["visits"] > 1])
        is_updated = (rows["updates"] > 0) & (rows["site"] > 0)
        ids.append(page_ids[is_updated])
        sites.append(rows["site"][is_updated].astype(np.int64))
        number += len(rows)
        if number >= ROWS_TO_READ:
            break
    siblings = _of_whole_sites(np.concatenate(ids), np.concatenate(sites))
    return np.concatenate(revisited)[:size], siblings


def _of_whole_sites(ids: Ids, sites: Ids) -> Ids:
    order = np.lexsort((ids, sites))
    ids, sites = ids[order], sites[order]
    starts = np.searchsorted(sites, sites, side="left")
    has_sibling = np.searchsorted(sites, sites, side="right") - starts > 1
    is_kept = has_sibling & (np.arange(len(sites)) - starts < PAGES_OF_A_SITE)
    ids, sites = ids[is_kept], sites[is_kept]
    if len(ids) <= PAGES_TO_COMPARE:
        return ids
    following = sites[PAGES_TO_COMPARE]
    return ids[: np.flatnonzero(sites == following)[0]]

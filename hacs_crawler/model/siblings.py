"""What visits to a page's siblings, the other pages of its site, tell about the page itself.

Pages of one author are updated together: of the updates in the scholarly timelines 64 % fall within a
day of an update of another page of the same site. So a sibling that was seen since the page's last visit
is evidence. If it had changed, the page may well have changed too; if it had not, less of the time since
the page's last visit is left in which the page can have changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.model.ragged import FloatArray

Ints = NDArray[np.int64]

QUIET_SHARE: Final = 0.3
"""By how much less likely an update is at a time up to which one sibling is known to have been quiet."""
SHARED_UPDATES: Final = 0.4
"""The probability that an update of a sibling, of at most the same rate, came with one of the page."""
LEAST_LEFT: Final = 0.1
"""What is left of that likelihood however many siblings were quiet."""
MOST_UPDATES: Final = 2
"""How many siblings' updates are looked at: the latest ones of the site."""


@dataclass(frozen=True, slots=True)
class Sightings:
    """When pages were last seen; arrays with one element a page, times in days, nan for never.

    `sites` are numbers, 0 for none. `last_update` is the last visit that found an update, `before` the
    visit before that one.
    """

    sites: Ints
    rate_per_day: FloatArray
    last_visit: FloatArray
    last_update: FloatArray
    before: FloatArray


def sibling_evidence(pages: Sightings) -> tuple[FloatArray, FloatArray]:
    """Return for each page what its siblings tell of the time since its last visit.

    That is the number of days by which this time is to be taken as shorter, for siblings were seen quiet
    in it, and the probability that the page was updated together with one of them. Both are 0 for a page
    without siblings, one never seen, and one that was seen later than all of them.
    """
    quiet_days = np.zeros(len(pages.sites))
    shared = np.zeros(len(pages.sites))
    members = _with_siblings(pages)
    if len(members):
        few = Sightings(*(getattr(pages, name)[members] for name in Sightings.__slots__))
        quiet_days[members] = _quiet_days(few)
        shared[members] = _shared(few)
    return quiet_days, shared


def _with_siblings(pages: Sightings) -> Ints:
    """Return the places of the pages seen that have a sibling among them."""
    seen = np.flatnonzero((pages.sites > 0) & ~np.isnan(pages.last_visit))
    _, index, counts = np.unique(pages.sites[seen], return_inverse=True, return_counts=True)
    return seen[counts[index] > 1]


def _quiet_days(pages: Sightings) -> FloatArray:
    """Sum over the time since each page's last visit of 1 - max(`LEAST_LEFT`, (1 - `QUIET_SHARE`)^m).

    m is the number of siblings that were seen later than that time, and found quiet when last seen.
    Along a site's pages, latest visit first, it grows by at most one from visit to visit.
    """
    order = np.lexsort((-pages.last_visit, pages.sites))
    last_visit, sites = pages.last_visit[order], pages.sites[order]
    is_first = np.diff(sites, prepend=-1) != 0
    is_quiet = ~(pages.last_update[order] >= last_visit)
    quiet_before = _sums_before(is_quiet.astype(np.float64), is_first)
    gaps = np.where(is_first, 0.0, np.concatenate([[0.0], -np.diff(last_visit)]))
    lost = gaps * (1.0 - np.maximum(LEAST_LEFT, (1.0 - QUIET_SHARE) ** quiet_before))
    days = np.empty(len(order))
    days[order] = _sums_before(lost, is_first) + lost
    return days


def _sums_before(values: FloatArray, is_first: NDArray[np.bool_]) -> FloatArray:
    """Return the sum of what is before each element in its run; runs begin where `is_first`."""
    sums = np.cumsum(values) - values
    starts = np.maximum.accumulate(np.where(is_first, np.arange(len(values)), 0))
    return np.maximum(sums - sums[starts], 0.0)


def _shared(pages: Sightings) -> FloatArray:
    """Return the probability of an update together with one of the site's latest updates.

    Of an update found after a gap only the share of the gap counts that lies after the page's own last
    visit, and of one of a page that is updated more often only the ratio of the rates.
    """
    rate = np.maximum(pages.rate_per_day, 1e-12)
    together = np.zeros(len(rate))
    for sibling in _latest_updated(pages):
        found, before = pages.last_update[sibling], pages.before[sibling]
        with np.errstate(divide="ignore", invalid="ignore"):
            share = (found - np.maximum(before, pages.last_visit)) / (found - before)
        share *= np.minimum(1.0, rate / rate[sibling])
        np.maximum(together, np.where(share > 0.0, share, 0.0), out=together)
    return SHARED_UPDATES * np.minimum(together, 1.0)


def _latest_updated(pages: Sightings) -> list[Ints]:
    """Return, for each page, its site's page with the latest update, then that with the second latest.

    Where a site has fewer pages, its last one again.
    """
    latest_first = -np.nan_to_num(pages.last_update, nan=-np.inf)
    order = np.lexsort((latest_first, pages.sites))
    starts = np.flatnonzero(np.diff(pages.sites[order], prepend=-1))
    sizes = np.diff(np.append(starts, len(order)))
    own = np.empty(len(order), np.int64)
    own[order] = np.repeat(np.arange(len(starts)), sizes)
    return [order[(starts + np.minimum(number, sizes - 1))[own]] for number in range(MOST_UPDATES)]

"""Histories of homepages and websites: captures, updates, and rates.

Times are days since 1970 UTC. A capture of a page finds an update if links appeared since the page's
capture before; the update is *interpolated* at the middle between the two (Jayawardana et al. 2020,
section II-B2).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.lab.timelines import Timelines
from hacs_crawler.links import group_by_website
from hacs_crawler.model import Gaps, Visits, elapsed_days, mle, update_probability
from hacs_crawler.state import PAGES_A_CALL, Page, histories
from hacs_crawler.utils.arrays import BoolArray, FloatArray, IndexArray, offsets_of, page_of_value
from hacs_crawler.utils.times import DAY

Units = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Captures:
    """Captures of many pages, and the updates that count as the truth, page by page in time order.

    Page i has captures [offsets[i]:offsets[i+1]]; `updated` says whether a capture found an update.
    """

    days: FloatArray
    updated: BoolArray
    offsets: IndexArray
    update_days: FloatArray
    update_page: IndexArray


@dataclass(frozen=True, slots=True)
class History:
    """The history of the units of one level: each homepage, or each website as a whole.

    A gap is between two successive captures of a page. Its event is the interpolated update if the
    second capture found an update, else the access at its end. Captures are in time order, gaps in the
    order of their ends, updates (the truth) from the last to the first.
    """

    units: int
    capture_days: FloatArray
    capture_unit: Units
    gap_starts: FloatArray
    gap_ends: FloatArray
    gap_events: FloatArray
    gap_updated: BoolArray
    gap_unit: Units
    update_days: FloatArray
    update_unit: Units

    def next_updates(self, day: float) -> FloatArray:
        """Return when each unit is updated next after `day`, infinite if it never is."""
        days = np.full(self.units, np.inf)
        # the first that is not after `day`
        later = np.searchsorted(-self.update_days, -day)
        # the earliest update of a unit is written last, and stays
        days[self.update_unit[:later]] = self.update_days[:later]
        return days


def captures_of(timelines: Timelines) -> Captures:
    """Return the timelines' captures and outcomes; the truth are the timelines' updates."""
    captures, updates = timelines.captures, timelines.updates
    update_page = page_of_value(updates.offsets)
    number = np.searchsorted(
        _keys(update_page, updates.at),
        _keys(page_of_value(captures.offsets), captures.at),
        side="right",
    )
    updated = np.diff(number, prepend=0) > 0
    updated[captures.offsets[:-1][np.diff(captures.offsets) > 0]] = False
    return Captures(captures.at / DAY, updated, captures.offsets, updates.at / DAY, update_page)


def from_timelines(timelines: Timelines) -> dict[str, History]:
    """Return the histories of both levels; the truth are the timelines' updates."""
    seen = captures_of(timelines)
    places = {url: number for number, url in enumerate(dict.fromkeys(timelines.sites))}
    sites = np.array([places[site] for site in timelines.sites], np.int64)
    return _both_levels(seen, np.flatnonzero(timelines.is_homepage), sites, len(places))


def from_pages(
    pages: Iterable[Page],
    seeds: Sequence[str] | None = None,
    on_batch: Callable[[int], None] = lambda _done: None,
) -> dict[str, History]:
    """Return the histories of both levels from a state, read page by page.

    The truth are the updates that visits found, interpolated. `seeds` are the homepages, as for
    `group_by_website`; `on_batch` gets the number of pages read.
    """
    urls, parts, remaining = list[str](), [histories([])], iter(pages)
    while batch := list(islice(remaining, PAGES_A_CALL)):
        urls += [page.url for page in batch]
        parts.append(histories([page.sound for page in batch]))
        on_batch(len(urls))
    days, updated, offsets = zip(*parts, strict=True)
    counts = np.concatenate([np.diff(some) for some in offsets])
    captures = np.concatenate(days), np.concatenate(updated), offsets_of(counts)
    middles, of_page = Visits(*captures).update_points()
    sites, homepages = group_by_website(urls, seeds)
    seen = Captures(*captures, middles, page_of_value(of_page))
    return _both_levels(seen, homepages, sites, len(homepages))


def _keys(page: IndexArray, at: IndexArray) -> IndexArray:
    """Return keys that sort by page, then by second (both below 2^32)."""
    return (page << 32) + at


def _both_levels(
    seen: Captures, homepages: IndexArray, site: Units, sites: int
) -> dict[str, History]:
    number = np.full(seen.offsets.size - 1, -1, np.int64)
    number[homepages] = np.arange(len(homepages))
    return {
        "homepage": history(seen, number, len(homepages)),
        "website": history(seen, site, sites),
    }


def history(seen: Captures, unit_of_page: Units, units: int) -> History:
    """Return the history of units, each the union of its pages (those of unit -1 are left out).

    The union has the captures, gaps and updates of all of its pages; updates of several pages at the
    same moment are one.
    """
    unit = unit_of_page[page_of_value(seen.offsets)]
    ends_gap = unit >= 0
    ends_gap[seen.offsets[:-1][np.diff(seen.offsets) > 0]] = False
    ends_gap[1:] &= np.diff(seen.days) != 0  # two captures in one second are one
    ends = np.flatnonzero(ends_gap)
    ends = ends[np.argsort(seen.days[ends], kind="stable")]
    middles = seen.days[ends - 1] + (seen.days[ends] - seen.days[ends - 1]) / 2
    captures = np.flatnonzero(unit >= 0)
    captures = captures[np.argsort(seen.days[captures], kind="stable")]
    truth = unit_of_page[seen.update_page] >= 0
    update_unit, update_days = unit_of_page[seen.update_page][truth], seen.update_days[truth]
    updates = np.argsort(-update_days, kind="stable")
    return History(
        units=units,
        capture_days=seen.days[captures],
        capture_unit=unit[captures],
        gap_starts=seen.days[ends - 1],
        gap_ends=seen.days[ends],
        gap_events=np.where(seen.updated[ends], middles, seen.days[ends]),
        gap_updated=seen.updated[ends],
        gap_unit=unit[ends],
        update_days=update_days[updates],
        update_unit=update_unit[updates],
    )


@dataclass(frozen=True, slots=True)
class PaperWindow:
    """The units with a capture in a window, one element each.

    `p` is the probability of an update between tau, the last interpolated update, and the predicted
    moment; 0 without an update in the window. `last_capture` is in days since 1970.
    """

    units: Units
    p: FloatArray
    last_capture: FloatArray


@dataclass(frozen=True, slots=True)
class UnitRates:
    """Rates of units with a gap: lambda in 1/day (0 without update), and tau (nan without update)."""

    units: Units
    per_day: FloatArray
    tau: FloatArray


def window(history: History, day: float, days: float, horizon_days: float) -> PaperWindow:
    """Return the evidence of captures within [day - days, day], inclusive, for day + horizon_days.

    A capture found an update if the page differed from its previous capture, which may be before the
    window. p = 1 - exp(-lambda e), e = day + horizon_days - tau (Jayawardana et al. 2020, Eq. 1).
    """
    first = np.searchsorted(history.capture_days, day - days)
    last = np.searchsorted(history.capture_days, day, side="right")
    captured = history.capture_unit[first:last][::-1]
    units, latest = np.unique(captured, return_index=True)
    begin = np.searchsorted(history.gap_ends, day - days)
    end = np.searchsorted(history.gap_ends, day, side="right")
    rates = estimated(history, np.arange(begin, end))
    p = np.zeros(units.size)
    moving = rates.per_day > 0
    p[np.searchsorted(units, rates.units[moving])] = update_probability(
        rates.per_day[moving], elapsed_days(day + horizon_days, rates.tau[moving])
    )
    return PaperWindow(units, p, history.capture_days[first:last][::-1][latest])


def estimated(history: History, gaps: Units) -> UnitRates:
    """Estimate lambda of each unit from some of its gaps: Eq. 5 on interpolated updates.

    If every interval ends in an update, Eq. 5 lacks a root, and Eq. 4 is used on the accesses. For a
    unit of one page it is the estimator `mle-interpolated`. A website is watched from the start of
    its first gap on, and an access or update of any page ends an interval.
    """
    unit, updated = history.gap_unit[gaps], history.gap_updated[gaps]
    starts = history.gap_starts[gaps]
    units, unit = np.unique(unit, return_inverse=True)
    since = np.full(units.size, np.inf)
    np.minimum.at(since, unit, starts)
    tau = np.full(units.size, -np.inf)
    np.maximum.at(tau, unit[updated], history.gap_events[gaps][updated])
    intervals = _intervals(unit, since, history.gap_events[gaps], updated)
    accesses = _intervals(unit, since, history.gap_ends[gaps], updated)
    return UnitRates(units, mle(intervals, accesses), np.where(np.isinf(tau), np.nan, tau))


def _intervals(unit: Units, since: FloatArray, events: FloatArray, updated: BoolArray) -> Gaps:
    """Return the intervals from `since` to a unit's first event, and from one event to the next.

    Events at the same moment count as one, which is an update if any of them is.
    """
    order = np.lexsort((~updated, events, unit))
    unit, events, updated = unit[order], events[order], updated[order]
    is_first = np.diff(unit, prepend=-1) > 0
    is_other = is_first | (np.diff(events, prepend=-np.inf) > 0)
    events = events[is_other]
    before = np.concatenate([[0.0], events[:-1]])[: events.size]
    before[is_first[is_other]] = since
    offsets = offsets_of(np.bincount(unit[is_other], minlength=since.size))
    return Gaps(events - before, updated[is_other], np.ones(events.size), offsets)

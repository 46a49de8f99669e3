"""Histories of updates for the evaluation of localized rates, synthetic or from timelines."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from hacs_crawler.lab.evaluation.histories import captures_of
from hacs_crawler.lab.timelines import Timelines
from hacs_crawler.model import Visits
from hacs_crawler.utils.arrays import FloatArray, IndexArray, offsets_of, page_of_value
from hacs_crawler.utils.times import DAY

# Access units of the paper's synthetic pages: one a day.
ACCESSES: Final = 200
FEWEST_UPDATES: Final = 3
CHUNK_PAGES: Final = 10_000
# of a Beta distribution: a mean of 103 and a deviation of 45.9 updates
_SHARE: Final = 1.82, 1.8
_MOST_PARTS: Final = 5
_FACTORS: Final = 2.0, 8.0
_LEVEL_SD: Final = 0.5


@dataclass(frozen=True, slots=True)
class Points:
    """Update points of pages, strictly increasing within a page; page i has [offsets[i]:offsets[i+1]].

    Times are days. Each page is watched from `first_days`, before its first point, until `until_days`.
    """

    days: FloatArray
    offsets: IndexArray
    first_days: FloatArray
    until_days: FloatArray

    def __len__(self) -> int:
        return self.offsets.size - 1


def synthetic_chunks(pages: int, seed: int = 0, *, is_dated: bool = False) -> Iterator[Points]:
    """Yield pages of the paper's shape, `CHUNK_PAGES` at a time: the same for the same seed.

    Each is accessed once a day for `ACCESSES` days, and has an update in 3 to 200 of them: with t(0),
    which the paper counts, 4 to 201, of mean 103 and deviation 45.9. Its time is cut into 1 to 5 parts,
    and in each the rate is constant, rises or falls, by a factor of 2 to 8. Update points are the
    middles of the days, or with `is_dated` the time of a day's last update, as a last-modified date is.
    """
    for chunk, start in enumerate(range(0, pages, CHUNK_PAGES)):
        rng, some = np.random.default_rng((seed, chunk)), min(CHUNK_PAGES, pages - start)
        share = rng.beta(*_SHARE, some)
        number = FEWEST_UPDATES + np.rint(share * (ACCESSES - FEWEST_UPDATES)).astype(np.int64)
        weight = _rates(some, rng)
        # the first event of each day's Poisson process comes after an exponential time: the updated
        # days, given their number, are those with the earliest events
        first = rng.exponential(size=weight.shape) / weight
        scale = np.take_along_axis(np.sort(first, axis=1), number[:, None] - 1, axis=1)
        is_updated = first <= scale
        days = np.broadcast_to(np.arange(float(ACCESSES)), weight.shape)[is_updated]
        within = _last_of_day((weight * scale)[is_updated], rng) if is_dated else 0.5
        zeros = np.zeros(some)
        yield Points(days + within, offsets_of(number), zeros, zeros + ACCESSES)


def _rates(pages: int, rng: np.random.Generator) -> FloatArray:
    """Return each page's rate in each access unit, up to a factor; shape (pages, ACCESSES)."""
    parts = rng.integers(1, _MOST_PARTS + 1, pages)
    cuts = np.sort(rng.random((pages, _MOST_PARTS)) * ACCESSES, axis=1)
    cuts[np.arange(_MOST_PARTS) >= parts[:, None] - 1] = ACCESSES
    day = np.arange(ACCESSES) + 0.5
    part = (day[None, :, None] >= cuts[:, None, :]).sum(axis=2)
    starts = np.concatenate([np.zeros((pages, 1)), cuts], axis=1)
    shape = pages, _MOST_PARTS + 1
    trend = rng.integers(-1, 2, shape) * np.log(rng.uniform(*_FACTORS, shape))
    level = rng.normal(0.0, _LEVEL_SD, shape)
    ends = np.concatenate([cuts, np.full((pages, 1), ACCESSES)], axis=1)
    share = (day - np.take_along_axis(starts, part, 1)) / np.take_along_axis(ends - starts, part, 1)
    rates: FloatArray = np.exp(
        np.take_along_axis(level, part, 1) + np.take_along_axis(trend, part, 1) * (share - 0.5)
    )
    return rates


def _last_of_day(rate: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Return the time of the last update in days with an update, by the inverse distribution."""
    quiet = np.exp(-rate)
    when: FloatArray = 1.0 + np.log(quiet + rng.random(rate.shape) * (1.0 - quiet)) / rate
    return np.clip(when, 1e-6, 1.0)  # rounding: a rate of 700 and more


def of_timelines(timelines: Timelines, *, by_captures: bool) -> Points:
    """Return the update points of timelines, as seen by captures or by an access each day.

    Pages without a capture, and pages never updated, are without points. All are watched until the last
    known event.
    """
    times = timelines.first_seen, timelines.updates.at, timelines.captures.at
    latest = max(float(at.max()) for at in times if at.size)
    until = np.full(len(timelines.urls), latest / DAY)
    first = timelines.first_seen / DAY
    if by_captures:
        seen = captures_of(timelines)
        days, offsets = Visits(seen.days, seen.updated, seen.offsets).update_points()
        has_capture = np.diff(seen.offsets) > 0
        first[has_capture] = seen.days[seen.offsets[:-1][has_capture]]
        return Points(days, offsets, first, until)
    page = page_of_value(timelines.updates.offsets)
    number = np.ceil(timelines.updates.at / DAY - first[page])
    is_point = (number > 0) & (np.diff(number, prepend=0) != 0) | (np.diff(page, prepend=-1) != 0)
    is_point &= number > 0
    counts = np.bincount(page[is_point], minlength=len(first))
    return Points((first[page] + number - 0.5)[is_point], offsets_of(counts), first, until + 1.0)

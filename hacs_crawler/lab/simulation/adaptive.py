"""Schedules of other crawlers that give each page an interval and make it shorter or longer."""

from __future__ import annotations

from abc import abstractmethod
from typing import Final

import numpy as np

from hacs_crawler.lab.simulation.simulation import Contender, Counts, Places, World
from hacs_crawler.ranking.policies import Candidates, Floats
from hacs_crawler.utils.times import DAY

MINUTE: Final = 60


class IntervalSchedule(Contender):
    """Visits the pages that have been due for the longest.

    It has seen the history as all contenders have. Where fewer pages are due than the budget allows,
    those due next are visited early: their own crawlers would leave the rest of the budget unused.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._due = np.zeros(len(world.page_ids), np.int64)
        for sight in world.past:
            self._due[sight.page] = self.next_visit(sight.page, sight.at, changed=sight.found > 0)

    def score(self, candidates: Candidates) -> Floats:  # noqa: ARG002 - it has a memory of its own
        """Score by the days since the page was due."""
        return (self._world.now - self.due(self._world.now)) / DAY

    def note(self, places: Places, now: int, found: Counts) -> None:
        """Set the pages' next visits."""
        for page, number in zip(places.tolist(), found.tolist(), strict=True):
            self._due[page] = self.next_visit(page, now, changed=number > 0)

    def due(self, now: int) -> Places:  # noqa: ARG002 - a schedule may look at it
        """Return the second at which each page is due, seen from second `now`."""
        return self._due

    @abstractmethod
    def next_visit(self, page: int, at: int, *, changed: bool) -> int:
        """Return the second of a page's next visit, after one at second `at`."""


class Nutch(IntervalSchedule):
    """Apache Nutch's AdaptiveFetchSchedule with the values of nutch-default.xml.

    Source: apache/nutch, commit 7906941, src/java/org/apache/nutch/crawl: AdaptiveFetchSchedule
    .setFetchSchedule for the interval and the shift by sync_delta, CrawlDbReducer.reduce for what counts
    as modified and for intervals above db.fetch.interval.max, AbstractFetchSchedule.shouldFetch and
    .forceRefetch; conf/nutch-default.xml (the class's own defaults of 0.2 are overridden there). The
    modification time is when a visit last found an update: no server's Last-Modified is simulated.
    """

    DEFAULT_SECONDS: Final = 2_592_000  # db.fetch.interval.default
    LONGEST_SECONDS: Final = 7_776_000  # db.fetch.interval.max
    INC_RATE: Final = 0.4  # db.fetch.schedule.adaptive.inc_rate, and so on below
    DEC_RATE: Final = 0.2
    MIN_SECONDS: Final = 60
    MAX_SECONDS: Final = 31_536_000
    SYNC_DELTA_RATE: Final = 0.3

    def __init__(self, world: World) -> None:
        pages = len(world.page_ids)
        self._interval = [self.DEFAULT_SECONDS] * pages
        self._modified = [0] * pages
        self._has_signature = [False] * pages
        super().__init__(world)

    def next_visit(self, page: int, at: int, *, changed: bool) -> int:
        """Return the second of the next fetch."""
        interval: float = self._interval[page]
        modified = self._modified[page] or at
        if self._has_signature[page] and changed:
            interval, modified = interval * (1 - self.DEC_RATE), at
        elif self._has_signature[page]:
            interval *= 1 + self.INC_RATE
        delta = at - modified
        shift = round(delta * self.SYNC_DELTA_RATE)
        if shift > self.MAX_SECONDS:
            shift = 0  # offset / delta * maxIntervalMillis in whole numbers, and offset < delta
        interval = round(min(max(interval, delta, self.MIN_SECONDS), self.MAX_SECONDS))
        is_too_long = interval > self.LONGEST_SECONDS  # then forceRefetch forgets the signature
        self._interval[page] = round(0.9 * self.LONGEST_SECONDS) if is_too_long else interval
        self._has_signature[page] = not is_too_long
        self._modified[page] = 0 if is_too_long else modified
        return at - shift + interval

    def due(self, now: int) -> Places:
        """Return when pages are due; one that is due too far ahead is fetched at once."""
        due = super().due(now)
        return np.where(due - now > self.LONGEST_SECONDS, now, due)


class StormCrawler(IntervalSchedule):
    """Apache StormCrawler's AdaptiveScheduler with its default values.

    Source: apache/stormcrawler, commit 384e98c, core/src/main/java/org/apache/stormcrawler/persistence:
    AdaptiveScheduler.schedule for the interval, DefaultScheduler.schedule for a page's first fetch;
    fetchInterval.default from core/src/main/resources/crawler-default.yaml, the others from the class.
    Intervals are whole minutes.
    """

    DEFAULT_MINUTES: Final = 1_440  # fetchInterval.default
    MIN_MINUTES: Final = 60  # scheduler.adaptive.fetchInterval.min, and so on below
    MAX_MINUTES: Final = 20_160
    RATE_INCR: Final = 0.5
    RATE_DECR: Final = 0.5

    def __init__(self, world: World) -> None:
        self._minutes: dict[int, int] = {}
        super().__init__(world)

    def next_visit(self, page: int, at: int, *, changed: bool) -> int:
        """Return the second of the next fetch."""
        minutes = self._minutes.get(page)
        if minutes is None:
            minutes = self.DEFAULT_MINUTES
        elif changed:
            minutes = int((1 - self.RATE_DECR) * minutes + self.RATE_DECR * self.MIN_MINUTES)
        else:
            minutes = min(int(minutes * (1 + self.RATE_INCR)), self.MAX_MINUTES)
        self._minutes[page] = minutes
        return at + minutes * MINUTE

"""The scheduler: holds start requests back, ranks them, hands them to an inner scheduler."""

from __future__ import annotations

import logging
import secrets
import time
from collections import deque
from dataclasses import fields

import numpy as np
from pydispatch.dispatcher import getAllReceivers
from scrapy import Request, Spider, signals
from scrapy.core.scheduler import BaseScheduler, Scheduler
from scrapy.crawler import Crawler
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from scrapy.utils.misc import build_from_crawler, load_object
from twisted.internet.defer import Deferred, DeferredLock

from hacs_crawler.config import Config
from hacs_crawler.crawl.fleet_member import Crew
from hacs_crawler.crawl.loop import sleep
from hacs_crawler.crawl.meta import (
    forget_copied_meta,
    mark_ranked,
    page_url,
    seed_key,
    seed_url,
    take_unsent_mark,
)
from hacs_crawler.crawl.page_cache import RETRY_SECONDS
from hacs_crawler.crawl.session import Session
from hacs_crawler.exceptions import ConfigError, StateError, StateUnavailableError
from hacs_crawler.fleet.partitions import Holdings
from hacs_crawler.ranking.arms import interleaved
from hacs_crawler.ranking.selection import Selection
from hacs_crawler.state import Rows

logger = logging.getLogger(__name__)

LEAST_CHUNK = 1_000
"""With a budget, seeds are ranked in chunks of at least this many, so that memory stays O(budget)."""
MOST_WAITING = 2_000
"""Of the seeds of a plan at most about so many wait as requests."""
LARGEST_BATCH = 16
"""Seeds handed to the inner scheduler at once when it is empty, if as many may be downloaded at once:
Scrapy's queues are made anew whenever they were empty, on disk at a cost of half a millisecond."""


class HacsScheduler(BaseScheduler):
    """Ranks start requests; everything else goes straight to the inner scheduler.

    Ranked seeds wait here in rank order and are handed to the inner scheduler a few at a time, when it
    has nothing else to send: follow-up requests go before start requests, as Scrapy itself does.
    `LinkAdditionsMiddleware` calls `rank` when seeds are to be ranked; nothing here waits.
    """

    def __init__(
        self,
        inner: BaseScheduler,
        session: Session,
        config: Config | None,
        crawler: Crawler,
    ) -> None:
        self._inner = inner
        self._session = session
        self._crawler = crawler
        self._held: list[Request] = []
        self._held_ids: list[int] = []
        self._ranked: deque[Request] = deque()
        self._selection: Selection[Request] | None = None
        self._room: Deferred[None] | None = None
        self._ranking_lock = DeferredLock()
        self._seeds_are_over = False
        self._rankings = 0
        self._batch = max(1, min(LARGEST_BATCH, crawler.settings.getint("CONCURRENT_REQUESTS")))
        self.start_is_waiting = False
        """Set by the middleware while the spider's `start()` waits for something."""
        if config is not None:
            self._config = config
            self._chunk = config.rank_window or (
                max(config.ranking.budget, LEAST_CHUNK) if config.ranking.budget else None
            )

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> HacsScheduler:
        """Build the inner scheduler named by HACS_INNER_SCHEDULER, and this one around it."""
        session = Session.of(crawler)
        inner_cls: type[BaseScheduler] = Scheduler
        if session.is_of_fleet:
            Holdings.of(crawler).partitions = frozenset()  # until the fleet gives it some
        if session.config is not None:
            name = session.config.inner_scheduler
            try:
                found = load_object(name)
                if (
                    found is cls
                    or not isinstance(found, type)
                    or not issubclass(found, BaseScheduler)
                ):
                    raise ValueError("that is none")  # noqa: TRY301 - one way to say it
                inner_cls = found
            except (ImportError, NameError, ValueError) as error:
                session.fail(
                    f"HACS_INNER_SCHEDULER = {name!r}: allowed is a scheduler's path ({error})"
                )
        try:
            inner = build_from_crawler(inner_cls, crawler)
        except Exception as error:  # noqa: BLE001 - such as that of a server that is away
            session.fail(f"HACS_INNER_SCHEDULER: {inner_cls.__name__} does not start: {error}")
            inner = _NoScheduler()
        scheduler = cls(inner, session, session.config, crawler)
        session.ranker = scheduler
        return scheduler

    def open(self, spider: Spider) -> Deferred[None] | None:
        """Open the inner scheduler."""
        return self._inner.open(spider)

    def close(self, reason: str) -> Deferred[None] | None:
        """Close the inner scheduler; with JOBDIR, ranked seeds not yet sent are left to it, in order.

        Seeds not yet ranked are forgotten: `start()` yields them again when the job goes on.
        """
        if self._crawler.settings.get("JOBDIR"):
            for seed in self._ranked:
                self._inner.enqueue_request(seed)
        return self._inner.close(reason)

    def has_pending_requests(self) -> bool:
        """Whether anything waits here or in the inner scheduler."""
        if self._session.failure is not None:
            return False
        waits = self._ranked or self._held or self._ranking_lock.locked
        return bool(waits) or self._inner.has_pending_requests()

    def enqueue_request(self, request: Request) -> bool:
        """Hold a start request back to be ranked; pass anything else to the inner scheduler.

        A seed of the plan was ranked already: it waits behind those that came before it.
        """
        if take_unsent_mark(request):
            self._ranked.append(request)
            return True
        forget_copied_meta(request)
        key = None if self._seeds_are_over else seed_key(request)
        if key is None:
            if "redirect_times" in request.meta and page_url(request) is not None:
                # another page may have led to the same URL: this is a visit of its own page all the same
                request.dont_filter = True
            return self._inner.enqueue_request(request)
        self._held.append(request)
        self._held_ids.append(key)
        return True

    def next_request(self) -> Request | None:
        """Return what the inner scheduler has, else the best seed left; None where there is neither."""
        if not self._session.is_open:
            return None
        request = self._inner.next_request()
        if self._session.crew is not None:
            return request or self._next_of_fleet(self._session.crew)
        while request is None and self._ranked:
            released = [self._release_one() for _ in range(min(self._batch, len(self._ranked)))]
            if any(released):
                request = self._inner.next_request()
                break
        if request is None and self._held and self._start_waits_for_us():
            deferred_from_coro(self._rank_and_wake())
        return request

    @property
    def wants_ranking(self) -> bool:
        """Whether a window, or a chunk of seeds under a budget, is full."""
        return self._session.is_open and self._chunk is not None and len(self._held) >= self._chunk

    async def make_room(self) -> None:
        """Return when few ranked seeds wait, so that a plan of any length takes little memory."""
        if len(self._ranked) >= MOST_WAITING and self._session.failure is None:
            self._room = Deferred()
            await maybe_deferred_to_future(self._room)

    async def rank(self, *, is_last: bool = False) -> None:
        """Rank the seeds held; with a budget, release them when `is_last` or a window is full."""
        self._seeds_are_over = self._seeds_are_over or is_last
        if not self._session.is_open:
            return
        if self._held:
            await self._rank_held()
        if is_last or self._config.rank_window:
            self._release()

    def ranked_seeds(self) -> list[Request]:
        """Return the ranked seeds that wait here."""
        return list(self._ranked)

    def take_ranked(self) -> list[Request]:
        """Return the ranked seeds that wait here, and forget them."""
        seeds = self.ranked_seeds()
        self._ranked.clear()
        self._note_room()
        return seeds

    async def end_round(self) -> None:
        """Rank the seeds held, and release all that are within the budget."""
        if self._held and self._session.is_open:
            await self._rank_held()
        self._release()

    def begin_round(self) -> None:
        """Give each arm its budget anew, and let pages be visited again."""
        self._selection = None
        empty_filter(self._inner, self._crawler)

    def _release_one(self) -> bool:
        """Hand the best seed left to the inner scheduler; returns whether that took it."""
        seed = self._ranked.popleft()
        self._note_room()
        is_taken = self._inner.enqueue_request(seed)
        if not is_taken:
            self._drop([seed], "duplicate")
        return is_taken

    def _next_of_fleet(self, crew: Crew) -> Request | None:
        """Return the best seed: not through the queue that workers share, for the board has it."""
        if self._ranked and crew.may_send():
            return self._ranked.popleft()
        return None

    def note_failure(self) -> None:
        """Let `make_room` return."""
        self._ranked.clear()
        self._note_room()

    @property
    def has_partitions(self) -> bool:
        """Whether the inner scheduler's queue knows which hosts this crawl may ask."""
        from hacs_crawler.fleet.queue import PartitionQueue  # noqa: PLC0415 - needs an extra

        return isinstance(getattr(self._inner, "queue", None), PartitionQueue)

    def wake(self) -> None:
        """Have the engine send a seed now: it looks only every few seconds while `start()` waits."""
        if self._ranked and self._crawler.engine is not None:
            self._crawler.engine.crawl(self._ranked.popleft())

    def _note_room(self) -> None:
        if self._room is not None and len(self._ranked) < MOST_WAITING // 2:
            room, self._room = self._room, None
            room.callback(None)

    async def _rank_and_wake(self) -> None:
        """Rank what there is because `start()` waits for the scheduler to run empty."""
        if self._ranking_lock.locked:
            return
        await self._rank_held()
        self._release()
        self.wake()

    async def _rank_held(self) -> None:
        await maybe_deferred_to_future(self._ranking_lock.acquire())
        try:
            held, self._held = self._held, []
            ids, self._held_ids = self._held_ids, []
            rows = await self._rows(ids)
            if rows is None:
                self._held, self._held_ids = held, ids
            else:
                self._offer(held, ids, rows)
        finally:
            self._ranking_lock.release()

    async def _rows(self, ids: list[int]) -> Rows | None:
        """Read ranking rows; once something was ranked, a store that is away is waited for."""
        while True:
            try:
                return await self._session.pages.rows(ids)
            except StateUnavailableError as error:
                if not self._rankings:
                    self._session.fail(str(error))
                    return None
                logger.warning("%s; ranking goes on when it is back", error)
                await maybe_deferred_to_future(sleep(RETRY_SECONDS))
            except StateError as error:
                self._session.fail(str(error))
                return None

    def _offer(self, held: list[Request], ids: list[int], rows: Rows) -> None:
        started = time.perf_counter()
        if self._selection is None:
            options = self._config.ranking.seeded(secrets.randbits(63))
            self._selection = Selection(options, self._session.correct, seed_url)
        try:
            dropped = self._selection.offer(
                held,
                np.array(ids, np.int64),
                rows,
                self._session.clock(),
                self._session.prior_rate_per_day,
                np.array([request.dont_filter for request in held], np.bool_),
            )
        except ConfigError as error:
            self._session.fail(str(error))
            return
        except Exception as error:  # noqa: BLE001 - a policy is the user's own code
            self._session.fail(
                f"{self._config.policy_text} failed: {type(error).__name__}: {error}"
            )
            return
        for field in fields(dropped):
            self._drop(getattr(dropped, field.name), field.name)
        self._rankings += 1
        self._session.stats.count("seeds", len(held))
        self._session.stats.count("rank_seconds", time.perf_counter() - started)

    def _release(self) -> None:
        if self._selection is None:
            return
        chosen, others = self._selection.take()
        self._drop(others, "budget")
        run = self._session.run
        parts = [
            [
                mark_ranked(seed, prediction, label.arm)
                for seed, prediction in zip(
                    best.entries, best.predictions(label.number, run), strict=True
                )
            ]
            for best, label in zip(chosen, self._session.labels, strict=True)
        ]
        self._session.stats.count("ranked", sum(map(len, parts)))
        self._ranked.extend(interleaved(parts))  # a run that is stopped stops every arm half-way

    def _drop(self, requests: list[Request], reason: str) -> None:
        if requests:
            self._session.stats.count(f"dropped/{reason}", len(requests))
        for request in requests:
            self._crawler.signals.send_catch_log(
                signals.request_dropped, request=request, spider=self._crawler.spider
            )

    def _start_waits_for_us(self) -> bool:
        """Whether `start()` goes on only when the scheduler runs empty: it must not wait for ever."""
        return self.start_is_waiting and bool(
            list(getAllReceivers(self._crawler.signals.sender, signals.scheduler_empty))
        )


class _NoScheduler(BaseScheduler):
    """Stands in for an inner scheduler that does not start, in a crawl that is about to close."""

    def has_pending_requests(self) -> bool:
        return False

    def enqueue_request(self, request: Request) -> bool:
        del request
        return False

    def next_request(self) -> None:
        return None


def empty_filter(inner: BaseScheduler, crawler: Crawler) -> None:
    """Let a scheduler's filter forget the requests it has seen: in a new round they come again."""
    seen = getattr(inner, "df", None)
    if seen is None:
        return
    if hasattr(seen, "clear"):  # scrapy-redis
        seen.clear()
        return
    seen.close("round")
    inner.df = build_from_crawler(type(seen), crawler)  # type: ignore[attr-defined]
    inner.df.open()  # type: ignore[attr-defined]

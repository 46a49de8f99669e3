"""The scheduler: holds start requests, ranks them, and sends the best where a host is free."""

from __future__ import annotations

import secrets
import time
from collections import deque
from dataclasses import fields
from itertools import count
from typing import Final

import numpy as np
from scrapy import Request, Spider, signals
from scrapy.core.scheduler import BaseScheduler, Scheduler
from scrapy.crawler import Crawler
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.log import failure_to_exc_info
from scrapy.utils.misc import build_from_crawler, load_object
from twisted.internet.defer import Deferred, DeferredLock
from twisted.python.failure import Failure

from hacs_crawler.config import Config
from hacs_crawler.crawl.backlog import Backlog
from hacs_crawler.crawl.fleet_member import Crew
from hacs_crawler.crawl.loop import begin, sleep
from hacs_crawler.crawl.meta import (
    forget_copied_meta,
    mark_ranked,
    page_url,
    seed_key,
    seed_url,
    take_put_back_mark,
    take_unsent_mark,
)
from hacs_crawler.crawl.page_cache import RETRY_SECONDS
from hacs_crawler.crawl.scrapy_internals import (
    Downloads,
    empty_filter,
    enqueue_unfiltered,
    filter_of,
    wake,
)
from hacs_crawler.crawl.seed_queue import SeedQueue
from hacs_crawler.crawl.session import Session
from hacs_crawler.crawl.start_watch import StartWatch
from hacs_crawler.exceptions import ConfigError, StateError, StateUnavailableError
from hacs_crawler.fleet.partitions import Holdings
from hacs_crawler.ranking.selection import Selection
from hacs_crawler.state import Rows
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

LEAST_CHUNK: Final = 1_000
"""With a budget, seeds are ranked in chunks of at least this many, so that memory stays O(budget)."""
MOST_WAITING: Final = 2_000
"""Of the seeds of a plan at most about so many wait as requests."""


class HacsScheduler(BaseScheduler):
    """Ranks start requests; everything else goes straight to the inner scheduler.

    A start request passes the project's duplicate filter when it comes, as with any scheduler, and is
    held here until it is ranked and sent. Follow-up requests go before start requests of the same
    priority; between hosts, those with a free slot come first. Nothing here waits.
    """

    def __init__(
        self, inner: BaseScheduler, session: Session, config: Config | None, crawler: Crawler
    ) -> None:
        self._inner = inner
        self._session = session
        self._crawler = crawler
        self._downloads = Downloads(crawler)
        self._backlog = Backlog()
        self._seeds = SeedQueue(self._downloads)
        self._held: list[Request] = []
        self._held_ids: list[int] = []
        self._paused: dict[str, deque[Request]] = {}
        self._selection: Selection[Request] | None = None
        self._room: Deferred[None] | None = None
        self._ranking_lock = DeferredLock()
        self._rankings = 0
        self._releases = count()
        self._is_resumed = False
        self._enqueued = self._dequeued = 0
        self._planned = count()
        self.watch = StartWatch(self._note_pause, time.monotonic)
        """Tells when what is held is to be ranked."""
        if config is not None:
            self._config = config
            budget = config.ranking.budget
            self._chunk = config.rank_window or (max(budget, LEAST_CHUNK) if budget else None)

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
        self._spider = spider
        opening = self._inner.open(spider)
        # what a job left is sent before start() is asked for anything, and is to be recorded
        self._is_resumed = self._inner.has_pending_requests()
        return opening

    def close(self, reason: str) -> Deferred[None] | None:
        """Close the inner scheduler; one that keeps requests gets all that wait here, best first."""
        if self._session.crew is None and self._inner_keeps_requests():
            left = [*self._seeds.all(), *self._held]
            self._enqueued -= len(left)  # the inner scheduler counts them again
            left += [request for waiting in self._paused.values() for request in waiting]
            for request in left:
                enqueue_unfiltered(self._inner, request)
        self._count_seeds()
        return self._inner.close(reason)

    def has_pending_requests(self) -> bool:
        """Whether anything waits here or in the inner scheduler."""
        if self._session.failure is not None:
            return False
        waits = self._seeds or self._held or self._paused or self._ranking_lock.locked
        return bool(waits) or self._inner.has_pending_requests()

    def enqueue_request(self, request: Request) -> bool:
        """Hold a start request back to be ranked; pass anything else to the inner scheduler.

        A seed of the plan was ranked already: it waits behind those that came before it.
        """
        if take_unsent_mark(request):
            self._seeds.add_one(request, next(self._planned))
            return True
        if take_put_back_mark(request):
            self._paused.setdefault(self._downloads.slot_of(request), deque()).append(request)
            return True
        forget_copied_meta(request)
        is_expected = self._session.is_open and not self.watch.is_over
        page_id = seed_key(request) if is_expected else None
        if page_id is None:
            return self._pass_on(request)
        if self._session.crew is None and self._is_filtered(request):
            return False
        request.meta.setdefault("hacs_page", request.url)
        self._enqueued += 1
        self._held.append(request)
        self._held_ids.append(page_id)
        return True

    def next_request(self) -> Request | None:
        """Return what is to be sent now, None where nothing can be."""
        if self._session.failure is not None:
            return None
        if self._is_resumed and not self._session.is_open:
            begin(self._open_and_wake()).addErrback(self._note_error)
            return None
        if self._session.crew is not None:
            return self._inner.next_request() or self._next_of_fleet(self._session.crew)
        request = self._next()
        if request is not None:
            self.watch.end_starving()
            return request
        self._count_seeds()
        if self._held and not self._ranking_lock.locked:
            self.watch.begin_starving()
        return None

    @property
    def wants_ranking(self) -> bool:
        """Whether a window, or a chunk of seeds under a budget, is full."""
        return self._session.is_open and self._chunk is not None and len(self._held) >= self._chunk

    async def make_room(self) -> None:
        """Return when few ranked seeds wait, so that a plan of any length takes little memory."""
        if len(self._seeds) >= MOST_WAITING and self._session.failure is None:
            self._room = Deferred()
            await maybe_deferred_to_future(self._room)

    async def rank(self, *, is_last: bool = False) -> None:
        """Rank the seeds held; with a budget, release them when `is_last` or a window is full."""
        if not self._session.is_open:
            return
        if self._held:
            await self._rank_held()
        if is_last or self._config.rank_window or not self._chunk:
            self._release()

    def ranked_seeds(self) -> list[Request]:
        """Return the ranked seeds that wait here, best first."""
        return self._seeds.all()

    def take_ranked(self) -> list[Request]:
        """Return the ranked seeds that wait here, best first, and forget them."""
        seeds = self._seeds.all()
        self._seeds.clear()
        self._note_room()
        return seeds

    async def end_round(self) -> None:
        """Rank the seeds held, and release all that are within the budget."""
        await self.rank(is_last=True)
        wake(self._crawler)

    def begin_round(self) -> None:
        """Give each arm its budget anew, and let pages be visited again."""
        self._selection = None
        empty_filter(self._inner, self._crawler)

    def note_failure(self) -> None:
        """Let `make_room` return: nothing is sent any more."""
        self._note_room()

    @property
    def has_partitions(self) -> bool:
        """Whether the inner scheduler's queue knows which hosts this crawl may ask."""
        from hacs_crawler.fleet.queue import PartitionQueue  # noqa: PLC0415 - needs an extra

        return isinstance(getattr(self._inner, "queue", None), PartitionQueue)

    def _pass_on(self, request: Request) -> bool:
        """Give a request to the inner scheduler, whose filter may drop it."""
        if not self._inner.enqueue_request(request):
            if page_url(request) is not None:
                self._session.note_filtered(request)
            return False
        if self._session.crew is None:
            self._backlog.add(request, self._downloads.slot_of(request))
        return True

    def _is_filtered(self, request: Request) -> bool:
        """Whether the project's duplicate filter drops a start request, as in Scrapy's scheduler."""
        seen = filter_of(self._inner)
        if seen is None or request.dont_filter or not seen.request_seen(request):
            return False
        seen.log(request, self._spider)
        return True

    def _next(self) -> Request | None:
        if (request := self._next_after_pause()) is not None:
            return request
        may_ask = self._may_ask if len(self._session.pauses) else None
        found = self._seeds.best(may_ask)
        if found is None:
            return self._next_of_inner()
        slot, (negated, _, _), waiting = found
        if self._is_for_follow_ups(-negated, slot, waiting):
            request = self._next_of_inner()
            if request is not None:
                return request
        seed = self._seeds.take(slot)
        self._seeds.note_sent(seed, slot)
        self._dequeued += 1
        self._note_room()
        return seed

    def _is_for_follow_ups(self, priority: int, slot: str, waiting: int) -> bool:
        """Whether the inner scheduler is asked before the best seed, of that priority and slot, goes.

        Not where the seed has more priority than all follow-ups or than one for its slot, nor where all
        follow-ups are for slots in which requests wait, and the seed's is free.
        """
        highest, lowest = self._backlog.highest(), self._backlog.lowest_in(slot)
        if highest is None:  # it may have requests of a job before, or of other crawls
            return True
        if priority > highest or (lowest is not None and priority > lowest):
            return False
        return bool(waiting) or self._backlog.has_outside(self._seeds.busy_slots())

    def _next_of_inner(self) -> Request | None:
        """Return what the inner scheduler has for hosts that need not be left alone."""
        while (request := self._inner.next_request()) is not None:
            slot = self._downloads.slot_of(request)
            self._backlog.remove(request, slot)
            if len(self._session.pauses) and self._session.pauses.holds(slot):
                self._paused.setdefault(slot, deque()).append(request)
                continue
            self._seeds.note_sent(request, slot)
            return request
        return None

    def _next_after_pause(self) -> Request | None:
        """Return a request whose host wanted to be left alone, and may be asked again."""
        if self._paused:
            self._seeds.forget_ended()
        for slot, waiting in self._paused.items():
            if not self._session.pauses.holds(slot) and self._seeds.is_free(slot):
                request = waiting.popleft()
                if not waiting:
                    del self._paused[slot]
                self._seeds.note_sent(request, slot)
                return request
        return None

    def _may_ask(self, slot: str) -> bool:
        return not self._session.pauses.holds(slot)

    def _next_of_fleet(self, crew: Crew) -> Request | None:
        """Return the best seed: not through the queue that workers share, for the board has it."""
        found = self._seeds.best() if crew.may_send() else None
        if found is None:
            return None
        seed = self._seeds.take(found[0])
        self._seeds.note_sent(seed, found[0])
        return seed

    def _note_pause(self) -> None:
        """Rank what is held and have it sent: `start()` pauses, or is over."""
        if self._session.crew is None:
            ranked = begin(self._rank_and_wake())
            ranked.addErrback(self._note_error)

    async def _open_and_wake(self) -> None:
        await self._session.open()
        wake(self._crawler)

    async def _rank_and_wake(self) -> None:
        await self.rank(is_last=True)
        wake(self._crawler)

    def _note_error(self, failure: Failure) -> None:
        logger.debug("Ranking failed", exc_info=failure_to_exc_info(failure))
        error = failure.value
        self._session.fail(f"the seeds could not be ranked: {type(error).__name__}: {error}")
        wake(self._crawler)

    def _note_room(self) -> None:
        is_failed = self._session.failure is not None
        if self._room is not None and (is_failed or len(self._seeds) < MOST_WAITING // 2):
            room, self._room = self._room, None
            room.callback(None)

    async def _rank_held(self) -> None:
        await maybe_deferred_to_future(self._ranking_lock.acquire())
        try:
            self.watch.reset()
            held, self._held = self._held, []
            ids, self._held_ids = self._held_ids, []
            rows = await self._rows(ids)
            if rows is None or not self._offer(held, ids, rows):
                self._held, self._held_ids = held + self._held, ids + self._held_ids
        finally:
            self._ranking_lock.release()

    async def _rows(self, ids: list[int]) -> Rows | None:
        """Read ranking rows; once something was ranked, a state that is away is waited for."""
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

    def _offer(self, held: list[Request], ids: list[int], rows: Rows) -> bool:
        """Have seeds scored; returns whether that could be done."""
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
            )
        except ConfigError as error:
            self._session.fail(str(error))
            return False
        except Exception as error:  # noqa: BLE001 - a policy is the user's own code
            self._session.fail(
                f"{self._config.policy_text} failed: {type(error).__name__}: {error}"
            )
            return False
        for field in fields(dropped):
            self._drop(getattr(dropped, field.name), field.name)
        self._rankings += 1
        self._session.stats.count("seeds", len(held))
        self._session.stats.count("rank_seconds", time.perf_counter() - started)
        return True

    def _release(self) -> None:
        """Let the chosen seeds be sent: by score, or window by window, all arms at the same pace."""
        if self._selection is None:
            return
        chosen, others = self._selection.take()
        self._drop(others, "budget")
        run, release = self._session.run, next(self._releases)
        is_by_score = len(chosen) == 1 and not self._config.rank_window
        for best, label in zip(chosen, self._session.labels, strict=True):
            number = len(best.entries)
            predictions = best.predictions(label.number, run)
            for seed, prediction in zip(best.entries, predictions, strict=True):
                mark_ranked(seed, prediction, label.arm)
            paces = release + (np.arange(number) + 0.5) / max(number, 1)
            orders = -best.score if is_by_score else paces
            self._seeds.add(best.entries, orders.tolist())
            self._session.stats.count("ranked", number)

    def _drop(self, requests: list[Request], reason: str) -> None:
        if requests:
            self._session.stats.count(f"dropped/{reason}", len(requests))
        for request in requests:
            self._crawler.signals.send_catch_log(
                signals.request_dropped, request=request, spider=self._crawler.spider
            )

    def _inner_keeps_requests(self) -> bool:
        is_scrapys = type(self._inner) is Scheduler
        return not is_scrapys or bool(self._crawler.settings.get("JOBDIR"))

    def _count_seeds(self) -> None:
        """Count seeds as Scrapy's scheduler counts requests, those of many calls at once."""
        stats = self._crawler.stats
        for name, number in (("enqueued", self._enqueued), ("dequeued", self._dequeued)):
            if number and stats is not None:
                stats.inc_value(f"scheduler/{name}", number)
                stats.inc_value(f"scheduler/{name}/memory", number)
        self._enqueued = self._dequeued = 0


class _NoScheduler(BaseScheduler):
    """Stands in for an inner scheduler that does not start, in a crawl that is about to close."""

    def has_pending_requests(self) -> bool:
        return False

    def enqueue_request(self, request: Request) -> bool:
        del request
        return False

    def next_request(self) -> None:
        return None

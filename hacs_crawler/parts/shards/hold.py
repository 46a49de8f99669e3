"""A crawl's hold on its shard: takes and renews the lock, without which nothing is sent."""

import math
import time
from collections.abc import Callable
from threading import Event, Thread
from typing import Final

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.utils.defer import maybe_deferred_to_future

from hacs_crawler.crawl.scrapy_internals import Downloads, hold_back, is_closing
from hacs_crawler.exceptions import StateError, StateUnavailableError
from hacs_crawler.shards import ShardLock
from hacs_crawler.state import Shard
from hacs_crawler.utils.loop import Worker, caller_into_loop, sleep
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

RENEW_SECONDS: Final = 15.0
# Pause after a failed renewal.
RETRY_SECONDS: Final = 2.0
# How often to check whether the lock is free, or valid again.
CHECK_SECONDS: Final = 0.5


class ShardHold:
    """A crawl's hold on the lock of a shard.

    A thread renews it, so that slow callbacks do not matter. If a renewal is late, all requests wait for
    it, also those in the downloader. If the lock is lost, `on_lost` is called from the event loop with a
    message; the lock is not taken again, because answers to this crawl's requests may still arrive.
    """

    def __init__(
        self,
        crawler: Crawler,
        shard: Shard,
        lock: ShardLock,
        on_lost: Callable[[str], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._crawler = crawler
        self._shard = shard
        self._lock = lock
        self._on_lost = on_lost
        self._clock = clock
        self._downloads = Downloads(crawler)
        self._relied_on_until = -math.inf
        self._is_lost = self._is_over = False
        self._is_released = Event()

    def may_send(self) -> bool:
        """Whether the lock is still certain to be this crawl's."""
        return self._clock() < self._relied_on_until

    async def take(self, worker: Worker) -> None:
        """Take the lock; wait while another crawl has it, until this crawl ends. Raises StateError."""
        has_waited = False
        while not self._is_over:
            begun = self._clock()
            try:
                holder = await maybe_deferred_to_future(worker.run(self._lock.take))
            except StateUnavailableError:
                if not has_waited:
                    raise
            else:
                if holder is None:
                    if has_waited:
                        logger.info("Shard %s is free: this crawl begins", self._shard)
                    self._begin(begun)
                    return
                if not has_waited:
                    logger.info(
                        "shard %s is crawled by %s: this crawl waits until that one ends (or 2 minutes, "
                        "if it was killed)",
                        self._shard,
                        holder,
                    )
                has_waited = True
            await maybe_deferred_to_future(sleep(CHECK_SECONDS))

    def stop_waiting(self) -> None:
        """Let `take` return, since the crawl is over; the lock stays until all is written."""
        self._is_over = True

    def release(self) -> None:
        """Release the lock; errors are only logged, as the lock will expire."""
        self._is_released.set()
        try:
            self._lock.release()
        except StateError as error:
            logger.warning("%s; others can crawl shard %s in two minutes", error, self._shard)

    def _begin(self, begun: float) -> None:
        self._relied_on_until = begun + self._lock.seconds
        if math.isfinite(self._lock.seconds):
            hold_back(self._crawler, self.may_send, self._until_renewed)
            Thread(target=self._keep, args=(caller_into_loop(),), daemon=True).start()

    def _keep(self, call: Callable[..., object]) -> None:
        """Renew the lock until it is released or lost; runs in a thread."""
        pause, has_said = RENEW_SECONDS, False
        while not self._is_released.wait(pause):
            begun = self._clock()
            try:
                is_ours = self._lock.renew()
            except StateError as error:
                pause = RETRY_SECONDS
                if not self.may_send() and not has_said:
                    has_said = True
                    logger.warning("%s; nothing is sent until the lock is renewed", error)
                continue
            if not is_ours:
                # unless the crawl has released it meanwhile
                if not self._is_released.is_set():
                    call(self._lose)
                return
            self._relied_on_until, pause = begun + self._lock.seconds, RENEW_SECONDS
            if has_said:
                has_said = False
                logger.info("The lock of shard %s is renewed: the crawl goes on", self._shard)

    def _lose(self) -> None:
        self._is_lost, self._relied_on_until = True, -math.inf
        if not self._is_over:
            self._on_lost(
                f"the lock of shard {self._shard} expired, so another crawl may have it: this process "
                "was stopped, or the state was unreachable, for two minutes"
            )
        # otherwise each would first wait for its slot's delay
        self._downloads.recall(lambda _: True, self._not_ours())

    async def _until_renewed(self, request: Request) -> None:
        """Return when a request may be sent; raise IgnoreRequest if it never will be."""
        while not self.may_send():
            if self._is_lost or is_closing(self._crawler):
                raise self._not_ours()
            await maybe_deferred_to_future(sleep(CHECK_SECONDS))
            # requests that waited together must again keep the slot's delay
            if self.may_send():
                turn = self._downloads.take_turn(request, math.inf) or 0.0
                await maybe_deferred_to_future(sleep(turn))

    def _not_ours(self) -> IgnoreRequest:
        return IgnoreRequest(f"shard {self._shard} is not this crawl's any more")

"""Downloader middleware: leaves a host alone for as long as it asks, where HACS_RETRY_AFTER is on.

Scrapy retries a 429 or 503 without regard to its Retry-After (scrapy/scrapy issue 3849). Web archives
as the spider `wayback` asks them are left to `ArchivePauseMiddleware`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from typing import Any

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest, NotConfigured
from scrapy.http import Response
from scrapy.utils.defer import maybe_deferred_to_future

from hacs_crawler.crawl.backoff import LONGEST_WAIT_SECONDS, HostPausedError, retry_after
from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.meta import is_beside, take_put_back_mark
from hacs_crawler.crawl.scrapy_internals import Downloads, is_closing, wake
from hacs_crawler.utils.loop import call_later, sleep
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

STATUSES = (429, 503)
DEFAULT_PAUSE_SECONDS = 60.0
"""After a 429 that names no time."""
LOOK_SECONDS = 0.5
"""How often it is looked whether the crawl is to end, while a request waits here."""


class RetryAfterMiddleware:
    """Notes how long a host wants to be left alone; its requests wait in the scheduler until then."""

    def __init__(
        self, crawler: Crawler, crawl: Crawl, clock: Callable[[], float] = time.time
    ) -> None:
        self._crawler = crawler
        self._pauses = crawl.pauses
        self._downloads = Downloads(crawler)
        self._clock = clock

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> RetryAfterMiddleware:
        """Raise NotConfigured unless HACS_RETRY_AFTER is on."""
        crawl = Crawl.of(crawler)
        if crawl.config is None or not crawl.config.retry_after:
            raise NotConfigured
        middleware = cls(crawler, crawl)
        # before a middleware sees a response, Scrapy has sent what waited for its turn behind it
        crawler.signals.connect(middleware.note_response, signals.response_downloaded)
        return middleware

    def process_request(
        self, request: Request, spider: Spider | None = None
    ) -> Coroutine[Any, Any, None] | None:
        """Put back a request whose host wants to be left alone, and give it up where that is too long.

        One that comes here again, past the scheduler, waits here: robots.txt, or a pipeline's.
        """
        del spider
        if not len(self._pauses) or "hacs_archive" in request.meta:
            return None
        slot = self._downloads.slot_of(request)
        left = self._pauses.seconds_left(slot)
        if left > LONGEST_WAIT_SECONDS or (left > 0 and is_beside(request)):
            raise _given_up(slot, left)
        if take_put_back_mark(request):
            return self._wait(slot)
        if left > 0:
            raise HostPausedError(slot)
        return None

    def note_response(self, request: Request, response: Response) -> None:
        """Note until when the host wants to be left alone."""
        if response.status not in STATUSES or "hacs_archive" in request.meta:
            return
        seconds = self._seconds(response)
        if seconds > 0:
            slot = self._downloads.slot_of(request)
            self._pauses.pause(slot, seconds)
            logger.info("%s answered %d: left alone for %.0f s", slot, response.status, seconds)
            self._downloads.recall(slot, lambda _: True, HostPausedError(slot))
            if seconds <= LONGEST_WAIT_SECONDS:
                call_later(seconds, lambda: wake(self._crawler))

    def process_exception(
        self, request: Request, exception: Exception, spider: Spider | None = None
    ) -> Request | None:
        """Put a request back that waited in the downloader for its host."""
        del spider
        if not isinstance(exception, HostPausedError) or is_beside(request):
            return None
        request.meta["hacs_put_back"] = True
        return request

    async def _wait(self, slot: str) -> None:
        """Return when a host may be asked; raise IgnoreRequest if the crawl is to end meanwhile."""
        while (left := self._pauses.seconds_left(slot)) > 0:
            if left > LONGEST_WAIT_SECONDS or is_closing(self._crawler):
                raise _given_up(slot, left)
            await maybe_deferred_to_future(sleep(min(left, LOOK_SECONDS)))

    def _seconds(self, response: Response) -> float:
        asked = retry_after(response, self._clock())
        if asked is None:
            return DEFAULT_PAUSE_SECONDS if response.status == 429 else 0.0
        return asked


def _given_up(slot: str, seconds: float) -> IgnoreRequest:
    return IgnoreRequest(f"{slot} asked to be left alone for another {seconds:.0f} s")

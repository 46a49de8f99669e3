"""Downloader middleware: leaves a host alone for as long as it asks.

Scrapy retries a 429 or 503 without regard to its Retry-After (scrapy/scrapy issue 3849). Web archives
as the spider `wayback` asks them are left to `ArchivePauseMiddleware`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Coroutine
from typing import Any
from urllib.parse import urlsplit

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.utils.defer import maybe_deferred_to_future

from hacs_crawler.crawl.backoff import HostPausedError, recall, retry_after
from hacs_crawler.crawl.loop import sleep

logger = logging.getLogger(__name__)

STATUSES = (429, 503)
DEFAULT_PAUSE_SECONDS = 60.0
"""After a 429 that names no time."""
LONGEST_WAIT_SECONDS = 120.0
"""A host that asks for more is not asked again for that long: its requests are dropped."""


class RetryAfterMiddleware:
    """Holds requests to a host back until the time its Retry-After names."""

    def __init__(self, crawler: Crawler, clock: Callable[[], float] = time.time) -> None:
        self._crawler = crawler
        self._clock = clock
        self._until: dict[str, float] = {}

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> RetryAfterMiddleware:
        """Take no settings."""
        return cls(crawler)

    def process_request(
        self, request: Request, spider: Spider | None = None
    ) -> Coroutine[Any, Any, None] | None:
        """Wait, or drop the request, while its host wants to be left alone."""
        del spider
        if not self._until or "hacs_archive" in request.meta:
            return None
        host = urlsplit(request.url).netloc
        wait = self._until.get(host, 0.0) - self._clock()
        if wait <= 0:
            self._until.pop(host, None)
            return None
        if wait > LONGEST_WAIT_SECONDS:
            msg = f"{host} asked to be left alone for another {wait:.0f} s"
            raise IgnoreRequest(msg)
        return self._wait(host)

    def process_response(
        self, request: Request, response: Response, spider: Spider | None = None
    ) -> Response:
        """Note until when the host wants to be left alone."""
        del spider
        if response.status not in STATUSES or "hacs_archive" in request.meta:
            return response
        seconds = self._seconds(response)
        if seconds > 0:
            host = urlsplit(request.url).netloc
            self._until[host] = max(self._until.get(host, 0.0), self._clock() + seconds)
            logger.info("%s answered %d: left alone for %.0f s", host, response.status, seconds)
            slot_key = request.meta.get("download_slot", "")
            recall(self._crawler, slot_key, lambda waiting: urlsplit(waiting.url).netloc == host)
        return response

    def process_exception(
        self, request: Request, exception: Exception, spider: Spider | None = None
    ) -> Request | None:
        """Have a request that was called back scheduled again."""
        del spider
        if isinstance(exception, HostPausedError):
            return request.replace(dont_filter=True)
        return None

    def _seconds(self, response: Response) -> float:
        asked = retry_after(response, self._clock())
        if asked is None:
            return DEFAULT_PAUSE_SECONDS if response.status == 429 else 0.0
        return asked

    async def _wait(self, host: str) -> None:
        while (wait := self._until.get(host, 0.0) - self._clock()) > 0:
            await maybe_deferred_to_future(sleep(min(wait, LONGEST_WAIT_SECONDS)))

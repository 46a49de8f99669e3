"""Downloader middleware: leaves a host alone for as long as it asks.

Scrapy retries a 429 or 503 without regard to its Retry-After (scrapy/scrapy issue 3849).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Coroutine
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.utils.defer import maybe_deferred_to_future

from hacs_crawler.worker import sleep

logger = logging.getLogger(__name__)

STATUSES = (429, 503)
DEFAULT_PAUSE_SECONDS = 60.0
"""After a 429 that names no time."""
LONGEST_WAIT_SECONDS = 120.0
"""A host that asks for more is not asked again for that long: its requests are dropped."""


class HostPausedError(Exception):
    """The request waited in the downloader when its host asked to be left alone."""


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
        if not self._until:
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
        if response.status not in STATUSES:
            return response
        seconds = self._seconds(response)
        if seconds > 0:
            host = urlsplit(request.url).netloc
            self._until[host] = max(self._until.get(host, 0.0), self._clock() + seconds)
            logger.info("%s answered %d: left alone for %.0f s", host, response.status, seconds)
            self._call_back(host, request)
        return response

    def process_exception(
        self, request: Request, exception: Exception, spider: Spider | None = None
    ) -> Request | None:
        """Have a request that was called back scheduled again."""
        del spider
        if isinstance(exception, HostPausedError):
            return request.replace(dont_filter=True)
        return None

    def _call_back(self, host: str, request: Request) -> None:
        """Take requests to the host out of the downloader's queue before they are sent."""
        assert self._crawler.engine is not None  # noqa: S101 - there is one while crawling
        slots = self._crawler.engine.downloader.slots
        slot = slots.get(request.meta.get("download_slot", ""))
        if slot is None:
            return
        waiting = [one for one in slot.queue if urlsplit(one[0].url).netloc == host]
        for one in waiting:
            slot.queue.remove(one)
            one[1].errback(HostPausedError(host))

    def _seconds(self, response: Response) -> float:
        text = (response.headers.get(b"Retry-After") or b"").decode("latin-1").strip()
        if text.isascii() and text.isdigit():
            return float(text)
        try:
            return parsedate_to_datetime(text).timestamp() - self._clock()
        except (ValueError, OverflowError):
            return DEFAULT_PAUSE_SECONDS if response.status == 429 else 0.0

    async def _wait(self, host: str) -> None:
        while (wait := self._until.get(host, 0.0) - self._clock()) > 0:
            await maybe_deferred_to_future(sleep(min(wait, LONGEST_WAIT_SECONDS)))

"""Downloader middleware: leaves a host alone for as long as it asks, where HACS_RETRY_AFTER is on.

Scrapy retries a 429 or 503 without regard to its Retry-After (scrapy/scrapy issue 3849). Web archives
as the spider `wayback` asks them are left to `ArchivePauseMiddleware`.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest, NotConfigured
from scrapy.http import Response

from hacs_crawler.crawl.backoff import LONGEST_WAIT_SECONDS, HostPausedError, retry_after
from hacs_crawler.crawl.control import is_control
from hacs_crawler.crawl.loop import call_later
from hacs_crawler.crawl.scrapy_internals import Downloads, wake
from hacs_crawler.crawl.session import Session
from hacs_crawler.crawl.signal_requests import is_for_signals
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

STATUSES = (429, 503)
DEFAULT_PAUSE_SECONDS = 60.0
"""After a 429 that names no time."""


class RetryAfterMiddleware:
    """Notes how long a host wants to be left alone; its requests wait in the scheduler until then."""

    def __init__(
        self, crawler: Crawler, session: Session, clock: Callable[[], float] = time.time
    ) -> None:
        self._crawler = crawler
        self._pauses = session.pauses
        self._downloads = Downloads(crawler)
        self._clock = clock

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> RetryAfterMiddleware:
        """Raise NotConfigured unless HACS_RETRY_AFTER is on."""
        session = Session.of(crawler)
        if session.config is None or not session.config.retry_after:
            raise NotConfigured
        return cls(crawler, session)

    def process_request(self, request: Request, spider: Spider | None = None) -> None:
        """Give up a request whose host asks for more than can be waited for."""
        del spider
        if not len(self._pauses) or "hacs_archive" in request.meta:
            return
        left = self._pauses.seconds_left(self._downloads.slot_of(request))
        if left > LONGEST_WAIT_SECONDS or (left > 0 and _is_beside(request)):
            msg = f"{self._downloads.slot_of(request)} asked to be left alone for another {left:.0f} s"
            raise IgnoreRequest(msg)

    def process_response(
        self, request: Request, response: Response, spider: Spider | None = None
    ) -> Response:
        """Note until when the host wants to be left alone."""
        del spider
        if response.status not in STATUSES or "hacs_archive" in request.meta:
            return response
        seconds = self._seconds(response)
        if seconds > 0:
            slot = self._downloads.slot_of(request)
            self._pauses.pause(slot, seconds)
            logger.info("%s answered %d: left alone for %.0f s", slot, response.status, seconds)
            self._downloads.recall(slot, lambda _: True, HostPausedError(slot))
            if seconds <= LONGEST_WAIT_SECONDS:
                call_later(seconds, lambda: wake(self._crawler))
        return response

    def process_exception(
        self, request: Request, exception: Exception, spider: Spider | None = None
    ) -> Request | None:
        """Put a request back that waited in the downloader for its host."""
        del spider
        if not isinstance(exception, HostPausedError) or _is_beside(request):
            return None
        request.meta["hacs_put_back"] = True
        return request

    def _seconds(self, response: Response) -> float:
        asked = retry_after(response, self._clock())
        if asked is None:
            return DEFAULT_PAUSE_SECONDS if response.status == 429 else 0.0
        return asked


def _is_beside(request: Request) -> bool:
    """Whether a request is of HACS's own, past the scheduler: it is given up rather than put back."""
    return is_control(request) or is_for_signals(request)

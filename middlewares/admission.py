"""Downloader middleware: asks parts once more whether a request may be sent, just before it is."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest, NotConfigured
from scrapy.utils.defer import maybe_deferred_to_future

from hacs_crawler.crawl.admission import LONGEST_WAIT_SECONDS, PutBackError
from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.meta import put_back, tag_of, take_put_back
from hacs_crawler.crawl.scrapy_internals import is_closing
from hacs_crawler.utils.loop import sleep

CHECK_SECONDS: Final = 0.5
"""How often parts are asked again, while a request waits here."""


class AdmissionMiddleware:
    """Puts requests back into the scheduler that are to wait, and gives up what would for too long."""

    def __init__(self, crawl: Crawl) -> None:
        self._crawl = crawl

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> AdmissionMiddleware:
        """Raise NotConfigured where no part has any request wait."""
        crawl = Crawl.of(crawler)
        if not crawl.parts.override("admit"):
            raise NotConfigured
        return cls(crawl)

    def process_request(
        self, request: Request, spider: Spider | None = None
    ) -> Coroutine[Any, Any, None] | None:
        """Put back a request that is to wait.

        One that comes here again, past the scheduler, waits here: robots.txt, or a pipeline's.
        """
        del spider
        is_again = take_put_back(request)
        if not self._is_to_wait(request, is_ending=tag_of(request).beside):
            return None
        if is_again:
            return self._wait(request)
        raise PutBackError

    def process_exception(
        self, request: Request, exception: Exception, spider: Spider | None = None
    ) -> Request | None:
        """Put a request back, also one that a part has recalled while it waited in the downloader."""
        del spider
        if not isinstance(exception, PutBackError) or tag_of(request).beside:
            return None
        return put_back(request)

    async def _wait(self, request: Request) -> None:
        while self._is_to_wait(request, is_ending=is_closing(self._crawl.crawler)):
            await maybe_deferred_to_future(sleep(CHECK_SECONDS))

    def _is_to_wait(self, request: Request, *, is_ending: bool) -> bool:
        """Whether a request is to wait; raise IgnoreRequest where that is too long."""
        seconds = self._crawl.parts.admit(request)
        if seconds > LONGEST_WAIT_SECONDS or (seconds > 0 and is_ending):
            raise IgnoreRequest(f"it would have to wait for {seconds:.0f} s")
        return seconds > 0

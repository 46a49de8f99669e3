"""Downloader middlewares: pages are read ahead while they are downloaded, once parts admit them."""

from collections.abc import Coroutine
from typing import Any, Final, Self

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest, NotConfigured
from scrapy.http import Response
from scrapy.utils.defer import maybe_deferred_to_future

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.meta import (
    claim,
    mark_answered,
    page_url,
    put_back,
    renew,
    tag_of,
    take_put_back,
    tell,
)
from hacs_crawler.crawl.part import LONGEST_WAIT_SECONDS, PutBackError
from hacs_crawler.crawl.scrapy_internals import is_closing, message_of
from hacs_crawler.outcome import NotObserved
from hacs_crawler.utils.loop import sleep

# How often parts are asked again, while a request waits here.
CHECK_SECONDS: Final = 0.5


class PageMemoryMiddleware:
    """Prefetches the row and marks of a page, so that its visit can be judged without waiting.

    Counts failed requests as not observed.
    """

    def __init__(self, crawl: Crawl) -> None:
        self._crawl = crawl
        if crawl.crawler.settings.getbool("HTTPCACHE_ENABLED"):
            crawl.crawler.signals.connect(self._on_downloaded, signals.response_downloaded)

    def _on_downloaded(self, request: Request, response: Response) -> None:
        # if the HTTP cache answers in place of an error, the server has confirmed nothing (`observe`)
        if response.status >= 500 and "cached_response" in request.meta:
            request.meta.pop("download_latency", None)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Use the crawler's crawl."""
        return cls(Crawl.of(crawler))

    def process_request(
        self, request: Request, spider: Spider | None = None
    ) -> Coroutine[Any, Any, None] | None:
        """Have the page read; wait for parts that change the request.

        Raises IgnoreRequest if the crawl has failed.
        """
        tag = renew(request)
        if self._crawl.failure is not None:
            raise IgnoreRequest("the crawl has failed")
        if not self._crawl.is_open:
            return None
        url = page_url(request, tag)
        # a redirect, a retry, or what any middleware sends again, goes on with its claim
        is_again = claim(request, url, tag)
        if url is not None:
            self._crawl.state.read_ahead.claim(url, tag.prediction, is_again=is_again)
        return self._crawl.parts.before_request(request, url)

    def process_response(
        self, request: Request, response: Response, spider: Spider | None = None
    ) -> Response | Coroutine[Any, Any, Response]:
        """Pass on the response, or a part's replacement, as soon as its page has been read."""
        url = tag_of(request).page
        if url is None or not self._crawl.is_open:
            return response
        if self._crawl.parts.override("answered") or self._crawl.state.read_ahead.is_pending(url):
            return self._ready(request, response, url)
        return response

    async def _ready(self, request: Request, response: Response, url: str) -> Response:
        response = await self._crawl.parts.answered(request, response, url)
        await self._crawl.state.read_ahead.ready(url)
        return response

    def process_exception(
        self, request: Request, exception: Exception, spider: Spider | None = None
    ) -> Request | None:
        """Count a request that ended without a response as no observation, unless a part has another."""
        url = page_url(request)
        if not self._crawl.is_open:
            return None
        if url is None:
            mark_answered(request)
            return None
        instead = self._crawl.parts.failed(request, exception, url)
        if instead is not None:
            return instead
        mark_answered(request)
        reason = "refused" if isinstance(exception, IgnoreRequest) else "error"
        # in a few words, and without the host: causes are counted
        words = message_of(exception).partition(":")[0].strip(" .")
        cause = words if words and not words.startswith(("[", "<")) else type(exception).__name__
        self._crawl.stats.count_not_observed(reason, url, cause=cause)
        self._crawl.record_failure(url, tag_of(request).prediction)
        tell(request, NotObserved(request.url, reason))
        return None


class AdmissionMiddleware:
    """Asks parts once more whether a request may be sent, just before it is.

    A request that is to wait is put back into the scheduler, or given up if it would wait for too long.
    """

    def __init__(self, crawl: Crawl) -> None:
        self._crawl = crawl

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Raise NotConfigured if no part makes requests wait."""
        crawl = Crawl.of(crawler)
        if not crawl.parts.override("admit"):
            raise NotConfigured
        return cls(crawl)

    def process_request(
        self, request: Request, spider: Spider | None = None
    ) -> Coroutine[Any, Any, None] | None:
        """Put back a request that has to wait.

        A request that bypasses the scheduler, such as for robots.txt or a pipeline's, waits here.
        """
        is_again = take_put_back(request)
        if not self._is_to_wait(request, is_ending=tag_of(request).unscheduled):
            return None
        if is_again:
            return self._wait(request)
        raise PutBackError

    def process_exception(
        self, request: Request, exception: Exception, spider: Spider | None = None
    ) -> Request | None:
        """Put a request back, also if a part has recalled it while it waited in the downloader."""
        if not isinstance(exception, PutBackError) or tag_of(request).unscheduled:
            return None
        return put_back(request)

    async def _wait(self, request: Request) -> None:
        while self._is_to_wait(request, is_ending=is_closing(self._crawl.crawler)):
            await maybe_deferred_to_future(sleep(CHECK_SECONDS))

    def _is_to_wait(self, request: Request, *, is_ending: bool) -> bool:
        """Whether a request is to wait; raise IgnoreRequest if that is too long."""
        seconds = self._crawl.parts.admit(request)
        if seconds > LONGEST_WAIT_SECONDS or (seconds > 0 and is_ending):
            raise IgnoreRequest(f"it would have to wait for {seconds:.0f} s")
        return seconds > 0

"""Downloader middleware: has pages read from the state while they are downloaded."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response

from hacs_crawler.crawl.meta import forget_copied_meta, page_url, prediction_of
from hacs_crawler.crawl.prefetch import Prefetch
from hacs_crawler.crawl.session import Session
from hacs_crawler.links import page_id
from hacs_crawler.state import News


class PageMemoryMiddleware:
    """Prefetches what is known of a page, so that its visit can be judged without waiting.

    With HACS_CONDITIONAL_REQUESTS it also makes requests conditional on the page having changed.
    Counts requests that fail as no observation.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._is_conditional = session.config is not None and session.config.conditional_requests

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> PageMemoryMiddleware:
        """Use the crawler's session."""
        return cls(Session.of(crawler))

    def process_request(
        self, request: Request, spider: Spider | None = None
    ) -> Coroutine[Any, Any, None] | None:
        """Have the page read; wait for it only where the request is to be conditional on it."""
        del spider
        forget_copied_meta(request)
        prefetch = self._session.prefetch
        url = page_url(request)
        if url is None or prefetch is None:
            return None
        request.meta.setdefault("hacs_page", url)
        key = page_id(url)
        is_again = "redirect_times" in request.meta or "retry_times" in request.meta
        prefetch.want(key, url, prediction_of(request), is_again=is_again)
        return _make_conditional(prefetch, request, key) if self._is_conditional else None

    def process_response(
        self, request: Request, response: Response, spider: Spider | None = None
    ) -> Response | Coroutine[Any, Any, Response]:
        """Pass the response on, as soon as its page has been read."""
        del spider
        prefetch = self._session.prefetch
        url = page_url(request)
        if url is None or prefetch is None or not prefetch.is_pending(page_id(url)):
            return response
        return _wait(prefetch, page_id(url), response)

    def process_exception(
        self, request: Request, exception: Exception, spider: Spider | None = None
    ) -> None:
        """Count a request that ended without a response as no observation of its page."""
        del spider
        url = page_url(request)
        if url is None or self._session.prefetch is None:
            return
        self._session.prefetch.drop(page_id(url))
        reason = "refused" if isinstance(exception, IgnoreRequest) else "error"
        self._session.tally.count_not_observed(reason)
        at = int(self._session.clock())
        self._session.record_absence(url, at, News.FAILED, prediction_of(request))


async def _wait(prefetch: Prefetch, key: int, response: Response) -> Response:
    await prefetch.ready(key)
    return response


async def _make_conditional(prefetch: Prefetch, request: Request, key: int) -> None:
    await prefetch.ready(key)
    page = prefetch.look(key)
    if page is not None and page.visits:
        for header, value in (
            ("If-None-Match", page.etag),
            ("If-Modified-Since", page.last_modified),
        ):
            if value:
                request.headers.setdefault(header, value.encode("latin-1", "ignore"))

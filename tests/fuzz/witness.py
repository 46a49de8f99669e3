"""Sees what becomes of each request of a crawl, from where Scrapy and its users see it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from copy import deepcopy
from inspect import iscoroutinefunction
from typing import Any
from urllib.parse import urlsplit

from scrapy import Request, Spider, signals
from scrapy.core.downloader.handlers.http11 import HTTP11DownloadHandler
from scrapy.crawler import Crawler
from scrapy.http import Response
from twisted.python.failure import Failure

NUMBER = "fuzz"
"""The meta key of a request's number: redirects, retries and what is resumed keep it."""
TURNS = 3
"""Of the event loop, in which a request that was let through is on its way to the download handler."""
DEFAULT_PAUSE_SECONDS = 60
"""After a 429 that names no time."""
NOTHING_SEEN: dict[str, Any] = {
    "events": [],
    "items": [],
    "reason": "",
    "stats": {},
    "asked_in_pause": [],
}
"""`events` have what happened, the number of the request it happened to, and more."""


class Witness:
    """An extension; `seen` is what is known of the crawl."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._prefix = crawler.settings["FUZZ_PART"]
        self._heeds_pauses = crawler.settings.getbool("HACS_RETRY_AFTER")
        self._numbers = 0
        self._paused_until: dict[str | None, float] = {}
        self._pausing: set[asyncio.Task[None]] = set()
        self.seen = deepcopy(NOTHING_SEEN)
        self.events: list[Any] = self.seen["events"]
        for handler, signal in (
            (self.on_dropped, signals.request_dropped),
            (self.on_item, signals.item_scraped),
            (self.on_close, signals.spider_closed),
            (self.on_downloaded, signals.response_downloaded),
            (self.on_stopped, signals.engine_stopped),
        ):
            crawler.signals.connect(handler, signal)
        crawler.witness = self  # type: ignore[attr-defined]

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Witness:
        return cls(crawler)

    def on_yield(self, request: Request, *, is_start: bool) -> Request:
        self._numbers += 1
        number = f"{self._prefix}.{self._numbers}"
        request.meta[NUMBER] = number.encode()  # bytes, which no revisit takes over: JSON has none
        if request.errback is None:
            request.errback = self._crawler.spider.failed  # type: ignore[union-attr]
        hacs = request.meta.get("hacs")
        hacs = hacs if isinstance(hacs, bool | str | None) else "?"
        self.events.append(("yielded", number, request.method, request.url, is_start, hacs))
        return request

    def on_answer(self, response: Response) -> None:
        request = response.request
        assert request is not None
        self.events.append(("answered", _number(request), response.status, response.url))

    def on_errback(self, failure: Failure) -> None:
        request = failure.request  # type: ignore[attr-defined]
        self.events.append(("failed", _number(request), type(failure.value).__name__))

    def on_dropped(self, request: Request) -> None:
        self.events.append(("dropped", _number(request), request.url))

    def on_sent(self, request: Request) -> None:
        """A request goes out."""
        if self._paused_until.get(_host(request), 0.0) > time.monotonic():
            self.seen["asked_in_pause"].append(request.url)

    def on_asked(self, request: Request) -> None:
        """A request has passed the downloader middlewares."""
        goes_on = "redirect_times" in request.meta or "retry_times" in request.meta
        self.events.append(("asked", _number(request), request.method, request.url, goes_on))

    def on_downloaded(self, response: Response, request: Request) -> None:
        asked = (response.headers.get(b"Retry-After") or b"").decode()
        if self._heeds_pauses and response.status in {429, 503}:
            until = time.monotonic() + (int(asked) if asked.isdigit() else DEFAULT_PAUSE_SECONDS)
            pausing = asyncio.ensure_future(self._pause(_host(response), until))
            self._pausing.add(pausing)
            pausing.add_done_callback(self._pausing.discard)

    async def _pause(self, host: str | None, until: float) -> None:
        for _ in range(TURNS):
            await asyncio.sleep(0)
        self._paused_until[host] = max(until, self._paused_until.get(host, 0.0))

    def on_item(self, item: Any) -> None:
        self.seen["items"].append(item)

    def on_close(self, spider: Spider, reason: str) -> None:
        self.seen["reason"] = reason

    def on_stopped(self) -> None:
        assert self._crawler.stats is not None
        self.seen["stats"] = self._crawler.stats.get_stats()


def _number(request: Request) -> str | None:
    number = request.meta.get(NUMBER)
    return number.decode() if number else None


def _host(sent: Request | Response) -> str | None:
    return urlsplit(sent.url).hostname


class WitnessMiddleware:
    """Numbers what is yielded, next to the spider; next to the downloader, sees what is asked for."""

    def __init__(self, crawler: Crawler) -> None:
        self._witness: Witness = crawler.witness  # type: ignore[attr-defined]

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> WitnessMiddleware:
        return cls(crawler)

    def process_request(self, request: Request, spider: Spider | None = None) -> None:
        self._witness.on_asked(request)

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for entry in start:
            yield self._seen(entry, is_start=True)

    def process_spider_input(self, response: Response, spider: Spider | None = None) -> None:
        self._witness.on_answer(response)

    def process_spider_output(
        self, response: Response, result: Iterable[Any], spider: Spider | None = None
    ) -> Iterable[Any]:
        for entry in result:
            yield self._seen(entry)

    async def process_spider_output_async(
        self, response: Response, result: AsyncIterator[Any], spider: Spider | None = None
    ) -> AsyncIterator[Any]:
        async for entry in result:
            yield self._seen(entry)

    def _seen(self, entry: Any, *, is_start: bool = False) -> Any:
        return (
            self._witness.on_yield(entry, is_start=is_start)
            if isinstance(entry, Request)
            else entry
        )


class WitnessHandler(HTTP11DownloadHandler):
    """Scrapy's own download handler; the witness sees each request as it goes out."""

    if iscoroutinefunction(HTTP11DownloadHandler.download_request):

        async def download_request(self, request: Request) -> Response:
            self._note(request)
            return await super().download_request(request)

    else:

        def download_request(self, request: Request, spider: Spider) -> Any:  # type: ignore[misc]
            self._note(request)
            return super().download_request(request, spider)  # type: ignore[call-arg]

    def _note(self, request: Request) -> None:
        self._crawler.witness.on_sent(request)  # type: ignore[attr-defined]

"""Sees what becomes of each request of a crawl, from where Scrapy and its users see it."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable
from inspect import iscoroutinefunction
from typing import Any, Self
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


class Witness:
    """A middleware next to the spider, which numbers what it yields, and one next to the downloader.

    `events` are what happened, the number of the request it happened to, and more.
    """

    def __init__(self, crawler: Crawler, name: str) -> None:
        self._crawler = crawler
        self._name = name
        self._numbers = 0
        self._paused_until: dict[str | None, float] = {}
        self._pausing: set[asyncio.Task[None]] = set()
        self.events: list[Any] = []
        self.items: list[Any] = []
        self.asked_in_pause: list[str] = []
        crawler.witness = self  # type: ignore[attr-defined]
        crawler.signals.connect(self.on_dropped, signals.request_dropped)
        crawler.signals.connect(self.on_item, signals.item_scraped)
        if crawler.settings.getbool("HACS_RETRY_AFTER"):
            crawler.signals.connect(self.on_downloaded, signals.response_downloaded)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        witness: Self = crawler.witness  # type: ignore[attr-defined]
        return witness

    def on_yield(self, entry: Any, *, is_start: bool = False) -> Any:
        if isinstance(entry, Request):
            self._numbers += 1
            number = f"{self._name}.{self._numbers}"
            entry.meta[NUMBER] = number.encode()  # bytes: no revisit takes over what is not JSON
            if entry.errback is None:
                entry.errback = self._crawler.spider.failed  # type: ignore[union-attr]
            hacs = entry.meta.get("hacs")
            hacs = hacs if isinstance(hacs, bool | str | None) else "?"
            self._note("yielded", entry, entry.method, entry.url, is_start, hacs, _given(entry))
        return entry

    async def process_start(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for entry in start:
            yield self.on_yield(entry, is_start=True)

    def process_spider_output(
        self, response: Response, result: Iterable[Any], spider: Spider | None = None
    ) -> Iterable[Any]:
        return map(self.on_yield, result)

    async def process_spider_output_async(
        self, response: Response, result: AsyncIterator[Any], spider: Spider | None = None
    ) -> AsyncIterator[Any]:
        async for entry in result:
            yield self.on_yield(entry)

    def process_spider_input(self, response: Response, spider: Spider | None = None) -> None:
        assert response.request is not None
        given = _given(response.request)
        self._note("answered", response.request, response.status, response.url, given)

    def process_request(self, request: Request, spider: Spider | None = None) -> None:
        goes_on = "redirect_times" in request.meta or "retry_times" in request.meta
        self._note("asked", request, request.url, goes_on)

    def on_errback(self, failure: Failure) -> None:
        self._note("failed", failure.request)  # type: ignore[attr-defined]

    def on_dropped(self, request: Request) -> None:
        self._note("dropped", request)

    def on_item(self, item: Any) -> None:
        self.items.append(item)

    def on_downloaded(self, response: Response) -> None:
        if response.status in {429, 503}:
            asked = (response.headers.get(b"Retry-After") or b"").decode()
            until = time.monotonic() + (int(asked) if asked.isdigit() else DEFAULT_PAUSE_SECONDS)
            pausing = asyncio.ensure_future(self._pause(_host(response), until))
            self._pausing.add(pausing)
            pausing.add_done_callback(self._pausing.discard)

    async def _pause(self, host: str | None, until: float) -> None:
        for _ in range(TURNS):
            await asyncio.sleep(0)
        self._paused_until[host] = max(until, self._paused_until.get(host, 0.0))

    def on_sent(self, request: Request) -> None:
        if self._paused_until.get(_host(request), 0.0) > time.monotonic():
            self.asked_in_pause.append(request.url)

    def _note(self, event: str, request: Request, *more: Any) -> None:
        number = request.meta.get(NUMBER)
        self.events.append((event, number.decode() if number else None, *more))


def _given(request: Request) -> str:
    """What a spider gives to a request besides what it asks for."""
    return repr((request.cb_kwargs, request.flags, request.meta.get("mine")))


def _host(sent: Request | Response) -> str | None:
    return urlsplit(sent.url).hostname


class WitnessHandler(HTTP11DownloadHandler):
    """Scrapy's own download handler; the witness sees each request as it goes out."""

    if iscoroutinefunction(HTTP11DownloadHandler.download_request):

        async def download_request(self, request: Request) -> Response:
            Witness.from_crawler(self._crawler).on_sent(request)
            return await super().download_request(request)

    else:

        def download_request(self, request: Request, spider: Spider) -> Any:  # type: ignore[misc]
            Witness.from_crawler(self._crawler).on_sent(request)
            return super().download_request(request, spider)  # type: ignore[call-arg]

"""Download handlers that wrap the project's own, and send pages that need a browser to it."""

from collections.abc import Awaitable
from inspect import iscoroutinefunction
from typing import Any, ClassVar, Self

import scrapy
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from scrapy.utils.misc import build_from_crawler, load_object
from twisted.internet.defer import Deferred

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.parts.rendering.rendering import Rendering


class _LazyAsInner(type):
    """Computes `lazy` late: the project's handler may be imported only once a reactor is installed."""

    around: Any

    @property
    def lazy(cls) -> bool:
        return bool(getattr(load_object(cls.around), "lazy", True))


class BrowserHandler(metaclass=_LazyAsInner):
    """Downloads with the wrapped handler, or renders pages.

    `with_browser` makes a subclass for each wrapped handler.
    """

    around: ClassVar[Any]

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._inner = build_from_crawler(load_object(self.around), crawler)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Build the wrapped handler, and this handler."""
        return cls(crawler)

    async def download_request(self, request: Request) -> Response:
        """Return the answer to a request."""
        rendering = Crawl.of(self._crawler).parts.of(Rendering)
        if rendering is None:
            return await self._plain(request)
        return await rendering.download(request, self._plain)

    async def close(self) -> None:
        """Close the wrapped handler."""
        closed = self._inner.close() if hasattr(self._inner, "close") else None
        if isinstance(closed, Deferred):
            await maybe_deferred_to_future(closed)
        elif isinstance(closed, Awaitable):
            await closed

    async def _plain(self, request: Request) -> Response:
        if iscoroutinefunction(self._inner.download_request):
            asked = self._inner.download_request(request)
        else:
            asked = maybe_deferred_to_future(
                self._inner.download_request(request, self._crawler.spider)
            )
        response: Response = await asked
        return response


class _BrowserHandler(BrowserHandler):
    """For Scrapy before 2.14, which takes Deferreds."""

    def download_request(  # type: ignore[override]
        self, request: Request, spider: Spider
    ) -> Deferred[Response]:
        return deferred_from_coro(super().download_request(request))

    def close(self) -> Deferred[None]:  # type: ignore[override]
        return deferred_from_coro(super().close())


def with_browser(around: Any) -> type[BrowserHandler]:
    """Return a class for DOWNLOAD_HANDLERS that wraps the handler set before."""
    base = BrowserHandler if scrapy.version_info >= (2, 14) else _BrowserHandler
    return type("BrowserHandler", (base,), {"around": around})

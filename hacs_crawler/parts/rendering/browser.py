"""A crawl's browser: started when the first page needs it, with few pages at once, each for a while.

It is scrapy-playwright's, in an instance of its own. Each page has a context of its own, without the
cookies or storage of another page or of an earlier visit. Requests that a page makes obey
robots.txt, and take their turn in the delays of the requested host; images, fonts and media are not
requested at all.
"""

from __future__ import annotations

import asyncio
import base64
import math
import tempfile
import time
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from inspect import isawaitable
from itertools import count
from typing import Any, Final

from scrapy import Request
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.settings import BaseSettings

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.part import PutBackError
from hacs_crawler.crawl.scrapy_internals import Downloads, check_robotstxt
from hacs_crawler.parts.rendering.launch import (
    CLOSING_SECONDS,
    CONTEXT,
    BrowserMissingError,
    short_folder,
    started,
    within,
)
from hacs_crawler.utils.loop import begin
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

# A page takes some 50 to 150 MB while it is open.
PAGES_AT_ONCE: Final = 4
# What a page asks for beyond is not sent.
MOST_REQUESTS: Final = 200
# How long a page that goes on loading, such as a chat or a ticker, is given to fall silent; at most
# a third of the page's time limit.
QUIET_SECONDS: Final = 10.0
PAGE_SECONDS: Final = 30.0
# Less than a part may take before a request.
START_SECONDS: Final = 45.0
OF_THE_WEB: Final = ("http://", "https://")
NOT_LOADED: Final = frozenset({"image", "media", "font", "texttrack"})
_KEPT_META: Final = ("redirect_times", "redirect_urls", "redirect_reasons")


class RenderingError(Exception):
    """A page could not be rendered; the message says why."""


class NoPageError(RenderingError):
    """A browser would keep the answer as a file."""


class UnreachableError(RenderingError, ConnectionError):
    """The browser could not reach a page's server; tried again like Scrapy's own connection errors."""


@dataclass(slots=True)
class _Rendering:
    """A page that is open."""

    request: Request
    ends_at: float
    page: Any = None
    asked: int = 0
    # How many of its requests wait for their turn.
    held: int = 0
    latency: float = 0.0


class Browser:
    """Renders pages. All methods are called from the event loop."""

    def __init__(self, crawl: Crawl) -> None:
        self._crawl = crawl
        self._crawler = crawler = crawl.crawler
        self._seconds = _page_seconds(crawler.settings)
        self._quiet_seconds = min(QUIET_SECONDS, self._seconds / 3)
        self._downloads = Downloads(crawler)
        self._handler: Any = None
        self._starting = asyncio.Lock()
        most = crawler.settings.getint("PLAYWRIGHT_MAXCONTEXTS") or PAGES_AT_ONCE
        self._room = asyncio.Semaphore(min(most, PAGES_AT_ONCE))
        self._names = count(1)
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._open: dict[Any, _Rendering] = {}
        # PLAYWRIGHT_ABORT_REQUEST of the project.
        self._is_refused_too: Any = None
        # Why the browser is missing, once it was looked for in vain.
        self.missing: str | None = None

    async def is_there(self) -> bool:
        """Start the browser, if that was not done yet; returns whether it runs."""
        async with self._starting:
            if self._handler is None and self.missing is None:
                self._folder = self._folder or short_folder()
                starting = started(self._crawler, self._folder.name)
                try:
                    self._handler = await asyncio.wait_for(starting, START_SECONDS)
                except Exception as error:  # noqa: BLE001 - a browser fails in many ways
                    self.missing = _first_line(error)
                    logger.warning(
                        "There is no browser (%s): pages that need one are visited without, and not "
                        "recorded. `playwright install chromium` installs one, and HACS_RENDER = "
                        '"never" does without',
                        self.missing,
                    )
                else:
                    self._is_refused_too = self._handler.abort_request
                    self._handler.abort_request = self._is_refused
                    self._handler._apply_page_methods = self._settle  # noqa: SLF001
        return self.missing is None

    async def render(self, request: Request) -> Response:
        """Return a page as a browser shows it, with the links that it has once it has fallen silent.

        Raises BrowserMissingError, RenderingError if the page exceeds its time limit, crashes, or
        cannot be reached, IgnoreRequest if it redirects to a URL that robots.txt forbids, and
        PutBackError if its host may not be asked now.
        """
        async with self._room:
            if not await self.is_there():
                raise BrowserMissingError(self.missing)
            if self._crawl.parts.admit(request) > 0:  # while it waited for room
                raise PutBackError
            handler = self._handler
            try:
                return await self._render(request)
            except RenderingError:
                if not self._has_lost(handler) or not await self.is_there():
                    raise
            # what died was the browser: no fault of this page's
            return await self._render(request)

    async def close(self) -> None:
        """End the browser."""
        handler, self._handler = self._handler, None
        self.missing = self.missing or "the crawl is over"
        if handler is not None:
            await within(handler.close(), 2 * CLOSING_SECONDS)
        if self._folder is not None:
            self._folder.cleanup()

    async def _render(self, request: Request) -> Response:
        handler, name = self._handler, f"{CONTEXT}{next(self._names)}"
        rendering = _Rendering(request, time.monotonic() + self._seconds)
        inner = request.replace(callback=None, errback=None, meta=self._meta(name, rendering))
        # it is the context's, and no server's business
        inner.headers.pop("Proxy-Authorization", None)
        try:
            response: Response = await asyncio.wait_for(
                handler._download_request(inner, self._crawler.spider),  # noqa: SLF001
                self._seconds,
            )
        except TimeoutError as error:
            msg = f"a browser had not done with it after {self._seconds:g} s"
            raise RenderingError(msg) from error
        except Exception as error:
            message = _first_line(error)
            kind = RenderingError
            if "ownload" in message:  # Playwright's words, and scrapy-playwright's
                kind = NoPageError
            # an aborted request was a download, too, if the browser had not begun it
            elif "net::ERR_" in message and "net::ERR_ABORTED" not in message:
                kind = UnreachableError
            raise kind(message) from error
        finally:
            await self._end(handler, name, rendering)
        # Chromium shows errors with status 200
        if not response.url.startswith(OF_THE_WEB):
            msg = f"a browser ended at {response.url[:100]}"
            raise RenderingError(msg)
        # after redirects, which a browser follows by itself
        if response.url != request.url:
            await check_robotstxt(self._crawler, request.replace(url=response.url, meta={}))
        request.meta.update({key: inner.meta[key] for key in _KEPT_META if key in inner.meta})
        request.meta["download_latency"] = rendering.latency
        response.request = None
        return response

    def _meta(self, context: str, rendering: _Rendering) -> dict[str, Any]:
        async def on_page(page: Any, _: Request) -> None:
            rendering.page = page
            self._open[page] = rendering
            started = time.monotonic()

            def note(_: object) -> None:
                # else AutoThrottle would take rendering for a slow server
                if not rendering.latency:
                    rendering.latency = time.monotonic() - started

            page.on("response", note)

        return {
            "playwright_context": context,
            "playwright_context_kwargs": {
                "service_workers": "block",
                "accept_downloads": False,
                **_proxy(rendering.request),
            },
            "playwright_page_goto_kwargs": {
                "wait_until": "domcontentloaded",
                "timeout": 1000 * self._seconds,
            },
            "playwright_page_init_callback": on_page,
        }

    async def _settle(self, page: Any, *_: object) -> None:
        """Return when the page asks for nothing any more, or goes on and on.

        It stands in the place of what applies a request's page methods, which would wait after each for
        a page to be loaded: some never are.
        """
        from playwright.async_api import TimeoutError as TooLateError  # noqa: PLC0415 - an extra

        rendering = self._open[page]
        while True:
            try:
                await page.wait_for_load_state("networkidle", timeout=1000 * self._quiet_seconds)
            except TooLateError:
                if rendering.held:
                    continue  # it is we who let it wait
            break

    async def _end(self, handler: Any, name: str, rendering: _Rendering) -> None:
        """Close a page and its context; if that fails, close the browser."""
        self._open.pop(rendering.page, None)
        wrapper = handler.context_wrappers.get(name)
        if wrapper is None or await within(wrapper.context.close(), CLOSING_SECONDS):
            return
        if self._handler is handler:
            logger.warning("The browser does not answer any more: another one is started")
            await self._drop(handler)

    def _has_lost(self, handler: Any) -> bool:
        """Whether a browser has died, and is not used any more."""
        if self._handler is not handler:
            return True
        browser = getattr(handler, "browser", None)
        is_lost = browser is None or not browser.is_connected()
        if is_lost:
            begin(self._drop(handler))
        return is_lost

    def _drop(self, handler: Any) -> Coroutine[Any, Any, bool]:
        self._handler = None
        return within(handler.close(), CLOSING_SECONDS)

    async def _is_refused(self, asked: Any) -> bool:
        """Whether a request of a page is not to be sent; returns when it may be."""
        if not asked.url.startswith(OF_THE_WEB):
            return False
        try:
            rendering = self._open.get(asked.frame.page)
        except Exception:  # noqa: BLE001 - of a page that is closing, and has lost its frame
            rendering = None
        if rendering is None or asked.resource_type in NOT_LOADED:
            return True
        rendering.asked += 1
        if rendering.asked == 1:
            # it has obeyed, and waited for its turn
            self._downloads.on_sent(rendering.request)
            return False
        if rendering.asked > MOST_REQUESTS:
            return True
        refused = self._is_refused_too is not None and self._is_refused_too(asked)
        if await refused if isawaitable(refused) else refused:
            return True
        rendering.held += 1
        try:
            return await self._must_not_go(asked.url, rendering)
        finally:
            rendering.held -= 1

    async def _must_not_go(self, url: str, rendering: _Rendering) -> bool:
        first = rendering.request
        obeys_not = bool(first.meta.get("dont_obey_robotstxt"))
        request = Request(url, headers=first.headers, meta={"dont_obey_robotstxt": obeys_not})
        if self._crawl.parts.admit(request) > 0:
            return True
        try:
            await check_robotstxt(self._crawler, request)
        except IgnoreRequest:
            self._crawl.stats.count("render/forbidden")
            return True
        seconds = self._downloads.take_turn(request, rendering.ends_at - time.monotonic())
        if seconds is None:
            return True
        await asyncio.sleep(seconds)
        return False


def _page_seconds(settings: BaseSettings) -> float:
    """Return how long a page may take: as long as the project lets Playwright's pages, else 30 s."""
    with suppress(TypeError, ValueError):
        milliseconds = settings.getfloat("PLAYWRIGHT_DEFAULT_NAVIGATION_TIMEOUT")
        if 0.0 < milliseconds < math.inf:
            return milliseconds / 1000
    return PAGE_SECONDS


def _proxy(request: Request) -> dict[str, dict[str, str]]:
    """Return the context options for a request's proxy, as HttpProxyMiddleware has set it."""
    server = request.meta.get("proxy")
    if not server:
        return {}
    proxy = {"server": str(server)}
    scheme, _, secret = (request.headers.get("Proxy-Authorization") or b"").partition(b" ")
    if scheme.lower() == b"basic":
        name, _, password = base64.b64decode(secret).decode().partition(":")
        proxy |= {"username": name, "password": password}
    return {"proxy": proxy}


def _first_line(error: BaseException) -> str:
    words = str(error).strip().splitlines()
    return words[0] if words else type(error).__name__

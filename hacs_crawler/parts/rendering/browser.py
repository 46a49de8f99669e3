"""A crawl's browser, started for the first page that needs it; few pages are open at once.

It is a separate instance of scrapy-playwright's. Each page has its own context, without cookies or
storage of other pages or earlier visits. Requests of a page obey robots.txt and the delays of their
hosts; images, fonts and media are not requested.
"""

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

# An open page takes 50 to 150 MB.
PAGES_AT_ONCE: Final = 4
# A page's further requests are aborted.
MOST_REQUESTS: Final = 200
# How long to wait for the network to become idle, which never happens on a chat or ticker; at most a
# third of the page's time limit.
QUIET_SECONDS: Final = 10.0
PAGE_SECONDS: Final = 30.0
# Less than the time limit of a part's hooks.
START_SECONDS: Final = 45.0
OF_THE_WEB: Final = ("http://", "https://")
NOT_LOADED: Final = frozenset({"image", "media", "font", "texttrack"})
_KEPT_META: Final = ("redirect_times", "redirect_urls", "redirect_reasons")


class RenderingError(Exception):
    """A page could not be rendered; the message says why."""


class NoPageError(RenderingError):
    """The answer is a file that a browser would download."""


class UnreachableError(RenderingError, ConnectionError):
    """The browser could not reach a page's server; Scrapy retries this as a connection error."""


@dataclass(slots=True)
class _Rendering:
    """An open page."""

    request: Request
    ends_at: float
    page: Any = None
    asked: int = 0
    # How many of its requests wait because of delays.
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
        # The project's PLAYWRIGHT_ABORT_REQUEST.
        self._project_refuses: Any = None
        # Why the browser could not be started, or is closed.
        self.missing: str | None = None

    async def is_there(self) -> bool:
        """Start the browser if necessary; return whether it runs."""
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
                        "recorded. Run `playwright install chromium` to install one, or set "
                        'HACS_RENDER = "never"',
                        self.missing,
                    )
                else:
                    self._project_refuses = self._handler.abort_request
                    self._handler.abort_request = self._is_refused
                    self._handler._apply_page_methods = self._settle  # noqa: SLF001
        return self.missing is None

    async def render(self, request: Request) -> Response:
        """Return a page as a browser shows it once the network is idle.

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
                if not self._is_lost(handler) or not await self.is_there():
                    raise
            # the browser died, perhaps because of another page
            return await self._render(request)

    async def close(self) -> None:
        """Close the browser."""
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
        # the context has it; it must not be sent to the server
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
            # not every ERR_ABORTED is unreachable: the browser may have aborted a download
            elif "net::ERR_" in message and "net::ERR_ABORTED" not in message:
                kind = UnreachableError
            raise kind(message) from error
        finally:
            await self._end(handler, name, rendering)
        # Chromium's own error pages have status 200
        if not response.url.startswith(OF_THE_WEB):
            raise RenderingError(f"a browser ended at {response.url[:100]}")
        # the browser has followed redirects, past the check of robots.txt
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
                # time to the first response: AutoThrottle must not count the rendering
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
        """Return when the network is idle, or after a time limit.

        Replaces the handler's method for page methods, which waits for the page's load event; on
        some pages that never comes.
        """
        from playwright.async_api import TimeoutError as TooLateError  # noqa: PLC0415 - an extra

        rendering = self._open[page]
        while True:
            try:
                await page.wait_for_load_state("networkidle", timeout=1000 * self._quiet_seconds)
            except TooLateError:
                if rendering.held:
                    continue  # our own delays hold its requests back
            break

    async def _end(self, handler: Any, name: str, rendering: _Rendering) -> None:
        """Close a page and its context; if that fails, close the browser."""
        self._open.pop(rendering.page, None)
        wrapper = handler.context_wrappers.get(name)
        if wrapper is None or await within(wrapper.context.close(), CLOSING_SECONDS):
            return
        if self._handler is handler:
            logger.warning("The browser does not answer any more: it is restarted")
            await self._drop(handler)

    def _is_lost(self, handler: Any) -> bool:
        """Whether a browser has died or been replaced; a dead one is dropped."""
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
        """Whether a page's request must be aborted; waits until it may be sent."""
        if not asked.url.startswith(OF_THE_WEB):
            return False
        try:
            rendering = self._open.get(asked.frame.page)
        except Exception:  # noqa: BLE001 - a closing page lacks a frame
            rendering = None
        if rendering is None or asked.resource_type in NOT_LOADED:
            return True
        rendering.asked += 1
        if rendering.asked == 1:
            # the page itself, which has passed robots.txt and the delays already
            self._downloads.on_sent(rendering.request)
            return False
        if rendering.asked > MOST_REQUESTS:
            return True
        refused = self._project_refuses is not None and self._project_refuses(asked)
        if await refused if isawaitable(refused) else refused:
            return True
        rendering.held += 1
        try:
            return await self._is_forbidden(asked.url, rendering)
        finally:
            rendering.held -= 1

    async def _is_forbidden(self, url: str, rendering: _Rendering) -> bool:
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
    """Return the time limit of a page: the project's for Playwright, else 30 s."""
    with suppress(TypeError, ValueError):
        milliseconds = settings.getfloat("PLAYWRIGHT_DEFAULT_NAVIGATION_TIMEOUT")
        if 0.0 < milliseconds < math.inf:
            return milliseconds / 1000
    return PAGE_SECONDS


def _proxy(request: Request) -> dict[str, dict[str, str]]:
    """Return context options for the request's proxy, as set by HttpProxyMiddleware."""
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

"""Downloader middleware: has pages rendered by a browser where HACS_RENDER and what is known ask for it.

Nearest the engine but for `PageMemoryMiddleware`: what comes here is no redirect and no retry.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.http import HtmlResponse, Response

from hacs_crawler.crawl.browser import Browser, NoPageError, RenderingError, UnreachableError
from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.meta import (
    mark_to_render,
    page_url,
    remove_conditions,
    second_request,
)
from hacs_crawler.crawl.observation import is_rendered, rules_for, shown_links, tree_of
from hacs_crawler.crawl.render_marks import RenderMarks
from hacs_crawler.crawl.scrapy_internals import download, is_closing
from hacs_crawler.links import UNREADABLE
from hacs_crawler.rendering import Verdict, shows_more, suspicion_of
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)


class RenderingMiddleware:
    """Marks requests for pages that need a browser, and finds out which pages these are.

    A page that looks as if a browser showed more is asked for a second time through it, and where that
    shows more a third time: see `rendering.shows_more`.
    """

    def __init__(self, crawler: Crawler, crawl: Crawl) -> None:
        self._crawler = crawler
        self._crawl = crawl
        self._marks = RenderMarks(crawl)
        self._has_said_missing = False
        crawl.before_close.append(self._marks.write)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> RenderingMiddleware:
        """Raise NotConfigured where HACS_RENDER is "never"."""
        crawl = Crawl.of(crawler)
        if crawl.config is None or crawl.config.render == "never":
            raise NotConfigured
        return cls(crawler, crawl)

    def process_request(
        self, request: Request, spider: Spider | None = None
    ) -> Coroutine[Any, Any, None] | None:
        """Mark the request if its page is to be rendered."""
        del spider
        url = self._page(request)
        return None if url is None else self._prepare(request, url)

    def process_response(
        self, request: Request, response: Response, spider: Spider | None = None
    ) -> Response | Coroutine[Any, Any, Response]:
        """Note what the visit took; look at the page the other way too where that is worth it."""
        del spider
        url = self._page(request)
        if url is None or "cached" in response.flags:
            return response
        return self._judge(request, response, url)

    def process_exception(
        self, request: Request, exception: Exception, spider: Spider | None = None
    ) -> Request | None:
        """Count what could not be rendered: a page that often hangs or crashes is left alone.

        What a browser would keep as a file is asked for plainly at once.
        """
        del spider
        url = self._page(request)
        if url is None or not isinstance(exception, RenderingError):
            return None
        if isinstance(exception, NoPageError) and not self._is_always:
            self._marks.note_verdict(url, Verdict.PLAIN, for_site=False)
            return request.replace(dont_filter=True)
        self._crawl.stats.count("render/failed")
        logger.info("%s could not be rendered: %s", request.url, exception)
        if not isinstance(exception, UnreachableError) and not self._is_always:
            self._marks.note_failure(url)
        return None

    def _page(self, request: Request) -> str | None:
        """Return the URL of the page that is visited, None where its rendering is not up to us."""
        if not self._crawl.is_open or "playwright" in request.meta:
            return None
        return None if "hacs_archive" in request.meta else page_url(request)

    async def _prepare(self, request: Request, url: str) -> None:
        for key in ("hacs_render", "hacs_needs_browser"):
            request.meta.pop(key, None)
        await self._marks.ready(url)
        if not self._is_always and not self._marks.advice(url).rendered:
            return
        if not await self._has_browser():
            request.meta["hacs_needs_browser"] = True
            return
        mark_to_render(request)
        request.meta["dont_cache"] = True
        remove_conditions(request)  # a browser would show a 304 as an empty page

    async def _judge(self, request: Request, response: Response, url: str) -> Response:
        rendered, seconds = is_rendered(response), float(request.meta.get("hacs_seconds", 0.0))
        if rendered:
            self._crawl.stats.count("render/pages")
            self._crawl.stats.count("render/seconds", seconds)
        is_whole = 200 <= response.status < 300 and isinstance(response, HtmlResponse)
        if not is_whole or "hacs_needs_browser" in request.meta:
            return response
        advised = self._marks.advice(url)
        is_doubtful = not self._is_always and (rendered or _is_suspicious(response))
        if is_doubtful and advised.checked and not is_closing(self._crawler):
            self._crawl.stats.count("render/checks")
            look = self._look_plainly if rendered else self._look_with_browser
            better = await look(request, response, url)
            if better is not response:  # what it took is known from next time on
                return better
        counted = is_doubtful and not advised.checked
        self._marks.note_visit(url, rendered=rendered, seconds=seconds, counted=counted)
        return response

    async def _look_with_browser(self, request: Request, plain: Response, url: str) -> Response:
        """Render a page that was asked for plainly; returns the better of the two answers."""
        if not await self._has_browser():
            return plain
        first = await self._asked(request, rendered=True)
        if first is None:
            # it will be tried again, but not at each visit
            self._marks.note_verdict(url, Verdict.PLAIN, for_site=False)
            return plain
        is_more, number = await self._compared(request, plain, first)
        self._note(url, Verdict.BROWSER if is_more else Verdict.PLAIN, number)
        return first.replace(request=request) if is_more else plain

    async def _look_plainly(self, request: Request, rendered: Response, url: str) -> Response:
        """Ask plainly for a page that was rendered."""
        plain = await self._asked(request, rendered=False)
        if plain is not None:
            is_more, number = await self._compared(request, plain, rendered)
            self._note(url, Verdict.BROWSER if is_more else Verdict.PLAIN, number)
        return rendered

    async def _compared(
        self, request: Request, plain: Response, first: Response
    ) -> tuple[bool, int]:
        """Return whether a browser shows more, and how many links that are."""
        seen, shown = self._links(plain), self._links(first)
        if seen is None or shown is None or not shown - seen:
            return False, 0
        second = await self._asked(request, rendered=True)
        again = None if second is None else self._links(second)
        return again is not None and shows_more(seen, shown, again), len(shown - seen)

    def _note(self, url: str, verdict: Verdict, number: int) -> None:
        known = self._marks.advice(url).rendered
        site_before = self._marks.verdict_of_site(url)
        site = self._marks.note_verdict(url, verdict)
        if verdict is Verdict.BROWSER and not known:
            self._crawl.stats.count("render/marked")
            logger.info(
                "A browser shows %d links of %s that its plain answer lacks: it is rendered from now on",
                number,
                url,
            )
        elif verdict is Verdict.PLAIN and known:
            self._crawl.stats.count("render/unmarked")
            logger.info("%s shows all its links without a browser by now", url)
        if site is Verdict.BROWSER and site_before is not site:
            self._crawl.stats.count("render/sites")
            logger.info("Pages around %s need a browser: all of them are rendered from now on", url)

    async def _asked(self, request: Request, *, rendered: bool) -> HtmlResponse | None:
        """Ask for a page once more, and return its answer where that is a page."""
        again = second_request(request, request.url)
        if rendered:
            mark_to_render(again)
        try:
            response = await download(self._crawler, again)
        except Exception as error:  # noqa: BLE001 - whatever network and browser do
            self._crawl.stats.count("render/failed")
            logger.info("%s could not be looked at a second time: %s", request.url, error)
            return None
        if isinstance(response, HtmlResponse) and 200 <= response.status < 300:
            return response
        return None

    async def _has_browser(self) -> bool:
        browser = Browser.of(self._crawler)
        is_there = await browser.is_there()
        if not is_there and not self._has_said_missing:
            self._has_said_missing = True
            logger.warning(
                "There is no browser (%s): pages that need one are visited without, and not recorded; "
                "see docs/javascript.md, or set HACS_RENDER to never",
                browser.missing,
            )
        return is_there

    def _links(self, response: Response) -> frozenset[int] | None:
        rules = self._crawl.link_rules(response.url)
        links, _ = shown_links(response, rules_for(response, rules))
        return links

    @property
    def _is_always(self) -> bool:
        config = self._crawl.config
        return config is not None and config.render == "always"


def _is_suspicious(response: Response) -> bool:
    assert isinstance(response, HtmlResponse)  # noqa: S101 - else it is not asked
    if b"<script" not in response.body.lower():
        return False
    try:
        return bool(suspicion_of(tree_of(response)))
    except UNREADABLE:
        return False

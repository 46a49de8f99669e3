"""A fake browser, in the place of scrapy-playwright's: it asks the site and says that it is one.

What the site calls a page's scripted links only it is shown.
"""

from __future__ import annotations

import asyncio
import sys
from types import ModuleType, SimpleNamespace
from typing import Any
from urllib.parse import urljoin, urlsplit

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import HtmlResponse

from fuzz.site import HTML, Answer, FuzzedSite

RENDERING_SECONDS = 0.2
MOST_REDIRECTS = 5


class FakeBrowser:
    """What `hacs_crawler.parts.rendering.browser` uses of scrapy-playwright's download handler."""

    site: FuzzedSite

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self.config = SimpleNamespace(target_closed_max_retries=3, launch_options={})
        kind = SimpleNamespace(executable_path=sys.executable)
        self.browser_provider = SimpleNamespace(browser_type=kind)
        self.browser = SimpleNamespace(is_connected=lambda: True)
        self.context_wrappers: dict[str, Any] = {}
        self.abort_request: Any = None

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> FakeBrowser:
        return cls(crawler)

    async def _launch(self) -> None:
        pass

    async def _maybe_launch_browser(self) -> None:
        pass

    async def close(self) -> None:
        pass

    async def _download_request(self, request: Request, spider: object) -> HtmlResponse:
        self._crawler.witness.on_sent(request)  # type: ignore[attr-defined]
        url = request.url
        for _ in range(MOST_REDIRECTS):  # which no browser lets anybody hold back
            answer = await self._asked(url)
            if "Location" not in answer.headers:
                break
            url = urljoin(url, answer.headers["Location"])
        if answer.is_broken:
            raise ConnectionError("Page.goto: net::ERR_CONNECTION_CLOSED")
        if answer.kind != HTML:
            raise ValueError("Page.goto: Download is starting")
        headers = {"Content-Type": answer.kind, **answer.headers}
        return HtmlResponse(
            url,
            answer.status,
            headers,
            answer.body,
            flags=["playwright"],
            request=request,
            encoding="utf-8",
        )

    async def _asked(self, url: str) -> Answer:
        parts = urlsplit(url)
        path = parts.path + (f"?{parts.query}" if parts.query else "")
        await asyncio.sleep(RENDERING_SECONDS)
        return self.site.answer("GET", parts.netloc, path, {}, by_browser=True)


def install(site: FuzzedSite) -> None:
    """Let this browser be found where scrapy-playwright's is looked for."""
    FakeBrowser.site = site
    module = ModuleType("scrapy_playwright.handler")
    module.ScrapyPlaywrightDownloadHandler = FakeBrowser  # type: ignore[attr-defined]
    sys.modules["scrapy_playwright"] = ModuleType("scrapy_playwright")
    sys.modules["scrapy_playwright.handler"] = module

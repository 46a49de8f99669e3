"""A fake browser, in the place of scrapy-playwright's: it asks the site and says that it is one.

What the site calls a page's scripted links only it is shown.
"""

import asyncio
import sys
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from types import ModuleType, SimpleNamespace
from typing import Any, Self
from urllib.parse import urljoin, urlsplit

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import HtmlResponse

from fuzz.site import HTML, FuzzedSite
from fuzz.witness import Witness

RENDERING_SECONDS = 0.2
MOST_REDIRECTS = 5


class FakeBrowser:
    """What `hacs_crawler.parts.rendering` uses of scrapy-playwright's download handler."""

    site: FuzzedSite
    abort_request: Any = None
    browser = SimpleNamespace(is_connected=lambda: True)
    browser_provider = SimpleNamespace(browser_type=SimpleNamespace(executable_path=sys.executable))

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self.config = SimpleNamespace(launch_options={})
        self.context_wrappers: dict[str, Any] = {}

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    async def close(self) -> None:
        pass

    _launch = _maybe_launch_browser = close

    async def _download_request(self, request: Request, spider: object) -> HtmlResponse:
        Witness.from_crawler(self._crawler).on_sent(request)
        url = request.url
        for _ in range(MOST_REDIRECTS):  # which no browser lets anybody hold back
            await asyncio.sleep(RENDERING_SECONDS)
            parts = urlsplit(url)
            path = parts._replace(scheme="", netloc="").geturl()
            answer = self.site.answer("GET", parts.netloc, path, None, by_browser=True)
            if "Location" not in answer.headers:
                break
            url = urljoin(url, answer.headers["Location"])
        if answer.is_broken:
            raise ConnectionError("Page.goto: net::ERR_CONNECTION_CLOSED")
        if answer.kind != HTML:
            raise ValueError("Page.goto: Download is starting")
        return HtmlResponse(
            url,
            answer.status,
            {"Content-Type": answer.kind, **answer.headers},
            answer.body,
            flags=["playwright"],
            encoding="utf-8",
        )


def install(site: FuzzedSite) -> None:
    """Let this browser be found where scrapy-playwright's is looked for."""
    FakeBrowser.site = site
    module = ModuleType("scrapy_playwright.handler")
    module.ScrapyPlaywrightDownloadHandler = FakeBrowser  # type: ignore[attr-defined]
    sys.modules["scrapy_playwright"] = module_from_spec(ModuleSpec("scrapy_playwright", None))
    sys.modules["scrapy_playwright.handler"] = module

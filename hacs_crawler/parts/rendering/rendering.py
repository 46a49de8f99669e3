"""HACS_RENDER: renders the pages that need a browser, and finds out which pages do.

If a page looks as if a browser would show more, it is requested a second time in the browser, and if
that shows more links a third time: see `verdicts.shows_more`.
"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable
from typing import Final

from lxml import etree
from scrapy import Request
from scrapy.http import HtmlResponse, Response

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.meta import mark_unseen, remove_conditions, second_request, tag_of
from hacs_crawler.crawl.observation import shown_marks, tree_of
from hacs_crawler.crawl.scrapy_internals import download, is_closing
from hacs_crawler.links import UNREADABLE
from hacs_crawler.parts.rendering.browser import (
    Browser,
    NoPageError,
    RenderingError,
    UnreachableError,
)
from hacs_crawler.parts.rendering.memory import RenderingMemory
from hacs_crawler.parts.rendering.verdicts import (
    PageRendering,
    Verdict,
    advice,
    is_rendered,
    shows_more,
    visited,
)
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

# Ids of the elements that applications of React, Vue, Next, Nuxt, Gatsby, Quasar and others fill.
ROOTS: Final = ("root", "app", "__next", "__nuxt", "___gatsby", "q-app", "svelte", "main-app")
_MARKS: Final = ("ng-app", "data-ng-app", "data-reactroot", "data-v-app", "data-server-rendered")
# A page with fewer links may have the others made by its scripts.
FEW_LINKS: Final = 10
# What a script in a file of its own counts for: its length is not known.
SCRIPT_FILE_CHARACTERS: Final = 10_000
# From how many characters of script per character of text a page has much script.
SCRIPT_SHARE: Final = 5.0

_root: Final = etree.XPath(
    "(//*[" + " or ".join(f"@id='{name}'" for name in ROOTS) + "]"
    " | //app-root | //*[" + " or ".join(f"@{name}" for name in _MARKS) + "])[1]"
)
_has_links: Final = etree.XPath("boolean(.//a[@href])")
# Not joined by "|", nor `//noscript//text()`: libxml2 joins sets by comparing each with each.
_links: Final = etree.XPath("count(//*[self::a or self::area][@href])")
_files: Final = etree.XPath("count(//script[@src])")
_script_texts: Final = etree.XPath("//script[not(@src)]/text()", smart_strings=False)
_notices: Final = etree.XPath("//text()[ancestor::noscript]", smart_strings=False)
_texts: Final = etree.XPath(
    "//body//text()[not(ancestor::script or ancestor::style or ancestor::noscript)]",
    smart_strings=False,
)
_asks_for_scripts = re.compile(r"java\s*script", re.IGNORECASE).search


class Rendering(RenderingMemory):
    """Has pages rendered that need a browser.

    A failure of this code costs the visit of the page at hand, which may not show its links; see
    `Part.required`.
    """

    required = True

    def __init__(self, crawl: Crawl) -> None:
        super().__init__(crawl)
        self._is_always = crawl.config.render == "always"
        self._browser = Browser(crawl)

    async def download(
        self, request: Request, plainly: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        """Return the answer to any request of the crawl; count how long a browser takes."""
        # a request for another URL to which a spider copied meta is not rendered
        if request.meta.get("hacs.render") != request.url:
            return await plainly(request)
        started = time.monotonic()
        try:
            return await self._browser.render(request)
        finally:
            self._crawl.stats.count("render/seconds", time.monotonic() - started)

    async def before_request(self, request: Request, page_url: str | None) -> None:
        """Mark the request if its page must be rendered."""
        if page_url is None or not _is_ours(request):
            return
        request.meta.pop("hacs.render", None)
        await self.ready(page_url)
        if not self._is_always and not advice(*self.records(page_url)).rendered:
            return
        if not await self._browser.is_there():
            mark_unseen(request, "needs_browser")
            return
        request.meta["hacs.render"] = request.url
        request.meta["dont_cache"] = True
        remove_conditions(request)  # a browser would show a 304 as an empty page

    async def answered(self, request: Request, response: Response, page_url: str) -> Response:
        """Count a rendered page; fetch the page the other way, too, if that is worth it."""
        if not _is_ours(request) or "cached" in response.flags:
            return response
        if rendered := is_rendered(response):
            self._crawl.stats.count_beside("render/pages", "rendered page")
        is_page = 200 <= response.status < 300 and isinstance(response, HtmlResponse)
        if not is_page or tag_of(request).unseen:
            return response
        page, site = self.records(page_url)
        is_doubtful = not self._is_always and (rendered or _is_suspicious(response))
        if is_doubtful and not advice(page, site).checked:
            if page.verdict is Verdict.UNKNOWN:
                self.keep(page_url, page, visited(site))
            else:
                self.keep(page_url, visited(page), site)
        elif is_doubtful and not is_closing(self._crawl.crawler):
            self._crawl.stats.count("render/checks")
            return await self._better(request, response, page_url)
        return response

    def failed(self, request: Request, error: Exception, page_url: str) -> Request | None:
        """Count a page that could not be rendered: a page that often hangs or crashes is left alone.

        A file that a browser would download is requested again without it.
        """
        if not isinstance(error, RenderingError):
            return None
        if isinstance(error, NoPageError) and not self._is_always:
            self.keep(page_url, PageRendering(Verdict.PLAIN), self.records(page_url)[1])
            return request.replace(dont_filter=True)
        self._crawl.stats.count("render/failed")
        logger.info("%s could not be rendered: %s", request.url, error)
        if not isinstance(error, UnreachableError) and not self._is_always:
            self._on_failure(page_url)
        return None

    async def closing(self) -> None:
        """Write the verdicts, and close the browser."""
        await super().closing()
        await self._browser.close()

    async def _better(self, request: Request, response: Response, url: str) -> Response:
        """Fetch a page the other way, too; return the answer that shows more, and remember it."""
        rendered = is_rendered(response)
        if not rendered and not await self._browser.is_there():
            return response
        other = await self._asked(request, rendered=not rendered)
        if other is None:
            # no verdict: it is looked at again, unless that fails often
            if not rendered:
                self._on_failure(url)
            return response
        plain, first = (other, response) if rendered else (response, other)
        seen, shown = self._links(plain), self._links(first) or frozenset()
        more = frozenset() if seen is None else shown - seen
        second = await self._asked(request, rendered=True) if more else None
        if more and second is None:
            self._on_failure(url)
            return response
        again = None if second is None else self._links(second)
        is_more = bool(seen is not None and again and shows_more(seen, shown, again))
        self._note(url, Verdict.BROWSER if is_more else Verdict.PLAIN, len(more))
        return other.replace(request=request) if is_more and not rendered else response

    def _on_failure(self, url: str) -> None:
        page, site = self.records(url)
        self.keep(url, page.failed(), site)

    def _note(self, url: str, verdict: Verdict, number: int) -> None:
        page, site_before = self.records(url)
        was_rendered = advice(page, site_before).rendered
        site = site_before.judged(page.verdict, verdict)
        self.keep(url, PageRendering(verdict), site)
        if verdict is Verdict.BROWSER and not was_rendered:
            self._crawl.stats.count("render/marked")
            logger.info(
                "A browser shows %d links of %s that its plain answer lacks: it is rendered from now on",
                number,
                url,
            )
        elif verdict is Verdict.PLAIN and was_rendered:
            self._crawl.stats.count("render/unmarked")
            logger.info("%s shows all its links without a browser by now", url)
        if site.verdict is Verdict.BROWSER is not site_before.verdict:
            self._crawl.stats.count("render/sites")
            logger.info("Pages around %s need a browser: all of them are rendered from now on", url)

    async def _asked(self, request: Request, *, rendered: bool) -> HtmlResponse | None:
        """Request a page once more, and return its answer if that is a page."""
        again = second_request(request, request.url)
        again.meta["hacs.render"] = again.url if rendered else None
        try:
            response = await download(self._crawl.crawler, again)
        except Exception as error:  # noqa: BLE001 - whatever network and browser do
            self._crawl.stats.count("render/failed")
            logger.info("%s could not be fetched a second time: %s", request.url, error)
            return None
        if isinstance(response, HtmlResponse) and 200 <= response.status < 300:
            return response
        return None

    def _links(self, response: Response) -> frozenset[int] | None:
        rules = self._crawl.rules(response)
        # which a callback would have to be called for
        if self._crawl.config.takes_items:
            rules = self._crawl.config.link_rules
        return shown_marks(response, rules).marks


def _is_ours(request: Request) -> bool:
    """Whether it is up to us if a page is rendered."""
    return not request.meta.keys() & {"playwright", "hacs_archive"}


def _is_suspicious(response: Response) -> bool:
    assert isinstance(response, HtmlResponse)  # noqa: S101 - else it is not asked
    if b"<script" not in response.body.lower():
        return False
    try:
        return bool(suspicion_of(tree_of(response)))
    except UNREADABLE:
        return False


def suspicion_of(root: etree._Element | None) -> str:
    """Return in a few words why a browser may show more links of a parsed page, "" if nothing does.

    A page without scripts is never suspected.
    """
    if root is None:
        return ""
    scripts = _files(root) * SCRIPT_FILE_CHARACTERS + sum(map(len, _script_texts(root)))
    if not scripts:
        return ""
    for element in _root(root):
        if not _has_links(element):
            return "an application's root without links"
    if any(_asks_for_scripts(text) for text in _notices(root)):
        return "a notice to those without JavaScript"
    if _links(root) < FEW_LINKS:
        text = sum(len(text.strip()) for text in _texts(root))
        if scripts > SCRIPT_SHARE * text:
            return "few links and much script"
    return ""

"""HACS_RENDER: renders the pages that need a browser, and finds out which do.

A page that looks as if a browser would show more is requested again in the browser, and, if that
shows more links, a third time: see `verdicts.shows_more`.
"""

import re
import time
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
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

# Ids of the elements that React, Vue, Next, Nuxt, Gatsby, Quasar and others render into.
ROOTS: Final = ("root", "app", "__next", "__nuxt", "___gatsby", "q-app", "svelte", "main-app")
_MARKS: Final = ("ng-app", "data-ng-app", "data-reactroot", "data-v-app", "data-server-rendered")
# With fewer links, a page's scripts may make the others.
FEW_LINKS: Final = 10
# Assumed length of scripts in files, which are not downloaded.
SCRIPT_FILE_CHARACTERS: Final = 10_000
# With more characters of script per character of text, a page has much script.
SCRIPT_SHARE: Final = 5.0

_root: Final = etree.XPath(
    "(//*[" + " or ".join(f"@id='{name}'" for name in ROOTS) + "]"
    " | //app-root | //*[" + " or ".join(f"@{name}" for name in _MARKS) + "])[1]"
)
_has_links: Final = etree.XPath("boolean(.//a[@href])")
# No "|", and no `//noscript//text()`: libxml2 joins node sets in quadratic time.
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
    """Renders pages that need a browser.

    If this code fails for a page, its visit is not recorded, since links may be missing; see
    `Part.required`.
    """

    required = True

    def __init__(self, crawl: Crawl) -> None:
        super().__init__(crawl)
        self._is_always = crawl.config.render == "always"
        self._browser = Browser(crawl)

    async def opened(self) -> None:
        """Say at the start, not at the first page that needs a browser, that there can be none."""
        if find_spec("scrapy_playwright") is None:
            await self._browser.is_there()

    async def download(
        self, request: Request, plainly: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        """Return the answer to any request of the crawl; count the seconds of rendering."""
        # not if a spider copied the meta to a request for another URL
        if request.meta.get("hacs.render") != request.url:
            return await plainly(request)
        started = time.monotonic()
        try:
            return await self._browser.render(request)
        finally:
            self._crawl.stats.count("render/seconds", time.monotonic() - started)

    async def before_request(self, request: Request, page_url: str | None) -> None:
        """Mark the request if its page must be rendered."""
        if page_url is None or not _may_render(request):
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
        """Count a rendered page; if its verdict is due for a check, fetch it the other way, too."""
        if not _may_render(request) or "cached" in response.flags:
            return response
        if rendered := is_rendered(response):
            self._crawl.stats.count_extra("render/pages", "rendered page")
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
            return await self._compared(request, response, page_url)
        return response

    def failed(self, request: Request, error: Exception, page_url: str) -> Request | None:
        """Count a failed rendering; a page that often hangs or crashes is not rendered any more.

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

    async def _compared(self, request: Request, response: Response, url: str) -> Response:
        """Fetch a page the other way, too; keep the verdict, and return the better answer."""
        rendered = is_rendered(response)
        if not rendered and not await self._browser.is_there():
            return response
        other = await self._fetched_again(request, rendered=not rendered)
        if other is None:
            # no verdict: the next visit checks again, until this has failed often
            if not rendered:
                self._on_failure(url)
            return response
        plain, first = (other, response) if rendered else (response, other)
        seen, shown = self._links(plain), self._links(first) or frozenset()
        more = frozenset() if seen is None else shown - seen
        second = await self._fetched_again(request, rendered=True) if more else None
        if more and second is None:
            self._on_failure(url)
            return response
        again = None if second is None else self._links(second)
        is_more = bool(seen is not None and again and shows_more(seen, shown, again))
        self._keep_verdict(url, Verdict.BROWSER if is_more else Verdict.PLAIN, len(more))
        return other.replace(request=request) if is_more and not rendered else response

    def _on_failure(self, url: str) -> None:
        page, site = self.records(url)
        self.keep(url, page.failed(), site)

    def _keep_verdict(self, url: str, verdict: Verdict, number: int) -> None:
        page, site_before = self.records(url)
        was_rendered = advice(page, site_before).rendered
        site = site_before.judged(page.verdict, verdict)
        self.keep(url, PageRendering(verdict), site)
        if verdict is Verdict.BROWSER and not was_rendered:
            self._crawl.stats.count("render/marked")
            logger.info(
                "A browser shows %d links on %s that the plain answer lacks: it is rendered from now on",
                number,
                url,
            )
        elif verdict is Verdict.PLAIN and was_rendered:
            self._crawl.stats.count("render/unmarked")
            logger.info("%s now shows all its links without a browser", url)
        if site.verdict is Verdict.BROWSER is not site_before.verdict:
            self._crawl.stats.count("render/sites")
            logger.info("Pages around %s need a browser: all of them are rendered from now on", url)

    async def _fetched_again(self, request: Request, *, rendered: bool) -> HtmlResponse | None:
        """Request a page once more; return the answer if it is a page."""
        again = second_request(request, request.url)
        again.meta["hacs.render"] = again.url if rendered else None
        try:
            response = await download(self._crawl.crawler, again)
        except Exception as error:  # noqa: BLE001 - any error of network or browser
            self._crawl.stats.count("render/failed")
            logger.info("%s could not be fetched a second time: %s", request.url, error)
            return None
        if isinstance(response, HtmlResponse) and 200 <= response.status < 300:
            return response
        return None

    def _links(self, response: Response) -> frozenset[int] | None:
        rules = self._crawl.rules(response)
        # items would take a call of the callback, so compare links
        if self._crawl.config.takes_items:
            rules = self._crawl.config.link_rules
        return shown_marks(response, rules).marks


def _may_render(request: Request) -> bool:
    """Whether HACS decides on rendering, and not the spider."""
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
    """Return, in a few words, why a browser may show more links; "" if not, as without scripts."""
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

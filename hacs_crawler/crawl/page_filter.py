"""HACS_PAGES: which requests are for pages if their meta does not say so."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from scrapy import Request, Spider
from scrapy.http import Response
from scrapy.linkextractors import IGNORED_EXTENSIONS
from scrapy.spiders import CSVFeedSpider, SitemapSpider, XMLFeedSpider

from hacs_crawler.config import Pages
from hacs_crawler.crawl.meta import is_start, set_is_page, tag_of
from hacs_crawler.crawl.observation import is_html
from hacs_crawler.watch import MarkRules

_LISTS: Final = ("atom", "csv", "json", "rss", "txt", "xml")
"""File types that are not pages but list some: sitemaps, feeds, robots.txt."""


class PageFilter:
    """Decides which of the scheduled requests are for pages.

    `meta["hacs"]` takes precedence. A request is marked only if it differs from the default: start
    requests are for pages, others are not.
    """

    def __init__(self, pages: Pages, spider: Spider, watch: MarkRules | None = None) -> None:
        self._pages = pages
        self._is_other_file = _other_files(watch)
        self._reads_lists = isinstance(spider, SitemapSpider | XMLFeedSpider | CSVFeedSpider)
        self._may_be_fed = hasattr(spider, "redis_key")
        self.is_needed = pages != "start" or self._reads_lists or self._may_be_fed
        """Whether requests without a tag may have to be marked."""

    def mark(self, request: Request) -> None:
        """Mark a request that is scheduled; a redirect or retry keeps its mark."""
        tag = tag_of(request)
        if tag.stage != "waiting" or request.method != "GET":
            return
        is_fed, is_page = self._is_fed(request), None
        if self._pages != "start":
            is_page = self._is_page(request)
        elif is_fed:
            is_page = True
        elif tag.listed:
            is_page = not self._is_other_file(request.url)
        elif self._reads_lists and is_start(request):
            is_page = False
        if is_fed or is_page is not tag.is_page:
            set_is_page(request, is_page, is_fed=is_fed)

    def _is_page(self, request: Request) -> bool:
        if self._pages == "all":
            is_list = self._reads_lists and is_start(request)
            return not is_list and not self._is_other_file(request.url)
        return any(pattern.search(request.url) for pattern in self._pages)  # type: ignore[union-attr]

    def _is_fed(self, request: Request) -> bool:
        """Whether a request came from an external queue, such as that of scrapy-redis's spiders.

        Such requests reach the engine when the spider is idle, not from `start()` or a callback.
        """
        is_follow_up = "depth" in request.meta or "retry_times" in request.meta
        return self._may_be_fed and not is_follow_up and not is_start(request)


def names_pages(response: Response) -> bool:
    """Whether a response is not a page but a list of pages, such as a sitemap.

    If only start requests are for pages, requests for the listed pages are treated as such.
    """
    request = response.request
    if request is None or is_html(response) or request.method != "GET":
        return False
    return is_start(request) or tag_of(request).listed


def _other_files(watch: MarkRules | None) -> Callable[[str], bool]:
    """Return a test of whether a URL names a file that cannot show any watched mark."""
    if watch is not None and not watch.answers:
        return lambda _: False
    may_show = {kind.lower() for kind in (watch.answers if watch is not None else ())}
    names = [name for name in (*IGNORED_EXTENSIONS, *_LISTS) if name not in may_show]
    ending = re.compile(rf"\.(?:{'|'.join(map(re.escape, names))})(?:\.gz)?\Z", re.IGNORECASE)
    return lambda url: ending.search(urlsplit(url).path) is not None

"""Decides which requests are for pages, and reads the output of callbacks: items may be marks."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal, Self
from urllib.parse import quote, urlsplit

from msgspec.structs import replace
from scrapy import Request, Spider
from scrapy.http import Response
from scrapy.linkextractors import IGNORED_EXTENSIONS
from scrapy.spiders import CSVFeedSpider, SitemapSpider, XMLFeedSpider

from hacs_crawler.config import Pages
from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.meta import KEY, is_start, seed_url, set_is_page, tag_of, take_over
from hacs_crawler.crawl.observation import Observation, is_html
from hacs_crawler.crawl.scrapy_internals import is_for_sitemap
from hacs_crawler.links import canonical_url, link_fingerprint, without_login
from hacs_crawler.outcome import Expected, NotObserved, Outcome
from hacs_crawler.state import Recorded
from hacs_crawler.utils.text import safe_logger
from hacs_crawler.watch import ONLY_REQUESTS, MarkRules, Rules, UnreadableMarksError

logger = safe_logger(__name__)
# An item is "known" if the page showed it before, "passed" if only a doubtful visit did, or another page
# of the site at the same moment, so that it may still count; "unread" if the answer is not the page.
Verdict = Literal["news", "passed", "known", "unread"]

# After this many consecutive visits without items, a page that had items counts as a list.
MOST_WITHOUT_ITEMS: Final = 2
# File types that list pages: sitemaps, feeds, robots.txt.
_LISTS: Final = ("atom", "csv", "json", "rss", "txt", "xml")


class PageFilter:
    """Decides by HACS_PAGES which requests are for pages; `meta["hacs"]` takes precedence.

    A request is marked only if it differs from the default: start requests are for pages, others
    are not. Patterns that match a page are added to `matched`.
    """

    def __init__(
        self, pages: Pages, spider: Spider, matched: set[str], watch: MarkRules | None = None
    ) -> None:
        self._pages = pages
        self._patterns = pages if isinstance(pages, tuple) else ()
        self._matched = matched
        self._is_other_file = _other_files(watch)
        # if a feed's entries become items, the feed itself is the watched page
        shows_items = watch is not None and not watch.answers
        self._reads_feeds = isinstance(spider, XMLFeedSpider | CSVFeedSpider) and not shows_items
        self._spider = spider
        self._may_be_fed = hasattr(spider, "redis_key")
        # Whether the spider may begin with lists that lead to pages.
        is_map = isinstance(spider, SitemapSpider)
        self.reads_lists = self._reads_feeds or is_map or bool(self._patterns)
        # Whether requests without a tag may need a mark.
        self.is_needed = pages != "start" or self.reads_lists or self._may_be_fed

    def mark(self, request: Request) -> None:
        """Mark a request that is scheduled; a redirect or retry keeps its mark."""
        tag = tag_of(request)
        if tag.stage != "waiting":
            return
        found = {pattern.pattern for pattern in self._patterns if pattern.search(request.url)}
        self._matched |= found
        if request.method != "GET":
            return
        # scrapy-redis feeds requests from its queue when the spider is idle: they come neither from
        # `start()` nor from a callback
        is_follow_up = "depth" in request.meta or "retry_times" in request.meta
        is_fed = self._may_be_fed and not is_follow_up and not is_start(request)
        is_list = (self._reads_feeds and is_start(request)) or is_for_sitemap(request, self._spider)
        is_page: bool | None = None
        if self._pages == "all":
            is_page = not is_list and not self._is_other_file(request.url)
        elif self._pages != "start":
            is_page = bool(found)
        elif is_fed:
            is_page = True
        elif is_list:
            is_page = False
        elif tag.listed:
            is_page = not self._is_other_file(request.url)
        if is_fed or is_page is not tag.is_page:
            set_is_page(request, is_page, is_fed=is_fed)


def _other_files(watch: MarkRules | None) -> Callable[[str], bool]:
    """Return a test for URLs of files that cannot show a mark, by their extension."""
    if watch is not None and not watch.answers:
        return lambda _: False
    may_show = {kind.lower() for kind in (watch.answers if watch is not None else ())}
    names = [name for name in (*IGNORED_EXTENSIONS, *_LISTS) if name not in may_show]
    ending = re.compile(rf"\.(?:{'|'.join(map(re.escape, names))})(?:\.gz)?\Z", re.IGNORECASE)
    return lambda url: ending.search(urlsplit(url).path) is not None


@dataclass(slots=True, eq=False)
class AwaitedVisit:
    """A visit that is recorded when its callback is over.

    Until then, `reported` is the value in the response's meta, and `recorded` the outcome, which holds
    unless another visit of the page is recorded. With `takes_items`, the items become the marks:
    `see` calls `shown` with each item, its marks and the `verdict_on` them.
    """

    request: Request
    response: Response
    url: str
    rules: Rules
    observation: Observation
    recorded: Recorded | None = None
    reported: Outcome | Expected | NotObserved | None = None
    takes_items: bool = False
    verdict_on: Callable[[Any, frozenset[int]], Verdict] = lambda *_: "news"
    shown: Callable[[Response, Any, frozenset[int], Verdict], None] = lambda *_: None
    is_asked_again: bool = False
    # Whether the callback yielded requests but no item.
    only_requests: bool = False
    # The pages it requested: the URL with posted data, and the page's URL.
    leads_to: dict[str, str] = field(default_factory=dict)
    marks: set[int] = field(default_factory=set)
    _problem: str = ""

    @property
    def rejected(self) -> str:
        """Why the answer was rejected as not the page, "" if it was not."""
        return "" if self.reported is None else self.reported.rejected

    def see(self, item: Any) -> None:
        """Take an item from the callback as marks of the page, unless it is not the page's.

        So an item that `OnlyChanges` drops as unread is news once its visit counts.
        """
        assert isinstance(self.rules, MarkRules)  # noqa: S101 - else items are not watched
        try:
            marks = self.rules.marks_of(item)
            verdict: Verdict = "unread" if self.rejected else self.verdict_on(item, marks)
            if verdict != "unread":
                self.marks |= marks
            self.shown(self.response, item, marks, verdict)
        except UnreadableMarksError as error:
            if not self._problem:
                logger.error("%s is not observed: %s", self.response.url, error)
            self._problem = str(error)

    def end(self, *, is_whole: bool, had_items: bool) -> Observation:
        """Return the page's observation.

        `is_whole` is False if the callback was cut short, and may have missed items. Requests
        become marks only if the page never `had_items`.
        """
        if self.rejected:
            return Observation(None, "rejected")
        if not self.takes_items or self.observation.visit is None:
            return self.observation
        if not is_whole:
            return Observation(None, "callback_failed")
        if self._problem:
            return Observation(None, "unreadable")
        # the spider retries, so it considers this answer wrong
        if self.is_asked_again and not self.marks:
            return Observation(None, "asked_again")
        visit = replace(self.observation.visit, marks=frozenset(self.marks))
        if self.only_requests and not had_items:
            links = filter(None, map(canonical_url, self.leads_to))
            if marks := frozenset(map(link_fingerprint, links)):
                visit = replace(visit, marks=marks, rules=ONLY_REQUESTS.fingerprint)
        return Observation(visit)


def _url_with_posted_data(request: Request) -> str:
    """Return the URL of a request's page, with posted data as a query."""
    url = seed_url(request)
    if not request.body or url != without_login(request.url):
        return url
    posted = quote(request.body, safe="%&+=")
    return urlsplit(url)._replace(fragment="").geturl() + ("&" if "?" in url else "?") + posted


class Output:
    """The output of one callback; the visit may wait for its items."""

    def __init__(
        self,
        response: Response,
        crawl: Crawl,
        awaited: AwaitedVisit | None,
        on_item: Callable[[Any, Verdict | None], None] | None,
        on_end: Callable[[Response, bool], None],
    ) -> None:
        self._crawl = crawl
        self._on_item = on_item
        self._awaited = awaited
        self._response = response
        self._on_end = on_end
        self._items = self._requests = 0

    def take(self, entry: Any) -> Any:
        """Count an entry of the output, and return it; requests inherit meta of parts."""
        if not isinstance(entry, Request):
            self._items += entry is not None
            if entry is None:
                return entry
            if self._awaited is not None and self._awaited.takes_items:
                self._awaited.see(entry)
            elif self._on_item is not None:
                hacs = None if self._response.request is None else self._response.meta.get("hacs")
                # outside pages every item is new
                verdict = (
                    None if self._awaited is None else self._awaited.verdict_on(entry, frozenset())
                )
                self._on_item(entry, "unread" if getattr(hacs, "rejected", "") else verdict)
            return entry
        self._requests += 1
        meta = entry.meta
        for key, value in self._inherited.items():
            meta.setdefault(key, value)
        if self._names_pages or KEY in meta:
            take_over(entry, listed=self._names_pages)
            if self._awaited is not None and tag_of(entry).stage == "again":
                self._awaited.is_asked_again = True
        # the marks of a page without items are its requests
        if self._awaited is not None and self._awaited.takes_items and not self._awaited.marks:
            self._awaited.leads_to[_url_with_posted_data(entry)] = seed_url(entry)
        return entry

    @cached_property
    def _inherited(self) -> dict[str, Any]:
        meta = {} if self._response.request is None else self._response.request.meta
        return {key: meta[key] for key in self._crawl.parts.inherited if key in meta}

    @cached_property
    def _names_pages(self) -> bool:
        """Whether the response is a list of pages, such as a sitemap, and not a page."""
        request = self._response.request
        if self._crawl.config.pages != "start" or request is None or request.method != "GET":
            return False
        return not is_html(self._response) and (is_start(request) or tag_of(request).listed)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and self._awaited is not None:
            self._awaited.only_requests = self._requests > 0 and not self._items
        self._on_end(self._response, kind is None)

"""Pages that a sitemap or a feed names and nobody has seen yet: asked for as the spider would.

How that is is clear where the rules of a `CrawlSpider` say so, or where all like pages that the source
lists were asked for in one way. What is not clear is left to the spider.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.spiders import CrawlSpider
from scrapy.utils.defer import maybe_deferred_to_future

from hacs_crawler.crawl.alike import Named, is_unseen, named_by, note_tried, pattern_of
from hacs_crawler.crawl.asked import RULES_CALLBACK, Asked, request_of, used_callbacks
from hacs_crawler.crawl.loop import sleep
from hacs_crawler.crawl.meta import followed_key
from hacs_crawler.crawl.scrapy_internals import request_by_rules
from hacs_crawler.crawl.session import Session
from hacs_crawler.links import page_id_of
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

LOOKED_AT_ONCE: Final = 20
"""So many URLs of a source are looked at before the event loop, and the next source, have their turn."""
MOST_LOOKED_AT: Final = 5_000
"""So many URLs are looked at in a run: each takes about half a millisecond with three rules."""
MOST_SOURCES: Final = 100
"""What so many sources name is kept at once."""
_OF_SESSIONS: Final = frozenset(
    {
        *("login", "logout", "log-in", "log-out", "log_in", "log_out", "logon", "logoff"),
        *("signin", "signout", "sign-in", "sign-out", "sign_in", "sign_out", "signup", "sign-up"),
        *("register", "unsubscribe", "wp-login", "wp-admin", "delete"),
    }
)
"""In paths and queries: what does something to, or for, the one who asks for it."""


class Discovery:
    """What the sources that a crawl has read name, and how it is asked for."""

    def __init__(self, crawler: Crawler, session: Session) -> None:
        self._crawler = crawler
        self._session = session
        self._named: list[Named] = []
        self._callbacks: frozenset[str] = frozenset()
        self._has_said_failure = False

    async def note(self, origin: str, pages: Mapping[str, int]) -> None:
        """Note what a source of a host names; see `signals.OnRead`."""
        session = self._session
        if pages and len(self._named) < MOST_SOURCES:
            name, now = session.spider_name, session.clock()
            found = await session.pages.once(named_by, name, origin, pages, now)
            if found.urls:
                self._named.append(found)

    async def requests(self, most: int) -> list[Request]:
        """Return requests for pages that were never seen, `most` of them, from all sources in turn.

        What was noted is forgotten. Raises StateError.
        """
        session, named, self._named = self._session, self._named, []
        if not named:
            return []
        self._callbacks = await session.pages.patiently(used_callbacks, session.spider_name)
        chosen: dict[int, Request] = {}
        tried: dict[str, list[int]] = {}
        waiting = deque((one, deque(one.urls)) for one in named)
        looked_at = 0
        while waiting and len(chosen) < most and looked_at < MOST_LOOKED_AT:
            one, urls = waiting.popleft()
            for _ in range(min(LOOKED_AT_ONCE, len(urls))):
                url = urls.popleft()
                looked_at += 1
                request = await self._request(one, url)
                page_id = None if request is None else followed_key(request)
                if request is None or page_id is None or page_id in chosen:
                    continue
                chosen[page_id] = request
                tried.setdefault(one.origin, []).append(page_id_of(url))
                break
            if urls:
                waiting.append((one, urls))
            await maybe_deferred_to_future(sleep(0))
        for origin, page_ids in tried.items():
            now = session.clock()
            await session.pages.patiently(note_tried, session.spider_name, origin, page_ids, now)
        for request in chosen.values():
            request.meta.update(hacs_seed=True, hacs_revisit=True, hacs_page=request.url)
            request.meta["hacs_host"] = urlsplit(request.url).netloc.lower()
            request.meta.setdefault("depth", 1)
        if chosen:
            session.stats.count("signals/discovered", len(chosen))
        return list(chosen.values())

    async def _request(self, named: Named, url: str) -> Request | None:
        """Return the request for a page that a source names; None where it is not to be asked for."""
        spider, care = self._crawler.spider, self._session.care
        if spider is None or care is None or not _may_be_asked(url, spider):
            return None
        way = named.ways.get(pattern_of(url))
        if isinstance(spider, CrawlSpider):
            request = self._by_rules(spider, url, way)
        elif way is not None and {way.callback, way.errback} <= self._callbacks:
            request = request_of(replace(way, url=url), spider)
        else:
            request = None
        if not isinstance(request, Request):  # a rule's function may return anything
            return None
        if request.method != "GET" or not _is_on(request.url, named.origin):
            return None
        if request.url != url:  # a rule has changed it
            if not _may_be_asked(request.url, spider):
                return None
            if not await self._session.pages.patiently(is_unseen, page_id_of(request.url)):
                return None
        care.note(request, spider)
        return request

    def _by_rules(self, spider: CrawlSpider, url: str, way: Asked | None) -> Request | None:
        rule = (
            None if way is None or way.callback != RULES_CALLBACK else (way.meta or {}).get("rule")
        )
        try:
            return request_by_rules(spider, url, rule)
        except Exception as error:  # noqa: BLE001 - a rule's functions are the user's own code
            if not self._has_said_failure:
                self._has_said_failure = True
                logger.warning(
                    "%s, which a sitemap or feed names, is not asked for, nor is what fails likewise: "
                    "a rule of the spider %s failed for a link to it: %r",
                    url,
                    spider.name,
                    error,
                )
            return None


def _may_be_asked(url: str, spider: Spider) -> bool:
    """Whether a spider may ask for a URL by itself: it is in its domains, and is for no session."""
    parts = urlsplit(url)
    host, domains = parts.hostname or "", getattr(spider, "allowed_domains", None) or ()
    is_inside = not domains or any(f".{host}".endswith(f".{one}".lower()) for one in domains)
    words = [word.partition(".")[0] for word in re.split("[/;]", parts.path.lower())]
    for pair in parse_qsl(parts.query.lower(), keep_blank_values=True):
        words += pair
    return is_inside and _OF_SESSIONS.isdisjoint(words)


def _is_on(url: str, origin: str) -> bool:
    return urlsplit(url).netloc.lower() == urlsplit(origin).netloc.lower()

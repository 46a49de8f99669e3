"""Control visits: a page is asked a second time at once, and what differs then no time brought.

See `ranking.controls` for which pages. The second request is the first one as it was sent, with its
cookies and without anything the first answer set: as different requests of different runs are. It goes
through the project's downloader middlewares, its robots.txt and its delays, and no callback sees it.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import DontCloseSpider
from scrapy.http import HtmlResponse, Response
from scrapy.utils.defer import maybe_deferred_to_future

from hacs_crawler.crawl.loop import begin, sleep
from hacs_crawler.crawl.meta import is_to_be_rendered, mark_to_render, second_request
from hacs_crawler.crawl.observation import observe, tree_of
from hacs_crawler.crawl.scrapy_internals import download, is_closing
from hacs_crawler.crawl.session import Session
from hacs_crawler.exceptions import StateError
from hacs_crawler.links import LinkRules, Varying, counted_links, host_of, link_fingerprint
from hacs_crawler.state import Recorded, learn_varying
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

PAUSE_SECONDS: Final = 1.0
"""Visits have whole seconds; and what a server makes of its clock differs from one to the next."""


class Controls:
    """Makes the control visits of a crawl, which stays open for them."""

    def __init__(self, crawler: Crawler, session: Session) -> None:
        self._crawler = crawler
        self._session = session
        self._under_way = 0
        crawler.signals.connect(self._stay_open, signals.spider_idle)

    def begin(self, request: Request, response: Response, first: Recorded) -> None:
        """Ask a second time for a page that a first request has just shown."""
        links, again = _counted(response, self._rules()), _again(request)
        self._begin(self._visit(again, links, first))

    def check(self, request: Request, first: Recorded) -> None:
        """Ask without conditions for a page of which the host has just said that it had not changed."""
        self._session.allowance.made += 1
        self._begin(self._check(_again(request), first))

    def _begin(self, visit: Coroutine[Any, Any, None]) -> None:
        """Begin a control visit, for which the crawl stays open."""
        self._under_way += 1

        def end(result: object) -> object:
            self._under_way -= 1
            return result

        begin(visit).addBoth(end)

    async def _check(self, request: Request, first: Recorded) -> None:
        found = await self._second(request, first)
        if found is not None:
            was_right = not found[0].updated
            await self._session.validators.note(request.url, was_right=was_right)
            if was_right:
                self._session.stats.count("controls/confirmed")
            else:
                self._session.stats.count("controls/contradicted")

    async def _visit(self, request: Request, links: frozenset[str], first: Recorded) -> None:
        found = await self._second(request, first)
        if found is not None and found[0].updated:
            self._session.stats.count("controls/differed")
            second = _counted(found[1], self._rules())
            await self._learn(host_of(found[1].url), links, second, first)

    async def _second(self, request: Request, first: Recorded) -> tuple[Recorded, Response] | None:
        """Visit the page of a first visit again; None where that told nothing."""
        session, url = self._session, first.visit.url
        await maybe_deferred_to_future(sleep(PAUSE_SECONDS))
        if not session.is_open or is_closing(self._crawler):
            return None
        try:
            response = await download(self._crawler, request)
        except Exception as error:  # noqa: BLE001 - whatever the network does
            session.stats.count("controls/failed")
            logger.debug("No control visit of %s: %r", url, error)
            return None
        if session.failure is not None:
            return None
        session.read_ahead.claim(url)
        await session.read_ahead.ready(url)
        at = max(int(session.clock()), first.visit.at + 1)
        visit, reason = observe(response, url, at, session.link_rules(response.url))
        if visit is None or reason or visit.links is None:
            session.read_ahead.drop(url)
            session.stats.count("controls/failed")
            return None
        session.stats.count("controls")
        return session.write_behind.record(visit), response

    async def _learn(
        self, host: str, links: frozenset[str], others: frozenset[str], first: Recorded
    ) -> None:
        """Find out which parts of the links change with every request."""
        session = self._session
        known = set(first.before.links)

        def is_known(link: str) -> bool:
            return link_fingerprint(link) in known

        try:
            varying = await session.state.once(learn_varying, host, links, others, is_known)
        except StateError as error:
            logger.warning("What changes in the links of %s was not kept: %s", host, error)
            return
        if varying.parts != session.varying.get(host, Varying(host)).parts:
            logger.info(
                "Links of %s change with every request, as seen on %s: from now on %s is left out of "
                "them (`hacs forget %s` undoes it)",
                host,
                first.visit.url,
                ", ".join(map(str, sorted(varying.parts))),
                host,
            )
            session.varying[host] = varying

    def _rules(self) -> LinkRules:
        assert self._session.config is not None  # noqa: S101 - the session is open
        return self._session.config.link_rules

    def _stay_open(self) -> None:
        if self._under_way and self._session.failure is None:
            raise DontCloseSpider


def _counted(response: Response, rules: LinkRules) -> frozenset[str]:
    """Return the canonical links of a page that was observed."""
    assert isinstance(response, HtmlResponse)  # noqa: S101 - else it would not have been
    return frozenset(counted_links(tree_of(response), response.url, rules))


def _again(first: Request) -> Request:
    """Return the request for a page once more, as it was before any redirect.

    Cookies that the first answer set would have the server show again what it showed then.
    """
    url = (first.meta.get("redirect_urls") or [first.url])[0]
    again = second_request(first, url, hacs_beside=True)
    if is_to_be_rendered(first):
        mark_to_render(again)
    return again

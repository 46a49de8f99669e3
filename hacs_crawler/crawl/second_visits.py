"""Second visits: a page that was just visited is fetched again, by a request that no callback sees.

It is the first request as it was sent, with its cookies and without anything the first answer set: as
different requests of different runs are. It goes through the project's downloader middlewares, its
robots.txt and its delays.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, Final

from scrapy import Request
from scrapy.http import Response
from scrapy.utils.defer import maybe_deferred_to_future

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.meta import BESIDE, second_request
from hacs_crawler.crawl.observation import observe
from hacs_crawler.crawl.scrapy_internals import download, is_closing
from hacs_crawler.state import Recorded
from hacs_crawler.utils.loop import begin, sleep
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

PAUSE_SECONDS: Final = 1.0
"""Visits are timed in whole seconds, and a page may show the second of its answer."""


class SecondVisits:
    """Visits pages again that were just visited; counted in `hacs/controls`."""

    def __init__(self, crawl: Crawl) -> None:
        self._crawl = crawl
        self.under_way = 0
        """How many there are at the moment."""

    def begin(
        self,
        request: Request,
        first: Recorded,
        then: Callable[[Recorded, Response], Coroutine[Any, Any, None]],
    ) -> None:
        """Visit a page again, and call `then` with the result, if the page was seen.

        Where items are watched, nothing is sent: the callback is not called twice.
        """
        if self._crawl.config.takes_items:
            return
        again = _again(request)  # before the callback can change it
        self.under_way += 1

        async def visit_again() -> None:
            visited = await self._visit(again, first)
            if visited is not None:
                await then(*visited)

        def end(result: object) -> object:
            self.under_way -= 1
            return result

        begin(visit_again()).addBoth(end)

    async def _visit(self, request: Request, first: Recorded) -> tuple[Recorded, Response] | None:
        crawl, url = self._crawl, first.visit.url
        await maybe_deferred_to_future(sleep(PAUSE_SECONDS))
        if not crawl.is_open or is_closing(crawl.crawler):
            return None
        try:
            response = await download(crawl.crawler, request)
        except Exception as error:  # noqa: BLE001 - whatever the network does
            crawl.stats.count("controls/failed")
            logger.debug("No control visit of %s: %r", url, error)
            return None
        if crawl.failure is not None:
            return None
        crawl.state.read_ahead.claim(url)
        await crawl.state.read_ahead.ready(url)
        at = max(int(crawl.clock()), first.visit.at + 1)
        visit, reason = observe(response, url, at, crawl.rules(response), known=first.after)
        if visit is None or reason or visit.marks is None:
            crawl.state.read_ahead.drop(url)
            crawl.stats.count("controls/failed")
            return None
        crawl.stats.count_beside("controls", "control visit")
        return crawl.state.write_behind.record(visit), response


def _again(first: Request) -> Request:
    """Return a second request for a page, as it was before any redirect.

    With cookies of the first answer the server would show again the content that it showed then.
    """
    url = (first.meta.get("redirect_urls") or [first.url])[0]
    return second_request(first, url, **BESIDE)

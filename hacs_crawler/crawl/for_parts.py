"""Base classes and helpers for parts: access to the crawl, delayed writes, and control visits."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, ClassVar, Final, Generic, Self, TypeVar

from scrapy import Request
from scrapy.http import Response
from scrapy.utils.defer import maybe_deferred_to_future

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.meta import UNSCHEDULED, second_request
from hacs_crawler.crawl.observation import observe
from hacs_crawler.crawl.part import Part
from hacs_crawler.crawl.scrapy_internals import download, is_closing, wake
from hacs_crawler.exceptions import StateError
from hacs_crawler.state import Recorded, State
from hacs_crawler.utils.loop import begin, sleep
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)
T = TypeVar("T")
# Pause before a control visit. Visits are timed in whole seconds, and a page may show the time.
PAUSE_SECONDS: Final = 1.0


class CrawlPart(Part):
    """A part that uses its crawl."""

    def __init__(self, crawl: Crawl) -> None:
        self._crawl = crawl

    @classmethod
    def from_crawl(cls, crawl: Crawl) -> Self | None:
        """Make the part; None if it is off."""
        return cls(crawl)


class PageWriter(CrawlPart, Generic[T]):
    """A part that gathers data by page id in `unwritten`, and writes them after the visits."""

    # The data's name in log lines, such as "the fields of items".
    content: ClassVar[str]

    def __init__(self, crawl: Crawl) -> None:
        super().__init__(crawl)
        self.unwritten: dict[int, T] = {}

    def write(self, state: State, unwritten: Mapping[int, T]) -> None:
        """Write the gathered data. Called in the state's thread; may raise StateError."""
        raise NotImplementedError

    def recorded(self, batch: Sequence[Recorded]) -> None:
        """Write the data gathered so far."""
        if self.unwritten:
            begin(self._write())

    async def closing(self) -> None:
        """Write the rest."""
        await self._write()

    async def _write(self) -> None:
        unwritten, self.unwritten = self.unwritten, {}
        if not unwritten:
            return
        try:
            await self._crawl.state.once(self.write, unwritten)
        except StateError as error:
            self._crawl.state.on_error(error)
            logger.warning(
                "Of %d pages, %s could not be written: %s", len(unwritten), self.content, error
            )


class SecondVisits:
    """Makes control visits, counted in `hacs/controls`.

    No callback sees the second request. Downloader middlewares, robots.txt and delays apply to it. It
    does not carry cookies that the first answer set: with them, a server may repeat that content.
    """

    def __init__(self, crawl: Crawl) -> None:
        self._crawl = crawl
        # Number of control visits in progress.
        self.under_way = 0

    def begin(
        self,
        request: Request,
        first: Recorded,
        then: Callable[[Recorded, Response], Coroutine[Any, Any, None]],
    ) -> None:
        """Visit a page again, and call `then` with the result if the page was seen.

        If items are watched, nothing is sent: the callback would have to run twice.
        """
        if self._crawl.config.takes_items:
            return
        url = (request.meta.get("redirect_urls") or [request.url])[0]
        # copied now, before the callback can change the request
        again = second_request(request, url, **UNSCHEDULED)
        self.under_way += 1

        async def visit_again() -> None:
            visited = await self._visit(again, first)
            if visited is not None:
                await then(*visited)

        def end(result: object) -> object:
            self.under_way -= 1
            wake(self._crawl.crawler)  # the crawl may end
            return result

        begin(visit_again()).addBoth(end)

    async def _visit(self, request: Request, first: Recorded) -> tuple[Recorded, Response] | None:
        crawl, url = self._crawl, first.visit.url
        await maybe_deferred_to_future(sleep(PAUSE_SECONDS))
        if not crawl.is_open or is_closing(crawl.crawler):
            return None
        try:
            response = await download(crawl.crawler, request)
        except Exception as error:  # noqa: BLE001 - any error of the network
            crawl.stats.count("controls/failed")
            logger.debug("No control visit of %s: %r", url, error)
            return None
        if crawl.failure is not None:
            return None
        crawl.state.read_ahead.claim(url)
        await crawl.state.read_ahead.ready(url)
        at = max(int(crawl.clock()), first.visit.at + 1)
        visit, reason = observe(response, url, at, crawl.rules(response), page=first.after)
        if visit is None or reason or visit.marks is None:
            crawl.state.read_ahead.drop(url)
            crawl.stats.count("controls/failed")
            return None
        crawl.stats.count_extra("controls", "control visit")
        return crawl.state.write_behind.record(visit), response

"""Parts of a crawl without a crawl: Scrapy's own downloader, and timers, moved by the test."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

from scrapy import Request, Spider, signals
from scrapy.core.downloader import Downloader, Slot
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.test import get_crawler
from twisted.internet.defer import Deferred

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.part import Observed
from hacs_crawler.crawl.scheduler import HacsScheduler
from hacs_crawler.state import Page, Prediction, Visit, merged

PREDICTION = Prediction(label=1, run=2, p=0.5, rate_per_day=1.0, days_since_visit=1.0, churn=0.0)
T = TypeVar("T")


class Any_(Spider):  # noqa: N801 - a spider of somebody's
    name = "any"


def new_crawler(spider: type[Spider] = Spider, **settings: Any) -> Crawler:
    """A crawler of any spider, without extensions and downloader middlewares."""
    crawler = get_crawler(
        spider, {"EXTENSIONS_BASE": {}, "DOWNLOADER_MIDDLEWARES_BASE": {}, **settings}
    )
    crawler.spider = crawler._create_spider("any")
    return crawler


class UnderWay:
    """Scrapy's own downloader, in which requests are under way from `begin` to `end`."""

    def __init__(self, crawler: Crawler | None = None, *, concurrency: int = 1) -> None:
        self.crawler = crawler or new_crawler()
        self._concurrency = concurrency
        self._downloader = Downloader(self.crawler)
        self.crawler.engine = SimpleNamespace(
            downloader=self._downloader,
            _slot=None,
            scraper=SimpleNamespace(slot=None, start_itemproc_async=None),
        )

    def clear(self) -> None:
        self._downloader.active.clear()
        self._downloader.slots.clear()

    def begin(self, request: Request) -> None:
        self._downloader.active.add(request)
        slot = self._downloader.get_slot_key(request)
        self._downloader.slots.setdefault(slot, Slot(self._concurrency, 0.0, 0))

    def end(self, request: Request) -> None:
        self._downloader.active.remove(request)


class Timers:
    """What is to happen later, which happens when a test lets time go on."""

    def __init__(self) -> None:
        self.now = 0.0
        self._calls: list[tuple[float, int, Callable[[], object]]] = []
        self._number = 0

    def clock(self) -> float:
        return self.now

    @property
    def waiting(self) -> list[float]:
        return sorted(at - self.now for at, _, _ in self._calls)

    def call_later(self, seconds: float, function: Callable[[], object]) -> Callable[[], object]:
        """As in `hacs_crawler.utils.loop`."""
        self._number += 1
        call = (self.now + seconds, self._number, function)
        self._calls.append(call)
        return lambda: self._calls.remove(call) if call in self._calls else None

    def sleep(self, seconds: float) -> Deferred[None]:
        """As in `hacs_crawler.utils.loop`."""
        deferred = Deferred[None]()
        self.call_later(seconds, lambda: deferred.callback(None))
        return deferred

    def go_on(self, seconds: float) -> None:
        """Let so much time pass, and what is due happen in its order."""
        until = self.now + seconds
        while due := sorted(call for call in self._calls if call[0] <= until):
            self._calls.remove(due[0])
            self.now = max(self.now, due[0][0])
            due[0][2]()
        self.now = until


def run(scenario: Coroutine[Any, Any, T]) -> T:
    """Run a test's coroutine; what never ends fails."""

    async def guarded() -> T:
        async with asyncio.timeout(60):
            return await scenario

    return asyncio.run(guarded())


def new_crawl(folder: Path, spider: type[Spider] = Any_, **settings: Any) -> Crawl:
    """A crawl that is under way, with its scheduler and the state of a folder, not open yet."""
    given = {"HACS_STATE": f"sqlite:///{folder}/state.db", **settings}
    under_way = UnderWay(new_crawler(spider, **given))
    engine: Any = under_way.crawler.engine
    engine._slot = SimpleNamespace(closing=None, nextcall=SimpleNamespace(schedule=lambda: None))
    HacsScheduler.from_crawler(under_way.crawler)
    return Crawl.of(under_way.crawler)


@asynccontextmanager
async def open_crawl(
    folder: Path, spider: type[Spider] = Any_, **settings: Any
) -> AsyncIterator[Crawl]:
    """A crawl whose state is open, and closed in the end."""
    crawl = new_crawl(folder, spider, **settings)
    await crawl.open()
    assert crawl.failure is None
    yield crawl
    await close(crawl)


async def close(crawl: Crawl, reason: str = "finished") -> None:
    """Close a crawl as Scrapy's engine does."""
    manager, given = crawl.crawler.signals, {"spider": crawl.crawler.spider, "reason": reason}
    if hasattr(manager, "send_catch_log_async"):  # Scrapy 2.14
        await manager.send_catch_log_async(signals.spider_closed, **given)
    else:
        await maybe_deferred_to_future(
            manager.send_catch_log_deferred(signals.spider_closed, **given)
        )


def observed(visit: Visit, reason: str = "", response: Response | None = None) -> Observed:
    """What parts are given of a page's first visit."""
    recorded = merged(Page(visit.url), visit)
    return Observed(Request(visit.url), response or Response(visit.url), recorded, reason)


async def settled() -> None:
    """Return when coroutines have gone on as far as they can without time, thread or network."""
    for _ in range(20):
        await asyncio.sleep(0)

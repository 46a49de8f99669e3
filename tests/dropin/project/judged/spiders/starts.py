"""What `start()` may do."""

import asyncio
from typing import Any

from scrapy import Request, Spider, signals
from scrapy.exceptions import DontCloseSpider
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

from ..base import FIVE, Row, facts, rows, through, url, urls


class DefaultStart(Row):
    """Scrapy's own start(), which filters nothing."""

    start_urls = urls(*FIVE, "/1")

    async def start(self) -> Any:
        async for one in super(Row, self).start():
            yield one


class StartRaisesAtOnce(Row):
    async def start(self) -> Any:
        raise ValueError("at once")
        yield


class StartRaisesAfterSome(Row):
    async def start(self) -> Any:
        for path in FIVE:
            yield self.page(path)
        raise ValueError("after five")


class _Ends:
    """A middleware after three seeds; what it does then is `end`."""

    async def process_start(self, start: Any) -> Any:
        number = 0
        async for one in start:
            yield one
            number += 1
            if number == 3:
                await self.end(start)
                return

    async def end(self, start: Any) -> None:
        pass


class CutsShort(_Ends):
    pass


class Closes(_Ends):
    async def end(self, start: Any) -> None:
        await start.aclose()


class Raises(_Ends):
    async def end(self, start: Any) -> None:
        raise ValueError("enough")


class Drops:
    async def process_start(self, start: Any) -> Any:
        async for one in start:
            if not one.url.endswith(("1", "4")):
                yield one


class Adds:
    async def process_start(self, start: Any) -> Any:
        yield Request(url("/before"))
        async for one in start:
            yield one
            yield Request(one.url + "/more", priority=one.priority)
        yield Request(url("/after"))


class Collects:
    """Takes all of start() before it yields the first."""

    async def process_start(self, start: Any) -> Any:
        for one in reversed([one async for one in start]):
            yield one


class ReadsAhead:
    """Reads start() in a task of its own."""

    async def process_start(self, start: Any) -> Any:
        queue: asyncio.Queue[Any] = asyncio.Queue()

        async def read() -> None:
            async for one in start:
                queue.put_nowait(one)
            queue.put_nowait(None)

        reading = asyncio.ensure_future(read())
        while (one := await queue.get()) is not None:
            yield one
        await reading


rows(
    globals(),
    Row,
    StartUrls={"start_urls": urls(*FIVE), "visits": 5},
    NoStart={},
    BadUrlAmongStartUrls={"start_urls": [*urls("/1", "/2"), "no scheme", url("/3")]},
    ManySeeds={
        "start_urls": urls(*(f"/{number}" for number in range(150))),
        "custom_settings": {"LOG_LEVEL": "INFO"},
    },
    CutShortNearTheEngine=through(CutsShort, 10),
    CutShortNearTheSpider=through(CutsShort, 900),
    ClosedNearTheEngine=through(Closes, 10),
    ClosedNearTheSpider=through(Closes, 900),
    MiddlewareRaisesNearTheEngine=through(Raises, 10),
    MiddlewareRaisesNearTheSpider=through(Raises, 900),
    MiddlewareDropsSeeds=through(Drops, 10),
    MiddlewareAddsSeeds=through(Adds, 10),
    MiddlewareCollectsSeeds=through(Collects, 10),
    MiddlewareReadsAheadNearTheEngine=through(ReadsAhead, 10),
    MiddlewareReadsAheadNearTheSpider=through(ReadsAhead, 900),
)


class WaitsForItsCallback(Row):
    async def start(self) -> Any:
        for path in ("/1", "/2"):
            self.has_come = asyncio.Event()
            yield self.page(path)
            await self.has_come.wait()
        yield self.page("/3")

    def parse(self, response: Any) -> Any:
        self.has_come.set()
        yield facts(response)


class SlowSource(Row):
    """What came before its end is fetched before its end."""

    pause = 0.4

    async def start(self) -> Any:
        self.number = 0
        for path in FIVE:
            yield self.page(path)
            await asyncio.sleep(self.pause)
        yield {"fetched before the end": self.number > 0}

    def parse(self, response: Any) -> Any:
        self.number += 1
        yield facts(response)


class WaitsOnSchedulerEmpty(Row):
    async def start(self) -> Any:
        for first in (0, 3, 6):
            for number in range(first, first + 3):
                yield self.page(f"/{number}")
            await self.crawler.signals.wait_for(signals.scheduler_empty)


class NeverYields(Row):
    custom_settings = {"CLOSESPIDER_TIMEOUT": 1}

    async def start(self) -> Any:
        await asyncio.Event().wait()
        yield


class ItemsFromStart(Row):
    async def start(self) -> Any:
        for path in FIVE:
            yield {"item": path}
            yield self.page(path)
        yield {"item": "last"}


class OnlyItemsFromStart(Row):
    async def start(self) -> Any:
        yield {"item": 1}
        yield {"item": 2}


class OldStartRequests(Row):
    """As Scrapy's documentation has it for spiders that run on Scrapy before 2.13 too."""

    async def start(self) -> Any:
        for one in self.start_requests():
            yield one

    def start_requests(self) -> Any:
        for path in FIVE:
            yield self.page(path)


class RequestsOnIdle(Row):
    """As spiders that read a queue do, scrapy-redis's for one."""

    left = list(FIVE)

    def spider_idle(self) -> None:
        if self.left:
            self.crawler.engine.crawl(self.page(self.left.pop()))
            raise DontCloseSpider


class RequestsWhileStarting(Row):
    """Hands the engine a request in the middle of start()."""

    async def start(self) -> Any:
        yield self.page("/1")
        self.crawler.engine.crawl(self.page("/2"))
        yield self.page("/3")


class Pauses(Row):
    """Pauses the engine in a callback, and goes on a little later."""

    start_urls = urls(*FIVE)

    def parse(self, response: Any) -> Any:
        if response.url.endswith("1"):
            self.crawler.engine.pause()
            asyncio.get_running_loop().call_later(0.2, self.crawler.engine.unpause)
        yield facts(response)


class OnlyStartRequests(Row):
    """Scrapy before 2.19 calls it, with a warning; the newest does not know it."""

    start = Spider.start

    def start_requests(self) -> Any:
        for path in FIVE:
            yield self.page(path)


class CleansUp(Row):
    """A start() that is ended by the end of the crawl still gets to its finally."""

    custom_settings = {"CLOSESPIDER_ITEMCOUNT": 3}
    is_endless = True

    async def start(self) -> Any:
        try:
            while True:
                yield self.page("/1", dont_filter=True)
                await asyncio.sleep(0.05)
        finally:
            self.logger.warning("cleaned up")


class RequestsOnOpening(Row):
    """Hands the engine requests before start() is read."""

    start_urls = urls("/1", "/2")

    async def spider_opened(self) -> None:
        self.crawler.engine.crawl(self.page("/first"))
        await asyncio.sleep(0.05)
        self.crawler.engine.crawl(self.page("/second"))


class SameObjectTwice(WaitsForItsCallback):
    async def start(self) -> Any:
        request = self.page("/1", dont_filter=True)
        for _ in range(2):
            self.has_come = asyncio.Event()
            yield request
            await self.has_come.wait()
            while self.crawler.engine._slot.inprogress:  # Scrapy 2.13 does not count it twice
                await asyncio.sleep(0)


class OwnRequest(Request):
    pass


class KeepsItsRequests(Row):
    """The request of a response is the very one that start() yielded."""

    async def start(self) -> Any:
        self.own = [OwnRequest(url(path)) for path in FIVE]
        for one in self.own:
            yield one

    def parse(self, response: Any) -> Any:
        is_own = any(response.request is one for one in self.own)
        yield {"own": is_own, "class": type(response.request).__name__}


class LooksAtTheScheduler(Row):
    """Asks Scrapy's scheduler how much it has, as extensions do."""

    custom_settings = {"CONCURRENT_REQUESTS": 1}
    start_urls = urls(*FIVE)

    def parse(self, response: Any) -> Any:
        scheduler = self.crawler.engine._slot.scheduler
        yield {
            "is known": len(scheduler) <= len(FIVE),
            "more": bool(scheduler.has_pending_requests),
        }


class SlowToTakeIn(Row):
    """The scraper is full most of the time, so the engine backs out."""

    custom_settings = {"SCRAPER_SLOT_MAX_ACTIVE_SIZE": 1, "CONCURRENT_REQUESTS": 2}
    start_urls = urls(*FIVE)

    async def parse(self, response: Any) -> Any:
        await asyncio.sleep(0.05)
        yield facts(response)


class WithoutAsyncio(Row):
    """Twisted's own reactor: start() waits for a Deferred."""

    is_alone = True
    runs = (("-s", "TWISTED_REACTOR=twisted.internet.selectreactor.SelectReactor"),)

    async def start(self) -> Any:
        from twisted.internet import reactor

        self.has_come: Deferred[None] = Deferred()
        yield self.page("/1")
        await self.has_come
        yield self.page("/2")
        await deferLater(reactor, 0.3, lambda: None)
        yield self.page("/3")

    def parse(self, response: Any) -> Any:
        if not self.has_come.called:
            self.has_come.callback(None)
        yield facts(response)

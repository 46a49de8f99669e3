"""Whatever closes a spider, while its `start()` yields items and requests, waits, or is over."""

import asyncio
import os
import signal
from typing import Any, ClassVar

from scrapy.exceptions import CloseSpider

from ..base import Judged, Row, facts, rows

MANY = 19


class Closed(Judged):
    """Closed by what happens at a `moment`, or by a setting."""

    is_endless = True
    moment: ClassVar[str] = ""
    is_raised: ClassVar[bool] = True
    """Whether CloseSpider is raised; else the engine is asked."""

    async def start(self) -> Any:
        """Yield items and requests in turn."""
        for number in range(MANY):
            yield {"item": number}
            yield self.page(f"/{number}")
            if number == 3:
                self.at("start")

    def parse(self, response: Any) -> Any:
        self.at("callback")
        yield facts(response)

    def at(self, moment: str) -> None:
        if moment == self.moment:
            self.close()

    def item_scraped(self) -> None:
        self.at("item_scraped")

    def request_scheduled(self) -> None:
        self.at("request_scheduled")

    def spider_idle(self) -> None:
        self.at("spider_idle")

    def close(self) -> None:
        engine = self.crawler.engine
        if self.is_raised:
            raise CloseSpider("enough")
        if hasattr(engine, "close_spider_async"):
            self.closing = asyncio.ensure_future(engine.close_spider_async(reason="enough"))
        else:
            engine.close_spider(self, "enough")


class Waits(Closed):
    """Waits for ever after two requests."""

    async def start(self) -> Any:
        for number in range(2):
            yield self.page(f"/{number}")
        self.at("start")
        await asyncio.Event().wait()


class IsOver(Closed):
    async def start(self) -> Any:
        for number in range(MANY):
            yield self.page(f"/{number}")


class CountsErrors(Closed, Row):
    since = (2, 14)  # 2.13 calls back for more answers once it closes
    custom_settings = {"CLOSESPIDER_ERRORCOUNT": 1, "CONCURRENT_REQUESTS": 1}

    def parse(self, response: Any) -> None:
        raise ValueError("on purpose")


class RaisesInErrback(Closed, Row):
    def page(self, path: str, host: int = 1, **kwargs: Any) -> Any:
        return super().page(f"/status/404?{path[1:]}", host, **kwargs)

    def failed(self, failure: Any) -> Any:
        self.close()
        yield


class RaisesInOutput:
    def process_spider_output(self, response: Any, result: Any) -> Any:
        yield from result
        raise CloseSpider("enough")

    async def process_spider_output_async(self, response: Any, result: Any) -> Any:
        async for entry in result:
            yield entry
        raise CloseSpider("enough")


class SlowPipeline:
    """Closes the spider while it has an item."""

    @classmethod
    def from_crawler(cls, crawler: Any) -> Any:
        pipeline = cls()
        pipeline.crawler = crawler
        return pipeline

    async def process_item(self, item: Any) -> Any:
        self.crawler.spider.at("pipeline")
        await asyncio.sleep(0.02)
        return item


def shows_nothing(spider: Closed, response: Any) -> None:
    """A callback without items."""


rows(
    globals(),
    Closed,
    Row,
    CountsItems={"custom_settings": {"CLOSESPIDER_ITEMCOUNT": 2}},
    CountsPages={"custom_settings": {"CLOSESPIDER_PAGECOUNT": 2}},
    RaisesInStart={"moment": "start"},
    RaisesInCallback={"moment": "callback"},
    RaisesInMiddleware={"custom_settings": {"SPIDER_MIDDLEWARES": {RaisesInOutput: 100}}},
    RaisesInMiddlewareNearTheSpider={
        "custom_settings": {"SPIDER_MIDDLEWARES": {RaisesInOutput: 900}}
    },
    AskedInStart={"moment": "start", "is_raised": False},
    AskedInCallback={"moment": "callback", "is_raised": False},
    # the engine of 2.13 fails if it closes here
    AskedOnRequest={"moment": "request_scheduled", "is_raised": False, "since": (2, 14)},
)
rows(
    globals(),
    Waits,
    Row,
    CountsPagesWhileItWaits={"custom_settings": {"CLOSESPIDER_PAGECOUNT": 2}},
    CountsSecondsWithoutItems={
        "custom_settings": {"CLOSESPIDER_TIMEOUT_NO_ITEM": 1},
        "parse": shows_nothing,
    },
    RaisesInCallbackWhileItWaits={"moment": "callback"},
    AskedInStartThatWaits={"moment": "start", "is_raised": False},
)
rows(
    globals(),
    IsOver,
    Row,
    CountsItemsLate={"custom_settings": {"CLOSESPIDER_ITEMCOUNT": 2}},
    CountsPagesWithoutItems={
        "custom_settings": {"CLOSESPIDER_PAGECOUNT_NO_ITEM": 2},
        "parse": shows_nothing,
    },
    RaisesOnIdle={"moment": "spider_idle", "is_endless": False},
    AskedOnItem={"moment": "item_scraped", "is_raised": False},
    AskedInPipeline={
        "moment": "pipeline",
        "is_raised": False,
        "custom_settings": {"ITEM_PIPELINES": {SlowPipeline: 1}},
    },
)


class Interrupted(Closed, Row):
    is_alone = True
    moment = "callback"
    is_told = False

    def close(self) -> None:
        if not self.is_told:  # as Ctrl-C twice would kill it
            self.is_told = True
            os.kill(os.getpid(), signal.SIGINT)


class Terminated(Waits, Row):
    is_alone = True
    moment = "start"

    def close(self) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

"""Spiders of the ways in which requests come and are handled: each class is a kind."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from scrapy import FormRequest, Request, Spider, signals
from scrapy.exceptions import CloseSpider, DontCloseSpider
from scrapy.http import JsonResponse, Response, TextResponse
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule, SitemapSpider, XMLFeedSpider
from twisted.python.failure import Failure


class ScenarioError(Exception):
    """What a spider raises on purpose."""


class Plain(Spider):
    """Knows the `urls` of all pages of the scenario; tells the witness of errbacks."""

    name = "fuzzed"
    urls: list[str]
    start_numbers: list[int]
    has_two_callbacks = False
    """Whether a page that is started with and linked to is handled as what is asked for first."""
    reasons: tuple[str, ...] = ("finished",)
    """With which it may end."""
    ends_early = False
    """Whether requests may be left when it ends."""
    stop: ClassVar[dict[str, Any]] = {}
    """Settings that end it early; it then goes on with its JOBDIR."""

    @classmethod
    def from_crawler(cls, crawler: Any, *args: Any, **kwargs: Any) -> Any:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.idle, signals.spider_idle)
        return spider

    @property
    def seeds(self) -> list[str]:
        return [self.urls[number] for number in self.start_numbers]

    async def start(self) -> Any:
        for number, url in enumerate(self.seeds):
            for entry in self.first(number, url):
                yield entry

    def first(self, number: int, url: str) -> Iterable[Any]:
        """What `start` yields for a page."""
        return [self.page(url)]

    def page(self, url: str, **more: Any) -> Request:
        meta = {"mine": url, **more.pop("meta", {})}
        given = {"callback": self.parse, "errback": self.failed, "cb_kwargs": {"of": url}, **more}
        return Request(url, meta=meta, flags=[url], **given)

    def parse(self, response: Response, **kwargs: Any) -> Any:
        yield self.item(response)

    def item(self, response: Response) -> Any:
        return {"url": response.url, "status": response.status}

    def links(self, response: Response) -> list[str]:
        if not isinstance(response, TextResponse) or isinstance(response, JsonResponse):
            return []
        return [response.urljoin(href) for href in response.css("a::attr(href)").getall()]

    def failed(self, failure: Failure) -> Any:
        self.crawler.witness.on_errback(failure)  # type: ignore[attr-defined]

    def idle(self) -> None:
        pass


class StartUrls(Plain):
    """Scrapy's own start(), whose requests have no errback of their own."""

    start = Spider.start
    start_urls = Plain.seeds


class Follows(Plain):
    def parse(self, response: Response, **kwargs: Any) -> Any:
        yield self.item(response)
        for url in self.links(response):
            yield self.page(url)


class FollowsAsync(Plain):
    async def parse(self, response: Response, **kwargs: Any) -> Any:
        for url in self.links(response):
            yield self.page(url, cb_kwargs={"way": "async"})
            await asyncio.sleep(0)
        yield self.item(response)


class CopiesMeta(Plain):
    def parse(self, response: Response, **kwargs: Any) -> Any:
        yield self.item(response)
        for url in self.links(response):
            yield self.page(url, meta=response.meta)


class CallbackOfItsOwn(Plain):
    has_two_callbacks = True

    def first(self, number: int, url: str) -> Iterable[Any]:
        yield self.page(url, callback=self.parse_list, cb_kwargs={"depth": 1})

    def parse_list(self, response: Response, depth: int) -> Any:
        for url in self.links(response):
            yield self.page(url, priority=depth)


class Slow(Follows):
    async def start(self) -> Any:
        for url in self.seeds:
            yield self.page(url)
            await asyncio.sleep(1)


class WaitsForAnswers(Plain):
    ended = 0

    async def start(self) -> Any:
        for number, url in enumerate(self.seeds, 1):
            yield self.page(url, dont_filter=True)
            for _ in range(20):  # of what is left out there is no answer
                if self.ended < number:
                    await asyncio.sleep(1)

    def parse(self, response: Response, **kwargs: Any) -> Any:
        self.ended += 1
        yield self.item(response)

    def failed(self, failure: Failure) -> Any:
        self.ended += 1
        super().failed(failure)


class RepeatsItself(Plain):
    def parse(self, response: Response, **kwargs: Any) -> Any:
        if response.meta.get("again"):
            yield self.item(response)
        else:
            assert response.request is not None
            meta = {**response.meta, "again": True}
            yield response.request.replace(dont_filter=True, meta=meta)


class OnIdle(Plain):
    """Feeds the engine when there is nothing left to do, as spiders that read a queue do."""

    async def start(self) -> Any:
        self.left = self.seeds[1:]
        yield self.page(self.seeds[0])

    def idle(self) -> None:
        if self.left:
            request = self.page(self.left.pop(0))
            self.crawler.witness.on_yield(request, is_start=False)  # type: ignore[attr-defined]
            self.crawler.engine.crawl(request)
            raise DontCloseSpider


class StaysOpen(Plain):
    """Lets itself be closed at the third idle moment only."""

    times = 0

    def idle(self) -> None:
        self.times += 1
        if self.times < 3:
            raise DontCloseSpider


class StartRaises(Plain):
    reasons = ("start_error", "finished")  # the latter before Scrapy 2.14

    def first(self, number: int, url: str) -> Iterable[Any]:
        yield self.page(url)
        if number == len(self.seeds) - 1:
            raise ScenarioError("start")


class CallbackRaises(Plain):
    def parse(self, response: Response, **kwargs: Any) -> Any:
        yield self.item(response)
        raise ScenarioError("callback")


class Closes(Follows):
    ends_early = True
    reasons = ("enough", "finished")

    def parse(self, response: Response, **kwargs: Any) -> Any:
        yield from super().parse(response)
        raise CloseSpider("enough")


class ClosesInStart(Plain):
    """Ends itself when it has yielded half of its items and requests."""

    ends_early = True
    reasons = ("enough",)

    def first(self, number: int, url: str) -> Iterable[Any]:
        yield {"from": "start"}
        yield self.page(url)
        if number >= len(self.seeds) // 2:
            raise CloseSpider("enough")


class IsClosed(Follows):
    """The engine is asked to end the crawl, while `start()` goes on."""

    ends_early = True
    reasons = ("asked", "finished")

    def first(self, number: int, url: str) -> Iterable[Any]:
        yield self.page(url)
        yield {"from": "start"}
        if number == len(self.seeds) // 2:
            self.ask()

    def ask(self) -> None:
        engine: Any = self.crawler.engine
        if hasattr(engine, "close_spider_async"):
            self.closing = asyncio.ensure_future(engine.close_spider_async(reason="asked"))
        else:
            engine.close_spider(self, "asked")


class IsClosedInCallback(IsClosed):
    def first(self, number: int, url: str) -> Iterable[Any]:
        return [{"from": "start"}, self.page(url)]

    def parse(self, response: Response, **kwargs: Any) -> Any:
        self.ask()
        yield from super().parse(response)


class HeadFirst(Plain):
    def first(self, number: int, url: str) -> Iterable[Any]:
        yield self.page(url, method="HEAD", callback=self.parse_head)

    def parse_head(self, response: Response, **kwargs: Any) -> Any:
        yield self.page(response.url)


class AllStatuses(Follows):
    custom_settings: ClassVar[dict[str, Any]] = {"HTTPERROR_ALLOW_ALL": True}  # type: ignore[misc]


class FollowsUnderCare(Plain):
    def parse(self, response: Response, **kwargs: Any) -> Any:
        yield self.item(response)
        for number, url in enumerate(self.links(response)):
            yield self.page(url, meta={"hacs": (True, "record", False)[number % 3]})


class FromErrback(Plain):
    def failed(self, failure: Failure) -> Any:
        super().failed(failure)
        if "again" not in failure.request.meta:  # type: ignore[attr-defined]
            yield self.page(self.urls[-1], dont_filter=True, meta={"again": True})


class Inline(Plain):
    """Asks the engine within a callback."""

    async def parse(self, response: Response, **kwargs: Any) -> Any:
        engine: Any = self.crawler.engine
        request = Request(self.urls[0] + "?inline")
        try:
            if hasattr(engine, "download_async"):
                found = await engine.download_async(request)
            else:
                found = await engine.download(request).asFuture(asyncio.get_running_loop())
            yield {"inline": found.status}
        except Exception as error:  # noqa: BLE001 - whatever the site does
            yield {"inline": type(error).__name__}
        yield self.item(response)


class Rules(Plain, CrawlSpider):
    has_two_callbacks = True
    rules = (Rule(LinkExtractor(), callback="parse_page", follow=True, errback="failed"),)

    def first(self, number: int, url: str) -> Iterable[Any]:
        yield self.page(url, callback=None)

    def parse_page(self, response: Response) -> Any:
        yield self.item(response)


class Maps(Plain, SitemapSpider):
    start = SitemapSpider.start

    @property
    def sitemap_urls(self) -> list[str]:  # type: ignore[override]
        return [f"{self.urls[0].rpartition('/')[0]}/sitemap.xml"]


class Feeds(Plain, XMLFeedSpider):
    itertag = "url"

    async def start(self) -> Any:
        yield self.page(f"{self.urls[0].rpartition('/')[0]}/sitemap.xml", callback=None)

    def parse_node(self, response: Response, selector: Any) -> Any:
        for url in selector.xpath("loc/text()").getall():
            yield self.page(url)


class Resumed(Follows):
    stop: ClassVar[dict[str, Any]] = {"CLOSESPIDER_PAGECOUNT": 2}


class ResumedSeeds(Plain):
    stop = Resumed.stop


class ResumedInPause(Follows):
    """It has done by then what need not wait."""

    stop: ClassVar[dict[str, Any]] = {"CLOSESPIDER_TIMEOUT": 10}


FIRST: dict[str, Callable[[Plain, int, str], list[Any]]] = {
    "AsksTwice": lambda spider, _, url: [spider.page(url, dont_filter=True) for _ in "ab"],
    "Forms": lambda spider, _, url: [
        FormRequest(url, formdata={"a": "b"}, callback=spider.parse, errback=spider.failed)
    ],
    "ItemsFromStart": lambda spider, _, url: [{"from": "start"}, spider.page(url)],
    "OptsOut": lambda spider, number, url: [
        spider.page(url, meta={"hacs": (False, True, "record")[number % 3]})
    ],
    "OwnSlot": lambda spider, number, url: [
        spider.page(url, meta={"download_slot": f"slot{number % 2}"})
    ],
    "Priorities": lambda spider, number, url: [spider.page(url, priority=number % 3 - 1)],
    "ValuesOfItsOwn": lambda spider, _, url: [spider.page(url, meta={"hacs": {"mine": 1}})],
}
"""Spiders that differ in what they begin with."""
KINDS: dict[str, type[Plain]] = {
    kind.__name__: kind
    for kind in list(globals().values())
    if isinstance(kind, type) and issubclass(kind, Plain)
} | {name: type(name, (Follows,), {"first": first}) for name, first in FIRST.items()}

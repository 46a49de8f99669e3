"""What HACS uses of Scrapy's inside is there, and does what HACS takes it to do.

Each test crawls a few `data:` URLs with Scrapy's own engine. Where one fails, its message says what this
version of Scrapy has changed; `hacs_crawler/crawl/scrapy_internals.py` is the only place to mend.
"""

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any

import pytest
import scrapy
from scrapy import Request, Spider, signals
from scrapy.core.downloader import Downloader
from scrapy.core.downloader.handlers.datauri import DataURIDownloadHandler
from scrapy.core.scheduler import Scheduler
from scrapy.crawler import Crawler, CrawlerRunner
from scrapy.http import Response
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.python.failure import Failure
from twisted.web.client import ResponseNeverReceived

from crawl_support import new_crawler, settled
from hacs_crawler.crawl.scrapy_internals import (
    Downloads,
    check_robotstxt,
    close_after_start_items,
    empty_filter,
    enqueue_unfiltered,
    filter_of,
    hold_back,
    is_closing,
    is_parsing,
    mark_as_failed,
    message_of,
    wake,
)
from hacs_crawler.utils.loop import begin

Act = Callable[["TinyCrawl"], Coroutine[Any, Any, None]]


@contextmanager
def relying_on(what: str) -> Iterator[None]:
    """Say in a sentence what Scrapy has changed if the test fails in here."""
    try:
        yield
    except (AssertionError, AttributeError, LookupError, OSError, TypeError, ValueError) as error:
        pytest.fail(f"Scrapy {scrapy.__version__} has changed {what}.\n{error!r}", pytrace=False)


def page(name: object, slot: str = "a", **more: Any) -> Request:
    return Request(f"data:text/html,{name}", meta={"download_slot": slot}, **more)


class OneSlot(Downloader):
    def get_slot_key(self, request: Request) -> str:
        return "one"


class TinyCrawl:
    """A crawl whose answers come when a test says so, on the loop of Scrapy's reactor."""

    def __init__(self, *entries: Any, **more: Any) -> None:
        crawl = self
        self.sent: list[tuple[str, Deferred[None]]] = []
        self.errors: list[BaseException] = []
        self.scheduler: Scheduler
        self.asked = 0
        """How often the engine has asked the scheduler for a request."""
        self.waiting = 0
        """How many requests have come as far as their slot's queue."""
        self.in_callback: Callable[[], Coroutine[Any, Any, Any]] | None = None
        self.in_pipeline: Callable[[], Coroutine[Any, Any, Any]] | None = None

        class TinySpider(Spider):
            name = "tiny"

            async def start(self) -> AsyncIterator[Any]:
                for entry in entries:
                    is_request = isinstance(entry, Request)
                    yield entry.replace(errback=self.note_error) if is_request else entry

            async def parse(self, response: Response) -> AsyncIterator[Any]:
                if crawl.in_callback is not None:
                    await crawl.in_callback()
                yield {"url": response.url}

            def note_error(self, failure: Failure) -> None:
                crawl.errors.append(failure.value)

        class Pipeline:
            async def process_item(self, item: Any, spider: Spider | None = None) -> Any:
                if crawl.in_pipeline is not None:
                    await crawl.in_pipeline()
                return item

        class AskedScheduler(Scheduler):
            def __init__(self, *arguments: Any, **more: Any) -> None:
                super().__init__(*arguments, **more)
                crawl.scheduler = self

            def next_request(self) -> Request | None:
                crawl.asked += 1
                return super().next_request()

        settings = {
            "EXTENSIONS_BASE": {},
            "DOWNLOADER_MIDDLEWARES_BASE": {},
            "DOWNLOAD_HANDLERS_BASE": {},
            "DOWNLOAD_HANDLERS": {"data": _handler(self)},
            "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
            "DOWNLOAD_DELAY": 0.0,
            "ITEM_PIPELINES": {Pipeline: 100},
            "SCHEDULER": AskedScheduler,
            **more,
        }
        self.crawler = Crawler(TinySpider, settings)
        self.crawler.signals.connect(self._note_waiting, signals.request_reached_downloader)
        self.downloads = Downloads(self.crawler)
        self.runner = CrawlerRunner()

    def answer(self, request: Request) -> None:
        next(answer for url, answer in self.sent if url == request.url).callback(None)

    def send(self, request: Request) -> Deferred[None]:
        """Called by the download handler: the Deferred fires when the answer may come."""
        self.sent.append((request.url, Deferred()))
        return self.sent[-1][1]

    def stop(self) -> Deferred[Any]:
        if hasattr(self.crawler, "stop_async"):  # since Scrapy 2.14
            return begin(self.crawler.stop_async())
        stopping: Deferred[Any] = self.crawler.stop()
        return stopping

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Return when the crawl has got that far."""
        async with asyncio.timeout(60):
            while not is_so():
                await asyncio.sleep(0)

    def _note_waiting(self) -> None:
        self.waiting += 1

    async def crawl(self, act: Act) -> None:
        """Crawl, do something meanwhile, then answer everything and wait for the end."""
        done = self.runner.crawl(self.crawler)
        ended = asyncio.ensure_future(maybe_deferred_to_future(done))
        try:
            await act(self)
        finally:
            self.in_callback = self.in_pipeline = None
            while not ended.done():
                for _, answer in self.sent:
                    if not answer.called:
                        answer.callback(None)
                await asyncio.sleep(0)
            ended.result()


def _handler(crawl: TinyCrawl) -> type[Any]:
    """A download handler that waits; before Scrapy 2.14 they returned a Deferred."""
    if inspect.iscoroutinefunction(DataURIDownloadHandler.download_request):

        class Handler(DataURIDownloadHandler):
            lazy = False

            async def download_request(self, request: Request) -> Response:
                await maybe_deferred_to_future(crawl.send(request))
                return await super().download_request(request)

        return Handler

    class OldHandler(DataURIDownloadHandler):
        lazy = False

        def download_request(self, request: Request, spider: Spider) -> Deferred[Response]:
            answer = super().download_request
            return crawl.send(request).addCallback(lambda _: answer(request, spider))

        async def close(self) -> None: ...

    return OldHandler


Run = Callable[[TinyCrawl, Act], None]


@pytest.fixture
def crawling(asyncio_reactor: asyncio.AbstractEventLoop) -> Run:
    def run(crawl: TinyCrawl, act: Act) -> None:
        async def guarded() -> None:
            async with asyncio.timeout(20):
                await crawl.crawl(act)

        asyncio_reactor.run_until_complete(guarded())

    return run


def while_crawling(*entries: Any, **more: Any) -> Callable[[Callable[..., Any]], Any]:
    """Make a test of a coroutine that is given a tiny crawl, which is under way."""

    def made(act: Callable[..., Any]) -> Any:
        @wraps(act)
        def test(crawling: Run, **given: Any) -> None:
            crawling(TinyCrawl(*entries, **more), partial(act, **given))

        first, *others = inspect.signature(act).parameters.values()
        test.__signature__ = inspect.Signature([first.replace(name="crawling"), *others])
        return test

    return made


def test_the_engine_is_none_until_it_is_made() -> None:
    crawler = new_crawler()
    with relying_on("`Crawler.engine`, which was None before the engine is made"):
        assert Downloads(crawler).active == set()
        assert Downloads(crawler).waiting_in("a", 2) == 1
        assert is_closing(crawler)
        assert not is_parsing(crawler)
        wake(crawler)


@while_crawling(page(1), page(2), page(3, "b"))
async def test_the_downloader_has_a_set_of_the_requests_under_way(crawl: TinyCrawl) -> None:
    with relying_on("`Downloader.active`, the set of all requests under way, sent or not"):
        await crawl.until(lambda: len(crawl.downloads.active) == 3)
        assert {one.url[-1] for one in crawl.downloads.active} == set("123")
        crawl.answer(page(1))
        await crawl.until(lambda: len(crawl.downloads.active) == 2)


URLS = """
http://a.example https://A.Example/x http://a.example?q=//b.example/ http://a.example#b
http://a.example:8080/x http://user:word@a.example/x http://[::1]:80/x http://bücher.example/x
http://a_b.example/x HTTP://a.example/x http://a.example./ http:///x ftp://a.example/x
file:///a/b data:text/html,a
"""


@pytest.mark.parametrize("url", URLS.split())
def test_the_slot_of_a_url_is_the_downloaders(url: str) -> None:
    crawler = new_crawler()
    downloads = Downloads(crawler)
    crawler.engine = crawler._create_engine()
    for request in (Request(url), Request(url, meta={"download_slot": "mine"})):
        assert downloads.slot_of(request) == crawler.engine.downloader.get_slot_key(request)


def test_a_downloader_of_the_projects_own_chooses_its_slots() -> None:
    crawler = new_crawler(DOWNLOADER=f"{__name__}.OneSlot")
    crawler.engine = crawler._create_engine()
    assert Downloads(crawler).slot_of(Request("http://a.example/")) == "one"


@while_crawling(page(1), page(2), page(3), DOWNLOAD_DELAY=60.0)
async def test_a_slot_with_a_delay_knows_which_requests_are_being_transferred(
    crawl: TinyCrawl,
) -> None:
    await crawl.until(lambda: crawl.waiting == 3)
    with relying_on("`Slot.transferring`, the requests that a downloader's slot has sent"):
        assert crawl.downloads.waiting_in("a", 3) == 2
    with relying_on("`Slot.queue`, what a slot has not sent: the end of this crawl takes a minute"):
        crawl.downloads.recall(lambda _: True, RuntimeError("enough"))
        await crawl.until(lambda: len(crawl.errors) == 2)


@while_crawling(*(page(number, slot) for number, slot in enumerate("aaabb")))
async def test_requests_are_taken_out_of_their_slots_queues(crawl: TinyCrawl) -> None:
    error = RuntimeError("not now")
    await crawl.until(lambda: crawl.waiting == 5)
    with relying_on("`Slot.queue`, the pairs of request and Deferred that a slot has not sent"):
        crawl.downloads.recall(lambda request: request.url[-1] in "24", error)
        await crawl.until(lambda: len(crawl.errors) == 2)
        assert crawl.errors == [error, error]
        assert len(crawl.downloads.active) == 3
    with relying_on("`Slot.queue`: what is taken out of it is sent all the same"):
        crawl.answer(page(0))
        await crawl.until(lambda: len(crawl.sent) == 3)
        assert {url[-1] for url, _ in crawl.sent} == set("013")


@while_crawling(page(1))
async def test_a_slot_is_planned_before_and_slowed_after_its_first_request(
    crawl: TinyCrawl,
) -> None:
    crawl.downloads.plan("b", 1.0, 3)
    crawl.downloads.plan("b", 0.5, 5)
    await crawl.until(lambda: crawl.waiting == 1)
    engine = crawl.crawler.engine
    with relying_on("`Downloader.per_slot_settings` or `Slot.delay`: archives are asked too fast"):
        crawl.downloads.plan("a", 7.0, 1)
        engine.crawl(page(2, "b"))
        await crawl.until(lambda: crawl.waiting == 2)
        slots = engine.downloader.slots
        assert slots["a"].delay == 7.0
        assert (slots["b"].delay, slots["b"].concurrency) == (1.0, 3)
        assert slots["b"].download_delay() == 1.0, "delays are random, so shorter than planned"


@while_crawling(page(1))
async def test_a_request_beside_a_slot_s_queue_takes_its_turn_in_the_slot_s_delay(
    crawl: TinyCrawl,
) -> None:
    await crawl.until(lambda: bool(crawl.sent))
    with relying_on("`Slot.lastseen`, `Slot.download_delay()`, or the clock that these go by"):
        crawl.downloads.plan("a", 100.0, 1)
        crawl.downloads.on_sent(page(2))
        first = crawl.downloads.take_turn(page(2), at_most=1_000.0)
        second = crawl.downloads.take_turn(page(3), at_most=1_000.0)
        assert 49.0 < first <= 150.0  # Scrapy varies delays by a half
        assert 49.0 < second - first <= 150.0
        assert crawl.downloads.take_turn(page(4), at_most=50.0) is None
        assert crawl.downloads.take_turn(page(4), at_most=1_000.0) is not None
    with relying_on("`Downloader._get_slot`, which makes a slot for a host not yet asked"):
        assert crawl.downloads.take_turn(page(5, "new"), at_most=1_000.0) == 0.0


@while_crawling(page(1))
async def test_robots_txt_is_looked_up_for_requests_beside_the_engine_s(crawl: TinyCrawl) -> None:
    await crawl.until(lambda: bool(crawl.sent))
    with relying_on("`RobotsTxtMiddleware.process_request`, or how middlewares are found"):
        # it does not look at data: URLs; and where robots.txt is not obeyed it is not there
        await check_robotstxt(crawl.crawler, page(2))


@while_crawling(page(1))
async def test_the_engine_can_be_woken(crawl: TinyCrawl) -> None:
    await crawl.until(lambda: bool(crawl.sent))
    await settled()
    asked = crawl.asked
    await settled()
    assert crawl.asked == asked, "the engine asks although nothing has happened"
    with relying_on("`ExecutionEngine._slot.nextcall`, which has the scheduler asked soon"):
        wake(crawl.crawler)
        await settled()
        assert crawl.asked > asked


@while_crawling(page(1))
async def test_a_crawl_says_that_it_is_closing(crawl: TinyCrawl) -> None:
    await crawl.until(lambda: bool(crawl.sent))
    with relying_on("`ExecutionEngine._slot.closing`, which is set while a crawl closes"):
        assert not is_closing(crawl.crawler)
        stopping = crawl.stop()
        await settled()
        assert is_closing(crawl.crawler)
        crawl.answer(page(1))
        await maybe_deferred_to_future(stopping)
        assert is_closing(crawl.crawler)


@pytest.mark.parametrize(
    ("place", "when"),
    [("in_callback", "during a callback"), ("in_pipeline", "while a pipeline had an item")],
)
@while_crawling(page(1))
async def test_the_scraper_is_not_idle_while(crawl: TinyCrawl, place: str, when: str) -> None:
    loop = asyncio.get_running_loop()
    inside, go_on = loop.create_future(), loop.create_future()

    async def wait() -> None:
        inside.set_result(None)
        await go_on

    setattr(crawl, place, wait)
    await crawl.until(lambda: bool(crawl.sent))
    with relying_on(f"`Scraper.slot.is_idle()`, which was False {when}"):
        assert not is_parsing(crawl.crawler)
        crawl.answer(page(1))
        await inside
        assert is_parsing(crawl.crawler)
    go_on.set_result(None)


@pytest.mark.parametrize("is_marked", [True, False])
def test_a_crawler_without_a_spider_counts_as_failed(crawling: Run, is_marked: bool) -> None:
    async def act(crawl: TinyCrawl) -> None:
        if is_marked:
            crawl.crawler.signals.connect(mark, signals.engine_stopped)

    def mark() -> None:
        mark_as_failed(crawl.crawler)

    crawl = TinyCrawl(page(1))
    crawling(crawl, act)
    with relying_on(
        "`CrawlerRunner.bootstrap_failed`, which was set for a crawler without a spider"
    ):
        assert crawl.runner.bootstrap_failed == is_marked


@while_crawling(page(1))
async def test_the_scheduler_has_its_filter_where_it_was(crawl: TinyCrawl) -> None:
    await crawl.until(lambda: bool(crawl.sent))
    scheduler = crawl.scheduler
    with relying_on("`Scheduler.df`, the duplicate filter that a scheduler asks"):
        assert filter_of(scheduler) is not None
        assert filter_of(scheduler).request_seen(page(1))
        assert not scheduler.enqueue_request(page(1))
    with relying_on("`Scheduler.df`, which could be exchanged for one request"):
        seen = filter_of(scheduler)
        assert enqueue_unfiltered(scheduler, page(1))
        assert filter_of(scheduler) is seen
        assert not scheduler.enqueue_request(page(1))
    with relying_on("`Scheduler.df`, which could be exchanged for one that has seen nothing"):
        empty_filter(scheduler, crawl.crawler)
        assert type(filter_of(scheduler)) is type(seen)
        assert scheduler.enqueue_request(page(1))
        assert not scheduler.enqueue_request(page(1))


def test_the_filter_of_scrapy_redis_can_be_emptied() -> None:
    dupefilter = pytest.importorskip("scrapy_redis.dupefilter")
    with relying_on("`RFPDupeFilter.clear` of scrapy-redis, which makes it forget all requests"):
        assert callable(dupefilter.RFPDupeFilter.clear)


def test_a_scheduler_without_a_filter_takes_every_request() -> None:
    class Plain:
        taken: list[Request]

        def enqueue_request(self, request: Request) -> bool:
            return True

    scheduler: Any = Plain()
    assert filter_of(scheduler) is None
    assert enqueue_unfiltered(scheduler, page(1))
    assert not hasattr(scheduler, "df")
    empty_filter(scheduler, new_crawler())


@while_crawling(page(1), page(2))
async def test_a_request_can_be_held_back_until_it_is_sent(crawl: TinyCrawl) -> None:
    gate: Deferred[None] = Deferred()

    async def wait(_: Request) -> None:
        await maybe_deferred_to_future(gate)

    await crawl.until(lambda: bool(crawl.sent))
    hold_back(crawl.crawler, lambda: gate.called, wait)
    with relying_on("`DownloadHandlers`, which sends what the queue of a slot lets go"):
        crawl.answer(page(1))
        await crawl.until(lambda: crawl.waiting == 2)
        await settled()
        assert len(crawl.sent) == 1
        gate.callback(None)
        await crawl.until(lambda: len(crawl.sent) == 2)


@pytest.mark.skipif(scrapy.version_info < (2, 14), reason="it does not wait for these items")
def test_a_spider_closes_once_the_items_of_its_start_are_processed(crawling: Run) -> None:
    gate: Deferred[None] = Deferred()
    in_pipeline: list[bool] = []

    async def wait() -> None:
        in_pipeline.append(True)
        await maybe_deferred_to_future(gate)

    async def act(crawl: TinyCrawl) -> None:
        await crawl.until(lambda: bool(in_pipeline))
        closed = crawl.stop()
        await settled()
        assert not closed.called
        with relying_on("`Scraper.start_itemproc_async` and `._check_if_closing`"):
            gate.callback(None)
            await crawl.until(lambda: closed.called)

    crawl = TinyCrawl({"item": 1})
    crawl.in_pipeline = wait
    crawl.crawler.signals.connect(
        lambda: close_after_start_items(crawl.crawler), signals.spider_opened, weak=False
    )
    crawling(crawl, act)


@pytest.mark.parametrize(
    ("reason", "said"), [(ConnectionDone(), "connection closed"), (OSError("no route"), "no route")]
)
def test_a_broken_connection_has_the_message_of_its_reason(reason: Exception, said: str) -> None:
    wrapped = OSError("[<Failure>]")
    wrapped.__cause__ = plain = ResponseNeverReceived([Failure(reason)])
    assert (message_of(plain), message_of(wrapped), message_of(reason)) == (said, said, str(reason))

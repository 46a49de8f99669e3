"""All uses of Scrapy's private API, in one place.

tests/crawl/test_scrapy_internals.py has a test for each, which shows what a new version changed.
"""

import re
import time
from collections.abc import Awaitable, Callable
from typing import Any

import scrapy
from pydispatch.errors import DispatcherKeyError
from scrapy import Request, Spider, signals
from scrapy.core import downloader as downloader_module
from scrapy.core.downloader import Downloader
from scrapy.core.scheduler import BaseScheduler
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.extensions.closespider import CloseSpider
from scrapy.http import Response
from scrapy.spiders import SitemapSpider
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from scrapy.utils.misc import build_from_crawler
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionClosed
from twisted.web.client import ResponseFailed

# Whether private methods of Scrapy take the spider as an argument.
_GETS_SPIDER = scrapy.version_info < (2, 14)
# The clock of a slot's times: monotonic if Scrapy's downloader imports it.
_slot_clock: Callable[[], float] = getattr(downloader_module, "monotonic", time.time)
_plain_host = re.compile(r"https?://([A-Za-z0-9.-]+)(?:[/?#]|\Z)").match


class Downloads:
    """The requests in a crawl's downloader, by slot: `Downloader.active` and `.slots`."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._found: Any = None
        self._slots_are_hosts = False

    @property
    def active(self) -> set[Request]:
        """The requests in progress; empty before the engine is made."""
        downloader = self._downloader
        active: set[Request] = downloader.active if downloader is not None else set()
        return active

    def slot_of(self, request: Request) -> str:
        """Return the slot of a request: its host, unless it names another.

        The host of a plain URL is found without `urlparse`, which takes ten times as long, and
        whose results Scrapy caches for each request, at the cost of memory and garbage collections.
        """
        downloader = self._downloader
        assert downloader is not None  # noqa: S101 - there is one while requests are scheduled
        if self._slots_are_hosts and downloader.DOWNLOAD_SLOT not in request.meta:
            match = _plain_host(request.url)
            if match is not None:
                return match[1].lower()
        key: str = downloader.get_slot_key(request)
        return key

    def waiting_in(self, slot: str, under_way: int) -> int:
        """Return how many of the requests in a slot wait; a slot at its limit counts one more."""
        downloader = self._downloader
        used = None if downloader is None else downloader.slots.get(slot)
        if used is None:
            return under_way - 1 if under_way else 0
        if used.delay:
            transferring: int = len(used.transferring)
            return max(0, under_way - transferring)
        concurrency: int = used.concurrency
        return max(0, under_way + 1 - concurrency)

    def plan(self, slot: str, delay: float, concurrency: int) -> None:
        """Set the delay and concurrency of a slot; if called again for it, the slower values count."""
        downloader = self._downloader
        assert downloader is not None  # noqa: S101 - there is one while crawling
        planned = downloader.per_slot_settings.setdefault(slot, {})
        planned["delay"] = max(planned.get("delay", 0.0), delay)
        planned["concurrency"] = min(planned.get("concurrency", concurrency), concurrency)
        # older versions of Scrapy have randomize_delay instead of jitter
        planned |= {"jitter": 0.0, "randomize_delay": False}
        used = downloader.slots.get(slot)
        if used is not None:
            used.delay = max(used.delay, delay)
            used.concurrency = min(used.concurrency, concurrency)
            # in newer versions, randomize_delay is a property that warns
            setattr(used, "jitter" if hasattr(used, "jitter") else "randomize_delay", 0)

    def take_turn(self, request: Request, at_most: float) -> float | None:
        """Return the seconds until a request that bypasses the slot's queue may be sent.

        The slot's delay runs from then on. Returns None, without taking the turn, if the wait would be
        longer than `at_most` seconds.
        """
        slot, now = self._slot_for(request), _slot_clock()
        turn = max(now, slot.lastseen + slot.download_delay())
        if turn - now > at_most:
            return None
        slot.lastseen = turn
        return float(turn - now)

    def on_sent(self, request: Request) -> None:
        """Start a slot's delay now: the request took its turn earlier and is sent only now."""
        slot = self._slot_for(request)
        slot.lastseen = max(slot.lastseen, _slot_clock())

    def _slot_for(self, request: Request) -> Any:
        downloader = self._downloader
        assert downloader is not None  # noqa: S101 - there is one while requests are sent
        used = downloader.slots.get(self.slot_of(request))
        if used is not None:
            return used
        more = (self._crawler.spider,) if _GETS_SPIDER else ()
        return downloader._get_slot(request, *more)[1]  # noqa: SLF001

    def recall(self, is_meant: Callable[[Request], bool], error: Exception) -> None:
        """Remove unsent requests from their slots' queues; each ends with the error."""
        downloader = self._downloader
        for slot in () if downloader is None else list(downloader.slots.values()):
            for waiting in [entry for entry in slot.queue if is_meant(entry[0])]:
                slot.queue.remove(waiting)
                waiting[1].errback(error)

    @property
    def _downloader(self) -> Any:
        if self._found is None:
            engine = _engine_of(self._crawler)
            self._found = None if engine is None else engine.downloader
            is_own = getattr(type(self._found), "get_slot_key", None) is Downloader.get_slot_key
            self._slots_are_hosts = is_own and not getattr(self._found, "ip_concurrency", 0)
        return self._found


async def check_robotstxt(crawler: Crawler, request: Request) -> None:
    """Raise IgnoreRequest if the project obeys robots.txt and it forbids the request."""
    middleware = crawler.get_downloader_middleware(RobotsTxtMiddleware)
    if middleware is not None:
        more = (crawler.spider,) if _GETS_SPIDER else ()
        checked: Any = middleware.process_request(request, *more)
        if isinstance(checked, Deferred):
            checked = maybe_deferred_to_future(checked)
        if checked is not None:
            await checked


async def download(crawler: Crawler, request: Request) -> Response:
    """Return the answer to a request, bypassing the scheduler and the spider middlewares."""
    engine = crawler.engine
    assert engine is not None  # noqa: S101 - there is one while crawling
    if hasattr(engine, "download_async"):  # Scrapy 2.14
        return await engine.download_async(request)
    return await maybe_deferred_to_future(engine.download(request))


def exempt_from_page_count(crawler: Crawler, is_exempt: Callable[[Request], bool]) -> None:
    """Make CLOSESPIDER_PAGECOUNT ignore answers to requests for which `is_exempt` is true."""
    counting = crawler.get_extension(CloseSpider)
    if counting is None:
        return
    try:
        crawler.signals.disconnect(counting.page_count, signals.response_received)
    except DispatcherKeyError:  # the extension is on for another limit
        return

    def count(response: Response, request: Request, spider: Spider) -> None:
        if not is_exempt(request):
            counting.page_count(response, request, spider)

    crawler.signals.connect(count, signals.response_received, weak=False)


def close_after_start_items(crawler: Crawler) -> None:
    """Let a closing spider close once the items that `start()` yielded are processed.

    Scrapy 2.19 checks this only after responses. If a spider closes while such an item is processed
    and no response is expected, it would never end. Holding start requests makes that case common.
    """
    scraper = _engine_of(crawler).scraper
    process: Callable[..., Awaitable[None]] | None = getattr(scraper, "start_itemproc_async", None)
    if process is None:  # Scrapy 2.13, which closes without waiting for such items
        return

    async def process_and_check(item: Any, *, response: object) -> None:
        try:
            await process(item, response=response)
        finally:
            if scraper.slot.closing is not None and not scraper.slot.closing.called:
                scraper._check_if_closing()  # noqa: SLF001

    scraper.start_itemproc_async = lambda item, *, response: (
        process_and_check if response is None else process
    )(item, response=response)


def hold_back(
    crawler: Crawler, may_send: Callable[[], bool], wait: Callable[[Request], Awaitable[None]]
) -> None:
    """Make each request `wait` just before it is sent, unless `may_send` returns true.

    This is after all middlewares and slot queues, so it applies to requests that bypass these, too.
    """
    handlers = _engine_of(crawler).downloader.handlers
    is_async = hasattr(handlers, "download_request_async")  # Scrapy 2.14
    name = "download_request_async" if is_async else "download_request"
    send: Callable[..., Any] = getattr(handlers, name)

    async def sent_later(request: Request, *more: Any) -> Response:
        await wait(request)
        answer: Any = send(request, *more)
        response: Response = await (answer if is_async else maybe_deferred_to_future(answer))
        return response

    def sent(request: Request, *more: Any) -> Any:
        if may_send():
            return send(request, *more)
        later = sent_later(request, *more)
        return later if is_async else deferred_from_coro(later)

    setattr(handlers, name, sent)


def wake(crawler: Crawler) -> None:
    """Make the engine ask the scheduler soon; else it asks only when a request ends, or every 5 s."""
    engine = _engine_of(crawler)
    slot = None if engine is None else engine._slot  # noqa: SLF001
    if slot is not None:
        slot.nextcall.schedule()


def is_closing(crawler: Crawler) -> bool:
    """Whether the crawl is closing; then new requests would delay its end."""
    engine = _engine_of(crawler)
    slot = None if engine is None else engine._slot  # noqa: SLF001
    return bool(slot is None or slot.closing is not None)


def is_parsing(crawler: Crawler) -> bool:
    """Whether any response waits for its callback, or is in it, or items are in pipelines."""
    engine = _engine_of(crawler)
    slot = None if engine is None else engine.scraper.slot
    return bool(slot is not None and not slot.is_idle())


def mark_as_failed(crawler: Crawler) -> None:
    """Make `scrapy crawl` end with status 1, as it does for a crawler without a spider."""
    crawler.spider = None


def is_for_sitemap(request: Request, spider: Spider | None) -> bool:
    """Whether a SitemapSpider requests a sitemap, from `start()` or from the callback of an index."""
    return isinstance(spider, SitemapSpider) and request.callback == spider._parse_sitemap  # noqa: SLF001


def filter_of(scheduler: BaseScheduler) -> Any:
    """Return a scheduler's duplicate filter (`df` in Scrapy and scrapy-redis), or None."""
    return getattr(scheduler, "df", None)


def enqueue_unfiltered(scheduler: BaseScheduler, request: Request) -> bool:
    """Enqueue a request that has passed the filter already, without changing the request."""
    seen = filter_of(scheduler)
    if seen is None:
        return scheduler.enqueue_request(request)
    scheduler.df = _NoFilter()  # type: ignore[attr-defined]
    try:
        return scheduler.enqueue_request(request)
    finally:
        scheduler.df = seen  # type: ignore[attr-defined]


def empty_filter(scheduler: BaseScheduler, crawler: Crawler) -> None:
    """Empty a scheduler's duplicate filter, for a new round."""
    seen = filter_of(scheduler)
    if seen is None:
        return
    if hasattr(seen, "clear"):  # scrapy-redis
        seen.clear()
        return
    seen.close("round")
    scheduler.df = build_from_crawler(type(seen), crawler)  # type: ignore[attr-defined]
    scheduler.df.open()  # type: ignore[attr-defined]


def _engine_of(crawler: Crawler) -> Any:
    """Return the engine; None before it is made, for example in `from_crawler` of a scheduler."""
    try:
        return crawler.engine
    except RuntimeError:  # since Scrapy 2.19; earlier versions have None until then
        return None


class _NoFilter:
    def request_seen(self, request: Request) -> bool:
        return False


def message_of(error: BaseException | None) -> str:
    """Return an exception's message; if a connection ended early, why it did."""
    # from 2.14 on, Scrapy's own exception has Twisted's as its cause
    failed = error if isinstance(error, ResponseFailed) else getattr(error, "__cause__", None)
    if not isinstance(failed, ResponseFailed) or not failed.reasons:
        return str(error)
    reason = failed.reasons[0].value
    return "connection closed" if isinstance(reason, ConnectionClosed) else str(reason)

"""Hosts that want to be left alone are, for as long as they ask, and are asked as slowly as they ask."""

import asyncio
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from scrapy import Request, signals
from scrapy.exceptions import NotConfigured
from scrapy.http import Response
from scrapy.robotstxt import ProtegoRobotParser
from twisted.internet.defer import Deferred

from crawl_support import Timers, UnderWay, new_crawl, new_crawler, run, settled
from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.part import PutBackError
from hacs_crawler.crawl.scrapy_internals import Downloads
from hacs_crawler.middlewares import downloads
from hacs_crawler.middlewares.downloads import AdmissionMiddleware
from hacs_crawler.parts.pauses import DEFAULT_PAUSE_SECONDS, CrawlDelays, HostPauses
from integration_support import Project
from servers import Site

URL = "http://a.example/page"


class World:
    """The part of a crawl whose clock a test moves."""

    def __init__(self) -> None:
        self.timers = Timers()
        self.under_way = UnderWay()
        crawl = SimpleNamespace(crawler=self.under_way.crawler)
        self.part = HostPauses(cast(Crawl, crawl), self.timers.clock)

    def answer(self, host: str, status: int, after: float | None = None) -> None:
        headers = {} if after is None else {"Retry-After": f"{after:g}"}
        request = Request(f"http://{host}/")
        self.part.on_response(request, Response(request.url, status, headers))

    def admit(self, host: str, **meta: object) -> float:
        return self.part.admit(Request(f"http://{host}/page", meta=meta))


@pytest.fixture
def world() -> World:
    return World()


@pytest.mark.parametrize("status", [429, 503])
def test_a_host_is_left_alone_for_as_long_as_it_asked(world: World, status: int) -> None:
    world.answer("a.example", status, 30.0)
    assert world.admit("a.example") == 30.0
    assert world.admit("b.example") <= 0.0
    world.timers.go_on(29.0)
    assert world.admit("a.example") == 1.0
    world.timers.go_on(1.0)
    assert world.admit("a.example") <= 0.0


def test_what_waits_to_be_sent_to_the_host_is_put_back(world: World) -> None:
    waiting = [Deferred[None](), Deferred[None]()]
    for host, deferred in zip("ab", waiting, strict=True):
        request = Request(f"http://{host}.example/2")
        world.under_way.begin(request)
        world.under_way._downloader.slots[f"{host}.example"].queue.append((request, deferred))
    world.answer("a.example", 429, 30.0)
    assert [deferred.called for deferred in waiting] == [True, False]
    waiting[0].addErrback(lambda failure: failure.trap(PutBackError))


def test_of_two_wishes_the_longer_counts(world: World) -> None:
    for seconds, left in ((30.0, 30.0), (5.0, 30.0), (40.0, 40.0)):
        world.answer("a.example", 429, seconds)
        assert world.admit("a.example") == left


@pytest.mark.parametrize(
    ("status", "after", "left"),
    [
        (429, None, DEFAULT_PAUSE_SECONDS),
        *((503, None, 0.0), (200, 30.0, 0.0), (429, 0.0, 0.0), (429, 1.0, 1.0)),
    ],
)
def test_who_says_too_many_without_a_time_is_left_alone_for_a_minute_and_nobody_else(
    world: World, status: int, after: float | None, left: float
) -> None:
    world.answer("a.example", status, after)
    assert max(0.0, world.admit("a.example")) == left


def test_a_redirect_waits_for_the_host_that_it_leads_to(world: World) -> None:
    world.answer("b.example", 429, 30.0)
    assert world.admit("b.example", download_slot="a.example") == 30.0  # as Scrapy copies it
    assert world.admit("a.example", download_slot="b.example") <= 0.0


def test_a_host_that_a_browser_was_redirected_to_is_left_alone(world: World) -> None:
    response = Response("http://b.example/", 429, {"Retry-After": "30"})
    world.part.on_response(Request("http://a.example/"), response)
    assert (world.admit("a.example"), world.admit("b.example")) == (0.0, 30.0)


def test_archives_are_left_alone_by_others(world: World) -> None:
    world.answer("a.example", 429, 30.0)
    assert world.admit("a.example", hacs_archive="wayback") <= 0.0


async def test_a_request_is_put_back_once_and_waits_if_it_comes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As requests do that bypass the scheduler, or have one that is not HACS's."""
    crawl, timers = new_crawl(tmp_path, HACS_RETRY_AFTER=True), Timers()
    part = crawl.parts.of(HostPauses)
    monkeypatch.setattr(part, "_clock", timers.clock)
    monkeypatch.setattr(downloads, "sleep", timers.sleep)
    part.on_response(Request(URL), Response(URL, 429, {"Retry-After": "30"}))
    middleware = AdmissionMiddleware(crawl)
    with pytest.raises(PutBackError) as put_back:
        middleware.process_request(Request(URL))
    again = middleware.process_exception(Request(URL), put_back.value)
    waiting = asyncio.ensure_future(middleware.process_request(again))
    for _ in range(2):
        await settled()
        assert not waiting.done()
        timers.go_on(29.0)
    await waiting
    assert middleware.process_request(Request(URL)) is None


@pytest.mark.parametrize("is_on", [True, False])
def test_where_it_is_off_no_request_is_asked_about(is_on: bool) -> None:
    crawler = new_crawler(HACS_RETRY_AFTER=is_on)
    assert Crawl.of(crawler).parts.override("admit") is is_on
    with nullcontext() if is_on else pytest.raises(NotConfigured):
        AdmissionMiddleware.from_crawler(crawler)


# The Crawl-delay of a robots.txt that is obeyed


pytestmark = pytest.mark.skipif(
    not hasattr(signals, "robots_parsed"), reason="Scrapy 2.18 is the first to tell of robots.txt"
)


def delay_of(asked: str, request: Request | None = None, **settings: object) -> tuple[float, int]:
    """The delay in seconds, and the requests at once, of a slot after its host's robots.txt was read."""
    given = {"ROBOTSTXT_OBEY": True, "CONCURRENT_REQUESTS_PER_DOMAIN": 8, **settings}
    crawler = UnderWay(new_crawler(**given)).crawler
    part = CrawlDelays.from_crawl(cast(Crawl, SimpleNamespace(crawler=crawler)))
    body = f"User-agent: hacs\nCrawl-delay: {asked}\n\nUser-agent: *\nCrawl-delay: 7\n"
    request = request or Request(URL)
    part.obey(ProtegoRobotParser(body.encode(), None), request)

    async def slot() -> tuple[float, int]:
        slot = Downloads(crawler)._slot_for(request)
        found = slot.delay, slot.concurrency
        slot.delay = 0.0  # as AutoThrottle may
        answered = {"request": request.replace(meta={"download_slot": "a.example"}), "spider": None}
        crawler.signals.send_catch_log(signals.response_downloaded, **answered)
        assert (slot.delay, slot.concurrency) == found
        return found

    return run(slot())


AGENT = {"ROBOTSTXT_USER_AGENT": "hacs"}


@pytest.mark.parametrize(
    ("asked", "request_", "settings", "slot"),
    [
        ("2.5", None, AGENT, (2.5, 1)),
        ("2.5", Request(URL, headers={"User-Agent": "hacs/1"}), {}, (2.5, 1)),
        ("2.5", None, {"USER_AGENT": "other"}, (7.0, 1)),
        ("2", None, {**AGENT, "DOWNLOAD_DELAY": 4}, (4.0, 1)),
        ("86400", None, AGENT, (300.0, 1)),
        ("2", Request(URL, meta={"hacs_archive": "other"}), AGENT, (0.0, 8)),
        *((asked, None, AGENT, (0.0, 8)) for asked in ("0", "-5", "nan", "inf", "soon", "")),
    ],
)
def test_requests_of_a_host_that_asks_for_a_delay_go_one_by_one(
    asked: str, request_: Request | None, settings: dict[str, object], slot: tuple[float, int]
) -> None:
    """The user agent is that of the other rules, a longer delay stays, and none is above 5 minutes."""
    assert delay_of(asked, request_, **settings) == slot


def test_a_project_that_does_not_obey_robotstxt_has_no_such_part() -> None:
    crawl = SimpleNamespace(crawler=new_crawler(ROBOTSTXT_OBEY=False))
    assert CrawlDelays.from_crawl(cast(Crawl, crawl)) is None


@pytest.mark.slow
@pytest.mark.parametrize("throttled", [False, True], ids=["own delay", "AutoThrottle"])
def test_a_server_that_asks_for_a_delay_gets_it(
    site: Site, project: Project, throttled: bool
) -> None:
    """AutoThrottle would halve it each time, to 1.2 s for all six: this server answers at once."""
    robots = b"User-agent: *\nCrawl-delay: 0.6\n"
    site.pages["/robots.txt"] = (200, {"Content-Type": "text/plain"}, robots)
    paths = [f"/{number}" for number in range(6)]
    for path in paths:
        site.set(path)
    settings = {"AUTOTHROTTLE_ENABLED": throttled, "AUTOTHROTTLE_START_DELAY": 0.1}
    crawl = project.crawl(
        [f"{site.url}{path}" for path in paths], CONCURRENT_REQUESTS_PER_DOMAIN=8, **settings
    )
    assert crawl.stat("hacs/visits") == 6
    assert (
        site.times[-1] - site.times[0] > 2.4
    )  # 3.6, but for what a busy machine adds to the first
    assert crawl.log.count("127.0.0.1 asks in robots.txt for 0.6 s between requests") == 1

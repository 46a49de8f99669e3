"""Hosts that want to be left alone are, for as long as they ask."""

import asyncio
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from scrapy import Request
from scrapy.exceptions import NotConfigured
from scrapy.http import Response

from crawl_support import Timers, UnderWay, new_crawl, new_crawler, settled
from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.part import PutBackError
from hacs_crawler.middlewares import downloads
from hacs_crawler.middlewares.downloads import AdmissionMiddleware
from hacs_crawler.parts.pauses import DEFAULT_PAUSE_SECONDS, HostPauses

URL = "http://a.example/page"


class World:
    """The part of a crawl whose clock a test moves."""

    def __init__(self) -> None:
        self.timers = Timers()
        crawl = SimpleNamespace(crawler=UnderWay().crawler)
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
    sending = middleware.process_request(again)
    waiting = asyncio.ensure_future(sending)
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

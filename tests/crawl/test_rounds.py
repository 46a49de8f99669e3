"""Rounds of a crawl that goes on: when one is over, and when the next begins."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Request, Spider

from crawl_support import Timers, UnderWay, new_crawler, settled
from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.seeds import CHECK_SECONDS, MINUTE, Rounds

ROUND_MINUTES = 10.0
PAGE = Request("http://a.example/")


class Ranking:
    """A ranker as far as rounds know it; it says what it was asked for."""

    def __init__(self, crawler: Any, calls: list[str]) -> None:
        self._crawler = crawler
        self._calls = calls
        self.has_work = False

    def is_quiet(self) -> bool:
        engine = self._crawler.engine
        return not engine.downloader.active and engine.scraper.slot.is_idle()

    async def end_round(self) -> None:
        self._calls.append("the last seeds are ranked")

    def begin_round(self) -> None:
        self._calls.append("pages may be visited again")


class World:
    """A crawl with nothing to do but what the test puts there."""

    def __init__(self, timers: Timers, folder: Path) -> None:
        self.timers = timers
        settings = {"HACS_STATE": f"sqlite:///{folder}/state.db"}
        crawler = new_crawler(**settings)
        self.under_way = UnderWay(crawler)
        self.set_scraper(is_idle=True)
        self.crawl = Crawl.of(crawler)
        self.calls: list[str] = []
        self.ranker = Ranking(crawler, self.calls)
        crawler.hacs_ranker = self.ranker
        self.crawl.sum_up_by(lambda: self.calls.append("summed up"))
        self.rounds = Rounds(crawler, timers.clock, minutes=ROUND_MINUTES)

    def set_scraper(self, *, is_idle: bool) -> None:
        engine: Any = self.under_way.crawler.engine
        engine.scraper.slot = SimpleNamespace(is_idle=lambda: is_idle)

    async def begin(self) -> asyncio.Task[bool]:
        """Begin to wait for the next round."""
        await self.crawl.open()
        task = asyncio.ensure_future(self.rounds.next())
        await self.end_of_work()
        return task

    async def wait(self, seconds: float) -> None:
        self.timers.go_on(seconds)
        await self.end_of_work()

    async def end_of_work(self) -> None:
        for _ in range(5):
            await self.crawl.state.once(lambda _: None)
            await settled()

    async def close(self) -> None:
        await self.crawl.close(Spider("any"), "finished")


@pytest.fixture
def world(timers: Timers, tmp_path: Path) -> World:
    return World(timers, tmp_path)


def has_seeds(world: World, is_so: bool) -> None:
    world.ranker.has_work = is_so


def is_asking(world: World, is_so: bool) -> None:
    (world.under_way.begin if is_so else world.under_way.end)(PAGE)


def is_parsing(world: World, is_so: bool) -> None:
    world.set_scraper(is_idle=not is_so)


@pytest.mark.parametrize("be_busy", [has_seeds, is_asking, is_parsing])
async def test_a_round_is_over_when_nothing_waits_is_under_way_or_is_parsed(
    world: World, be_busy: Callable[[World, bool], None]
) -> None:
    be_busy(world, True)
    begun = await world.begin()
    for _ in range(3):
        assert world.calls == ["the last seeds are ranked"]
        assert world.timers.waiting == [CHECK_SECONDS]
        await world.wait(CHECK_SECONDS)
    be_busy(world, False)
    await world.wait(CHECK_SECONDS)
    assert world.calls == ["the last seeds are ranked", "summed up"]
    assert world.timers.waiting == [ROUND_MINUTES * MINUTE - 4 * CHECK_SECONDS]
    await world.wait(ROUND_MINUTES * MINUTE)
    assert begun.result()
    assert world.calls[2:] == ["pages may be visited again"]
    await world.close()


async def test_after_a_round_that_took_too_long_the_next_begins_at_once(world: World) -> None:
    world.timers.now += ROUND_MINUTES * MINUTE + 1.0
    begun = await world.begin()
    assert begun.done()
    assert begun.result()
    again = await world.begin()
    assert world.timers.waiting == [ROUND_MINUTES * MINUTE], "counted from when it began"
    await world.wait(ROUND_MINUTES * MINUTE)
    assert again.result()
    await world.close()


async def test_a_round_records_what_ended_without_a_word(world: World) -> None:
    await world.crawl.open()
    world.crawl.state.read_ahead.claim(PAGE.url)
    begun = await world.begin()
    assert world.crawl.waiting_visits == 0
    assert world.crawl.stats.get("not_observed/unfinished") == 1
    await world.wait(ROUND_MINUTES * MINUTE)
    assert begun.result()
    await world.close()


async def test_a_crawl_that_fails_in_a_round_has_no_other(world: World) -> None:
    world.ranker.has_work = True
    begun = await world.begin()
    world.crawl.fail("the disk is on fire")
    await world.wait(CHECK_SECONDS)
    assert not begun.result()
    assert "summed up" not in world.calls
    assert world.timers.waiting == []
    await world.close()


async def test_where_another_scheduler_ranks_nothing_a_round_ends(world: World) -> None:
    crawler = world.crawl.crawler
    del crawler.hacs_ranker
    world.rounds = Rounds(crawler, world.timers.clock, minutes=ROUND_MINUTES)
    begun = await world.begin()
    await world.wait(ROUND_MINUTES * MINUTE)
    assert begun.result()
    await world.close()

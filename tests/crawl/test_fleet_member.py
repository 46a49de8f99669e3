"""One crawl's part in its fleet, on a real board: when it says that it has nothing to do."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.utils.test import get_crawler
from twisted.internet.defer import Deferred

from hacs_crawler.crawl import fleet_member
from hacs_crawler.crawl.fleet_member import Crew, LeftToOthersError
from hacs_crawler.fleet import serializer
from hacs_crawler.fleet.board import partition_of
from hacs_crawler.fleet.member import FleetWorker
from hacs_crawler.fleet.partitions import Holdings
from hacs_crawler.links import page_id_of
from hacs_crawler.state import Prediction
from sqlite_board import SQLiteBoard

LEASE_SECONDS = 6.0
PREDICTION = Prediction(
    label=0, run=1, p=0.5, raw_p=0.5, rate_per_day=1.0, days_since_visit=1.0, churn=0.0
)


class Ranker:
    """A scheduler that hands its seeds out at once."""

    wants_ranking = False

    def __init__(self) -> None:
        self.looked = threading.Event()
        """Set when somebody asks whether anything waits."""

    def has_pending_requests(self) -> bool:
        self.looked.set()
        return False

    def ranked_seeds(self) -> list[Request]:
        return []

    def take_ranked(self) -> list[Request]:
        return []

    def take_waiting(self) -> list[Request]:
        return []

    @property
    def fleet_adaptation(self) -> KeepsTheOrder:
        return KeepsTheOrder()


class KeepsTheOrder:
    """What ranks nothing anew."""

    is_ranking = False

    def join(self, *args: object) -> None: ...

    def enter(self, number: int) -> None: ...

    def mark(self, seed: Request, note: bytes) -> None: ...


class Record:
    """A session in which every visit is written at once."""

    failure: str | None = None

    def __init__(self) -> None:
        self.gave_up = 0

    def fail(self, message: str) -> None:
        raise AssertionError(message)

    async def begin_round(self) -> None: ...

    async def end_round(self) -> None: ...

    async def give_up(self) -> None:
        self.gave_up += 1


class Observed:
    """A board that remembers what a worker said of its idleness since it last had a visit done."""

    lease_seconds = LEASE_SECONDS

    def __init__(self) -> None:
        self.now = 0.0
        self.board = SQLiteBoard(None, lease_seconds=LEASE_SECONDS, clock=lambda: self.now)
        self.said: list[int | None] = []
        self.takes = 0
        self.is_done = False
        self.in_first_take: Callable[[], object] = lambda: None
        """Called while it is asked for seeds for the first time since a visit was done."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.board, name)

    def renew(self, worker: str, **said: Any) -> Any:
        self.said.append(said["idle_since"])
        return self.board.renew(worker, **said)

    def take(self, *args: Any) -> Any:
        self.takes += 1
        if self.is_done and self.takes == 1:
            self.in_first_take()
        return self.board.take(*args)

    def done(self, *args: Any) -> None:
        self.said.clear()
        self.takes = 0
        self.is_done = True
        self.board.done(*args)

    def put(self, *urls: str) -> None:
        """Have a round of these seeds under way, which another worker has ranked."""
        leader = FleetWorker(self.board, "leader")
        leader.tick(0.0)
        seeds = [Request(url, meta={"hacs": PREDICTION, "hacs_page": url}) for url in urls]
        leader.publish(
            [(one.url, page_id_of(one.url), serializer.dumps(one.to_dict())) for one in seeds]
        )
        leader.open_round()
        leader.leave()


class World:
    """A board, and one crawl with nothing under way but what the test puts there."""

    def __init__(self) -> None:
        self.board: Any = Observed()
        self.ranker: Any = Ranker()
        self.record = Record()
        crawler = get_crawler(Spider, {"EXTENSIONS_BASE": {}})
        self.under_way: set[Request] = set()
        self.slot = SimpleNamespace(queue=deque())
        downloader = SimpleNamespace(active=self.under_way, slots={"a.example": self.slot})
        crawler.engine = SimpleNamespace(  # type: ignore[assignment]
            downloader=downloader, scraper=SimpleNamespace(slot=None)
        )
        crawler.spider = crawler._create_spider("any")
        self.holdings = Holdings.of(crawler)
        worker = FleetWorker(self.board, "one")
        self.crew = Crew(crawler, self.ranker, self.record, self.board, worker)

    def seeds(self) -> AsyncIterator[Request]:
        return self.crew.seeds(nothing(), nothing)

    async def crawl(self, number: int) -> None:
        """Be done with the seeds when so many have come, and with the round when it is over."""
        async for seed in self.seeds():
            self.under_way.add(seed)
            if len(self.under_way) == number:
                pages = [page_id_of(one.url) for one in self.under_way]
                self.under_way.clear()
                self.crew.done(pages)


async def nothing() -> AsyncIterator[Request]:
    for request in ():
        yield request


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def timers(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """The renewals that wait for their time, which never comes."""
    waiting: list[Callable[[], object]] = []

    def never(seconds: float, function: Callable[[], object]) -> Callable[[], object]:
        waiting.append(function)
        return lambda: None

    monkeypatch.setattr(fleet_member, "call_later", never)
    return waiting


def run(scenario: Callable[[], Any]) -> None:
    async def guarded() -> None:
        async with asyncio.timeout(60):
            await scenario()

    asyncio.run(guarded())


def test_one_that_looks_for_seeds_and_finds_none_is_idle_all_the_same(world: World) -> None:
    """As where the board is far away: it is always being asked when the lease is to be renewed."""
    world.board.put("http://a.example/")

    def until_it_looks_at_itself() -> None:
        world.ranker.looked.clear()
        world.ranker.looked.wait(10.0)

    world.board.in_first_take = until_it_looks_at_itself
    run(lambda: world.crawl(1))
    assert world.board.takes
    assert None not in world.board.said


def test_one_that_will_ask_a_page_again_is_not_idle(world: World) -> None:
    world.board.put("http://a.example/")
    partition = partition_of("http://a.example/")

    async def scenario() -> None:
        world.holdings.keep(partition)
        async for seed in world.seeds():
            world.crew.done([page_id_of(seed.url)])
            await world.crew._beat()
            assert world.board.said[-1] is None
            assert partition in world.crew._busy()
            world.holdings.let_go(partition)
            await world.crew._beat()
            assert world.board.said[-1] is not None

    run(scenario)


def test_a_plan_that_was_found_empty_is_not_asked_again_before_the_next_renewal(
    world: World,
) -> None:
    world.board.put("http://a.example/")
    run(lambda: world.crawl(1))
    assert world.board.takes <= len(world.board.said)


def test_the_board_hears_of_it_at_once_when_the_last_visit_is_done(
    world: World, timers: list[Callable[[], object]]
) -> None:
    world.board.put("http://a.example/", "http://b.example/")
    run(lambda: world.crawl(2))
    assert timers
    assert world.record.gave_up == 0


def test_seeds_that_ended_without_a_word_keep_nobody_waiting(
    world: World, timers: list[Callable[[], object]]
) -> None:
    world.board.put("http://a.example/", "http://b.example/")

    async def drop_all() -> None:
        assert len([seed async for seed in world.seeds()]) == 2

    run(drop_all)
    assert timers
    assert world.record.gave_up == 1


def test_what_waits_in_the_downloader_is_left_to_others_when_the_lease_has_run_out(
    world: World, timers: list[Callable[[], object]]
) -> None:
    world.board.put("http://a.example/")
    recalled: list[BaseException] = []

    async def stand_still() -> None:
        async for seed in world.seeds():
            sent = Deferred[Any]()
            sent.addErrback(lambda failure: recalled.append(failure.value))
            world.under_way.add(seed)
            world.slot.queue.append((seed, sent))
            for _ in range(5):
                world.board.now += LEASE_SECONDS / 4
                world.board.board.renew("another")
            timers[-1]()  # it goes on, and renews its lease
            while not recalled:
                await asyncio.sleep(0)
            return

    run(stand_still)
    assert [type(error) for error in recalled] == [LeftToOthersError]
    assert not world.slot.queue

"""How a crawl's seeds are ranked: which are sent, which are dropped, and what happens in between."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Self
from unittest.mock import Mock

import numpy as np
import pytest
from scrapy import Request, signals

from crawl_support import Timers, open_crawl, settled
from hacs_crawler.crawl import ranker as ranker_module
from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.meta import tag_of
from hacs_crawler.crawl.part import Part
from hacs_crawler.crawl.queues import SeedQueue
from hacs_crawler.crawl.ranker import Ranker, reading_a_list
from hacs_crawler.crawl.scrapy_internals import Downloads
from hacs_crawler.crawl.seeds import planned_seeds
from hacs_crawler.crawl.state_access.read_ahead import RETRY_SECONDS
from hacs_crawler.exceptions import StateError, StateUnavailableError
from hacs_crawler.links import page_id_of
from hacs_crawler.ranking.choice import Quota
from hacs_crawler.ranking.policies import Floats
from hacs_crawler.state import State, Visit
from hacs_crawler.utils.arrays import BoolArray
from hacs_crawler.utils.times import DAY

NOW = 1_700_000_000
QUIET, LIVELY = "http://quiet.example/", "http://lively.example/"
URLS = [f"http://{number}.example/" for number in range(5)]


class Listener(Part):
    """Keeps what the ranker tells parts."""

    calls: list[Any]
    during: Callable[[], object] = staticmethod(lambda: None)

    @classmethod
    def from_crawl(cls, crawl: Crawl) -> Self:
        part = cls()
        part.calls = []
        return part

    async def before_rank(self, urls: Sequence[str] | None, sites: object = None) -> None:
        self.calls.append(urls)
        self.during()

    def chosen(self, p: Floats, twice: int) -> None:
        self.calls.append((len(p), twice))


class Lots(Listener):
    """Grants two pages at a time out of three; it fails to while there is an error."""

    left = 3
    error: StateError | None = None

    def quota(self, quota: Quota) -> Quota:
        return replace(quota, grant=self.grant)

    async def grant(self, score: Floats, is_new: BoolArray, *, is_last: bool) -> BoolArray:
        if self.error is not None:
            raise self.error
        self.calls.append((len(score), is_last))
        number, self.left = min(2, self.left), max(0, self.left - 2)
        return np.arange(len(score)) < number


class World:
    """A ranker in an open crawl, before a queue from which the test takes seeds."""

    def __init__(self, crawl: Crawl) -> None:
        self.crawl = crawl
        crawl.clock = lambda: NOW
        self.calls = Counter[str]()
        self.is_quiet = True
        self.dropped: list[str] = []
        engine: Any = crawl.crawler.engine
        engine._slot.nextcall.schedule = lambda: self.calls.update(["wake"])
        self.queue = SeedQueue(Downloads(crawl.crawler))
        hooks = (lambda: self.is_quiet, lambda _: False, lambda: self.calls.update(["forget"]))
        self.ranker = Ranker(crawl, self.queue, *hooks)
        crawl.crawler.signals.connect(self._drop, signals.request_dropped)
        self.part = crawl.parts.of(Listener)

    def _drop(self, request: Request) -> None:
        self.dropped.append(request.url)

    def add(self, *urls: str, **meta: object) -> None:
        for url in urls:
            self.ranker.seeds.add(Request(url, meta=meta), page_id_of(url))

    async def rank(self, *urls: str, **meta: object) -> list[str]:
        """Rank seeds as at the end of a round; return what is sent, the best first."""
        self.add(*urls, **meta)
        await self.ranker.end_round()
        return self.sent()

    def sent(self, most: int = 99) -> list[str]:
        seeds: list[Request] = []
        while len(seeds) < most and (best := self.queue.best()) is not None:
            seeds.append(self.queue.take(best[0]))
        self.ranker.on_room()
        assert all(tag_of(seed).prediction for seed in seeds)
        return [seed.url for seed in seeds]

    async def end_of_work(self) -> None:
        for _ in range(5):
            await settled()
            await self.crawl.state.once(lambda _: None)


Make = Callable[..., AbstractAsyncContextManager[World]]


@pytest.fixture
def ranking(tmp_path: Path) -> Make:
    """Opens a crawl whose state knows a quiet and a lively page."""

    @asynccontextmanager
    async def opened(failure: str = "None", **settings: Any) -> AsyncIterator[World]:
        given = {"HACS_CONTROLS": 0, "HACS_PARTS": {Listener: 1}, **settings}
        async with open_crawl(tmp_path, **given) as crawl:
            for days in (30, 20, 10):
                at, marks = NOW - days * DAY, {QUIET: range(9), LIVELY: range(40 - days)}
                visits = [Visit(url, at, marks=frozenset(shown)) for url, shown in marks.items()]
                await crawl.state.once(State.record, visits)
            yield World(crawl)
            assert str(crawl.failure).startswith(failure)

    return opened


async def test_seeds_are_sent_by_their_score_with_what_was_predicted(ranking: Make) -> None:
    async with ranking() as world:
        world.ranker.watch.begin_starving()
        assert await world.rank(QUIET, LIVELY) == [LIVELY, QUIET]
        assert not world.ranker.watch.is_starving
        assert await world.rank(QUIET) == [QUIET]
        assert world.part.calls == [[QUIET, LIVELY], (2, 0), [QUIET], (1, 0)]
        assert [world.crawl.stats.get(name) for name in ("seeds", "ranked")] == [3, 3]
        assert 0 < world.crawl.stats.collector.get_value("hacs/rank_seconds") < 60
        assert world.calls["wake"] == 2
        assert not world.ranker.has_work


async def test_patterns_and_seeds_say_what_pages_weigh(ranking: Make) -> None:
    weights = {"quiet": 1e6, "nothing": 2.0}
    given = {"HACS_WEIGHTS": weights, "HACS_EVERY": {"quiet": [None, 1]}, "HACS_POLICY": "interest"}
    async with ranking(**given) as world:
        assert await world.rank(LIVELY, QUIET) == [QUIET, LIVELY]
        assert world.crawl.stats.collector.get_value("hacs/overdue") == 0
        assert world.crawl.stats.matched == {"quiet"}
    async with ranking("meta['hacs_weight'] = 'heavy' of http://quiet.example/") as world:
        assert await world.rank(QUIET, hacs_weight="heavy") == []
        assert [seed.url for seed in world.ranker.take_all()] == [QUIET]


async def test_within_a_budget_the_best_are_sent_once_no_better_ones_can_come(
    ranking: Make,
) -> None:
    async with ranking(HACS_BUDGET=1) as world:
        world.add(QUIET, LIVELY)
        assert not world.ranker.wants_ranking
        await world.ranker.rank_ahead()
        assert (world.calls["wake"], world.sent()) == (1, [])
        assert world.ranker.has_work
        assert await world.rank() == [LIVELY]
        assert (world.dropped, world.crawl.stats.get("dropped/budget")) == ([QUIET], 1)
        assert await world.rank(QUIET) == []
        world.ranker.begin_round()
        assert (world.calls["forget"], await world.rank(QUIET)) == (1, [QUIET])


@pytest.mark.parametrize("is_dropped", [True, False])
async def test_seeds_that_are_left_when_the_crawl_is_over_are_dropped_or_given_back(
    is_dropped: bool, ranking: Make
) -> None:
    async with ranking(HACS_BUDGET=2) as world:
        world.add(QUIET, LIVELY)
        await world.ranker.rank()
        if is_dropped:
            world.ranker.drop_all()
            assert sorted(world.dropped) == [LIVELY, QUIET]
        else:
            assert {seed.url for seed in world.ranker.take_all()} == {LIVELY, QUIET}
        world.ranker.on_pause()
        await world.end_of_work()
        assert world.sent() == []


async def test_what_is_being_ranked_when_the_crawl_ends_is_not_sent(ranking: Make) -> None:
    async with ranking() as world:
        world.part.during = world.ranker.take_all
        assert (await world.rank(QUIET), world.crawl.stats.get("seeds")) == ([], 0)
        assert not world.ranker.has_work


async def test_a_start_that_pauses_has_its_seeds_ranked_and_an_error_ends_the_crawl(
    ranking: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with ranking("the seeds could not be ranked: ZeroDivisionError: division") as world:
        for _ in range(3):
            world.add(QUIET)
            world.ranker.on_pause()
            await world.end_of_work()
            assert world.sent() == [QUIET] * (world.crawl.failure is None)
            monkeypatch.setattr(world.queue, "add", lambda *_: 1 / 0)
        assert world.calls["wake"] == 3


@pytest.mark.parametrize("has_ranked", [False, True])
@pytest.mark.parametrize("error", [StateUnavailableError, StateError])
async def test_a_state_that_is_away_is_waited_for_once_something_was_ranked(
    error: type[StateError], has_ranked: bool, ranking: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    timers = Timers()
    monkeypatch.setattr(ranker_module, "sleep", timers.sleep)
    waits = has_ranked and error is StateUnavailableError
    async with ranking("None" if waits else "the state is away") as world:
        assert not has_ranked or await world.rank(QUIET) == [QUIET]
        with monkeypatch.context() as away:
            fails = Mock(side_effect=error("the state is away"))
            away.setattr(ranker_module, "read_signals", fails)
            world.add(LIVELY)
            task = asyncio.ensure_future(world.ranker.end_round())
            await world.end_of_work()
            assert timers.waiting == [RETRY_SECONDS] * waits
            assert world.ranker.is_ranking is waits
        timers.go_on(RETRY_SECONDS)
        await task
        assert world.sent() == [LIVELY] * waits


async def test_visits_of_the_future_are_set_aside_and_that_is_said_once(
    ranking: Make, caplog: pytest.LogCaptureFixture
) -> None:
    async with ranking() as world:
        late = Visit(QUIET, NOW + 9 * DAY, marks=frozenset(range(9)))
        await world.crawl.state.once(State.record, [late])
        for _ in range(2):
            assert await world.rank(QUIET) == [QUIET]
        assert len(caplog.messages) == 1


@pytest.mark.parametrize("failure", ["None", "out of order"])
async def test_who_ranks_ahead_waits_until_half_of_the_seeds_are_sent_or_the_crawl_has_failed(
    failure: str, ranking: Make
) -> None:
    async with ranking(failure) as world:
        world.add(*URLS)
        await world.ranker.rank()
        for enough in (None, 6):
            await world.ranker.make_room(enough)
        waiting = asyncio.ensure_future(world.ranker.make_room(5))
        await settled()
        for _ in range(3):
            assert not waiting.done()
            world.sent(1)
            await settled()
        assert not waiting.done()
        if failure != "None":
            world.crawl.fail(failure)
            await world.ranker.make_room(1)
        world.sent(1)
        await waiting


async def test_of_a_shared_budget_the_next_lot_is_asked_for_when_few_seeds_wait(
    ranking: Make,
) -> None:
    async with ranking(HACS_PARTS={Listener: None, Lots: 1}, HACS_BUDGET=9) as world:
        assert len(await world.rank(*URLS)) == 2
        await world.end_of_work()
        assert len(world.sent()) == 1
        for _ in range(2):
            await world.end_of_work()
            assert world.sent() == []
        assert world.part.calls[1:] == [(5, False), (2, 0), (3, False), (1, 0), (2, False)]
        for world.is_quiet in (False, True):
            assert world.dropped == []
            await world.ranker.end_round()
        assert world.part.calls[6:] == [(2, False), (2, True)]
        assert len(world.dropped) == 2
    failure = "the notes are damaged"
    async with ranking(failure, HACS_PARTS={Listener: None, Lots: 1}, HACS_BUDGET=9) as world:
        world.add(QUIET)
        await world.ranker.rank()
        assert isinstance(world.part, Lots)
        world.part.error = StateError(failure)
        assert await world.rank() == []


async def test_a_plan_ends_with_a_crawl_that_has_failed(ranking: Make) -> None:
    async with ranking("broken on purpose") as world:
        urls = []
        async for url, _ in planned_seeds(world.crawl):
            urls.append(url)
            world.crawl.fail("broken on purpose")
        assert urls == [LIVELY]


@pytest.mark.parametrize("ranked_whole", [True, False])
async def test_a_list_waits_for_no_request_while_it_is_read(
    ranked_whole: bool, ranking: Make
) -> None:
    async with ranking() as world:
        ranker = world.ranker
        with reading_a_list(world.crawl.crawler, ranked_whole=ranked_whole):
            assert ranker.watch.is_reading
        assert (ranker.watch.is_reading, ranker.seeds.ends_surely) == (False, ranked_whole)
        del world.crawl.crawler.hacs_ranker
        with reading_a_list(world.crawl.crawler):
            assert not ranker.watch.is_reading

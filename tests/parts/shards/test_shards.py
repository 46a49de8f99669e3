"""The shard of one crawl by its hooks: its pages, its lots of the budget, and what it hands over."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scrapy import Request, Spider
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred, fail

from crawl_support import PREDICTION, Any_, Timers, close, new_crawl, run, settled
from hacs_crawler.crawl.meta import mark_added
from hacs_crawler.crawl.ranker import Ranker
from hacs_crawler.crawl.recipes import handed_over_kind, pages_handed_over, read_recipes
from hacs_crawler.exceptions import StateError, StateUnavailableError
from hacs_crawler.links import page_id_of
from hacs_crawler.parts.shards import shards as shards_module
from hacs_crawler.parts.shards.handed_over import WaitingPage, hand_over
from hacs_crawler.parts.shards.shards import WRITE_SECONDS, Shards
from hacs_crawler.ranking.choice import Quota
from hacs_crawler.shards import Round, RoundNotes, ShardShare, open_rounds, shard_lock
from hacs_crawler.state import News, Shard, State, Visit, change_annotations, open_state

OWN, THEIRS = "http://a.example/", "http://b.example/"
"""Pages of the shard of the crawl, 0/2, and of the other one."""
BEGAN = 1_700_000_000


class Queue(Spider):
    """A spider whose start() may read a queue that yields each request once."""

    name = "any"

    async def start(self) -> AsyncIterator[Any]:
        yield Request(OWN)


def planned(
    budget: int | None = 10, shares: Sequence[ShardShare] = (), began: int = BEGAN, **more: Any
) -> Round:
    given = {"for_new": None, "cut_off": None, **more}
    return Round(began, budget, shards=[*shares] or [ShardShare(), ShardShare()], **given)


class World:
    """A crawl of shard 0/2 with the notes of the round, and timers that the test moves."""

    notes: RoundNotes

    def __init__(self, folder: Path, timers: Timers, spider: type[Spider], **settings: Any) -> None:
        self.crawl = new_crawl(folder, spider, HACS_SHARD="0/2", **settings)
        self.crawl.clock = lambda: BEGAN + 60
        self.timers = timers
        self.part = self.crawl.parts.of(Shards)
        self.ranker = Ranker.of(self.crawl.crawler)
        self.error: type[StateError] | None = None
        self._run: Callable[..., Deferred[Any]] = self.part._worker.run
        self.part._worker.run = self.run

    def run(self, function: Any, *given: Any, **named: Any) -> Deferred[Any]:
        if self.error is None:
            return self._run(function, *given, **named)
        return fail(self.error("the state is away"))

    @property
    def round(self) -> Round:
        return self.notes.read()

    @property
    def share(self) -> ShardShare:
        return self.round.shards[0]

    async def end_of_work(self) -> None:
        for _ in range(6):
            await settled()
            await self.crawl.state.once(lambda _: None)
            await maybe_deferred_to_future(self._run(int))

    async def wait(self, seconds: float = WRITE_SECONDS) -> None:
        self.timers.go_on(seconds)
        await self.end_of_work()

    async def close(self, reason: str = "finished") -> None:
        self.begin_to_close()
        await close(self.crawl, reason)

    def begin_to_close(self) -> None:
        engine: Any = self.crawl.crawler.engine
        engine._slot.closing = Deferred()

    def follow(self, url: str) -> bool:
        return self.part.takes(url, Request(url, cb_kwargs={"n": 1}))

    def start(self, url: str) -> bool:
        return self.part.takes(url, Request(url, meta={"is_start_request": True}))

    async def granted(
        self, *score: float, new: Sequence[int] = (), last: bool = False
    ) -> list[int]:
        """The places of the pages that may be visited now."""
        is_new = np.isin(np.arange(len(score)), new)
        found = await self.part.grant(np.array(score), is_new, is_last=last)
        return list(map(int, np.flatnonzero(found)))

    async def visit(self, url: str, news: News = News.SEEN) -> None:
        self.crawl.state.write_behind.record(Visit(url, BEGAN, news, prediction=PREDICTION))
        assert await self.crawl.state.write_behind.settle()
        await self.wait()

    def handed_over(self, shard: int) -> set[int]:
        config = replace(self.crawl.config, shard=Shard(shard, 2))
        with closing(open_state(*config.state_arguments)) as state:
            return set(pages_handed_over(state, "any").tolist())


Make = Callable[..., AbstractAsyncContextManager[World]]


@pytest.fixture
def crawling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Begins a crawl, in a round of all shards or without one, and closes it."""

    @asynccontextmanager
    async def began(
        round_: Round | None = None, spider: type[Spider] = Any_, failure: str = "", **settings: Any
    ) -> AsyncIterator[World]:
        timers = Timers()
        monkeypatch.setattr(shards_module, "call_later", timers.call_later)
        monkeypatch.setattr(shards_module, "sleep", timers.sleep)
        budget = None if round_ is None else round_.budget
        world = World(tmp_path, timers, spider, **{"HACS_BUDGET": budget, **settings})
        with closing(open_rounds(world.crawl.config, 2)) as world.notes:
            world.notes.write(round_)
            await world.crawl.open()
            yield world
            assert str(world.crawl.failure).startswith(failure or "None")
            world.error = None
            if not world.crawl._is_closed:
                await world.close()

    return began


def test_it_is_named_for_files_and_without_its_own_scheduler_it_is_refused(tmp_path: Path) -> None:
    crawl = new_crawl(tmp_path, HACS_SHARD="0/2")
    assert getattr(crawl.crawler.spider, "hacs_shard", None) == "0-2"
    del crawl.crawler.hacs_ranker
    run(crawl.open())
    assert str(crawl.failure).startswith("HACS_SHARD needs HACS's own SCHEDULER")


@pytest.mark.parametrize("round_", [planned(), None])
@pytest.mark.parametrize("url", [OWN, THEIRS])
@pytest.mark.parametrize("of", ["start", "list", "read", "callback"])
async def test_pages_of_other_shards_are_left_to_them_and_what_callbacks_ask_for_is_handed_over(
    of: str, url: str, round_: Round | None, crawling: Make, caplog: pytest.LogCaptureFixture
) -> None:
    """In a round what callbacks ask for of the crawl's own waits in its state, too."""
    is_own, is_followed, ids = (
        url is OWN,
        of == "callback",
        {page_id_of(url), page_id_of(f"{url}x")},
    )
    is_given, is_kept = is_followed and not is_own, is_followed and is_own and round_ is not None
    caplog.set_level("INFO")
    async with crawling(round_) as world:
        takes = world.part.takes
        asks = {
            "start": world.start,
            "callback": world.follow,
            "list": lambda one: takes(one, mark_added(Request(one))),
            "read": lambda one: takes(one, None),
        }
        assert [*map(asks[of], (url, f"{url}x", url))] == [is_own] * 3
        assert world.crawl.stats.get("shard/handed_over") == 2 * is_given
        assert world.crawl.stats.get("shard/left_out") == 3 * (not is_followed and not is_own)
        assert world.timers.waiting == [WRITE_SECONDS] * (is_given or is_kept)
        await world.wait()
        assert world.handed_over(0) == (ids if is_kept else set())
        assert world.handed_over(1) == (ids if is_given else set())
        assert round_ is None or [share.given for share in world.round.shards] == [0, is_given]
    assert caplog.text.count(f"{url} belongs to shard 1/2: its request is handed over") == is_given
    assert caplog.text.count("its request is handed over") == is_given


async def test_requests_wait_in_the_state_until_their_pages_are_visited(crawling: Make) -> None:
    urls = [f"{OWN}{path}" for path in "xyz"]
    ids = [page_id_of(url) for url in urls]
    async with crawling(planned()) as world:
        assert all(map(world.follow, urls))
        await world.visit(urls[0])
        assert world.handed_over(0) == set(ids[1:])
        assert (await world.crawl.state.once(State.load, ids)).keys() == {*ids}
        kept = await world.crawl.state.once(read_recipes, "any", ids[1:])
        assert [recipe and recipe.cb_kwargs for recipe in kept.values()] == [{"n": 1}] * 2
        await world.visit(urls[1])
        await world.visit(THEIRS)
        assert world.handed_over(0) == {ids[2]}
    async with crawling(planned()) as world:
        assert [request.url async for request in world.part.start_requests()] == [urls[2]]
        assert world.follow(urls[2])
        assert world.timers.waiting == []
        assert world.part.takes(urls[2], None)
        assert [world.start(urls[2]) for _ in range(2)] == [True, False]
        await world.visit(urls[2])
        again = {ids[2]: WaitingPage(urls[2], kept[ids[2]])}
        assert hand_over(world.crawl.config, "any", again, (), BEGAN) == set()
        assert world.handed_over(0) == set()


@pytest.mark.parametrize("budget", [3, None])
@pytest.mark.parametrize("round_", [None, planned(7, cut_off=0.5), planned(None)])
async def test_a_round_has_the_quota_of_all_shards_and_a_budget_if_its_crawls_have_one(
    round_: Round | None, budget: int | None, crawling: Make
) -> None:
    failure = ""
    if round_ is not None and (round_.budget is None) != (budget is None):
        failure = f"HACS_BUDGET = {budget}: the round was planned with {round_.budget}, give its"
    async with crawling(round_, failure=failure, HACS_BUDGET=budget) as world:
        is_shared = round_ is not None and round_.budget is not None
        grant = world.part.grant if is_shared else None
        quota = Quota(budget) if round_ is None else Quota(round_.budget, shards=2, grant=grant)
        quota = replace(quota, least=0.5) if is_shared else quota
        assert world.part.quota(Quota(budget)) == quota
        assert round_ is None or world.share.is_open is not bool(failure)


@pytest.mark.parametrize(
    ("round_", "new", "granted", "taken"),
    [
        (planned(100), [], [0, 1, 2, 3], (4, 0)),
        (planned(8), [], [1, 3], (2, 0)),
        (planned(4), [0, 1], [1], (1, 0)),
        (planned(100, cut_off=0.5), [], [1, 3], (2, 0)),
        (planned(100, cut_off=1.0), [], [], (0, 0)),
        (planned(100, for_new=50), [0, 1], [0, 1, 2, 3], (2, 2)),
        (planned(8, for_new=1), [0, 1, 2], [1, 3], (1, 1)),
        (planned(100, for_new=50, cut_off=0.4), [0], [1, 2, 3], (3, 0)),
    ],
)
async def test_a_lot_is_for_the_best_pages_of_each_kind_that_reach_the_cut_off(
    round_: Round, new: list[int], granted: list[int], taken: tuple[int, int], crawling: Make
) -> None:
    async with crawling(round_) as world:
        assert await world.granted(0.3, 0.9, 0.4, 0.5, new=new) == granted
        assert (world.share.seen, world.share.new, world.share.has_ended) == (*taken, False)
        world.crawl.is_open = False
        assert await world.granted(1.0) == []
        world.crawl.is_open = True
        world.begin_to_close()
        assert await world.granted(1.0) == []


@pytest.mark.parametrize(
    ("score", "last", "other_ended", "ended"),
    [
        ([0.2], False, True, (False, False)),
        ([0.2], True, False, (True, True)),
        ([], True, False, (True, False)),
        ([0.2], True, True, (False, False)),
        ([0.9], True, True, (False, False)),
    ],
)
async def test_where_nothing_else_is_left_the_shard_has_ended_and_once_all_have_no_cut_off_holds(
    score: list[float], last: bool, other_ended: bool, ended: object, crawling: Make
) -> None:
    shares = [ShardShare(), ShardShare(has_ended=other_ended)]
    async with crawling(planned(cut_off=0.5, shares=shares)) as world:
        assert await world.granted(*score, last=last) == [0] * (last and other_ended)
        assert (world.share.has_ended, world.share.has_more) == ended
        is_free = last and other_ended and score == [0.2]
        assert world.round.cut_off == (None if is_free else 0.5)


@pytest.mark.parametrize(
    ("reason", "has_lot", "ended"),
    [
        ("finished", False, (True, True)),
        ("finished", True, (True, False)),
        ("shutdown", False, (True, True)),
        ("shutdown", True, (False, True)),
    ],
)
async def test_a_crawl_that_finishes_ends_its_share_once_after_its_last_lot(
    reason: str, has_lot: bool, ended: object, crawling: Make
) -> None:
    async with crawling(planned(cut_off=0.5)) as world:
        assert await world.granted(0.2, last=True) == []
        if has_lot:
            assert await world.granted(0.9) == [0]
        await world.close(reason)
        assert (world.share.has_ended, world.share.has_more) == ended
        assert world.share.start is None


@pytest.mark.parametrize(
    ("attempts", "was_killed", "done", "freed"),
    [(1, True, 3, 3), (1, False, 3, 0), (0, False, 0, 0)],
)
async def test_what_a_killed_crawl_took_and_did_not_use_is_free_once_this_one_has_ended(
    attempts: int, was_killed: bool, done: int, freed: int, crawling: Make
) -> None:
    """What was done in the round is not done again, and not asked for again."""
    share = ShardShare(attempts, seen=3, new=3, is_open=was_killed)
    urls = [f"{OWN}{path}" for path in "wxyz"]
    ids = [page_id_of(url) for url in urls]

    def hand_over(state: State) -> None:
        change_annotations(state.store, handed_over_kind("any"), ids[2:], lambda *_: b"1")

    async with crawling() as world:
        for url, news in zip(urls, (News.SEEN, News.FAILED, News.SEEN), strict=False):
            await world.visit(url, news)
        await world.crawl.state.once(hand_over)
    async with crawling(planned(shares=[share, ShardShare()])) as world:
        assert [world.part.takes(url, None) for url in urls] == [not done] * 3 + [True]
        assert not world.part.takes(THEIRS, None)
        assert world.crawl.stats.get("dropped/done") == done
        await world.granted(last=True)
        await world.close()
        assert world.round.free == 4 + freed
        assert world.handed_over(0) == set(ids[3:] if done else ids[2:])


async def test_the_work_of_all_crawls_is_summed_but_what_is_left_is_that_of_the_last(
    crawling: Make,
) -> None:
    """What was visited is counted only once the last has ended: one that is killed counts nothing."""
    before = {"asked": 2.0, "seconds": 1000.0, "dropped": 70.0, "visited": 9.0}
    async with crawling(planned(shares=[ShardShare(1, counts=before), ShardShare()])) as world:
        await world.visit(OWN)
        await world.visit(f"{OWN}x", News.FAILED)
        for stat in ("downloader/request_count", "hacs/dropped/gone", "hacs/dropped/done"):
            world.crawl.stats.collector.set_value(stat, 3)
        assert world.follow(OWN)
        await world.wait()
        counts = world.share.counts
        assert 1000.0 <= counts.pop("seconds") < 1060.0
        assert counts == {"asked": 5.0, "items": 0.0, "dropped": 3.0}
        await world.close()
        assert (world.share.counts["visited"], world.share.counts["updates"]) == (1, 0)


@pytest.mark.parametrize("is_over", [True, False])
@pytest.mark.parametrize(
    ("noted", "spider", "given"),
    [
        ("nothing", Queue, True),
        ("usual", Queue, False),
        ("others", Queue, True),
        ("others", Any_, False),
    ],
)
async def test_what_only_this_crawls_queue_yields_is_handed_over_once_another_start_is_over(
    noted: str, spider: type[Spider], given: bool, is_over: bool, crawling: Make
) -> None:
    """What each start yields is noted: one that yields the same as another is no queue."""
    urls = [OWN, THEIRS, f"{OWN}x", f"{OWN}y"]
    usual = sum(map(page_id_of, urls)) % 2**62
    start = {"usual": usual, "others": 7}.get(noted)
    async with crawling(planned(), spider) as world:
        assert [world.start(url) for url in urls] == [url != THEIRS for url in urls]
        assert world.follow(f"{OWN}z")
        await world.wait()
        world.notes.change(BEGAN, lambda round_: setattr(round_.shards[1], "start", start))
        world.ranker.watch.is_over = is_over
        await world.wait()
        assert len(world.handed_over(1)) == (given and is_over and noted == "others")
        await world.close()
        assert len(world.handed_over(1)) == given
        assert world.share.start == (usual if spider is Queue else None)


async def test_of_a_long_queue_not_all_waits_in_memory(
    crawling: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards_module, "MOST_START_PAGES", 2)
    async with crawling(planned(), Queue) as world:
        for number, written in enumerate((0, 0, 3, 3)):
            world.start(f"{THEIRS}{number}")
            await world.wait()
            assert len(world.handed_over(1)) == written


@pytest.mark.parametrize("is_open", [True, False])
async def test_in_the_next_round_a_crawl_goes_on_once_it_is_planned(
    is_open: bool, crawling: Make
) -> None:
    async with crawling(planned()) as world:
        began = asyncio.ensure_future(world.part.round_began())
        for _ in range(3):
            await world.wait()
            assert not began.done()
        world.crawl.is_open = is_open
        if is_open:
            world.notes.write(planned(20, began=BEGAN + 1))
        await world.wait()
        await began
        assert world.share.attempts == 1
        assert world.part.quota(Quota(3)).budget == (20 if is_open else 10)
        world.notes.write(None)
        await world.part.round_began()
        assert world.part.quota(Quota(3)).budget == (3 if is_open else 10)
        world.notes.write(planned())
        await world.part.round_began()
        assert world.part.quota(Quota(3)).budget == 10


async def test_a_state_that_is_away_is_waited_for_and_nothing_is_lost(
    crawling: Make, caplog: pytest.LogCaptureFixture
) -> None:
    async with crawling() as world:
        world.follow(THEIRS)
        world.error = StateUnavailableError
        for _ in range(3):
            await world.wait()
            assert world.timers.waiting == [WRITE_SECONDS]
        world.error = None
        await world.wait()
        assert world.handed_over(1) == {page_id_of(THEIRS)}
    assert caplog.messages == ["the state is away; next try in 2 s"] * 3


async def test_a_crawl_that_ends_meanwhile_tries_a_few_times_and_says_what_is_lost(
    crawling: Make, caplog: pytest.LogCaptureFixture
) -> None:
    async with crawling(failure="1 page could not be handed over: the state is away") as world:
        world.begin_to_close()
        world.follow(THEIRS)
        world.error = StateUnavailableError
        ending = asyncio.ensure_future(world.part.closing())
        for pause in (0.5, 1.0, 2.0, 4.0):
            await world.end_of_work()
            assert not ending.done()
            world.timers.go_on(pause)
        await ending
    assert len([text for text in caplog.messages if "next try" in text]) == 4


async def test_a_state_that_is_damaged_ends_the_crawl_but_not_its_share(crawling: Make) -> None:
    async with crawling(planned(), failure="the state is away") as world:
        world.follow(THEIRS)
        world.error = StateError
        await world.wait()
        world.error = None
        assert await world.granted(last=True) == []
        await world.close()
        assert (world.share.has_ended, world.share.is_open, world.share.counts) == (False, True, {})


async def test_a_crawl_that_waits_for_its_shard_ends_when_it_is_closed(tmp_path: Path) -> None:
    crawl = new_crawl(tmp_path, HACS_SHARD="0/2")
    lock = shard_lock(crawl.config.state, crawl.config.own_namespace, crawl.config.base)
    assert lock.take() is None
    opening = asyncio.ensure_future(crawl.open())
    await settled()
    assert not opening.done()
    await close(crawl, "shutdown")
    await opening
    lock.release()


async def test_a_crawl_that_has_closed_gives_up_its_shard_and_its_thread(crawling: Make) -> None:
    async with crawling(planned()) as world:
        config = world.crawl.config
        lock = shard_lock(config.state, config.own_namespace, config.base)
        assert lock.take() is not None
        world.follow(THEIRS)
        await world.close()
        assert lock.take() is None
        lock.release()
        with pytest.raises(RuntimeError):
            world.run(int)
        world.timers.go_on(WRITE_SECONDS)
        await settled()

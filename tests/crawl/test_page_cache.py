"""Pages read ahead and visits written behind: a real state, a real thread, and timers of the test's."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from scrapy.utils.defer import maybe_deferred_to_future

from crawl_support import Timers, run, settled
from hacs_crawler.crawl import page_cache
from hacs_crawler.crawl.loop import Worker
from hacs_crawler.crawl.page_cache import (
    CLOSING_PAUSES_SECONDS,
    FIRST_PAUSE_SECONDS,
    GATHER_SECONDS,
    LONGEST_PAUSE_SECONDS,
    RETRY_SECONDS,
    Claim,
    PageCache,
)
from hacs_crawler.exceptions import StateError, StateUnavailableError
from hacs_crawler.links import page_id_of
from hacs_crawler.state import (
    ROW,
    Estimation,
    Prediction,
    Recorded,
    State,
    Store,
    Visit,
)
from hacs_crawler.state.store import Change

A, B, C = "http://a.example/", "http://b.example/", "http://c.example/"
OF_A = "http://a.example/menu.html"
DAY = 86_400
SECONDS = 2.0
"""After how long a visit is written."""
PREDICTION = Prediction(
    label=1, run=2, p=0.5, raw_p=0.5, rate_per_day=1.0, days_since_visit=1.0, churn=0.0
)

on_real_stores = pytest.mark.parametrize("new_store", ["sqlite", "redis"], indirect=True)


def visit(url: str, day: int, *links: int) -> Visit:
    return Visit(url, day * DAY, links=frozenset(links))


class Road:
    """A store, and the way to it: where that is closed, the store is away."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.error: Exception | None = None
        self.reads: list[list[int]] = []
        self.writes = 0

    def __getattr__(self, name: str) -> Any:
        if self.error is not None and name in {"load", "rows", "write", "urls"}:
            raise self.error
        return getattr(self._store, name)

    def load(self, page_ids: Sequence[int]) -> dict[int, bytes]:
        self.reads.append(list(page_ids))
        if self.error is not None:
            raise self.error
        return self._store.load(page_ids)

    def write(self, changes: Any) -> Any:
        self.writes += 1
        if self.error is not None:
            raise self.error
        return self._store.write(changes)

    def close_for(self, reason: str = "the state is away") -> None:
        self.error = StateUnavailableError(reason)

    def open(self) -> None:
        self.error = None


class World:
    """A cache before a state, what it told, and the time it goes by."""

    def __init__(self, store: Store, timers: Timers, *, count: int, limit: int) -> None:
        self.road: Any = Road(store)
        self.timers = timers
        self.state = State(self.road, Estimation())
        self.worker = Worker()
        self.recorded: list[Recorded] = []
        self.errors: list[StateError] = []
        self.pages = PageCache(
            self.state,
            self.worker,
            count=count,
            seconds=SECONDS,
            limit=limit,
            on_recorded=self.recorded.extend,
            on_error=self.errors.append,
        )

    async def end_of_work(self) -> None:
        """Return when the thread has done all that it was given, and all that this led to."""
        for _ in range(3):
            await maybe_deferred_to_future(self.worker.run(int))
            await settled()

    async def wait(self, seconds: float) -> None:
        """Let time go on, and the thread do what comes of it."""
        self.timers.go_on(seconds)
        await self.end_of_work()

    async def claim(self, *urls: str) -> None:
        """Claim pages and have them read."""
        for url in urls:
            self.pages.claim(url)
        await self.wait(GATHER_SECONDS)

    async def visit(self, url: str, day: int, *links: int) -> Recorded:
        """Read a page, and record a visit to it."""
        await self.claim(url)
        return self.pages.record(visit(url, day, *links))

    def days(self, url: str) -> list[int]:
        """On which days the state knows the page to have been visited."""
        is_open, self.road.error = self.road.error, None
        page = self.state.load([page_id_of(url)]).get(page_id_of(url))
        self.road.error = is_open
        return [] if page is None else [at // DAY for at in page.visits]

    async def until(self, task: asyncio.Task[Any]) -> list[float]:
        """Let time go on until a task has ended; return the pauses that this took."""
        pauses = []
        await self.end_of_work()
        while not task.done():
            assert len(pauses) < 99
            pauses.append(self.timers.waiting[0])
            await self.wait(pauses[-1])
        return pauses


@pytest.fixture
def timers(monkeypatch: pytest.MonkeyPatch) -> Timers:
    timers = Timers()
    monkeypatch.setattr(page_cache, "call_later", timers.call_later)
    monkeypatch.setattr(page_cache, "sleep", timers.sleep)
    return timers


Make = Callable[..., World]


@pytest.fixture
def new_world(new_store: Callable[[], Store], timers: Timers) -> Iterator[Make]:
    made: list[World] = []

    def make(*, count: int = 100, limit: int = 1_000) -> World:
        made.append(World(new_store(), timers, count=count, limit=limit))
        return made[-1]

    yield make
    for world in made:
        world.worker.close()


@pytest.fixture
def world(new_world: Make) -> World:
    return new_world()


@asynccontextmanager
async def busy(worker: Worker) -> AsyncIterator[None]:
    """Keep the thread from doing anything."""
    is_free = threading.Event()
    worker.run(is_free.wait, 60.0)
    try:
        yield
    finally:
        is_free.set()


pytestmark = on_real_stores


def test_a_claimed_page_is_read_soon(world: World) -> None:
    async def scenario() -> None:
        world.state.record([visit(A, 1, 7)])
        assert not world.pages.is_pending(A)
        world.pages.claim(A)
        assert world.pages.is_pending(A)
        assert world.pages.look(A) is None
        await world.wait(GATHER_SECONDS)
        assert not world.pages.is_pending(A)
        page = world.pages.look(A)
        assert page is not None
        assert page.last_visit == 1 * DAY

    run(scenario())


def test_pages_claimed_at_almost_the_same_time_are_read_together(world: World) -> None:
    async def scenario() -> None:
        world.road.reads.clear()
        world.pages.claim(A)
        world.timers.go_on(GATHER_SECONDS / 2)
        world.pages.claim(B)
        world.pages.claim(A)
        await world.wait(GATHER_SECONDS / 2)
        assert world.road.reads == [[page_id_of(A), page_id_of(B)]]

    run(scenario())


def test_pages_claimed_while_others_are_read_are_read_right_after_those(world: World) -> None:
    async def scenario() -> None:
        world.road.reads.clear()
        async with busy(world.worker):
            world.pages.claim(A)
            world.timers.go_on(GATHER_SECONDS)
            world.pages.claim(B)
            world.pages.claim(C)
            assert world.timers.waiting == []
        await world.end_of_work()
        assert world.road.reads == [[page_id_of(A)], [page_id_of(B), page_id_of(C)]]

    run(scenario())


def test_who_waits_for_a_page_goes_on_when_it_has_been_read(world: World) -> None:
    async def scenario() -> None:
        await world.pages.ready(A)  # which nobody has claimed
        async with busy(world.worker):
            world.pages.claim(A)
            waiting = [asyncio.ensure_future(world.pages.ready(A)) for _ in range(2)]
            world.timers.go_on(GATHER_SECONDS)
            await settled()
            assert not any(one.done() for one in waiting)
        await asyncio.gather(*waiting)
        assert not world.pages.is_pending(A)

    run(scenario())


def test_who_waits_for_a_page_that_cannot_be_read_goes_on_too(world: World) -> None:
    async def scenario() -> None:
        world.road.close_for()
        world.pages.claim(A)
        waiting = asyncio.ensure_future(world.pages.ready(A))
        await settled()
        await world.wait(GATHER_SECONDS)
        assert waiting.done()
        assert [str(error) for error in world.errors] == ["the state is away"]
        world.road.open()
        await world.claim(A)
        assert not world.pages.is_pending(A)
        assert world.pages.record(visit(A, 1)).is_known, "the second claim had it read"

    run(scenario())


def test_an_error_in_reading_that_no_store_should_have_says_what_it_is(world: World) -> None:
    async def scenario() -> None:
        world.road.error = KeyError("no such thing")
        await world.claim(A)
        (error,) = world.errors
        assert str(error) == "pages could not be read: KeyError: 'no such thing'"
        assert not isinstance(error, StateUnavailableError)

    run(scenario())


def test_what_was_new_to_the_site_is_told_at_once(world: World) -> None:
    async def scenario() -> None:
        for url in (A, OF_A):
            await world.visit(url, 1, 7)
        first, second = [await world.visit(url, 2, 7, 8) for url in (A, OF_A)]
        assert (first.new_links, first.new_to_site) == ({8}, {8})
        assert (second.new_links, second.new_to_site) == ({8}, frozenset())
        assert second.updated
        assert not second.updated_site

    run(scenario())


def test_what_another_worker_wrote_before_a_page_was_read_is_known(world: World) -> None:
    async def scenario() -> None:
        world.state.record([visit(A, 1, 7), visit(OF_A, 1, 7), visit(OF_A, 2, 7, 8)])
        told = await world.visit(A, 3, 7, 8)
        assert told.updated
        assert not told.updated_site

    run(scenario())


def test_the_first_visit_of_a_page_that_was_read_is_known_to_be_the_first(world: World) -> None:
    async def scenario() -> None:
        first = await world.visit(A, 1, 7)
        assert first.is_known
        assert not first.before.visits
        assert not first.updated
        assert first.new_links == frozenset()

    run(scenario())


def test_a_visit_tells_what_it_brought_before_anything_is_written(world: World) -> None:
    async def scenario() -> None:
        await world.visit(A, 1, 7)
        second = await world.visit(A, 2, 7, 8)
        assert second.updated
        assert second.new_links == {8}
        assert list(second.before.visits) == [1 * DAY]
        assert list(second.after.visits) == [1 * DAY, 2 * DAY]
        assert world.pages.look(A) == second.after
        assert world.pages.waiting == 2
        assert world.days(A) == []

    run(scenario())


def test_a_visit_to_a_page_that_was_not_read_is_not_known_to_be_first_and_is_written(
    world: World,
) -> None:
    async def scenario() -> None:
        world.state.record([visit(A, 1, 7)])
        one = world.pages.record(visit(A, 2, 7, 8))
        assert not one.is_known
        await world.pages.close()
        assert world.days(A) == [1, 2]
        (written,) = world.recorded
        assert written.new_links == {8}, "the state tells what it really brought"

    run(scenario())


def test_a_page_is_held_until_it_was_recorded_as_often_as_it_was_claimed(world: World) -> None:
    async def scenario() -> None:
        world.state.record([visit(A, 1)])
        await world.claim(A, A)
        world.pages.drop(A)
        assert world.pages.look(A) is not None
        world.pages.drop(A)
        assert world.pages.look(A) is None
        assert world.pages.unfinished() == []
        world.pages.drop(A)  # once too often does no harm

    run(scenario())


def test_a_redirect_or_retry_goes_on_with_the_claim_of_its_request(world: World) -> None:
    async def scenario() -> None:
        world.pages.claim(A)
        world.pages.claim(A, is_again=True)
        world.pages.claim(A, is_again=True)
        await world.wait(GATHER_SECONDS)
        world.pages.record(visit(A, 1))
        assert world.pages.unfinished() == []
        world.pages.claim(B, is_again=True)  # of a request whose claim is over
        assert [claim.url for claim in world.pages.unfinished()] == [B]

    run(scenario())


def test_what_is_claimed_and_never_recorded_is_unfinished_with_what_was_predicted_of_it(
    world: World,
) -> None:
    async def scenario() -> None:
        world.pages.claim(A, PREDICTION)
        world.pages.claim(A)
        world.pages.claim(B)
        await world.wait(GATHER_SECONDS)
        assert world.pages.unfinished() == [Claim(A, 2, PREDICTION), Claim(B, 1)]
        assert world.pages.unfinished() == []
        assert world.pages.look(A) is None

    run(scenario())


def test_visits_are_written_when_so_many_wait(new_world: Make) -> None:
    async def scenario() -> None:
        world = new_world(count=2)
        await world.visit(A, 1)
        assert world.pages.waiting == 1
        await world.visit(B, 1)
        await world.end_of_work()
        assert world.pages.waiting == 0
        assert world.days(A) == world.days(B) == [1]
        assert world.timers.waiting == []

    run(scenario())


def test_visits_are_written_when_they_have_waited_for_long_enough(world: World) -> None:
    async def scenario() -> None:
        world.pages.record(visit(A, 1))
        await world.wait(SECONDS / 2)
        world.pages.record(visit(B, 1))
        await world.wait(SECONDS / 2 - 0.01)
        assert world.days(A) == []
        await world.wait(0.02)
        assert world.days(A) == world.days(B) == [1]
        assert world.timers.waiting == []

    run(scenario())


def test_visits_are_written_at_the_end(world: World) -> None:
    async def scenario() -> None:
        await world.visit(A, 1)
        await world.pages.close()
        assert world.days(A) == [1]
        assert world.pages.lost == 0
        assert world.timers.waiting == []

    run(scenario())


def test_a_page_that_was_still_to_be_read_at_the_end_is_not_read_of_a_closed_state(
    world: World,
) -> None:
    async def scenario() -> None:
        world.road.reads.clear()
        world.pages.claim(A)
        waiting = asyncio.ensure_future(world.pages.ready(A))
        await settled()
        await world.pages.close()
        await world.wait(GATHER_SECONDS)
        assert waiting.done()
        assert world.road.reads == []
        assert world.errors == []

    run(scenario())


def test_what_was_written_is_told_in_the_order_of_the_visits(new_world: Make) -> None:
    async def scenario() -> None:
        world = new_world(count=3)
        visits = [visit(url, day) for day in range(1, 4) for url in (A, B, C)]
        for one in visits:
            await world.claim(one.url)
            world.pages.record(one)
        await world.pages.close()
        assert [one.visit for one in world.recorded] == visits

    run(scenario())


def test_a_page_that_is_visited_while_it_is_written_keeps_both_visits(world: World) -> None:
    async def scenario() -> None:
        await world.visit(A, 1, 7)
        await world.claim(A)
        async with busy(world.worker):
            world.timers.go_on(SECONDS)
            second = world.pages.record(visit(A, 2, 7, 8))
            assert second.is_known
            assert list(second.before.visits) == [1 * DAY]
        await world.end_of_work()
        assert world.days(A) == [1]
        third = await world.visit(A, 3, 7)
        assert list(third.before.visits) == [1 * DAY, 2 * DAY]
        world.road.writes = 0
        await world.pages.close()
        assert world.days(A) == [1, 2, 3]
        assert world.road.writes == 1, "what the first write told is known to the second"

    run(scenario())


def test_a_page_that_is_still_claimed_is_known_as_it_was_written(world: World) -> None:
    async def scenario() -> None:
        await world.claim(A, A)
        world.pages.record(visit(A, 1))
        world.state.record([visit(A, 2)])  # another crawl
        await world.wait(SECONDS)
        page = world.pages.look(A)
        assert page is not None
        assert list(page.visits) == [1 * DAY, 2 * DAY]

    run(scenario())


def test_nothing_of_a_visit_is_kept_once_it_is_written(world: World) -> None:
    async def scenario() -> None:
        await world.visit(A, 1)
        await world.wait(SECONDS)
        assert world.pages.look(A) is None
        assert world.pages.waiting == 0

    run(scenario())


def test_a_state_that_is_away_is_tried_after_growing_pauses_and_nothing_is_lost(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        await world.visit(A, 1, 7)
        world.road.close_for()
        await world.wait(SECONDS)
        pauses = []
        for _ in range(9):
            (pause,) = world.timers.waiting
            pauses.append(pause)
            await world.wait(pause)
        assert pauses[:3] == [FIRST_PAUSE_SECONDS, 2 * FIRST_PAUSE_SECONDS, 4 * FIRST_PAUSE_SECONDS]
        assert pauses[-2:] == [LONGEST_PAUSE_SECONDS] * 2
        world.pages.record(visit(B, 1))
        assert world.pages.waiting == 2
        world.road.open()
        await world.wait(LONGEST_PAUSE_SECONDS)
        assert world.pages.waiting == 0
        assert world.days(A) == world.days(B) == [1]
        assert [one.visit.url for one in world.recorded] == [A, B]
        assert len(world.errors) == 10
        assert world.timers.waiting == []

    with caplog.at_level(logging.INFO):
        run(scenario())
    assert "the state is away; waiting in memory: 1 visit; next try in 0.5 s" in caplog.text
    assert caplog.messages[-1] == "The state is back: 2 visits written that waited"


def test_after_a_state_was_away_the_next_pause_is_short_again(world: World) -> None:
    async def scenario() -> None:
        for day in (1, 2):
            await world.visit(A, day)
            world.road.close_for()
            await world.wait(SECONDS)
            assert world.timers.waiting == [FIRST_PAUSE_SECONDS]
            world.road.open()
            await world.wait(FIRST_PAUSE_SECONDS)
            assert world.days(A) == list(range(1, day + 1))

    run(scenario())


def test_while_the_state_is_away_many_visits_do_not_make_it_be_asked_more_often(
    new_world: Make,
) -> None:
    async def scenario() -> None:
        world = new_world(count=2)
        world.road.close_for()
        for day in range(1, 9):
            world.pages.record(visit(A, day))
            await world.end_of_work()
        assert world.road.writes <= 1
        world.road.open()
        await world.wait(FIRST_PAUSE_SECONDS)
        assert world.days(A) == list(range(1, 9))

    run(scenario())


def test_no_visit_is_given_up_for_want_of_company_while_the_state_is_there(new_world: Make) -> None:
    async def scenario() -> None:
        world = new_world(count=100, limit=4)
        for day in range(1, 9):
            world.pages.record(visit(A, day))
            await world.end_of_work()
        assert world.pages.lost == 0
        await world.pages.close()
        assert world.days(A) == list(range(1, 9))

    run(scenario())


def test_past_the_limit_the_oldest_visits_are_given_up_and_counted(new_world: Make) -> None:
    async def scenario() -> None:
        world = new_world(limit=3)
        world.road.close_for()
        for day in range(1, 6):
            world.pages.record(visit(A, day))
            await world.end_of_work()
        assert (world.pages.waiting, world.pages.lost, world.pages.given_up) == (3, 2, 2)
        world.road.open()
        assert not await world.pages.settle(), "for some will never be written"
        assert world.days(A) == [3, 4, 5]

    run(scenario())


def test_a_visit_that_was_given_up_is_no_longer_known(new_world: Make) -> None:
    async def scenario() -> None:
        world = new_world(limit=1)
        world.road.close_for()
        world.pages.record(visit(A, 1))
        await world.end_of_work()
        world.pages.record(visit(B, 1))
        world.road.open()
        third = await world.visit(A, 3)
        assert third.is_known
        assert not third.before.visits

    run(scenario())


def test_a_broken_state_is_not_tried_again_and_its_visits_are_counted_as_lost(
    world: World,
) -> None:
    async def scenario() -> None:
        world.road.error = StateError("the file is damaged")
        world.pages.record(visit(A, 1))
        await world.wait(SECONDS)
        assert world.timers.waiting == []
        assert [str(error) for error in world.errors] == ["the file is damaged"]
        world.pages.record(visit(B, 1))
        await world.pages.close()
        assert world.pages.lost == 2

    run(scenario())


def test_an_error_in_writing_that_no_store_should_have_says_what_it_is(world: World) -> None:
    async def scenario() -> None:
        world.road.error = KeyError("no such thing")
        world.pages.record(visit(A, 1))
        await world.wait(SECONDS)
        (error,) = world.errors
        assert str(error) == "visits could not be recorded: KeyError: 'no such thing'"
        assert not isinstance(error, StateUnavailableError)

    run(scenario())


def test_visits_of_a_damaged_page_are_lost_and_others_are_written(world: World) -> None:
    async def scenario() -> None:
        rubbish = Change(page_id_of(A), 0, b"\x01rubbish", bytes(ROW.itemsize))
        world.state.store.write([rubbish])
        world.pages.record(visit(A, 1))
        world.pages.record(visit(B, 1))
        assert await world.pages.settle(), "none was given up"
        assert (world.pages.waiting, world.pages.lost) == (0, 1)
        assert [one.visit.url for one in world.recorded] == [B]

    run(scenario())


def test_settling_waits_for_all_visits_taken_so_far(world: World) -> None:
    async def scenario() -> None:
        assert await world.pages.settle(), "there are none"
        await world.visit(A, 1)
        async with busy(world.worker):
            settling = asyncio.ensure_future(world.pages.settle())
            await settled()
            world.pages.record(visit(B, 1))
            assert not settling.done()
        assert await settling
        assert world.days(A) == [1]
        assert world.days(B) == [], "that one came later"

    run(scenario())


def test_settling_waits_for_a_state_that_is_away(world: World) -> None:
    async def scenario() -> None:
        world.road.close_for()
        world.pages.record(visit(A, 1))
        settling = asyncio.ensure_future(world.pages.settle())
        await world.end_of_work()
        await world.wait(FIRST_PAUSE_SECONDS)
        assert not settling.done()
        world.road.open()
        await world.until(settling)
        assert settling.result()
        assert world.days(A) == [1]

    run(scenario())


def test_room_is_made_by_writing_until_half_of_the_limit_waits(new_world: Make) -> None:
    async def scenario() -> None:
        world = new_world(limit=4)
        for day in (1, 2):
            world.pages.record(visit(A, day))
        await world.pages.make_room()
        assert world.pages.waiting == 2, "that is few enough"
        world.pages.record(visit(A, 3))
        await world.pages.make_room()
        assert world.pages.waiting == 0
        assert world.pages.lost == 0

    run(scenario())


def test_at_the_end_a_state_that_is_away_is_waited_for_a_few_times(world: World) -> None:
    async def scenario() -> None:
        world.road.close_for()
        world.pages.record(visit(A, 1))
        closing = asyncio.ensure_future(world.pages.close())
        began = world.timers.now
        await world.until(closing)
        assert world.timers.now - began == sum(CLOSING_PAUSES_SECONDS)
        assert (world.pages.waiting, world.pages.lost) == (0, 1)
        assert world.timers.waiting == []

    run(scenario())


def test_at_the_end_nothing_is_lost_where_the_state_comes_back_in_time(world: World) -> None:
    async def scenario() -> None:
        world.road.close_for()
        world.pages.record(visit(A, 1))
        closing = asyncio.ensure_future(world.pages.close())
        await world.end_of_work()
        await world.wait(CLOSING_PAUSES_SECONDS[0])
        world.road.open()
        await world.until(closing)
        assert world.pages.lost == 0
        assert world.days(A) == [1]

    run(scenario())


def test_a_question_that_can_wait_is_asked_until_the_state_answers(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        world.state.record([visit(A, 1)])
        world.road.close_for()
        asking = asyncio.ensure_future(world.pages.patiently(State.load, [page_id_of(A)]))
        for _ in range(2):
            await world.end_of_work()
            assert world.timers.waiting == [RETRY_SECONDS]
            world.timers.go_on(RETRY_SECONDS)
        await world.end_of_work()
        world.road.open()
        await world.until(asking)
        assert list(asking.result()) == [page_id_of(A)]
        assert len(world.errors) == 3

    run(scenario())
    assert caplog.messages == ["the state is away; next try in 5 s"] * 3


def test_a_question_that_cannot_wait_tells_at_once_that_the_state_is_away(world: World) -> None:
    async def scenario() -> None:
        world.road.close_for()
        with pytest.raises(StateUnavailableError, match="away"):
            await world.pages.once(State.load, [page_id_of(A)])
        assert world.timers.waiting == []

    run(scenario())


def test_no_question_is_asked_again_of_a_broken_state(world: World) -> None:
    async def scenario() -> None:
        world.road.error = StateError("the file is damaged")
        with pytest.raises(StateError, match="damaged"):
            await world.pages.patiently(State.load, [page_id_of(A)])

    run(scenario())


def test_rows_and_urls_come_from_the_state(world: World) -> None:
    async def scenario() -> None:
        world.state.record([visit(A, 1), visit(A, 9), visit(B, 1)])
        rows, future = await world.pages.rows([page_id_of(C), page_id_of(A)], 9 * DAY)
        assert rows["last_visit"].tolist() == [0, 9 * DAY]
        assert future is None
        rows, future = await world.pages.rows([page_id_of(C), page_id_of(A)], 2 * DAY)
        assert rows["last_visit"].tolist() == [0, 1 * DAY], "what is later than now is set aside"
        assert future is not None
        assert {url async for url in world.pages.urls()} == {A, B}

    run(scenario())


moves = st.one_of(
    st.tuples(st.sampled_from(["visit", "visit unread"]), st.sampled_from([A, B])),
    st.tuples(st.sampled_from(["away", "back", "wait"]), st.just("")),
)


@example(story=[("away", ""), ("visit unread", A)], count=1)
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(story=st.lists(moves, max_size=20), count=st.integers(1, 4))
def test_whenever_the_state_is_away_every_visit_is_written_and_known_to_the_next(
    new_world: Make, story: list[tuple[str, str]], count: int
) -> None:
    async def scenario() -> None:
        world = new_world(count=count)
        days: dict[str, list[int]] = {A: [], B: []}
        not_known = set[str]()
        for day, (move, url) in enumerate(story, start=1):
            if move == "away":
                world.road.close_for()
            elif move == "back":
                world.road.open()
            elif move == "wait":
                await world.wait(SECONDS)
            else:
                if move == "visit":
                    await world.claim(url)
                recorded = world.pages.record(visit(url, day))
                if not recorded.is_known:
                    not_known.add(url)
                elif url not in not_known:
                    assert [at // DAY for at in recorded.before.visits] == days[url]
                days[url].append(day)
        world.road.open()
        # a write that met a closed road is tried again after a pause, and only the test moves time
        settling = asyncio.ensure_future(world.pages.settle())
        await world.until(settling)
        assert settling.result()
        await world.pages.close()
        world.worker.close()
        assert {url: world.days(url) for url in days} == days
        assert len(world.recorded) == len(days[A]) + len(days[B])

    run(scenario())

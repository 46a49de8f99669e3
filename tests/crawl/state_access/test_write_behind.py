"""Visits written behind: a real state, a real thread, and timers of the test's."""

import asyncio
import logging

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from crawl_support import run, settled
from hacs_crawler.crawl.state_access.write_behind import (
    CLOSING_PAUSES_SECONDS,
    FIRST_PAUSE_SECONDS,
    LONGEST_PAUSE_SECONDS,
)
from hacs_crawler.exceptions import StateError, StateUnavailableError
from hacs_crawler.links import page_id_of
from hacs_crawler.state import ROW
from hacs_crawler.state.store import Change
from state_access import DAY, SECONDS, A, B, C, Make, StateAccess, busy, visit

pytestmark = pytest.mark.parametrize("new_store", ["sqlite", "redis"], indirect=True)


async def test_a_visit_tells_what_it_brought_before_anything_is_written(world: StateAccess) -> None:
    await world.visit(A, 1, 7)
    second = await world.visit(A, 2, 7, 8)
    assert second.updated
    assert second.new_marks == {8}
    assert list(second.before.visits) == [1 * DAY]
    assert list(second.after.visits) == [1 * DAY, 2 * DAY]
    assert world.write_behind.page(A) == second.after
    assert (world.write_behind.waiting, world.days(A)) == (2, [])


async def test_a_visit_to_a_page_that_was_not_read_is_not_known_to_be_first_and_is_written(
    world: StateAccess,
) -> None:
    world.state.record([visit(A, 1, 7)])
    assert not world.write_behind.record(visit(A, 2, 7, 8)).is_known
    await world.write_behind.close()
    assert world.days(A) == [1, 2]
    (written,) = world.recorded
    assert written.new_marks == {8}, "the state tells what it really brought"


async def test_visits_are_written_when_so_many_wait(new_world: Make) -> None:
    world = new_world(count=2)
    await world.visit(A, 1)
    assert world.write_behind.waiting == 1
    await world.visit(B, 1)
    await world.end_of_work()
    assert world.write_behind.waiting == 0
    assert world.days(A) == world.days(B) == [1]
    assert world.timers.waiting == []


async def test_visits_are_written_when_they_have_waited_for_long_enough(world: StateAccess) -> None:
    world.write_behind.record(visit(A, 1))
    await world.wait(SECONDS / 2)
    world.write_behind.record(visit(B, 1))
    await world.wait(SECONDS / 2 - 0.01)
    assert world.days(A) == []
    await world.wait(0.02)
    assert world.days(A) == world.days(B) == [1]
    assert world.timers.waiting == []
    assert (world.write_behind.page(A), world.write_behind.waiting) == (None, 0), "nothing is kept"


async def test_what_was_written_is_told_in_the_order_of_the_visits(new_world: Make) -> None:
    world = new_world(count=3)
    visits = [visit(url, day) for day in range(1, 4) for url in (A, B, C)]
    for one in visits:
        await world.claim(one.url)
        world.write_behind.record(one)
    await world.write_behind.close()
    assert [one.visit for one in world.recorded] == visits


async def test_a_page_visited_while_it_is_written_keeps_both_visits(world: StateAccess) -> None:
    await world.visit(A, 1, 7)
    await world.claim(A)
    async with busy(world.worker):
        world.timers.go_on(SECONDS)
        second = world.write_behind.record(visit(A, 2, 7, 8))
        assert second.is_known
        assert list(second.before.visits) == [1 * DAY]
    await world.end_of_work()
    assert world.days(A) == [1]
    assert list((await world.visit(A, 3, 7)).before.visits) == [1 * DAY, 2 * DAY]
    world.road.writes = 0
    await world.write_behind.close()
    assert world.days(A) == [1, 2, 3]
    assert world.road.writes == 1, "what the first write told is known to the second"


async def test_a_state_that_is_away_is_tried_after_growing_pauses_and_nothing_is_lost(
    world: StateAccess, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
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
    world.write_behind.record(visit(B, 1))
    assert world.write_behind.waiting == 2
    world.road.open()
    await world.wait(LONGEST_PAUSE_SECONDS)
    assert world.write_behind.waiting == 0
    assert world.days(A) == world.days(B) == [1]
    assert [one.visit.url for one in world.recorded] == [A, B]
    assert (len(world.errors), world.timers.waiting) == (10, [])
    assert "the state is away; waiting in memory: 1 visit; next try in 0.5 s" in caplog.text
    assert caplog.messages[-1] == "The state is back: 2 visits written that waited"
    await world.visit(A, 2)
    world.road.close_for()
    await world.wait(SECONDS)
    assert world.timers.waiting == [FIRST_PAUSE_SECONDS], "the next pause is short again"
    world.road.open()
    await world.wait(FIRST_PAUSE_SECONDS)
    assert world.days(A) == [1, 2]


async def test_while_the_state_is_away_many_visits_do_not_make_it_be_asked_more_often(
    new_world: Make,
) -> None:
    world = new_world(count=2)
    world.road.close_for()
    for day in range(1, 9):
        world.write_behind.record(visit(A, day))
        await world.end_of_work()
    assert world.road.writes <= 1
    world.road.open()
    await world.wait(FIRST_PAUSE_SECONDS)
    assert world.days(A) == list(range(1, 9))


async def test_no_visit_is_given_up_for_want_of_company_while_the_state_is_there(
    new_world: Make,
) -> None:
    world = new_world(count=100, limit=4)
    for day in range(1, 9):
        world.write_behind.record(visit(A, day))
        await world.end_of_work()
    assert world.write_behind.lost == 0
    await world.write_behind.close()
    assert world.days(A) == list(range(1, 9))


async def test_past_the_limit_the_oldest_visits_are_given_up_and_counted(new_world: Make) -> None:
    world = new_world(limit=3)
    world.road.close_for()
    for day in range(1, 6):
        world.write_behind.record(visit(A, day))
        await world.end_of_work()
    behind = world.write_behind
    assert (behind.waiting, behind.lost, behind.given_up) == (3, 2, 2)
    world.road.open()
    assert not await world.write_behind.settle(), "for some will never be written"
    assert world.days(A) == [3, 4, 5]


async def test_a_visit_that_was_given_up_is_no_longer_known(new_world: Make) -> None:
    world = new_world(limit=1)
    world.road.close_for()
    world.write_behind.record(visit(A, 1))
    await world.end_of_work()
    world.write_behind.record(visit(B, 1))
    world.road.open()
    third = await world.visit(A, 3)
    assert third.is_known
    assert not third.before.visits


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (StateError("the file is damaged"), "the file is damaged"),
        # no store should have this one
        (KeyError("no such thing"), "visits could not be recorded: KeyError: 'no such thing'"),
    ],
)
async def test_a_broken_state_is_not_tried_again_and_its_visits_are_counted_as_lost(
    error: Exception, said: str, world: StateAccess
) -> None:
    world.road.error = error
    world.write_behind.record(visit(A, 1))
    await world.wait(SECONDS)
    assert world.timers.waiting == []
    assert [str(error) for error in world.errors] == [said]
    assert not isinstance(world.errors[0], StateUnavailableError)
    world.write_behind.record(visit(B, 1))
    await world.write_behind.close()
    assert world.write_behind.lost == 2


async def test_visits_of_a_damaged_page_are_lost_and_others_are_written(world: StateAccess) -> None:
    world.state.store.write([Change(page_id_of(A), 0, b"\x01rubbish", bytes(ROW.itemsize))])
    world.write_behind.record(visit(A, 1))
    world.write_behind.record(visit(B, 1))
    assert await world.write_behind.settle(), "none was given up"
    assert (world.write_behind.waiting, world.write_behind.lost) == (0, 1)
    assert [one.visit.url for one in world.recorded] == [B]


async def test_settling_waits_for_all_visits_taken_so_far(world: StateAccess) -> None:
    assert await world.write_behind.settle(), "there are none"
    await world.visit(A, 1)
    async with busy(world.worker):
        settling = asyncio.ensure_future(world.write_behind.settle())
        await settled()
        world.write_behind.record(visit(B, 1))
        assert not settling.done()
    assert await settling
    assert world.days(A) == [1]
    assert world.days(B) == [], "that one came later"


async def test_settling_waits_for_a_state_that_is_away(world: StateAccess) -> None:
    world.road.close_for()
    world.write_behind.record(visit(A, 1))
    settling = asyncio.ensure_future(world.write_behind.settle())
    await world.end_of_work()
    await world.wait(FIRST_PAUSE_SECONDS)
    assert not settling.done()
    world.road.open()
    await world.until(settling)
    assert settling.result()
    assert world.days(A) == [1]


async def test_room_is_made_by_writing_until_half_of_the_limit_waits(new_world: Make) -> None:
    world = new_world(limit=4)
    for day in (1, 2):
        world.write_behind.record(visit(A, day))
    await world.write_behind.make_room()
    assert world.write_behind.waiting == 2, "that is few enough"
    world.write_behind.record(visit(A, 3))
    await world.write_behind.make_room()
    assert (world.write_behind.waiting, world.write_behind.lost) == (0, 0)


@pytest.mark.parametrize("comes_back", [False, True])
async def test_at_the_end_a_state_that_is_away_is_waited_for_a_few_times(
    comes_back: bool, world: StateAccess
) -> None:
    world.road.close_for()
    world.write_behind.record(visit(A, 1))
    closing = asyncio.ensure_future(world.write_behind.close())
    began = world.timers.now
    await world.end_of_work()
    await world.wait(CLOSING_PAUSES_SECONDS[0])
    if comes_back:
        world.road.open()
    await world.until(closing)
    assert comes_back or world.timers.now - began == sum(CLOSING_PAUSES_SECONDS)
    assert (world.write_behind.waiting, world.write_behind.lost) == (0, not comes_back)
    assert world.days(A) == [1] * comes_back
    assert world.timers.waiting == []


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
                recorded = world.write_behind.record(visit(url, day))
                if not recorded.is_known:
                    not_known.add(url)
                elif url not in not_known:
                    assert [at // DAY for at in recorded.before.visits] == days[url]
                days[url].append(day)
        world.road.open()
        # a write that met a closed road is tried again after a pause, and only the test moves time
        settling = asyncio.ensure_future(world.write_behind.settle())
        await world.until(settling)
        assert settling.result()
        await world.write_behind.close()
        world.worker.close()
        assert {url: world.days(url) for url in days} == days
        assert len(world.recorded) == len(days[A]) + len(days[B])

    run(scenario())

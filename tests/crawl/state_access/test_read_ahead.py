"""Pages read ahead of their responses: a real state, a real thread, and timers of the test's."""

import asyncio

import pytest

from crawl_support import PREDICTION, settled
from hacs_crawler.crawl.state_access.read_ahead import GATHER_SECONDS, RETRY_SECONDS, Claim
from hacs_crawler.exceptions import StateError, StateUnavailableError
from hacs_crawler.links import page_id_of
from hacs_crawler.state import State
from state_access import DAY, OF_A, SECONDS, A, B, C, Make, StateAccess, busy, visit

pytestmark = pytest.mark.parametrize("new_store", ["sqlite", "redis"], indirect=True)


async def test_pages_claimed_at_almost_the_same_time_are_read_together(world: StateAccess) -> None:
    world.road.reads.clear()
    world.read_ahead.claim(A)
    world.timers.go_on(GATHER_SECONDS / 2)
    world.read_ahead.claim(B)
    world.read_ahead.claim(A)
    await world.wait(GATHER_SECONDS / 2)
    assert world.road.reads == [[page_id_of(A), page_id_of(B)]]


async def test_pages_claimed_while_others_are_read_are_read_after_those(world: StateAccess) -> None:
    world.road.reads.clear()
    async with busy(world.worker):
        world.read_ahead.claim(A)
        world.timers.go_on(GATHER_SECONDS)
        world.read_ahead.claim(B)
        world.read_ahead.claim(C)
        assert world.timers.waiting == []
    await world.end_of_work()
    assert world.road.reads == [[page_id_of(A)], [page_id_of(B), page_id_of(C)]]


async def test_who_waits_for_a_page_goes_on_when_it_has_been_read(world: StateAccess) -> None:
    await world.read_ahead.ready(A)  # which nobody has claimed
    async with busy(world.worker):
        world.read_ahead.claim(A)
        waiting = [asyncio.ensure_future(world.read_ahead.ready(A)) for _ in range(2)]
        for seconds in (0.0, GATHER_SECONDS):  # before it is read, and while it is
            world.timers.go_on(seconds)
            await settled()
            assert world.read_ahead.is_pending(A)
            assert not any(one.done() for one in waiting)
        assert world.write_behind.page(A) is None
    await asyncio.gather(*waiting)
    assert not world.read_ahead.is_pending(A)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (StateUnavailableError("the state is away"), "the state is away"),
        # no store should have this one
        (KeyError("no such thing"), "pages could not be read: KeyError: 'no such thing'"),
    ],
)
async def test_who_waits_for_a_page_that_cannot_be_read_goes_on_too(
    error: Exception, said: str, world: StateAccess
) -> None:
    world.road.error = error
    world.read_ahead.claim(A)
    waiting = asyncio.ensure_future(world.read_ahead.ready(A))
    await settled()
    await world.wait(GATHER_SECONDS)
    assert waiting.done()
    assert [str(error) for error in world.errors] == [said]
    world.road.open()
    await world.claim(A)
    assert not world.read_ahead.is_pending(A)
    assert world.write_behind.record(visit(A, 1)).is_known, "the second claim had it read"


async def test_where_sites_count_what_was_new_to_the_site_is_told_at_once(new_world: Make) -> None:
    world = new_world(updates="site")
    for url in (A, OF_A):
        await world.visit(url, 1, 7)
    first, second = [await world.visit(url, 2, 7, 8) for url in (A, OF_A)]
    assert (first.new_marks, first.new_to_site) == ({8}, {8})
    assert (second.new_marks, second.new_to_site) == ({8}, frozenset())
    assert second.updated
    assert not second.updated_site


async def test_what_another_worker_wrote_before_a_page_was_read_is_known(new_world: Make) -> None:
    world = new_world(updates="site")
    world.state.record([visit(A, 1, 7), visit(OF_A, 1, 7), visit(OF_A, 2, 7, 8)])
    recorded = await world.visit(A, 3, 7, 8)
    assert recorded.updated
    assert not recorded.updated_site


async def test_a_page_is_held_until_it_was_recorded_as_often_as_claimed(world: StateAccess) -> None:
    world.state.record([visit(A, 1)])
    await world.claim(A, A)
    world.read_ahead.drop(A)
    assert world.write_behind.page(A) is not None
    world.read_ahead.drop(A)
    assert world.write_behind.page(A) is None
    assert world.read_ahead.unfinished() == []
    world.read_ahead.drop(A)  # once too often does no harm


async def test_a_redirect_or_retry_goes_on_with_the_claim_of_its_request(
    world: StateAccess,
) -> None:
    world.read_ahead.claim(A)
    world.read_ahead.claim(A, is_again=True)
    world.read_ahead.claim(A, is_again=True)
    await world.wait(GATHER_SECONDS)
    world.write_behind.record(visit(A, 1))
    assert world.read_ahead.unfinished() == []
    world.read_ahead.claim(B, is_again=True)  # of a request whose claim is over
    assert [claim.url for claim in world.read_ahead.unfinished()] == [B]


async def test_what_is_claimed_and_never_recorded_is_unfinished_with_what_was_predicted_of_it(
    world: StateAccess,
) -> None:
    world.read_ahead.claim(A, PREDICTION)
    world.read_ahead.claim(A)
    world.read_ahead.claim(B)
    await world.wait(GATHER_SECONDS)
    assert world.read_ahead.unfinished() == [Claim(A, 2, PREDICTION), Claim(B, 1)]
    assert world.read_ahead.unfinished() == []
    assert world.write_behind.page(A) is None


async def test_a_page_that_was_still_to_be_read_at_the_end_is_not_read_of_a_closed_state(
    world: StateAccess,
) -> None:
    world.road.reads.clear()
    world.read_ahead.claim(A)
    waiting = asyncio.ensure_future(world.read_ahead.ready(A))
    await settled()
    await world.write_behind.close()
    await world.wait(GATHER_SECONDS)
    assert waiting.done()
    assert (world.road.reads, world.errors) == ([], [])


async def test_a_page_that_is_still_claimed_is_known_as_it_was_written(world: StateAccess) -> None:
    await world.claim(A, A)
    world.write_behind.record(visit(A, 1))
    world.state.record([visit(A, 2)])  # another crawl
    await world.wait(SECONDS)
    assert list(world.write_behind.page(A).visits) == [1 * DAY, 2 * DAY]


# Questions to a real state in its thread


async def test_a_question_that_can_wait_is_asked_until_the_state_answers(
    world: StateAccess, caplog: pytest.LogCaptureFixture
) -> None:
    world.state.record([visit(A, 1)])
    world.road.close_for()
    asking = asyncio.ensure_future(world.thread.patiently(State.load, [page_id_of(A)]))
    for _ in range(2):
        await world.end_of_work()
        assert world.timers.waiting == [RETRY_SECONDS]
        world.timers.go_on(RETRY_SECONDS)
    await world.end_of_work()
    world.road.open()
    await world.until(asking)
    assert (list(asking.result()), len(world.errors)) == ([page_id_of(A)], 3)
    assert caplog.messages == ["the state is away; next try in 5 s"] * 3


@pytest.mark.parametrize(
    ("ask", "error"), [("once", StateUnavailableError), ("patiently", StateError)]
)
async def test_a_question_that_cannot_wait_or_of_a_broken_state_is_not_asked_again(
    ask: str, error: type[StateError], world: StateAccess
) -> None:
    world.road.error = error("cannot be read")
    with pytest.raises(error, match="cannot be read"):
        await getattr(world.thread, ask)(State.load, [page_id_of(A)])
    assert world.timers.waiting == []


async def test_rows_and_urls_come_from_the_state(world: StateAccess) -> None:
    world.state.record([visit(A, 1), visit(A, 9), visit(B, 1)])
    rows, future = await world.thread.rows([page_id_of(C), page_id_of(A)], 9 * DAY)
    assert rows["last_visit"].tolist() == [0, 9 * DAY]
    assert future is None
    rows, future = await world.thread.rows([page_id_of(C), page_id_of(A)], 2 * DAY)
    assert rows["last_visit"].tolist() == [0, 1 * DAY], "what is later than now is set aside"
    assert future is not None
    assert {url async for url in world.thread.urls()} == {A, B}

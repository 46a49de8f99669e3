"""Questions to a real state in its thread."""

import asyncio

import pytest

from hacs_crawler.crawl.state_access.read_ahead import RETRY_SECONDS
from hacs_crawler.exceptions import StateError, StateUnavailableError
from hacs_crawler.links import page_id_of
from hacs_crawler.state import State
from state_access import DAY, A, B, C, StateAccess, visit

pytestmark = pytest.mark.parametrize("new_store", ["sqlite", "redis"], indirect=True)


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
    assert list(asking.result()) == [page_id_of(A)]
    assert len(world.errors) == 3
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

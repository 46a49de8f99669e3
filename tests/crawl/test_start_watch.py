"""When a spider's `start()` pauses, by a clock that the test moves."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Self

import pytest
from twisted.internet.defer import Deferred

from crawl_support import Timers, run, settled
from hacs_crawler.crawl.start_watch import PAUSE_SECONDS, StartWatch


class World:
    """A watch, who reads what it passes on, and how often it said that `start()` pauses."""

    def __init__(self, timers: Timers) -> None:
        self.timers = timers
        self.pauses = 0
        self.watch = StartWatch(self._note_pause, timers.clock)
        self.read: list[Any] = []
        self.gates: list[asyncio.Future[None]] = []

    async def wait(self) -> None:
        """Called from a `start()`: suspend it until the test calls `go_on_with_start`."""
        self.gates.append(asyncio.get_running_loop().create_future())
        await self.gates[-1]

    def begin(self, start: AsyncIterator[Any]) -> asyncio.Task[None]:
        return asyncio.ensure_future(self._read(start))

    def starve(self, seconds: float) -> int:
        """Have nothing to send for some time; return how many pauses there were."""
        self.watch.begin_starving()
        self.timers.go_on(seconds)
        return self.pauses

    async def begin_to_wait(self) -> None:
        """Read a `start()` that waits after each entry."""
        self.reading = self.begin(waits_after_each(self))
        await settled()

    async def go_on_with_start(self) -> None:
        self.gates[-1].set_result(None)
        await settled()

    async def _read(self, start: AsyncIterator[Any]) -> None:
        async for entry in self.watch.entries(start):
            self.read.append(entry)

    def _note_pause(self) -> None:
        self.pauses += 1


async def numbers() -> AsyncIterator[int]:
    for number in range(3):
        yield number


async def waits_after_each(world: World) -> AsyncIterator[int]:
    for number in range(99):
        yield number
        await world.wait()


@pytest.fixture
def world(timers: Timers) -> World:
    return World(timers)


def test_when_start_is_over_what_it_yielded_is_to_be_ranked(world: World) -> None:
    assert not world.watch.is_over
    run(world._read(numbers()))
    assert world.read == [0, 1, 2]
    assert world.watch.is_over
    assert world.pauses == 1
    world.timers.go_on(60.0)
    assert world.pauses == 1


def test_a_start_that_yields_in_one_go_never_pauses_however_long_it_computes(world: World) -> None:
    async def computes() -> AsyncIterator[int]:
        for number in range(5):
            world.timers.now += 10 * PAUSE_SECONDS  # the loop has no turn meanwhile
            yield number
            world.watch.begin_starving()
            world.timers.go_on(0.0)
            assert world.pauses == 0

    run(world._read(computes()))
    assert world.read == [0, 1, 2, 3, 4]


async def test_a_start_that_waits_pauses_once_nothing_could_be_sent_for_a_while_after_each_ranking(
    world: World,
) -> None:
    await world.begin_to_wait()
    for pauses in range(2):
        world.timers.go_on(60.0)
        assert world.pauses == pauses, "there was something to send, or all that is held was ranked"
        await world.go_on_with_start()
        assert world.starve(PAUSE_SECONDS - 0.01) == pauses
        world.timers.go_on(0.02)
        assert world.pauses == pauses + 1
        world.watch.reset()


async def test_a_start_that_waits_a_little_each_time_pauses_once_that_is_enough_in_all(
    world: World,
) -> None:
    await world.begin_to_wait()
    world.watch.begin_starving()
    for _ in range(3):
        world.timers.go_on(PAUSE_SECONDS / 4)
        await world.go_on_with_start()
    assert world.pauses == 0
    world.timers.go_on(PAUSE_SECONDS / 4)
    assert world.pauses == 1
    assert world.read == [0, 1, 2, 3]


async def test_time_in_which_something_could_be_sent_does_not_count(world: World) -> None:
    await world.begin_to_wait()
    for _ in range(3):
        world.starve(PAUSE_SECONDS / 4)
        world.watch.end_starving()
        world.timers.go_on(60.0)
        await world.go_on_with_start()
        assert world.pauses == 0
    assert world.starve(PAUSE_SECONDS / 4) == 1


async def test_that_nothing_can_be_sent_may_be_said_again_and_again(world: World) -> None:
    await world.begin_to_wait()
    for _ in range(4):
        assert world.pauses == 0
        world.watch.begin_starving()
        assert len(world.timers.waiting) == 1
        world.timers.go_on(PAUSE_SECONDS / 4)
    assert world.pauses == 1


async def test_a_start_that_nobody_asks_for_more_pauses(world: World) -> None:
    """As where another middleware takes the first few entries and waits."""
    entries = world.watch.entries(numbers())
    assert await anext(entries) == 0
    assert world.starve(PAUSE_SECONDS) == 1
    assert not world.watch.is_over
    assert await anext(entries) == 1


async def test_reading_this_packages_own_source_is_no_pause(world: World) -> None:
    await world.begin_to_wait()
    world.watch.is_reading = True
    assert world.starve(60.0) == 0
    world.watch.is_reading = False
    world.timers.go_on(PAUSE_SECONDS)
    assert world.pauses == 1


def test_a_start_that_raises_is_over_and_its_reader_sees_why(world: World) -> None:
    async def fails() -> AsyncIterator[int]:
        yield 1
        raise KeyError("a seed")

    with pytest.raises(KeyError, match="a seed"):
        run(world._read(fails()))
    assert world.read == [1]
    assert world.watch.is_over
    assert world.pauses == 1


async def test_a_start_whose_reader_closes_it_is_over(world: World) -> None:
    entries = world.watch.entries(numbers())
    await anext(entries)
    assert isinstance(entries, AsyncGenerator)
    await entries.aclose()
    assert world.watch.is_over
    assert world.pauses == 1


async def test_a_start_that_is_cancelled_while_it_waits_sees_that_and_is_over(world: World) -> None:
    seen: list[BaseException] = []

    async def is_cancelled() -> AsyncIterator[int]:
        try:
            await world.wait()
        except asyncio.CancelledError as error:
            seen.append(error)
            raise
        yield 1

    reading = world.begin(is_cancelled())
    await settled()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    assert len(seen) == 1
    assert world.watch.is_over
    assert world.pauses == 1


def test_a_start_may_go_on_after_what_is_thrown_into_its_waiting(world: World) -> None:
    async def gives_up_waiting() -> AsyncIterator[str]:
        try:
            async with asyncio.timeout(0):
                await world.wait()
        except TimeoutError:
            yield "too late"
        await asyncio.sleep(0)
        yield "later"

    run(world._read(gives_up_waiting()))
    assert world.read == ["too late", "later"]


def test_a_start_may_wait_for_deferreds_where_twisted_runs_it(world: World) -> None:
    slow = Deferred[int]()

    async def waits_for_twisted() -> AsyncIterator[int]:
        yield await slow

    reading = Deferred.fromCoroutine(world._read(waits_for_twisted()))
    assert world.starve(PAUSE_SECONDS) == 1
    slow.callback(7)
    assert reading.called
    assert world.read == [7]


def test_an_iterator_that_is_no_generator_is_a_start_too(world: World) -> None:
    class Once:
        entries = iter([1, 2])

        def __aiter__(self) -> Self:
            return self

        async def __anext__(self) -> int:
            try:
                return next(self.entries)
            except StopIteration:
                raise StopAsyncIteration from None

    run(world._read(Once()))
    assert world.read == [1, 2]

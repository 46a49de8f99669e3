"""Several coroutines at once."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

import pytest

from hacs_crawler.utils.loop import at_once, begin, each, merged


class Gate:
    """An async function whose calls end when a test says so."""

    def __init__(self) -> None:
        self.waiting: dict[int, asyncio.Future[int]] = {}
        self.most = 0

    async def __call__(self, item: int) -> int:
        self.waiting[item] = asyncio.get_running_loop().create_future()
        self.most = max(self.most, len(self.waiting))
        try:
            return await self.waiting[item]
        finally:
            del self.waiting[item]


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def collect(results: AsyncIterator[int], into: list[int]) -> Coroutine[Any, Any, None]:
    async def run() -> None:
        async for one in results:
            into.append(one)  # noqa: PERF401 - what came before an exception counts too

    return run()


async def test_results_come_as_calls_end_and_never_more_run_than_allowed() -> None:
    gate, found = Gate(), list[int]()
    task = asyncio.ensure_future(collect(at_once(gate, each(range(5)), 2), found))
    for item in (1, 0, 3, 2, 4):
        await settled()
        assert len(gate.waiting) <= 2
        gate.waiting[item].set_result(item)
    await task
    assert found == [1, 0, 3, 2, 4]
    assert gate.most == 2


async def test_items_are_taken_only_when_there_is_room() -> None:
    gate, taken = Gate(), list[int]()

    async def items() -> AsyncIterator[int]:
        for item in range(9):
            taken.append(item)
            yield item

    task = asyncio.ensure_future(collect(at_once(gate, items(), 3), []))
    await settled()
    assert taken == [0, 1, 2]
    gate.waiting[1].set_result(1)
    await settled()
    assert taken == [0, 1, 2, 3]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    for future in gate.waiting.values():
        future.cancel()
    await settled()


async def test_the_first_exception_ends_it_after_the_results_before_it() -> None:
    async def half(item: int) -> int:
        if item % 2:
            raise KeyError(item)
        return item // 2

    found = list[int]()
    with pytest.raises(KeyError, match="3"):
        await collect(at_once(half, each([0, 2, 4, 3, 6]), 1), found)
    assert found == [0, 1, 2]


async def test_begin_starts_a_coroutine_now_and_tells_its_result_later() -> None:
    gate = Gate()
    results = list[int]()
    begin(gate(7)).addCallback(results.append)
    await settled()
    assert results == []
    gate.waiting[7].set_result(70)
    await settled()
    assert results == [70]


async def test_functions_may_return_any_awaitable() -> None:
    loop = asyncio.get_running_loop()

    def soon(item: int) -> Awaitable[int]:
        future = loop.create_future()
        loop.call_soon(future.set_result, item)
        return future

    found = list[int]()
    function: Callable[[int], Awaitable[int]] = soon
    await collect(at_once(function, each([1, 2]), 1), found)
    assert found == [1, 2]


async def test_iterators_are_merged_and_none_waits_for_another() -> None:
    gate, found = Gate(), list[int]()
    sources = [at_once(gate, each(items), 1) for items in ([0, 1], [2, 3])]
    task = asyncio.ensure_future(collect(merged(sources), found))
    for item in (2, 3, 0, 1):
        await settled()
        gate.waiting[item].set_result(item)
    await task
    assert found == [2, 3, 0, 1]


async def test_an_exception_of_one_iterator_ends_the_merged_one_behind_what_came_before() -> None:
    async def failing() -> AsyncIterator[int]:
        yield 1
        raise ValueError("enough")

    found = list[int]()
    with pytest.raises(ValueError, match="enough"):
        await collect(merged([failing()]), found)
    assert found == [1]

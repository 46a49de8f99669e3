"""Several coroutines at once, on whichever event loop Scrapy runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import TypeVar

from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import Deferred, DeferredQueue
from twisted.python.failure import Failure

T = TypeVar("T")
R = TypeVar("R")


async def at_once(
    function: Callable[[T], Awaitable[R]], items: AsyncIterator[T], limit: int
) -> AsyncIterator[R]:
    """Call an async function with each item, at most `limit` at a time; yield results as they come.

    Items are taken only when there is room. The first exception ends the iteration; calls that are
    under way then go on, and their results are lost.
    """
    ended: DeferredQueue[R | Failure] = DeferredQueue()
    running = 0
    async for item in items:
        begin(function(item)).addBoth(ended.put)
        running += 1
        while running >= limit or (running and ended.pending):
            running -= 1
            yield _result(await maybe_deferred_to_future(ended.get()))
    for _ in range(running):
        yield _result(await maybe_deferred_to_future(ended.get()))


async def each(items: Iterable[T]) -> AsyncIterator[T]:
    """Yield the items."""
    for item in items:
        yield item


def begin(awaitable: Awaitable[R]) -> Deferred[R]:
    """Start a coroutine now; the Deferred fires with its result."""
    deferred: Deferred[R] = deferred_from_coro(awaitable)
    return deferred


def _result(value: R | Failure) -> R:
    if isinstance(value, Failure):
        value.raiseException()
    return value

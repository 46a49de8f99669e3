"""A worker thread for the store, so that it never blocks the event loop, and helpers for async code."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Any, Final, ParamSpec, TypeVar

from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from scrapy.utils.reactor import is_reactor_installed
from twisted.internet.defer import Deferred, DeferredQueue
from twisted.python.failure import Failure

BATCH = 1_000
# Time for Scrapy's last signals and statistics of a crawl, after this project is done.
SECONDS_TO_END = 0.5
P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")


def call_later(seconds: float, function: Callable[[], object]) -> Callable[[], object]:
    """Call a function later from the event loop; returns a function that cancels the call."""
    loop = _running_loop()
    if loop is not None:
        return loop.call_later(seconds, function).cancel
    call: Any = _reactor().callLater(seconds, function)
    return lambda: call.active() and call.cancel()


def sleep(seconds: float) -> Deferred[None]:
    """Return a Deferred that fires after that time."""
    deferred: Deferred[None] = Deferred()
    call_later(seconds, lambda: deferred.callback(None))
    return deferred


async def wait_for(deferred: Deferred[T], seconds: float) -> None:
    """Return when a Deferred has its result, or after that time; the result stays in the Deferred."""
    if deferred.called:
        return
    woken: Deferred[None] = Deferred()

    def wake(result: object = None) -> object:
        if not woken.called:
            woken.callback(None)
        return result

    cancel = call_later(seconds, wake)
    deferred.addBoth(wake)
    await maybe_deferred_to_future(woken)
    cancel()


@contextmanager
def shutdown_waits() -> Iterator[Callable[[], bool]]:
    """Delay process exit until this block, and Scrapy's work after it, is done.

    Yields a function, for any thread, that says whether the process was asked to end. Otherwise a signal
    while a spider closes would stop the reactor, and interrupt the closing.
    """
    is_asked = False
    ended: Deferred[None] = Deferred()

    def ask() -> Deferred[None]:
        nonlocal is_asked
        is_asked = True
        return ended

    # without Twisted's reactor, asyncio ends the process
    if not is_reactor_installed():
        yield lambda: False
        return
    reactor = _reactor()
    trigger = reactor.addSystemEventTrigger("before", "shutdown", ask)
    try:
        yield lambda: is_asked
    finally:
        if is_asked:
            reactor.callLater(SECONDS_TO_END, ended.callback, None)
        else:
            reactor.removeSystemEventTrigger(trigger)


class Worker:
    """Runs functions in order, in a thread of its own."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="hacs-state")

    def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Deferred[T]:
        """Queue a call; the Deferred fires in the event loop with its result or exception."""
        deferred: Deferred[T] = Deferred()
        deliver = caller_into_loop()

        def fire(done: Future[T]) -> None:
            error = done.exception()
            if error is None:
                deferred.callback(done.result())
            else:
                deferred.errback(error)

        future = self._pool.submit(function, *args, **kwargs)
        future.add_done_callback(partial(deliver, fire))
        return deferred

    def close(self) -> None:
        """Let the thread end when its calls are done; does not wait for it."""
        self._pool.shutdown(wait=False)


async def in_batches(worker: Worker, items: Iterable[T]) -> AsyncIterator[T]:
    """Yield the elements of a slow iterable, which the worker reads in batches."""
    iterator = iter(items)
    while batch := await maybe_deferred_to_future(
        worker.run(lambda: list(islice(iterator, BATCH)))
    ):
        for item in batch:
            yield item


def caller_into_loop() -> Callable[..., object]:
    """Return a function that calls functions in the event loop of this thread, from any thread."""
    loop = _running_loop()
    if loop is None:
        call_from_thread: Callable[..., object] = _reactor().callFromThread
        return call_from_thread
    # without Twisted's reactor, Ctrl-C closes the loop while a thread still works
    return lambda *call: loop.is_closed() or loop.call_soon_threadsafe(*call)


def _reactor() -> Any:
    from twisted.internet import reactor  # noqa: PLC0415 - importing it installs it

    return reactor


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


async def at_once(
    function: Callable[[T], Awaitable[R]], items: AsyncIterator[T], limit: int
) -> AsyncIterator[R]:
    """Call an async function with each item, at most `limit` at a time; yield results as they come.

    Items are taken only if fewer than `limit` calls are running. The first exception ends the iteration;
    running calls continue, but their results are lost.
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


async def merged(sources: Sequence[AsyncIterator[T]]) -> AsyncIterator[T]:
    """Yield the elements of several iterators as they come; each is read independently of the others.

    The first exception ends the iteration; the others are still read, but their elements are lost.
    """
    results: DeferredQueue[T | Failure | None] = DeferredQueue()

    async def pour(source: AsyncIterator[T]) -> None:
        async for item in source:
            results.put(item)
        results.put(None)

    for source in sources:
        begin(pour(source)).addErrback(results.put)
    left = len(sources)
    while left:
        item = await maybe_deferred_to_future(results.get())
        if item is None:
            left -= 1
        else:
            yield _result(item)


async def each(items: Iterable[T]) -> AsyncIterator[T]:
    """Yield the items."""
    for item in items:
        yield item


def begin(awaitable: Awaitable[R]) -> Deferred[R]:
    """Start a coroutine now; the Deferred fires with its result."""
    deferred: Deferred[R] = deferred_from_coro(awaitable)
    return deferred


# What `next_or_end` returns for an iterator that has ended.
END: Final = object()


async def next_or_end(iterator: AsyncIterator[Any]) -> Any:
    """Return the next entry, or `END`: coroutines cannot pass on StopAsyncIteration."""
    return await anext(iterator, END)


def _result(value: R | Failure) -> R:
    if isinstance(value, Failure):
        value.raiseException()
    return value

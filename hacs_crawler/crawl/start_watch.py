"""Detects when a spider's `start()` pauses, so that the seeds yielded so far are ranked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from typing import Any, Final

from hacs_crawler.utils.loop import call_later

_END: Final = object()
# How long `start()` is waited for in all, while nothing can be sent, before seeds are ranked.
PAUSE_SECONDS: Final = 0.2


class StartWatch:
    """Passes on the output of `start()`, and measures how long it was suspended.

    Time counts only between `begin_starving` and `end_starving` (the engine has asked, and there was
    nothing to send), so a `start()` that computes, or that waits while there is something to send, does
    not pause. A `start()` that nobody reads on, because a middleware cuts it short, does.
    """

    def __init__(self, on_pause: Callable[[], None], clock: Callable[[], float]) -> None:
        self._on_pause = on_pause
        self._clock = clock
        # Whether there will be no more start requests.
        self.is_over = False
        # Whether `start()` reads from this package's own source, which waits for no request.
        self.is_reading = False
        self._waited = 0.0
        self._suspended_at: float | None = None
        self._starving_at: float | None = None
        self._entries = 0
        self._is_timed = False

    async def entries(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Yield the entries of `start()`; whatever ends that, `is_over` is set and the pause called."""
        iterator = aiter(start)
        try:
            while True:
                entry = await _Watched(_next(iterator), self._suspend, self._resume)
                if entry is _END:
                    return
                self._entries += 1
                yield entry
        finally:
            self.is_over = True
            self._on_pause()

    @property
    def is_starving(self) -> bool:
        """Whether the engine has nothing to send, and waits for `start()`."""
        return self._starving_at is not None and self._is_timed and not self.is_over

    def begin_starving(self) -> None:
        """Begin to count: the engine asked for a request, and there are only seeds not yet ranked."""
        if self._starving_at is None:
            self._starving_at = self._clock()
        if not self._is_timed:
            self._is_timed = True
            seen = self._entries
            call_later(max(0.0, PAUSE_SECONDS - self._paused()), lambda: self._check(seen))

    def end_starving(self) -> None:
        """Stop counting: the engine got a request."""
        if self._starving_at is not None:
            self._count()
            self._starving_at = None

    def reset(self) -> None:
        """Start a new count: the seeds yielded so far are being ranked."""
        self._waited = 0.0
        self._starving_at = None
        if self._suspended_at is not None:
            self._suspended_at = self._clock()

    def _check(self, entries_before: int) -> None:
        self._is_timed = False
        if self._starving_at is None or self.is_over:
            return
        is_silent = self._entries == entries_before and not self.is_reading
        if is_silent or self._paused() >= PAUSE_SECONDS:
            self._on_pause()
        else:
            self.begin_starving()

    def _paused(self) -> float:
        """Return for how many seconds `start()` has been suspended, with nothing to send."""
        return self._waited + self._present()

    def _present(self) -> float:
        if self._suspended_at is None or self._starving_at is None or self.is_reading:
            return 0.0
        return max(0.0, self._clock() - max(self._suspended_at, self._starving_at))

    def _count(self) -> None:
        self._waited += self._present()

    def _suspend(self) -> None:
        self._suspended_at = self._clock()

    def _resume(self) -> None:
        self._count()
        self._suspended_at = None


class _Watched:
    """Awaits a coroutine and says when it is suspended and when it goes on."""

    def __init__(
        self,
        coroutine: Coroutine[Any, Any, Any],
        suspend: Callable[[], None],
        resume: Callable[[], None],
    ) -> None:
        self._coroutine = coroutine
        self._suspend = suspend
        self._resume = resume

    def __await__(self) -> Generator[Any, Any, Any]:
        go_on, sent = self._coroutine.send, None
        while True:
            try:
                waited_for = go_on(sent)
            except StopIteration as stop:
                return stop.value
            self._suspend()
            try:
                sent = yield waited_for
                go_on = self._coroutine.send
            except BaseException as error:  # noqa: BLE001 - a thrown error is for start() to handle
                go_on, sent = self._coroutine.throw, error
            finally:
                self._resume()


async def _next(iterator: AsyncIterator[Any]) -> Any:
    # a coroutine must not raise StopAsyncIteration into an asynchronous generator
    return await anext(iterator, _END)

"""Detects when a spider's `start()` pauses, so that the seeds yielded so far are ranked."""

from collections.abc import AsyncIterator, Callable, Generator
from types import coroutine
from typing import Any, Final

from hacs_crawler.utils.loop import END, call_later

# How long to wait for `start()` in total, with nothing else to send, before seeds are ranked.
PAUSE_SECONDS: Final = 0.2


class StartWatch:
    """Passes on the output of `start()`, and calls `on_pause` when `start()` has paused for long.

    Time counts only between `begin_starving` and `end_starving`, while the engine waits for
    requests. So a `start()` that computes, or that waits while there are requests to send, is not
    pausing. One that a middleware has stopped reading is.
    """

    def __init__(self, on_pause: Callable[[], None], clock: Callable[[], float]) -> None:
        self._on_pause = on_pause
        self._clock = clock
        # Whether `start()` has ended.
        self.is_over = False
        # Whether `start()` is reading one of this package's lists, and so never waits for requests.
        self.is_reading = False
        self._waited = 0.0
        self._suspended_at: float | None = None
        self._starving_at: float | None = None
        self._entries = 0
        self._is_timed = False

    async def entries(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Yield the entries of `start()`; at its end, for any reason, call `on_pause`."""
        iterator = aiter(start)
        try:
            while True:
                entry = await self._watched(anext(iterator, END))
                if entry is END:
                    return
                self._entries += 1
                yield entry
        finally:
            self.is_over = True
            self._on_pause()

    @property
    def is_starving(self) -> bool:
        """Whether the engine has nothing to send and waits for `start()`."""
        return self._starving_at is not None and self._is_timed and not self.is_over

    def begin_starving(self) -> None:
        """Start counting: the engine asked for a request, and there are only unranked seeds."""
        if self._starving_at is None:
            self._starving_at = self._clock()
        if not self._is_timed:
            self._is_timed = True
            seen = self._entries
            call_later(max(0.0, PAUSE_SECONDS - self._paused()), lambda: self._check(seen))

    def end_starving(self) -> None:
        """Stop counting: the engine got a request."""
        if self._starving_at is not None:
            self._waited = self._paused()
            self._starving_at = None

    def reset(self) -> None:
        """Restart the count: the seeds yielded so far are being ranked."""
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
        """Return how many seconds `start()` has been suspended with nothing to send."""
        if self._suspended_at is None or self._starving_at is None or self.is_reading:
            return self._waited
        return self._waited + max(0.0, self._clock() - max(self._suspended_at, self._starving_at))

    @coroutine
    def _watched(self, coming: Any) -> Generator[Any, Any, Any]:
        """Await what `start()` yields next, and note while it is suspended."""
        go_on, sent = coming.send, None
        while True:
            try:
                waited_for = go_on(sent)
            except StopIteration as stop:
                return stop.value
            self._suspended_at = self._clock()
            try:
                sent = yield waited_for
                go_on = coming.send
            except BaseException as error:  # noqa: BLE001 - a thrown error is for start() to handle
                go_on, sent = coming.throw, error
            finally:
                self._waited = self._paused()
                self._suspended_at = None

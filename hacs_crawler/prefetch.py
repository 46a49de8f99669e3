"""Pages read from the state while their requests are on the way."""

from __future__ import annotations

from collections.abc import Callable

from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from hacs_crawler.exceptions import StateError
from hacs_crawler.state.knowledge import Knowledge
from hacs_crawler.state.page import Page
from hacs_crawler.worker import Worker, call_later
from hacs_crawler.write_behind import WriteBehind

GATHER_SECONDS = 0.005
"""How long pages are gathered into one read: less than any answer from the network takes."""


class Prefetch:
    """Reads pages in batches, one read at a time, and holds them until their response is processed."""

    def __init__(
        self,
        knowledge: Knowledge,
        worker: Worker,
        buffer: WriteBehind,
        on_error: Callable[[StateError], None],
    ) -> None:
        self._knowledge = knowledge
        self._worker = worker
        self._buffer = buffer
        self._on_error = on_error
        self._wanted: list[int] = []
        self._reading: frozenset[int] = frozenset()
        self._pages: dict[int, Page | None] = {}
        self._waiting: list[Deferred[None]] = []
        self._is_timed = False

    def want(self, key: int) -> None:
        """Have a page read soon."""
        if key in self._pages or key in self._reading or key in self._wanted:
            return
        self._wanted.append(key)
        if not self._reading and not self._is_timed:
            self._is_timed = True
            call_later(GATHER_SECONDS, self._read)

    def is_pending(self, key: int) -> bool:
        """Whether the page is still to be read."""
        return key in self._reading or key in self._wanted

    async def ready(self, key: int) -> None:
        """Return when the page has been read, or could not be."""
        while self.is_pending(key):
            waiting: Deferred[None] = Deferred()
            self._waiting.append(waiting)
            await maybe_deferred_to_future(waiting)

    def take(self, key: int) -> tuple[bool, Page | None]:
        """Return whether the page could be read, and the page, None where it is new; then forget it."""
        latest = self._buffer.page(key)
        if latest is not None:
            self._pages.pop(key, None)
            return True, latest
        return key in self._pages, self._pages.pop(key, None)

    def look(self, key: int) -> Page | None:
        """Return the page if it has been read, and keep it."""
        return self._buffer.page(key) or self._pages.get(key)

    def drop(self, key: int) -> None:
        """Forget a page whose response will not come."""
        self._pages.pop(key, None)

    def _read(self) -> None:
        self._is_timed = False
        keys, self._wanted = self._wanted, []
        self._reading = frozenset(keys)
        self._worker.run(self._knowledge.load, keys).addCallbacks(self._keep, self._fail)

    def _keep(self, pages: dict[int, Page]) -> None:
        for key in self._reading:
            self._pages[key] = pages.get(key)
        self._finish()

    def _fail(self, failure: Failure) -> None:
        self._finish()
        failure.trap(StateError)
        self._on_error(failure.value)  # type: ignore[arg-type]

    def _finish(self) -> None:
        self._reading = frozenset()
        waiting, self._waiting = self._waiting, []
        for deferred in waiting:
            deferred.callback(None)
        if self._wanted:
            self._read()

"""A bounded buffer of visits on their way into the store."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from hacs_crawler.crawl.loop import Worker, call_later, sleep
from hacs_crawler.exceptions import StateError, StateUnavailableError
from hacs_crawler.links import page_id
from hacs_crawler.state import Page, Recorded, State, Visit

logger = logging.getLogger(__name__)

FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 30.0
CLOSING_PAUSES_SECONDS = (0.5, 1.0, 2.0, 4.0)
"""How long to wait for a store that is away before a crawl closes without it."""


class WriteBehind:
    """Collects visits and records them in order, in batches: by count, by time, and at close.

    While the store cannot be reached the visits wait here, at most `limit` of them, and writing is
    tried again after growing pauses; past the limit the oldest are given up and counted as lost.
    """

    def __init__(
        self,
        state: State,
        worker: Worker,
        *,
        count: int,
        seconds: float,
        limit: int,
        on_recorded: Callable[[Sequence[Recorded]], None],
        on_error: Callable[[StateError], None],
    ) -> None:
        self._state = state
        self._worker = worker
        self._count = count
        self._seconds = seconds
        self._limit = limit
        self._on_recorded = on_recorded
        self._on_error = on_error
        self._waiting: list[Visit] = []
        self._writing: list[Visit] = []
        self._written: Deferred[None] | None = None
        self._known: dict[int, Page] = {}
        self._writing_known: dict[int, Page] = {}
        self._latest: dict[int, Page] = {}
        self._cancel_timer: Callable[[], object] | None = None
        self._pause = 0.0
        self._broken = False
        self._taken = 0
        self._settled = 0
        self.lost = 0
        """Visits not written: those given up, and those of pages that are damaged in the state."""
        self.given_up = 0

    @property
    def waiting(self) -> int:
        """How many visits are not written yet."""
        return len(self._waiting) + len(self._writing)

    def page(self, key: int) -> Page | None:
        """Return a page as it will be once its waiting visits are written, if there are any."""
        return self._latest.get(key)

    def add(self, visit: Visit, before: Page | None, after: Page | None) -> None:
        """Take a visit, with its page before and after it where the caller knows the page."""
        key = page_id(visit.url)
        if before is not None and after is not None:
            if (
                key not in self._latest
            ):  # else it has visits that wait, which the state may not know
                self._known[key] = before
            self._latest[key] = after
        self._waiting.append(visit)
        self._taken += 1
        if self.waiting > self._limit:
            self._give_up(self._waiting[:1])
            del self._waiting[:1]
        elif len(self._waiting) >= self._count and not self._pause:
            self._flush()
        if self._waiting and self._cancel_timer is None and self._written is None:
            self._cancel_timer = call_later(self._pause or self._seconds, self._flush)

    async def close(self) -> None:
        """Write what is left; what cannot be written after a few tries is counted in `lost`."""
        for pause in (0.0, *CLOSING_PAUSES_SECONDS):
            if pause:
                await maybe_deferred_to_future(sleep(pause))
            await self._end_of_writes()
            self._flush()
            await self._end_of_writes()
            if not self._waiting or self._broken:
                break
        if self._cancel_timer is not None:
            self._cancel_timer()
        self._give_up(self._waiting)
        self._waiting = []

    async def settle(self) -> None:
        """Return when all visits taken so far have been written, or given up."""
        target = self._taken
        while self._settled < target:
            self._flush()
            await self._end_of_write()
            if self._pause:
                await maybe_deferred_to_future(sleep(self._pause))

    async def make_room(self) -> None:
        """Return when so few visits wait that none will be given up for the next ones."""
        while self.waiting > self._limit // 2:
            await self.settle()

    async def _end_of_write(self) -> None:
        """Return when the write that is under way has ended, at once if there is none."""
        if self._written is not None:
            ended: Deferred[None] = Deferred()
            self._written.addCallback(ended.callback)
            await maybe_deferred_to_future(ended)

    async def _end_of_writes(self) -> None:
        while self._written is not None:
            await self._end_of_write()

    def _flush(self) -> None:
        if self._cancel_timer is not None:
            self._cancel_timer()
            self._cancel_timer = None
        if self._written is not None or not self._waiting:
            return
        self._writing, self._waiting = self._waiting, []
        self._writing_known, self._known = self._known, {}
        self._written = self._worker.run(
            self._state.record, self._writing, self._writing_known
        ).addCallbacks(self._succeed, self._fail)

    def _succeed(self, recorded: list[Recorded]) -> None:
        if self._pause:
            logger.info("The state is back: %d visits that waited are written", len(recorded))
        self._pause = 0.0
        written, self._writing, self._written = self._writing, [], None
        waiting = {page_id(visit.url) for visit in self._waiting}
        for visit in written:
            key = page_id(visit.url)
            if key not in waiting:
                self._latest.pop(key, None)
        self._known.update(
            (key, one.after) for one in recorded if (key := page_id(one.visit.url)) in waiting
        )
        self._settled += len(written)
        self.lost += len(written) - len(recorded)
        self._on_recorded(recorded)
        if self._waiting:
            if len(self._waiting) >= self._count:
                self._flush()
            else:
                self._cancel_timer = call_later(self._seconds, self._flush)

    def _fail(self, failure: Failure) -> None:
        error = failure.value
        if not isinstance(error, StateError):
            error = StateError(f"visits could not be recorded: {failure.getTraceback()}")
        self._written = None
        self._on_error(error)
        if not isinstance(error, StateUnavailableError):
            self._broken = True
            self._give_up(self._writing)
            self._writing = []
            return
        self._waiting, self._writing = self._writing + self._waiting, []
        # what the state once acknowledged: it is written back where a failover has lost it
        self._known = {**self._known, **self._writing_known}
        self._pause = min(max(2 * self._pause, FIRST_PAUSE_SECONDS), LONGEST_PAUSE_SECONDS)
        logger.warning(
            "%s; %d visits wait in memory, next try in %g s",
            error,
            len(self._waiting),
            self._pause,
        )
        self._cancel_timer = call_later(self._pause, self._flush)

    def _give_up(self, visits: Sequence[Visit]) -> None:
        self._settled += len(visits)
        self.given_up += len(visits)
        self.lost += len(visits)
        for visit in visits:
            key = page_id(visit.url)
            self._latest.pop(key, None)
            self._known.pop(key, None)

"""Write-behind: a visit's outcome is known immediately; visits are written in batches, in order."""

import time
from collections.abc import Callable, Sequence
from typing import Final

from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.log import failure_to_exc_info
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from hacs_crawler.crawl.state_access.read_ahead import ReadAhead, StateThread
from hacs_crawler.exceptions import StateError, StateUnavailableError
from hacs_crawler.links import page_id_of
from hacs_crawler.state import Page, Recorded, State, Visit, merged
from hacs_crawler.utils.loop import Worker, call_later, sleep
from hacs_crawler.utils.text import counted, safe_logger

logger = safe_logger(__name__)

# How long a visit may wait to be written while the state can be reached.
FLUSH_SECONDS: Final = 2.0
# How many visits may wait in memory while it cannot be reached; then the oldest are given up.
BUFFER_VISITS: Final = 10_000
FIRST_PAUSE_SECONDS: Final = 0.5
LONGEST_PAUSE_SECONDS: Final = 30.0
# Pauses between attempts to reach the state before a crawl closes without it.
CLOSING_PAUSES_SECONDS: Final = (0.5, 1.0, 2.0, 4.0)
# Limit on the time for these attempts: one attempt at a hanging state takes a minute.
CLOSING_SECONDS: Final = 30.0


class WriteBehind:
    """Writes visits in batches, in order: after `count` visits or FLUSH_SECONDS, and when it is closed.

    While the state cannot be reached, up to `limit` visits wait, and attempts are repeated after
    growing pauses; beyond the limit, the oldest visits are given up and counted as lost. All
    methods are called from the event loop.
    """

    def __init__(
        self,
        state: StateThread,
        read_ahead: ReadAhead,
        on_recorded: Callable[[Sequence[Recorded]], None],
        *,
        count: int,
        limit: int = BUFFER_VISITS,
    ) -> None:
        self._state = state
        self._read_ahead = read_ahead
        self._on_recorded = on_recorded
        # a batch above the limit would be given up before it is written
        self._count = min(count, max(1, limit // 2))
        self._limit = limit
        self._waiting: list[Recorded] = []
        self._writing: list[Recorded] = []
        self._written: Deferred[None] | None = None
        # for waiting visits: their pages as the state last had them
        self._known: dict[int, Page] = {}
        self._writing_known: dict[int, Page] = {}
        self._latest: dict[int, Page] = {}
        self._cancel_timer: Callable[[], object] | None = None
        self._pause = 0.0
        self._broken = False
        self._taken = self._settled = 0
        # Number of lost visits: given up, or of pages that are damaged in the state.
        self.lost = 0
        self.given_up = 0
        # Why the latest write failed.
        self.reason = ""

    @property
    def waiting(self) -> int:
        """How many visits are not written yet."""
        return len(self._waiting) + len(self._writing)

    def page(self, url: str) -> Page | None:
        """Return the page, including visits that wait to be written; None if it was not read."""
        return self._page(page_id_of(url))

    def judge(self, visit: Visit) -> Recorded:
        """Return the outcome that a visit would have if it were recorded now.

        If the page could not be read, `is_known` is False, and the outcome considers only this visit.
        """
        page_id = page_id_of(visit.url)
        page = self._page(page_id)
        is_known = page is not None or self._read_ahead.has_read(page_id)
        before = page or Page(visit.url)
        updates = self._state.estimation.updates
        recorded = merged(before, visit, updates, is_known=is_known)
        return self._read_ahead.on_its_site(recorded) if is_known else recorded

    def record(self, visit: Visit, judged: Recorded | None = None) -> Recorded:
        """Queue a visit, which ends one claim on its page, and return its outcome.

        An outcome from `judge` is reused unless another visit of the page was recorded since.
        """
        page_id = page_id_of(visit.url)
        page = self._page(page_id)
        if judged is None or (page is not None and page is not judged.before):
            judged = self.judge(visit)
        self._read_ahead.drop(visit.url)
        if judged.is_known:
            # a page in `_latest` has visits that wait already, and the state does not know those
            if page_id not in self._latest:
                self._known[page_id] = judged.before
            self._latest[page_id] = judged.after
        self._add(judged)
        return judged

    def _page(self, page_id: int) -> Page | None:
        return self._latest.get(page_id) or self._read_ahead.page(page_id)

    async def make_room(self) -> None:
        """Return when so few visits wait that the next ones will not displace any."""
        while self.waiting > self._limit // 2:
            await self.settle()

    async def settle(self) -> bool:
        """Wait until all queued visits are settled; return whether none was ever given up."""
        target = self._taken
        while self._settled < target:
            self._flush()
            await self._end_of_write()
            if self._pause:
                await maybe_deferred_to_future(sleep(self._pause))
        return not self.given_up

    async def close(self) -> None:
        """Write the remaining visits; after a few failed attempts, count them in `lost`."""
        started = time.monotonic()
        for pause in (0.0, *CLOSING_PAUSES_SECONDS):
            if pause:
                if time.monotonic() - started > CLOSING_SECONDS:
                    break
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
        self._read_ahead.close()

    def _add(self, recorded: Recorded) -> None:
        self._waiting.append(recorded)
        self._taken += 1
        if self.waiting > self._limit:
            self._give_up(self._waiting[:1])
            del self._waiting[:1]
        elif len(self._waiting) >= self._count and not self._pause:
            self._flush()
        if self._waiting and self._cancel_timer is None and self._written is None:
            self._cancel_timer = call_later(self._pause or FLUSH_SECONDS, self._flush)

    async def _end_of_write(self) -> None:
        """Wait for the current write, if any."""
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
        visits = [recorded.visit for recorded in self._writing]
        self._written = self._state.run(
            State.record, visits, self._writing_known, self._writing
        ).addCallbacks(self._succeed, self._fail_to_write)

    def _succeed(self, recorded: list[Recorded]) -> None:
        if self._pause:
            logger.info(
                "The state is back: %s written that waited", counted(len(recorded), "visit")
            )
        self._pause = 0.0
        written, self._writing, self._written = self._writing, [], None
        waiting = {page_id_of(visited.visit.url) for visited in self._waiting}
        for page_id in {page_id_of(visited.visit.url) for visited in written} - waiting:
            self._latest.pop(page_id, None)
        after = {page_id_of(visited.visit.url): visited.after for visited in recorded}
        self._known |= {page_id: page for page_id, page in after.items() if page_id in waiting}
        self._read_ahead.on_written(after)
        self._settled += len(written)
        self.lost += len(written) - len(recorded)
        self._on_recorded(recorded)
        if len(self._waiting) >= self._count:
            self._flush()
        elif self._waiting:
            self._cancel_timer = call_later(FLUSH_SECONDS, self._flush)

    def _fail_to_write(self, failure: Failure) -> None:
        error = failure.value
        if not isinstance(error, StateError):
            logger.debug("Recording failed", exc_info=failure_to_exc_info(failure))
            error = StateError(f"visits could not be recorded: {type(error).__name__}: {error}")
        self._written, self.reason = None, f": {error}"
        self._state.on_error(error)
        if not isinstance(error, StateUnavailableError):
            self._broken = True
            self._give_up(self._writing)
            self._writing = []
            return
        self._waiting, self._writing = self._writing + self._waiting, []
        # these pages were in the state: if a failover has lost them, they are written back
        self._known = {**self._known, **self._writing_known}
        self._pause = min(max(2 * self._pause, FIRST_PAUSE_SECONDS), LONGEST_PAUSE_SECONDS)
        logger.warning(
            "%s; waiting in memory: %s; next try in %g s",
            error,
            counted(len(self._waiting), "visit"),
            self._pause,
        )
        self._cancel_timer = call_later(self._pause, self._flush)

    def _give_up(self, recorded: Sequence[Recorded]) -> None:
        self._settled += len(recorded)
        self.given_up += len(recorded)
        self.lost += len(recorded)
        for visited in recorded:
            page_id = page_id_of(visited.visit.url)
            self._latest.pop(page_id, None)
            self._known.pop(page_id, None)


class OpenState(StateThread):
    """An open state with read-ahead and write-behind, which writes after `flush_visits` visits."""

    def __init__(
        self,
        state: State,
        worker: Worker,
        on_error: Callable[[StateError], None],
        on_recorded: Callable[[Sequence[Recorded]], None],
        flush_visits: int,
    ) -> None:
        super().__init__(state, worker, on_error)
        self.read_ahead = ReadAhead(self)
        self.write_behind = WriteBehind(self, self.read_ahead, on_recorded, count=flush_visits)

"""Pages on their way between a crawl and its state: read ahead of their responses, written behind."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Concatenate, Final, ParamSpec, TypeVar

import numpy as np
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.log import failure_to_exc_info
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from hacs_crawler.crawl.loop import Worker, call_later, in_batches, sleep
from hacs_crawler.crawl.site_memories import SiteMemories
from hacs_crawler.exceptions import StateError, StateUnavailableError
from hacs_crawler.links import menu_id, page_id_of
from hacs_crawler.ranking.arms import Experiment
from hacs_crawler.ranking.signals import Signals, read_signals
from hacs_crawler.state import (
    Future,
    Ids,
    Page,
    Prediction,
    Recorded,
    Rows,
    State,
    Visit,
    copy_of,
    merged,
    on_their_sites,
    without_future,
)
from hacs_crawler.utils.text import counted, safe_logger

logger = safe_logger(__name__)

GATHER_SECONDS: Final = 0.005
"""How long pages are gathered into one read: less than any answer from the network takes."""
FIRST_PAUSE_SECONDS: Final = 0.5
LONGEST_PAUSE_SECONDS: Final = 30.0
CLOSING_PAUSES_SECONDS: Final = (0.5, 1.0, 2.0, 4.0)
"""How long to wait for a state that is away before a crawl closes without it."""
RETRY_SECONDS: Final = 5.0
"""After how long a state that was away is asked again."""
_ReadAhead = tuple[dict[int, Page], Sequence[int], dict[int, bytes]]
"""What was read ahead: the pages that are known, and which sites remember which of their links."""
P = ParamSpec("P")
T = TypeVar("T")


@dataclass(slots=True)
class Claim:
    """A page that requests are under way for, how many, and what was predicted of it."""

    url: str
    number: int = 0
    prediction: Prediction | None = None


class PageCache:
    """Reads pages in batches while they are downloaded, and records visits in batches, in order.

    Visits are written by count, by time, and at close. While the state cannot be reached they wait here,
    at most `limit` of them, and writing is tried again after growing pauses; past the limit the oldest
    are given up and counted as lost. All methods are called from the event loop.
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
        self._count = min(count, max(1, limit // 2))  # else visits would be given up unasked
        self._seconds = seconds
        self._limit = limit
        self._on_recorded = on_recorded
        self._on_error = on_error
        self._claims: dict[int, Claim] = {}
        self._pages: dict[int, Page | None] = {}
        self._wanted: list[int] = []
        self._reading: frozenset[int] = frozenset()
        self._readers: list[Deferred[None]] = []
        self._is_read_timed = False
        self._sites = SiteMemories()
        self._wanted_sites: set[int] = set()
        self._waiting: list[Visit] = []
        self._writing: list[Visit] = []
        self._written: Deferred[None] | None = None
        # pages as the state has them, for the visits that wait and those that are being written
        self._known: dict[int, Page] = {}
        self._writing_known: dict[int, Page] = {}
        self._latest: dict[int, Page] = {}
        self._cancel_timer: Callable[[], object] | None = None
        self._pause = 0.0
        self._broken = self._is_closed = False
        self._taken = self._settled = 0
        self.lost = 0
        """Visits not written: those given up, and those of pages that are damaged in the state."""
        self.given_up = 0

    @property
    def waiting(self) -> int:
        """How many visits are not written yet."""
        return len(self._waiting) + len(self._writing)

    async def patiently(
        self, function: Callable[Concatenate[State, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Return what a function of the state returns, however long the state is away.

        Raises StateError where trying again is of no use.
        """
        while True:
            try:
                return await self.once(function, *args, **kwargs)
            except StateUnavailableError as error:
                self._on_error(error)
                logger.warning("%s; next try in %g s", error, RETRY_SECONDS)
                await maybe_deferred_to_future(sleep(RETRY_SECONDS))

    async def once(
        self, function: Callable[Concatenate[State, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Return what a function of the state returns; raises StateError also where it is away."""
        return await maybe_deferred_to_future(
            self._worker.run(function, self._state, *args, **kwargs)
        )

    async def rows(self, page_ids: Sequence[int], now: float) -> tuple[Rows, Future | None]:
        """Return the pages' ranking rows without visits later than `now`, and what there is of these.

        Raises StateError.
        """
        return await self.once(_rows, np.array(page_ids, np.int64), now)

    async def signals(self, rows: Rows, experiment: Experiment) -> list[Signals]:
        """Return what was heard of the pages of these ranking rows; raises StateError."""
        return await self.once(lambda state: read_signals(state.store, rows["site"], experiment))

    def urls(self) -> AsyncIterator[str]:
        """Stream the URL of every page known; raises StateError."""
        return in_batches(self._worker, self._state.urls())

    def claim(
        self, url: str, prediction: Prediction | None = None, *, is_again: bool = False
    ) -> None:
        """Have a page read soon, and held until it is recorded or dropped as often as it was claimed.

        `is_again` marks a redirect or retry of a request, which goes on with that one's claim.
        """
        page_id = page_id_of(url)
        claim = self._claims.setdefault(page_id, Claim(url))
        claim.prediction = claim.prediction or prediction
        if not is_again or not claim.number:
            claim.number += 1
        if page_id in self._pages or self.is_pending(url):
            return
        self._wanted.append(page_id)
        self._wanted_sites.add(menu_id(url))
        if not self._reading and not self._is_read_timed:
            self._is_read_timed = True
            call_later(GATHER_SECONDS, self._read)

    def is_pending(self, url: str) -> bool:
        """Whether the page is still to be read."""
        page_id = page_id_of(url)
        return page_id in self._reading or page_id in self._wanted

    async def ready(self, url: str) -> None:
        """Return when the page has been read, or could not be."""
        while self.is_pending(url):
            reader: Deferred[None] = Deferred()
            self._readers.append(reader)
            await maybe_deferred_to_future(reader)

    def look(self, url: str) -> Page | None:
        """Return the page if it has been read, with the visits that wait to be written."""
        page_id = page_id_of(url)
        return self._latest.get(page_id) or self._pages.get(page_id)

    def record(self, visit: Visit) -> Recorded:
        """Take a visit, which ends one claim on its page, and return what it brought.

        Where the page could not be read that is told from this visit alone, and `is_known` is False.
        """
        page_id = page_id_of(visit.url)
        found = self.look(visit.url)
        is_known = found is not None or page_id in self._pages
        self.drop(visit.url)
        before = found or Page(visit.url)
        recorded = merged(before, copy_of(before), visit, is_known=is_known)
        if is_known:
            (recorded,) = on_their_sites([recorded], self._sites)
            if page_id not in self._latest:  # else it has visits that the state may not know
                self._known[page_id] = before
            self._latest[page_id] = recorded.after
        self._add(visit)
        return recorded

    def drop(self, url: str) -> None:
        """Give up one claim on a page: its response will not be recorded."""
        page_id = page_id_of(url)
        claim = self._claims.get(page_id)
        if claim is not None:
            claim.number -= 1
        if claim is None or claim.number <= 0:
            self._claims.pop(page_id, None)
            self._pages.pop(page_id, None)

    def unfinished(self) -> list[Claim]:
        """Return the pages that are still claimed; give all claims up.

        To be called when nothing is under way.
        """
        claims, self._claims = self._claims, {}
        self._pages.clear()
        return list(claims.values())

    async def make_room(self) -> None:
        """Return when so few visits wait that none will be given up for the next ones."""
        while self.waiting > self._limit // 2:
            await self.settle()

    async def settle(self) -> bool:
        """Return, once all visits taken so far are written or given up, whether none ever was."""
        target = self._taken
        while self._settled < target:
            self._flush()
            await self._end_of_write()
            if self._pause:
                await maybe_deferred_to_future(sleep(self._pause))
        return not self.given_up

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
        self._is_closed = True

    def _read(self) -> None:
        self._is_read_timed = False
        if self._is_closed:  # the last request ended sooner than its page was to be read
            self._wanted.clear()
            self._end_of_read()
            return
        page_ids, self._wanted = self._wanted, []
        sites, self._wanted_sites = self._sites.unread(self._wanted_sites), set()
        self._reading = frozenset(page_ids)
        reading = self._worker.run(_load, self._state, page_ids, sites)
        reading.addCallbacks(self._keep, self._fail_to_read)

    def _keep(self, read: _ReadAhead) -> None:
        pages, sites, memories = read
        self._sites.keep(sites, memories)
        for page_id in self._reading:
            if page_id in self._claims:
                self._pages[page_id] = pages.get(page_id)
        self._end_of_read()

    def _fail_to_read(self, failure: Failure) -> None:
        self._end_of_read()
        error = failure.value
        if not isinstance(error, StateError):
            error = StateError(f"pages could not be read: {type(error).__name__}: {error}")
        self._on_error(error)

    def _end_of_read(self) -> None:
        self._reading = frozenset()
        readers, self._readers = self._readers, []
        for reader in readers:
            reader.callback(None)
        if self._wanted:
            self._read()

    def _add(self, visit: Visit) -> None:
        self._waiting.append(visit)
        self._taken += 1
        if self.waiting > self._limit:
            self._give_up(self._waiting[:1])
            del self._waiting[:1]
        elif len(self._waiting) >= self._count and not self._pause:
            self._flush()
        if self._waiting and self._cancel_timer is None and self._written is None:
            self._cancel_timer = call_later(self._pause or self._seconds, self._flush)

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
        ).addCallbacks(self._succeed, self._fail_to_write)

    def _succeed(self, recorded: list[Recorded]) -> None:
        if self._pause:
            logger.info(
                "The state is back: %s written that waited", counted(len(recorded), "visit")
            )
        self._pause = 0.0
        written, self._writing, self._written = self._writing, [], None
        waiting = {page_id_of(visit.url) for visit in self._waiting}
        for visit in written:
            page_id = page_id_of(visit.url)
            if page_id not in waiting:
                self._latest.pop(page_id, None)
        for one in recorded:
            page_id = page_id_of(one.visit.url)
            if page_id in waiting:
                self._known[page_id] = one.after
            if page_id in self._pages:
                self._pages[page_id] = one.after
        self._settled += len(written)
        self.lost += len(written) - len(recorded)
        self._on_recorded(recorded)
        if len(self._waiting) >= self._count:
            self._flush()
        elif self._waiting:
            self._cancel_timer = call_later(self._seconds, self._flush)

    def _fail_to_write(self, failure: Failure) -> None:
        error = failure.value
        if not isinstance(error, StateError):
            logger.debug("Recording failed", exc_info=failure_to_exc_info(failure))
            error = StateError(f"visits could not be recorded: {type(error).__name__}: {error}")
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
            "%s; waiting in memory: %s; next try in %g s",
            error,
            counted(len(self._waiting), "visit"),
            self._pause,
        )
        self._cancel_timer = call_later(self._pause, self._flush)

    def _give_up(self, visits: Sequence[Visit]) -> None:
        self._settled += len(visits)
        self.given_up += len(visits)
        self.lost += len(visits)
        for visit in visits:
            page_id = page_id_of(visit.url)
            self._latest.pop(page_id, None)
            self._known.pop(page_id, None)


def _load(state: State, page_ids: Sequence[int], sites: Sequence[int]) -> _ReadAhead:
    return state.load(page_ids), sites, state.site_links(sites) if sites else {}


def _rows(state: State, page_ids: Ids, now: float) -> tuple[Rows, Future | None]:
    return without_future(state, page_ids, state.rows(page_ids), now)

"""Pages between a crawl and its state: a real state, a real thread, and timers of the test's."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from scrapy.utils.defer import maybe_deferred_to_future

from crawl_support import Timers, settled
from hacs_crawler.crawl.state_access.read_ahead import GATHER_SECONDS, ReadAhead, StateThread
from hacs_crawler.crawl.state_access.write_behind import FLUSH_SECONDS, WriteBehind
from hacs_crawler.exceptions import StateError, StateUnavailableError
from hacs_crawler.links import page_id_of
from hacs_crawler.state import Estimation, Recorded, State, Store, Updates
from hacs_crawler.utils.loop import Worker
from state_support import visit

A, B, C = "http://a.example/", "http://b.example/", "http://c.example/"
OF_A = "http://a.example/menu.html"
DAY = 86_400
SECONDS = FLUSH_SECONDS
"""After how long a visit is written."""


class Road:
    """A store, and the way to it: where that is closed, the store is away."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.error: Exception | None = None
        self.reads: list[list[int]] = []
        self.writes = 0

    def __getattr__(self, name: str) -> Any:
        if self.error is not None and name in {"load", "rows", "write", "urls"}:
            raise self.error
        return getattr(self._store, name)

    def load(self, page_ids: Sequence[int]) -> dict[int, bytes]:
        self.reads.append(list(page_ids))
        if self.error is not None:
            raise self.error
        return self._store.load(page_ids)

    def write(self, changes: Any) -> Any:
        self.writes += 1
        if self.error is not None:
            raise self.error
        return self._store.write(changes)

    def close_for(self, reason: str = "the state is away") -> None:
        self.error = StateUnavailableError(reason)

    def open(self) -> None:
        self.error = None


class StateAccess:
    """What stands between a crawl and a state, what it told, and the time it goes by."""

    def __init__(
        self, store: Store, timers: Timers, *, count: int, limit: int, updates: Updates = "page"
    ) -> None:
        self.road: Any = Road(store)
        self.timers = timers
        self.state = State(self.road, Estimation(updates=updates))
        self.worker = Worker()
        self.recorded: list[Recorded] = []
        self.errors: list[StateError] = []
        self.thread = StateThread(self.state, self.worker, self.errors.append)
        self.read_ahead = ReadAhead(self.thread)
        self.write_behind = WriteBehind(
            self.thread, self.read_ahead, self.recorded.extend, count=count, limit=limit
        )

    async def end_of_work(self) -> None:
        """Return when the thread has done all that it was given, and all that this led to."""
        for _ in range(3):
            await maybe_deferred_to_future(self.worker.run(int))
            await settled()

    async def wait(self, seconds: float) -> None:
        self.timers.go_on(seconds)
        await self.end_of_work()

    async def claim(self, *urls: str) -> None:
        for url in urls:
            self.read_ahead.claim(url)
        await self.wait(GATHER_SECONDS)

    async def visit(self, url: str, day: int, *links: int) -> Recorded:
        """Read a page, and record a visit to it."""
        await self.claim(url)
        return self.write_behind.record(visit(url, day, *links))

    def days(self, url: str) -> list[int]:
        is_open, self.road.error = self.road.error, None
        page = self.state.load([page_id_of(url)]).get(page_id_of(url))
        self.road.error = is_open
        return [] if page is None else [at // DAY for at in page.visits]

    async def until(self, task: asyncio.Task[Any]) -> list[float]:
        """Let time go on until a task has ended; return the pauses that this took."""
        pauses = []
        await self.end_of_work()
        while not task.done():
            assert len(pauses) < 99
            pauses.append(self.timers.waiting[0])
            await self.wait(pauses[-1])
        return pauses


@asynccontextmanager
async def busy(worker: Worker) -> AsyncIterator[None]:
    """Keep the thread from doing anything."""
    is_free = threading.Event()
    worker.run(is_free.wait, 60.0)
    try:
        yield
    finally:
        is_free.set()


Make = Callable[..., StateAccess]

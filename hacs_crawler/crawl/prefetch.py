"""Pages read from the state while their requests are on the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from hacs_crawler.crawl.loop import Worker, call_later
from hacs_crawler.crawl.page_cache import WriteBehind
from hacs_crawler.exceptions import StateError
from hacs_crawler.links import page_id
from hacs_crawler.state import Page, Prediction, Recorded, State

GATHER_SECONDS = 0.005
"""How long pages are gathered into one read: less than any answer from the network takes."""


@dataclass(slots=True)
class _Claim:
    """How many requests for a page are under way."""

    url: str
    number: int = 0
    prediction: Prediction | None = None


class Prefetch:
    """Reads pages in batches, one read at a time, and holds them until their response is processed."""

    def __init__(
        self,
        state: State,
        worker: Worker,
        buffer: WriteBehind,
        on_error: Callable[[StateError], None],
    ) -> None:
        self._state = state
        self._worker = worker
        self._buffer = buffer
        self._on_error = on_error
        self._wanted: list[int] = []
        self._reading: frozenset[int] = frozenset()
        self._pages: dict[int, Page | None] = {}
        self._claims: dict[int, _Claim] = {}
        self._waiting: list[Deferred[None]] = []
        self._is_timed = False

    def want(
        self, key: int, url: str, prediction: Prediction | None = None, *, is_again: bool = False
    ) -> None:
        """Have a page read soon, and held until it is taken or dropped as often as it was claimed.

        `is_again` marks a redirect or retry of a request, which goes on with that one's claim.
        """
        claim = self._claims.setdefault(key, _Claim(url))
        claim.prediction = claim.prediction or prediction
        if not is_again or not claim.number:
            claim.number += 1
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
        """Return whether the page could be read, and the page, None where it is new."""
        latest = self.look(key)
        is_readable = latest is not None or key in self._pages
        self.drop(key)
        return is_readable, latest

    def look(self, key: int) -> Page | None:
        """Return the page if it has been read, with the visits that wait to be written."""
        return self._buffer.page(key) or self._pages.get(key)

    def drop(self, key: int) -> None:
        """Give up one claim on a page: its response has been processed, or will not come."""
        claim = self._claims.get(key)
        if claim is not None:
            claim.number -= 1
        if claim is None or claim.number <= 0:
            self._claims.pop(key, None)
            self._pages.pop(key, None)

    def unfinished(self) -> list[tuple[str, Prediction | None]]:
        """Return the URLs of pages that are still claimed, with what was predicted; give all claims up.

        To be called when nothing is under way.
        """
        claims, self._claims = self._claims, {}
        self._pages.clear()
        return [(claim.url, claim.prediction) for claim in claims.values()]

    def note_recorded(self, recorded: Sequence[Recorded]) -> None:
        """Keep the pages held as the store has them now."""
        for one in recorded:
            key = page_id(one.visit.url)
            if key in self._pages:
                self._pages[key] = one.after

    def _read(self) -> None:
        self._is_timed = False
        keys, self._wanted = self._wanted, []
        self._reading = frozenset(keys)
        self._worker.run(self._state.load, keys).addCallbacks(self._keep, self._fail)

    def _keep(self, pages: dict[int, Page]) -> None:
        for key in self._reading:
            if key in self._claims:
                self._pages[key] = pages.get(key)
        self._finish()

    def _fail(self, failure: Failure) -> None:
        self._finish()
        error = failure.value
        if not isinstance(error, StateError):
            error = StateError(f"pages could not be read: {type(error).__name__}: {error}")
        self._on_error(error)

    def _finish(self) -> None:
        self._reading = frozenset()
        waiting, self._waiting = self._waiting, []
        for deferred in waiting:
            deferred.callback(None)
        if self._wanted:
            self._read()

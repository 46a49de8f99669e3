"""Calls the state in its thread, and reads pages while their requests are in progress."""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Concatenate, Final, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from hacs_crawler.exceptions import StateError, StateUnavailableError
from hacs_crawler.links import menu_id, page_id_of
from hacs_crawler.state import (
    Estimation,
    LinkClaim,
    Page,
    Prediction,
    Recorded,
    Rows,
    SetAside,
    State,
    claim_links,
    elsewhere,
    on_their_sites,
    without_future,
)
from hacs_crawler.utils.loop import Worker, call_later, in_batches, sleep
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

# Pause before another attempt at an unreachable state.
RETRY_SECONDS: Final = 5.0

# How long to gather pages for one read; network answers take longer.
GATHER_SECONDS: Final = 0.005
# How many sites' memories are cached, each up to 24 KB; the oldest are dropped.
MOST_SITES: Final = 256
# Result of a read: known pages by id, the sites read, and their memories.
_Read = tuple[dict[int, Page], Sequence[int], dict[int, bytes]]
P = ParamSpec("P")
T = TypeVar("T")


class StateThread:
    """Calls functions with the state in its thread. All methods are called from the event loop.

    `on_error` receives errors of reads and writes in the background.
    """

    def __init__(
        self, state: State, worker: Worker, on_error: Callable[[StateError], None]
    ) -> None:
        self._state = state
        self._worker = worker
        self.on_error = on_error

    @property
    def estimation(self) -> Estimation:
        """The state's estimation of rates."""
        return self._state.estimation

    def run(
        self, function: Callable[Concatenate[State, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> Deferred[T]:
        """Queue a call; the Deferred gets the result or the exception."""
        return self._worker.run(function, self._state, *args, **kwargs)

    async def once(
        self, function: Callable[Concatenate[State, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Return the function's result; raises StateError, also if the state is unreachable."""
        return await maybe_deferred_to_future(self.run(function, *args, **kwargs))

    async def patiently(
        self, function: Callable[Concatenate[State, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Return the function's result; retry while the state is unreachable.

        Raises StateError if a retry cannot help.
        """
        while True:
            try:
                return await self.once(function, *args, **kwargs)
            except StateUnavailableError as error:
                self.on_error(error)
                logger.warning("%s; next try in %g s", error, RETRY_SECONDS)
                await maybe_deferred_to_future(sleep(RETRY_SECONDS))

    async def rows(self, page_ids: Sequence[int], now: float) -> tuple[Rows, SetAside | None]:
        """Return the pages' ranking rows without visits later than `now`, and what there is of these.

        Raises StateError.
        """
        ids = np.array(page_ids, np.int64)
        return await self.once(lambda state: without_future(state, ids, state.rows(ids), now))

    def urls(self) -> AsyncIterator[str]:
        """Stream the URLs of all known pages; raises StateError."""
        return in_batches(self._worker, self._state.urls())


@dataclass(slots=True)
class Claim:
    """The URL of a page, the number of requests in progress for it, and their prediction.

    `answered` of these requests have an answer and wait for their callbacks.
    """

    url: str
    number: int = 0
    prediction: Prediction | None = None
    answered: int = 0


class SiteMemories:
    """The links that some sites' pages have shown, as last read, plus the claims of this crawl.

    This gives a preliminary answer: whether a link was new to its site is decided when the visit is
    written. Claims of other workers since the last read are missing here.
    """

    def __init__(self) -> None:
        self._memories: dict[int, bytes] = {}

    def unread(self, sites: Iterable[int]) -> list[int]:
        """Return the sites that have not been read."""
        return [site for site in dict.fromkeys(sites) if site not in self._memories]

    def keep(self, sites: Sequence[int], read: Mapping[int, bytes]) -> None:
        """Cache the memories of sites; a site without a record gets an empty one."""
        for site in sites:
            self._memories[site] = read.get(site, b"")
        for site in list(self._memories)[:-MOST_SITES]:
            del self._memories[site]

    def elsewhere(self, site: int, page_id: int) -> Callable[[int], bool]:
        """Return a test of whether another page of the site has claimed a mark by now."""
        read, is_elsewhere = b"", elsewhere(b"", page_id)

        def is_claimed(mark: int) -> bool:
            nonlocal read, is_elsewhere
            memory = self._memories.get(site, b"")
            if memory is not read:
                read, is_elsewhere = memory, elsewhere(memory, page_id)
            return is_elsewhere(mark)

        return is_claimed

    def claim(self, claims: Sequence[LinkClaim]) -> list[NDArray[np.bool_]]:
        """Claim links as `State.claim` does; for a site that was not read, all links are new."""

        def change(sites: Iterable[int], memory_after: Callable[[int, bytes], bytes]) -> None:
            for site in sites:
                after = memory_after(site, self._memories.get(site, b""))
                if site in self._memories:
                    self._memories[site] = after

        return claim_links(claims, change)


class ReadAhead:
    """Reads pages while they are downloaded. All methods are called from the event loop."""

    def __init__(self, state: StateThread) -> None:
        self._state = state
        self._claims: dict[int, Claim] = {}
        self._pages: dict[int, Page | None] = {}
        self._wanted: dict[int, None] = {}
        self._reading: dict[int, None] = {}
        self._readers: list[Deferred[None]] = []
        self._is_read_timed = self._is_closed = False
        self._sites = SiteMemories() if state.estimation.updates == "site" else None
        self._wanted_sites: set[int] = set()

    def claim(
        self, url: str, prediction: Prediction | None = None, *, is_again: bool = False
    ) -> None:
        """Read a page soon, and hold it until each claim ends by a recorded visit or by `drop`.

        `is_again` marks a redirect or retry, which takes over the claim of the first request.
        """
        page_id = page_id_of(url)
        claim = self._claims.setdefault(page_id, Claim(url))
        claim.prediction = claim.prediction or prediction
        if not is_again or not claim.number:
            claim.number += 1
        if page_id in self._pages or page_id in self._reading or page_id in self._wanted:
            return
        self._wanted[page_id] = None
        if self._sites is not None:
            self._wanted_sites.add(menu_id(url))
        if not self._reading and not self._is_read_timed:
            self._is_read_timed = True
            call_later(GATHER_SECONDS, self._read)

    def is_pending(self, url: str) -> bool:
        """Whether the page will be read soon or is being read."""
        page_id = page_id_of(url)
        return page_id in self._reading or page_id in self._wanted

    async def ready(self, url: str) -> None:
        """Return when the page has been read, or reading has failed."""
        while self.is_pending(url):
            reader: Deferred[None] = Deferred()
            self._readers.append(reader)
            await maybe_deferred_to_future(reader)

    def drop(self, url: str) -> None:
        """End one claim on a page."""
        page_id = page_id_of(url)
        claim = self._claims.get(page_id)
        if claim is not None:
            claim.number -= 1
        if claim is None or claim.number <= 0:
            self._claims.pop(page_id, None)
            self._pages.pop(page_id, None)

    def on_answer(self, url: str, waiting: int = 1) -> None:
        """Count an answer that waits for its callback; with -1, end that wait."""
        claim = self._claims.get(page_id_of(url))
        if claim is not None:
            claim.answered += waiting

    def unfinished(self) -> list[Claim]:
        """Return the claims without an answer, and end all claims.

        Call it only if no request is in progress.
        """
        claims, self._claims = self._claims, {}
        self._pages.clear()
        return [claim for claim in claims.values() if claim.number > claim.answered]

    def has_read(self, page_id: int) -> bool:
        """Whether a page has been read and is held; the state may not know it."""
        return page_id in self._pages

    def page(self, page_id: int) -> Page | None:
        """Return a page as last read or written; None if it is not held or not known."""
        return self._pages.get(page_id)

    def on_written(self, pages: Mapping[int, Page]) -> None:
        """Replace held pages by their written versions."""
        self._pages.update({key: page for key, page in pages.items() if key in self._pages})

    def on_its_site(self, recorded: Recorded) -> Recorded:
        """Return the outcome; if updates count by site, with the marks new to its site as last read."""
        return recorded if self._sites is None else on_their_sites([recorded], self._sites.claim)[0]

    def elsewhere(self, url: str) -> Callable[[int], bool]:
        """Return a test of whether another page of the site has shown a mark; else always False."""
        if self._sites is None:
            return lambda _: False
        return self._sites.elsewhere(menu_id(url), page_id_of(url))

    def close(self) -> None:
        """Stop reading: the state will be closed."""
        self._is_closed = True

    def _read(self) -> None:
        self._is_read_timed = False
        if self._is_closed:  # the last requests ended before their pages were read
            self._wanted.clear()
            self._end_of_read()
            return
        self._reading, self._wanted = self._wanted, {}
        sites = [] if self._sites is None else self._sites.unread(self._wanted_sites)
        self._wanted_sites.clear()
        page_ids = [*self._reading]

        def read(state: State) -> _Read:
            return state.load(page_ids), sites, state.site_links(sites) if sites else {}

        self._state.run(read).addCallbacks(self._keep, self._fail_to_read)

    def _keep(self, read: _Read) -> None:
        pages, sites, memories = read
        if self._sites is not None:
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
        self._state.on_error(error)

    def _end_of_read(self) -> None:
        self._reading = {}
        readers, self._readers = self._readers, []
        for reader in readers:
            reader.callback(None)
        if self._wanted:
            self._read()

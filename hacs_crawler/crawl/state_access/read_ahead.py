"""The state in its thread, and pages read ahead of their responses, held while these are under way."""

from __future__ import annotations

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

# After how long a state that was away is asked again.
RETRY_SECONDS: Final = 5.0

# How long pages are gathered into one read: less than any answer from the network takes.
GATHER_SECONDS: Final = 0.005
# How many sites' memories are kept, of at most 24 KB each; the oldest are read again.
MOST_SITES: Final = 256
# What one read brought: the pages that are known, and which sites remember which of their links.
_Read = tuple[dict[int, Page], Sequence[int], dict[int, bytes]]
P = ParamSpec("P")
T = TypeVar("T")


class StateThread:
    """Calls functions with the state in its thread. All methods are called from the event loop.

    `on_error` receives errors after which the crawl goes on, such as an unreachable state.
    """

    def __init__(
        self, state: State, worker: Worker, on_error: Callable[[StateError], None]
    ) -> None:
        self._state = state
        self._worker = worker
        self.on_error = on_error

    @property
    def estimation(self) -> Estimation:
        """How the state's rates are estimated."""
        return self._state.estimation

    def run(
        self, function: Callable[Concatenate[State, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> Deferred[T]:
        """Queue a call of a function of the state; the Deferred has its result or its exception."""
        return self._worker.run(function, self._state, *args, **kwargs)

    async def once(
        self, function: Callable[Concatenate[State, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Return the result of a function of the state; raises StateError also if it is away."""
        return await maybe_deferred_to_future(self.run(function, *args, **kwargs))

    async def patiently(
        self, function: Callable[Concatenate[State, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Return the result of a function of the state, however long the state is away.

        Raises StateError if trying again is useless.
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
        """Stream the URL of every page known; raises StateError."""
        return in_batches(self._worker, self._state.urls())


@dataclass(slots=True)
class Claim:
    """A page, the number of requests under way for it, and their prediction.

    `answered` of the requests wait for the output of their callbacks.
    """

    url: str
    number: int = 0
    prediction: Prediction | None = None
    answered: int = 0


class SiteMemories:
    """The links that pages of some sites have shown, as read, with the claims of this crawl.

    The state decides which links were new to a site once a visit is written. Claims that other workers
    made since a site was read are not seen here.
    """

    def __init__(self) -> None:
        self._memories: dict[int, bytes] = {}

    def unread(self, sites: Iterable[int]) -> list[int]:
        """Return the sites that are still to be read."""
        return [site for site in dict.fromkeys(sites) if site not in self._memories]

    def keep(self, sites: Sequence[int], read: Mapping[int, bytes]) -> None:
        """Keep the memories read for sites; sites without a record get an empty memory."""
        for site in sites:
            self._memories[site] = read.get(site, b"")
        for site in list(self._memories)[:-MOST_SITES]:
            del self._memories[site]

    def elsewhere(self, site: int, page_id: int) -> Callable[[int], bool]:
        """Return what says of a mark whether another page of the site has claimed it."""
        return elsewhere(self._memories.get(site, b""), page_id)

    def claim(self, claims: Sequence[LinkClaim]) -> list[NDArray[np.bool_]]:
        """Claim links as `State.claim` does; of a site that was not read everything is new."""

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
        # in the order in which they were claimed
        self._wanted: dict[int, None] = {}
        self._reading: dict[int, None] = {}
        self._readers: list[Deferred[None]] = []
        self._is_read_timed = self._is_closed = False
        self._sites = SiteMemories() if state.estimation.updates == "site" else None
        self._wanted_sites: set[int] = set()

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
        if page_id in self._pages or page_id in self._reading or page_id in self._wanted:
            return
        self._wanted[page_id] = None
        if self._sites is not None:
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

    def drop(self, url: str) -> None:
        """Give up one claim on a page: its response will not be recorded."""
        page_id = page_id_of(url)
        claim = self._claims.get(page_id)
        if claim is not None:
            claim.number -= 1
        if claim is None or claim.number <= 0:
            self._claims.pop(page_id, None)
            self._pages.pop(page_id, None)

    def on_answer(self, url: str, waiting: int = 1) -> None:
        """Count an answer that waits for its callback, or, with -1, an answer that waits no longer."""
        claim = self._claims.get(page_id_of(url))
        if claim is not None:
            claim.answered += waiting

    def unfinished(self) -> list[Claim]:
        """Return the pages that are still claimed, and not answered; give all claims up.

        To be called when nothing is under way.
        """
        claims, self._claims = self._claims, {}
        self._pages.clear()
        return [claim for claim in claims.values() if claim.number > claim.answered]

    def has_read(self, page_id: int) -> bool:
        """Whether a page has been read, and is held; the state may not know it."""
        return page_id in self._pages

    def page(self, page_id: int) -> Page | None:
        """Return a page as it was read or written; None if it is not held, or not known."""
        return self._pages.get(page_id)

    def on_written(self, pages: Mapping[int, Page]) -> None:
        """Replace the held pages by their written versions."""
        self._pages.update({key: page for key, page in pages.items() if key in self._pages})

    def on_its_site(self, recorded: Recorded) -> Recorded:
        """Return a visit's outcome; if sites count, with the marks new to its site as last read."""
        return recorded if self._sites is None else on_their_sites([recorded], self._sites.claim)[0]

    def elsewhere(self, url: str) -> Callable[[int], bool]:
        """Return what says of a mark whether another page of the site has shown it, if sites count."""
        if self._sites is None:
            return lambda _: False
        return self._sites.elsewhere(menu_id(url), page_id_of(url))

    def close(self) -> None:
        """Read nothing any more: the state will be closed."""
        self._is_closed = True

    def _read(self) -> None:
        self._is_read_timed = False
        if self._is_closed:  # the last request ended before its page was read
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

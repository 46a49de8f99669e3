"""What a part of a crawl may do: the hooks by which the kernel calls it, and their arguments."""

from __future__ import annotations

from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any, Final, Self

from msgspec import Struct
from scrapy import Request
from scrapy.http import Response

from hacs_crawler.ranking.choice import Quota
from hacs_crawler.ranking.policies import Floats
from hacs_crawler.state import Page, Recorded, Visit
from hacs_crawler.utils.loop import each
from hacs_crawler.watch import Rules

# A request that would have to wait longer is given up.
LONGEST_WAIT_SECONDS: Final = 120.0


class PutBackError(Exception):
    """The request goes back to the scheduler, and waits there."""


class Observed(Struct, frozen=True):
    """The response of a page, and its recorded outcome.

    `reason` says why the page's links were not seen; it is "" if they were. `leads_on` says that its
    callback yielded requests, and nothing else; `leads_to` are their URLs, by these with what is posted,
    which are the page's marks then.
    """

    request: Request
    response: Response
    recorded: Recorded
    reason: str
    leads_on: bool = False
    leads_to: Mapping[str, str] = {}

    @property
    def visit(self) -> Visit:
        """The visit that was recorded."""
        return self.recorded.visit

    @property
    def is_first(self) -> bool:
        """Whether the page was never seen before, as far as is known."""
        return not self.recorded.before.visits


class Part:
    """A part of a crawl, named in HACS_PARTS. Each hook does nothing unless it is overridden.

    What a hook raises is logged once and counted, and the crawl goes on as if it had
    done; after some failures in a row the part is switched off. The event loop calls all hooks.
    """

    # Whether a failure of this part ends the crawl, because hosts or the state would be harmed.
    #
    # If it fails over one page, that page is not observed; after some failures in a row the crawl
    # ends.
    required = False
    # Keys of `meta` that requests inherit from the request whose callback yields them.
    inherited: tuple[str, ...] = ()
    # Hooks that are not called in this round, as the content of the open state makes them useless.
    unneeded: tuple[str, ...] = ()

    @classmethod
    # the crawl holds parts: no type can name it here
    def from_crawl(cls, crawl: Any) -> Self | None:
        """Return the part of a crawl (`crawl.crawl.Crawl`), None if it is off."""
        del crawl
        return cls()

    def held(self) -> AbstractAsyncContextManager[None]:
        """Return what is entered before the state is opened, and left when it is closed.

        ConfigError and StateError end the crawl.
        """
        return nullcontext()

    async def opened(self) -> None:
        """Read the part's data from the open state. ConfigError and StateError end the crawl."""

    def start_requests(self) -> AsyncIterator[Request]:
        """Yield requests that begin the crawl, in addition to the spider's own; StateError ends it."""
        return each(())

    async def before_rank(
        self, urls: Sequence[str] | None, sites: Collection[int] | None = None
    ) -> None:
        """Prepare for pages to be ranked: those with these URLs, else known ones, of `sites` or all."""

    def quota(self, quota: Quota) -> Quota:
        """Return how many visits a round may make."""
        return quota

    def chosen(self, p: Floats, twice: int) -> None:
        """Learn the p of the pages that a round chose, and how many of them are requested twice."""

    def takes(self, page_url: str, request: Request | None) -> bool:
        """Return whether a page is this crawl's to visit.

        It is asked for each request for a page that is scheduled, before any filter, and without a
        request for each of a list of pages that is read.
        """
        del page_url, request
        return True

    def admit(self, request: Request) -> float:
        """Return how many seconds a request is to wait, 0 if it may be sent now.

        It is asked when a request would be sent, and again just before it is downloaded. Those after it
        for the same host wait as long; more than `LONGEST_WAIT_SECONDS` none does, but is given up.
        """
        del request
        return 0.0

    def before_request(self, request: Request, page_url: str | None) -> Awaitable[None] | None:
        """Change a request that is about to be downloaded; `page_url` is None if it is for no page.

        A coroutine function is awaited before the request goes on.
        """

    async def answered(self, request: Request, response: Response, page_url: str) -> Response:
        """Return the answer to a page's request, or another answer instead; it may take its time."""
        del request, page_url
        return response

    def failed(self, request: Request, error: Exception, page_url: str) -> Request | None:
        """Return a request to be sent instead of a page's request that got no answer, or None."""
        del request, error, page_url
        return None

    def rules(self, response: Response, rules: Rules, page: Page | None) -> Rules:
        """Return the rules by which a response is read; `page` is what is known of its page."""
        del response, page
        return rules

    def items_before(self, page_url: str) -> Mapping[int, Mapping[str, Any]]:
        """Return the fields of a page's items at its last visit, by their keys."""
        del page_url
        return {}

    def doubts(self, page: Page, marks: frozenset[int]) -> bool:
        """Return whether a known page that yields an item with these marks was not read."""
        del page, marks
        return False

    def shown(self, response: Response, item: Any, *, is_news: bool) -> None:
        """Learn of an item that a page's callback yields, if items are watched."""

    def observed(self, observed: Observed) -> Iterable[Visit]:
        """Return visits of other pages that follow from a response that was recorded."""
        del observed
        return ()

    def recorded(self, batch: Sequence[Recorded]) -> None:
        """Learn that visits are written to the state."""

    async def round_began(self) -> None:
        """Begin another round of a crawl that goes on."""

    def sum_up(self) -> None:
        """Log the part's work since the last summary: a round or the run is over."""

    async def round_ended(self, is_asked_to_end: Callable[[], bool]) -> None:
        """Learn from a round, or a crawl, whose visits are written; raises StateError.

        It may take long: `is_asked_to_end` says, in any thread, whether the process is to end.
        """

    def busy(self) -> bool:
        """Whether the spider is to stay open for something that is under way."""
        return False

    async def closing(self) -> None:
        """Write the part's data: the state is open for the last time."""

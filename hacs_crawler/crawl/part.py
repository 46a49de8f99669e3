"""The base class of parts: the hooks that the kernel calls, and their arguments."""

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

    `reason` says why the page was not seen; it is "" if it was. `only_requests` is true if the callback
    yielded requests but no item: then the keys of `leads_to`, their URLs with posted data, are the
    page's marks. The values are the URLs without that data.
    """

    request: Request
    response: Response
    recorded: Recorded
    reason: str
    only_requests: bool = False
    leads_to: Mapping[str, str] = {}

    @property
    def visit(self) -> Visit:
        """The visit that was recorded."""
        return self.recorded.visit

    @property
    def is_first(self) -> bool:
        """Whether no earlier visit of the page is known."""
        return not self.recorded.before.visits


class Part:
    """A part of a crawl, named in HACS_PARTS. Each hook does nothing unless it is overridden.

    If a hook raises, the error is logged once and counted, and the crawl goes on; after some
    consecutive failures the part is switched off. All hooks are called from the event loop.
    """

    # Whether the crawl may not go on without the part, because hosts or the state would be harmed.
    # If it fails over one page, the page is not observed; consecutive failures end the crawl.
    required = False
    # Keys of `meta` that requests inherit from the request whose callback yields them.
    inherited: tuple[str, ...] = ()
    # Hooks not to call in this round, because the state has nothing for them to do.
    unneeded: tuple[str, ...] = ()

    @classmethod
    # Any: the crawl's module imports this module
    def from_crawl(cls, crawl: Any) -> Self | None:
        """Make the part for a crawl (`crawl.crawl.Crawl`); None if it is off."""
        return cls()

    def held(self) -> AbstractAsyncContextManager[None]:
        """Return a context around the open state; ConfigError and StateError end the crawl."""
        return nullcontext()

    async def opened(self) -> None:
        """Read the part's data from the open state. ConfigError and StateError end the crawl."""

    def start_requests(self) -> AsyncIterator[Request]:
        """Yield requests to add to the spider's start requests; StateError ends the crawl."""
        return each(())

    async def before_rank(
        self, urls: Sequence[str] | None, sites: Collection[int] | None = None
    ) -> None:
        """Prepare for ranking the pages with these URLs; if None, known pages, all or of `sites`."""

    def quota(self, quota: Quota) -> Quota:
        """Return how many visits a round may make."""
        return quota

    def chosen(self, p: Floats, twice: int) -> None:
        """Note the p of the pages that a round chose, and how many of them get a control visit."""

    def takes(self, page_url: str, request: Request | None) -> bool:
        """Return whether this crawl may visit a page.

        Called for each scheduled request for a page, before any filter, and for each page of a
        list, then without a request.
        """
        return True

    def admit(self, request: Request) -> float:
        """Return how many seconds a request has to wait, 0 if it may be sent now.

        Called when a request would be sent, and again just before it is downloaded. Later requests for
        the same host wait, too. A request that would wait over `LONGEST_WAIT_SECONDS` is given up.
        """
        return 0.0

    def before_request(self, request: Request, page_url: str | None) -> Awaitable[None] | None:
        """Change a request that is about to be downloaded; it waits for a coroutine function to end.

        `page_url` is None if the request is not for a page.
        """

    async def answered(self, request: Request, response: Response, page_url: str) -> Response:
        """Return the answer to a page's request, or a replacement for it; may take long."""
        return response

    def failed(self, request: Request, error: Exception, page_url: str) -> Request | None:
        """Return a request to send instead of a page's request that got no answer, or None."""
        return None

    def rules(self, response: Response, rules: Rules, page: Page | None) -> Rules:
        """Return the rules for reading a response; `page` is its page's row in the state."""
        return rules

    def items_before(self, page_url: str, response: Response) -> Mapping[int, Mapping[str, Any]]:
        """Return the fields of a page's items at its last visit, by their keys."""
        return {}

    def doubts(self, page: Page, item: Any, marks: frozenset[int]) -> bool:
        """Return whether an item, with its marks, shows that a page of one item was not read."""
        return False

    def shown(
        self, response: Response, item: Any, marks: frozenset[int], *, may_be_news: bool
    ) -> None:
        """Note an item from a page's callback, if items are watched, and its marks."""

    def observed(self, observed: Observed) -> Iterable[Visit]:
        """Return visits of other pages that a recorded response implies."""
        return ()

    def recorded(self, batch: Sequence[Recorded]) -> None:
        """Note visits that have been written to the state."""

    async def round_began(self) -> None:
        """Begin another round of a continuous crawl."""

    def sum_up(self) -> None:
        """Log the part's work since the last summary, at the end of a round or of the crawl."""

    async def round_ended(self, is_asked_to_end: Callable[[], bool]) -> None:
        """Learn from a round, or a crawl, whose visits are written; raises StateError.

        Stop early if `is_asked_to_end`, which any thread may call: the process is about to end.
        """

    def busy(self) -> bool:
        """Whether the spider has to stay open for work in progress."""
        return False

    async def closing(self) -> None:
        """Write the part's remaining data, before the state is closed."""

"""What one visit brought, as spiders see it in `response.meta["hacs"]`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import InitVar, dataclass
from datetime import UTC, datetime

from hacs_crawler.links import Varying, canonical_link, link_fingerprint
from hacs_crawler.state import Page


@dataclass(frozen=True, slots=True)
class NotObserved:
    """Stands in `response.meta["hacs"]` where the response told nothing of its page's links."""

    requested_url: str
    reason: str
    """A reason of the stat `hacs/not_observed/<reason>`, or "gone"."""


@dataclass
class Outcome:
    """A visit's outcome. Rates are in 1/day, times in UTC.

    `new_links` are fingerprints of the links that no earlier visit had shown; `is_update` says whether
    there were any. Both are empty on a first visit, which is the baseline. `new_to_site` are those of
    them that no other page of the site was known to show when the page was read. `p` is the probability
    of an update as it was when the request was scheduled (for a request that was not ranked: when the
    response came); `churn` is the chance that a request shows new links however little time has passed,
    so that new links were to be expected with 1 - (1 - churn)(1 - p). `is_known` is False where the
    store could not be reached: then nothing is known beyond the visit itself.

    It is a dataclass item whose fields Scrapy's JSON encoder can write, so that a feed of
    `response.meta` works. `after` is no field of it.
    """

    url: str
    requested_url: str
    visited_at: datetime
    is_known: bool
    is_first: bool
    is_update: bool
    new_links: set[int]
    new_to_site: set[int]
    p: float
    churn: float
    rate_before_per_day: float
    page: InitVar[Page]
    estimate: InitVar[Callable[[Page], float]]
    varying: InitVar[Varying | None]

    def __post_init__(
        self, page: Page, estimate: Callable[[Page], float], varying: Varying | None
    ) -> None:
        """Keep what is no field."""
        self._varying = varying
        self._after = page
        self._estimate = estimate

    @property
    def after(self) -> Page:
        """The page's record with this visit; not to be changed."""
        return self._after

    @property
    def rate_after_per_day(self) -> float:
        """The rate with this visit taken into account; estimated when asked for."""
        return self._estimate(self._after)

    @property
    def last_update(self) -> datetime | None:
        """Tau: when the last update was found, this visit's included."""
        second = self._after.last_update
        return None if second is None else datetime.fromtimestamp(second, UTC)

    def is_new(self, url: str) -> bool:
        """Whether an absolute link is one that no earlier visit had shown."""
        return self._is_among(url, self.new_links)

    def is_new_to_site(self, url: str) -> bool:
        """Whether it is, moreover, one that no other page of the site was known to show."""
        return self._is_among(url, self.new_to_site)

    def _is_among(self, url: str, links: set[int]) -> bool:
        link = canonical_link(url, url)
        if link is not None and self._varying is not None:
            link = self._varying.identity(link)
        return link is not None and link_fingerprint(link) in links

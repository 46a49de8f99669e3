"""What one visit brought, as spiders see it in `response.meta["hacs"]`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Literal

from hacs_crawler.links import canonical_link, citation_fingerprint, link_fingerprint
from hacs_crawler.state import Page
from hacs_crawler.watch import MarkRules, Rules


class _Told:
    """What stands in `response.meta["hacs"]`."""

    rejected = ""

    def reject(self, reason: str = "rejected") -> None:
        """Say that the answer is not the page, such as a login: nothing of it is recorded.

        To be called by a downloader middleware, a spider middleware or the callback. The reason is
        counted, and said when the crawl ends.
        """
        self.rejected = reason or "rejected"


@dataclass
class NotObserved(_Told):
    """Stands in `response.meta["hacs"]` if the response was not a visit of its page."""

    requested_url: str
    # A reason of the stat `hacs/not_observed/<reason>`, or "gone".
    reason: str


class Expected(_Told, dict[str, Any]):
    """What is predicted of a page whose answer is awaited, and known of it while its items are.

    What a ranked seed has: `p`, `rate_per_day`, `days_since_visit` and `churn`. In the callback whose
    items are watched also these of any page, and the `is_known`, `is_first` and `last_update` that its
    `Outcome` would have without this visit.
    """


@dataclass
class Outcome(_Told):
    """A visit's outcome. Rates are in 1/day, times in UTC.

    `new_marks` are fingerprints of the links, or of whatever else is watched, that are news as
    HACS_UPDATES says; `is_update` says whether there was an update. Nothing is new on a first visit,
    which is the baseline. If HACS_UPDATES is "site", `new_to_site` are those marks that no other page
    of the site was known to show when the page was read, else None. `p` is the probability of an update
    as it was when the request was scheduled (for a request that was not ranked: when the response
    came); `churn` is the chance that a request shows new links however little time has passed, so that
    new links were expected with probability 1 - (1 - churn)(1 - p). `is_known` is False if the store
    could not be reached: then nothing is known beyond the visit itself.

    It is a dataclass item whose fields Scrapy's JSON encoder can write, so that a feed of
    `response.meta` works. `after` is not a field.
    """

    url: str
    requested_url: str
    visited_at: datetime
    is_known: bool
    is_first: bool
    is_update: bool
    new_marks: set[int]
    new_to_site: set[int] | None
    p: float
    churn: float
    rate_before_per_day: float
    page: InitVar[Page]
    estimate: InitVar[Callable[[Page], float]]
    rules: InitVar[Rules]
    lost_marks: InitVar[int]
    items_before: InitVar[Mapping[int, Mapping[str, Any]] | None]

    def __post_init__(
        self,
        page: Page,
        estimate: Callable[[Page], float],
        rules: Rules,
        lost_marks: int,
        items_before: Mapping[int, Mapping[str, Any]] | None,
    ) -> None:
        """Keep the values that are not fields."""
        self._rules = rules
        self._after = page
        self._estimate = estimate
        self._lost = lost_marks
        self._items_before = items_before or {}

    @property
    def gained(self) -> int:
        """How many links, or other things that are watched, were news."""
        return len(self.new_marks)

    @property
    def lost(self) -> int:
        """How many things were gone that the visit before had shown."""
        return self._lost

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
        second = self._after.sound.last_update
        return None if second is None else datetime.fromtimestamp(second, UTC)

    def is_new(self, thing: Any) -> bool:
        """Whether a thing that the page shows is news: an absolute link, or whatever is watched.

        A link is news if no earlier visit had shown it.
        """
        return self._is_among(thing, self.new_marks)

    def status(self, thing: Any) -> Literal["new", "changed", "same"]:
        """Whether a thing that the page shows is news, in a word.

        "changed" is a new item whose HACS_WATCH_KEY an item of the visit before had.
        """
        if not self.is_new(thing):
            return "same"
        key = self._key_of(thing)
        is_known = key is not None and any(mark >> 32 == key for mark in self._shown_before)
        return "changed" if is_known else "new"

    def before(self, item: Any) -> Mapping[str, Any] | None:
        """Return the fields that an item had at the visit before, None if it was not there.

        Items are matched by HACS_WATCH_KEY, or as the only item of their page. Long fields are cut.
        """
        key = self._key_of(item, 0)
        return None if key is None else self._items_before.get(key)

    def _key_of(self, item: Any, default: int | None = None) -> int | None:
        key_of = self._rules.key_of if isinstance(self._rules, MarkRules) else None
        return default if key_of is None else key_of(item)

    @cached_property
    def _shown_before(self) -> frozenset[int]:
        at = int(self.visited_at.timestamp())
        shown, _ = self._after.sound.by_visit()
        return next((shown[before] for before in reversed(shown) if before < at), frozenset())

    def is_new_to_site(self, thing: Any) -> bool:
        """Whether it is, moreover, on no other page of the site, as far as that was known.

        Raises ValueError unless sites count.
        """
        if self.new_to_site is None:
            raise ValueError('what is new to the site is known with HACS_UPDATES = "site" only')
        return self._is_among(thing, self.new_to_site)

    def _is_among(self, thing: Any, marks: set[int]) -> bool:
        if isinstance(self._rules, MarkRules):
            return not self._rules.marks_of(thing).isdisjoint(marks)
        link = canonical_link(thing, thing)
        if link is None:
            return self._rules.citations and citation_fingerprint(thing) in marks
        if self._rules.volatile is not None:
            link = self._rules.volatile.identity(link)
        return link_fingerprint(link) in marks

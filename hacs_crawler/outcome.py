"""Outcomes of visits, as spiders get them in `response.meta["hacs"]`."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import InitVar, dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Literal, NoReturn

from hacs_crawler.links import canonical_link, citation_fingerprint, link_fingerprint
from hacs_crawler.state import Page
from hacs_crawler.watch import MarkRules, Rules, fields_like


class _Told:
    """The value of `response.meta["hacs"]`."""

    rejected = ""
    is_recorded = False

    def reject(self, reason: str = "rejected") -> None:
        """Declare that the answer is not the page, but for example a login: it will not be recorded.

        For downloader middlewares, spider middlewares and callbacks. The reason is counted, and
        logged at the end of the crawl. Later, when the visit is recorded, it only warns.
        """
        if self.is_recorded:
            warnings.warn(
                "the visit is recorded: reject the answer in its callback or before", stacklevel=2
            )
        self.rejected = reason or "rejected"


@dataclass
class NotObserved(_Told):
    """The value of `response.meta["hacs"]` if the response is not a visit of its page.

    `reason` is that of the stat `hacs/not_observed/<reason>`, or "gone". Asked for news, it answers as
    the `Outcome` of a visit without any, so that spiders need not distinguish the two.
    """

    requested_url: str
    reason: str
    is_known = is_first = is_update = False
    gained = lost = 0
    new_marks = new_to_site = frozenset[int]()

    def is_new(self, thing: Any) -> bool:
        """Return False."""
        return False

    is_new_to_site = is_new

    def status(self, thing: Any) -> Literal["same"]:
        """Return "same"."""
        return "same"

    def before(self, item: Any) -> None:
        """Return None."""


class Expected(_Told, dict[str, Any]):
    """The prediction for a page, before its `Outcome` is known.

    Ranked seeds have `p`, `rate_per_day`, `days_since_visit` and `churn`. If items are watched,
    callbacks get these for any page, with the `is_known`, `is_first` and `last_update` that the
    `Outcome` would have without this visit.
    """

    def __getattr__(self, name: str) -> NoReturn:
        """Raise AttributeError, which says when there will be an `Outcome`."""
        raise AttributeError(
            f"a prediction has no attribute {name!r}; if items are watched, the Outcome exists only "
            "after the callback: the signal page_visited has it"
        )


@dataclass
class Outcome(_Told):
    """A visit's outcome. Rates are per day, times in UTC.

    `new_marks` are the marks that are new by HACS_UPDATES; `is_update` says whether there was an
    update by HACS_UPDATES. Nothing is new on a first visit, which is the baseline. If HACS_UPDATES is
    "site", `new_to_site` are the new marks that no other page of the site had shown when the page was
    read, and without any there was no update; else it is None. `p` is the probability of an update
    when the request was ranked (else when the response came), `churn` the chance that a request shows
    new links by itself, so new links were expected with probability 1 - (1 - churn)(1 - p).
    `is_known` is False if the state could not be reached: then the outcome considers only this visit.

    It is a dataclass item with fields that Scrapy's JSON encoder supports, so that feeds of
    `response.meta` work; `after` is not a field.
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
        """The number of new marks."""
        return len(self.new_marks)

    @property
    def lost(self) -> int:
        """The number of marks of the last visit that were gone."""
        return self._lost

    @property
    def after(self) -> Page:
        """The page's record with this visit; do not change it."""
        return self._after

    @property
    def rate_after_per_day(self) -> float:
        """The rate after this visit; estimated on access."""
        return self._estimate(self._after)

    @property
    def last_update(self) -> datetime | None:
        """τ: when the last update was found, including this visit."""
        second = self._after.sound.last_update
        return None if second is None else datetime.fromtimestamp(second, UTC)

    def is_new(self, thing: Any) -> bool:
        """Whether an absolute link, or another watched thing, is new on the page.

        A link is new if no earlier visit had shown it.
        """
        return self._is_among(thing, self.new_marks)

    def status(self, thing: Any) -> Literal["new", "changed", "same"]:
        """Return whether a watched thing is new on the page, in a word.

        "changed" is a new item with the HACS_WATCH_KEY of an item of the last visit.
        """
        if not self.is_new(thing):
            return "same"
        key = self._key_of(thing)
        is_known = key is not None and any(mark >> 32 == key for mark in self._shown_before)
        return "changed" if is_known else "new"

    def before(self, item: Any) -> Mapping[str, Any] | None:
        """Return the fields of an item at the last visit, None if it is new.

        Items are matched by HACS_WATCH_KEY; without this field, only the page's only such item is. Long
        fields are cut off. Numbers have the types of the item's numbers, other values those of JSON.
        """
        kept = self._items_before.get(self._key_of(item) or 0)
        return None if kept is None else fields_like(item, kept)

    def _key_of(self, item: Any) -> int | None:
        key_of = self._rules.key_of if isinstance(self._rules, MarkRules) else None
        return None if key_of is None else key_of(item)

    @cached_property
    def _shown_before(self) -> frozenset[int]:
        at = int(self.visited_at.timestamp())
        shown, _ = self._after.sound.by_visit()
        return next((shown[before] for before in reversed(shown) if before < at), frozenset())

    def is_new_to_site(self, thing: Any) -> bool:
        """Whether a thing is new on the page, and no other page of the site is known to show it.

        Raises ValueError unless HACS_UPDATES is "site".
        """
        if self.new_to_site is None:
            raise ValueError('is_new_to_site needs HACS_UPDATES = "site"')
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

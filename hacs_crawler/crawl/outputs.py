"""Outputs of callbacks: requests inherit marks, and watched items are the marks of their page."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from msgspec.structs import replace
from scrapy import Request
from scrapy.http import Response

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.meta import KEY, tag_of, take_over
from hacs_crawler.crawl.observation import Observation
from hacs_crawler.crawl.page_filter import names_pages
from hacs_crawler.crawl.part import Part
from hacs_crawler.outcome import Expected, NotObserved, Outcome
from hacs_crawler.state import Recorded
from hacs_crawler.utils.text import safe_logger
from hacs_crawler.watch import MarkRules, Rules, UnreadableMarksError

logger = safe_logger(__name__)


@dataclass(slots=True, eq=False)
class AwaitedVisit:
    """A visit that is recorded when its callback is over.

    `told` is the value in the response's meta until then, `recorded` the outcome if nothing else of the
    page is recorded before. If `takes_items`, the marks are still missing: `see` calls `shown` with each
    item and whether it is news, as `are_news` says of its marks.
    """

    request: Request
    response: Response
    url: str
    rules: Rules
    observation: Observation
    recorded: Recorded | None = None
    told: Outcome | Expected | NotObserved | None = None
    takes_items: bool = False
    are_news: Callable[[frozenset[int]], bool] = lambda _: True
    shown: Callable[[Response, Any, bool], None] = lambda *_: None
    is_asked_again: bool = False
    only_leads_on: bool = False
    """Whether the callback yielded requests, and nothing else."""
    _marks: set[int] = field(default_factory=set)
    _problem: str = ""

    def see(self, item: Any) -> None:
        """Take an item that the callback yields as a mark of the page."""
        assert isinstance(self.rules, MarkRules)  # noqa: S101 - else items are not watched
        try:
            marks = self.rules.marks_of(item)
            self._marks |= marks
            self.shown(self.response, item, self.are_news(marks))
        except UnreadableMarksError as error:
            if not self._problem:
                logger.error("%s is not observed: %s", self.response.url, error)
            self._problem = str(error)

    def end(self, *, is_whole: bool) -> Observation:
        """Return the page's observation; a callback that was cut short may have missed items."""
        if self.told is not None and self.told.rejected:
            return Observation(None, "rejected")
        if not self.takes_items or self.observation.visit is None:
            return self.observation
        if not is_whole:
            return Observation(None, "callback_failed")
        if self._problem:
            return Observation(None, "unreadable")
        if self.is_asked_again and not self._marks:  # the spider takes this answer for a wrong one
            return Observation(None, "asked_again")
        return Observation(replace(self.observation.visit, marks=frozenset(self._marks)))


class Output:
    """The output of one callback for one response, whose visit may be waiting for the items."""

    def __init__(
        self,
        response: Response,
        crawl: Crawl,
        awaited: AwaitedVisit | None = None,
        told_items: Callable[[Any, bool], None] | None = None,
    ) -> None:
        self._crawl = crawl
        self._told_items = told_items
        self._awaited = awaited
        self._response = response
        self._items = self._requests = 0

    def take(self, entry: Any) -> Any:
        """Count an entry of the output, and return it with the marks that it inherits."""
        if not isinstance(entry, Request):
            self._items += entry is not None
            if entry is None:
                return entry
            if self._awaited is not None and self._awaited.takes_items:
                self._awaited.see(entry)
            elif self._told_items is not None:  # outside pages every item is news
                self._told_items(entry, True)
            return entry
        self._requests += 1
        meta = entry.meta
        for key, value in self._inherited.items():
            meta.setdefault(key, value)
        if self._names_pages or KEY in meta:
            take_over(entry, listed=self._names_pages)
            if self._awaited is not None and tag_of(entry).stage == "again":
                self._awaited.is_asked_again = True
        return entry

    @cached_property
    def _inherited(self) -> dict[str, Any]:
        meta = {} if self._response.request is None else self._response.request.meta
        return {key: meta[key] for key in self._crawl.parts.inherited if key in meta}

    @cached_property
    def _names_pages(self) -> bool:
        return self._crawl.config.pages == "start" and names_pages(self._response)

    def end(self) -> None:
        """Tell parts how much the callback yielded, once nothing else comes."""
        crawl = self._crawl
        if self._awaited is not None:
            self._awaited.only_leads_on = self._requests > 0 and not self._items
        if (
            crawl.parts.override("finished")
            and self._response.request is not None
            and crawl.is_open
        ):
            crawl.parts.tell(Part.finished, self._response, self._items, self._requests)

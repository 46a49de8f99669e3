"""Visits that wait for their callback: where items are watched, its items are what the page shows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace
from scrapy import Request
from scrapy.http import Response

from hacs_crawler.crawl.observation import Observation
from hacs_crawler.crawl.part import Part
from hacs_crawler.crawl.parts import Parts
from hacs_crawler.state import Visit
from hacs_crawler.utils.text import safe_logger
from hacs_crawler.watch import MarkRules, UnreadableMarksError

logger = safe_logger(__name__)


@dataclass(slots=True, eq=False)
class AwaitedVisit:
    """A visit whose marks are still to come.

    Whether an item is news, and none of those `known`, is written into `are_news` by the item's `id`,
    with the item itself, so that no other one gets that.
    """

    request: Request
    response: Response
    visit: Visit
    rules: MarkRules
    parts: Parts
    known: Collection[int] = ()
    are_news: dict[int, tuple[Any, bool]] | None = None
    is_asked_again: bool = False
    _marks: set[int] = field(default_factory=set)
    _problem: str = ""

    def see(self, item: Any) -> None:
        """Take an item that the callback yields for one that the page shows."""
        try:
            marks = self.rules.marks_of(item)
            self._marks |= marks
            is_news = marks.isdisjoint(self.known)
            if self.are_news is not None:
                self.are_news[id(item)] = item, is_news
            self.parts.tell(Part.shown, self.response, item, is_news=is_news)
        except UnreadableMarksError as error:
            if not self._problem:
                logger.error("%s is not observed: %s", self.response.url, error)
            self._problem = str(error)

    def observation(self) -> Observation:
        """Return what the page showed: nothing else comes."""
        if self._problem:
            return Observation(None, "unreadable")
        if self.is_asked_again and not self._marks:  # to the spider this is not what the page shows
            return Observation(None, "asked_again")
        return Observation(replace(self.visit, marks=frozenset(self._marks)))

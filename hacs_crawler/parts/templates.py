"""One block that is new on most pages of a site at once is its template's: no page has news by that."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.part import Part
from hacs_crawler.links import menu_id, site_of
from hacs_crawler.state import Page, Recorded, State
from hacs_crawler.utils.text import counted, safe_logger

logger = safe_logger(__name__)

FEWEST_PAGES: Final = 20
"""Where fewer pages of a site were visited, whatever they share is their news."""
MOST_SHARE: Final = 0.5
"""On more of them than this share a mark is the template's."""
MOST_MARKS: Final = 1_000_000
"""New marks that are kept of a run, about 100 MB; what comes later is the pages' own."""


@dataclass(slots=True)
class _Site:
    """What visits of a site's known pages brought: how many they were, and the new marks of some."""

    visits: int = 0
    gained: list[tuple[str, int, frozenset[int]]] = field(default_factory=list)

    def of_template(self) -> list[tuple[str, int]]:
        """Return the visits that brought nothing but what most pages got."""
        if self.visits < FEWEST_PAGES:
            return []
        pages = Counter(mark for _, _, marks in self.gained for mark in marks)
        shared = {mark for mark, number in pages.items() if number > MOST_SHARE * self.visits}
        return [(url, at) for url, at, marks in self.gained if marks and marks <= shared]


class Templates(Part):
    """Takes updates back that a template brought, once the run is over: `echoes` of their pages."""

    def __init__(self, crawl: Crawl) -> None:
        self._crawl = crawl
        self._sites: dict[int, _Site] = {}
        self._marks = 0

    @classmethod
    def from_crawl(cls, crawl: Crawl) -> Templates:
        """Return the part of a crawl."""
        return cls(crawl)

    def recorded(self, batch: Sequence[Recorded]) -> None:
        """Count which new marks the pages of a site have in common."""
        for visited in batch:
            visit = visited.visit
            if visit.marks is None or not visited.before.visits:
                continue
            site = self._sites.setdefault(menu_id(visit.url), _Site())
            site.visits += 1
            if visited.updated and self._marks < MOST_MARKS:
                self._marks += len(visited.new_marks)
                site.gained.append((visit.url, visit.at, visited.new_marks))

    async def round_ended(self, is_asked_to_end: Callable[[], bool]) -> None:
        """Take back what a template brought."""
        del is_asked_to_end
        sites, self._sites, self._marks = self._sites, {}, 0
        for site in sites.values():
            visits = site.of_template()
            if visits:
                await self._crawl.state.once(_take_back, visits)
                self._crawl.stats.count("template_updates", len(visits))
                logger.info(
                    "The same is new on most of the %s of %s that were visited, as after a change of "
                    "its template: %s taken back",
                    counted(site.visits, "page"),
                    site_of(visits[0][0]),
                    counted(len(visits), "update"),
                )


def _take_back(state: State, visits: Sequence[tuple[str, int]]) -> None:
    state.restore(Page(url, echoes=array("I", [at])) for url, at in visits)

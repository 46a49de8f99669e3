"""Marks that pages of a site share are not their own: new blocks of a template, and block pages.

A block that is new on most pages of a site at once is its template's, and no page's update. Pages that
show the very same marks in one run, having shown others before, were not read: a block page, a login.
Nor are marks that several pages show at their first visit a baseline for later visits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.for_parts import CrawlPart
from hacs_crawler.links import menu_id, site_of
from hacs_crawler.state import FEWEST_LINKS, FEWEST_MARKS, Page, Recorded, State
from hacs_crawler.utils.text import counted, safe_logger
from hacs_crawler.watch import content_of

logger = safe_logger(__name__)

# Where fewer pages of a site were visited, whatever they share is their news.
FEWEST_PAGES: Final = 20
# If this many pages show the same marks at their first visits, or the same item as their only one, these
# are not the pages' own.
FEWEST_ALIKE: Final = 3
# On more of them than this share a mark is the template's, or an item an error's.
MOST_SHARE: Final = 0.5
# New marks that are kept of a run, about 100 MB; later marks count as the pages' own.
MOST_MARKS: Final = 1_000_000
# A visit that may have shown other pages' marks takes as much memory as this many marks.
_MARKS_OF_VISIT: Final = 5


@dataclass(slots=True)
class _Site:
    """What visits of a site's known pages brought: how many they were, and the new marks of some."""

    visits: int = 0
    gained: list[tuple[str, int, frozenset[int]]] = field(default_factory=list)
    # Visits that showed other marks than the visit before, or the first ones, by a hash of these;
    # and the hash of those before, 0 for none.
    alike: dict[int, list[tuple[str, int, int]]] = field(default_factory=dict)
    # Items of known pages that had one: how many there are, how many of them were doubted at once, and
    # what the pages showed before, by what they show now.
    items: int = 0
    doubted: int = 0
    had: dict[int, set[int]] = field(default_factory=dict)

    def is_of_error(self, item: int) -> bool:
        """Whether most pages show this item in place of their own ones."""
        pages = len(self.had.get(item, ()))
        return pages >= FEWEST_ALIKE and pages > MOST_SHARE * self.items

    def unread(self) -> list[tuple[str, int]]:
        """Return the visits at which different pages showed the very same."""
        urls_and_times = []
        for content, visits in self.alike.items():
            shown_before = {before for _, _, before in visits} - {0}
            firsts = {url for url, _, before in visits if not before}
            are_alike = len(shown_before) > 1 or len(firsts) >= FEWEST_ALIKE
            if self.is_of_error(content) if content in self.had else are_alike:
                urls_and_times += [(url, at) for url, at, _ in visits]
        return urls_and_times

    def of_template(self) -> list[tuple[str, int]]:
        """Return the visits that brought nothing but what most pages got."""
        if self.visits < FEWEST_PAGES:
            return []
        pages = Counter(mark for _, _, marks in self.gained for mark in marks)
        shared = {mark for mark, number in pages.items() if number > MOST_SHARE * self.visits}
        return [(url, at) for url, at, marks in self.gained if marks and marks <= shared]


class Templates(CrawlPart):
    """Takes updates back that a template brought, once the run is over: `echoes` of their pages."""

    def __init__(self, crawl: Crawl) -> None:
        super().__init__(crawl)
        self._sites: dict[int, _Site] = {}
        self._marks = 0

    def doubts(self, page: Page, marks: frozenset[int]) -> bool:
        """Whether the only item of a page is one that most of its site's pages show in this run."""
        before = page.sound.spells.shown_last()
        if len(before) != 1:
            return False
        site = self._sites.setdefault(menu_id(page.url), _Site())
        site.items += 1
        item, had = content_of(marks), content_of(before)
        if item != had and self._marks < MOST_MARKS:
            self._marks += _MARKS_OF_VISIT
            site.had.setdefault(item, set()).add(had)
        is_doubted = site.is_of_error(item)
        site.doubted += is_doubted
        return is_doubted

    def recorded(self, batch: Sequence[Recorded]) -> None:
        """Count which new marks the pages of a site have in common."""
        for visited in batch:
            visit, before = visited.visit, visited.before
            # captures are of different times
            if visit.marks is None or visit.harvest is not None:
                continue
            is_compared = before.visits and visited.after.is_chosen
            is_suspect = _may_be_unread(visited) and self._marks < MOST_MARKS
            if not (is_compared or is_suspect):  # like most visits
                continue
            site = self._sites.setdefault(menu_id(visit.url), _Site())
            is_item = len(visit.marks) == 1 and content_of(visit.marks) in site.had
            if is_suspect or (is_item and self._marks < MOST_MARKS):
                shown_before = before.sound.spells.shown_last()
                self._marks += _MARKS_OF_VISIT
                entry = (visit.url, visit.at, content_of(shown_before) if shown_before else 0)
                site.alike.setdefault(content_of(visit.marks), []).append(entry)
            if not is_compared:
                continue
            site.visits += 1
            if visited.updated and self._marks < MOST_MARKS:
                self._marks += len(visited.new_marks)
                site.gained.append((visit.url, visit.at, visited.new_marks))

    async def round_ended(self, is_asked_to_end: Callable[[], bool]) -> None:
        """Take back the updates that a template brought."""
        del is_asked_to_end
        sites, self._sites, self._marks = self._sites, {}, 0
        for site in sites.values():
            if unread := site.unread():
                pages = [Page(url, unread=[at]) for url, at in unread]
                await self._crawl.state.once(State.restore, pages)
                self._crawl.stats.count("unread_visits", len(unread))
                passed = len(unread) - site.doubted if self._crawl.stats.get("unread_items") else 0
                logger.info(
                    "%s of one site showed the very same, as a block page or a login: what they showed "
                    "does not count; one is %s%s",
                    counted(len(unread), "page"),
                    unread[0][0],
                    f" ({counted(passed, 'item')} had passed OnlyChanges before)" if passed else "",
                )
            visits = site.of_template()
            if visits:
                pages = [Page(url, echoes=[at]) for url, at in visits]
                await self._crawl.state.once(State.restore, pages)
                self._crawl.stats.count("template_updates", len(visits))
                logger.info(
                    "The same is new on most of the %s of %s that were visited, as after a change of "
                    "its template: %s taken back",
                    counted(site.visits, "page"),
                    site_of(visits[0][0]),
                    counted(len(visits), "update"),
                )


def _may_be_unread(visited: Recorded) -> bool:
    """Whether a visit showed other marks than the page did before, or the first ones, and several.

    Marks that the visit before showed, too, count only if that visit was left out. The only links of a
    page may be its site's, so first visits of links prove nothing.
    """
    before, after, marks = visited.before, visited.after, visited.visit.marks or frozenset()
    if not before.spells.marks:
        return after.is_chosen and len(marks) >= FEWEST_MARKS
    if not before.unread and after.spells == before.spells:
        return False
    shown_before = before.sound.spells.shown_last()
    fewest = FEWEST_MARKS if after.is_chosen else FEWEST_LINKS
    return len(shown_before) >= fewest and marks != shown_before

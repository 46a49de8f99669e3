"""Detects marks that pages share: new blocks of a site's template, block pages and logins.

Marks that are new on most pages of a site in one run belong to the template, and are not updates.
If pages show identical marks in one run, but showed others before, the visits did not show the pages: it
was a block page or a login, unless they stay so for several runs. The same holds for the first visits of
pages that all showed identical marks, once most of these pages show others, and for a page's first visit
that hardly showed other links than most pages.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Final, NamedTuple, Self

import numpy as np

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.for_parts import CrawlPart
from hacs_crawler.links import menu_id, site_of
from hacs_crawler.ranking.calibration import Group, predicted
from hacs_crawler.state import (
    FEWEST_GONE,
    FEWEST_LINKS,
    FEWEST_MARKS,
    MOST_AWAY,
    OUTCOME,
    SEEN,
    UPDATED,
    Counted,
    Page,
    Recorded,
    State,
    is_of_items,
    noun_of,
    outcome_record,
    withdrawn,
)
from hacs_crawler.utils.text import counted, safe_logger
from hacs_crawler.watch import content_of

logger = safe_logger(__name__)

# With fewer visited pages of a site, shared marks are updates.
FEWEST_PAGES: Final = 20
# How many pages with identical marks, in place of other marks, are evidence of a block page.
FEWEST_ALIKE: Final = 3
# After more visits with identical marks, these are the page's own.
MOST_FIRST_VISITS: Final = 5
# A mark on more than this share of the pages belongs to the template, or an item to an error page.
MOST_SHARE: Final = 0.5
# If more than this share of the pages had marks of their own, a few that lost them are evidence.
OWN_SHARE: Final = 0.9
# So many pages of a host are enough to know the links of its frame.
FRAME_PAGES: Final = 20
# How many new marks of a run are kept, about 100 MB; later marks count as the pages' own.
MOST_MARKS: Final = 1_000_000
# The stats of an update that is taken back; the last counts ranked pages.
TAKEN_BACK: Final = "updates", "losses", "new_links", "links_new_to_site", "found_updates"
# The memory for a visit that is kept for comparison, in marks.
_MARKS_OF_VISIT: Final = 5


class _Changed(NamedTuple):
    """A visit that showed other marks than the visit before, and what was counted for it.

    `numbers` are those of the stats `TAKEN_BACK`, `outcome` is the visit's outcome record.
    """

    url: str
    at: int
    is_first: bool
    numbers: tuple[int, ...]
    outcome: bytes

    @classmethod
    def of(cls, visited: Recorded, updates: Counted) -> Self:
        visit, prediction = visited.visit, visited.visit.prediction
        is_ranked = prediction is not None and math.isfinite(prediction.days_since_visit)
        is_update = visited.is_update(updates)
        numbers = (
            is_update,
            visited.is_loss,
            len(visited.new_marks),
            len(visited.new_to_site or ()),
            is_ranked and is_update,
        )
        is_first = not visited.before.visits
        return cls(visit.url, visit.at, is_first, numbers, outcome_record(visited, updates))


@dataclass(slots=True)
class _Frame:
    """The links of a host's first pages: the number of pages, and how many of them showed a link."""

    pages: int = 0
    links: Counter[int] = field(default_factory=Counter)

    def own(self, links: frozenset[int]) -> set[int]:
        """Return the links that are not shown by most pages."""
        most = max(MOST_SHARE * self.pages, FEWEST_ALIKE)
        return {link for link in links if self.links[link] <= most}


@dataclass(slots=True)
class _Site:
    """The visits of a site's known pages in this run."""

    visits: int = 0
    gained: list[tuple[_Changed, frozenset[int]]] = field(default_factory=list)
    # Visits with other marks than the visit before, by a hash of the new marks; with the hash of the
    # earlier marks, 0 if these were few, and what is missing of these, None if that is much.
    alike: dict[int, list[tuple[_Changed, int, frozenset[int] | None]]] = field(
        default_factory=dict
    )
    # Pages whose earlier visits showed identical marks, by a hash of these and whether they are few
    # texts: how many showed them again, and of the others the latest visit, seconds of the earlier
    # ones, and a hash of the marks now.
    stayed: Counter[tuple[int, bool]] = field(default_factory=Counter)
    begun: dict[tuple[int, bool], list[tuple[_Changed, Sequence[int], int]]] = field(
        default_factory=dict
    )
    # Pages with one earlier visit, which showed other links: its second, and the links then and now.
    after_first: list[tuple[_Changed, int, frozenset[int], frozenset[int]]] = field(
        default_factory=list
    )
    # Known pages with few marks: their number, those that `doubts` rejected, the hashes of their earlier
    # marks, these by the hash of the marks now, and the hashes of marks that should name a page.
    few: int = 0
    doubted: set[str] = field(default_factory=set)
    earlier: set[int] = field(default_factory=set)
    had: dict[int, set[int]] = field(default_factory=dict)
    naming: set[int] = field(default_factory=set)

    def add_page_of_few(self, content: int, had: int, *, is_naming: bool) -> None:
        """Count a page with few marks, given the hashes of its marks now and before."""
        self.few += 1
        if self.few <= MOST_MARKS:
            self.earlier.add(had)
        if content != had:
            self.had.setdefault(content, set()).add(had)
            if is_naming:
                self.naming.add(content)

    def is_error_content(self, content: int) -> bool:
        """Whether several pages with few marks show these in place of their own.

        They have to be most of the pages, unless nearly all pages had other marks than the others.
        """
        pages = len(self.had.get(content, ()))
        is_named = content in self.naming and content not in self.earlier
        is_clear = is_named and len(self.earlier) > OWN_SHARE * self.few
        return pages >= FEWEST_ALIKE and (is_clear or pages > MOST_SHARE * self.few)

    def unread(self, frames: Mapping[str, _Frame]) -> tuple[list[tuple[str, int]], list[_Changed]]:
        """Return the visits at which different pages showed identical marks, and false updates."""
        urls_and_times, false = list[tuple[str, int]](), list[_Changed]()
        for content, visits in self.alike.items():
            if self.is_error_content(content) or len({had for _, had, _ in visits} - {0}) > 1:
                # in the frame of its site, a page may have just a link or two of its own
                gone = {lost for *_, lost in visits if lost}
                is_own = len(frozenset[int]().union(*gone)) == sum(map(len, gone))
                own = gone if is_own and len(gone) >= FEWEST_ALIKE else set()
                replaced = [changed for changed, _, lost in visits if lost is None or lost in own]
                urls_and_times += [(changed.url, changed.at) for changed in replaced]
                false += replaced
        begun = sum(map(len, self.begun.values())) + self.stayed.total()
        for key, pages in self.begun.items():
            others = {now for _, _, now in pages}
            # many pages may start with the same short text, such as a price
            among = begun if key[1] else len(pages) + self.stayed[key]
            if len(others) >= FEWEST_ALIKE and len(others) > MOST_SHARE * among:
                urls_and_times += [(changed.url, at) for changed, times, _ in pages for at in times]
                false += [changed for changed, _, _ in pages]
        for changed, at, links, now in self.after_first:
            # a page may begin with the site's frame alone, but hardly gains many links at once
            frame = frames[_host_of(changed.url)]
            mine, gained = frame.own(links), frame.own(now - links)
            is_frame = (
                len(mine) < FEWEST_GONE and 2 * len(mine) < len(links) and mine.isdisjoint(now)
            )
            if is_frame and len(gained) >= FEWEST_GONE:
                urls_and_times.append((changed.url, at))
                false.append(changed)
        return urls_and_times, false

    def template_visits(self) -> list[_Changed]:
        """Return the visits whose new marks are all shared by most pages."""
        if self.visits < FEWEST_PAGES:
            return []
        pages = Counter(mark for _, marks in self.gained for mark in marks)
        shared = {mark for mark, number in pages.items() if number > MOST_SHARE * self.visits}
        return [changed for changed, marks in self.gained if marks and marks <= shared]


def _host_of(url: str) -> str:
    return url.split("/", 3)[2]


def _is_settled(page: Page, marks: frozenset[int]) -> bool:
    """Whether a page has shown these marks for so many visits that no block page would last as long.

    Attempts at an item that `Templates.doubts` rejected are known by their number only.
    """
    if not page.unread:  # like nearly all pages
        return page.failures >= MOST_AWAY
    shown = page.by_visit()[0]
    alike = takewhile(lambda at: shown.get(at, marks) == marks, reversed(page.visits))
    return page.failures + sum(at in page.unread for at in alike) >= MOST_AWAY


class Templates(CrawlPart):
    """At the end of a run, discards updates by templates, as echoes, and visits of block pages."""

    def __init__(self, crawl: Crawl) -> None:
        super().__init__(crawl)
        self._sites = defaultdict[int, _Site](_Site)
        self._frames = defaultdict[str, _Frame](_Frame)
        # Of pages whose visits all showed identical links: the URL and a hash of the links.
        self._stayed: list[tuple[str, int]] = []
        # Pages that `doubts` has counted, until their visits are recorded.
        self._asked_of: set[str] = set()
        self._marks = 0
        # chosen fields may be just a price
        self._has_names = not crawl.config.watch_fields

    def doubts(self, page: Page, item: Any, marks: frozenset[int]) -> bool:
        """Whether a page's only item is shown by most of its site's pages in this run."""
        site, content = self._sites[menu_id(page.url)], content_of(marks)
        self._asked_of.add(page.url)
        had = content_of(page.sound.spells.shown_last())
        site.add_page_of_few(content, had, is_naming=self._has_names)
        is_error = self._has_names and site.is_error_content(content)
        if is_doubted := is_error and not _is_settled(page, marks):
            site.doubted.add(page.url)
        return is_doubted

    def recorded(self, batch: Sequence[Recorded]) -> None:
        """Collect the visits for comparison at the end of the run."""
        for visited in batch:
            visit, before, after = visited.visit, visited.before, visited.after
            is_asked_of = before.url in self._asked_of
            self._asked_of.discard(before.url)
            # harvested captures are from different times
            if visit.marks is None or visit.harvest is not None or visited.has_other_rules:
                continue
            is_same = after.spells == before.spells and not before.unread
            is_chosen = noun_of(visit.rules) != "link"
            has_begun = (  # all visits of the page showed identical marks; if links, at least two
                len(before.spells.periods) == 3
                and len(before.visits) <= MOST_FIRST_VISITS
                and (is_chosen or len(before.spells.marks) >= FEWEST_LINKS)
            )
            # the host is found faster than the site
            if not is_chosen and (frame := self._frames[_host_of(visit.url)]).pages < FRAME_PAGES:
                frame.pages += 1
                frame.links.update(visit.marks)
            if is_same and not is_chosen:  # like most visits
                if has_begun and self._marks < MOST_MARKS:
                    self._marks += _MARKS_OF_VISIT
                    self._stayed.append((visit.url, hash(visit.marks)))
                continue
            self._compare(
                visited, visit.marks, is_same=is_same, has_begun=has_begun, is_asked_of=is_asked_of
            )

    def _compare(
        self,
        visited: Recorded,
        marks: frozenset[int],
        *,
        is_same: bool,
        has_begun: bool,
        is_asked_of: bool,
    ) -> None:
        """Add a visit, which showed these marks, to those of its site.

        `is_same`: the visit before showed them, too; `has_begun`: all earlier visits showed
        identical marks; `is_asked_of`: `doubts` has counted the page.
        """
        visit, before = visited.visit, visited.before
        site, is_chosen = self._sites[menu_id(visit.url)], noun_of(visit.rules) != "link"
        is_compared = bool(before.visits) and is_chosen
        site.visits += is_compared
        if is_same and not has_begun and len(marks) >= FEWEST_MARKS:
            return
        hashed: Callable[[frozenset[int]], int] = content_of if is_chosen else hash
        content, has_room = hashed(marks), self._marks < MOST_MARKS
        shown_before = marks if is_same else before.sound.spells.shown_last()
        had = content if is_same else hashed(shown_before)
        number = len(shown_before)
        is_enough = number >= (FEWEST_MARKS if is_chosen else FEWEST_LINKS)
        # a price may become "sold out" on several pages; several texts hardly become the same
        is_several = number + len(marks) > 3
        is_naming = self._has_names if is_of_items(visit.rules) else is_several
        if is_chosen and not is_enough and number and not is_asked_of:
            site.add_page_of_few(content, had, is_naming=is_naming)
        key = had, not (is_enough or is_naming)
        if has_begun and has_room:
            self._marks += _MARKS_OF_VISIT
            site.stayed[key] += content == had
        # a first visit proves nothing: all of a page's links may belong to its site
        if is_same or not (before.visits or site.visits) or _is_settled(before, marks):
            return
        changed = _Changed.of(visited, self._crawl.config.estimation.updates)
        if has_begun and has_room and content != had:
            site.begun.setdefault(key, []).append((changed, before.shown_at, content))
            if len(before.visits) == 1 and not is_chosen:
                site.after_first.append((changed, before.visits[0], shown_before, marks))
        if content != had and has_room and (shown_before or site.visits):
            self._marks += _MARKS_OF_VISIT
            lost = shown_before - marks
            few_lost = lost if is_enough and len(lost) < min(FEWEST_GONE, number) else None
            site.alike.setdefault(content, []).append((changed, had * is_enough, few_lost))
        if is_compared and visited.updated and self._marks < MOST_MARKS:
            self._marks += len(visited.new_marks)
            site.gained.append((changed, visited.new_marks))

    async def round_ended(self, is_asked_to_end: Callable[[], bool]) -> None:
        """Discard updates by templates and visits of block pages."""
        sites, self._sites, self._marks = self._sites, defaultdict(_Site), 0
        stayed, self._stayed = self._stayed, []
        frames, self._frames = self._frames, defaultdict(_Frame)
        self._asked_of.clear()
        if any(site.begun for site in sites.values()):
            for url, content in stayed:
                sites[menu_id(url)].stayed[content, False] += 1
        for site in sites.values():
            unread, false = site.unread(frames)
            visits, already, stats = set(unread), dict.fromkeys(false), self._crawl.stats
            if unread:
                pages = [Page(url, unread=[at]) for url, at in unread]
                await self._take_back(pages, false, SEEN | UPDATED)
                for url, at, is_first, *_ in already:
                    if (url, at) in visits and url not in stats.doubtful:
                        # it was counted when it was recorded
                        stats.count("visits", -1)
                        stats.count_not_observed("nothing_shown", url)
                        if is_first:
                            stats.count("first_visits", -1)
                for url, _ in unread:
                    stats.doubtful.pop(url, None)
                # what `doubts` rejected was not recorded
                stats.count("unread_visits", len(unread) + len(site.doubted))
                passed = len(unread) * bool(stats.get("unread_items"))
                logger.warning(
                    "%s of one site showed the very same, as a block page or a login: what they showed "
                    "does not count; one is %s%s",
                    counted(len(site.doubted.union(url for url, _ in unread)), "page"),
                    unread[0][0],
                    f" ({counted(passed, 'such item is', 'such items are')} in the feed already)"
                    * bool(passed),
                )
            read = [changed for changed in site.template_visits() if changed not in already]
            if read:
                pages = [Page(changed.url, echoes=[changed.at]) for changed in read]
                await self._take_back(pages, read, UPDATED)
                stats.count("template_updates", len(read))
                logger.info(
                    "Most of the %s visited on %s got the same new content, as after a change of the "
                    "template: %s taken back",
                    counted(site.visits, "page"),
                    site_of(read[0].url),
                    counted(len(read), "update"),
                )

    async def _take_back(
        self, pages: Sequence[Page], false: Sequence[_Changed], flags: int
    ) -> None:
        """Merge corrections into pages, and clear flags and numbers of the false updates' outcomes."""
        if not false:  # only earlier visits were wrong
            await self._crawl.state.once(State.restore, pages)
            return
        outcomes = np.frombuffer(b"".join([changed.outcome for changed in false]), OUTCOME)

        def write(state: State) -> None:
            state.restore(pages)
            state.store.add_outcomes(withdrawn(outcomes, flags))

        await self._crawl.state.once(write)
        stats, numbers = self._crawl.stats, np.array([changed.numbers for changed in false])
        for name, number in zip(TAKEN_BACK, numbers.sum(axis=0).tolist(), strict=True):
            stats.count(name, -number)
        stats.taken_back += int(numbers[:, -1].sum())
        if flags & SEEN:
            expected = float(Group("", "", predicted(outcomes)).p.sum())
            stats.expected_of_unseen += expected
            stats.count("expected_updates", -expected)

"""One page: what is known of it, and the visits that told it.

Whether a visit found an update is derived: some link was first seen after the visit before it. So is
whether an update was confirmed: one of its links was seen again. A visit whose links were taken by
other rules than those of the visit before it is a baseline, as the first one is: it found neither an
update nor a quiet page (`state.rule_changes`). How a visit changes a page is `state.merging`'s.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from copy import copy
from enum import Enum
from typing import TYPE_CHECKING, Literal, NamedTuple

from msgspec import Struct, field
from msgspec.structs import force_setattr

from hacs_crawler.links import kept_url
from hacs_crawler.state import digests, rule_changes
from hacs_crawler.state.outcome_log import Prediction
from hacs_crawler.state.spells import Spells

if TYPE_CHECKING:
    Numbers = array[int]
else:
    Numbers = array  # signatures are looked at, and Python 3.11 cannot look at `array[int]`
_NO_TIMES: Numbers = array("I")
"""What is shared by all pages that have none, and never changed."""
Updates = Literal["page", "site", "novel", "any-change"]
"""What counts as an update: links that are new to the page ("page"), or to its site, too.

Of other marks "page" means those that the visit before did not show, "novel" and "site" those that no
visit before did, and with "any-change" it counts, too, that marks of the visit before are gone.
"""


class News(Enum):
    """What a request for a page told about it."""

    SEEN = "seen"
    """The page answered: 2xx with its links, or 304."""
    GONE = "gone"
    """404 or 410."""
    FAILED = "failed"
    """No observation: an error, a timeout, a refusal."""
    REPEATED = "repeated"
    """An archive was answered as once before, by the page or with an error: its digest tells which."""


class Harvest(Struct, frozen=True):
    """Up to which capture an archive's captures of a page are recorded.

    `source` is a 32-bit number of the archive and of how it is read, `until` the second of the latest
    capture dealt with, `digest` the signed 64-bit fingerprint of its content's digest, 0 if unknown.
    """

    source: int
    until: int
    digest: int = 0


class Visit(Struct, frozen=True):
    """One request for a page, live or archived, and what it told.

    `url` is stored as its `kept_url`. `at` is in whole seconds since 1970 UTC. `marks` are the
    fingerprints of what is watched, as of the page's links, or None where the visit did not show it
    (304, an archive's revisit record). `digest` is the `digest_number` of the content, 0 where it is not
    known; `repeats` says that an archive found the same content as before. `rules` is the fingerprint of
    the rules by which marks were taken, 0 where it is not known; a visit without marks has those of the
    visit with the same content, where the archive says which. `harvest` is set where the visit came from
    an archive that is to be asked for later captures only, `prediction` where its seed was ranked.
    `bytes` is the size of the answer's body. `hrefs` is a number of the source that links were taken
    from, of the body in its upper half and of what they follow from in its lower one, 0 where it is not
    known. `keeps_spells` says that the marks are no links, so that the page keeps all their `spells`
    (see `state.spells`).
    """

    url: str
    at: int
    news: News = News.SEEN
    marks: frozenset[int] | None = None
    rules: int = rule_changes.UNKNOWN
    digest: int = 0
    repeats: bool = False
    etag: str = ""
    last_modified: str = ""
    harvest: Harvest | None = None
    prediction: Prediction | None = None
    bytes: int = 0
    hrefs: int = 0
    keeps_spells: bool = False

    def __post_init__(self) -> None:
        if (kept := kept_url(self.url)) is not self.url:
            force_setattr(self, "url", kept)


class Sightings(NamedTuple):
    """When a link was seen first and last, in seconds since 1970 UTC."""

    first: int
    last: int

    def joined(self, other: Sightings) -> Sightings:
        """Return what both tell together."""
        return Sightings(min(self.first, other.first), max(self.last, other.last))


class Page(Struct):
    """What is known of one page.

    `url` has no login and no space, whatever the bytes are that it was read from. Times are whole
    seconds since 1970 UTC. `marks` holds fingerprints, of links or of what else is watched, grouped by
    the time of the visit that showed them first: `runs` lists (time, number of marks) in time order;
    `last_seen` has the time of the visit that showed each last. `marks_since` is the earliest visit that
    showed marks: these are the baseline, not additions. `digests` and `contents` say which visits found
    changed content without showing links (see `state.digests`); the former are thinned as visits are.
    `last_news` is the time of the latest attempt of any kind. `gone` counts the 404s and 410s since the
    page was last seen, `failures` the attempts since then (or since it was last gone) that told nothing.
    `echoes` are the times of updates that were not new to the site: other pages of it had shown all of
    their links first; where the page keeps spells, also those that a template brought. `is_in_site` says
    whether the page's links are in the memory of its site. `rate` is the estimate in 1/day; `share`,
    `fast` and `slow` are w, a and b of its survival; `churn` and `churning` tell of requests that bring
    links by themselves (see `model.Rates`); `version` grows with every write.
    `harvests` are the archives' harvests by source. `hrefs` is the number of the source of which
    `last_shown` was taken, 0 where it is not known. `rule_changes` says by which rules marks were taken
    (see `state.rule_changes`). Where the page `keeps_spells` (see `state.spells`), a mark may be among
    `marks` more than once.
    """

    url: str
    visits: Numbers = field(default_factory=lambda: array("I"))
    runs: Numbers = field(default_factory=lambda: array("I"))
    marks: Numbers = field(default_factory=lambda: array("q"))
    last_seen: Numbers = field(default_factory=lambda: array("I"))
    digests: Numbers = field(default_factory=lambda: array("I"))
    contents: Numbers = field(default_factory=lambda: array("I"))
    echoes: Numbers = field(default_factory=lambda: array("I"))
    is_in_site: bool = False
    marks_since: int = 0
    last_news: int = 0
    gone: int = 0
    failures: int = 0
    not_before: int = 0
    rate: float = 0.0
    share: float = 1.0
    fast: float = 0.0
    slow: float = 0.0
    churn: float = 0.0
    churning: float = 0.0
    version: int = 0
    etag: str = ""
    last_modified: str = ""
    hrefs: int = 0
    harvests: dict[int, Harvest] = field(default_factory=dict)
    rule_changes: Numbers = field(default_factory=lambda: array("I"))
    keeps_spells: bool = False

    def __post_init__(self) -> None:
        self.url = kept_url(self.url)

    @property
    def last_visit(self) -> int | None:
        """Second of the last visit that saw the page."""
        return self.visits[-1] if self.visits else None

    @property
    def baselines(self) -> array[int]:
        """Seconds of the visits that went by other rules than those before them, ascending.

        A visit that was thinned out may be among them: then the next one is the baseline.
        """
        changes = self.rule_changes
        if not changes or (
            len(changes) == 2 and changes[0] <= self.marks_since
        ):  # as of most pages
            return _NO_TIMES
        return rule_changes.baselines(changes, self.marks_since)

    def rules_at(self, second: int) -> int:
        """Return the fingerprint of the rules by which the visit of a second went."""
        changes = rule_changes.until(self.rule_changes, second)
        return changes[-1] if changes else rule_changes.UNKNOWN

    @property
    def shown_at(self) -> array[int]:
        """Seconds of the visits kept that showed what the page's marks were, ascending."""
        changes = self.rule_changes
        if len(changes) == 2:  # as of most pages: all from the first that did
            return self.visits[bisect_left(self.visits, changes[0]) :]
        rules = rule_changes.marks(changes, self.visits)
        return array("I", (at for at, known in rules.items() if known != rule_changes.UNKNOWN))

    @property
    def spells(self) -> Spells:
        """What the page showed, where it `keeps_spells`."""
        return Spells(self.runs, self.marks, self.last_seen)

    @property
    def update_times(self) -> array[int]:
        """Seconds at which updates were found, ascending, of whatever age.

        Where the page keeps spells these are the changes; see `updates_of`.
        """
        if self.keeps_spells:
            return self._updates_in_spells("page")
        runs = self.runs
        if not self.digests and (not runs or (len(runs) == 2 and runs[0] == self.marks_since)):
            return _NO_TIMES
        baselines = {*self.baselines}
        shown_first = {self.marks_since, *baselines}
        added = array("I", (at for at in self.runs[::2] if at not in shown_first))
        if not self.digests:
            return added
        changed = set(digests.changes(self.digests, self.contents))
        return array("I", sorted({*added, *(changed - baselines)}))

    def known_marks(self, updates: Updates, rules: int) -> set[int]:
        """Return what the next visit may show, by these rules, without news; the page keeps spells."""
        shown_at = self.shown_at
        if not self.keeps_spells or not shown_at or self.rules_at(shown_at[-1]) != rules:
            return set()
        is_kept = updates in {"novel", "site"}
        return set(self.marks) if is_kept else self.spells.ending(shown_at[-1])

    def shown_before(self, at: int) -> set[int]:
        """Return the marks that the visit before a second showed; the page keeps spells."""
        before = self.shown_at[: bisect_left(self.shown_at, at)][-1:]
        return set[int]().union(*self.spells.shown_by(before).values())

    def updates_of(self, updates: Updates) -> array[int]:
        """Return the seconds at which was found what counts as an update, ascending.

        An update whose links are not known is taken for new to the site.
        """
        times = self._updates_in_spells(updates) if self.keeps_spells else self.update_times
        if updates != "site" or not self.echoes:
            return times
        echoes = set(self.echoes)
        return array("I", (at for at in times if at not in echoes))

    def _updates_in_spells(self, updates: Updates) -> array[int]:
        shown_at, spells = self.shown_at, self.spells
        times = spells.novelties() if updates in {"novel", "site"} else spells.changes()
        if updates == "any-change":
            times |= spells.losses(shown_at)
        return array("I", sorted(times - {*shown_at[:1], *self.baselines, *self.echoes}))

    @property
    def last_update(self) -> int | None:
        """Tau: second of the last visit that found an update, or None where none is known."""
        times = self.update_times
        return times[-1] if times and self.visits and times[-1] > self.visits[0] else None

    def marks_until(self) -> tuple[int, bool]:
        """Second of the latest visit that showed marks, 0 where none did, and whether it showed all."""
        last_seen, visits = self.last_seen, self.visits
        # as of most pages; comparing arrays makes no object of each time
        if last_seen == last_seen[:1] * len(last_seen):
            return (last_seen[0] if last_seen else 0), True
        return (visits[-1] if visits and visits[-1] in last_seen else max(last_seen)), False

    def last_shown(self) -> tuple[int, frozenset[int]]:
        """When links were seen last, and which were: what the latest visit showed that saw any."""
        latest, is_all = self.marks_until()
        if is_all:
            return latest, frozenset(self.marks)
        last = zip(self.marks, self.last_seen, strict=True)
        return latest, frozenset(link for link, at in last if at == latest)

    def sightings(self) -> dict[int, Sightings]:
        """Every link's fingerprint with the seconds it was seen at."""
        firsts = (
            at
            for at, number in zip(self.runs[::2], self.runs[1::2], strict=True)
            for _ in range(number)
        )
        return dict(zip(self.marks, map(Sightings, firsts, self.last_seen), strict=True))

    def new_marks_by_visit(self) -> list[int]:
        """For each visit kept, how many links it showed that no earlier visit had shown."""
        counts = [0] * len(self.visits)
        baselines = {self.marks_since, *self.baselines}
        for at, number in zip(self.runs[::2], self.runs[1::2], strict=True):
            index = bisect_left(self.visits, at)
            if at not in baselines and 0 < index < len(counts):
                counts[index] += number
        return counts


def copy_of(page: Page) -> Page:
    """Return a copy that shares nothing mutable with the page."""
    copied = copy(page)
    copied.visits, copied.runs = page.visits[:], page.runs[:]
    copied.marks, copied.last_seen = page.marks[:], page.last_seen[:]
    copied.rule_changes = page.rule_changes[:]
    copied.digests, copied.contents, copied.echoes = (
        page.digests[:],
        page.contents[:],
        page.echoes[:],
    )
    copied.harvests = page.harvests.copy()
    return copied

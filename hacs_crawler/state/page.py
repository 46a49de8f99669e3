"""A page as the state keeps it, and the visits that it is made from.

The marks of earlier visits decide whether a visit found an update, unless it is a baseline
(`state.rule_changes`) or did not show the page (`state.judging`). `state.merging` changes pages.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from copy import copy
from enum import Enum
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import force_setattr

from hacs_crawler.links import kept_url
from hacs_crawler.state import digests, rule_changes
from hacs_crawler.state.judging import FEWEST_LINKS, FEWEST_MARKS, judged, may_mislead
from hacs_crawler.state.outcome_log import Prediction
from hacs_crawler.state.spells import NO_SPELLS, OPEN, MarksByVisit, Numbers, Spells, spells_of
from hacs_crawler.utils.times import MAX_SECOND

# Shared by all pages without such times, and never changed.
_NO_TIMES: Numbers = array("I")
# Marks a page whose visits were already judged, as its `Page.unread`.
_JUDGED: list[int] = []
Byte = Annotated[int, Meta(ge=0, le=255)]
Second = Annotated[int, Meta(ge=0, lt=2**32)]
# What counts as an update, see HACS_UPDATES.
Updates = Literal["page", "site", "change", "any-change"]
# "default" is "page" for links and "change" for other marks.
Counted = Updates | Literal["default"]


class News(Enum):
    """The result of a request for a page."""

    SEEN = "seen"  # the page answered: 2xx with its marks, or 304
    GONE = "gone"  # 404 or 410
    FAILED = "failed"  # no observation: an error, a timeout, a refusal
    REPEATED = "repeated"  # a capture that repeats an earlier one: its digest decides what it was


class Harvest(Struct, frozen=True, array_like=True, order=True):
    """The latest capture of a page that was recorded from an archive.

    `source` is a 32-bit number of the archive and of how it is read, `until` the second of the
    capture, `digest` the signed 64-bit fingerprint of its content's digest, 0 if unknown.
    """

    source: int
    until: int
    digest: int = 0


class Visit(Struct, frozen=True):
    """One request for a page, live or archived, and its result.

    `url` is stored as its `kept_url`. `at` is in whole seconds since 1970 UTC. `marks` are the
    fingerprints of the watched marks, or None if the visit did not show them (304, an archive's revisit
    record), `rules` the fingerprint of the rules by which they were taken. `digest` is the
    `digest_number` of the content, 0 if unknown; `repeats` says that an archive found the same content
    as before. `harvest` is set if the visit came from an archive that will be asked for later captures
    only, `prediction` if the page was ranked. `bytes` is the size of the answer's body. `hrefs`
    identifies the source of the marks: a hash of the body in its upper half, and of the extracted hrefs
    in its lower half (for other marks than links: 2 for HTML with its end tag, plus 1); 0 if unknown.
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

    def __post_init__(self) -> None:
        if (kept := kept_url(self.url)) is not self.url:
            force_setattr(self, "url", kept)
        if self.marks is not None and self.rules == rule_changes.UNKNOWN:
            force_setattr(self, "rules", rule_changes.UNNAMED)


class Page(Struct, array_like=True):
    """A page as the state keeps it; `state.codec` writes its fields in their order.

    Fields are replaced, never changed in place, so that a shallow `copy` is independent.

    `url` is a `kept_url`. Times are whole seconds since 1970 UTC, ascending. `spells` say when the page
    showed its marks, `rule_changes` by which rules they were taken. `digests` and `contents` say
    which visits found changed content without showing marks (see `state.digests`). `echoes` are the
    times of updates that were not new to the site, because other pages of it had shown all their marks
    first or a template brought them; `unread` are the times of visits at which other pages of the site
    showed exactly the same. `is_in_site` says whether the page's marks are in the memory of its site.
    `last_news` is the time of the latest attempt of any kind. `gone` counts the 404s and 410s since the
    page was last seen, `failures` the unsuccessful attempts since then (or since it was last gone).
    `hrefs` is that of the visit that showed the last marks. `harvests` are by source. `updates` is the
    definition of an update; the fields from `rate` to `churning` are estimates by it (see
    `model.Rates`). `version` grows with every write.
    """

    url: str
    visits: Numbers = _NO_TIMES
    spells: Spells = NO_SPELLS
    rule_changes: dict[Second, Second] = {}
    digests: dict[Second, Second] = {}
    contents: list[Second] = []
    echoes: list[Second] = []
    unread: list[Second] = []
    is_in_site: bool = False
    last_news: Second = 0
    gone: Byte = 0
    failures: Byte = 0
    not_before: Second = 0
    etag: str = ""
    last_modified: str = ""
    hrefs: int = 0
    harvests: dict[int, Harvest] = {}
    updates: Updates = "page"
    rate: float = 0.0
    share: float = 1.0
    fast: float = 0.0
    slow: float = 0.0
    churn: float = 0.0
    churning: float = 0.0
    version: int = 0

    def __post_init__(self) -> None:
        self.url = kept_url(self.url)

    @property
    def last_visit(self) -> int | None:
        """Second of the last visit that saw the page."""
        return self.visits[-1] if self.visits else None

    @property
    def latest_rules(self) -> int:
        """The rules of the latest visit that showed marks, `UNKNOWN` without such a visit."""
        for rules in reversed(self.rule_changes.values()):
            if rules != rule_changes.UNKNOWN:
                return rules
        return rule_changes.UNKNOWN

    @property
    def is_chosen(self) -> bool:
        """Whether the marks were chosen by the user, and are not links."""
        return bool(self.latest_rules & rule_changes.CHOSEN)

    def count(self, updates: Counted) -> None:
        """Set what counts as an update of the page."""
        by_default: Updates = "change" if self.is_chosen else "page"
        self.updates = by_default if updates == "default" else updates

    @property
    def shown_at(self) -> array[int]:
        """Seconds of the kept visits that showed which marks the page had, ascending."""
        if len(self.rule_changes) == 1:  # like most pages: all visits from the first that did
            return self.visits[bisect_left(self.visits, self._since) :]
        rules = rule_changes.rules_of(self.rule_changes, self.visits)
        return array("I", (at for at in self.visits if rules[at] != rule_changes.UNKNOWN))

    @property
    def _since(self) -> int:
        """Second of the first kept visit that showed marks, 0 without such a visit."""
        return next(iter(self.rule_changes), 0)

    @property
    def baselines(self) -> array[int]:
        """Seconds of the visits whose rules differ from those of the visit before, ascending."""
        if len(self.rule_changes) <= 1:  # like most pages
            return _NO_TIMES
        return rule_changes.baselines(self.rule_changes)

    def by_visit(self) -> tuple[MarksByVisit, dict[int, int]]:
        """Return the marks of visits that showed marks, and the rules of all visits, by second."""
        rules = rule_changes.rules_of(self.rule_changes, self.visits)
        shown_at = (at for at, rule in rules.items() if rule != rule_changes.UNKNOWN)
        return self.spells.shown_by(shown_at), rules

    def set_visits(self, marks: MarksByVisit, rules: Mapping[int, int]) -> None:
        """Replace all visits by these, in the form of `by_visit`."""
        self.visits = array("I", sorted(rules))
        self.spells = spells_of(marks)
        self.rule_changes = rule_changes.changes_of(rules)

    @property
    def sound(self) -> Page:
        """The page with only the visits that showed it (see `state.judging`); itself if all did.

        Other visits that no such visit precedes stay, without marks.
        """
        if self.unread is _JUDGED or (not self.unread and len(self.spells.periods) <= 3):
            return self
        fewest = FEWEST_MARKS if self.is_chosen else FEWEST_LINKS
        if not self.unread and not may_mislead(self.spells, self.shown_at, fewest):
            return self
        shown, rules = self.by_visit()
        read = {at: marks for at, marks in shown.items() if at not in self.unread}
        kept = judged(read, self.baselines, fewest)
        since = min(kept, default=MAX_SECOND)
        left_out = {at for at in shown if at not in kept and at > since}
        page = copy(self)
        page.set_visits(kept, {at: rules[at] * (at in kept) for at in rules.keys() - left_out})
        page.unread = _JUDGED
        if shown and max(shown) in left_out:
            page.etag = page.last_modified = ""
        return page

    @property
    def update_times(self) -> array[int]:
        """Seconds at which an update was found, ascending; for sound pages.

        An update whose marks are not known counts by any definition of an update.
        """
        periods, updates = self.spells.periods, self.updates
        if not self.digests and (
            not periods or (len(periods) == 3 and periods[1] == OPEN and periods[0] == self._since)
        ):  # like most pages
            return _NO_TIMES
        times = {*periods[::3]}
        if self._counts_once and len({*self.spells.marks}) < len(self.spells.marks):
            times = {*self.spells.gained(once=True)}
        elif updates == "any-change" and (shown_at := self.shown_at):
            lasts = (last for last in {*periods[1::3]} - {OPEN} if last < shown_at[-1])
            times.update(shown_at[bisect_right(shown_at, last)] for last in lasts)
        times.discard(self._since)
        if self.digests:
            times.update(digests.changes(self.digests, self.contents))
        times -= {*self.baselines}
        if self.echoes and (updates != "page" or self.is_chosen):
            times -= {*self.echoes}
        return array("I", sorted(times))

    @property
    def last_update(self) -> int | None:
        """τ, second of the last visit that found an update; None without an update. For sound pages."""
        times = self.update_times
        return times[-1] if times and self.visits and times[-1] > self.visits[0] else None

    @property
    def news(self) -> MarksByVisit:
        """The marks that make an update, by the second of their visit; for sound pages."""
        baselines = {self._since, *self.baselines}
        gained = self.spells.gained(once=self._counts_once)
        return {at: marks for at, marks in gained.items() if at not in baselines}

    @property
    def _counts_once(self) -> bool:
        return self.updates in {"page", "site"}

    def known_marks(self, rules: int, at: int) -> frozenset[int]:
        """Return the marks, also unconfirmed ones, that a visit at second `at` need not report."""
        if self._counts_once or self.latest_rules != rules:
            return frozenset(self.spells.marks if self.latest_rules == rules else ())
        known = self.spells.shown_last() | self.sound.spells.shown_last()
        # visits in one second are one visit, which is compared with the visit before
        is_again = self.last_visit == at and self.shown_at[1:] and self.shown_at[-1] == at
        return known | self.by_visit()[0][self.shown_at[-2]] if is_again else known

    def new_marks_by_visit(self) -> list[int]:
        """For each kept visit, how many of its marks make an update; for sound pages."""
        news, updates = self.news, {*self.update_times} - {*self.visits[:1]}
        return [len(news.get(at, ())) if at in updates else 0 for at in self.visits]

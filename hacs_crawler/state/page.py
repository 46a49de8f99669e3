"""One page: what is known of it, and how a visit changes that.

The state of a page is a function of the *set* of its visits, not of the order in which they were
recorded, so that archived captures that arrive after live visits lead to the same state:

- every link keeps the times of the earliest and of the latest visit that showed it (a minimum and a
  maximum, hence commutative), or part of the links part of their fingerprints, in a way that depends
  on the set of links alone;
- of the visits' times, the latest `RECENT_VISITS` are kept, and of the older ones the last in every
  slot of `SLOT_SECONDS`. Both rules depend on times alone, so thinning before or after a merge gives
  the same result, and what is left is what a crawler with fewer visits would have seen: two gaps
  become one, and every estimator stays as unbiased as it was.

Digests that an archive's index names are kept for the same reason: that a capture found another content
than the one before it is only known when both are.

What an attempt other than a visit told (gone, failed), the URL as seen and the validators follow the
latest news; older news than that is ignored. Of each archive's captures the page remembers up to which
one they were recorded, in the same write as their visits.

Whether a visit found an update is derived: some link was first seen after the visit before it. So is
whether an update was confirmed: one of its links was seen again. A visit whose links were taken by
other rules than those of the visit before it is a baseline, as the first one is: it found neither an
update nor a quiet page (`state.rule_changes`).


Whether an update was new to the site is not: it is what the site's pages were known to show when the
visit was recorded (see `state.site_links`), and thus depends on the order in which visits come.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from itertools import groupby, pairwise
from operator import attrgetter, itemgetter
from typing import Final, Literal, get_args

from hacs_crawler.links import kept_url
from hacs_crawler.state import digests, rule_changes
from hacs_crawler.state.link_sample import (
    Sightings,
    bytes_of,
    kept,
    level_within,
    narrowed,
    new_array,
    unseen,
)
from hacs_crawler.state.outcome_log import Prediction
from hacs_crawler.utils.times import DAY, MAX_SECOND

RECENT_VISITS = 128
SLOT_SECONDS = 30 * DAY
FIRST_WAIT_GONE = 7 * DAY
LONGEST_WAIT_GONE = 365 * DAY


Updates = Literal["page", "site"]
"""What counts as an update: links that are new to the page, or such that are new to its site, too."""
UPDATES: Final = get_args(Updates)


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


@dataclass(frozen=True, slots=True)
class Harvest:
    """Up to where the captures that a source has of a page are recorded.

    `source` is a 32-bit number of the archive and of how it is read, `until` the second of the latest
    capture dealt with, `digest` the signed 64-bit fingerprint of its content's digest, 0 if unknown.
    """

    source: int
    until: int
    digest: int = 0


@dataclass(frozen=True, slots=True)
class Visit:
    """One request for a page, live or archived, and what it told.

    What is kept of `url` is its `kept_url`. `at` is in whole seconds since 1970 UTC. `links` are the
    fingerprints of the page's links, or None where the visit did not show them (304, an archive's
    revisit record). `digest` is the `digest_number` of the content, 0 where it is not known,
    `repeats` marks a visit of which an archive says that it found again what was there before.
    `link_rules` is the fingerprint of the rules by which links were taken, 0 where it is not known.
    `harvest` is set where the visit came from an archive that is to be asked for later captures only,
    `prediction` where its seed was ranked. `bytes` is the size of the answer's body.
    """

    url: str
    at: int
    news: News = News.SEEN
    links: frozenset[int] | None = None
    link_rules: int = rule_changes.UNKNOWN
    digest: int = 0
    repeats: bool = False
    etag: str = ""
    last_modified: str = ""
    harvest: Harvest | None = None
    prediction: Prediction | None = None
    bytes: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "url", kept_url(self.url))


@dataclass(slots=True)
class Page:
    """What is known of one page.

    `url` has no login and no space, also where it is read from a state of an older version.
    Times are whole seconds since 1970 UTC. `links` holds link fingerprints grouped by the time of the
    visit that showed them first: `runs` lists (time, number of links) in time order; `last_seen` has the
    time of the visit that showed each last, 0 where that is not known. `link_level` says how much of
    them is kept, see `state.link_sample`; 0 is everything. `links_since` is the earliest visit
    that showed links: its links are the baseline, not additions. `digests` and `contents` say which
    visits found changed content without showing links (see `state.digests`); the former are thinned as
    visits are. `content_changes` are the times of such visits that an earlier version recorded.
    `last_news` is the time of the latest attempt of any kind. `gone` counts the 404s and 410s since the
    page was last seen, `failures` the attempts since then (or since it was last gone) that told nothing.
    `echoes` are the times of updates that were not new to the site: other pages of it had shown all of
    their links first. `is_in_site` says whether the page's links are in the memory of its site.
    `rate` is the estimate in 1/day, `log_sd` its spread, `churn` and `churning` tell of requests that
    bring links by themselves (see `model.Rates`); `version` grows with every write. `harvests` are the
    archives' harvests by source. `rule_changes` says by which rules links were taken (see
    `state.rule_changes`).
    """

    url: str
    visits: array[int] = field(default_factory=lambda: array("I"))
    runs: array[int] = field(default_factory=lambda: array("I"))
    links: array[int] = field(default_factory=lambda: array("q"))
    last_seen: array[int] = field(default_factory=lambda: array("I"))
    content_changes: array[int] = field(default_factory=lambda: array("I"))
    digests: array[int] = field(default_factory=lambda: array("I"))
    contents: array[int] = field(default_factory=lambda: array("I"))
    echoes: array[int] = field(default_factory=lambda: array("I"))
    is_in_site: bool = False
    link_level: int = 0
    links_since: int = 0
    last_news: int = 0
    gone: int = 0
    failures: int = 0
    not_before: int = 0
    rate: float = 0.0
    log_sd: float = 0.0
    churn: float = 0.0
    churning: float = 0.0
    version: int = 0
    etag: str = ""
    last_modified: str = ""
    harvests: dict[int, Harvest] = field(default_factory=dict)
    rule_changes: array[int] = field(default_factory=lambda: array("I"))

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
        return rule_changes.baselines(self.rule_changes, self.links_since)

    @property
    def update_times(self) -> array[int]:
        """Seconds at which updates were found, ascending, of whatever age."""
        baselines = {*self.baselines}
        shown_first = {self.links_since, *baselines}
        added = array("I", (at for at in self.runs[::2] if at not in shown_first))
        if not self.content_changes and not self.digests:
            return added
        changed = {*self.content_changes, *digests.changes(self.digests, self.contents)}
        return array("I", sorted({*added, *(changed - baselines)}))

    def updates_of(self, updates: Updates) -> array[int]:
        """Return `update_times`, or only those of updates that were new to the site.

        An update of which the links are not known is taken for new to the site.
        """
        if updates == "page" or not self.echoes:
            return self.update_times
        echoes = set(self.echoes)
        return array("I", (at for at in self.update_times if at not in echoes))

    @property
    def last_update(self) -> int | None:
        """Tau: second of the last visit that found an update, or None where none is known."""
        times = self.update_times
        return times[-1] if times and self.visits and times[-1] > self.visits[0] else None

    def sightings(self) -> dict[int, Sightings]:
        """Every link's fingerprint, or what is kept of it, with the seconds it was seen at."""
        firsts = (
            at
            for at, number in zip(self.runs[::2], self.runs[1::2], strict=True)
            for _ in range(number)
        )
        return dict(zip(self.links, map(Sightings, firsts, self.last_seen), strict=True))

    def new_links_by_visit(self) -> list[int]:
        """For each visit kept, how many links it showed that no earlier visit had shown."""
        counts = [0] * len(self.visits)
        baselines = {self.links_since, *self.baselines}
        for at, number in zip(self.runs[::2], self.runs[1::2], strict=True):
            index = bisect_left(self.visits, at)
            if at not in baselines and 0 < index < len(counts):
                counts[index] += number
        return counts


_fields_of: Final = attrgetter(*(field.name for field in fields(Page)))


def copy_of(page: Page) -> Page:
    """Return a copy that shares nothing mutable with the page."""
    copy = Page(*_fields_of(page))  # of every visit: `replace` takes four times as long
    copy.visits, copy.runs = page.visits[:], page.runs[:]
    copy.links, copy.last_seen = page.links[:], page.last_seen[:]
    copy.content_changes, copy.rule_changes = page.content_changes[:], page.rule_changes[:]
    copy.digests, copy.contents, copy.echoes = page.digests[:], page.contents[:], page.echoes[:]
    copy.harvests = page.harvests.copy()
    return copy


def merge(page: Page, visit: Visit) -> frozenset[int]:
    """Add a visit to what is known of its page, in place.

    Returns the fingerprints of the links that no visit up to this one had shown, l*(m_i) of the paper
    (Jayawardana et al. 2020); empty for the first visit that shows links, which is the baseline, and for
    one that goes by other rules than the one before it. Where not everything is kept of links, those are
    left out of which nothing is, or the same as of another.
    Merging a visit a second time changes nothing.
    """
    if not 0 < visit.at <= MAX_SECOND:
        msg = f"a visit of {visit.url} at second {visit.at} is outside 1970-2106"
        raise ValueError(msg)
    if visit.harvest is not None:
        note_harvest(page, visit.harvest)
    if visit.digest and visit.news in {News.SEEN, News.REPEATED}:
        _note_digest(page, visit)
    if visit.news is News.REPEATED:
        return frozenset()
    if visit.news is not News.SEEN:
        _note_absence(page, visit)
        return frozenset()
    new = frozenset[int]() if visit.links is None else _merge_links(page, visit, visit.links)
    if visit.at >= page.last_news:
        _note_presence(page, visit.at)
        page.url = visit.url
        if visit.links is not None:
            page.etag, page.last_modified = visit.etag, visit.last_modified
    _insert(page.visits, visit.at)
    _thin(page.visits)
    return new


def bound_links(page: Page, most_bytes: int) -> bool:
    """Keep less of a page's links, as much as fits into so many bytes, in place.

    Returns whether that changed anything. Less than one link is never kept.
    """
    if bytes_of(len(page.links), page.link_level) <= most_bytes:
        return False
    page.link_level, seen = level_within(page.sightings(), page.link_level, most_bytes)
    _set_sightings(page, seen)
    return True


def note_echo(page: Page, at: int) -> None:
    """Remember that the update found at that second was not new to the site."""
    _insert(page.echoes, at)


def note_harvest(page: Page, harvest: Harvest) -> None:
    """Remember how far a source's captures are recorded, unless it is known to be further already."""
    known = page.harvests.get(harvest.source)
    if known is None or harvest.until > known.until:
        page.harvests[harvest.source] = harvest


def merge_pages(page: Page, other: Page) -> Page:
    """Return what the visits of two pages, of one key, tell together; both stay as they are.

    It is what recording all their visits on one page leads to, except that what attempts told that saw
    nothing (gone, failures, waiting) is that of the page with the latest news, and URL and validators
    are those of the page with the latest visit. In whatever order and however often pages are merged,
    the result is the same, but for `rate` and `version`, which are those of `page`, and for which
    spelling of the URL it has where the latest visit repeats a capture that only another page has.
    Of links it keeps as much as the page that keeps less.
    """
    latest = max(page, other, key=_absence)
    shown = max(page, other, key=_appearance)
    result = replace(
        page,
        url=shown.url,
        visits=_union(page.visits, other.visits),
        content_changes=_union(page.content_changes, other.content_changes),
        digests=digests.union(page.digests, other.digests),
        contents=digests.union_of_contents(page.contents, other.contents),
        echoes=array("I", sorted({*page.echoes, *other.echoes})),
        link_level=max(page.link_level, other.link_level),
        links_since=min(filter(None, (page.links_since, other.links_since)), default=0),
        last_news=latest.last_news,
        gone=latest.gone,
        failures=latest.failures,
        not_before=latest.not_before,
        etag=shown.etag,
        last_modified=shown.last_modified,
        harvests=page.harvests.copy(),
        rule_changes=rule_changes.union(*map(_rule_marks, (page, other))),
    )
    for harvest in other.harvests.values():
        known = result.harvests.get(harvest.source, harvest)
        furthest = max(known, harvest, key=lambda one: (one.until, one.digest))
        result.harvests[harvest.source] = furthest
    seen = narrowed(page.sightings(), result.link_level)
    _join(seen, narrowed(other.sightings(), result.link_level))
    _set_sightings(result, seen)
    result.is_in_site = (page.is_in_site and other.is_in_site) or any(
        one.is_in_site and one.links == result.links for one in (page, other)
    )
    _see_repeated(result)
    return result


def _absence(page: Page) -> tuple[int, bool, int, int, int]:
    """Return what attempts that saw nothing told; of two pages the greater has the latest news."""
    is_seen = not (page.gone or page.failures)
    return page.last_news, is_seen, page.gone, page.failures, page.not_before


def _appearance(page: Page) -> tuple[int, str, str, str]:
    return page.last_visit or 0, page.etag, page.last_modified, page.url


def _union(times: array[int], others: array[int]) -> array[int]:
    union = array("I", sorted({*times, *others}))
    _thin(union)
    return union


def _rule_marks(page: Page) -> dict[int, int]:
    return rule_changes.marks(page.rule_changes, page.visits, page.links_since)


def _note_digest(page: Page, visit: Visit) -> None:
    repeats = visit.repeats or visit.news is News.REPEATED
    digests.add(page.digests, visit.at, visit.digest, repeats=repeats)
    if visit.news is News.SEEN:
        digests.add_content(page.contents, visit.digest)
    _see_repeated(page)


def _see_repeated(page: Page) -> None:
    """Take captures for visits that are now known to repeat what the page had."""
    for at in digests.repeated(page.digests, page.contents):
        if at > page.last_news or (at == page.last_news and (page.gone or page.failures)):
            _note_presence(page, at)
        if at > (page.last_visit or 0):  # of which content the validators are is not known then
            page.etag = page.last_modified = ""
        _insert(page.visits, at)
    _thin(page.visits)
    page.digests = _thinned_digests(page.digests)


def _thinned_digests(found: array[int]) -> array[int]:
    times = found[::2]
    _thin(times)
    return found if 2 * len(times) == len(found) else digests.only(found, times)


def _note_presence(page: Page, at: int) -> None:
    page.gone = page.failures = page.not_before = 0
    page.last_news = at


def _note_absence(page: Page, visit: Visit) -> None:
    """Remember an answer that shows nothing of the page; older news than the latest is ignored."""
    if visit.at <= page.last_news:
        return
    page.last_news = visit.at
    if visit.news is News.GONE:
        wait = min(FIRST_WAIT_GONE << min(page.gone, 10), LONGEST_WAIT_GONE)
        # Both are kept in a byte.
        page.gone, page.failures = min(page.gone + 1, 255), 0
        page.not_before = min(visit.at + wait, MAX_SECOND)
    else:
        page.failures = min(page.failures + 1, 255)


def _merge_links(page: Page, visit: Visit, shown: frozenset[int]) -> frozenset[int]:
    page.rule_changes = rule_changes.with_visit(
        page.rule_changes, page.visits, page.links_since, visit.at, visit.link_rules
    )
    new = _note_links(page, visit.at, shown)
    return frozenset() if visit.at in page.baselines else new


def _note_links(page: Page, at: int, shown: frozenset[int]) -> frozenset[int]:
    latest_run = page.runs[-2] if page.runs else 0
    if not page.links_since:
        page.links_since = at
        _append_run(page, at, shown)
        return frozenset()
    if at > latest_run and at > page.links_since:
        new = unseen(shown, page.links, page.link_level)
        _see_again(page, at, shown)
        _append_run(page, at, new)
        return new
    return _merge_late_links(page, at, shown)


def _see_again(page: Page, at: int, shown: frozenset[int]) -> None:
    """Note of links that are known when they were seen last."""
    if page.link_level:
        return
    if shown.issuperset(page.links) and at > max(page.last_seen, default=0):
        page.last_seen = array("I", [at]) * len(page.links)
        return
    last = zip(page.links, page.last_seen, strict=True)
    page.last_seen = array(
        "I", [at if one in shown and before < at else before for one, before in last]
    )


def _merge_late_links(page: Page, at: int, shown: frozenset[int]) -> frozenset[int]:
    """Merge links shown at or before a time at which links were first seen: rebuild the runs."""
    seen = page.sightings()
    earlier = [link for link, one in seen.items() if one.first < at]
    new = unseen(shown, earlier, page.link_level)
    is_baseline = at <= page.links_since
    page.links_since = min(page.links_since, at)
    last = 0 if page.link_level else at
    _join(seen, dict.fromkeys(kept(shown, page.link_level), Sightings(at, last)))
    _set_sightings(page, seen)
    return frozenset() if is_baseline else new


def _join(seen: dict[int, Sightings], others: Mapping[int, Sightings]) -> None:
    for link, one in others.items():
        known = seen.get(link)
        seen[link] = one if known is None else one.joined(known)


def _set_sightings(page: Page, seen: Mapping[int, Sightings]) -> None:
    # by first sight, and within that by link: the order in which they came makes no difference
    ordered = sorted((one.first, link, one.last) for link, one in seen.items())
    page.runs, page.links, page.last_seen = array("I"), new_array(page.link_level), array("I")
    page.links.extend(link for _, link, _ in ordered)
    page.last_seen.extend(last for _, _, last in ordered)
    for first, group in groupby(ordered, itemgetter(0)):
        page.runs.extend((first, len(list(group))))


def _append_run(page: Page, at: int, links: Iterable[int]) -> None:
    """Add links that were seen for the first time, after all others: what is kept of fingerprints."""
    ordered = sorted(kept(links, page.link_level))
    if ordered:
        page.runs.extend((at, len(ordered)))
        page.links.extend(ordered)
        page.last_seen.extend([0 if page.link_level else at] * len(ordered))


def _insert(times: array[int], at: int) -> None:
    if not times or at > times[-1]:
        times.append(at)
    elif times[bisect_left(times, at)] != at:
        insort(times, at)


def _thin(times: array[int]) -> None:
    """Drop old times that are not the last of their slot, in place."""
    old = len(times) - RECENT_VISITS
    if old <= 0:
        return
    # Which times stay depends on times alone, never on what was found then: so the order in which
    # visits come makes no difference, and what is left is not skewed.
    kept = [
        at
        for at, following in pairwise(times[: old + 1])
        if at // SLOT_SECONDS != following // SLOT_SECONDS
    ]
    if len(kept) < old:
        times[:old] = array("I", kept)

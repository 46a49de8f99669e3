"""How a visit changes what is known of its page, and what two states know of one page together.

The state of a page is a function of the *set* of its visits, not of the order in which they were
recorded, so that archived captures that arrive after live visits lead to the same state:

- every link keeps the times of the earliest and of the latest visit that showed it (a minimum and a
  maximum, hence commutative);
- of other marks all spells are kept in which the visits that are kept showed them (see `state.spells`);
- of the visits' times, the latest `RECENT_VISITS` are kept, and of the older ones the last in every
  slot of `SLOT_SECONDS`. Both rules depend on times alone, so thinning before or after a merge gives
  the same result, and what is left is what a crawler with fewer visits would have seen: two gaps
  become one, and every estimator stays as unbiased as it was.

Digests that an archive's index names are kept for the same reason: that a capture found another content
than the one before it is only known when both are.

What an attempt other than a visit told (gone, failed), the URL as seen and the validators follow the
latest news; older news than that is ignored. Of each archive's captures the page remembers up to which
one they were recorded, in the same write as their visits.

Whether an update was new to the site depends on the order in which visits come: it is what the site's
pages were known to show when the visit was recorded (see `state.site_links`).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping
from itertools import groupby, pairwise, zip_longest
from operator import itemgetter
from typing import Final

from msgspec.structs import replace

from hacs_crawler.links import has_same_links
from hacs_crawler.state import digests, rule_changes
from hacs_crawler.state.page import Harvest, News, Page, Sightings, Visit
from hacs_crawler.state.spells import MarksByVisit, spells_of
from hacs_crawler.utils.times import DAY, MAX_SECOND

RECENT_VISITS: Final = 128
SLOT_SECONDS: Final = 30 * DAY
FIRST_WAIT_GONE: Final = 7 * DAY
LONGEST_WAIT_GONE: Final = 365 * DAY


def merge(page: Page, visit: Visit) -> frozenset[int]:
    """Add a visit to what is known of its page, in place.

    Returns the fingerprints of the links that no visit up to this one had shown, l*(m_i) of the paper
    (Jayawardana et al. 2020), or of the other marks that the visit before it had not shown; empty for
    the first visit that shows any, which is the baseline, and for one with other rules than the
    one before it.
    Merging a visit a second time changes nothing.
    """
    if not 0 < visit.at <= MAX_SECOND:
        msg = f"a visit of {visit.url} at second {visit.at} is outside 1970-2106"
        raise ValueError(msg)
    if visit.harvest is not None:
        remember_harvest(page, visit.harvest)
    if visit.digest and visit.news in {News.SEEN, News.REPEATED}:
        _add_digest(page, visit)
    if visit.news is News.REPEATED:
        return frozenset()
    if visit.news is not News.SEEN:
        _set_absent(page, visit)
        return frozenset()
    page.keeps_spells |= visit.keeps_spells
    shown_at = page.shown_at if page.keeps_spells else array("I")
    _add_rules(page, visit.at, visit.rules)
    new = frozenset[int]()
    if visit.marks is not None:
        new = (
            _merge_marks(page, visit.at, visit.marks, shown_at)
            if page.keeps_spells
            else _merge_links(page, visit, visit.marks)
        )
    if visit.at >= page.last_news:
        _set_present(page, visit.at)
        page.url = visit.url
        validators = visit.etag, visit.last_modified
        # an archive's capture of the second of a visit has none
        if visit.marks is not None and (visit.at != page.last_visit or any(validators)):
            page.etag, page.last_modified = validators
    _insert(page.visits, visit.at)
    _thin_visits(page)
    return new


def remember_echo(page: Page, at: int) -> None:
    """Remember that the update found at that second was not new to the site."""
    _insert(page.echoes, at)


def remember_harvest(page: Page, harvest: Harvest) -> None:
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
    """
    latest = max(page, other, key=_absence)
    shown = max(page, other, key=_appearance)
    result = replace(
        page,
        url=shown.url,
        visits=_union(page.visits, other.visits),
        digests=digests.union(page.digests, other.digests),
        contents=digests.union_of_contents(page.contents, other.contents),
        echoes=array("I", sorted({*page.echoes, *other.echoes})),
        marks_since=min(filter(None, (page.marks_since, other.marks_since)), default=0),
        last_news=latest.last_news,
        gone=latest.gone,
        failures=latest.failures,
        not_before=latest.not_before,
        etag=shown.etag,
        last_modified=shown.last_modified,
        harvests=page.harvests.copy(),
        rule_changes=rule_changes.union(
            *(rule_changes.marks(one.rule_changes, _times_of_rules(one)) for one in (page, other))
        ),
    )
    for harvest in other.harvests.values():
        known = result.harvests.get(harvest.source, harvest)
        furthest = max(known, harvest, key=lambda one: (one.until, one.digest))
        result.harvests[harvest.source] = furthest
    result.keeps_spells |= other.keeps_spells
    if result.keeps_spells:
        result.hrefs = 0
        marks = page.spells.shown_by(page.shown_at)
        _join_shown(marks, other.spells.shown_by(other.shown_at))
        _set_spells(result, {at: marks[at] for at in result.visits if at in marks})
    else:
        seen = page.sightings()
        _join(seen, other.sightings())
        _set_sightings(result, seen)
        result.hrefs = _hrefs_of(result, [(one.hrefs, one.last_shown()) for one in (page, other)])
    result.is_in_site = (page.is_in_site and other.is_in_site) or any(
        one.is_in_site and one.marks == result.marks for one in (page, other)
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


def _add_digest(page: Page, visit: Visit) -> None:
    repeats = visit.repeats or visit.news is News.REPEATED
    digests.add(page.digests, visit.at, visit.digest, repeats=repeats)
    if visit.news is News.SEEN:
        digests.add_content(page.contents, visit.digest)
    _see_repeated(page)


def _see_repeated(page: Page) -> None:
    """Take captures for visits that are now known to repeat what the page had."""
    for at in digests.repeated(page.digests, page.contents):
        if at > page.last_news or (at == page.last_news and (page.gone or page.failures)):
            _set_present(page, at)
        if at > (page.last_visit or 0):  # of which content the validators are is not known then
            page.etag = page.last_modified = ""
        _add_rules(page, at, rule_changes.UNKNOWN)
        _insert(page.visits, at)
    _thin_visits(page)
    page.digests = _thinned_digests(page.digests)


def _thinned_digests(pairs: array[int]) -> array[int]:
    times = pairs[::2]
    _thin(times)
    return pairs if 2 * len(times) == len(pairs) else digests.only(pairs, times)


def _set_present(page: Page, at: int) -> None:
    page.gone = page.failures = page.not_before = 0
    page.last_news = at


def _set_absent(page: Page, visit: Visit) -> None:
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
    latest, is_all = page.marks_until()
    if visit.at > latest and has_same_links(page.hrefs, visit.hrefs):
        page.hrefs = visit.hrefs
        page.last_seen = (
            array("I", [visit.at]) * len(page.last_seen)
            if is_all
            else array("I", [visit.at if at == latest else at for at in page.last_seen])
        )
        return frozenset()
    known = [(page.hrefs, page.last_shown())] if visit.at == latest else []
    new = _add_links(page, visit.at, shown)
    if shown and visit.at >= latest:
        page.hrefs = _hrefs_of(page, [*known, (visit.hrefs, (visit.at, shown))])
    return frozenset() if visit.at in page.baselines else new


def _hrefs_of(page: Page, candidates: list[tuple[int, tuple[int, frozenset[int]]]]) -> int:
    """Return which number of those found is that of the links that the page showed last, else 0."""
    if len(candidates) == 1:
        return candidates[0][0]
    together = page.last_shown()
    return max((hrefs for hrefs, shown in candidates if shown == together), default=0)


def _merge_marks(
    page: Page, at: int, shown: frozenset[int], shown_at: array[int]
) -> frozenset[int]:
    """Add what a visit showed; returns what the visit before it, of those `shown_at`, did not show."""
    page.hrefs = 0
    if shown_at and at <= shown_at[-1]:
        known = page.spells.shown_by(shown_at)
        _join_shown(known, {at: {*shown}})
        _set_spells(page, known)
        place = bisect_left(shown_at, at)
        gained = known[at] - known[shown_at[place - 1]] if place else set[int]()
    else:
        latest = shown_at[-1] if shown_at else 0
        gained = set(shown - page.spells.ending(latest))
        last = zip(page.marks, page.last_seen, strict=True)
        page.last_seen = array(
            "I", [at if until == latest and mark in shown else until for mark, until in last]
        )
        _append_run(page, at, gained)
        page.marks_since = page.marks_since or at
    is_baseline = at in page.baselines or at == page.marks_since
    return frozenset() if is_baseline else frozenset(gained)


def _join_shown(shown: MarksByVisit, others: MarksByVisit) -> None:
    for at, marks in others.items():
        shown.setdefault(at, set()).update(marks)


def _set_spells(page: Page, shown: MarksByVisit) -> None:
    page.runs, page.marks, page.last_seen = spells_of(shown)
    page.marks_since = min(shown, default=0)


def _add_rules(page: Page, at: int, rules: int) -> None:
    changes = page.rule_changes
    if rules == page.rules_at(at):
        return
    if at > max([0, *page.visits[-1:], *changes[-2:-1]]):
        changes.extend((at, rules))
    else:
        marks = rule_changes.marks(changes, _times_of_rules(page))
        page.rule_changes = rule_changes.union(marks, {at: rules})


def _times_of_rules(page: Page) -> set[int]:
    """Return the seconds whose rules are kept: those of visits, and of links that were new."""
    return {page.marks_since, *page.visits, *page.runs[::2]}


def _add_links(page: Page, at: int, shown: frozenset[int]) -> frozenset[int]:
    latest_run = page.runs[-2] if page.runs else 0
    if not page.marks_since:
        page.marks_since = at
        _append_run(page, at, shown)
        return frozenset()
    if at > latest_run and at > page.marks_since:
        new = shown.difference(page.marks)
        _see_again(page, at, shown)
        _append_run(page, at, new)
        return new
    return _merge_late_links(page, at, shown)


def _see_again(page: Page, at: int, shown: frozenset[int]) -> None:
    """Set when known links were seen last."""
    if shown.issuperset(page.marks) and at > page.marks_until()[0]:
        page.last_seen = array("I", [at]) * len(page.marks)
        return
    last = zip(page.marks, page.last_seen, strict=True)
    page.last_seen = array(
        "I", [at if mark in shown and before < at else before for mark, before in last]
    )


def _merge_late_links(page: Page, at: int, shown: frozenset[int]) -> frozenset[int]:
    """Merge links shown at or before a time at which links were first seen: rebuild the runs."""
    seen = page.sightings()
    earlier = [link for link, sightings in seen.items() if sightings.first < at]
    new = shown.difference(earlier)
    is_baseline = at <= page.marks_since
    page.marks_since = min(page.marks_since, at)
    _join(seen, dict.fromkeys(shown, Sightings(at, at)))
    _set_sightings(page, seen)
    return frozenset() if is_baseline else new


def _join(seen: dict[int, Sightings], others: Mapping[int, Sightings]) -> None:
    for link, sightings in others.items():
        known = seen.get(link)
        seen[link] = sightings if known is None else sightings.joined(known)


def _set_sightings(page: Page, seen: Mapping[int, Sightings]) -> None:
    # by first sight, and within that by link: the order in which they came makes no difference
    ordered = sorted((sightings.first, link, sightings.last) for link, sightings in seen.items())
    page.runs, page.marks, page.last_seen = array("I"), array("q"), array("I")
    page.marks.extend(link for _, link, _ in ordered)
    page.last_seen.extend(last for _, _, last in ordered)
    for first, group in groupby(ordered, itemgetter(0)):
        page.runs.extend((first, len(list(group))))


def _append_run(page: Page, at: int, links: Iterable[int]) -> None:
    """Add links that were seen for the first time, after all others."""
    ordered = sorted(links)
    if ordered:
        page.runs.extend((at, len(ordered)))
        page.marks.extend(ordered)
        page.last_seen.extend([at] * len(ordered))


def _insert(times: array[int], at: int) -> None:
    if not times or at > times[-1]:
        times.append(at)
    elif times[bisect_left(times, at)] != at:
        insort(times, at)


def _thin_visits(page: Page) -> None:
    if page.keeps_spells and len(page.visits) > RECENT_VISITS:
        _thin_spells(page)
    _thin(page.visits)
    changes = page.rule_changes
    if changes[2:] or changes[:1] != array("I", [page.marks_since]):
        times = _times_of_rules(page)
        if not times.issuperset(changes[::2]):
            page.rule_changes = rule_changes.encoded(rule_changes.marks(changes, times))


def _thin_spells(page: Page) -> None:
    """Leave of the spells what is shown by the visits that will be left."""
    shown_at, left = page.shown_at, page.visits[:]
    _thin(left)
    kept_times = set(left)
    spells = page.spells
    if any(
        at <= page.marks_since or spells.is_needed(at, following)
        for at, following in zip_longest(shown_at, shown_at[1:])
        if at not in kept_times
    ):
        _set_spells(page, spells.shown_by(array("I", (at for at in shown_at if at in kept_times))))


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

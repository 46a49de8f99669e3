"""How a visit changes its page, and how two states' versions of a page are merged.

The state of a page is a function of the *set* of its visits, not of the order in which they were
recorded, so that archived captures that arrive after live visits lead to the same state:

- of marks, all spells are kept in which the visits that are kept showed them (see `state.spells`);
- of the visits' times, the latest `RECENT_VISITS` are kept, of the older ones the last in every slot of
  `SLOT_SECONDS`, and the latest that showed marks. Thinning before or after a merge gives the same
  result, which is the record of a crawler with fewer visits: two gaps become one, and
  every estimator stays as unbiased as it was.

Digests that an archive's index names are kept for the same reason: whether a capture's content differed
from the capture before is only known when both are.

The outcome of attempts other than visits (gone, failed), the URL as seen and the validators follow the
latest news; older news is ignored. Of each archive's captures the page remembers up to which
one they were recorded, in the same write as their visits.

Whether an update was new to the site depends on the order in which visits come: it is judged by the
marks that the site's pages were known to show when the visit was recorded (see `state.site_links`).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from itertools import pairwise, zip_longest
from typing import Final

from msgspec.structs import replace

from hacs_crawler.state import digests, rule_changes
from hacs_crawler.state.page import Harvest, News, Page, Visit
from hacs_crawler.state.spells import MarksByVisit, spells_of
from hacs_crawler.utils.times import DAY, MAX_SECOND

RECENT_VISITS: Final = 128
SLOT_SECONDS: Final = 30 * DAY
FIRST_WAIT_GONE: Final = 7 * DAY
LONGEST_WAIT_GONE: Final = 365 * DAY


def merge(page: Page, visit: Visit) -> None:
    """Add a visit to its page, in place; adding it a second time changes nothing."""
    if not 0 < visit.at <= MAX_SECOND:
        msg = f"a visit of {visit.url} at second {visit.at} is outside 1970-2106"
        raise ValueError(msg)
    if visit.harvest is not None:
        remember_harvest(page, visit.harvest)
    if visit.digest and visit.news in {News.SEEN, News.REPEATED}:
        _add_digest(page, visit)
    if visit.news is News.REPEATED:
        return
    if visit.news is not News.SEEN:
        _set_absent(page, visit)
        return
    if visit.marks is None:
        _add_rules(page, visit.at, rule_changes.UNKNOWN)
    else:
        _add_marks(page, visit, visit.marks)
    if visit.at >= page.last_news:
        _set_present(page, visit.at)
        page.url = visit.url
        validators = visit.etag, visit.last_modified
        # an archive's capture of the second of a visit lacks them
        if visit.marks is not None and (visit.at != page.last_visit or any(validators)):
            page.etag, page.last_modified = validators
    _insert(page.visits, visit.at)
    _thin_visits(page)


def remember_echo(page: Page, at: int) -> None:
    """Remember that the update found at that second was not new to the site."""
    _insert(page.echoes, at)


def remember_harvest(page: Page, harvest: Harvest) -> None:
    """Remember how far a source's captures are recorded, unless it is known to be further already."""
    before = page.harvests.get(harvest.source)
    if before is None or harvest.until > before.until:
        page.harvests[harvest.source] = harvest
        page.harvests = dict(sorted(page.harvests.items()))


def merge_pages(page: Page, other: Page) -> Page:
    """Return the merged visits of two pages with one key; both stay as they are.

    It is the result of recording all their visits on one page, except that the outcome of unsuccessful
    attempts (gone, failures, waiting) is that of the page with the latest news, and URL and validators
    are those of the page with the latest visit. In whatever order and however often pages are merged,
    the result is the same, but for `rate`, `updates` and `version`, which are those of `page`, and for
    which spelling of the URL it has if the latest visit repeats a capture that only another page has.
    """
    latest = max(page, other, key=_absence)
    appeared = max(page, other, key=_appearance)
    shown = page.spells.shown_by(page.shown_at)
    for at, marks in other.spells.shown_by(other.shown_at).items():
        shown.setdefault(at, set()).update(marks)
    result = replace(
        page,
        url=appeared.url,
        visits=_union(page.visits, other.visits),
        digests=digests.union(page.digests, other.digests),
        contents=digests.union_of_contents(page.contents, other.contents),
        echoes=_union(page.echoes, other.echoes),
        unread=_union(page.unread, other.unread),
        last_news=latest.last_news,
        gone=latest.gone,
        failures=latest.failures,
        not_before=latest.not_before,
        etag=appeared.etag,
        last_modified=appeared.last_modified,
        hrefs=_hrefs_of([(max(side.shown_at, default=0), side.hrefs) for side in (page, other)]),
        harvests=page.harvests.copy(),
        rule_changes=rule_changes.union(
            *(rule_changes.marks(side.rule_changes, side.visits) for side in (page, other))
        ),
    )
    for harvest in other.harvests.values():
        before = result.harvests.get(harvest.source, harvest)
        furthest = max(before, harvest, key=lambda candidate: (candidate.until, candidate.digest))
        result.harvests[harvest.source] = furthest
    # equal pages have equal bytes
    result.harvests = dict(sorted(result.harvests.items()))
    result.periods, result.marks = spells_of(shown)
    result.is_in_site = (page.is_in_site and other.is_in_site) or any(
        side.is_in_site and side.marks == result.marks for side in (page, other)
    )
    _see_repeated(result)
    return result


def _absence(page: Page) -> tuple[int, bool, int, int, int]:
    """Return the outcome of the latest unsuccessful attempt, as a sort key."""
    is_seen = not (page.gone or page.failures)
    return page.last_news, is_seen, page.gone, page.failures, page.not_before


def _appearance(page: Page) -> tuple[int, str, str, str]:
    return page.last_visit or 0, page.etag, page.last_modified, page.url


def _union(times: array[int], others: array[int]) -> array[int]:
    return array("I", sorted({*times, *others}))


def _hrefs_of(candidates: list[tuple[int, int]]) -> int:
    """Return the number of the source at the latest second; 0 if there are several."""
    latest = max(at for at, _ in candidates)
    latest_hrefs = {hrefs for at, hrefs in candidates if at == latest}
    return latest_hrefs.pop() if len(latest_hrefs) == 1 else 0


def _add_digest(page: Page, visit: Visit) -> None:
    repeats = visit.repeats or visit.news is News.REPEATED
    digests.add(page.digests, visit.at, visit.digest, repeats=repeats)
    if visit.news is News.SEEN:
        digests.add_content(page.contents, visit.digest)
    _see_repeated(page)


def _see_repeated(page: Page) -> None:
    """Take captures for visits that are now known to repeat a content of the page."""
    for at in digests.repeated(page.digests, page.contents):
        if at > page.last_news or (at == page.last_news and (page.gone or page.failures)):
            _set_present(page, at)
        # of which content the validators are is not known then
        if at > (page.last_visit or 0):
            page.etag = page.last_modified = ""
        if page.visits[bisect_left(page.visits, at) :][:1] != array("I", [at]):
            _add_rules(page, at, rule_changes.UNKNOWN)
            _insert(page.visits, at)
    _thin_visits(page)
    times = page.digests[::2]
    _thin(times)
    if 2 * len(times) < len(page.digests):
        page.digests = digests.only(page.digests, times)


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


def _add_marks(page: Page, visit: Visit, marks: frozenset[int]) -> None:
    shown_at, at = page.shown_at, visit.at
    latest = shown_at[-1] if shown_at else 0
    if at > latest:
        page.periods, page.marks = page.spells.followed_by(at, marks, latest)
        page.hrefs = visit.hrefs
    else:
        shown: MarksByVisit = page.spells.shown_by(shown_at)
        shown.setdefault(at, set()).update(marks)
        page.periods, page.marks = spells_of(shown)
        page.hrefs = _hrefs_of([(latest, page.hrefs), (at, visit.hrefs)])
    _add_rules(page, at, visit.rules)


def _add_rules(page: Page, at: int, rules: int) -> None:
    changes = page.rule_changes
    if rules == page.rules_at(at):
        return
    if at > max([0, *page.visits[-1:], *changes[-2:-1]]):
        changes.extend((at, rules))
    else:
        rules_of = rule_changes.marks(changes, page.visits)
        page.rule_changes = rule_changes.union(rules_of, {at: rules})


def _insert(times: array[int], at: int) -> None:
    if not times or at > times[-1]:
        times.append(at)
    elif times[bisect_left(times, at)] != at:
        insort(times, at)


def _thin_visits(page: Page) -> None:
    """Thin the visits, and the data of each, to those that are kept."""
    if len(page.visits) <= RECENT_VISITS:
        return
    shown_at, kept = page.shown_at, page.visits[:]
    _thin(kept)
    # its marks hold for all visits since that were answered "not modified"
    if shown_at:
        _insert(kept, shown_at[-1])
    if len(kept) == len(page.visits):
        return
    page.visits, is_kept = kept, {*kept}
    spells = page.spells
    if any(
        at not in is_kept and spells.is_needed(at, following)
        for at, following in zip_longest(shown_at, shown_at[1:])
    ):
        shown = spells.shown_by(shown_at)
        page.periods, page.marks = spells_of({at: shown[at] for at in shown_at if at in is_kept})
    if not is_kept.issuperset(page.rule_changes[::2]):
        page.rule_changes = rule_changes.encoded(rule_changes.marks(page.rule_changes, kept))


def _thin(times: array[int]) -> None:
    """Drop old times that are not the last of their slot, in place."""
    old = len(times) - RECENT_VISITS
    if old <= 0:
        return
    # Which times stay depends on times alone, never on their outcomes: so the order in which
    # visits come makes no difference, and the rest is not skewed.
    kept = [
        at
        for at, following in pairwise(times[: old + 1])
        if at // SLOT_SECONDS != following // SLOT_SECONDS
    ]
    if len(kept) < old:
        times[:old] = array("I", kept)

"""How a visit changes its page, and how two states' versions of a page are merged.

The state of a page is a function of the *set* of its visits, not of the order in which they were
recorded, so that archived captures that arrive after live visits lead to the same state. Kept are the
latest `RECENT_VISITS` visits, the last older visit in every slot of `SLOT_SECONDS`, and the latest visit
that showed marks. Thinning before or after a merge gives the same result. The kept visits are the record
of a crawler that makes fewer visits, so thinning does not bias any estimator.

The outcome of other attempts (gone, failed), the spelling of the URL and the validators are those of the
latest attempt. Only `echoes` depend on the order in which visits are recorded (see `state.site_links`).
"""

from array import array
from collections.abc import Iterable
from itertools import pairwise
from typing import Final

from msgspec.structs import replace

from hacs_crawler.state import digests
from hacs_crawler.state.page import News, Page, Visit
from hacs_crawler.state.rule_changes import UNKNOWN
from hacs_crawler.state.spells import MarksByVisit
from hacs_crawler.utils.times import DAY, MAX_SECOND

RECENT_VISITS: Final = 128
SLOT_SECONDS: Final = 30 * DAY
FIRST_WAIT_GONE: Final = 7 * DAY
LONGEST_WAIT_GONE: Final = 365 * DAY


def merge(page: Page, visit: Visit) -> None:
    """Add a visit to its page, in place; adding it a second time changes nothing."""
    if not 0 < visit.at <= MAX_SECOND:
        raise ValueError(f"a visit of {visit.url} at second {visit.at} is outside 1970-2106")
    if visit.harvest is not None:
        latest = sorted([*page.harvests.values(), visit.harvest])
        page.harvests = {harvest.source: harvest for harvest in latest}
    if visit.digest and visit.news in {News.SEEN, News.REPEATED}:
        mark = visit.digest << 1 | (visit.repeats or visit.news is News.REPEATED)
        page.digests = digests.union(page.digests, {visit.at: mark})
        if visit.news is News.SEEN:
            page.contents = digests.union_of_contents(page.contents, [visit.digest])
        _add_repeated(page)
    if visit.news is not News.SEEN:
        if visit.news is News.REPEATED or visit.at <= page.last_news:
            return
        page.last_news = visit.at
        # both counts are kept in a byte
        if visit.news is News.GONE:
            wait = min(FIRST_WAIT_GONE << min(page.gone, 10), LONGEST_WAIT_GONE)
            page.gone, page.failures = min(page.gone + 1, 255), 0
            page.not_before = min(visit.at + wait, MAX_SECOND)
        else:
            page.failures = min(page.failures + 1, 255)
        return
    if visit.at >= page.last_news:
        _set_present(page, visit.at)
        page.url = visit.url
        validators = visit.etag, visit.last_modified
        # an archive's capture from the same second as a visit lacks them
        if visit.marks is not None and (visit.at != page.last_visit or any(validators)):
            page.etag, page.last_modified = validators
    _add_seen(page, visit)


def merge_pages(page: Page, other: Page) -> Page:
    """Return the merger of two records of a page; both stay as they are.

    The result is as if all visits had been recorded on one page, except that the outcome of unsuccessful
    attempts is that of the page with the latest attempt, and URL and validators are those of the page
    with the latest visit. It does not depend on the order and number of mergers, with two exceptions:
    estimates, `updates` and `version` are those of `page`; and the spelling of the URL may differ if the
    latest visit repeats a capture that only one of the pages has.
    """
    latest = max(
        page,
        other,
        key=lambda p: (p.last_news, not (p.gone or p.failures), p.gone, p.failures, p.not_before),
    )
    appeared = max(page, other, key=lambda p: (p.last_visit or 0, p.etag, p.last_modified, p.url))
    harvests = sorted([*page.harvests.values(), *other.harvests.values()])
    result = replace(
        page,
        url=appeared.url,
        digests=digests.union(page.digests, other.digests),
        contents=digests.union_of_contents(page.contents, other.contents),
        echoes=thinned([*page.echoes, *other.echoes]),
        unread=thinned([*page.unread, *other.unread]),
        last_news=latest.last_news,
        gone=latest.gone,
        failures=latest.failures,
        not_before=latest.not_before,
        etag=appeared.etag,
        last_modified=appeared.last_modified,
        harvests={harvest.source: harvest for harvest in harvests},
    )
    _add(result, *other.by_visit(), other.hrefs)
    result.is_in_site = (page.is_in_site and other.is_in_site) or any(
        side.is_in_site and side.spells.marks == result.spells.marks for side in (page, other)
    )
    _add_repeated(result)
    return result


def _add_repeated(page: Page) -> None:
    """Count captures as visits if they are now known to repeat a content of the page."""
    if repeated := digests.repeated(page.digests, page.contents):
        if repeated[-1] >= page.last_news:
            _set_present(page, repeated[-1])
        # it is not known which content the validators belong to
        if repeated[-1] > (page.last_visit or 0):
            page.etag = page.last_modified = ""
        _add(page, {}, dict.fromkeys(repeated, UNKNOWN), 0)
    page.digests = {at: page.digests[at] for at in thinned(page.digests)}


def _set_present(page: Page, at: int) -> None:
    page.gone = page.failures = page.not_before = 0
    page.last_news = at


def _add_seen(page: Page, visit: Visit) -> None:
    """Add a visit that saw the page; the latest one is appended, without decoding the others."""
    rules, at = UNKNOWN if visit.marks is None else visit.rules, visit.at
    if at <= (page.last_visit or 0):
        shown = {} if visit.marks is None else {at: visit.marks}
        _add(page, shown, {at: rules}, visit.hrefs)
        return
    if visit.marks is not None:
        before = page.spells.shown_last()
        if visit.marks is not before and visit.marks != before:
            latest = next(reversed(page.shown_at), 0)
            page.spells = page.spells.followed_by(at, visit.marks, latest)
        page.hrefs = visit.hrefs
    if rules != next(reversed(page.rule_changes.values()), UNKNOWN):
        page.rule_changes = {**page.rule_changes, at: rules}
    page.visits = page.visits + array("I", [at])
    if len(page.visits) > RECENT_VISITS:
        _add(page, {}, {}, 0)


def _add(page: Page, marks: MarksByVisit, rules: dict[int, int], hrefs: int) -> None:
    """Add visits, in the form of `Page.by_visit`, and the source of the latest marks."""
    marks_of, rules_of = page.by_visit()
    before, latest = max(marks_of, default=0), max(marks, default=0)
    if latest > before:
        page.hrefs = hrefs
    elif latest == before and hrefs != page.hrefs:
        page.hrefs = 0
    for at, shown in marks.items():
        marks_of[at] = marks_of.get(at, frozenset()) | shown
    for at, rule in rules.items():
        rules_of[at] = max(rule, rules_of.get(at, UNKNOWN))
    # the latest marks hold for all visits since that were answered "not modified"
    kept = {*thinned(rules_of), max(before, latest)}
    page.set_visits(
        {at: shown for at, shown in marks_of.items() if at in kept},
        {at: rule for at, rule in rules_of.items() if at in kept},
    )


def thinned(times: Iterable[int]) -> list[int]:
    """Return the recent times, and of the older ones the last in each slot; ascending."""
    ordered = sorted({*times})
    old = max(len(ordered) - RECENT_VISITS, 0)
    # by times, never by outcomes: the order of recording does not matter, and estimates are not biased
    kept = (
        at
        for at, following in pairwise(ordered[: old + 1])
        if at // SLOT_SECONDS != following // SLOT_SECONDS
    )
    return [*kept, *ordered[old:]]

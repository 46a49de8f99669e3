"""By which rules the links of a page's visits were taken, and which visits are baselines therefore.

What counts as a link is up to settings and to this package's version. Where two visits that follow each
other went by different rules, links that only the second one shows may have been there all the time: it
tells neither of an update nor of a quiet page, and what it shows is known from then on, as on a first
visit. Kept are pairs of numbers in the order of time: the second of a visit whose rules are not those
of the visit before it, and its rules (`LinkRules.fingerprint`; `UNKNOWN` before the first pair). Visits
that show no links have no rules, and a pair of their own with `NO_LINKS`: a visit by other rules may be
recorded later that was before them.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Container, Iterable, Iterator, Mapping
from itertools import chain
from typing import Final

UNKNOWN: Final = 0
"""The rules of visits of which they are not known."""
NO_LINKS: Final = 2**32 - 1
"""In the place of the rules of a visit that showed no links."""


def baselines(changes: array[int], links_since: int) -> array[int]:
    """Return the seconds of the visits whose rules are not those of the visit before them.

    That before which no links were known, at `links_since`, is a baseline anyway and not among them.
    """
    times = _with_rules(changes)[::2]
    return times[1:] if times and times[0] <= links_since else times


def with_visit(
    changes: array[int], visits: array[int], links_since: int, at: int, rules: int
) -> array[int]:
    """Return the pairs with those of a visit at second `at` that showed links by `rules`, or `NO_LINKS`.

    `visits` are the page's, with or without this one, `links_since` is the first that showed links, 0
    for none. Of two visits in one second the greater rules count.
    """
    is_last = at > (visits[-1] if visits else 0)
    if rules == NO_LINKS:
        if is_last:
            return changes + array("I", [at, rules])
        if at in visits:
            return changes
    elif is_last or (changes and at > changes[-2]):
        latest = _with_rules(changes)[-1:] or array("I", [UNKNOWN])
        if rules == latest[0]:
            return changes
        if is_last:
            return changes + array("I", [at, rules])
    return union(marks(changes, visits, links_since), {at: rules})


def marks(changes: array[int], visits: Iterable[int], links_since: int) -> dict[int, int]:
    """Return the rules of each visit that may have shown links, `NO_LINKS` of others, by its second."""
    known = _with_rules(changes)
    times, rules = known[::2], array("I", [UNKNOWN]) + known[1::2]
    found = {
        at: rules[bisect_right(times, at)]
        for at in {*visits, *times}
        if links_since and at >= links_since
    }
    return found | {at: NO_LINKS for at, of_visit in _pairs(changes) if of_visit == NO_LINKS}


def union(marks: Mapping[int, int], others: Mapping[int, int]) -> array[int]:
    """Return the pairs of visits of which these are the marks."""
    joined = {**others, **marks}
    for at in marks.keys() & others.keys():
        shown = {marks[at], others[at]} - {NO_LINKS}
        joined[at] = max(shown, default=NO_LINKS)
    pairs = array("I")
    latest = UNKNOWN
    for at, rules in sorted(joined.items()):
        if rules != latest:
            pairs.extend((at, rules))
        if rules != NO_LINKS:
            latest = rules
    return pairs


def thinned(changes: array[int], visits: Container[int]) -> array[int]:
    """Return the pairs without those of visits without links that are not among the page's any more."""
    return _of(pair for pair in _pairs(changes) if pair[1] != NO_LINKS or pair[0] in visits)


def _with_rules(changes: array[int]) -> array[int]:
    if NO_LINKS not in changes[1::2]:
        return changes
    return _of(pair for pair in _pairs(changes) if pair[1] != NO_LINKS)


def _pairs(changes: array[int]) -> Iterator[tuple[int, int]]:
    return zip(changes[::2], changes[1::2], strict=True)


def _of(pairs: Iterable[tuple[int, int]]) -> array[int]:
    return array("I", chain.from_iterable(pairs))


def until(changes: array[int], second: int) -> array[int]:
    """Return the pairs up to a second, included."""
    return changes[: 2 * bisect_right(changes[::2], second)]

"""By which rules the links of a page's visits were taken, and which visits are baselines therefore.

What counts as a link is up to settings and to this package's version. Where two visits that follow each
other went by different rules, links that only the second one shows may have been there all the time: it
tells neither of an update nor of a quiet page, and what it shows is known from then on, as on a first
visit. Kept are pairs of numbers in the order of time: the second of a visit whose rules are not those
of the visit before it, and its rules (`LinkRules.fingerprint`; `UNKNOWN` before the first pair). Visits
that show no links count as taken by the rules of the visit before them.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import Final

UNKNOWN: Final = 0
"""The rules of visits of which they are not known."""


def baselines(changes: array[int], links_since: int) -> array[int]:
    """Return the seconds of the visits whose rules are not those of the visit before them.

    That before which no links were known, at `links_since`, is a baseline anyway and not among them.
    """
    times = changes[::2]
    return times[1:] if times and times[0] <= links_since else times


def with_visit(
    changes: array[int], visits: array[int], links_since: int, at: int, rules: int
) -> array[int]:
    """Return the pairs with those of a visit at second `at` that showed links by `rules`.

    `visits` are the page's, with or without this one, `links_since` is the first that showed links, 0
    for none. Of two visits in one second the greater rules count.
    """
    if at > (visits[-1] if visits else 0) or (changes and at >= changes[-2]):
        latest = changes[-1] if changes else UNKNOWN
        if rules == latest:
            return changes
        if not visits or at > visits[-1]:
            return changes + array("I", [at, rules])
    return union(marks(changes, visits, links_since), {at: rules})


def marks(changes: array[int], visits: Iterable[int], links_since: int) -> dict[int, int]:
    """Return the rules of each visit that may have shown links, by its second."""
    times = changes[::2]
    rules = array("I", [UNKNOWN]) + changes[1::2]
    shown = {*visits, *times}
    return {at: rules[bisect_right(times, at)] for at in shown if links_since and at >= links_since}


def union(marks: Mapping[int, int], others: Mapping[int, int]) -> array[int]:
    """Return the pairs of visits of which these are the marks."""
    joined = {at: max(rules, others.get(at, UNKNOWN)) for at, rules in marks.items()}
    pairs = array("I")
    latest = UNKNOWN
    for at, rules in sorted({**others, **joined}.items()):
        if rules != latest:
            latest = rules
            pairs.extend((at, rules))
    return pairs


def until(changes: array[int], second: int) -> array[int]:
    """Return the pairs up to a second, included."""
    return changes[: 2 * bisect_right(changes[::2], second)]

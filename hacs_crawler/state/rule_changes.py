"""By which rules the links of a page's visits were taken, and which visits are baselines therefore.

What counts as a link is up to settings and to this package's version. Where two visits that follow each
other went by different rules, links that only the second one shows may have been there all the time: it
tells neither of an update nor of a quiet page, and what it shows is known from then on, as on a first
visit. Visits without known rules, such as those that showed no marks, are passed over: the rules of
two visits are compared across them.

Kept are pairs of numbers in the order of time: the second of a visit whose rules are not those of the
visit before it, and its rules (`LinkRules.fingerprint`, or `UNKNOWN`, as before the first pair).
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import Final

UNKNOWN: Final = 0
"""The rules of a visit where they are not known."""
_APART: Final = 2**32 - 1
"""Greater than the rules of any visit, so that it is these that count; see `union`."""


def baselines(changes: array[int], marks_since: int) -> array[int]:
    """Return the seconds of the visits whose rules differ from those of the visit before.

    That before which no marks were known, at `marks_since`, is a baseline anyway and not among them.
    """
    pairs = zip(changes[::2], changes[1::2], strict=True)
    times = encoded({at: rules for at, rules in pairs if rules != UNKNOWN})[::2]
    return times[1:] if times and times[0] <= marks_since else times


def marks(changes: array[int], times: Iterable[int]) -> dict[int, int]:
    """Return the rules of visits by their seconds."""
    seconds, rules = changes[::2], array("I", [UNKNOWN]) + changes[1::2]
    return {at: rules[bisect_right(seconds, at)] for at in times}


def encoded(marks: Mapping[int, int]) -> array[int]:
    """Return the pairs of visits whose rules these are, by their seconds."""
    pairs = array("I")
    latest = UNKNOWN
    for at, rules in sorted(marks.items()):
        if rules != latest:
            latest = rules
            pairs.extend((at, rules))
    return pairs


def apart(times: Iterable[int]) -> array[int]:
    """Return pairs by which each of the visits of some seconds is a baseline."""
    return encoded({at: _APART - number % 2 for number, at in enumerate(sorted(times))})


def union(marks: Mapping[int, int], more: Mapping[int, int]) -> array[int]:
    """Return the pairs of the visits of both; of two in one second the greater rules count."""
    joined = {at: max(rules, more.get(at, UNKNOWN)) for at, rules in marks.items()}
    return encoded({**more, **joined})


def until(changes: array[int], second: int) -> array[int]:
    """Return the pairs up to a second, included."""
    return changes[: 2 * bisect_right(changes[::2], second)]

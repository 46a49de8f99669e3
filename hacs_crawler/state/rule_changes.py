"""The rules by which the marks of a page's visits were taken, and the baselines that follow from them.

Settings and this package's version define a link. If two consecutive visits followed
different rules, marks that only the second one shows may have been there all the time: it
is evidence neither of an update nor of a quiet page, and its marks are known from then on, as on a
first visit. Visits without known rules, such as those that showed no marks, are skipped: the rules of
two visits are compared across them.

Kept are pairs of numbers in the order of time: the second of a visit whose rules are not those of the
visit before it, and its rules (`LinkRules.fingerprint`, or `UNKNOWN`, as before the first pair). Rules
by which other marks than links are watched are odd (`CHOSEN`); `ITEMS` are items, which no control
visit shows, as their callback is not called twice.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from typing import Final

# The rules of a visit that showed no marks.
UNKNOWN: Final = 0
# The bit of rules by which something else than links is watched.
CHOSEN: Final = 1
# The bits of rules by which items are watched.
ITEMS: Final = 3
# The rules of a visit that showed marks, if they are not known: links, by rules of their own.
UNNAMED: Final = 2


def latest(changes: array[int]) -> int:
    """Return the rules of the latest visit that showed marks, `UNKNOWN` without one."""
    return next((rules for rules in changes[-1:-4:-2] if rules != UNKNOWN), UNKNOWN)


def is_of_items(rules: int) -> bool:
    """Whether rules are those of the items that a callback yields."""
    return rules & ITEMS == ITEMS


def noun_of(rules: int) -> str:
    """Return what is watched by rules, in a word."""
    return "item" if is_of_items(rules) else "mark" if rules & CHOSEN else "link"


def baselines(changes: array[int]) -> array[int]:
    """Return the seconds of the visits whose rules differ from those of the visit before.

    The first visit that showed marks is a baseline anyway, and not among them.
    """
    pairs = zip(changes[::2], changes[1::2], strict=True)
    return encoded({at: rules for at, rules in pairs if rules != UNKNOWN})[2::2]


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


def union(marks: Mapping[int, int], more: Mapping[int, int]) -> array[int]:
    """Return the pairs of the visits of both; of two in one second the greater rules count."""
    joined = {at: max(rules, more.get(at, UNKNOWN)) for at, rules in marks.items()}
    return encoded({**more, **joined})


def until(changes: array[int], second: int) -> array[int]:
    """Return the pairs up to a second, included."""
    return changes[: 2 * bisect_right(changes[::2], second)]

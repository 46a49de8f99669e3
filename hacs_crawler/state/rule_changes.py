"""The rules by which the marks of a page's visits were taken, and the baselines that follow from them.

Settings and this package's version define a link. If two consecutive visits followed
different rules, marks that only the second one shows may have been there all the time: it
is evidence neither of an update nor of a quiet page, and its marks are known from then on, as on a
first visit. Visits without known rules, such as those that showed no marks, are skipped: the rules of
two visits are compared across them.

Kept are the rules (`LinkRules.fingerprint`, or `UNKNOWN`, as before the first) of each visit whose
rules are not those of the visit before it, by the visit's second, ascending. Rules
by which other marks than links are watched are odd (`CHOSEN`); `ITEMS` are items, which no control
visit shows, as their callback is not called twice.
"""

from __future__ import annotations

from array import array
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


def is_of_items(rules: int) -> bool:
    """Whether rules are those of the items that a callback yields."""
    return rules & ITEMS == ITEMS


def noun_of(rules: int) -> str:
    """Return what is watched by rules, in a word."""
    return "item" if is_of_items(rules) else "mark" if rules & CHOSEN else "link"


def baselines(changes: Mapping[int, int]) -> array[int]:
    """Return the seconds of the visits whose rules differ from those of the visit before.

    The first visit that showed marks is a baseline anyway, and not among them.
    """
    known = changes_of({at: rules for at, rules in changes.items() if rules != UNKNOWN})
    return array("I", known)[1:]


def rules_of(changes: Mapping[int, int], visits: Iterable[int]) -> dict[int, int]:
    """Return the rules of visits by their seconds; `visits` are all that are kept, ascending."""
    rules: dict[int, int] = {}
    latest = UNKNOWN
    for at in visits:
        rules[at] = latest = changes.get(at, latest)
    return rules


def changes_of(rules: Mapping[int, int]) -> dict[int, int]:
    """Return the changes of visits whose rules these are, by their seconds."""
    changes: dict[int, int] = {}
    latest = UNKNOWN
    for at in sorted(rules):
        if rules[at] != latest:
            changes[at] = latest = rules[at]
    return changes

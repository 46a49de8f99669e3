"""The rules by which marks were taken at a page's visits, and the baselines that follow from them.

Settings and this package's version define a link. If the rules changed between two visits, marks that
only the second one shows may have been there before: it is evidence neither of an update nor of a quiet
page, and its marks are known from then on, as on a first visit. Visits without known rules, such as
those that showed no marks, are skipped in this comparison.

Kept are the rules (`LinkRules.fingerprint` or `UNKNOWN`) of each visit whose rules differ from those of
the visit before it (before the first visit: `UNKNOWN`), by the visit's second, ascending. Rules for
marks other than links are odd (`CHOSEN`). `ITEMS` stands for items, which control visits do not show
because callbacks are not called for them.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from typing import Final

# The rules of a visit that showed no marks.
UNKNOWN: Final = 0
# The bit of rules for marks other than links.
CHOSEN: Final = 1
# The bits of rules for items.
ITEMS: Final = 3
# The rules of a visit that showed links by rules that are not known.
UNNAMED: Final = 2


def is_of_items(rules: int) -> bool:
    """Whether rules are for the items that a callback yields."""
    return rules & ITEMS == ITEMS


def noun_of(rules: int) -> str:
    """Return the word for the marks that rules are for."""
    return "item" if is_of_items(rules) else "mark" if rules & CHOSEN else "link"


def baselines(changes: Mapping[int, int]) -> array[int]:
    """Return the seconds of the visits whose rules differ from those of the visit before.

    The first visit that showed marks, always a baseline, is not among them.
    """
    known = changes_of({at: rules for at, rules in changes.items() if rules != UNKNOWN})
    return array("I", known)[1:]


def rules_of(changes: Mapping[int, int], visits: Iterable[int]) -> dict[int, int]:
    """Return the rules of all kept visits (seconds, ascending), by second."""
    rules: dict[int, int] = {}
    latest = UNKNOWN
    for at in visits:
        rules[at] = latest = changes.get(at, latest)
    return rules


def changes_of(rules: Mapping[int, int]) -> dict[int, int]:
    """Return the rules at which they changed, by second; the inverse of `rules_of`."""
    changes: dict[int, int] = {}
    latest = UNKNOWN
    for at in sorted(rules):
        if rules[at] != latest:
            changes[at] = latest = rules[at]
    return changes

"""Visits that did not show the page, judged by its other visits: a block page, a login, half a page.

A visit is *unlike* the visit before it if it shows hardly any of that visit's marks: none at all,
or much fewer with few in their place. It is doubted until the next visit, or the visit after that if it
showed few marks in place of the missing ones. If most of the missing marks are back by then, the visits
in between did not show the page, and are left out. Otherwise the page was replaced as a whole: the visit
stays, and its update is dated when a visit confirmed it. If the page is back after a few visits,
all of these are left out after all. A page that is replaced at each visit, such as a list of today's
offers, is not doubted a second time.

The judgement follows from the marks of the visits: the order in which they are recorded does not matter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from itertools import pairwise, takewhile
from typing import Final

from hacs_crawler.state.spells import OPEN, MarksByVisit, Spells

# What a page with fewer shows, such as a price, may be replaced as a whole by an ordinary update.
FEWEST_MARKS: Final = 5
# The same of links, of which an update brings some and leaves others.
FEWEST_LINKS: Final = 2
# A visit that misses as many marks, with few in their place, may show half of its page.
FEWEST_GONE: Final = 3
# A page that is back after more visits than this was replaced, and replaced again.
MOST_AWAY: Final = 5


def may_mislead(spells: Spells, visits: Sequence[int], fewest: int) -> bool:
    """Whether any visit may be unlike the visit before it; decided by counts alone."""
    periods = spells.periods
    ended: Counter[int] = Counter()
    begun: Counter[int] = Counter()
    for first, last, number in zip(*[iter(periods)] * 3, strict=True):
        begun[first] += number
        if last != OPEN:
            ended[last] += number
    if not ended:
        return False
    shown = 0
    for before, at in pairwise(visits):
        shown += begun[before]
        if (gone := ended[before]) and _is_unlike(shown, gone, begun[at], fewest):
            return True
        shown -= gone
    return False


def judged(shown: MarksByVisit, baselines: Container[int], fewest: int) -> MarksByVisit:
    """Return the marks of the visits, without visits that did not show the page.

    A visit that waits for confirmation is left out. A confirmed one counts from the visit that
    confirmed it: until then its marks are replaced by those of the visit before it.
    """
    times = sorted(shown)
    kept: MarksByVisit = {}
    before: frozenset[int] | None = None
    is_new = False
    index = 0
    while index < len(times):
        marks = shown[times[index]]
        can_differ = before is not None and times[index] not in baselines
        is_unlike = can_differ and before is not None and _are_unlike(before, marks, fewest)
        if is_unlike and before is not None and not is_new:
            missed = before - marks
            following = [
                shown[at]
                for at in takewhile(lambda at: at not in baselines, times[index + 1 :][:MOST_AWAY])
            ]
            away = next((n for n, now in enumerate(following, 1) if _is_back(missed, now)), 0)
            is_little = 2 * len(marks - before) <= len(missed)
            confirmations = 2 if is_little else 1
            if away or len(following) < confirmations:
                index += away or 1 + len(following)
                continue
            for at in times[index : index + confirmations]:
                kept[at] = before
            index += confirmations
            marks = shown[times[index]]
            is_unlike = _are_unlike(shown[times[index - 1]], marks, fewest)
        kept[times[index]] = marks
        before, is_new = marks, is_unlike
        index += 1
    return kept


def _is_back(missed: frozenset[int], marks: frozenset[int]) -> bool:
    return 2 * len(missed & marks) > len(missed)


def _are_unlike(before: frozenset[int], after: frozenset[int], fewest: int) -> bool:
    return _is_unlike(len(before), len(before - after), len(after - before), fewest)


def _is_unlike(shown: int, gone: int, come: int, fewest: int) -> bool:
    """Whether a visit is unlike the last, of whose `shown` marks `gone` are missing; `come` are new."""
    if shown < fewest:
        return False
    return gone == shown or (gone >= FEWEST_GONE and 4 * gone >= shown and 2 * come <= gone)

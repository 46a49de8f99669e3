"""Which visits did not show the page, as its other visits tell: a block page, a login, half a page.

A visit is *unlike* the one before it if it shows hardly anything of what that one did: nothing at all,
or much less with little in its place. It is doubted until the next visit: if most of what it did not
show is there again, it was not the page, and is left out. Else the page was replaced as a whole: the
visit stays, and what it brought is dated when the next one confirmed it. A page that is replaced at each
visit, as a list of today's offers, is not doubted a second time.

All of it follows from what the visits showed: the order in which they are recorded does not matter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from itertools import pairwise
from typing import Final

from hacs_crawler.state.spells import OPEN, MarksByVisit, Spells

FEWEST_MARKS: Final = 5
"""What a page with fewer shows, such as a price, may be replaced as a whole by an ordinary update."""
FEWEST_LINKS: Final = 2
"""The same of links, of which an update brings some and leaves others."""


def may_mislead(spells: Spells, visits: Sequence[int], fewest: int) -> bool:
    """Whether any visit is unlike the one before it; counts alone tell that it is not."""
    periods = spells.periods
    if len(periods) <= 3 or len(visits) < 2:
        return False
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
    """Return what the visits showed of the page, without those that did not show it.

    A visit that waits to be confirmed is left out, and a confirmed one is said to have shown what the
    visit before it did.
    """
    times = sorted(shown)
    kept: MarksByVisit = {}
    before: set[int] | None = None
    is_new = False
    for place, at in enumerate(times):
        marks = shown[at]
        is_unlike = (
            before is not None and at not in baselines and _are_unlike(before, marks, fewest)
        )
        if before is not None and is_unlike and not is_new:
            following = times[place + 1 : place + 2]
            missed = before - marks
            if not following or 2 * len(missed & shown[following[0]]) > len(missed):
                continue
            kept[at] = before
        else:
            kept[at] = marks
        before, is_new = marks, is_unlike
    return kept


def _are_unlike(before: set[int], after: set[int], fewest: int) -> bool:
    return _is_unlike(len(before), len(before - after), len(after - before), fewest)


def _is_unlike(shown: int, gone: int, come: int, fewest: int) -> bool:
    """Whether a visit is unlike the one before it, which showed so many marks, by how many it shares."""
    if shown < fewest:
        return False
    return gone == shown or (gone >= FEWEST_MARKS and 4 * gone >= shown and 2 * come <= gone)

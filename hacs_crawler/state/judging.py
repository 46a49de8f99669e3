"""Visits that did not show the page, judged by its other visits: a block page, a login, half a page.

A visit is *unlike* the visit before it if it shows none of that visit's links, or hardly any of its
other marks, or much fewer with few in their place. It is doubted until the next visit, or the visit
after that if it showed few marks in place of the missing ones. If most of the missing marks are back by
then, the visits in between did not show the page, and are left out. Otherwise the page was replaced as a
whole: the visit stays, and its update is dated when a visit confirmed it. If the page is back after a
few visits, all of these are left out after all. A page that is replaced at each visit, such as a list of
today's offers, is not doubted a second time. Pages keep the links of their site's frame whatever they
show: visits that showed other links for a quarter of a page's are left out if a later one takes that
back. If the first visit, or the first two, showed little, the next one much and hardly anything of that,
and no later visit shows it again, these were not the page.

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
# A visit that misses as many marks, with few in their place, may show a part of its page.
FEWEST_GONE: Final = 3
# A page that is back after more visits than this was replaced, and replaced again.
MOST_AWAY: Final = 5
# After more first visits that showed the same little, this was the page.
MOST_FIRST: Final = 2
# A page of fewer marks may have shown little at first; a selection's text of four blocks is one mark.
FEWEST_AFTER_FIRST: Final = 6


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
    for index, (before, at) in enumerate(pairwise(visits)):
        shown += begun[before]
        if gone := ended[before]:
            come = begun[at]
            if _is_unlike(shown, gone, come, fewest) or (
                index < MOST_FIRST and _is_little(shown, gone, come)
            ):
                return True
            # only marks that came back have two spells
            if _is_part(shown, gone, fewest) and len({*spells.marks}) < len(spells.marks):
                return True
        shown -= gone
    return False


def judged(shown: MarksByVisit, baselines: Container[int], fewest: int) -> MarksByVisit:
    """Return the marks of the visits, without visits that did not show the page.

    A visit that waits for confirmation is left out. A confirmed one counts from the visit that
    confirmed it: until then its marks are replaced by those of the visit before it.
    """
    times = sorted(shown)
    start = next((n for n, at in enumerate(times) if shown[at] != shown[times[0]]), 0)
    if 0 < start <= MOST_FIRST and not any(at in baselines for at in times[1 : start + 1]):
        first, second, *others = (shown[at] for at in times[start - 1 :][: 2 + MOST_AWAY])
        if _is_little(len(first), len(first - second), len(second - first)) and not any(
            _is_back(first, marks) for marks in others
        ):
            del times[:start]
    kept: MarksByVisit = {}
    before = frozenset[int]()
    is_new = False
    index = 0
    while index < len(times):
        marks = shown[times[index]]
        missed, come = before - marks, marks - before
        can_differ = bool(kept) and times[index] not in baselines
        is_unlike = can_differ and _is_unlike(len(before), len(missed), len(come), fewest)
        is_doubtful = is_unlike and not is_new
        if is_doubtful or (can_differ and _is_part(len(before), len(missed), fewest)):
            following = [
                shown[at]
                for at in takewhile(lambda at: at not in baselines, times[index + 1 :][:MOST_AWAY])
            ]
            away = next(
                (
                    number
                    for number, now in enumerate(following, 1)
                    if _is_back(missed, now) and (is_doubtful or not _is_back(come, now))
                ),
                0,
            )
            is_little = 2 * len(come) <= len(missed)
            confirmations = is_doubtful + (is_doubtful and is_little)
            if away or len(following) < confirmations:
                index += away or 1 + len(following)
                continue
            for at in times[index : index + confirmations]:
                kept[at] = before
            index += confirmations
            if confirmations:
                earlier, marks = shown[times[index - 1]], shown[times[index]]
                gone, come = earlier - marks, marks - earlier
                is_unlike = _is_unlike(len(earlier), len(gone), len(come), fewest)
        kept[times[index]] = marks
        before, is_new = marks, is_unlike
        index += 1
    return kept


def _is_back(missed: frozenset[int], marks: frozenset[int]) -> bool:
    return 2 * len(missed & marks) > len(missed)


def _is_unlike(shown: int, gone: int, come: int, fewest: int) -> bool:
    """Whether a visit is unlike the last, of whose `shown` marks `gone` are missing; `come` are new."""
    if shown < fewest:
        return False
    # links of a menu stay if all entries of a list are others, and this is no block page
    if gone == shown or (fewest != FEWEST_LINKS and 8 * gone >= 7 * shown):
        return True
    return gone >= FEWEST_GONE and 4 * gone >= shown and 2 * come <= gone


def _is_part(shown: int, gone: int, fewest: int) -> bool:
    """Whether a quarter of the links are missing, whatever came in their place."""
    return fewest == FEWEST_LINKS and gone >= FEWEST_GONE and 4 * gone >= shown


def _is_little(shown: int, gone: int, come: int) -> bool:
    """Whether a first visit showed little, and the second much, and hardly anything of the first."""
    return 2 * gone > shown and come >= max(FEWEST_AFTER_FIRST, 2 * shown)

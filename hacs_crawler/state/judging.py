"""Visits that did not show the page, judged by its other visits: a block page, a login, half a page.

A visit is *unlike* the visit before it if all links of that visit are missing, or nearly all its other
marks, or many of them with few new ones in their place. An unlike visit is doubted until the next visit
(until the one after that, if it showed few new marks, and the next visit does not show the same). If
most of the missing marks are back by then, the visits in between did not show the page. Otherwise the
page was replaced as a whole, and the update is dated by the visit that confirmed it. In both cases the
visits in between are left out: when the page was replaced is not known. If the page is back within
`MOST_AWAY` visits, all visits since are left out after all. A page that is replaced at every visit, such
as a list of today's offers, is not doubted a second time.

Two more cases: even a block page may have the links of the site's frame, so if a quarter of a page's
links are replaced and a later visit undoes that, the visits in between are left out. And if the first
one or two visits showed little, the next one much, with hardly any of the same marks, and no later visit
that is the page's shows the first marks again, then the first visits did not show the page.

The judgement is computed from the set of visits: the order in which they are recorded does not matter.
"""

from collections import defaultdict
from collections.abc import Container, Sequence
from itertools import pairwise, takewhile
from typing import Final

from hacs_crawler.state.spells import OPEN, MarksByVisit, Spells

# In a gap this short, all changes come from the request.
CHURN_SECONDS: Final = 30
# With fewer marks, such as a price, an ordinary update may replace all of them.
FEWEST_MARKS: Final = 5
# The same for links, of which an ordinary update leaves some.
FEWEST_LINKS: Final = 2
# A visit that lacks at least this many marks, with few new ones, may show only a part of the page.
FEWEST_GONE: Final = 3
# If the page is back after more visits than this, it was replaced twice.
MOST_AWAY: Final = 5
# If more first visits than this showed the same few marks, those were the page's.
MOST_FIRST: Final = 2
# Only a visit with at least this many new marks makes the first visits doubtful, ...
FEWEST_AFTER_FIRST: Final = 6
# ... and only first visits with at most this many: more are a page, which was replaced by a larger one.
MOST_AT_FIRST: Final = 10


def may_mislead(spells: Spells, visits: Sequence[int], fewest: int) -> bool:
    """Whether `judged` may leave out any visit; decided by counts alone."""
    ended, begun = defaultdict[int, int](int), defaultdict[int, int](int)
    for first, last, number in zip(*[iter(spells.periods)] * 3, strict=True):
        begun[first] += number
        if last != OPEN:
            ended[last] += number
    if not ended:
        return False
    shown = 0
    for index, (before, at) in enumerate(pairwise(visits)):
        shown += begun.get(before, 0)
        if gone := ended.get(before, 0):
            come = begun.get(at, 0)
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
    """Return the marks of the visits that showed the page.

    A visit that waits for confirmation is left out, and stays so: a confirmed replacement came at some
    time before the visit that confirms it.
    """
    times = sorted(shown)
    start = next((n for n, at in enumerate(times) if shown[at] != shown[times[0]]), 0)
    if 0 < start <= MOST_FIRST and not any(at in baselines for at in times[1 : start + 1]):
        first, second, *others = (shown[at] for at in times[start - 1 :][: 2 + 2 * MOST_AWAY])
        if _is_little(len(first), len(first - second), len(second - first)) and not any(
            _is_back(first, marks) and not any(_is_back(second, now) for now in others[number:])
            for number, marks in enumerate(others[:MOST_AWAY], 1)
        ):
            del times[:start]
    kept: MarksByVisit = {}
    before, is_new, index = frozenset[int](), False, 0
    while index < len(times):
        marks = shown[times[index]]
        missed, come = before - marks, marks - before
        can_differ = bool(kept) and times[index] not in baselines
        is_unlike = can_differ and _is_unlike(len(before), len(missed), len(come), fewest)
        is_doubtful = is_unlike and not is_new
        if is_doubtful or (can_differ and _is_part(len(before), len(missed), fewest)):
            later = takewhile(lambda at: at not in baselines, times[index + 1 :][:MOST_AWAY])
            following = [shown[at] for at in later]
            backs = (
                number
                for number, now in enumerate(following, 1)
                if _is_back(missed, now) and (is_doubtful or not _is_back(come, now))
            )
            away = next(backs, 0)
            is_little = 2 * len(come) <= len(missed) and following[:1] != [marks]
            confirmations = is_doubtful + (is_doubtful and is_little)
            if away or len(following) < confirmations:
                index += away or 1 + len(following)
                continue
            index += confirmations
            if confirmations:
                earlier, marks = shown[times[index - 1]], shown[times[index]]
                gone, come = earlier - marks, marks - earlier
                is_unlike = _is_unlike(len(earlier), len(gone), len(come), fewest)
        kept[times[index]] = marks
        # a control visit shows the same
        is_control = index > 0 and times[index] - times[index - 1] <= CHURN_SECONDS
        before, is_new = marks, is_unlike or (is_control and is_new)
        index += 1
    return kept


def _is_back(missed: frozenset[int], marks: frozenset[int]) -> bool:
    return 2 * len(missed & marks) > len(missed)


def _is_unlike(shown: int, gone: int, come: int, fewest: int) -> bool:
    """Whether a visit is unlike the last: `gone` of the last one's `shown` marks, `come` are new."""
    if shown < fewest:
        return False
    # if a list's entries are all replaced, the links of a menu stay: that is not a block page
    if gone == shown or (fewest != FEWEST_LINKS and 8 * gone >= 7 * shown):
        return True
    return gone >= FEWEST_GONE and 4 * gone >= shown and 2 * come <= gone


def _is_part(shown: int, gone: int, fewest: int) -> bool:
    """Whether a quarter of the links are missing, however many are new."""
    return fewest == FEWEST_LINKS and gone >= FEWEST_GONE and 4 * gone >= shown


def _is_little(shown: int, gone: int, come: int) -> bool:
    """Whether a first visit showed little, and the next one much, with few of the same marks."""
    is_much_after = come >= max(FEWEST_AFTER_FIRST, 2 * shown)
    return 2 * gone > shown and shown <= MOST_AT_FIRST and is_much_after

"""Spells: when a page showed each of its marks, as runs of consecutive visits that all showed it.

The marks of every kept visit follow from them, in whatever order the visits are recorded. Spells are
kept as `periods`, triples of a spell's first second, its last one, and the number of marks that share
both, and as `marks`, their fingerprints in that order. The last second is 0 (`OPEN`) while the latest
visit that showed marks shows them: a visit that finds a page as it was changes nothing here.
`visits` below are the seconds, ascending, of the visits that showed which marks the page had.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    Numbers = array[int]
else:
    # signatures are looked at, and Python 3.11 cannot look at `array[int]`
    Numbers = array
# The marks that visits showed, by their seconds.
MarksByVisit = dict[int, frozenset[int]]
OPEN: Final = 0


class Spells(NamedTuple):
    """Spells in the order of their first and last second; see the module."""

    periods: Numbers
    marks: Numbers

    def each(self) -> Iterator[tuple[int, int, array[int]]]:
        """Yield the first and last second of spells, and their marks."""
        start = 0
        for first, last, number in zip(*[iter(self.periods)] * 3, strict=True):
            yield first, last, self.marks[start : start + number]
            start += number

    def shown_by(self, visits: Iterable[int]) -> MarksByVisit:
        """Return what the visits showed."""
        begun, ended = defaultdict[int, list[int]](list), defaultdict[int, list[int]](list)
        for first, last, marks in self.each():
            begun[first] += marks
            if last != OPEN:
                ended[last] += marks
        shown, present = {}, frozenset[int]()
        for at in visits:
            if at in begun:
                present = present.union(begun[at])
            shown[at] = present
            if at in ended:
                present = present.difference(ended[at])
        return shown

    def shown_last(self) -> frozenset[int]:
        """Return the marks of the latest visit that showed marks."""
        return frozenset().union(*(marks for _, last, marks in self.each() if last == OPEN))

    def open_since(self) -> list[int]:
        """Return since when each of the marks of the latest visit was shown."""
        return [first for first, last, marks in self.each() if last == OPEN for _ in marks]

    def gained(self, *, once: bool) -> dict[int, frozenset[int]]:
        """Return the marks that visits showed and the visit before did not, `once`: no visit before."""
        gained: MarksByVisit = {}
        seen = set[int]()
        for first, _, marks in self.each():
            if new := frozenset(marks) - seen:
                gained[first] = gained.get(first, frozenset()) | new
            if once:
                seen.update(new)
        return gained

    def followed_by(self, at: int, shown: frozenset[int], latest: int) -> Spells:
        """Return the spells after one more visit, later than the `latest` that showed marks."""
        before = self.shown_last()
        if shown == before:
            return self
        if before <= shown:
            gained = array("q", sorted(shown - before))
            return Spells(self.periods + array("I", (at, OPEN, len(gained))), self.marks + gained)
        joined = [
            (first, latest if last == OPEN and mark not in shown else last, mark)
            for first, last, marks in self.each()
            for mark in marks
        ]
        return _packed([*joined, *((at, OPEN, mark) for mark in shown - before)])


# Of a page that never showed marks. Arrays are never changed, but replaced.
NO_SPELLS: Final = Spells(array("I"), array("q"))


def spells_of(shown: Mapping[int, frozenset[int]]) -> Spells:
    """Return the spells of visits' marks, given by the visits' seconds."""
    first: dict[int, int] = {}
    spells: list[tuple[int, int, int]] = []
    before = frozenset[int]()
    previous = 0
    for at in sorted(shown):
        if (marks := shown[at]) is not before:
            spells += [(first.pop(mark), previous, mark) for mark in before - marks]
            first.update(dict.fromkeys(marks - before, at))
        before, previous = marks, at
    return _packed([*spells, *((since, OPEN, mark) for mark, since in first.items())])


def _packed(spells: Iterable[tuple[int, int, int]]) -> Spells:
    ordered = sorted(spells)
    periods = array("I")
    for (first, last), some in groupby(ordered, itemgetter(0, 1)):
        periods.extend((first, last, len(list(some))))
    return Spells(periods, array("q", map(itemgetter(2), ordered)))

"""Spells: when a page showed each of its marks, as runs of consecutive visits that all showed it.

The marks of every kept visit follow exactly from the spells, so that A, B, A is three changes in
whatever order the visits are recorded. Marks that only thinned-out visits showed are forgotten.

Spells are kept as `periods`, triples of a spell's first second, its last one, and the number of marks
that share both, and as `marks`, their fingerprints in that order. The last second is 0 (`OPEN`) while
the latest visit that showed marks shows them: a visit that finds a page as it was changes nothing here.
`visits` below are the seconds, ascending, of the visits that showed which marks the page had.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Final, NamedTuple

# The marks that visits showed, by their seconds.
MarksByVisit = dict[int, set[int]]
OPEN: Final = 0


class Spells(NamedTuple):
    """Spells in the order of their first and last second; see the module."""

    periods: array[int]
    marks: array[int]

    def each(self) -> Iterator[tuple[int, int, array[int]]]:
        """Yield the first and last second of spells, and their marks."""
        start = 0
        for first, last, number in zip(*[iter(self.periods)] * 3, strict=True):
            yield first, last, self.marks[start : start + number]
            start += number

    def shown_by(self, visits: Sequence[int]) -> MarksByVisit:
        """Return what some of the visits showed, or all."""
        shown: MarksByVisit = {at: set() for at in visits}
        for first, last, marks in self.each():
            end = len(visits) if last == OPEN else bisect_right(visits, last)
            for at in visits[bisect_left(visits, first) : end]:
                shown[at].update(marks)
        return shown

    def shown_last(self) -> frozenset[int]:
        """Return the marks of the latest visit that showed marks."""
        return frozenset(mark for _, last, marks in self.each() if last == OPEN for mark in marks)

    def begun(self, at: int) -> set[int]:
        """Return the marks of the spells that begin at a second."""
        return {mark for first, _, marks in self.each() if first == at for mark in marks}

    def until(self, at: int) -> set[int]:
        """Return the marks that visits before a second have shown."""
        return {mark for first, _, marks in self.each() if first < at for mark in marks}

    def ended(self, at: int) -> int:
        """Return how many spells end at a second."""
        return sum(len(marks) for _, last, marks in self.each() if last == at)

    def changes(self) -> set[int]:
        """Return the times of visits that showed a mark which the visit before did not."""
        return set(self.periods[::3])

    def novelties(self) -> set[int]:
        """Return the times of visits that showed a mark which no visit before did."""
        if len(set(self.marks)) == len(self.marks):
            return self.changes()
        seen: set[int] = set()
        new = set()
        for at, _, marks in self.each():
            if not seen.issuperset(marks):
                new.add(at)
                seen.update(marks)
        return new

    def losses(self, visits: Sequence[int]) -> set[int]:
        """Return the times of visits that did not show a mark which the visit before did."""
        lasts = set(self.periods[1::3]) - {OPEN}
        return {visits[bisect_right(visits, last)] for last in lasts if last < visits[-1]}

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

    def is_needed(self, at: int, following: int | None) -> bool:
        """Whether spells become others if the visit of a second, before `following`, is left out."""
        firsts = self.periods[::3]
        return at in firsts or following in firsts or at in self.periods[1::3]


def spells_of(shown: Mapping[int, set[int]]) -> Spells:
    """Return the spells of visits' marks, given by the visits' seconds."""
    first: dict[int, int] = {}
    spells: list[tuple[int, int, int]] = []
    before: set[int] = set()
    previous = 0
    for at, marks in sorted(shown.items()):
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

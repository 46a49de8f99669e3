"""Spells: of marks that come and go, as prices and texts do, all times at which a page showed them.

Links are kept with their first and last time, and one that returns brings no news. Of other marks a
page keeps every spell: visits that follow each other and all showed the mark. What the visits that are
kept showed can be told exactly from that, so that A, B, A is three changes in whatever order the visits
come; what only visits showed that were thinned out is forgotten.

A spell is kept as a link is: `runs` lists (time, number of spells that begin then), `marks` has their
fingerprints in that order, `last_seen` the times at which they end. `visits` are the times, ascending,
of the visits that showed what the page's marks were.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

MarksByVisit = dict[int, set[int]]
"""The marks that visits showed, by their seconds."""


class Spells(NamedTuple):
    """Spells in the order of their beginning; see the module."""

    runs: array[int]
    marks: array[int]
    last_seen: array[int]

    def begun(self) -> Iterator[tuple[int, array[int]]]:
        """Yield each time at which spells began, and their marks."""
        start = 0
        for at, number in zip(self.runs[::2], self.runs[1::2], strict=True):
            yield at, self.marks[start : start + number]
            start += number

    def shown_by(self, visits: Sequence[int]) -> MarksByVisit:
        """Return what some of the visits, or all, showed."""
        shown: MarksByVisit = {at: set() for at in visits}
        place = 0
        for first, marks in self.begun():
            start = bisect_left(visits, first)
            for mark in marks:
                for at in visits[start : bisect_right(visits, self.last_seen[place])]:
                    shown[at].add(mark)
                place += 1
        return shown

    def changes(self) -> set[int]:
        """Return the times of visits that showed a mark which the visit before did not."""
        return set(self.runs[::2])

    def novelties(self) -> set[int]:
        """Return the times of visits that showed a mark which no visit before did."""
        known: set[int] = set()
        found = set()
        for at, marks in self.begun():
            if not known.issuperset(marks):
                found.add(at)
                known.update(marks)
        return found

    def losses(self, visits: Sequence[int]) -> set[int]:
        """Return the times of visits that did not show a mark which the visit before did."""
        places = (bisect_right(visits, last) for last in set(self.last_seen))
        return {visits[place] for place in places if place < len(visits)}

    def until(self, at: int) -> set[int]:
        """Return the marks that visits before a second have shown."""
        return {mark for first, marks in self.begun() if first < at for mark in marks}

    def ending(self, at: int) -> set[int]:
        """Return the marks of the spells that end at a second."""
        return {mark for mark, last in zip(self.marks, self.last_seen, strict=True) if last == at}

    def is_needed(self, at: int, following: int | None) -> bool:
        """Whether spells become others if the visit of a second, before `following`, is left out."""
        begins = self.runs[::2]
        return at in begins or following in begins or at in self.last_seen


def spells_of(shown: Mapping[int, set[int]]) -> Spells:
    """Return in which spells visits showed what they did, by their seconds."""
    first: dict[int, int] = {}
    found: list[tuple[int, int, int]] = []
    before: set[int] = set()
    previous = 0
    for at, marks in [*sorted(shown.items()), (0, set[int]())]:
        found += [(first.pop(mark), mark, previous) for mark in before - marks]
        first.update(dict.fromkeys(marks - before, at))
        before, previous = marks, at
    found.sort()
    runs = array("I")
    for at, begun in groupby(found, itemgetter(0)):
        runs.extend((at, len(list(begun))))
    return Spells(
        runs,
        array("q", (mark for _, mark, _ in found)),
        array("I", (last for _, _, last in found)),
    )

"""Spells: when a page showed each of its marks, as runs of consecutive visits that all showed it.

The marks of every kept visit can be computed from spells. They are kept as `periods`, triples of a
spell's first second, its last second, and the number of marks that share both, and as `marks`, their
fingerprints in that order. The last second is 0 (`OPEN`) if the latest visit that showed marks shows
them, so that a visit without news changes nothing. `visits` below are the seconds, ascending, of the
visits that showed marks.
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
    # signatures are inspected at run time, and Python 3.11 cannot inspect `array[int]`
    Numbers = array
# The marks that visits showed, by their seconds.
MarksByVisit = dict[int, frozenset[int]]
OPEN: Final = 0
# The last result of `shown_last`, by its source: a visit is read, merged and compared in turn.
_latest: Final = [(array("q"), frozenset[int]())]


class Spells(NamedTuple):
    """Spells in the order of their first and last second; see the module's docstring."""

    periods: Numbers
    marks: Numbers

    def each(self) -> Iterator[tuple[int, int, array[int]]]:
        """Yield the first and last second of spells, and their marks."""
        start = 0
        for first, last, number in zip(*[iter(self.periods)] * 3, strict=True):
            yield first, last, self.marks[start : start + number]
            start += number

    def shown_by(self, visits: Iterable[int]) -> MarksByVisit:
        """Return the marks of visits."""
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
        if len(self.periods) == 3 and self.periods[1] == OPEN:  # like most pages
            if (latest := _latest[0])[0] is not self.marks:
                _latest[0] = latest = self.marks, frozenset(self.marks)
            return latest[1]
        if not self.marks:
            return frozenset()
        return frozenset().union(*(marks for _, last, marks in self.each() if last == OPEN))

    def gained(self, *, once: bool) -> dict[int, frozenset[int]]:
        """Return marks that the visit before did not show, with `once`: that no earlier visit showed."""
        gained: MarksByVisit = {}
        seen = set[int]()
        for first, _, marks in self.each():
            if new := frozenset(marks) - seen:
                gained[first] = gained.get(first, frozenset()) | new
            if once:
                seen.update(new)
        return gained

    def followed_by(self, at: int, shown: frozenset[int], latest: int) -> Spells:
        """Return the spells after one more visit that showed other marks than the `latest` before."""
        before = self.shown_last()
        if before <= shown:
            gained = array("q", sorted(shown - before))
            return Spells(self.periods + array("I", (at, OPEN, len(gained))), self.marks + gained)
        joined = [
            (first, latest if last == OPEN and mark not in shown else last, mark)
            for first, last, marks in self.each()
            for mark in marks
        ]
        return _packed([*joined, *((at, OPEN, mark) for mark in shown - before)])


# Shared by all pages that never showed marks: arrays are replaced, never changed.
NO_SPELLS: Final = Spells(array("I"), array("q"))


def spells_of(shown: Mapping[int, frozenset[int]]) -> Spells:
    """Return the spells of marks, given by the seconds of the visits that showed them."""
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

"""Fields of items that differ at nearly every visit, whatever is news: learned, and then left out.

Kept of each page are 16 bits of each field of the items of its last visit, and at which of the latest
visits a field of some item that was there before was another one. After `WINDOW` visits the page votes:
if something differed at `FREQUENT` of them, then volatile are the fields without which that is so at
`RARE` of them at the most; those that differed most often go first. What most of its votes say is the
page's opinion. Left out is what is volatile for nearly all pages, of those that are watched by the same
rules and have voted.

The note of the state has sums of opinions: it makes no difference in which order crawls add to them.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from functools import reduce
from itertools import chain
from operator import or_
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct, field

from hacs_crawler.state import rule_changes
from hacs_crawler.state.page import Page
from hacs_crawler.state.store import Annotation, Store, change_note, read_note

KIND: Final = "fields"
NOTE: Final = "fields"
WINDOW: Final = 16
FREQUENT: Final = 13
RARE: Final = 4
NEARLY_ALL: Final = 0.9
ENOUGH_PAGES: Final = 20
"""Votes of so many are enough, or else of half of the pages."""
MOST_ITEMS: Final = 100
"""Of a page; of more, those with the lowest keys are compared."""
MOST_FIELDS: Final = 50
MOST_NAMES: Final = 200
"""Fields of which opinions are counted, for one set of rules."""

Items = Mapping[int, Mapping[str, int]]
"""Bits of the fields of items, by the items' keys."""
_Count = Annotated[int, Meta(ge=0)]


class PageFields(Struct, array_like=True):
    """What is kept of a page. `items` have their bits in the order of `fields`, 0 for none.

    `fields` have the visits since the last vote at which they differed, as bits, and how many votes say
    that they are volatile.
    """

    rules: _Count = 0
    visits: Annotated[int, Meta(ge=0, lt=WINDOW)] = 0
    votes: _Count = 0
    fields: dict[str, tuple[_Count, _Count]] = field(default_factory=dict)
    items: dict[int, bytes] = field(default_factory=dict)

    def opinion(self) -> set[str]:
        """Return the fields that are volatile, as most votes say."""
        return {name for name, (_, votes) in self.fields.items() if 2 * votes > self.votes}

    def after(self, items: Items, rules: int) -> PageFields:
        """Return what is kept once another visit has shown items."""
        items = {key: items[key] for key in sorted(items)[:MOST_ITEMS]}
        names = sorted({*self.fields, *chain.from_iterable(items.values())})[:MOST_FIELDS]
        fields = {name: self.fields.get(name, (0, 0)) for name in names}
        visits, votes = self.visits, self.votes
        if not items.keys().isdisjoint(self.items):
            differing = self._differing(items)
            for name, (differed, yes) in fields.items():
                fields[name] = differed | (name in differing) << visits, yes
            visits += 1
        if visits == WINDOW:
            volatile = volatile_fields({name: differed for name, (differed, _) in fields.items()})
            fields = {name: (0, yes + (name in volatile)) for name, (_, yes) in fields.items()}
            visits, votes = 0, votes + 1
        packed = {
            key: array("H", [bits.get(name, 0) for name in names]).tobytes()
            for key, bits in items.items()
        }
        return PageFields(rules, visits, votes, fields, packed)

    def _differing(self, items: Items) -> set[str]:
        """Return the fields that differ of an item which was there before."""
        found: set[str] = set()
        for key in items.keys() & self.items.keys():
            before = dict(zip(self.fields, array("H", self.items[key]), strict=True))
            names = before.keys() | items[key].keys()
            found |= {name for name in names if before.get(name, 0) != items[key].get(name, 0)}
        return found


class _Opinions(Struct):
    """How many pages there are, how many have voted, and for which fields they are.

    `rules` are those by which fields were left out so far.
    """

    pages: int = 0
    voted: int = 0
    fields: dict[str, int] = field(default_factory=dict)
    rules: list[int] = field(default_factory=list)

    def left_out(self) -> list[str]:
        if not self.voted or self.voted < min(ENOUGH_PAGES, self.pages / 2):
            return []
        enough = NEARLY_ALL * self.voted
        return sorted(name for name, pages in self.fields.items() if pages >= enough)

    def add(self, before: PageFields, after: PageFields) -> None:
        self.pages += not before.rules
        self.voted += bool(after.votes) - bool(before.votes)
        old, new = before.opinion(), after.opinion()
        for name in (*(new - old), *(old - new)):
            if name in self.fields or len(self.fields) < MOST_NAMES:
                self.fields[name] = self.fields.get(name, 0) + (1 if name in new else -1)


def volatile_fields(differed: Mapping[str, int]) -> set[str]:
    """Return which fields are volatile, of fields with the visits at which they differed, as bits."""
    fields = dict(differed)
    if _visits(fields) >= FREQUENT:
        while _visits(fields) > RARE:
            del fields[max(fields, key=lambda name: fields[name].bit_count())]
    return differed.keys() - fields.keys()


def _visits(fields: Mapping[str, int]) -> int:
    return reduce(or_, fields.values(), 0).bit_count()


def note_fields(store: Store, rules: int, found: Mapping[int, Items]) -> None:
    """Keep what visits of pages showed, by page id, and count the pages' opinions; raises StateError.

    These first: where a crawl is killed in between, a vote is counted twice, and none is lost.
    """
    known = store.annotations(KIND, [*found])
    changes, changed = [], []
    for page_id, items in found.items():
        before = _decoded(known.get(page_id, b""), rules)
        after = before.after(items, rules)
        changes.append(Annotation(page_id, known.get(page_id, b""), _encode(after)))
        if not before.rules or before.votes != after.votes:
            changed.append((before, after))

    def counted(opinions: _Opinions) -> None:
        for before, after in changed:
            opinions.add(before, after)

    if changed:
        _change(store, rules, counted)
    store.annotate(KIND, changes)


def fields_left_out(store: Store, rules: int) -> list[str]:
    """Return which fields are left out where items are watched by some rules; raises StateError."""
    return _read(store).get(rules, _Opinions()).left_out()


def fields_left_out_of(store: Store, page_id: int) -> list[str]:
    """Return which fields are left out of the items of a page; raises StateError."""
    kept = _decoded(store.annotations(KIND, [page_id]).get(page_id, b""))
    return fields_left_out(store, kept.rules)


def use_rules(store: Store, rules: int, used: Iterable[int]) -> set[int]:
    """Write by which rules pages are read without some fields; return all that were used so far."""
    wanted = {*used}
    known = _read(store).get(rules, _Opinions()).rules
    if not wanted.issubset(known):
        _change(store, rules, lambda one: setattr(one, "rules", sorted({*one.rules, *wanted})))
    return wanted.union(known)


def without_gaps(page: Page, rules: Iterable[int]) -> Page | None:
    """Return what makes baselines of a page's visits by some rules, once it is restored; None if none.

    What they found was that fields differed which are left out by now.
    """
    outdated = {*rules}
    if outdated.isdisjoint(page.rule_changes[1::2]):  # as of most pages
        return None
    found = rule_changes.marks(page.rule_changes, page.visits)
    times = array("I", (at for at, known in found.items() if known in outdated))
    return Page(page.url, times, rule_changes=rule_changes.apart(times))


def _read(store: Store) -> dict[int, _Opinions]:
    return read_note(store, NOTE, dict[int, _Opinions]) or {}


def _change(store: Store, rules: int, change: Any) -> None:
    def changed(known: dict[int, _Opinions] | None) -> object:
        known = known or {}
        change(known.setdefault(rules, _Opinions()))
        return msgspec.to_builtins(known, str_keys=True)

    change_note(store, NOTE, dict[int, _Opinions], changed)


_decoder: Final = msgspec.msgpack.Decoder(PageFields)
_encode: Final = msgspec.msgpack.Encoder().encode


def _decoded(value: bytes, rules: int | None = None) -> PageFields:
    """Return what is kept, nothing where it is damaged, or was kept by other rules."""
    try:
        kept = _decoder.decode(value) if value else PageFields()
    except msgspec.DecodeError:
        return PageFields()
    is_sound = all(len(bits) == 2 * len(kept.fields) for bits in kept.items.values())
    return kept if is_sound and rules in {None, kept.rules} else PageFields()

"""A round of all shards: one cut-off and one budget, in a note that every shard's crawl reads.

The note is kept with the state of the first shard, and changed atomically. Crawls take the budget in
lots. What a killed crawl took and did not use stays taken until its successor has ended.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final, TypeVar

import msgspec
import numpy as np
from msgspec import Struct, field

from hacs_crawler.config import Config
from hacs_crawler.exceptions import StateError
from hacs_crawler.state import Shard, State, Store, change_note, open_store, read_note
from hacs_crawler.utils.times import minute_text

LOT: Final = 50
"""How many visits a crawl takes out of the budget at a time; fewer when little is left."""
_NOTE: Final = "round"
T = TypeVar("T")


class ShardShare(Struct):
    """What one shard has of a round.

    `seen` and `new` are the visits taken out of the budget, for known pages and for pages never seen.
    `given` counts how often requests were handed over to the shard, `counts` are stats of its crawls.
    """

    attempts: int = 0
    seen: int = 0
    new: int = 0
    given: int = 0
    is_open: bool = False
    has_ended: bool = False
    has_more: bool = False
    counts: dict[str, float] = field(default_factory=dict)


class Round(Struct):
    """A round that began at second `began` since 1970 UTC.

    Of `budget` visits (None: all pages), `for_new` are for pages never seen; if that is None all pages
    compete. No page with a score below `cut_off` is visited (None: any page may be). `start` is the
    number and the sum of the ids of what the first crawl's `start()` yielded.
    """

    began: int
    budget: int | None
    for_new: int | None
    cut_off: float | None
    shards: list[ShardShare]
    start: tuple[int, int] | None = None

    @property
    def free(self) -> int:
        """The visits of the budget that were not taken yet."""
        return (self.budget or 0) - sum(share.seen + share.new for share in self.shards)


class RoundNotes:
    """The notes of the rounds of all shards; used from one thread at a time, like the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.close = store.close

    def read(self) -> Round | None:
        """Return the present round, None if there is none; raises StateError."""
        return read_note(self._store, _NOTE, Round)

    def write(self, round_: Round | None) -> None:
        """Begin a round; without one, crawls of shards have a budget of their own again."""
        self._store.write_meta({_NOTE: msgspec.to_builtins(round_)})

    def join(self, shard: Shard) -> tuple[Round, bool] | None:
        """Have a crawl of a shard take part in the round, if there is one.

        Returns the round, and whether the crawl before this one did not come to its end. Raises
        StateError if the shard has ended in it.
        """
        found = self.read()
        if found is None:
            return None

        def joined(round_: Round) -> tuple[Round, bool]:
            share = round_.shards[shard.index]
            if share.has_ended:
                raise StateError(
                    f"shard {shard} has ended in the round planned at {minute_text(round_.began)} "
                    f"UTC: `hacs plan --shards {shard.count}` begins the next one"
                )
            share.attempts += 1
            was_killed, share.is_open = share.is_open, True
            return round_, was_killed

        return self.change(found.began, joined)

    def take(self, began: int, number: int, seen: int, new: int) -> tuple[Round, int, int]:
        """Take a lot for a shard: at most `seen` visits of known pages, and `new` of others.

        Returns the round as it is then, and how many of each were taken. Raises StateError.
        """

        def taken(round_: Round) -> tuple[Round, int, int]:
            share, free, for_new = round_.shards[number], round_.free, round_.for_new or 0
            lot = min(LOT, max(1, free // (2 * len(round_.shards))))
            left_seen = (round_.budget or 0) - for_new - sum(one.seen for one in round_.shards)
            left_new = for_new - sum(one.new for one in round_.shards)
            got_seen = max(0, min(seen, lot, free, left_seen))
            got_new = max(0, min(new, lot, free - got_seen, left_new))
            share.seen += got_seen
            share.new += got_new
            share.has_ended = share.has_ended and not (got_seen or got_new)
            return round_, got_seen, got_new

        return self.change(began, taken)

    def end(self, began: int, number: int, *, given: int, lost: int, has_more: bool) -> Round:
        """Note that a shard has nothing more to visit above the cut-off; return the round as it is then.

        `given` is how often requests had been handed over to it when it looked, `lost` what a killed
        crawl took and did not use, `has_more` whether there are pages below the cut-off. Once all shards
        have ended, nothing is below it any more: the rest of the budget is used wherever pages are left.
        """

        def ended(round_: Round) -> Round:
            share = round_.shards[number]
            from_seen = min(lost, share.seen)
            share.seen, share.new = (
                share.seen - from_seen,
                share.new - min(lost - from_seen, share.new),
            )
            share.is_open, share.has_more = False, has_more
            share.has_ended = share.given == given
            if round_.free > 0 and all(one.has_ended for one in round_.shards):
                round_.cut_off = round_.for_new = None
                for one in round_.shards:
                    one.has_ended, one.has_more = not one.has_more, False
            return round_

        return self.change(began, ended)

    def change(self, began: int, change: Callable[[Round], T]) -> T:
        """Change the round that began then, atomically, and return what `change` does.

        Raises StateError if there is another one.
        """
        found: list[T] = []

        def changed(round_: Round | None) -> Any:
            if round_ is None or round_.began != began:
                raise StateError("this round of all shards is over: another one was planned")
            found[:] = [change(round_)]
            return msgspec.to_builtins(round_)

        change_note(self._store, _NOTE, Round, changed)
        return found[0]


def open_rounds(config: Config, count: int) -> RoundNotes:
    """Open the notes of the rounds of so many shards; `close` them when done. Raises StateError."""
    first = replace(config, shard=Shard(0, count))
    return RoundNotes(open_store(config.state, first.own_namespace, config.base))


def visited_since(state: State, began: int) -> tuple[frozenset[int], int]:
    """Return the ids of the pages visited since a second, and how many of them were updated then."""
    ids, updates = set[int](), 0
    for page_ids, rows in state.store.all_rows():
        ids.update(page_ids[rows["last_visit"] >= began].tolist())
        is_updated = (rows["last_update"] >= began) & (rows["updates"] > 0)
        updates += int(np.count_nonzero(is_updated))
    return frozenset(ids), updates

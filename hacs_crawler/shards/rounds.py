"""A round of all shards: one cut-off and one budget, in a note that all crawls share.

The note is in the state of the first shard, and is changed atomically. Crawls take the budget in
lots. When a killed crawl is restarted, the visits that it took and did not make are free again.
"""

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct, field

from hacs_crawler.config import Config
from hacs_crawler.exceptions import StateError
from hacs_crawler.state import Shard, Store, change_note, open_store, read_note
from hacs_crawler.utils.times import minute_text

# How many visits a crawl takes from the budget at a time; fewer if little is left.
LOT: Final = 50
# Part of the error message of a crawl whose shard has ended.
ENDED: Final = "has ended in the round planned at"
_NOTE: Final = "round"
# Keeps the last round's number of pages left that were never seen, once its note is gone.
_UNSEEN_NOTE: Final = "round-unseen"
T = TypeVar("T")


class ShardShare(Struct):
    """One shard's share of a round.

    `planned` known pages are in the plan. `seen` and `new` are visits taken from the budget for known
    pages and for pages never seen; `unseen` is the number of the latter left at the end. `given` counts
    how often requests were handed over to the shard, `counts` are stats of its crawls up to second
    `counted_at`, with visited pages and updates only if its last crawl has ended, and `start` is the sum
    of the ids of its start requests' pages.
    """

    attempts: int = 0
    planned: int = 0
    seen: int = 0
    new: int = 0
    unseen: int = 0
    given: int = 0
    is_open: bool = False
    has_ended: bool = False
    has_more: bool = False
    start: int | None = None
    counts: dict[str, float] = field(default_factory=dict)
    counted_at: int = 0


class Round(Struct):
    """A round that began at second `began` since 1970 UTC.

    Of `budget` visits (None: unlimited), `for_new` are for pages never seen. If that is None, all
    pages compete, but known pages leave `kept` visits to pages never seen, for shards that begin
    late. Pages with a score below `cut_off`, if any, are not visited.
    """

    began: int
    budget: int | None
    for_new: int | None
    cut_off: float | None
    shards: list[ShardShare]
    kept: int = 0

    @property
    def free(self) -> int:
        """How many visits of the budget have not been taken."""
        return (self.budget or 0) - sum(share.seen + share.new for share in self.shards)

    def join(self, shard: Shard, done: int) -> ShardShare:
        """Let a shard's crawl take part; `done` pages of the shard were visited in this round before.

        Raises StateError if the shard has ended.
        """
        share = self.shards[shard.index]
        if share.has_ended:
            raise StateError(
                f"shard {shard} {ENDED} {minute_text(self.began)} UTC: "
                f"`hacs plan --shards {shard.count}` begins the next one"
            )
        if share.is_open:  # its last crawl was killed
            lost = max(0, share.seen + share.new - done)
            from_seen = min(lost, share.seen)
            share.seen, share.new = share.seen - from_seen, share.new - (lost - from_seen)
        share.attempts += 1
        share.is_open = True
        share.counts.pop("visited", None)
        return share

    def take(
        self, number: int, seen: int, new: int, had: ShardShare | None = None
    ) -> tuple[int, int]:
        """Take a lot for a shard: up to `seen` visits of known pages, and `new` of others.

        Returns both numbers. Until other shards have ended, what was planned of them is left to them.
        `had` is the share as the crawl knows it, to undo an earlier call whose answer was lost.
        """
        share = self.shards[number]
        if had is not None:
            share.seen, share.new = had.seen, had.new
        others = [shard for shard in self.shards if shard is not share and not shard.has_ended]
        of_new = self.for_new is None  # the plan may have chosen pages never seen
        theirs = sum(max(0, shard.planned - shard.seen - of_new * shard.new) for shard in others)
        free = self.free
        lot = min(LOT, max(1, free // (2 + 2 * len(others)), share.planned - share.seen))
        had_new = sum(shard.new for shard in self.shards)
        for_new = max(self.kept, had_new) if self.for_new is None else self.for_new
        left_seen = (self.budget or 0) - for_new - sum(shard.seen for shard in self.shards) - theirs
        left_new = free - theirs if self.for_new is None else for_new - had_new
        got_seen = max(0, min(seen, lot, free, left_seen))
        got_new = max(0, min(new, lot, free - got_seen, left_new))
        share.seen += got_seen
        share.new += got_new
        if got_seen or got_new:
            share.is_open, share.has_ended = True, False
        return got_seen, got_new

    def end(self, number: int, *, given: int, has_more: bool, unseen: int = 0) -> None:
        """Note that a shard has no more pages above the cut-off.

        `given` is the number of hand-overs to the shard that its crawl knows, `has_more` whether pages
        are left, and `unseen` how many of these were never seen. When all shards have ended, the cut-off
        is removed; when all have ended again, all pages compete for the rest of the budget.
        """
        share = self.shards[number]
        share.is_open, share.has_more, share.unseen = False, has_more, unseen
        share.has_ended = share.given == given
        if self.free > 0 and all(shard.has_ended for shard in self.shards):
            self.for_new = None if self.cut_off is None else self.for_new
            self.cut_off, self.kept = None, 0
            for shard in self.shards:
                shard.has_ended, shard.has_more, shard.planned = not shard.has_more, False, 0

    def give(self, numbers: Collection[int]) -> None:
        """Note that requests were handed over to shards, which reopens them."""
        for number in numbers:
            self.shards[number].given += 1
            self.shards[number].has_ended = False

    def is_usual(self, number: int, start: int) -> bool | None:
        """Note the start requests of a shard; return whether another shard had the same.

        None if no other `start()` has ended.
        """
        self.shards[number].start = None
        others = {share.start for share in self.shards} - {None}
        self.shards[number].start = start
        return start in others if others else None


class RoundNotes:
    """The notes of the rounds of all shards; used from one thread at a time, like the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.close = store.close

    def read(self) -> Round | None:
        """Return the current round, or None; raises StateError."""
        return read_note(self._store, _NOTE, Round)

    def unseen(self) -> int:
        """Return how many pages the last round left unseen; raises StateError."""
        if (last := self.read()) is None:
            return read_note(self._store, _UNSEEN_NOTE, int) or 0
        return sum(share.unseen for share in last.shards)

    def write(self, round_: Round | None) -> None:
        """Begin a round; with None, each shard's crawl has its own budget again."""
        unseen = {} if round_ is not None else {_UNSEEN_NOTE: self.unseen()}
        self._store.write_meta({_NOTE: msgspec.to_builtins(round_), **unseen})

    def change(self, began: int, change: Callable[[Round], T]) -> tuple[Round, T]:
        """Change the round that began then, atomically; return it and the result of `change`.

        Raises StateError if there is another round.
        """
        results: list[tuple[Round, T]] = []

        def changed(round_: Round | None) -> Any:
            if round_ is None or round_.began != began:
                raise StateError("this round of all shards is over: another one was planned")
            results[:] = [(round_, change(round_))]
            return msgspec.to_builtins(round_)

        change_note(self._store, _NOTE, Round, changed)
        return results[0]


def open_rounds(config: Config, count: int) -> RoundNotes:
    """Open the notes of the rounds of `count` shards; `close` them when done. Raises StateError."""
    first = replace(config, shard=Shard(0, count))
    return RoundNotes(open_store(config.state, first.own_namespace, config.base))

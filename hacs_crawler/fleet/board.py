"""The board: what the workers of one fleet share, and the rules that each step on it keeps.

A worker is one crawl, and lives by one lease: `renew` prolongs it, and when it runs out all that the
worker had is free again: its partitions, its entries (which return to their place in the plan) and
the lead. Hosts fall into `PARTITIONS` partitions by a hash, and each partition has one holder at a time.

Time on a board is its own. Each step adds to it the time since the step before, at least 0 and at most
a quarter of a lease, by one clock (Redis's own, or that of the machine which SQLite's file is on). So
leases do not run out because a clock was set, which costs a quarter of one at most, nor while nobody
could reach the board to renew them, and the clocks of the workers' machines need not agree. A worker
that counts its lease from before it asked gives up no later than the board takes it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple, Protocol
from urllib.parse import urlsplit

from hacs_crawler.links import fingerprint

FORMAT: Final = 3
"""Version of what a board holds and of its steps."""
PARTITIONS: Final = 256
"""Into which hosts fall: some for each of 50 workers, few enough to look at each in every step."""
LEASE_SECONDS: Final = 60.0
"""Longer than a server of Redis is away while a replica takes its place (15 s and an election, by
default) or a crawler is in a page that it cannot parse; so short that the hosts of a dead worker rest
for a minute only."""

PHASES: Final = ("none", "ranking", "open")
"""Of a round: none was begun (or its leader died), its leader ranks, its entries may be taken."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One visit of the plan. `rank` counts from 0, the best, and names the entry in its round.

    `note` is what was noted when the entry was ranked anew, empty where it was not.
    """

    rank: int
    partition: int
    page_id: int
    request: bytes
    note: bytes = b""


class Change(NamedTuple):
    """An entry that was ranked anew: where it stands now among the ranks, None to leave it out."""

    partition: int
    rank: int
    position: float | None
    note: bytes


class Changed(NamedTuple):
    """How many entries were moved, came in, were left out, and were left out for others."""

    moved: int
    came_in: int
    left_out: int
    replaced: int


@dataclass(frozen=True, slots=True)
class View:
    """What a worker sees of the board after a step.

    `is_new` says that the board did not know the worker: it has joined, or its lease had run out and
    all that it had is gone. `partitions` are held by it, `share` is how many it should hold. `epoch`
    is to be given back when the worker says that it is idle. `held` entries are this worker's, by the
    board's account. Of the round: whether it `is_over` (see `Board.begin`) and how long ago, in the
    board's time, it was begun (`age_seconds`); `waiting` and `taken` entries, how many are to be
    visited in all (`total`) and `done`, and `repeats`, visits of entries that were done already or left
    out. `lost` counts the entries that ever came back because a lease ran out.
    """

    is_new: bool
    partitions: frozenset[int]
    share: int
    phase: str
    round: int
    leader: str
    epoch: int
    is_over: bool
    age_seconds: float
    workers: int
    held: int
    waiting: int
    taken: int
    total: int
    done: int
    repeats: int
    lost: int


class Board(Protocol):
    """What the workers of a fleet share. Used from one thread at a time; each method is one atomic step.

    Any may raise StateError, and StateUnavailableError where the board cannot be reached: then the step
    may have been done or not, and doing it again is harmless.
    """

    lease_seconds: float

    def renew(
        self,
        worker: str,
        *,
        released: Iterable[int] = (),
        idle_since: int | None = None,
        was_busy: bool = False,
    ) -> View:
        """Prolong the worker's lease, let it join if it has none, and give it its share of partitions.

        `released` partitions are given up. Only those that nobody holds are given; a worker that has
        more than its share is not made to give any up. `idle_since` is the epoch of the view after
        which the worker found that it has nothing under way and nothing waiting in its partitions, None
        where it has. `was_busy` says that there was something under way since it last said that it is
        idle: then others may have got something to do by it, and are to look again.

        An epoch ends whenever that is so, a worker is gone, or partitions are given: what was found
        before the last epoch began counts for nothing.
        """

    def begin(self, worker: str, *, anew: bool = False, above: int = 0) -> int:
        """Begin a round that this worker leads, and return its number; 0 where there is one already.

        The number is larger than that of the round before, and than `above`.

        A round is over when nothing of it waits or is under way, every partition is held, and every
        worker is idle, each by what it found after the last of them had something under way; or when
        nothing of it waits and its last worker is gone. It then stays so, whoever leaves or joins.
        With `anew` a worker that is alone gives up what is left of a round.
        """

    def publish(
        self,
        worker: str,
        number: int,
        start: int,
        entries: Sequence[tuple[int, int, bytes]],
        *,
        may_go: Collection[int] = (),
        is_spare: bool = False,
    ) -> bool:
        """Add a slice to the plan of the round of that number: (partition, page id, request) of each.

        `start` is the rank of the first; a slice that is there already is not added again. Entries of
        the ranks `may_go` may be left out for others; spare ones are not visited unless they come in,
        see `rank_anew`. Returns whether the worker leads that round; it no longer does where slices
        before this one are missing.
        """

    def note(self, worker: str, number: int, notes: Mapping[str, bytes]) -> bool:
        """Keep notes for the round that the worker ranks; returns whether it does."""

    def notes(self, worker: str, number: int, names: Sequence[str]) -> list[bytes | None]:
        """Return notes of the open round of that number, None for each that there is not."""

    def open(self, worker: str, number: int, total: int, *, room: int | None = None) -> bool:
        """Let the entries of the round, so many were published, be taken.

        `room` is for how many entries more the budget is enough; None where there is none. Returns
        whether the worker leads that round; it no longer does where entries are missing.
        """

    def rank_anew(self, worker: str, number: int, changes: Sequence[Change]) -> Changed:
        """Give entries of a round new places, those that wait in partitions which the worker holds.

        A spare one comes in: where there is room, or in place of the last one that may go, if that
        stands behind it. One that is left out makes room, and is spare then. Whatever else is named is
        passed over.
        """

    def take(self, worker: str, partitions: Iterable[int], most: int) -> list[Entry]:
        """Return the best entries that wait in those partitions which the worker holds."""

    def keep(self, worker: str, ranks: Iterable[int]) -> None:
        """Return what the worker took to the plan, but for the entries of these ranks."""

    def done(self, worker: str, number: int, entries: Sequence[Entry]) -> None:
        """Take entries of a round off the board for good, whoever has them now."""

    def leave(self, worker: str) -> None:
        """Free at once all that the worker has."""

    def close(self) -> None:
        """Release the connection; the board is not used afterwards."""


@lru_cache(maxsize=16_384)
def partition_of(url: str) -> int:
    """Return the partition of a URL's host, the same on every machine."""
    try:
        return fingerprint(urlsplit(url).hostname or "") % PARTITIONS
    except ValueError:
        return 0


def share_of(worker: str, workers: Iterable[str], partitions: int) -> int:
    """Return how many partitions a worker should hold, so that together they are all held."""
    names = sorted(workers)
    least, more = divmod(partitions, len(names))
    return least + (names.index(worker) < more)

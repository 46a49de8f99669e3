"""One worker of a fleet: joins, leads or waits, takes entries in small batches, and leaves.

A crawl drives it so, all calls in the thread that may wait for the board:

    worker = FleetWorker(board, new_name())
    assignment = worker.tick(monotonic())            # again after assignment.tick_seconds, always
    if assignment.task is Task.LEAD:                 # once for each assignment.round
        worker.publish([(url, page_id, request), …]) # best first, some thousand at once
        worker.open_round()
    if assignment.task is Task.CRAWL:
        entries = worker.take(16, monotonic())       # whenever fewer wait in this process
        worker.done([page_id, …])                    # visits were recorded, or will never be
    if assignment.task is Task.OVER:
        worker.leave()

and keeps these rules where requests go out, which may be another thread:

- No request is sent unless `worker.may_send(monotonic())`.
- Nothing is begun on a host whose partition (`partition_of`) is not in the last assignment's
  `partitions`: what follows there is put where its holder finds it. What was taken before the partition
  left them is sent all the same: until it is done, nobody else gets the partition.
- Where an assignment `has_lost` its lease, all that waits to be sent is dropped: others have it now.
  What is under way ends, and its visits are recorded and `done` as always.
- `tick` is told in which partitions requests are under way or wait in this process (`busy`), and
  whether there is nothing left to do (`is_idle`): nothing under way, nothing waiting, and what others
  put into the partitions held is gone too. Both are found after the assignment before has taken effect.
  It is also told whether anything but an entry was begun since the call before (`has_begun`), even if
  that has ended: others may have got something to do by it.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import Enum

from hacs_crawler.exceptions import StateUnavailableError
from hacs_crawler.fleet.board import Board, Change, Changed, Entry, View, partition_of

RENEWALS_A_LEASE = 6
"""So often a worker renews, so that a few failures in a row cost it nothing."""
SENDING_SHARE = 0.75
"""For so much of a lease that was not renewed requests are sent; the rest is for those under way."""
SOON_SHARE = 1 / 60
"""After so much of a lease a worker looks again while it waits for others."""


class Task(Enum):
    """What a worker is to do until the next assignment."""

    LEAD = "lead"
    """Rank the seeds, publish the plan, open the round."""
    WAIT = "wait"
    """Another ranks."""
    CRAWL = "crawl"
    """Take entries."""
    OVER = "over"
    """Leave: the round that this worker took part in is over."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a worker may do from now on.

    `partitions` are those in which something new may be begun. `has_lost` says that the worker's lease
    had run out and all that it had is others'. `tick_seconds` is after how long `tick` is to be called
    again.
    """

    task: Task
    round: int
    partitions: frozenset[int]
    has_lost: bool
    tick_seconds: float
    view: View


class FleetWorker:
    """A worker on a board. `now` is in seconds of a clock that is never set, as `time.monotonic`.

    A worker takes part in one round, or in all that come if it goes on `forever`: the next begins when
    the one before is over, and `round_seconds` after that began. A round that was left when its fleet
    ended is gone on with if `resume`, else the first to come begins a new one.
    Methods raise StateError; after a StateUnavailableError they can be called again.
    """

    def __init__(
        self,
        board: Board,
        name: str,
        *,
        forever: bool = False,
        round_seconds: float = 0.0,
        resume: bool = True,
    ) -> None:
        self._board = board
        self.name = name
        self._forever = forever
        self._round_seconds = round_seconds
        self._round_due_at = float("-inf")
        """By this worker's own clock, for when the board's is behind."""
        self._resume = resume
        self._has_joined = False
        self._round = 0
        """The last round that was open while this worker was there."""
        self._leads = 0
        self._published = 0
        self._has_opened = False
        self._room: int | None = None
        self._seen = 0
        """The highest number of a round that this worker knows of."""
        self._partitions: frozenset[int] = frozenset()
        self._leaving: frozenset[int] = frozenset()
        """Partitions held in which nothing new is begun, as others lack them."""
        self._sends_until = float("-inf")
        self._epoch = -1
        self._was_busy = True
        self._held: dict[int, Entry] = {}
        self._late: dict[int, Entry] = {}
        """Entries that others may have now, as the lease ran out while they were held."""
        self._done: list[Entry] = []
        self._is_unsure = False
        """Whether entries may have been given that never came."""

    def may_send(self, now: float) -> bool:
        """Whether requests may be sent; for any thread."""
        return now < self._sends_until

    def tick(
        self,
        now: float,
        *,
        busy: Set[int] = frozenset(),
        is_idle: bool = True,
        has_begun: bool = False,
    ) -> Assignment:
        """Renew the lease and find out what to do; see the module's text for the arguments.

        `now` is the time before the call.
        """
        self._was_busy = self._was_busy or has_begun  # whether or not the rest succeeds
        self._settle()
        busy = busy | {entry.partition for entry in self._held.values()}
        is_idle = is_idle and not busy
        self._was_busy = self._was_busy or not is_idle
        view = self._board.renew(
            self.name,
            released=self._leaving - busy,
            idle_since=self._epoch if is_idle else None,
            was_busy=is_idle and self._was_busy,
        )
        self._sends_until = now + SENDING_SHARE * self._board.lease_seconds
        has_lost = view.is_new and self._has_joined
        if view.is_new:
            self._late |= self._held
            self._held = {}
        # a board that a replica has taken over may have forgotten what was done
        self._is_unsure = view.held != len(self._held)
        self._was_busy = not is_idle
        self._epoch = view.epoch
        self._has_joined = True
        self._leaving = self._to_leave(view, busy)
        self._partitions = view.partitions - self._leaving
        task = self._task(view, now)
        self._resume = True  # what there is from now on is this worker's own
        is_waiting = is_idle or view.is_new or task is not Task.CRAWL
        is_moving = bool(self._leaving) or len(view.partitions) < view.share
        share = SOON_SHARE if is_waiting or is_moving else 1 / RENEWALS_A_LEASE
        return Assignment(
            task=task,
            round=self._leads if task is Task.LEAD else view.round,
            partitions=self._partitions,
            has_lost=has_lost,
            tick_seconds=share * self._board.lease_seconds,
            view=view,
        )

    def publish(
        self,
        entries: Sequence[tuple[str, int, bytes]],
        *,
        may_go: Collection[int] = (),
        is_spare: bool = False,
    ) -> bool:
        """Add a slice to the plan: URL, page id and request of each entry, best first.

        The first entry of the plan has the rank 0. See `Board.publish` for those of the ranks `may_go`,
        and for spare ones. Returns whether this worker leads still; if not, ranking is another's
        business. After a StateUnavailableError the same slice is to be published again.
        """
        plan = [(partition_of(url), page_id, request) for url, page_id, request in entries]
        leads = self._board.publish(
            self.name, self._leads, self._published, plan, may_go=may_go, is_spare=is_spare
        )
        self._published += len(plan)
        return leads

    def note(self, notes: Mapping[str, bytes]) -> bool:
        """Keep notes for all workers in the plan's round; returns whether this worker leads still."""
        return self._board.note(self.name, self._leads, notes)

    def open_round(self, room: int | None = None) -> bool:
        """Let everybody take from the plan, see `Board.open`; returns whether this worker leads."""
        self._room = room
        self._has_opened = self._board.open(self.name, self._leads, self._published, room=room)
        return self._has_opened

    def notes(self, number: int, names: Sequence[str]) -> list[bytes | None]:
        """Return notes of the round of that number, None for each that there is not."""
        return self._board.notes(self.name, number, names)

    def rank_anew(self, number: int, changes: Sequence[Change]) -> Changed:
        """Give entries that wait in this worker's partitions new places, see `Board.rank_anew`."""
        return self._board.rank_anew(self.name, number, changes)

    def take(self, most: int, now: float, left_alone: Set[int] = frozenset()) -> list[Entry]:
        """Return the best entries that wait in this worker's partitions, none if it may not send.

        Of the partitions `left_alone` none are taken.
        """
        partitions = self._partitions - left_alone
        if not self.may_send(now) or not partitions:
            return []
        self._settle()
        self._is_unsure = True
        entries = self._board.take(self.name, sorted(partitions), most)
        self._is_unsure = False
        self._held.update((entry.rank, entry) for entry in entries)
        self._was_busy = self._was_busy or bool(entries)
        return entries

    def done(self, page_ids: Iterable[int]) -> None:
        """Take the entries of these pages off the plan; where the board is away, at the next tick."""
        pages = set(page_ids)
        for entries in (self._held, self._late):
            for rank in [rank for rank, entry in entries.items() if entry.page_id in pages]:
                self._done.append(entries.pop(rank))
        try:
            self._settle()
        except StateUnavailableError:
            return

    def held(self) -> list[Entry]:
        """Return the entries that were taken and are not done."""
        return list(self._held.values())

    def leave(self) -> None:
        """Give back all that is not done, at once."""
        self._sends_until = float("-inf")
        self._settle()
        self._board.leave(self.name)
        self._held.clear()

    def _settle(self) -> None:
        """Tell the board what it may not know, as it was away."""
        if self._is_unsure:
            self._board.keep(self.name, [*self._held, *(entry.rank for entry in self._done)])
            self._is_unsure = False
        if self._done:
            self._board.done(self.name, self._round, self._done)
            self._done = []

    def _to_leave(self, view: View, busy: Set[int]) -> frozenset[int]:
        """Return the partitions to be given up: first those that are so already, then idle ones."""
        surplus = max(len(view.partitions) - view.share, 0)
        order = sorted(
            view.partitions,
            key=lambda partition: (partition not in self._leaving, partition in busy, -partition),
        )
        return frozenset(order[:surplus])

    def _task(self, view: View, now: float) -> Task:
        self._note_round(view, now)
        if view.phase == "ranking" and view.leader == self.name:
            return self._lead(view.round)
        is_left = view.workers == 1 and not self._resume
        is_open = view.phase == "open" and not view.is_over and not is_left
        if (view.phase == "ranking" or is_open) and self._is_past(view):
            return Task.OVER
        if view.phase == "ranking":
            return Task.WAIT
        if is_open:
            if self._round != view.round:
                self._round = view.round
                self._late.clear()
            return Task.CRAWL
        if self._round and not self._forever:
            return Task.OVER
        is_due = view.age_seconds >= self._round_seconds or now >= self._round_due_at
        is_early = view.is_over and not is_due
        number = 0 if is_early else self._begin(now, anew=is_left)
        return self._lead(number) if number else Task.WAIT

    def _note_round(self, view: View, now: float) -> None:
        if view.round > self._seen:
            self._note_beginning(now - view.age_seconds)
        self._seen = max(self._seen, view.round)

    def _begin(self, now: float, *, anew: bool) -> int:
        number = self._board.begin(self.name, anew=anew, above=self._seen)
        if number:
            self._note_beginning(now)
        return number

    def _note_beginning(self, at: float) -> None:
        # the board's time stays behind where nobody reached it for more than a quarter of a lease
        self._round_due_at = at + self._round_seconds + self._board.lease_seconds / 4

    def _is_past(self, view: View) -> bool:
        """Whether the one round that this worker takes part in is over, and another has begun."""
        return bool(self._round) and not self._forever and view.round != self._round

    def _lead(self, number: int) -> Task:
        if number != self._leads:
            self._seen = self._leads = number
            self._published = 0
            self._has_opened = False
        if self._has_opened:  # and the board has forgotten
            self.open_round(self._room)
            return Task.WAIT
        return Task.LEAD


def new_name() -> str:
    """Return a name that no other worker has or had."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"

"""What every board promises: each test runs in memory, on SQLite, on Redis and on a Redis Cluster."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest
import redis
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from conftest import KINDS, address
from hacs_crawler.exceptions import StateError, StateUnavailableError
from hacs_crawler.fleet import redis_scripts
from hacs_crawler.fleet.board import (
    PARTITIONS,
    Board,
    Change,
    Changed,
    Entry,
    View,
    partition_of,
    share_of,
)
from hacs_crawler.fleet.redis_board import RedisBoard
from sqlite_board import SQLiteBoard

LEASE = 60.0
SPARES = 4
BEAT = 10.0


class Clock:
    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def pass_(self, seconds: float, *renewing: Callable[[], object]) -> None:
        """Let time pass in the steps in which workers renew."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(end, self.now + BEAT)
            for renew in renewing:
                renew()


class Opener(Protocol):
    def __call__(self, name: str = ..., partitions: int = ...) -> Board: ...


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", *KINDS])
def open_board(request: pytest.FixtureRequest, clock: Clock) -> Iterator[Opener]:
    """Opens boards of a new namespace."""
    url = "memory" if request.param == "memory" else address(request)
    namespace = uuid.uuid4().hex
    opened: list[Board] = []

    def open_one(name: str = "fleet", partitions: int = 4) -> Board:
        opened.append(board_at(url, namespace, name, partitions, clock))
        return opened[-1]

    yield open_one
    for board in opened:
        board.close()


@pytest.fixture
def board(open_board: Opener) -> Board:
    return open_board()


def board_at(
    url: str, namespace: str, name: str, partitions: int, clock: Callable[[], float] | None
) -> Board:
    if url.startswith("redis"):
        return RedisBoard(
            url, namespace, name, lease_seconds=LEASE, partitions=partitions, clock=clock
        )
    path = None if url == "memory" else Path(url.removeprefix("sqlite:///"))
    return SQLiteBoard(
        path, namespace, name, lease_seconds=LEASE, partitions=partitions, clock=clock or Clock()
    )


def plan(number: int, partitions: int = 4) -> list[tuple[int, int, bytes]]:
    return [(rank % partitions, -rank, b"request %d" % rank) for rank in range(number)]


def lead(board: Board, worker: str = "a", entries: int = 8) -> int:
    """Let a worker join, rank and open a round."""
    look(board, worker)
    number = board.begin(worker)
    assert number
    assert board.publish(worker, number, 0, plan(entries))
    assert board.open(worker, number, entries)
    return number


def look(board: Board, worker: str, *, was_busy: bool = True) -> View:
    """Let a worker find that it has nothing to do, after it was busy or not."""
    epoch = board.renew(worker).epoch
    return board.renew(worker, idle_since=epoch, was_busy=was_busy)


def ranks(entries: list[Entry]) -> list[int]:
    return [entry.rank for entry in entries]


def test_a_worker_alone_holds_every_partition(board: Board) -> None:
    view = board.renew("a")
    assert view.is_new
    assert view.partitions == frozenset(range(4))
    assert not board.renew("a").is_new


def test_a_worker_that_comes_later_gets_what_the_others_give_up(board: Board) -> None:
    board.renew("a")
    assert board.renew("b").partitions == frozenset()
    assert board.renew("a").share == 2
    assert board.renew("a", released=[1, 3]).partitions == {0, 2}
    assert board.renew("b").partitions == {1, 3}


def test_partitions_of_another_worker_cannot_be_given_up(board: Board) -> None:
    board.renew("a")
    board.renew("b", released=[0])
    assert board.renew("a").partitions == frozenset(range(4))


@pytest.mark.parametrize("workers", [1, 3, 50, 300])
def test_shares_differ_by_one_at_most_and_are_all_there_is(workers: int) -> None:
    names = [f"w{number}" for number in range(workers)]
    shares = [share_of(name, names, PARTITIONS) for name in names]
    assert sum(shares) == PARTITIONS
    assert max(shares) - min(shares) <= 1


def test_every_board_gives_the_same_shares(board: Board) -> None:
    names = ["b", "a", "c"]
    for name in names:
        board.renew(name)
    assert [board.renew(name).share for name in names] == [share_of(n, names, 4) for n in names]


def test_a_plan_is_taken_best_first(board: Board) -> None:
    lead(board)
    assert ranks(board.take("a", range(4), 3)) == [0, 1, 2]
    assert ranks(board.take("a", range(4), 3)) == [3, 4, 5]
    assert ranks(board.take("a", range(4), 3)) == [6, 7]
    assert board.take("a", range(4), 3) == []


def test_an_entry_comes_as_it_was_published(board: Board) -> None:
    board.renew("a")
    number = board.begin("a")
    board.publish("a", number, 0, [(3, -(2**63), b"\x00\xff{}"), (1, 2**63 - 1, b"")])
    board.open("a", number, 2)
    assert board.take("a", range(4), 5) == [
        Entry(0, 3, -(2**63), b"\x00\xff{}"),
        Entry(1, 1, 2**63 - 1, b""),
    ]


def test_only_partitions_that_were_asked_for_are_taken_from(board: Board) -> None:
    lead(board)
    assert ranks(board.take("a", [1], 5)) == [1, 5]


def test_only_the_holder_of_a_partition_takes_from_it(board: Board) -> None:
    lead(board)
    board.renew("b")
    assert board.take("b", range(4), 8) == []
    board.renew("a", released=[0])
    assert board.renew("b").partitions == {0}
    assert ranks(board.take("b", range(4), 8)) == [0, 4]
    assert ranks(board.take("a", range(4), 8)) == [1, 2, 3, 5, 6, 7]


def test_nothing_is_taken_before_the_round_is_open(board: Board) -> None:
    board.renew("a")
    number = board.begin("a")
    board.publish("a", number, 0, plan(8))
    assert board.take("a", range(4), 8) == []


def test_what_is_done_is_done_once(board: Board) -> None:
    number = lead(board)
    entries = board.take("a", range(4), 8)
    board.done("a", number, entries)
    board.done("a", number, entries[:1])
    view = board.renew("a")
    assert (view.total, view.done, view.waiting, view.taken, view.repeats) == (8, 8, 0, 0, 1)


def test_done_of_an_earlier_round_changes_nothing(board: Board) -> None:
    first = lead(board, entries=1)
    entries = board.take("a", range(4), 1)
    board.done("a", first, entries)
    lead(board, entries=1)
    board.done("a", first, entries)
    assert board.renew("a").waiting == 1


def test_a_partition_given_up_takes_its_entries_with_it(board: Board) -> None:
    lead(board)
    board.take("a", range(4), 8)
    board.renew("b")
    board.renew("a", released=[2])
    board.renew("b")
    assert ranks(board.take("b", [2], 8)) == [2, 6]


def test_entries_whose_lease_ran_out_return_to_their_place(board: Board, clock: Clock) -> None:
    lead(board)
    board.renew("b")
    assert ranks(board.take("a", range(4), 3)) == [0, 1, 2]
    clock.pass_(LEASE + BEAT, lambda: board.renew("b"))
    view = board.renew("b")
    assert view.workers == 1
    assert view.lost == 3
    assert view.partitions == frozenset(range(4))
    assert ranks(board.take("b", range(4), 5)) == [0, 1, 2, 3, 4]


def test_a_worker_that_renews_keeps_what_it_has(board: Board, clock: Clock) -> None:
    lead(board)
    board.take("a", range(4), 3)
    clock.pass_(10 * LEASE, lambda: board.renew("a"), lambda: board.renew("b"))
    view = board.renew("a")
    assert (view.is_new, view.taken, view.lost) == (False, 3, 0)


def test_a_worker_that_comes_back_late_has_nothing(board: Board, clock: Clock) -> None:
    lead(board)
    board.take("a", range(4), 3)
    clock.pass_(LEASE + BEAT, lambda: board.renew("b"))
    view = board.renew("a")
    assert view.is_new
    assert view.partitions == frozenset()
    assert board.take("a", range(4), 3) == []


def test_what_a_late_worker_has_done_is_not_given_again(board: Board, clock: Clock) -> None:
    number = lead(board)
    entries = board.take("a", range(4), 3)
    clock.pass_(LEASE + BEAT, lambda: board.renew("b"))
    board.done("a", number, entries[:2])
    assert ranks(board.take("b", range(4), 2)) == [2, 3]


def test_what_two_have_done_counts_once(board: Board, clock: Clock) -> None:
    number = lead(board, entries=1)
    late = board.take("a", range(4), 1)
    clock.pass_(LEASE + BEAT, lambda: board.renew("b"))
    board.done("b", number, board.take("b", range(4), 1))
    board.done("a", number, late)
    view = board.renew("b")
    assert (view.done, view.repeats) == (1, 1)


def test_a_worker_that_leaves_gives_all_back_at_once(board: Board) -> None:
    lead(board)
    board.take("a", range(4), 3)
    board.leave("a")
    view = board.renew("b")
    assert (view.workers, view.lost) == (1, 0)
    assert ranks(board.take("b", range(4), 8)) == [*range(8)]


def lead_with_spares(board: Board, room: int | None, may_go: tuple[int, ...] = (4, 5)) -> int:
    """Open a round of six entries and two spare ones, of the ranks 6 and 7."""
    look(board, "a")
    number = board.begin("a")
    assert board.publish("a", number, 0, plan(6), may_go=may_go)
    assert board.publish("a", number, 6, plan(8)[6:], is_spare=True)
    assert board.open("a", number, 8, room=room)
    return number


def change(rank: int, position: float | None, note: bytes = b"") -> Change:
    return Change(rank % 4, rank, position, note)


def test_an_entry_that_is_ranked_anew_is_taken_in_its_new_place(board: Board) -> None:
    number = lead(board)
    changes = [change(7, 0.5, b'{"p": 1}'), change(0, 5.25), change(3, -0.5)]
    assert board.rank_anew("a", number, changes) == Changed(3, 0, 0, 0)
    entries = board.take("a", range(4), 8)
    assert ranks(entries) == [3, 7, 1, 2, 4, 5, 0, 6]
    assert [entry.note for entry in entries] == [b"", b'{"p": 1}', *[b""] * 6]


def test_only_what_waits_in_ones_own_partitions_is_ranked_anew(board: Board) -> None:
    number = lead(board)
    board.renew("b")
    board.renew("a", released=[1])
    assert board.renew("b").partitions == {1}
    assert ranks(board.take("a", range(4), 1)) == [0]
    changes = [change(0, 9.0), change(1, 9.0), change(99, 9.0)]
    assert board.rank_anew("a", number, changes) == Changed(0, 0, 0, 0)
    assert board.rank_anew("b", number, [change(1, 9.0)]) == Changed(1, 0, 0, 0)
    assert ranks(board.take("b", [1], 8)) == [5, 1]


def test_what_was_ranked_anew_returns_to_its_new_place(board: Board, clock: Clock) -> None:
    number = lead(board)
    board.rank_anew("a", number, [change(7, 0.5, b"x")])
    assert ranks(board.take("a", range(4), 2)) == [0, 7]
    clock.pass_(LEASE + BEAT, lambda: board.renew("b"))
    entries = board.take("b", range(4), 3)
    assert ranks(entries) == [0, 7, 1]
    assert entries[1].note == b"x"


def test_spare_entries_are_not_visited(board: Board) -> None:
    number = lead_with_spares(board, room=0)
    entries = board.take("a", range(4), 9)
    assert ranks(entries) == [*range(6)]
    board.done("a", number, entries)
    view = look(board, "a")
    assert (view.is_over, view.total, view.done) == (True, 6, 6)


def test_a_spare_entry_takes_the_place_of_the_last_that_may_go(board: Board) -> None:
    number = lead_with_spares(board, room=0)
    assert board.rank_anew("a", number, [change(7, 3.5), change(6, 3.6)]) == Changed(0, 2, 0, 2)
    assert ranks(board.take("a", range(4), 9)) == [0, 1, 2, 3, 7, 6]
    assert board.renew("a").total == 6


def test_nothing_comes_in_for_what_is_better_or_may_not_go(board: Board) -> None:
    number = lead_with_spares(board, room=0, may_go=(1,))
    assert board.rank_anew("a", number, [change(6, 4.5)]) == Changed(0, 0, 0, 0)
    assert board.rank_anew("a", number, [change(1, 5.5), change(6, 4.5)]) == Changed(1, 1, 0, 1)
    assert ranks(board.take("a", range(4), 9)) == [0, 2, 3, 4, 6, 5]


def test_nothing_comes_in_for_what_is_under_way(board: Board) -> None:
    number = lead_with_spares(board, room=0)
    board.take("a", range(4), 6)
    assert board.rank_anew("a", number, [change(6, -1.0)]) == Changed(0, 0, 0, 0)
    board.keep("a", [])
    assert board.rank_anew("a", number, [change(6, -1.0)]) == Changed(0, 0, 0, 0)


@pytest.mark.parametrize(("room", "came_in"), [(0, 0), (1, 1), (2, 2), (None, 2)])
def test_spare_entries_come_in_where_there_is_room(
    board: Board, room: int | None, came_in: int
) -> None:
    number = lead_with_spares(board, room, may_go=())
    changes = [change(6, 9.0), change(7, 9.5)]
    assert board.rank_anew("a", number, changes) == Changed(0, came_in, 0, 0)
    assert ranks(board.take("a", range(4), 9)) == [*range(6 + came_in)]
    assert board.renew("a").total == 6 + came_in


def test_what_was_left_out_for_another_may_come_in_again(board: Board) -> None:
    number = lead_with_spares(board, room=0)
    assert board.rank_anew("a", number, [change(6, 4.5)]) == Changed(0, 1, 0, 1)
    assert board.rank_anew("a", number, [change(5, -0.5)]) == Changed(0, 1, 0, 1)
    assert ranks(board.take("a", range(4), 9)) == [5, 0, 1, 2, 3, 4]


def test_what_is_left_out_makes_room(board: Board) -> None:
    number = lead_with_spares(board, room=0, may_go=())
    changes = [change(2, None), change(6, 9.0), change(7, 9.5), change(7, None)]
    assert board.rank_anew("a", number, changes) == Changed(0, 1, 1, 0)
    assert ranks(board.take("a", range(4), 9)) == [0, 1, 3, 4, 5, 6]


def test_nothing_is_ranked_anew_in_another_round_or_one_that_is_over(board: Board) -> None:
    number = lead_with_spares(board, room=None)
    assert board.rank_anew("a", number + 1, [change(6, 0.0)]) == Changed(0, 0, 0, 0)
    board.done("a", number, board.take("a", range(4), 9))
    assert look(board, "a").is_over
    assert board.rank_anew("a", number, [change(6, 0.0)]) == Changed(0, 0, 0, 0)


def test_what_a_late_worker_visits_of_what_was_left_out_counts_as_a_repeat(
    board: Board, clock: Clock
) -> None:
    number = lead_with_spares(board, room=None)
    late = board.take("a", range(4), 1)
    clock.pass_(LEASE + BEAT, lambda: board.renew("b"))
    assert board.rank_anew("b", number, [change(0, None)]) == Changed(0, 0, 1, 0)
    board.done("a", number, late)
    view = board.renew("b")
    assert (view.total, view.done, view.repeats) == (5, 0, 1)
    assert board.rank_anew("b", number, [change(0, 0.0)]) == Changed(0, 0, 0, 0)


def test_spare_entries_are_of_one_round(board: Board) -> None:
    board.done("a", lead_with_spares(board, room=None), board.take("a", range(4), 9))
    number = lead(board, entries=6)
    assert board.rank_anew("a", number, [change(6, 0.0), change(7, 0.0)]) == Changed(0, 0, 0, 0)


def test_notes_are_the_leaders_and_of_one_round(board: Board) -> None:
    board.renew("a")
    board.renew("b")
    number = board.begin("a")
    assert board.note("a", number, {"x": b"\x00\xff", "y": b""})
    assert not board.note("b", number, {"x": b"b"})
    assert board.notes("b", number, ["x"]) == [None]  # it is not open
    board.open("a", number, 0)
    assert board.notes("b", number, ["y", "z", "x"]) == [b"", None, b"\x00\xff"]
    assert board.notes("b", number, []) == []
    assert board.notes("b", number + 1, ["x"]) == [None]
    assert not board.note("a", number, {"z": b""})
    board.leave("b")
    look(board, "a")
    again = lead(board, entries=1)
    assert board.notes("a", again, ["x"]) == [None]


def test_many_changes_and_notes_go_in_several_calls(board: Board) -> None:
    board.renew("a")
    number = board.begin("a")
    board.publish("a", number, 0, plan(2_500))
    assert board.note("a", number, {str(place): b"%d" % place for place in range(2_500)})
    board.open("a", number, 2_500)
    names = [str(place) for place in range(2_500)]
    assert board.notes("a", number, names) == [b"%d" % place for place in range(2_500)]
    changes = [change(rank, 2_500.0 - rank) for rank in range(2_500)]
    assert board.rank_anew("a", number, changes) == Changed(2_500, 0, 0, 0)
    assert ranks(board.take("a", range(4), 9_999)) == [*reversed(range(2_500))]


def test_only_what_is_kept_stays_with_a_worker(board: Board) -> None:
    lead(board)
    board.take("a", range(4), 4)
    board.keep("a", [1, 3])
    assert board.renew("a").taken == 2
    assert ranks(board.take("a", range(4), 3)) == [0, 2, 4]


def test_one_worker_leads(board: Board) -> None:
    board.renew("a")
    board.renew("b")
    number = board.begin("a")
    assert number == 1
    assert board.begin("b") == board.begin("a") == 0
    assert not board.publish("b", number, 0, plan(8))
    assert not board.open("b", number, 0)
    assert board.renew("b").leader == "a"


def test_who_has_not_joined_cannot_lead(board: Board) -> None:
    assert board.begin("a") == 0


def test_a_leader_that_dies_leaves_no_plan(board: Board, clock: Clock) -> None:
    board.renew("a")
    number = board.begin("a")
    board.publish("a", number, 0, plan(8))
    clock.pass_(LEASE + BEAT, lambda: board.renew("b"))
    assert board.renew("b").phase == "none"
    again = board.begin("b")
    assert again == number + 1
    assert not board.publish("a", number, 8, plan(8))
    assert not board.open("a", number, 8)
    board.publish("b", again, 0, plan(2))
    board.open("b", again, 2)
    assert ranks(board.take("b", range(4), 9)) == [0, 1]


def test_a_leader_that_dies_once_its_round_is_open_is_not_missed(
    board: Board, clock: Clock
) -> None:
    lead(board)
    clock.pass_(LEASE + BEAT, lambda: board.renew("b"))
    assert ranks(board.take("b", range(4), 8)) == [*range(8)]


def test_a_slice_sent_twice_is_there_once(board: Board) -> None:
    board.renew("a")
    number = board.begin("a")
    for _ in range(2):
        assert board.publish("a", number, 0, plan(8))
    assert board.publish("a", number, 8, plan(2))
    assert board.open("a", number, 10)
    assert board.open("a", number, 10)
    assert board.renew("a").total == 10


def test_a_plan_with_a_gap_is_thrown_away(board: Board) -> None:
    board.renew("a")
    number = board.begin("a")
    board.publish("a", number, 0, plan(8))
    assert not board.publish("a", number, 16, plan(8))
    view = board.renew("a")
    assert (view.phase, view.total, view.waiting) == ("none", 0, 0)
    assert board.begin("a") == number + 1


def test_a_plan_that_lacks_its_end_is_thrown_away(board: Board) -> None:
    board.renew("a")
    number = board.begin("a")
    board.publish("a", number, 0, plan(8))
    assert not board.open("a", number, 16)
    assert board.renew("a").phase == "none"


def test_a_rounds_number_is_above_all_that_its_leader_knows(board: Board) -> None:
    board.renew("a")
    assert board.begin("a", above=7) == 8


def test_a_worker_is_told_how_much_it_holds(board: Board) -> None:
    lead(board)
    board.take("a", range(4), 3)
    assert board.renew("a").held == 3
    assert board.renew("b").held == 0


def test_a_long_plan_comes_whole_and_in_order(board: Board) -> None:
    lead(board, entries=2_500)
    assert ranks(board.take("a", range(4), 9_999)) == [*range(2_500)]


def test_a_round_is_over_when_all_is_done_and_every_worker_idle(board: Board) -> None:
    number = lead(board, entries=1)
    board.done("a", number, board.take("a", range(4), 1))
    assert not board.renew("a").is_over
    assert board.begin("a") == 0
    assert look(board, "a").is_over
    assert board.begin("a") == number + 1
    assert not look(board, "a").is_over


def test_a_round_is_not_over_while_entries_wait_or_are_under_way(board: Board) -> None:
    lead(board, entries=1)
    assert not look(board, "a").is_over
    board.take("a", range(4), 1)
    assert not look(board, "a").is_over


def test_an_empty_plan_is_over_at_once(board: Board) -> None:
    lead(board, entries=0)
    assert look(board, "a").is_over


def test_a_worker_that_was_busy_has_the_others_look_again(board: Board) -> None:
    lead(board, entries=0)
    board.renew("a", released=[0, 1])
    board.renew("b")
    assert not look(board, "b").is_over
    epoch = board.renew("b").epoch
    assert not look(board, "a").is_over  # a may have left b something to do
    assert not board.renew("b", idle_since=epoch).is_over  # b looked before a was through
    assert board.renew("b", idle_since=board.renew("b").epoch).is_over


def test_a_round_is_not_over_when_a_partition_has_just_changed_hands(board: Board) -> None:
    lead(board, entries=0)
    board.renew("b")
    look(board, "b")
    view = board.renew("a", released=[0, 1], idle_since=look(board, "a").epoch)
    view = board.renew("b", idle_since=view.epoch)
    assert view.partitions == {0, 1}
    assert not view.is_over


def test_what_a_worker_found_before_it_was_given_partitions_counts_for_nothing(
    board: Board,
) -> None:
    """As where the answer that gave them got lost, so that it has not looked there."""
    lead(board, entries=0)
    board.renew("b")
    epoch = look(board, "a").epoch
    board.renew("a", released=[0, 1], idle_since=epoch)
    assert board.renew("b", idle_since=epoch).partitions == {0, 1}
    assert not board.renew("b", idle_since=epoch).is_over
    look(board, "a")
    assert look(board, "b", was_busy=False).is_over


def test_what_a_worker_found_before_another_was_busy_counts_for_nothing(board: Board) -> None:
    """As where it was long on its way, and the other has left it something to do meanwhile."""
    lead(board, entries=0)
    board.renew("a", released=[0, 1])
    before = board.renew("b").epoch
    after = look(board, "a").epoch  # was busy until now
    board.renew("b", idle_since=before, was_busy=True)
    assert not look(board, "a", was_busy=False).is_over
    assert after > before


def test_a_round_that_is_over_stays_so_whoever_leaves_or_joins(board: Board) -> None:
    number = lead(board, entries=0)
    board.renew("a", released=[0, 1])
    board.renew("b")
    look(board, "a")
    assert look(board, "b", was_busy=False).is_over
    board.leave("b")
    assert board.renew("a").is_over
    assert board.renew("c").is_over
    assert board.begin("c") == number + 1
    assert not board.renew("a").is_over


def test_a_rounds_age_is_counted_in_the_boards_time(board: Board, clock: Clock) -> None:
    board.renew("a")
    clock.pass_(LEASE, lambda: board.renew("a"))
    board.begin("a")
    before = board.renew("a").age_seconds
    clock.pass_(LEASE, lambda: board.renew("a"))
    clock.now += 1e6  # set by somebody
    age = board.renew("b").age_seconds
    assert before <= BEAT
    assert LEASE <= age <= 1.25 * LEASE + BEAT


def test_a_worker_that_died_has_the_others_look_again(board: Board, clock: Clock) -> None:
    lead(board, entries=0)
    board.renew("b")
    epoch = look(board, "b").epoch
    clock.pass_(LEASE + BEAT, lambda: board.renew("b", idle_since=epoch))
    assert board.renew("b", idle_since=board.renew("b").epoch).is_over


def test_a_round_of_which_nothing_is_left_ends_with_its_last_worker(board: Board) -> None:
    number = lead(board, entries=1)
    board.done("a", number, board.take("a", range(4), 1))
    board.leave("a")
    board.renew("b")
    assert board.begin("b") == number + 1


def test_what_is_left_of_a_round_waits_for_other_workers(board: Board) -> None:
    lead(board, entries=2)
    board.leave("a")
    assert board.renew("b").phase == "open"
    assert board.begin("b") == 0
    assert ranks(board.take("b", range(4), 2)) == [0, 1]


def test_a_worker_that_is_alone_may_begin_anew(board: Board) -> None:
    number = lead(board, entries=2)
    board.renew("b")
    assert board.begin("b", anew=True) == 0
    board.leave("a")
    assert board.begin("b", anew=True) == number + 1
    assert board.renew("b").waiting == 0


def test_a_clock_set_forward_costs_nobody_the_lease(board: Board, clock: Clock) -> None:
    lead(board)
    board.take("a", range(4), 3)
    clock.now += 86_400
    assert not board.renew("a").is_new
    assert board.renew("b").lost == 0


def test_a_clock_set_back_delays_no_end_of_a_lease(board: Board, clock: Clock) -> None:
    lead(board)
    board.take("a", range(4), 3)
    clock.now -= 86_400
    clock.pass_(LEASE + BEAT, lambda: board.renew("b"))
    assert board.renew("b").lost == 3


def test_no_lease_runs_out_while_nobody_reaches_the_board(board: Board, clock: Clock) -> None:
    lead(board)
    board.renew("b")
    clock.now += 20 * LEASE
    board.renew("b")
    assert not board.renew("a").is_new


def test_fleets_do_not_meet(open_board: Opener) -> None:
    one, other = open_board("one/{x}"), open_board('other"')
    lead(one)
    assert other.renew("a").is_new
    assert other.take("a", range(4), 8) == []


@pytest.mark.parametrize("open_board", KINDS, indirect=True)  # memory is not shared
def test_a_board_of_another_version_is_refused_while_it_has_workers(
    open_board: Opener, clock: Clock
) -> None:
    old = open_board("old", 8)
    lead(old)
    new = open_board("old", 4)
    with pytest.raises(StateError, match=r"another version.*stop its workers first"):
        new.renew("b")
    old.leave("a")
    view = new.renew("b")
    assert (view.partitions, view.round, view.total) == (frozenset(range(4)), 0, 0)


def test_a_hosts_partition_is_the_same_for_all_its_urls() -> None:
    urls = ("http://a.example.edu/~ada/", "https://A.EXAMPLE.edu:8443/x?y", "http://a.example.edu")
    assert len({partition_of(url) for url in urls}) == 1
    assert partition_of("http://a.example.edu/") == 163  # on every machine, in every version
    assert partition_of("http://[bad") == 0
    spread = {partition_of(f"http://host{number}.example/") for number in range(5_000)}
    assert spread == set(range(PARTITIONS))


REDIS_KEYS = redis_scripts.KEYS


@pytest.mark.parametrize("key", REDIS_KEYS)
def test_a_key_of_another_type_is_named(key: str, redis_port: int) -> None:
    url, namespace = f"redis://127.0.0.1:{redis_port}/0", uuid.uuid4().hex
    board = RedisBoard(url, namespace)
    with redis.Redis(port=redis_port) as client:
        client.rpush(f"{namespace}:{{fleet.fleet}}:{key}", "x")
    for step in (lambda: board.renew("a"), lambda: board.take("a", [0], 1)):
        with pytest.raises(StateError, match=rf"{namespace}:.*:{key} is a list"):
            step()
    board.close()


@pytest.mark.parametrize("value", ["x", "nan", "inf", "1e300", ""])
def test_a_number_that_is_none_is_named(value: str, redis_port: int) -> None:
    namespace = uuid.uuid4().hex
    board = RedisBoard(f"redis://127.0.0.1:{redis_port}/0", namespace)
    with redis.Redis(port=redis_port) as client:
        client.hset(f"{namespace}:{{fleet.fleet}}:board", "round", value)
    with pytest.raises(StateError, match=r"field round .*:board is no number"):
        board.renew("a")
    board.close()


def test_entries_that_are_none_are_passed_over(redis_port: int, clock: Clock) -> None:
    namespace = uuid.uuid4().hex
    board = board_at(f"redis://127.0.0.1:{redis_port}/0", namespace, "fleet", 4, clock)
    number = lead(board, entries=1)
    prefix = f"{namespace}:{{fleet.fleet}}"
    with redis.Redis(port=redis_port) as client:
        client.zadd(f"{prefix}:waiting", {"x": 0, "0:1:2": 1, "7:77": 2})
        client.hset(f"{prefix}:taken", mapping={"y": "a", "3:4": "somebody"})
    entries = board.take("a", range(4), 9)
    assert ranks(entries) == [0]
    board.keep("a", [0])
    board.done("a", number, entries)
    board.renew("a", released=[0])
    assert board.renew("a").done == 1
    board.close()


def test_places_that_are_none_are_passed_over(redis_port: int, clock: Clock) -> None:
    namespace = uuid.uuid4().hex
    board = board_at(f"redis://127.0.0.1:{redis_port}/0", namespace, "fleet", 4, clock)
    number = lead_with_spares(board, room=0)
    prefix = f"{namespace}:{{fleet.fleet}}"
    with redis.Redis(port=redis_port) as client:
        client.zadd(f"{prefix}:mobile", {"x": 90, "0:77": 80})
        client.hset(f"{prefix}:anew", mapping={"0:0": "inf x", "1:1": "rubbish"})
    assert board.rank_anew("a", number, [change(6, 3.5), change(7, 3.6)]) == Changed(0, 2, 0, 2)
    assert ranks(board.take("a", range(4), 9)) == [0, 1, 2, 3, 6, 7]
    board.keep("a", [])
    assert ranks(board.take("a", range(4), 9)) == [0, 1, 2, 3, 6, 7]
    board.close()


def test_a_field_that_is_no_number_is_named_on_sqlite(tmp_path: Path) -> None:
    board = SQLiteBoard(tmp_path / "state.db")
    board.renew("a")
    with sqlite3.connect(tmp_path / "state.db") as db:
        db.execute("UPDATE \"hacs.fleet.board\" SET value = 'x' WHERE key = 'round'")
    db.close()
    with pytest.raises(StateError, match=r"state\.db holds 'x' as round in"):
        board.renew("a")
    board.close()


def test_a_server_that_is_away_is_named_without_its_password() -> None:
    board = RedisBoard("redis://user:secret@127.0.0.1:1/0")
    with pytest.raises(StateUnavailableError, match=r"board in redis://127\.0\.0\.1:1/0") as caught:
        board.renew("a")
    assert "secret" not in str(caught.value)


class Fleet(RuleBasedStateMachine):
    """Workers that join, take, finish, die, and come back late, by a clock that anybody sets.

    A worker's own lease is counted as `FleetWorker` does: by a clock that only goes on, from before
    the step that prolonged it.
    """

    url = "memory"

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.own = 0.0
        self.board = board_at(self.url, uuid.uuid4().hex, "fleet", 4, self.clock)
        self.lives: dict[str, int] = {}
        self.until: dict[str, float] = {}
        self.partitions: dict[str, frozenset[int]] = {}
        self.held: dict[str, dict[int, Entry]] = {}
        self.visits: dict[int, int] = {}
        self.epochs: dict[str, int] = {}
        self.number = self.total = 0
        self.room: int | None = None

    def teardown(self) -> None:
        """Whatever has happened: one worker that goes on ends with every entry done."""
        if self.number:
            for _ in range(10):
                self.clock.now += BEAT
                self.board.renew("last")
            while entries := self.board.take("last", range(4), 3):
                self.visit("last", entries)
            view = look(self.board, "last")
            assert view.is_over or view.phase == "none"
            assert view.done == view.total <= sum(map(bool, self.visits.values()))
            assert view.done + view.repeats == sum(self.visits.values())
            assert view.total == self.total
        self.board.close()

    def name(self, worker: str) -> str:
        return f"{worker}{self.lives.get(worker, 0)}"

    def is_live(self, worker: str) -> bool:
        return self.own < self.until.get(worker, 0.0)

    def visit(self, worker: str, entries: list[Entry]) -> None:
        for entry in entries:
            self.visits[entry.rank] += 1
        self.board.done(worker, self.number, entries)

    workers = st.sampled_from("abc")

    @initialize(entries=st.integers(0, 30), room=st.none() | st.integers(0, 2))
    def a_round_is_begun(self, entries: int, room: int | None) -> None:
        self.renew("a", set(), is_idle=False)
        self.number = self.board.begin("a0")
        whole = plan(entries + SPARES)
        self.board.publish("a0", self.number, 0, whole[:entries], may_go=range(1, entries, 2))
        self.board.publish("a0", self.number, entries, whole[entries:], is_spare=True)
        self.board.open("a0", self.number, entries + SPARES, room=room)
        self.room = room
        self.total = entries
        self.visits = dict.fromkeys(range(entries + SPARES), 0)

    @rule(worker=workers, gives=st.sets(st.integers(0, 3)), is_idle=st.booleans())
    def renew(self, worker: str, gives: set[int], is_idle: bool) -> None:
        was_live = self.is_live(worker)
        released = [*gives]
        view = self.board.renew(
            self.name(worker),
            released=released,
            idle_since=self.epochs.get(worker) if is_idle else None,
            was_busy=is_idle,
        )
        self.epochs[worker] = view.epoch
        held = self.held.setdefault(worker, {})
        if view.is_new:
            assert not was_live
            held.clear()
        for entry in [*held.values()]:
            if entry.partition in gives:
                del held[entry.rank]
        self.until[worker] = self.own + LEASE - 0.001  # a board's steps round to microseconds
        self.partitions[worker] = view.partitions
        assert view.partitions >= {entry.partition for entry in held.values()}
        if view.is_over:
            assert view.done == view.total <= sum(map(bool, self.visits.values()))

    @rule(worker=workers, most=st.integers(1, 5))
    def take(self, worker: str, most: int) -> None:
        for entry in self.board.take(self.name(worker), range(4), most):
            assert entry.partition in self.partitions[worker]
            self.held[worker][entry.rank] = entry

    @rule(worker=workers, number=st.integers(1, 3))
    def finish(self, worker: str, number: int) -> None:
        held = self.held.get(worker, {})
        self.visit(self.name(worker), [held.pop(rank) for rank in sorted(held)[:number]])

    @rule(
        worker=workers,
        rank=st.integers(0, 29 + SPARES),
        position=st.none() | st.floats(-0.99, 40.0),
    )
    def rank_anew(self, worker: str, rank: int, position: float | None) -> None:
        changed = self.board.rank_anew(self.name(worker), self.number, [change(rank, position)])
        assert sum(changed[:3]) <= (rank % 4 in self.partitions.get(worker, ()))
        is_under_way = any(rank in self.held[who] for who in self.held if self.is_live(who))
        assert not (is_under_way and sum(changed))
        if self.room is None:
            self.total += changed.came_in - changed.left_out
        else:  # what comes in without room does so for another
            more = min(changed.came_in, self.room) - changed.left_out
            self.total += more
            self.room -= more

    @rule(worker=workers)
    def die(self, worker: str) -> None:
        self.lives[worker] = self.lives.get(worker, 0) + 1
        for facts in (self.until, self.partitions, self.held):
            facts.pop(worker, None)  # type: ignore[attr-defined]

    @rule(worker=workers)
    def leave(self, worker: str) -> None:
        self.board.leave(self.name(worker))
        self.die(worker)

    @rule(seconds=st.floats(0, 2 * LEASE))
    def time_passes(self, seconds: float) -> None:
        self.clock.now += seconds
        self.own += seconds

    @rule(worker=workers)
    def the_others_are_late(self, worker: str) -> None:
        for _ in range(9):
            self.clock.now += BEAT
            self.own += BEAT
            self.renew(worker, set(), is_idle=False)

    @rule(seconds=st.floats(-1e6, 1e6))
    def somebody_sets_the_clock(self, seconds: float) -> None:
        self.clock.now += seconds
        cost = min(max(seconds, 0.0), LEASE / 4)
        self.until = {worker: until - cost for worker, until in self.until.items()}

    @invariant()
    def no_partition_has_two_holders(self) -> None:
        live = [worker for worker in self.until if self.is_live(worker)]
        held = [part for worker in live for part in self.partitions.get(worker, ())]
        assert len(held) == len(set(held))

    @invariant()
    def no_entry_has_two_holders(self) -> None:
        live = [worker for worker in self.until if self.is_live(worker)]
        held = [rank for worker in live for rank in self.held.get(worker, ())]
        assert len(held) == len(set(held))


TestFleetInMemory = Fleet.TestCase
TestFleetInMemory.settings = settings(max_examples=60, stateful_step_count=40)


def test_random_fleets_on_redis(redis_port: int) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    class OnRedis(Fleet):
        url = f"redis://127.0.0.1:{redis_port}/0"

    run_state_machine_as_test(
        OnRedis,
        settings=settings(
            max_examples=40, stateful_step_count=40, suppress_health_check=[HealthCheck.too_slow]
        ),
    )

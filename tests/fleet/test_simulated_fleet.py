"""Fleets that crash, stand still and lose their board, on a simulated clock."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import pytest

from fleet_simulation import Counts, Scale, SimulatedFleet
from hacs_crawler.fleet.board import Board
from hacs_crawler.fleet.redis_board import RedisBoard
from sqlite_board import SQLiteBoard

SCALE = Scale(
    workers=8,
    hosts=300,
    entries=1_500,
    rounds=3,
    crash_seconds=600.0,
    pause_share=0.004,
    outages=((60.0, 30.0), (200.0, 120.0)),
)


def opener(kind: str, redis_port: int) -> Callable[[Callable[[], float]], Board]:
    def open_board(clock: Callable[[], float]) -> Board:
        if kind == "memory":
            return SQLiteBoard(None, clock=clock)
        return RedisBoard(f"redis://127.0.0.1:{redis_port}/0", uuid.uuid4().hex, clock=clock)

    return open_board


@pytest.fixture(
    scope="module",
    params=[("memory", 1), ("memory", 13), ("memory", 18), ("redis", 27)],
    ids=lambda param: f"{param[0]}-{param[1]}",
)
def counts(request: pytest.FixtureRequest, redis_port: int) -> Counts:
    kind, seed = request.param
    return SimulatedFleet(SCALE, opener(kind, redis_port), seed).run()


def test_every_entry_of_every_round_is_visited(counts: Counts) -> None:
    assert len(counts.plans) >= SCALE.rounds
    assert counts.forgotten == 0


def test_an_entry_is_visited_again_only_where_a_lease_ran_out(counts: Counts) -> None:
    assert 0 < counts.repeats <= counts.lost


def test_no_round_is_over_while_anything_waits_or_is_under_way(counts: Counts) -> None:
    assert counts.followed > 0
    assert counts.early_ends == 0


def test_a_host_is_asked_by_one_worker_but_for_one_request_of_one_that_stood_still(
    counts: Counts,
) -> None:
    assert counts.overlaps_in_time == 0
    assert counts.overlaps <= counts.sent_late.total()
    assert set(counts.sent_late.values()) == {1}


def test_the_fleet_went_through_what_it_is_to_withstand(counts: Counts) -> None:
    assert counts.crashes >= 5
    assert counts.long_pauses >= 5
    assert counts.joins > SCALE.workers

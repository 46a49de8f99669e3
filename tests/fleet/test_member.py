"""A worker of a fleet: what it is told to do, and what it does when the board or its lease is away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from hacs_crawler.exceptions import StateUnavailableError
from hacs_crawler.fleet.board import PARTITIONS, partition_of
from hacs_crawler.fleet.member import Assignment, FleetWorker, Task, new_name
from sqlite_board import SQLiteBoard

HOSTS = [f"http://host{number}.example/" for number in range(20)]
PLAN = [(host, number, b"request %d" % number) for number, host in enumerate(HOSTS, start=1)]


class Flaky:
    """A board whose steps fail at will, before or after they were done."""

    def __init__(self, board: SQLiteBoard) -> None:
        self._board = board
        self.lease_seconds = board.lease_seconds
        self.fails: dict[str, str] = {}
        self.forgets: set[str] = set()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def step(*args: Any, **kwargs: Any) -> Any:
            when = self.fails.get(name)
            if name in self.forgets:
                return True
            if when == "before":
                raise StateUnavailableError("away")
            answer = getattr(self._board, name)(*args, **kwargs)
            if when == "after":
                raise StateUnavailableError("away")
            return answer

        return step


class World:
    """A board, workers, and a clock."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.board: Any = Flaky(SQLiteBoard(None, clock=lambda: self.now))
        self.workers: dict[str, FleetWorker] = {}

    def worker(self, name: str, **options: Any) -> FleetWorker:
        return self.workers.setdefault(name, FleetWorker(self.board, name, **options))

    def tick(self, name: str, *busy: int, is_idle: bool = True, **options: Any) -> Assignment:
        worker = self.worker(name, **options)
        return worker.tick(self.now, busy=frozenset(busy), is_idle=is_idle)

    def lead(self, name: str, number: int = len(PLAN), **options: Any) -> None:
        assert self.tick(name, **options).task is Task.LEAD
        assert self.workers[name].publish(PLAN[:number])
        assert self.workers[name].open_round()
        assert self.tick(name).task is Task.CRAWL

    def pass_(self, seconds: float, *names: str) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now += 10.0
            for name in names:
                self.tick(name)

    def finish(self, name: str) -> list[int]:
        """Let a worker visit all there is for it."""
        pages = []
        while entries := self.workers[name].take(3, self.now):
            self.workers[name].done(entry.page_id for entry in entries)
            pages += [entry.page_id for entry in entries]
        return pages


@pytest.fixture
def world() -> World:
    return World()


def test_a_worker_alone_leads_crawls_and_leaves(world: World) -> None:
    world.lead("a")
    assert world.finish("a") == [page for _, page, _ in PLAN]
    assert world.tick("a").task is Task.OVER


def test_an_entry_brings_its_request(world: World) -> None:
    world.lead("a")
    entry = world.workers["a"].take(1, world.now)[0]
    assert entry.request == b"request 1"
    assert entry.partition == partition_of(HOSTS[0])


def test_one_that_goes_on_for_ever_leads_the_next_round(world: World) -> None:
    world.lead("a", forever=True)
    first = world.tick("a").round
    world.finish("a")
    again = world.tick("a")
    assert (again.task, again.round) == (Task.LEAD, first + 1)
    assert world.tick("a").round == first + 1


HOURLY = {"forever": True, "round_seconds": 3_600.0}


def test_the_next_round_begins_when_its_time_has_come(world: World) -> None:
    world.lead("a", **HOURLY)
    world.finish("a")
    world.pass_(3_590.0, "a")
    assert world.tick("a").task is Task.WAIT
    world.pass_(10.0)
    assert world.tick("a").task is Task.LEAD


def test_one_that_comes_between_two_rounds_begins_the_next_no_sooner_and_no_later(
    world: World,
) -> None:
    world.lead("a", **HOURLY)
    world.finish("a")
    world.pass_(1_800.0, "a")
    world.tick("b", **HOURLY)
    world.workers["a"].leave()
    world.pass_(1_790.0, "b")
    assert world.tick("b").task is Task.WAIT
    world.pass_(10.0)
    assert world.tick("b").task is Task.LEAD


def test_a_board_that_was_away_delays_a_round_by_a_quarter_of_a_lease_at_most(
    world: World,
) -> None:
    world.lead("a", **HOURLY)
    world.finish("a")
    world.tick("a")
    world.pass_(3_600.0 + world.board.lease_seconds / 4)
    assert world.tick("a").task is Task.LEAD


def test_a_round_whose_leader_died_is_begun_again_at_once(world: World) -> None:
    assert world.tick("a", **HOURLY).task is Task.LEAD
    world.tick("b", **HOURLY)
    world.workers["a"].leave()
    assert world.tick("b").task is Task.LEAD


def test_others_wait_while_one_ranks(world: World) -> None:
    assert world.tick("a").task is Task.LEAD
    waiting = world.tick("b")
    assert waiting.task is Task.WAIT
    assert waiting.tick_seconds < world.board.lease_seconds / 30
    world.workers["a"].publish(PLAN)
    world.workers["a"].open_round()
    assert world.tick("b").task is Task.CRAWL


def settle(world: World, *names: str) -> None:
    """Let partitions find their holders."""
    for _ in range(3):
        for name in names:
            world.tick(name)


def test_one_that_comes_in_a_round_gets_its_share(world: World) -> None:
    world.lead("a")
    settle(world, "a", "b")
    assert len(world.tick("b").partitions) == PARTITIONS // 2
    pages = world.finish("a") + world.finish("b")
    assert sorted(pages) == [page for _, page, _ in PLAN]


def test_all_learn_that_the_round_is_over(world: World) -> None:
    world.lead("a")
    settle(world, "a", "b")
    world.finish("a")
    world.finish("b")
    settle(world, "a", "b")
    assert [world.tick(name).task for name in "ab"] == [Task.OVER, Task.OVER]


def test_the_round_goes_on_while_anything_is_under_way(world: World) -> None:
    world.lead("a")
    world.finish("a")
    assert world.tick("a", is_idle=False).task is Task.CRAWL
    assert world.tick("a", 5).task is Task.CRAWL
    assert world.tick("a").task is Task.OVER


def test_what_began_and_ended_between_two_ticks_has_the_others_look_again(world: World) -> None:
    world.lead("a", 0)
    settle(world, "a", "b")
    world.workers["b"].tick(world.now, is_idle=False)
    epoch = world.tick("a").view.epoch
    world.workers["b"].tick(world.now, is_idle=False)
    assert world.tick("a").view.epoch == epoch
    world.workers["b"].tick(world.now, is_idle=True, has_begun=True)
    assert world.tick("a").view.epoch > epoch
    world.workers["b"].tick(world.now, is_idle=True)
    quiet = world.tick("a").view.epoch
    world.workers["b"].tick(world.now, is_idle=True, has_begun=True)
    assert world.tick("a").view.epoch > quiet


def test_one_whose_round_is_over_takes_no_part_in_the_next(world: World) -> None:
    world.lead("a")
    world.worker("b", forever=True)
    settle(world, "a", "b")
    world.finish("a")
    world.finish("b")
    while world.tick("b").task is not Task.LEAD:
        assert world.tick("a").task in {Task.CRAWL, Task.OVER}
    assert world.tick("a").task is Task.OVER


def test_partitions_are_announced_before_they_are_given_up(world: World) -> None:
    world.lead("a")
    world.tick("b")
    announced = world.tick("a")
    assert len(announced.partitions) == PARTITIONS // 2
    assert len(announced.view.partitions) == PARTITIONS
    assert world.tick("b").partitions == frozenset()
    given_up = world.tick("a").view.partitions
    assert given_up == announced.partitions


def test_a_partition_is_not_given_up_while_something_is_under_way_there(world: World) -> None:
    world.lead("a")
    world.tick("b")
    everywhere = range(PARTITIONS)
    announced = world.tick("a", *everywhere)
    assert world.tick("a", *everywhere).view.partitions == frozenset(everywhere)
    assert world.tick("a").view.partitions == announced.partitions


def test_what_was_taken_keeps_its_partition(world: World) -> None:
    world.lead("a")
    entries = world.workers["a"].take(20, world.now)
    settle(world, "a", "b", "c")
    held = world.tick("a").view.partitions
    assert held >= {entry.partition for entry in entries}


def test_nothing_is_taken_of_partitions_that_are_left_alone(world: World) -> None:
    world.lead("a")
    worker = world.workers["a"]
    (best,) = worker.take(1, world.now)
    partitions = {entry.partition for entry in worker.take(20, world.now, {best.partition})}
    assert partitions
    assert best.partition not in partitions
    assert worker.take(20, world.now, frozenset(range(PARTITIONS))) == []


def test_nothing_is_sent_under_a_lease_that_is_not_renewed(world: World) -> None:
    world.lead("a")
    worker = world.workers["a"]
    lease = world.board.lease_seconds
    assert worker.may_send(world.now + 0.7 * lease)
    assert not worker.may_send(world.now + 0.8 * lease)
    assert worker.take(3, world.now + 0.8 * lease) == []
    assert worker.take(3, world.now) != []


def test_one_that_has_not_joined_sends_nothing(world: World) -> None:
    assert not world.worker("a").may_send(world.now)


def test_one_that_comes_back_late_is_told_so_and_has_nothing(world: World) -> None:
    world.lead("a")
    world.workers["a"].take(3, world.now)
    world.pass_(100.0, "b")
    late = world.tick("a")
    assert late.has_lost
    assert late.partitions == frozenset()
    assert world.workers["a"].held() == []
    assert not world.tick("a").has_lost


def test_what_was_visited_late_is_not_visited_again(world: World) -> None:
    world.lead("a")
    late = world.workers["a"].take(3, world.now)
    world.pass_(100.0, "b")
    world.tick("a")
    world.workers["a"].done(entry.page_id for entry in late)
    assert world.finish("b") == [page for _, page, _ in PLAN[3:]]


def test_entries_whose_answer_got_lost_return(world: World) -> None:
    world.lead("a")
    first = world.workers["a"].take(2, world.now)
    world.board.fails["take"] = "after"
    with pytest.raises(StateUnavailableError):
        world.workers["a"].take(3, world.now)
    world.board.fails.clear()
    world.workers["a"].done([first[0].page_id])
    assert [entry.rank for entry in world.workers["a"].take(2, world.now)] == [2, 3]
    assert world.workers["a"].held()[0] == first[1]


@pytest.mark.parametrize("when", ["before", "after"])
def test_what_is_done_while_the_board_is_away_is_told_later(world: World, when: str) -> None:
    world.lead("a")
    entries = world.workers["a"].take(3, world.now)
    world.board.fails["done"] = when
    world.workers["a"].done(entry.page_id for entry in entries)
    world.board.fails.clear()
    assert world.tick("a").view.done == 3


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_slice_can_be_published_again(world: World, when: str) -> None:
    world.tick("a")
    worker = world.workers["a"]
    assert worker.publish(PLAN[:5])
    world.board.fails["publish"] = when
    with pytest.raises(StateUnavailableError):
        worker.publish(PLAN[5:])
    world.board.fails.clear()
    assert worker.publish(PLAN[5:])
    worker.open_round()
    world.tick("a")
    assert world.finish("a") == [page for _, page, _ in PLAN]


def test_a_tick_that_failed_can_be_done_again(world: World) -> None:
    world.lead("a")
    world.board.fails["renew"] = "after"
    with pytest.raises(StateUnavailableError):
        world.tick("a")
    world.board.fails.clear()
    assert world.tick("a").task is Task.CRAWL


def test_a_leader_whose_begin_got_no_answer_leads(world: World) -> None:
    world.board.fails["begin"] = "after"
    with pytest.raises(StateUnavailableError):
        world.tick("a")
    world.board.fails.clear()
    world.lead("a")


def test_one_that_no_longer_leads_is_told_so(world: World) -> None:
    world.tick("a")
    assert world.workers["a"].publish(PLAN[:5])
    world.pass_(100.0, "b")
    assert not world.workers["a"].publish(PLAN[5:])
    assert not world.workers["a"].open_round()
    assert world.tick("b").task is Task.LEAD


def test_one_that_leaves_gives_all_back_at_once(world: World) -> None:
    world.lead("a")
    world.tick("b")
    entries = world.workers["a"].take(5, world.now)
    world.workers["a"].done([entries[0].page_id])
    world.workers["a"].leave()
    assert not world.workers["a"].may_send(world.now)
    world.tick("b")
    assert world.finish("b") == [page for _, page, _ in PLAN[1:]]


def test_what_a_fleet_left_is_gone_on_with(world: World) -> None:
    world.lead("a")
    world.workers["a"].take(5, world.now)
    world.workers["a"].leave()
    assert world.tick("b").task is Task.CRAWL
    assert len(world.finish("b")) == len(PLAN)
    assert world.tick("b").task is Task.OVER


def test_what_a_fleet_left_may_be_given_up(world: World) -> None:
    world.lead("a")
    world.workers["a"].leave()
    world.lead("b", 2, resume=False)
    assert world.finish("b") == [1, 2]


def test_a_fleet_that_ended_is_followed_by_a_new_round(world: World) -> None:
    world.lead("a")
    world.finish("a")
    world.tick("a")
    world.workers["a"].leave()
    assert world.tick("b").task is Task.LEAD


def test_what_the_board_forgot_was_done_is_done_again(world: World) -> None:
    """As when a replica takes over that an answered step had not reached."""
    world.lead("a")
    entries = world.workers["a"].take(3, world.now)
    world.board.forgets = {"done"}
    world.workers["a"].done(entry.page_id for entry in entries)
    world.board.forgets.clear()
    world.tick("a")
    assert world.finish("a") == [page for _, page, _ in PLAN]
    assert world.tick("a").task is Task.OVER


def test_a_round_that_the_board_forgot_was_opened_is_opened_again(world: World) -> None:
    world.tick("a")
    world.workers["a"].publish(PLAN)
    world.board.forgets = {"open"}
    assert world.workers["a"].open_round()
    world.board.forgets.clear()
    world.tick("a")
    assert world.tick("a").task is Task.CRAWL
    assert len(world.finish("a")) == len(PLAN)


def test_a_plan_that_the_board_forgot_in_part_is_made_anew(world: World) -> None:
    first = world.tick("a").round
    world.board.forgets = {"publish"}
    world.workers["a"].publish(PLAN[:5])
    world.board.forgets.clear()
    assert not world.workers["a"].publish(PLAN[5:])
    again = world.tick("a")
    assert (again.task, again.round) == (Task.LEAD, first + 1)


def test_a_round_that_the_board_forgot_gets_another_number(world: World) -> None:
    world.lead("a", forever=True)
    before = world.tick("a").round
    world.board = world.workers["a"]._board = Flaky(SQLiteBoard(None, clock=lambda: world.now))
    assert world.tick("a").round > before


def test_names_are_never_used_again() -> None:
    assert len({new_name() for _ in range(1_000)}) == 1_000

"""Requests that may not be sent yet: none comes before its time, and one slot waits for no other."""

from collections.abc import Callable

import pytest
from scrapy import Request

from crawl_support import Timers
from hacs_crawler.crawl.part import LONGEST_WAIT_SECONDS
from hacs_crawler.crawl.queues import WaitingRequests


class World:
    """Requests that are to wait as a test says, by their slot, and how often the scheduler was woken."""

    def __init__(self, timers: Timers) -> None:
        self.timers = timers
        self.until: dict[str, float] = {}
        self.asked: list[str] = []
        self.woken = 0
        self.requests = WaitingRequests(self.admit, self.wake, timers.clock)

    def admit(self, request: Request) -> float:
        self.asked.append(request.url)
        return self.until.get(slot_of(request), 0.0) - self.timers.now

    def wake(self) -> None:
        self.woken += 1

    def keeps(self, request: Request, slot: str) -> bool:
        if self.requests.may_send(request, slot):
            return False
        self.requests.keep(request, slot)
        return True

    def add(self, *urls: str) -> list[Request]:
        made = [*map(Request, urls)]
        for request in made:
            assert self.keeps(request, slot_of(request))
        return made

    def take(self, is_free: Callable[[str], bool] = lambda _: True) -> Request | None:
        found = self.requests.take(is_free)
        return None if found is None else found[0]


def slot_of(request: Request) -> str:
    return request.url.split("/")[2]


@pytest.fixture
def world(timers: Timers) -> World:
    return World(timers)


def test_none_comes_before_its_time_then_in_order(world: World) -> None:
    world.until["a.example"] = 10.0
    first, second = world.add("http://a.example/1", "http://a.example/2")
    assert world.take() is None
    world.timers.go_on(10.0)
    assert [world.take(), world.take(), world.take()] == [first, second, None]


def test_one_of_more_priority_comes_before_those_that_wait_longer(world: World) -> None:
    world.until["a.example"] = 10.0
    (first,) = world.add("http://a.example/1")
    more, less = (Request("http://a.example/2", priority=priority) for priority in (1, -1))
    for request in (less, more):
        assert world.keeps(request, "a.example")
    world.timers.go_on(10.0)
    assert [world.take(), world.take(), world.take()] == [more, first, less]


def test_what_a_part_says_of_one_holds_for_its_slot_until_then(world: World) -> None:
    world.until["a.example"] = 10.0
    world.add("http://a.example/1", "http://a.example/2", "http://a.example/3")
    assert (world.asked, [*world.requests.slots]) == (["http://a.example/1"], ["a.example"])
    assert not world.keeps(Request("http://b.example/"), "b.example")
    world.timers.go_on(10.0)
    assert not world.requests.slots


def test_the_scheduler_is_woken_when_the_time_has_come_also_one_that_has_become_longer(
    world: World,
) -> None:
    world.until["a.example"] = 10.0
    (request,) = world.add("http://a.example/")
    world.timers.go_on(9.0)
    assert world.woken == 0
    world.until["a.example"] = 20.0
    world.timers.go_on(1.0)
    assert world.woken == 1
    assert world.take() is None
    world.timers.go_on(10.0)
    assert world.woken == 2
    assert world.take() is request


@pytest.mark.parametrize(("until", "busy"), [(10.0, "a.example"), (20.0, None)])
def test_slots_wait_each_for_its_own_time_and_until_they_are_free(
    until: float, busy: str | None, world: World
) -> None:
    world.until = {"a.example": until, "b.example": 10.0}
    _, second = world.add("http://a.example/", "http://b.example/")
    world.timers.go_on(10.0)
    assert [world.take(lambda slot: slot != busy) for _ in range(2)] == [second, None]


def test_one_that_would_wait_for_too_long_is_let_go_to_be_given_up(world: World) -> None:
    world.until["a.example"] = LONGEST_WAIT_SECONDS + 1.0
    assert not world.keeps(Request("http://a.example/"), "a.example")
    world.timers.go_on(1.0)
    assert world.keeps(Request("http://a.example/"), "a.example")


def test_what_is_taken_as_a_whole_is_forgotten(world: World) -> None:
    world.until = {"a.example": 10.0, "b.example": 10.0}
    made = world.add("http://a.example/", "http://b.example/")
    assert len(world.requests) == 2
    assert world.requests.take_all() == made
    assert len(world.requests) == 0
    assert world.requests.take_all() == []

"""What waits in the inner scheduler, counted as it goes in and out."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st
from scrapy import Request

from hacs_crawler.crawl.backlog import Backlog

SLOTS = ("a", "b", "c")


def request(priority: int) -> Request:
    return Request("http://a.example/", priority=priority)


@pytest.fixture
def backlog() -> Backlog:
    return Backlog()


def test_of_an_empty_backlog_nothing_is_known(backlog: Backlog) -> None:
    assert backlog.highest() is None
    assert backlog.highest_in("a") is None
    assert not backlog.has_outside([])


def test_priorities_are_known_of_all_and_of_each_slot(backlog: Backlog) -> None:
    for slot, priority in (("a", 5), ("a", -1), ("b", 3)):
        backlog.add(request(priority), slot)
    assert backlog.highest() == 5
    assert backlog.highest_in("a") == 5
    assert backlog.highest_in("b") == 3
    assert backlog.highest_in("c") is None


def test_requests_of_one_priority_are_counted(backlog: Backlog) -> None:
    backlog.add(request(5), "a")
    backlog.add(request(5), "a")
    backlog.remove(request(5), "a")
    assert backlog.highest_in("a") == 5
    backlog.remove(request(5), "a")
    assert backlog.highest_in("a") is None
    assert backlog.highest() is None


def test_slots_outside_of_some_are_those_in_which_anything_waits(backlog: Backlog) -> None:
    backlog.add(request(0), "a")
    backlog.add(request(0), "b")
    assert backlog.has_outside(["a"])
    assert not backlog.has_outside(["b", "a", "c"])
    backlog.remove(request(0), "b")
    assert not backlog.has_outside(["a"])


def test_what_a_job_left_in_the_inner_scheduler_was_never_counted_and_comes_out(
    backlog: Backlog,
) -> None:
    backlog.add(request(0), "a")
    backlog.remove(request(0), "b")
    backlog.remove(request(7), "a")
    assert backlog.highest() == 0
    assert backlog.highest_in("a") == 0
    assert not backlog.has_outside(["a"])


moves = st.tuples(st.booleans(), st.sampled_from(SLOTS), st.integers(-1, 1))


@settings(max_examples=40)
@given(st.lists(moves, max_size=30), st.sets(st.sampled_from(SLOTS)))
def test_it_is_a_multiset_of_slots_and_priorities(
    steps: list[tuple[bool, str, int]], some: set[str]
) -> None:
    backlog, model = Backlog(), list[tuple[str, int]]()
    for is_in, slot, priority in steps:
        if is_in:
            backlog.add(request(priority), slot)
            model.append((slot, priority))
        else:
            backlog.remove(request(priority), slot)
            if (slot, priority) in model:
                model.remove((slot, priority))
    assert backlog.highest() == max((priority for _, priority in model), default=None)
    for slot in SLOTS:
        here = [priority for one, priority in model if one == slot]
        assert backlog.highest_in(slot) == max(here, default=None)
    assert backlog.has_outside(some) == any(slot not in some for slot, _ in model)

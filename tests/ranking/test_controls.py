"""Which pages are asked twice, how many, and what a run leaves of its share."""

import numpy as np
import pytest

from hacs_crawler.exceptions import StateError
from hacs_crawler.ranking.controls import (
    MOST_AT_ONCE,
    MOST_KEPT,
    NOTE,
    Allowance,
    control_worth,
    controlled,
    keep_allowance,
    take_allowance,
)
from hacs_crawler.state import Estimation, MemoryStore, State


@pytest.mark.parametrize(
    ("churning", "updates", "expected"), [(0.01, 4, False), (0.01, 5, True), (0.0, 5, False)]
)
def test_a_page_whose_every_visit_showed_something_new_is_worth_one_on_little_suspicion(
    churning: float, updates: int, expected: bool
) -> None:
    worth = control_worth(np.array([0.9]), np.array([churning]), np.array([6]), np.array([updates]))
    assert (worth[0] > 0) == expected


@pytest.mark.parametrize(
    ("churning", "expected"),
    [(0.0, False), (0.09, False), (0.11, True), (0.5, True), (0.99, True), (1.0, False)],
)
def test_pages_that_are_known_well_enough_are_not_asked_twice(
    churning: float, expected: bool
) -> None:
    pages = np.array([0.5, 0.4]), np.array([churning, 0.0]), np.full(2, 10), np.full(2, 5)
    visit_twice, kept = controlled(control_worth(*pages), 2, 1)
    assert visit_twice.tolist() == ([True] if expected else [False, False])
    assert kept == (1 if expected else 2)


@pytest.fixture
def state() -> State:
    return State(MemoryStore(), Estimation())


def made_in(state: State, budget: int | None, share: float, wanted: int) -> int:
    """Have a run make as many of the wanted controls as it may; return how many these are."""
    allowance = take_allowance(state, budget, share)
    allowance.made = min(allowance.most, wanted)
    keep_allowance(state, allowance)
    return allowance.made


def test_what_a_run_leaves_of_its_share_the_next_one_has(state: State) -> None:
    assert [made_in(state, 10, 0.02, 9) for _ in range(12)] == [0, 0, 0, 0, 1] * 2 + [0, 0]


def test_a_run_that_visits_nothing_leaves_what_it_found(state: State) -> None:
    made_in(state, 10, 0.05, 0)
    for _ in range(3):
        keep_allowance(state, take_allowance(state, 10, 0.05), has_visited=False)
    assert state.store.read_meta(NOTE) == 0.5


def test_no_more_is_kept_than_so_many_runs_leave(state: State) -> None:
    for _ in range(3 * MOST_KEPT):
        assert made_in(state, 100, 0.02, 0) == 0
    made = [made_in(state, 100, 0.02, 10_000) for _ in range(MOST_KEPT)]
    assert made[0] == 2 * MOST_AT_ONCE, "some of what is left, others may look worse later"
    assert sum(made) == 2 * MOST_KEPT + 2 * len(made)
    assert made_in(state, 100, 0.02, 10_000) == 2


@pytest.mark.parametrize(("budget", "share"), [(None, 0.02), (100, 0.0)])
def test_without_a_budget_or_a_share_of_it_there_are_none_and_the_note_stays(
    state: State, budget: int | None, share: float
) -> None:
    made_in(state, 10, 0.05, 0)
    assert made_in(state, budget, share, 9) == 0
    assert state.store.read_meta(NOTE) == 0.5


@pytest.mark.parametrize("note", ["many", [1], -1.0, float("inf"), float("nan"), {"left": 1}])
def test_a_damaged_note_is_refused_by_name(state: State, note: object) -> None:
    state.store.write_meta({NOTE: note})
    with pytest.raises(StateError, match="the note 'controls' in the state is damaged, remove it"):
        take_allowance(state, 10, 0.02)


def test_what_was_made_already_is_left_of_the_allowance() -> None:
    allowance = Allowance(left=1.5, of_budget=2.0)
    assert allowance.most == 3
    allowance.made = 2
    assert (allowance.most, allowance.rest()) == (1, pytest.approx(1.5))


def test_a_run_that_made_more_than_there_were_leaves_none_to_the_next(state: State) -> None:
    keep_allowance(state, Allowance(0.0, 2.0, made=5))
    assert take_allowance(state, 100, 0.02) == Allowance(0.0, 2.0)


def test_runs_at_once_share_what_is_left_and_leave_what_they_did_not_make(state: State) -> None:
    state.store.write_meta({NOTE: 10.0})
    runs = [take_allowance(state, 100, 0.02) for _ in range(5)]
    for run in runs:
        run.made = run.most
    assert sum(run.made for run in runs) == 10 + 5 * 2
    runs[0].made -= 3
    for run in runs:
        keep_allowance(state, run)
    assert state.store.read_meta(NOTE) == 3.0

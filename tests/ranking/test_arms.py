"""Which arm a site belongs to, and what it gets of the budget."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from hacs_crawler.ranking.arms import Arm, Experiment, without_experiment
from hacs_crawler.ranking.policies import hacs

SITES = np.random.default_rng(0).integers(1, 2**32, 10_000, np.uint32)


def experiment(*shares: float, salt: str = "") -> Experiment:
    return Experiment(
        tuple(Arm(f"arm-{place}", hacs, share) for place, share in enumerate(shares)), salt
    )


shares = st.lists(st.integers(1, 20), min_size=2, max_size=5).map(
    lambda parts: [part / sum(parts) for part in parts]
)


@pytest.mark.slow
def test_another_process_assigns_as_this_one_does() -> None:
    script = (
        "import numpy as np; from hacs_crawler.ranking.arms import *;"
        " from hacs_crawler.ranking.policies "
        "import hacs; e = Experiment((Arm('arm-0', hacs, .3), Arm('arm-1', hacs, .7)), 'a salt');"
        "print(*e.assign(np.arange(1, 200, dtype=np.uint32)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    here = experiment(0.3, 0.7, salt="a salt").assign(np.arange(1, 200))
    assert done.stdout.split() == [str(arm) for arm in here]


@given(shares)
def test_the_arms_get_their_shares_of_the_sites(parts: list[float]) -> None:
    counts = np.bincount(experiment(*parts).assign(SITES), minlength=len(parts))
    for count, part in zip(counts, parts, strict=True):
        assert abs(count - part * len(SITES)) < 5 * np.sqrt(len(SITES) * part * (1 - part)) + 1


def test_another_salt_is_another_split() -> None:
    one, other = (experiment(0.5, 0.5, salt=salt).assign(SITES) for salt in ("", "again"))
    assert (one == other).mean() == pytest.approx(0.5, abs=0.02)
    assert experiment(0.5, 0.5).number != experiment(0.5, 0.5, salt="again").number


@given(shares, shares)
def test_other_shares_move_sites_only_from_arms_that_shrink_to_arms_that_grow(
    before: list[float], after: list[float]
) -> None:
    size = min(len(before), len(after))
    old, new = ([part / sum(parts[:size]) for part in parts[:size]] for parts in (before, after))
    first, second = experiment(*old).assign(SITES), experiment(*new).assign(SITES)
    ratios = np.array(new) / np.array(old)
    moved = first != second
    assert (ratios[second[moved]] >= ratios[first[moved]] - 1e-9).all()


def test_two_arms_move_no_more_sites_than_the_shares_do() -> None:
    moved = experiment(0.5, 0.5).assign(SITES) != experiment(0.6, 0.4).assign(SITES)
    assert moved.mean() == pytest.approx(0.1, abs=0.01)


def test_the_order_of_the_arms_makes_no_difference() -> None:
    arms = (Arm("a", hacs, 0.2), Arm("b", hacs, 0.8))
    one, other = Experiment(arms), Experiment(arms[::-1])
    assert one.number == other.number
    assert (one.assign(SITES) == 1 - other.assign(SITES)).all()


def test_other_shares_are_the_same_experiment_and_other_arms_another() -> None:
    assert experiment(0.5, 0.5).number == experiment(0.1, 0.9).number
    assert experiment(0.5, 0.5).number != experiment(0.5, 0.3, 0.2).number


def test_one_arm_is_no_experiment() -> None:
    alone = without_experiment(hacs)
    assert (alone.is_on, alone.number) == (False, 0)
    assert not alone.assign(SITES).any()


@given(st.lists(st.integers(0, 10_000), min_size=2, max_size=5).filter(any), st.integers(1, 10_000))
def test_a_budget_is_split_by_the_arms_pages_whatever_their_shares(
    pages: list[int], budget: int
) -> None:
    found = experiment(*(1 / len(pages) for _ in pages)).budgets(budget, pages)
    assert sum(part or 0 for part in found) == budget
    exact = [budget * part / sum(pages) for part in pages]
    assert all(abs((a or 0) - b) < 1.001 for a, b in zip(found, exact, strict=True))


def test_before_pages_are_counted_each_arm_may_have_the_whole_budget() -> None:
    assert experiment(0.5, 0.5).budgets(10) == [10, 10]


def test_a_split_that_the_user_wants_goes_before_the_pages() -> None:
    wanted = replace(experiment(0.5, 0.5), budget_shares=(0.7, 0.3))
    assert wanted.budgets(10) == wanted.budgets(10, [1, 99]) == [7, 3]


def test_without_a_budget_no_arm_has_one() -> None:
    assert experiment(0.5, 0.5).budgets(None) == [None, None]

"""One plan over shards: ranked each by itself, the best of all, and what each may visit."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dask_support import two_workers
from hacs_crawler.cluster import HERE, connected
from hacs_crawler.ranking.choice import Quota
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.plan import Plan, make_plan
from hacs_crawler.ranking.shard_rounds import (
    Round,
    ShardPages,
    StartPages,
    keep_round,
    plan_of_shards,
    quota_left,
    read_round,
    rounds_of,
)
from hacs_crawler.state import Annotation, Ids, Prediction
from hacs_crawler.state.database import State
from hacs_crawler.state.page import Visit
from hacs_crawler.utils.times import DAY
from row_states import NOW, arguments_of, filled, options, rows_of
from servers import redis_server

PAGES, SHARDS = 700, 5
WHOLE = [
    {"budget": 40},
    {"budget": 60, "threshold": 0.1},
    {"policy": "last-obs", "budget": 30},
    {},
]


@pytest.fixture(params=["sqlite", "redis"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with ExitStack() as stack:
        if request.param == "redis":
            yield f"redis://127.0.0.1:{stack.enter_context(redis_server(tmp_path))}/0"
        else:
            yield f"sqlite:///{tmp_path}/state.db"


@pytest.fixture
def shards(address: str) -> Iterator[tuple[State, list[tuple[ShardPages, State]]]]:
    """A state of all pages, and states of a fifth of the sites each; no two pages have the same p."""
    ids, rows = rows_of(PAGES, new=0.0)
    rows["rate"] *= 0.01
    shard_of = rows["site"] % SHARDS
    with ExitStack() as stack:
        whole = stack.enter_context(filled(address, ids, rows, "whole"))
        parts = []
        for one in range(SHARDS):
            mine = shard_of == one
            given = stack.enter_context(
                filled(address, ids[mine], rows[mine], f"hacs.{one}-{SHARDS}")
            )
            parts.append((ShardPages(given[0]), given[1]))
        yield whole[1], parts


def chosen_by(
    parts: list[tuple[ShardPages, State]], asked: RankingOptions, rounds: list[Round | None]
) -> list[Ids]:
    """What each shard chooses by itself, of what its round gives it."""
    found = []
    for (_, state), one in zip(parts, rounds, strict=True):
        if one is not None:
            mine = quota_left(state, one)
            assert mine.done is None
            found.append(make_plan(state, asked, NOW, quota=mine).page_ids)
    return found


@pytest.mark.parametrize("asked", WHOLE)
def test_what_shards_choose_is_the_plan_of_one_process(
    asked: dict[str, Any], shards: tuple[State, list[tuple[ShardPages, State]]]
) -> None:
    whole, parts = shards
    ranked = options(**asked)
    plan = plan_of_shards(HERE, [one for one, _ in parts], ranked, NOW)
    wanted = make_plan(whole, ranked, NOW)
    assert sorted(plan.page_ids.tolist()) == sorted(wanted.page_ids.tolist())
    assert (plan.known, plan.left_out) == (wanted.known, wanted.left_out)
    rounds = rounds_of(plan, SHARDS, ranked, int(NOW))
    chosen = np.concatenate(chosen_by(parts, ranked, rounds))
    assert sorted(chosen.tolist()) == sorted(plan.page_ids.tolist())


@pytest.mark.slow
def test_shards_are_ranked_alike_by_the_workers_of_a_cluster(
    shards: tuple[State, list[tuple[ShardPages, State]]],
) -> None:
    _, parts = shards
    pages, ranked = [one for one, _ in parts], options(budget=40)
    with two_workers() as there, connected(there) as cluster:
        assert_same(
            plan_of_shards(cluster, pages, ranked, NOW), plan_of_shards(HERE, pages, ranked, NOW)
        )


def assert_same(found: Plan, wanted: Plan) -> None:
    np.testing.assert_array_equal(found.page_ids, wanted.page_ids)
    np.testing.assert_array_equal(found.shards, wanted.shards)
    np.testing.assert_array_equal(found.p, wanted.p)


def starts(ids: Ids, *, revisits: bool = False) -> StartPages:
    sites = np.arange(1, len(ids) + 1).astype(np.uint32)
    return StartPages(ids, sites, "asked/any", revisits)


def test_a_first_run_splits_the_budget_over_what_start_yields(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path}/state.db"
    pages = []
    for one, number in enumerate((0, 3, 1, 6)):
        arguments = arguments_of(address, f"hacs.{one}-4")
        pages.append(ShardPages(arguments, starts(np.arange(one * 100, one * 100 + number))))
    rounds = rounds_of(plan_of_shards(HERE, pages, options(budget=5), NOW), 4, options(budget=5), 7)
    assert rounds[0] is None
    found = [(one.budget, one.unseen) for one in rounds if one is not None]
    assert found == [(number, None) for number in (2, 1, 2)]  # by turns, as all are alike
    free = options()
    without = rounds_of(plan_of_shards(HERE, pages, free, NOW), 4, free, 7)
    assert without == [None, Round(7), Round(7), Round(7)]


def test_pages_never_seen_have_their_share_of_the_whole_budget(tmp_path: Path) -> None:
    ids, rows = rows_of(200, new=0.0)
    rows["not_before"] = 0
    with (
        filled(f"sqlite:///{tmp_path}/state.db", ids[:100], rows[:100], "a") as (one, _),
        filled(f"sqlite:///{tmp_path}/state.db", ids[100:], rows[100:], "b") as (other, _),
    ):
        pages = [
            ShardPages(one, starts(np.concatenate([ids[:100], np.arange(50)]))),
            ShardPages(other, starts(ids[100:])),
        ]
        asked = options(budget=20, pages="all", discover=0.25)
        plan = plan_of_shards(HERE, pages, asked, NOW)
        assert np.count_nonzero(plan.visits == 0) == 5
        (first, second) = rounds_of(plan, 2, asked, int(NOW))
    assert first is not None
    assert second is not None
    assert first.budget is not None
    assert second.budget is not None
    assert (first.budget + second.budget, first.unseen, second.unseen) == (20, 5, 0)


def test_only_what_start_yields_and_what_is_begun_with_may_be_visited(tmp_path: Path) -> None:
    ids, rows = rows_of(100, new=0.0)
    rows["not_before"] = 0
    with filled(f"sqlite:///{tmp_path}/state.db", ids, rows) as (arguments, state):
        state.store.annotate("asked/any", [Annotation(int(ids[7]), b"", b"x")])
        for revisits, more in ((True, {int(ids[7])}), (False, set())):
            pages = ShardPages(arguments, starts(ids[:3], revisits=revisits))
            plan = plan_of_shards(HERE, [pages], options(), NOW)
            assert set(plan.page_ids.tolist()) == {*ids[:3].tolist(), *more}


def visited(url: str, at: float, label: int, *, is_new: bool = False) -> Visit:
    days = float("inf") if is_new else 3.0
    told = Prediction(
        label=label,
        run=int(at),
        p=0.5,
        rate_per_day=0.1,
        days_since_visit=days,
        churn=0.0,
    )
    return Visit(url, int(at), marks=frozenset({1}), prediction=told)


def test_what_was_visited_in_a_round_is_taken_off_it_and_not_visited_again(tmp_path: Path) -> None:
    asked = options(budget=9)
    with filled(f"sqlite:///{tmp_path}/state.db", *rows_of(50)) as (arguments, state):
        label = asked.label(state.estimation)
        keep_round(arguments, Round(int(NOW), 5))
        state.record([visited("http://before.edu/", NOW - DAY, label.number)])
        seen = [visited(f"http://h{one}.edu/", NOW + 1, label.number) for one in range(2)]
        again = Visit("http://h0.edu/", int(NOW) + 2, marks=frozenset({1}))  # a control visit
        state.record([*seen, again])
        round_ = read_round(state, int(NOW))
        assert round_ == Round(int(NOW), 5)
        mine = quota_left(state, round_)
        assert mine.budget == 2
        assert mine.done is not None
        assert len(mine.done) == 2
        plan = make_plan(state, asked, NOW + DAY, quota=Quota(done=mine.done))
        assert not set(plan.page_ids.tolist()) & set(mine.done.tolist())


def test_a_round_that_has_not_begun_is_waited_for(tmp_path: Path) -> None:
    with filled(f"sqlite:///{tmp_path}/state.db", *rows_of(10)) as (arguments, state):
        assert read_round(state, 1) is None
        keep_round(arguments, Round(100))
        assert read_round(state, 100) == Round(100)
        assert read_round(state, 101) is None

"""The best pages of states read in parts, by bounds: a Dask cluster in threads of this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from distributed import Client
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hacs_crawler.cluster import Cluster
from hacs_crawler.ranking import bounded_parts, parts
from hacs_crawler.ranking.distributed import distributed_plan
from hacs_crawler.ranking.finalists import SHARD_BITS, finalists_of, merged
from hacs_crawler.ranking.plan import Plan, plan_from, read_rows
from hacs_crawler.state import ROW, StateArguments
from hacs_crawler.state.database import State
from hacs_crawler.utils.times import DAY
from row_states import NOW, filled, options, rows_of

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Client(
        processes=False, n_workers=1, threads_per_worker=2, dashboard_address=None
    ) as client:
        yield Cluster(client)


def by_one(shards: list[tuple[StateArguments, State]], budget: int) -> Plan:
    """The plan of all pages of the shards, each ranked whole in this process."""
    asked = options(budget=budget, random_seed=3)
    found = []
    for number, (_, state) in enumerate(shards):
        ids, rows = read_rows(state, now=NOW)
        places = np.arange(number << SHARD_BITS, (number << SHARD_BITS) + len(ids))
        found.append(finalists_of(ids, rows, state, asked, NOW, stand_at=places))
    return plan_from(merged(found, asked, None), asked, None)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    sizes=st.lists(st.integers(1, 400), min_size=1, max_size=3),
    budget=st.integers(1, 30),
    levels=st.sampled_from([1, 3, 1_000]),
    new=st.sampled_from([0.0, 0.02, 0.5]),
)
def test_the_plan_is_that_of_ranking_every_page(
    cluster: Cluster, sizes: list[int], budget: int, levels: int, new: float
) -> None:
    """With few levels of rates, and visits on the same days, many pages have the same p."""
    with (
        TemporaryDirectory() as folder,
        ExitStack() as stack,
        patch.object(parts, "PAGES_A_PART", 90),
    ):
        shards = []
        for number, size in enumerate(sizes):
            ids, rows = rows_of(size + 20 + number, new)
            ids += number  # states of the same size have the same pages
            rows["rate"] = np.ceil(rows["rate"] * levels) / levels
            rows["last_visit"] = rows["last_visit"] // DAY * DAY
            rows["site"] = rows["site"] // 4 * 4 + number + 1
            address = f"sqlite:///{folder}/{number}.db"
            shards.append(stack.enter_context(filled(address, ids, rows[: len(ids)])))
        asked = options(budget=budget, random_seed=3)
        found, wanted = distributed_plan(cluster, shards, asked, NOW), by_one(shards, budget)
    np.testing.assert_array_equal(found.page_ids, wanted.page_ids)
    np.testing.assert_array_equal(found.p, wanted.p)
    np.testing.assert_array_equal(found.shards, wanted.shards)
    counts = (found.known, found.waiting, found.left_out)
    assert counts == (wanted.known, wanted.waiting, wanted.left_out)


def test_only_rows_of_sites_that_may_be_among_the_best_leave_their_part(
    cluster: Cluster, tmp_path: Path
) -> None:
    ids, rows = rows_of(4_000, new=0.0)
    rows["rate"] *= 0.01
    sent = tmp_path / "sent"

    def counted(*given: Any) -> parts.Piece:
        piece = pages_of(*given)
        with sent.open("a") as file:  # what runs on the cluster is a copy of this function
            file.write(f"{len(piece.page_ids)}\n")
        return piece

    pages_of = bounded_parts._pages_of
    with (
        filled(f"sqlite:///{tmp_path}/state.db", ids, rows) as shard,
        patch.object(bounded_parts, "_pages_of", counted),
    ):
        found = distributed_plan(cluster, [shard], options(budget=20), NOW)
    assert len(found) == 20
    assert 20 <= sum(map(int, sent.read_text().split())) < len(ids) / 2


def test_bounds_are_kept_as_the_next_number_above() -> None:
    exact = np.random.default_rng(1).exponential(3.0, 10_000)
    kept = bounded_parts._rounded_up(exact)
    assert kept.dtype == np.float32
    assert (kept >= exact).all()
    np.testing.assert_allclose(kept, exact, rtol=1e-6)
    assert bounded_parts._rounded_up(np.array([np.inf, -1.0])).tolist() == [np.inf, -1.0]


def test_a_part_without_pages_has_no_bounds(cluster: Cluster, tmp_path: Path) -> None:
    nothing = np.zeros(0, np.int64), np.zeros(0, ROW)
    with filled(f"sqlite:///{tmp_path}/state.db", *nothing) as shard:
        assert len(distributed_plan(cluster, [shard], options(budget=20), NOW)) == 0

"""Plans of a Dask cluster: two processes of this machine."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from distributed import LocalCluster

from dask_support import killed_while_ranking, two_workers
from hacs_crawler.cluster import Cluster, check_cluster, connected, connection, in_order
from hacs_crawler.exceptions import ClusterError, ConfigError, StateError
from hacs_crawler.ranking import bounded_parts, distributed, parts
from hacs_crawler.ranking.distributed import distributed_plan
from hacs_crawler.ranking.plan import Plan, make_plan
from hacs_crawler.ranking.policies import Candidates, Floats
from hacs_crawler.state.address import open_state
from hacs_crawler.state.codec import ROW
from hacs_crawler.state.page import News, Visit
from hacs_crawler.utils.times import DAY
from row_states import NOW, arguments_of, filled, options, rows_of
from servers import free_port, redis_cluster, redis_server

PAGES = 700
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    with two_workers() as address:
        yield address


@pytest.fixture
def cluster(scheduler: str) -> Iterator[Cluster]:
    with connected(scheduler) as found:
        yield found


@pytest.fixture(autouse=True)
def _small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PAGES_A_PART", 150)


@pytest.fixture(params=["sqlite", "redis"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with ExitStack() as stack:
        if request.param == "redis":
            yield f"redis://127.0.0.1:{stack.enter_context(redis_server(tmp_path))}/0"
        else:
            yield f"sqlite:///{tmp_path}/state.db"


def assert_same(found: Plan, wanted: Plan) -> None:
    for field in fields(Plan):
        ours, theirs = getattr(found, field.name), getattr(wanted, field.name)
        np.testing.assert_array_equal(ours, theirs, field.name)


def test_the_plan_is_that_of_one_process_page_by_page(address: str, cluster: Cluster) -> None:
    with filled(address, *rows_of(PAGES)) as shard:
        for chosen, limit, controls in (
            ({"budget": 40}, None, 0),
            ({"budget": 60, "controls": 0.1}, None, 6),
            ({"budget": 60, "threshold": 0.1}, 20, 0),
            ({"experiment": {"hacs": 0.5, "random": 0.5}, "budget": 41}, None, 0),
            ({"policy": "last-obs"}, 30, 0),
            ({}, None, 0),
        ):
            asked = options(random_seed=3, **chosen)
            found = distributed_plan(cluster, [shard], asked, NOW, limit, controls=controls)
            assert_same(found, make_plan(shard[1], asked, NOW, limit, controls=controls))


def test_visits_later_than_now_in_one_part_count_for_all(
    tmp_path: Path, cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    arguments = arguments_of(f"sqlite:///{tmp_path}/state.db")
    with closing(open_state(*arguments)) as state:
        state.record(
            [
                Visit(f"http://h{number}.edu/", NOW - days * DAY, links=frozenset({days % 2}))
                for number in range(30)
                for days in (20, 10, 5)
            ]
        )
        state.record([Visit("http://h3.edu/", NOW + 9 * DAY, links=frozenset({7}))])
        state.record([Visit("http://h4.edu/", NOW + DAY, News.FAILED)])
        wanted = make_plan(state, options(), NOW)
        found = distributed_plan(cluster, [(arguments, state)], options(), NOW)
    assert_same(found, wanted)
    said = [one.message for one in caplog.records if "later than now" in one.message]
    assert len(said) == 2
    assert said[0] == said[1]


def test_an_empty_state_has_an_empty_plan(tmp_path: Path, cluster: Cluster) -> None:
    nothing = rows_of(300)[0][:0], np.zeros(0, ROW)
    with filled(f"sqlite:///{tmp_path}/state.db", *nothing) as shard:
        found = distributed_plan(cluster, [shard], options(), NOW)
    assert (len(found), found.known) == (0, 0)


def test_shards_choose_as_one(address: str, cluster: Cluster) -> None:
    ids, rows = rows_of(PAGES, new=0.0)
    rows["rate"] *= 0.01  # no two pages have the same p
    shard_of = rows["site"] % 3
    with ExitStack() as stack:
        whole = stack.enter_context(filled(address, ids, rows, "whole"))
        shards = [
            stack.enter_context(
                filled(address, ids[shard_of == one], rows[shard_of == one], f"shard-{one}")
            )
            for one in range(3)
        ]
        wanted = make_plan(whole[1], options(budget=50), NOW)
        found = distributed_plan(cluster, shards, options(budget=50), NOW)
        own = [make_plan(state, options(budget=50), NOW) for _, state in shards]
    np.testing.assert_array_equal(found.page_ids, wanted.page_ids)
    np.testing.assert_array_equal(found.p, wanted.p)
    assert (found.known, found.left_out) == (wanted.known, wanted.left_out)
    for one, alone in enumerate(own):
        mine = found.page_ids[found.shards == one]
        assert 0 < len(mine) < 50
        np.testing.assert_array_equal(mine, alone.page_ids[: len(mine)])


def test_a_site_in_two_shards_is_named(tmp_path: Path, cluster: Cluster) -> None:
    with ExitStack() as stack:
        shards = []
        for number in range(2):
            arguments = arguments_of(f"sqlite:///{tmp_path}/{number}.db")
            state = stack.enter_context(closing(open_state(*arguments)))
            pages = [f"http://www.both.edu/{number + more}.html" for more in (0, 2)]
            state.record([Visit(page, NOW - DAY, links=frozenset({1})) for page in pages])
            shards.append((arguments, state))
        with pytest.raises(
            StateError, match=r"site both\.edu has pages in two shards.* 1 and 2 of"
        ):
            distributed_plan(cluster, shards, options(budget=3), NOW)


def test_a_page_in_two_shards_is_named(tmp_path: Path, cluster: Cluster) -> None:
    ids, rows = rows_of(300)
    with (
        filled(f"sqlite:///{tmp_path}/a.db", ids[:200], rows[:200]) as one,
        filled(f"sqlite:///{tmp_path}/b.db", ids[100:], rows[100:]) as other,
        pytest.raises(StateError, match=r"in two shards, number .* of those named"),
    ):
        distributed_plan(cluster, [one, other], options(budget=250), NOW)


def test_the_plan_of_a_redis_cluster_is_that_of_one_process(
    tmp_path: Path, cluster: Cluster
) -> None:
    with redis_cluster(tmp_path) as nodes, filled(nodes.url, *rows_of(PAGES)) as shard:
        for chosen in ({"budget": 40}, {}):
            asked = options(random_seed=3, **chosen)
            found = distributed_plan(cluster, [shard], asked, NOW)
            assert_same(found, make_plan(shard[1], asked, NOW))


def test_a_killed_worker_costs_a_retry(
    tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranked, died = parts.finalists_of_pieces, tmp_path / "died"

    def dying(*given: Any) -> Any:
        if not died.exists():
            died.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return ranked(*given)

    monkeypatch.setattr(bounded_parts, "finalists_of_pieces", dying)
    monkeypatch.setattr(distributed, "finalists_of_pieces", dying)
    with filled(f"sqlite:///{tmp_path}/state.db", *rows_of(PAGES)) as shard:
        found = distributed_plan(cluster, [shard], options(budget=40), NOW)
        assert died.exists()
        assert_same(found, make_plan(shard[1], options(budget=40), NOW))


def test_what_workers_were_given_outlives_them(tmp_path: Path, cluster: Cluster) -> None:
    died = [tmp_path / "first", tmp_path / "second"]

    def dying(number: int, values: Sequence[int]) -> int:
        for one in died:
            if not one.exists():
                one.touch()
                os.kill(os.getpid(), signal.SIGKILL)
        return values[number]

    found = in_order(cluster.mapped(dying, range(3), cluster.kept([10, 11, 12])))
    assert list(found) == [10, 11, 12]
    assert all(one.exists() for one in died)


def test_a_killed_scheduler_costs_one_line(tmp_path: Path) -> None:
    with (
        killed_while_ranking(tmp_path) as place,
        filled(f"sqlite:///{tmp_path}/state.db", *rows_of(300)) as shard,
        pytest.raises(ClusterError) as failed,
        connected(place) as cluster,
    ):
        distributed_plan(cluster, [shard], options(budget=40), NOW)
    assert f"the Dask cluster at {place} failed: " in str(failed.value)
    assert "\n" not in str(failed.value)


ANOTHER_VERSION = """
from importlib import metadata
def version(name): {body}
metadata.version = version
"""


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return '0.0.9'", "has hacs-crawler 0.0.9"),
        ("raise metadata.PackageNotFoundError(name)", "has no hacs-crawler"),
    ],
)
def test_a_worker_that_is_not_of_this_version_is_named(
    tmp_path: Path, body: str, said: str
) -> None:
    preload = tmp_path / "another_version.py"
    preload.write_text(ANOTHER_VERSION.format(body=body))
    with (
        LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            dashboard_address="127.0.0.1:0",
            silence_logs=50,
            preload=str(preload),
        ) as local,
        pytest.raises(ClusterError, match=said),
        connected(local.scheduler_address),
    ):
        pytest.fail("this worker is of no use")


def test_a_cluster_without_a_worker_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "WORKER_SECONDS", 0.2)
    with (
        LocalCluster(n_workers=0, dashboard_address="127.0.0.1:0", silence_logs=50) as local,
        pytest.raises(ClusterError) as failed,
        connected(local.scheduler_address),
    ):
        pytest.fail("nobody works there")
    assert str(failed.value).endswith("has no worker, for 0.2 s now")


def test_a_file_that_the_workers_do_not_see_is_named(tmp_path: Path, cluster: Cluster) -> None:
    file = tmp_path / "state.db"
    with filled(f"sqlite:///{file}", *rows_of(300)) as (_, state):
        elsewhere = arguments_of(f"sqlite:///{tmp_path}/elsewhere.db")
        with pytest.raises(
            Exception, match=r"no state at .*elsewhere\.db where a Dask worker runs"
        ):
            distributed_plan(cluster, [(elsewhere, state)], options(), NOW)
    assert not (tmp_path / "elsewhere.db").exists()


def by_all(candidates: Candidates) -> Floats:
    return candidates.p / candidates.p.sum()


def test_a_policy_that_compares_pages_is_refused(tmp_path: Path, cluster: Cluster) -> None:
    with (
        filled(f"sqlite:///{tmp_path}/state.db", *rows_of(300)) as shard,
        pytest.raises(ConfigError, match="compares pages with each other"),
    ):
        distributed_plan(cluster, [shard], options(policy=by_all), NOW)


@pytest.mark.parametrize("wrong", ["", "nowhere", "host:port", "http://h:1", "h:1/x"])
def test_an_address_that_is_none_is_named(wrong: str) -> None:
    with pytest.raises(ConfigError, match="allowed is the scheduler's HOST:PORT, or local"):
        check_cluster(wrong)


def test_a_scheduler_that_is_not_there_costs_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "CONNECT_SECONDS", 0.2)
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(ClusterError) as failed, connected(address):
        pytest.fail("nobody is there")
    assert str(failed.value).startswith(f"the Dask cluster at {address} failed: ")
    assert "\n" not in str(failed.value)

"""Where crawls run: in threads of one process, and on Dask clusters of real processes."""

import os
import socket
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.popen_forkserver import Popen
from pathlib import Path
from threading import Event

import pytest
from distributed import LocalCluster

from hacs_crawler.exceptions import ClusterError, ConfigError
from hacs_crawler.shards import dask_pool, engine
from hacs_crawler.shards.engine import Pool, Result, run_crawl
from servers import free_port

pytestmark = pytest.mark.slow


ANOTHER_VERSION = """
from importlib import metadata
def version(name):
    if name != "hacs-crawler": return metadata.distribution(name).version
    {body}
metadata.version = version
"""


def cluster(workers: int, **more: object) -> LocalCluster:
    given = {"dashboard_address": "127.0.0.1:0", "silence_logs": 50, **more}
    return LocalCluster(n_workers=workers, **given)


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
        cluster(1, threads_per_worker=1, preload=str(preload)) as local,
        pytest.raises(ClusterError, match=said),
        dask_pool(local.scheduler_address),
    ):
        pytest.fail("this worker is of no use")


def noted(run: str, arguments: tuple[str, ...], log: Path) -> Result:
    """In place of a crawl: a line in its log."""
    with log.open("a") as file:
        file.write("ran\n")
    return Result(0)


def test_each_crawl_of_a_shard_runs_whatever_the_one_before_returned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_crawl_there", noted)
    here = cluster(1, processes=False, protocol="tcp")
    with here as local, dask_pool(local.scheduler_address) as pool:
        crawls = [pool.start((), tmp_path / "log") for _ in range(2)]
        assert [crawl.result() for crawl in crawls] == [Result(0)] * 2
    assert (tmp_path / "log").read_text() == "ran\nran\n"


def test_a_cluster_without_a_worker_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "WORKER_SECONDS", 0.2)
    with (
        cluster(0) as local,
        pytest.raises(ClusterError) as failed,
        dask_pool(local.scheduler_address),
    ):
        pytest.fail("nobody works there")
    assert str(failed.value).endswith("has had no worker for 0.2 s")


@pytest.mark.parametrize("wrong", ["", "nowhere", "host:port", "http://h:1", "h:1/x"])
def test_an_address_that_is_none_is_named(wrong: str) -> None:
    refused = pytest.raises(ConfigError, match="must be the scheduler's HOST:PORT")
    with refused, dask_pool(wrong):
        pytest.fail("nobody is there")


def test_a_scheduler_that_is_not_there_costs_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "CONNECT_SECONDS", 0.2)
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(ClusterError) as failed, dask_pool(address):
        pytest.fail("nobody is there")
    assert str(failed.value).startswith(f"the Dask cluster at {address} failed: ")
    assert "\n" not in str(failed.value)


def test_a_file_is_not_for_workers_on_other_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    with cluster(1) as local:
        with dask_pool(local.scheduler_address, Path("state.db")):
            pass
        here = os.getpid()  # the function is sent to the worker as it is
        monkeypatch.setattr(
            socket, "gethostname", lambda: "here" if os.getpid() == here else "elsewhere"
        )
        refused = pytest.raises(
            ConfigError, match=r"state\.db, .*: the Dask worker at tcp:.* is on"
        )
        with refused, dask_pool(local.scheduler_address, Path("state.db")):
            pytest.fail("its workers are elsewhere")


# Crawls run by threads of one process


def test_each_exit_status_is_read_by_one_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two threads that read it, the second would find nothing, and take that for a failure."""
    poll, polled, twice = Popen.poll, set[int](), []

    def slowly(popen: Popen, *given: int) -> int | None:
        if popen.pid in polled:
            twice.append(popen.pid)
        polled.add(popen.pid)
        Event().wait(0.01)
        status: int | None = poll(popen, *given)
        polled.discard(popen.pid)
        return status

    monkeypatch.setattr(Popen, "poll", slowly)
    with ThreadPoolExecutor(4) as threads:
        pool = Pool(threads, lambda function, *given: function(*given), run_crawl)
        logs = [tmp_path / f"{number}.log" for number in range(16)]
        results = [future.result() for future in [pool.start(("version",), log) for log in logs]]
    assert not twice
    assert {result.status for result in results} == {0}

"""`--dask` of the commands, on real states and processes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from dask_support import two_workers
from hacs_crawler.cli.app import app
from hacs_crawler.cluster import connection
from hacs_crawler.evaluation import instant, update_points
from hacs_crawler.utils.times import DAY
from made_timelines import write_timelines
from servers import free_port

FIRST = 20_000 * DAY
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    with two_workers() as address:
        yield address


def clock() -> float:
    return FIRST + 26 * DAY


@pytest.fixture(autouse=True)
def _clock_and_log(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    monkeypatch.setitem(sys.modules, "test_dask_command", sys.modules[__name__])


def hacs(folder: Path, *arguments: str) -> Result:
    given = (f"HACS_STATE=sqlite:///{folder}/state.db", "HACS_CLOCK=test_dask_command.clock")
    options = [part for one in given for part in ("-s", one)]
    return CliRunner().invoke(app, [*arguments, *options], catch_exceptions=False)


def test_a_simulation_is_the_same_on_a_cluster(scheduler: str, tmp_path: Path) -> None:
    short = ("simulate", "--start", "2024-01-01", "--end", "2024-01-20", "--policy", "hacs,random")
    runner = CliRunner()
    alone = runner.invoke(app, [*short, "--budgets", "1,3", "--plot", f"{tmp_path}/a.svg"])
    there = runner.invoke(
        app, [*short, "--budgets", "1,3", "--plot", f"{tmp_path}/a.svg", "--dask", scheduler]
    )
    assert there.exit_code == 0
    assert there.stdout == alone.stdout


def evaluated(folder: Path, *arguments: str) -> tuple[str, str]:
    """What is printed, and the file of all numbers."""
    done = CliRunner().invoke(app, ["evaluate", *arguments, "--json", f"{folder}/all.json"])
    assert done.exit_code == 0, done.output
    return done.stdout, (folder / "all.json").read_text()


def test_an_evaluation_is_the_same_on_a_cluster(scheduler: str, tmp_path: Path) -> None:
    write_timelines(tmp_path)
    names = ("pages", "updates", "captures")
    files = [part for name in names for part in (f"--{name}", f"{tmp_path}/{name}.csv")]
    for options in ([], ["--paper", "singh"]):
        alone = evaluated(tmp_path, *files, *options)
        assert evaluated(tmp_path, *files, *options, "--dask", scheduler) == alone


def test_made_up_pages_are_evaluated_the_same_on_a_cluster(
    scheduler: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(update_points, "CHUNK_PAGES", 100)
    monkeypatch.setattr(instant, "PAGES", 300)
    monkeypatch.setattr(instant, "SITES", 20)
    for options in (["--paper", "singh", "--synthetic-pages", "450"], ["--paper", "instant"]):
        alone = evaluated(tmp_path, *options)
        assert evaluated(tmp_path, *options, "--dask", scheduler) == alone


def check_failed(done: Result, caplog: pytest.LogCaptureFixture, address: str) -> None:
    """See that a command has ended with one line that names the cluster."""
    assert done.exit_code == 1
    (said,) = [one.message for one in caplog.records if one.levelname == "ERROR"]
    assert said.startswith(f"the Dask cluster at {address} failed: ")
    assert "Traceback" not in done.output


def test_a_scheduler_that_does_not_answer_leaves_evaluations_with_one_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(connection, "CONNECT_SECONDS", 0.2)
    address = f"127.0.0.1:{free_port()}"
    asked = ["--paper", "singh", "--synthetic-pages", "10", "--dask", address]
    done = CliRunner().invoke(app, ["evaluate", *asked])
    check_failed(done, caplog, address)


def test_an_address_that_is_none_is_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    asked = ("--paper", "singh", "--synthetic-pages", "10")
    done = hacs(tmp_path, "evaluate", *asked, "--dask", "nowhere")
    assert done.exit_code == 1
    assert "Dask cluster 'nowhere': allowed is the scheduler's HOST:PORT, or local" in caplog.text

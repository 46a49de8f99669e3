"""`hacs simulate` as a user runs it."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from typer.testing import CliRunner

from cli_support import rows_of
from forks import HANG_SECONDS, wait_until
from hacs_crawler.cli.app import app
from hacs_crawler.lab.simulation.baselines import BASELINES

DATA = Path(__file__).parents[1] / "lab" / "evaluation" / "data"
COMMAND = (sys.executable, "-c", "from hacs_crawler.cli.app import app; app()", "simulate")
FILES = (
    *("--pages", str(DATA / "pages.csv")),
    *("--updates", str(DATA / "updates.csv")),
    *("--captures", str(DATA / "captures.csv")),
)
TIME = ("--start", "2021-01-01", "--end", "2021-02-01")
LONG_TIME = ("--start", "2021-01-01", "--end", "2100-01-01")
KEYS = [
    *("budget", "policy", "visits", "hits", "precision", "updates_found", "updates_total"),
    *("new_links_found", "mean_delay_days", "mean_freshness"),
    *("hits_vs_last_obs", "hits_vs_oracle"),
]


def simulate(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["simulate", *FILES, *arguments])


@pytest.fixture(autouse=True)
def _one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    monkeypatch.setattr(sys, "path", sys.path.copy())


def rows(output: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in output.splitlines()
        if line.startswith("|")
    ]


def test_a_table_and_rows_of_what_was_asked_for(tmp_path: Path) -> None:
    done = simulate(*TIME, "--budget", "2", "--policy", "random, hacs", "--csv", "out.csv")
    assert done.exit_code == 0, done.output
    policies = rows_of(tmp_path / "out.csv")
    assert [list(policy) for policy in policies] == [KEYS, KEYS]
    assert [policy["policy"] for policy in policies] == ["random", "hacs"]
    assert all(policy["visits"] == "62" for policy in policies)
    assert all(0 < float(policy["hits_vs_oracle"]) <= 1 for policy in policies)
    title, rule, *lines = rows(done.stdout)
    shown = "budget policy visits hits share found of links delay fresh last oracle"
    assert title == shown.split()
    assert {len(line) for line in (title, rule, *lines)} == {len(KEYS)}
    assert done.stdout.endswith("hits relative to last-obs and to the oracle\n")
    assert lines[0][:4] == ["2", "random", "62", policies[0]["hits"]]
    assert list(tmp_path.iterdir()) == [tmp_path / "out.csv"]


def test_all_that_is_known_is_simulated_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    done = simulate("--start", "2021-01-01", "--end", "2021-01-03", "--budget", "1")
    assert [row[1] for row in rows(done.stdout)[2:]] == list(BASELINES)
    monkeypatch.setenv("COLUMNS", "80")
    head, first, *_ = simulate(*TIME, "--budget", "9", "--policy", "hacs").stdout.splitlines()
    assert head.split()[-3:] == ["fresh", "last", "oracle"]
    assert first.split()[:3] == ["9", "hacs", "279"]


def test_several_budgets_are_simulated_one_by_one(tmp_path: Path) -> None:
    done = simulate(*TIME, "--budgets", "1,3", "--policy", "hacs,last-obs", "--csv", "out.csv")
    assert done.exit_code == 0, done.output
    expected = [[budget, policy] for budget in "13" for policy in ("hacs", "last-obs")]
    assert [[row["budget"], row["policy"]] for row in rows_of(tmp_path / "out.csv")] == expected
    assert [row[:2] for row in rows(done.stdout)[2:]] == expected


def test_undefined_values_are_empty(tmp_path: Path) -> None:
    (tmp_path / "updates.csv").write_text("url,updated_at,new_links\n")
    done = simulate(
        *TIME, "--budget", "1", "--policy", "hacs", "--csv", "out.csv", "--updates", "updates.csv"
    )
    assert done.exit_code == 0, done.output
    (policy,) = rows_of(tmp_path / "out.csv")
    undefined = {key for key, value in policy.items() if not value}
    assert undefined == {"mean_delay_days", "hits_vs_last_obs", "hits_vs_oracle"}
    assert rows(done.stdout)[2].count("-") == 3


def test_a_policy_of_one_s_own_is_found_in_the_working_folder(tmp_path: Path) -> None:
    (tmp_path / "shop_policies.py").write_text(
        "def likeliest(candidates):\n    return candidates.p * 0.5**candidates.failures\n"
    )
    done = simulate(*TIME, "--budget", "2", "--policy", "hacs,shop_policies.likeliest")
    assert done.exit_code == 0, done.output
    first, second = rows(done.stdout)[2:]
    assert (first[0], first[2:]) == (second[0], second[2:])


def test_a_policy_that_fails_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "broken.py").write_text("def policy(candidates):\n    return 1 / 0\n")
    sys.modules.pop("broken", None)
    done = simulate(*TIME, "--budget", "2", "--policy", "broken.policy", "--csv", "out.csv")
    assert done.exit_code == 1
    assert "policy 'broken.policy' failed: ZeroDivisionError" in caplog.text
    assert not (tmp_path / "out.csv").exists()


@pytest.fixture
def long_run(tmp_path: Path):
    """A simulation in two processes that takes minutes, once it has begun."""
    process = subprocess.Popen(
        [*COMMAND, *FILES, *LONG_TIME, "--budget", "9", "--csv", "out.csv"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        wait_until(lambda: len(workers_of(process.pid)) >= min(2, os.cpu_count() or 1))
        wait_until(lambda: all(sum(one.cpu_times()[:2]) > 2 for one in workers_of(process.pid)))
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def workers_of(pid: int) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        children = psutil.Process(pid).children(recursive=True)
        return [one for one in children if "spawn_main" in " ".join(one.cmdline())]
    return []


@pytest.mark.slow
def test_ctrl_c_ends_all_processes_without_a_trace(long_run, tmp_path: Path) -> None:
    workers = workers_of(long_run.pid)
    os.killpg(long_run.pid, signal.SIGINT)
    stdout, stderr = long_run.communicate(timeout=HANG_SECONDS)
    assert long_run.returncode not in (0, None)
    assert "Traceback" not in stderr
    assert stdout == ""
    wait_until(lambda: not any(worker.is_running() for worker in workers))
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_processes_end_with_the_one_that_started_them(long_run) -> None:
    workers = workers_of(long_run.pid)
    assert workers
    long_run.kill()
    _, alive = psutil.wait_procs(workers, 30)
    assert [one for one in alive if one.status() != psutil.STATUS_ZOMBIE] == []

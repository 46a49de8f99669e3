"""`hacs simulate` as a user runs it."""

from __future__ import annotations

import csv
import gzip
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from typer.testing import CliRunner

import forks
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
    *("policy", "visits", "hits", "precision", "updates_found", "updates_total"),
    *("new_links_found", "mean_delay_days", "mean_freshness", "wasted_share"),
    *("site_hits", "site_updates_found", "mean_site_delay_days"),
    *("hits_vs_last_obs", "hits_vs_oracle"),
]
OF_SITES = KEYS[10:13]


def simulate(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["simulate", *FILES, *arguments])


@pytest.fixture(autouse=True)
def _one_process_in_an_empty_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())


def rows(output: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in output.splitlines()
        if line.startswith("|")
    ]


def test_a_table_and_json_of_what_was_asked_for(tmp_path: Path) -> None:
    target = tmp_path / "out.json"
    done = simulate(*TIME, "--budget", "2", "--policy", "random, hacs", "--json", str(target))
    assert done.exit_code == 0, done.output
    policies = json.loads(target.read_text())["policies"]
    assert [list(policy) for policy in policies] == [KEYS, KEYS]
    assert [policy["policy"] for policy in policies] == ["random", "hacs"]
    assert all(policy["visits"] == 62 for policy in policies)
    assert all(0 < policy["hits_vs_oracle"] <= 1 for policy in policies)
    title, rule, *lines = rows(done.stdout)
    assert len(lines) == 2
    assert {len(line) for line in (title, rule, *lines)} == {len(KEYS) - len(OF_SITES)}
    assert all(policy[key] is None for policy in policies for key in OF_SITES)
    assert lines[0][:3] == ["random", "62", str(policies[0]["hits"])]
    assert list(tmp_path.iterdir()) == [target]


def test_all_that_is_known_is_simulated_by_default() -> None:
    done = simulate("--start", "2021-01-01", "--end", "2021-01-03", "--budget", "1")
    assert [row[0] for row in rows(done.stdout)[2:]] == list(BASELINES)


def test_several_budgets_are_drawn_as_curves(tmp_path: Path) -> None:
    arguments = (*TIME, "--budgets", "1,3", "--policy", "hacs,last-obs", "--json", "out.json")
    done = simulate(*arguments)
    assert done.exit_code == 0, done.output
    policies = json.loads((tmp_path / "out.json").read_text())["policies"]
    assert [(policy["budget"], policy["policy"]) for policy in policies] == [
        (1, "hacs"),
        (1, "last-obs"),
        (3, "hacs"),
        (3, "last-obs"),
    ]
    assert [list(policy) for policy in policies] == [["budget", *KEYS]] * 4
    assert [row[:2] for row in rows(done.stdout)[2:]] == [
        [policy["policy"], str(policy["budget"])] for policy in policies
    ]
    drawn = (tmp_path / "curves.svg").read_text()
    assert "<svg" in drawn
    assert "last-obs" in drawn
    simulate(*arguments, "--plot", "other.png")
    assert (tmp_path / "other.png").read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib_the_table_is_there_and_curves_asked_for_are_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    arguments = (*TIME, "--budgets", "1,3", "--policy", "hacs")
    done = simulate(*arguments)
    assert done.exit_code == 0
    assert len(rows(done.stdout)) == 4
    assert "no curves are drawn: " in caplog.text
    caplog.clear()
    assert simulate(*arguments, "--plot", "curves.svg").exit_code == 1
    assert "hacs-crawler[report]" in caplog.text
    assert not list(tmp_path.iterdir())


def test_undefined_values_are_null(tmp_path: Path) -> None:
    (tmp_path / "updates.csv").write_text("url,updated_at,new_links\n")
    done = simulate(
        *TIME, "--budget", "1", "--policy", "hacs", "--json", "out.json", "--updates", "updates.csv"
    )
    assert done.exit_code == 0, done.output
    (policy,) = json.loads((tmp_path / "out.json").read_text())["policies"]
    undefined = {key for key, value in policy.items() if value is None}
    assert undefined == {"mean_delay_days", "hits_vs_last_obs", "hits_vs_oracle", *OF_SITES}
    assert rows(done.stdout)[2].count("-") == 3


def versions(folder: Path, **of_first: object) -> str:
    """Return a file of versions: every update adds one link, the same one on all pages."""
    updates, pages = (
        list(csv.DictReader((DATA / f"{name}.csv").read_text().splitlines()))
        for name in ("updates", "pages")
    )
    lines = []
    for number, page in enumerate(pages):
        times = [one["updated_at"] for one in updates if one["url"] == page["url"]]
        added = [{"at": at, "added": [f"link {place}"]} for place, at in enumerate(sorted(times))]
        fields = {"url": page["url"], "versions": added}
        lines.append(json.dumps(fields | (of_first if number == 0 else {})))
    with gzip.open(folder / "versions.jsonl.gz", "wt") as file:
        file.write("\n".join(lines))
    return str(folder / "versions.jsonl.gz")


def test_with_versions_it_is_told_what_was_new_to_the_sites(tmp_path: Path) -> None:
    arguments = (*TIME, "--budget", "2", "--policy", "hacs", "--json", "out.json")
    done = simulate(*arguments, "--versions", versions(tmp_path))
    assert done.exit_code == 0, done.output
    (policy,) = json.loads((tmp_path / "out.json").read_text())["policies"]
    assert 0 < policy["site_hits"] < policy["hits"]
    assert policy["site_hits"] <= policy["site_updates_found"] < policy["updates_found"]
    title, _, line = rows(done.stdout)
    assert line[title.index("site hits")] == str(policy["site_hits"])


def test_what_is_new_to_the_site_may_be_ranked_for(tmp_path: Path) -> None:
    arguments = (*TIME, "--budget", "2", "--policy", "hacs", "--json", "out.json")
    done = simulate(*arguments, "--versions", versions(tmp_path), "--new-to", "site")
    assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "out.json").read_text())["new_to"] == "site"


def test_what_is_new_to_the_site_cannot_be_told_without_versions(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert simulate(*TIME, "--budget", "2", "--new-to", "site").exit_code == 1
    assert "--new-to site needs --versions" in caplog.text
    assert simulate(*TIME, "--budget", "2", "--new-to", "world").exit_code == 1
    assert "--new-to 'world': must be one of page, site" in caplog.text


def test_a_wrong_file_of_versions_is_named_with_its_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = versions(tmp_path, versions=[{"at": "yesterday", "added": []}])
    assert simulate(*TIME, "--budget", "2", "--versions", file).exit_code == 1
    assert "versions.jsonl.gz, line 1: each of 'versions' has to have a time 'at'" in caplog.text


def test_a_policy_of_one_s_own_is_found_in_the_working_folder(tmp_path: Path) -> None:
    (tmp_path / "shop_policies.py").write_text(
        "def likeliest(candidates):\n    return candidates.p * 0.5**candidates.failures\n"
    )
    done = simulate(*TIME, "--budget", "2", "--policy", "hacs,shop_policies.likeliest")
    assert done.exit_code == 0, done.output
    first, second = rows(done.stdout)[2:]
    assert first[1:] == second[1:]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("return 1 / 0", "policy 'broken.policy' failed: ZeroDivisionError"),
        ("return candidates.p[:1]", "must be one number a page"),
    ],
)
def test_a_policy_that_fails_is_named(
    source: str, message: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "broken.py").write_text(f"def policy(candidates):\n    {source}\n")
    sys.modules.pop("broken", None)
    done = simulate(*TIME, "--budget", "2", "--policy", "broken.policy", "--json", "out.json")
    assert done.exit_code == 1
    assert message in caplog.text
    assert not (tmp_path / "out.json").exists()


@pytest.fixture
def long_run(tmp_path: Path):  # type: ignore[no-untyped-def]
    """A simulation in two processes that takes minutes, once it has begun."""
    process = subprocess.Popen(
        [*COMMAND, *FILES, *LONG_TIME, "--budget", "9", "--json", "out.json"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        wait_until(lambda: len(workers_of(process.pid)) >= min(2, os.cpu_count() or 1), 60)
        wait_until(lambda: all(cpu_seconds(one) > 2 for one in workers_of(process.pid)), 60)
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def workers_of(pid: int) -> list[psutil.Process]:
    try:
        return [
            child
            for child in psutil.Process(pid).children(recursive=True)
            if "spawn_main" in " ".join(child.cmdline())
        ]
    except psutil.NoSuchProcess:
        return []


def cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def wait_until(condition, seconds: float) -> None:  # type: ignore[no-untyped-def]
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
def test_ctrl_c_ends_all_processes_without_a_trace(long_run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    workers = workers_of(long_run.pid)
    os.killpg(long_run.pid, signal.SIGINT)
    stdout, stderr = long_run.communicate(timeout=forks.HANG_SECONDS)
    assert long_run.returncode not in (0, None)
    assert "Traceback" not in stderr
    assert stdout == ""
    wait_until(lambda: not any(worker.is_running() for worker in workers), 30)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_processes_end_with_the_one_that_started_them(long_run) -> None:  # type: ignore[no-untyped-def]
    workers = workers_of(long_run.pid)
    assert workers
    long_run.kill()
    wait_until(lambda: not any(alive(worker) for worker in workers), 30)


def alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False

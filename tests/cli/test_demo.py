"""`hacs demo`, run as a user runs it, with a small web."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from typer.testing import CliRunner

from hacs_crawler.cli.app import app
from hacs_crawler.demo.rounds import RoundScore
from hacs_crawler.demo.screen import sentence

ELSEWHERE = {
    "SCRAPY_SETTINGS_MODULE": "of.another.project",
    "HACS_DEMO_CLOCK": "/of/another/demonstration",
    "http_proxy": "http://127.0.0.1:9",
}
"""What may be in a user's environment and concerns nothing on this machine."""
DEMO = ("-c", "from hacs_crawler.cli.app import app; app()", "demo", "--no-open", "--authors", "8")


def start(temporary: Path, *arguments: str) -> subprocess.Popen[str]:
    temporary.mkdir()
    return subprocess.Popen(
        [sys.executable, *DEMO, *arguments],
        env={
            **os.environ,
            **ELSEWHERE,
            "TMPDIR": str(temporary),
            "PYTHONUNBUFFERED": "1",
            "COLUMNS": "100",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_both_arms_crawl_round_by_round_and_a_report_is_left(tmp_path: Path) -> None:
    process = start(tmp_path / "tmp", "--rounds", "2", "--keep", str(tmp_path / "kept"))
    output, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (0, "")
    rounds = re.findall(
        r"^  (\d{4}-\d\d-\d\d)  (\d+) \+ (\d+) .*? (\d+) .*? (\d+) *$", output, re.M
    )
    assert [day for day, *_ in rounds] == ["2024-01-01", "2024-01-15"]
    *_, (_, hacs_visits, last_obs_visits, hacs_hits, last_obs_hits) = rounds
    assert int(hacs_visits) == int(last_obs_visits) > 0
    assert f"HACS found updates in {hacs_hits} of {hacs_visits} visits" in output
    assert f"Last-Obs found updates in {last_obs_hits} of {last_obs_visits} visits" in output
    assert re.search(rf"^visits +{hacs_visits} +{last_obs_visits}$", output, re.M)
    report = tmp_path / "kept" / "report.html"
    assert "</html>" in report.read_text()[-100:]
    assert f"\nThe report: {report}\n" in output
    assert not list((tmp_path / "tmp").iterdir())


@pytest.mark.slow
def test_ctrl_c_during_a_round_leaves_nothing(tmp_path: Path) -> None:
    process = start(tmp_path / "tmp", "--rounds", "50")
    assert process.stdout is not None
    for line in process.stdout:
        if "2024-01-01" in line:  # so the second round has begun, or is about to
            break
    below = psutil.Process(process.pid).children(recursive=True)
    assert below
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, "")
    assert output.endswith("\nStopped: nothing of it runs any more.\n")
    assert not [one for one in below if one.is_running()]
    assert not list((tmp_path / "tmp").iterdir())


@pytest.mark.slow
def test_a_child_that_fails_ends_it_with_a_line_and_the_end_of_the_childs_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("hacs_crawler.demo.rounds.HOMEPAGES", "nowhere.txt")
    result = CliRunner().invoke(app, ["demo", "--no-open", "--authors", "8"])
    assert result.exit_code == 1
    assert caplog.messages[-1].startswith("wayback has failed (exit status 1); the end of its log:")
    assert "nowhere.txt: cannot read seeds" in caplog.messages[-1]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--timelines", "{folder}"), "no folder of timelines: there is no pages.csv in it"),
        (("--keep", "{folder}"), "allowed is a new or an empty folder"),
        (("--authors", "9999"), "authors = 9999: allowed is a whole number from 2 to 576"),
    ],
)
def test_what_cannot_be_is_said_in_a_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, arguments: tuple[str, str], problem: str
) -> None:
    (tmp_path / "something").touch()
    given = [argument.format(folder=tmp_path) for argument in arguments]
    result = CliRunner().invoke(app, ["demo", "--no-open", *given])
    assert result.exit_code == 1
    assert problem in caplog.messages[-1]


@pytest.mark.parametrize(
    ("hits", "end"),
    [
        ((30, 20), ": HACS is ahead by 50 %."),
        ((20, 30), ": Last-Obs is ahead by 50 %."),
        ((20, 20), ": the same."),
        ((20, 0), ": HACS is ahead."),
    ],
)
def test_whoever_is_ahead_is_named(hits: tuple[int, int], end: str) -> None:
    assert sentence(RoundScore(0, (50, 50), hits)).endswith(end)

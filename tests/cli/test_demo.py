"""`hacs demo`, run as a user runs it, with a smaller web."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hacs_crawler.cli.demo import sentence
from hacs_crawler.demo.rounds import RoundScore

DEMO = """
from hacs_crawler.cli import demo
from hacs_crawler.cli.app import app

demo.AUTHORS, demo.ROUNDS = 8, {rounds}
app(["demo", "--no-open"])
"""


def start(temporary: Path, rounds: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", DEMO.format(rounds=rounds)],
        env={
            **os.environ,
            "http_proxy": "http://127.0.0.1:9",  # concerns nothing on this machine
            "TMPDIR": str(temporary),
            "PYTHONUNBUFFERED": "1",
            "COLUMNS": "100",
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.slow
def test_both_arms_crawl_round_by_round_and_only_a_report_is_left(tmp_path: Path) -> None:
    output, errors = (process := start(tmp_path, 2)).communicate(timeout=120)
    assert (process.returncode, errors) == (0, "")
    rounds = re.findall(r"^  (\d{4}-\d\d-\d\d)  (\d+) \+ (\d+) .*?(\d+) .*?(\d+)$", output, re.M)
    assert [day for day, *_ in rounds] == ["2024-01-01", "2024-01-15"]
    _, hacs_visits, last_obs_visits, hacs_hits, last_obs_hits = rounds[-1]
    assert f"HACS found updates in {hacs_hits} of {hacs_visits} visits" in output
    text = " ".join(output.split())
    assert f"Last-Obs found updates in {last_obs_hits} of {last_obs_visits} visits" in text
    assert re.search(rf"^visits +{hacs_visits} +{last_obs_visits}$", output, re.M)
    (left,) = tmp_path.iterdir()
    assert output.endswith(f"The report:\n{left / 'report.html'}\n")
    assert (left / "report.html").read_text().rstrip().endswith("</html>")


@pytest.mark.slow
def test_ctrl_c_during_a_round_leaves_nothing(tmp_path: Path) -> None:
    process = start(tmp_path, 50)
    assert process.stdout is not None
    for line in process.stdout:
        if "2024-01-01" in line:  # so the second round has begun, or is about to
            break
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (130, "")
    assert output.endswith("\nStopped.\n")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("visits", "hits", "end"),
    [
        ((50, 50), (30, 20), ": HACS is ahead by 50 %."),
        ((50, 50), (20, 30), ": Last-Obs is ahead by 50 %."),
        ((50, 25), (20, 20), ": Last-Obs is ahead by 100 %."),
        ((50, 50), (20, 20), ": the same."),
        ((50, 50), (20, 0), ": HACS is ahead."),
    ],
)
def test_whoever_finds_more_in_a_visit_is_named(
    visits: tuple[int, int], hits: tuple[int, int], end: str
) -> None:
    assert sentence(RoundScore(0, visits, hits)).endswith(end)

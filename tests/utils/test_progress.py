"""Progress on a terminal and where there is none."""

from __future__ import annotations

import io
import logging
import os
import pty
import subprocess
import sys
from itertools import count
from types import SimpleNamespace

import pytest

from hacs_crawler.utils import progress
from hacs_crawler.utils.progress import Progress


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that goes on by 4 seconds whenever it is looked at."""
    seconds = count(0, 4)
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(seconds)))


@pytest.mark.usefixtures("clock")
def test_without_a_terminal_a_line_is_logged_every_ten_seconds(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with caplog.at_level(logging.INFO), Progress("harvest") as shown:
        for done in range(7):
            shown.update(f"{done} seeds", completed=done, total=10)
    assert [record.getMessage() for record in caplog.records] == [
        "harvest: 2 seeds (20 %, 0:00:48 left)",
        "harvest: 5 seeds (50 %, 0:00:24 left)",
    ]


@pytest.mark.usefixtures("clock")
def test_without_a_total_only_the_text_is_logged(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    with caplog.at_level(logging.INFO), Progress("file.cdx") as shown:
        for done in range(3):
            shown.update(f"{done} visits")
    assert [record.getMessage() for record in caplog.records] == ["file.cdx: 2 visits"]


SCRIPT = """
import logging, sys, time
from hacs_crawler.utils.progress import Progress
logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.INFO)
with Progress("harvest [odd]") as shown:
    shown.update("1 seed", completed=1, total=4)
    logging.warning("slow down")
    print("an item")
    time.sleep(0.3)
shown.stop()
logging.warning("the end")
"""


@pytest.mark.slow
def test_on_a_terminal_log_lines_appear_above_the_bar() -> None:
    ours, theirs = pty.openpty()
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        stdout=subprocess.PIPE,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
        timeout=30,
        check=True,
    )
    os.close(theirs)
    shown = os.read(ours, 65_536).decode()
    os.close(ours)
    assert done.stdout == b"an item\n"
    lines = shown.split("\n")
    assert any(line.strip().endswith("WARNING: slow down") for line in lines), lines
    assert "harvest [odd]: 1 seed" in shown
    assert "25%" in shown
    assert lines[-2].strip().endswith("WARNING: the end")

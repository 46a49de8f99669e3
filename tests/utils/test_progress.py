"""Progress on a terminal and where there is none."""

import os
import pty
import subprocess
import sys

import pytest

from hacs_crawler.utils.terminal import Progress


def test_without_a_terminal_nothing_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with Progress("harvest") as shown:
        shown.update("1 seed", completed=1, total=10)
    assert capsys.readouterr() == ("", "")


SCRIPT = """
import logging, sys, time
from hacs_crawler.utils.terminal import Progress
logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.INFO)
with Progress("harvest [odd]") as shown:
    shown.update("1 seed", completed=1, total=4)
    logging.warning("slow down")
    print("an item")
    time.sleep(0.3)
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
        timeout=300,
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

"""Plays a scenario in a process of its own, forked from one that has imported everything."""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

from fuzz.scenario import Scenario

LONGEST_SECONDS = 180
"""A guard, and no measure: most take less than a second, some a minute where machines are busy."""
SERVER = "from fuzz import clock; clock.run_fast(); from fuzz import worker; worker.main()"


def play(scenario: Scenario, redis: str, *, addon: bool) -> list[dict[str, Any]] | str:
    """Return what was seen on each day, or the log where the process did not come to its end."""
    server = _server()
    assert server.stdin is not None
    assert server.stdout is not None
    with TemporaryDirectory(prefix="hacs-fuzz-", ignore_cleanup_errors=True) as folder:
        job = [msgspec.to_builtins(scenario), folder, redis, addon, LONGEST_SECONDS]
        print(json.dumps(job), file=server.stdin, flush=True)
        if server.stdout.readline() == "0\n":
            runs: list[dict[str, Any]] = json.loads(Path(folder, "seen").read_text())
            return runs
        log = Path(folder, "log").read_text().replace("\0", "\n")
        return f"it did not end within {LONGEST_SECONDS} s:\n{log[-3000:]}"


@cache
def _server() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SERVER],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

"""Has a process play scenarios, and starts another one where it hangs or dies."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from threading import Timer
from typing import Any, Self

import msgspec

from fuzz.scenario import Scenario

LONGEST_SECONDS = 60.0
"""A guard, and no measure: a scenario takes less than a second."""
TESTS = Path(__file__).parents[1]


class PlayError(Exception):
    """The process that plays failed by a fault of the judge's own."""


class Player:
    """Plays scenarios one after the other in a process of its own, which `with` ends."""

    def __init__(self, redis: str = "") -> None:
        self._redis = redis
        self._process: subprocess.Popen[str] | None = None
        self._folder = Path(tempfile.mkdtemp(prefix="hacs-fuzz-"))
        self._number = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        shutil.rmtree(self._folder)

    def play(self, scenario: Scenario, *, addon: bool) -> list[dict[str, Any]] | str:
        """Return what was seen on each day, or the log where it did not come to its end."""
        self._number += 1
        folder = self._folder / f"{os.getpid()}-{self._number}"
        folder.mkdir()
        fields = msgspec.to_builtins(scenario)
        job = {"scenario": fields, "addon": addon, "folder": str(folder), "redis": self._redis}
        line = self._answer(json.dumps(job))
        if not line:
            self._end()
            text = "".join((folder / "log").read_text().splitlines(keepends=True)[-30:])
            return f"it did not end within {LONGEST_SECONDS:g} s:\n{text}"
        shutil.rmtree(folder)
        answer = json.loads(line)
        if "error" in answer:
            raise PlayError(answer["error"])
        runs: list[dict[str, Any]] = answer["runs"]
        return runs

    def _answer(self, line: str) -> str:
        process = self._process = self._process or _start()
        assert process.stdin is not None
        assert process.stdout is not None
        guard = Timer(LONGEST_SECONDS, process.kill)
        guard.start()
        try:
            print(line, file=process.stdin, flush=True)
            return process.stdout.readline()
        finally:
            guard.cancel()

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def _start() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "fuzz.worker"],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )

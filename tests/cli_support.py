"""The command `hacs`, run on a state in a folder, at a time that stands still or as a process."""

import csv
import subprocess
from collections.abc import Iterable
from contextlib import AbstractContextManager
from pathlib import Path

from typer.testing import CliRunner, Result

import forks
import state_support
from hacs_crawler.cli.app import app
from hacs_crawler.state import State, Visit
from hacs_crawler.utils.times import DAY

NOW = 20_000 * DAY  # 2024-10-04


def hacs(folder: Path, *arguments: str, given: str | None = None) -> Result:
    """Run a command in this process, at NOW, on the state that the folder has in `state.db`."""
    settings = (f"HACS_STATE=sqlite:///{folder}/state.db", "HACS_CLOCK=clocks.of_environment")
    options = [part for one in settings for part in ("-s", one)]
    clock = {"HACS_TESTS_NOW": str(NOW)}
    return CliRunner().invoke(app, [*arguments, *options], input=given, env=clock)


def hacs_process(
    folder: Path, *arguments: str, given: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a command as a process of its own whose working folder this is."""
    done = forks.run("hacs", arguments, folder, given.encode())
    output, errors = done.stdout.decode(), done.stderr.decode()
    return subprocess.CompletedProcess(done.args, done.returncode, output, errors)


def said(done: subprocess.CompletedProcess[str], status: int = 0) -> str:
    """The lines of a command that ended as it should."""
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def opened(folder: Path, namespace: str = "hacs") -> AbstractContextManager[State]:
    return state_support.opened(f"sqlite:///{folder}/state.db", namespace)


def record(folder: Path, visits: Iterable[Visit]) -> None:
    """Record visits in the state of a folder, which is made if there is none."""
    with opened(folder) as state:
        state.record([*visits])


def visits(url: str, links: list[set[int]], days_apart: float = 10) -> list[Visit]:
    """Visits of a page that showed these links, the last of them ten days ago."""
    first = NOW - 10 * DAY - (len(links) - 1) * days_apart * DAY
    return [
        Visit(url, int(first + place * days_apart * DAY), marks=frozenset(shown))
        for place, shown in enumerate(links)
    ]


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))

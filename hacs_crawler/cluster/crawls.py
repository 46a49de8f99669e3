"""Crawls on a Dask cluster, each a process beside the worker that looks after it.

A crawl lives as long as its worker, which holds the other end of its standard input: where that is
closed, whatever befalls the worker, the crawl ends in order. Dask gives a lost worker's task to another.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hacs_crawler.cluster.tasks import Cluster
from hacs_crawler.exceptions import ClusterError

if TYPE_CHECKING:
    from distributed import Future, Worker

LOOK_SECONDS: Final = 0.25
TELL_SECONDS: Final = 2.0
"""How often a worker tells how far a crawl is."""
TRIES: Final = 3
"""How often a crawl is started anew whose process was killed."""
NOT_BEGUN: Final[tuple[int, str, Mapping[str, Any]]] = (0, "", {"finish_reason": "not begun"})
_ALIVE: Final = ("executing", "long-running")
_ENDED: set[str] = set()
_KILLED: set[str] = set()
"""What runs of the command have asked of the crawls of this worker."""


class CrawlTask(NamedTuple):
    """A crawl to be run: a module's `main`, which gets `order` as JSON, beside the file of its stats."""

    name: str
    module: str
    order: Mapping[str, Any]
    log: str
    is_endless: bool = False


class CrawlResult(NamedTuple):
    """How a crawl has ended: its exit status, its last error, if there was one, and its stats.

    These are of the last `attempt`, as a worker says it, and of all attempts as `Crawls` does.
    """

    name: str
    status: int
    said: str
    stats: Mapping[str, Any]
    attempt: str = ""


class Crawls:
    """The crawls of one command."""

    def __init__(self, cluster: Cluster) -> None:
        self._client = cluster.client
        self._run = secrets.token_hex(8)
        self._futures: dict[str, Future] = {}
        self._reported: dict[str, dict[str, Mapping[str, Any]]] = {}
        self._is_ending = False
        self._client.subscribe_topic(self._run, self._note)

    def __contains__(self, name: str) -> bool:
        return name in self._futures

    def __len__(self) -> int:
        return len(self._futures)

    def total(self, stat: str) -> int:
        """Return the sum of a stat over all crawls, as they last reported it."""
        return sum(
            stats.get(stat, 0) for runs in self._reported.values() for stats in runs.values()
        )

    def start(self, task: CrawlTask) -> None:
        """Have a crawl run by some worker."""
        self._futures[task.name] = self._client.submit(
            run_crawl, self._run, task, pure=False, retries=TRIES - 1
        )

    def ended(self) -> Iterator[CrawlResult]:
        """Yield the crawls that have ended since; raises ClusterError where the scheduler is lost."""
        if self._client.status != "running":
            raise ClusterError("the connection to the Dask scheduler is lost: the crawls end")
        for name, future in list(self._futures.items()):
            if future.status in {"pending", "processing"}:
                continue
            del self._futures[name]
            if future.status == "finished":
                result: CrawlResult = future.result()
            elif self._is_ending and future.status == "cancelled":
                result = CrawlResult(name, *NOT_BEGUN)
            else:
                result = CrawlResult(name, 1, " ".join(str(future.exception()).split())[:300], {})
            self._reported.setdefault(name, {})[result.attempt] = result.stats
            yield result._replace(stats=_summed(self._reported[name].values()))

    def end(self, *, at_once: bool = False) -> None:
        """Have all end in order, or at once; those that wait for a worker do not begin."""
        self._is_ending = True
        for name, future in self._futures.items():
            if name not in self._reported:
                future.cancel()
        self._client.run(end_crawls, self._run, at_once=at_once)

    def _note(self, event: tuple[float, Any]) -> None:
        name, attempt, stats = event[1]
        self._reported.setdefault(name, {})[attempt] = stats


def end_crawls(run: str, *, at_once: bool) -> None:
    """Have a command's crawls of this worker end."""
    (_KILLED if at_once else _ENDED).add(run)


def run_crawl(run: str, task: CrawlTask) -> CrawlResult:
    """Run a crawl to its end, in a Dask worker; raises ClusterError where it was killed."""
    from distributed import get_worker, secede  # noqa: PLC0415 - an extra

    worker = get_worker()
    key, attempt = worker.get_current_task(), secrets.token_hex(8)
    if run in _ENDED | _KILLED:
        return CrawlResult(task.name, *NOT_BEGUN)
    if task.is_endless:
        secede()  # all crawls are alive at once, however few threads there are
    with TemporaryDirectory(prefix="hacs-") as folder:
        stats, log = Path(folder, "stats.json"), Path(task.log)
        log.parent.mkdir(parents=True, exist_ok=True)
        process = _started(task, stats, log)
        try:
            worker.log_event(run, (task.name, attempt, {}))
            for progress in _looked_after(process, worker, key, run, stats):
                worker.log_event(run, (task.name, attempt, progress))
        finally:
            _kill(process)
        status, found = process.wait(), _read(stats)
        if status < 0 and run not in _KILLED:
            raise ClusterError(f"its process was killed: {signal.Signals(-status).name}")
        return CrawlResult(task.name, status, _last_error(log) if status else "", found, attempt)


def _started(task: CrawlTask, stats: Path, log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as out:
        process = subprocess.Popen(  # noqa: S603 - Python itself, with a module of this package
            [sys.executable, "-m", task.module],
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=out,
            start_new_session=True,  # Ctrl-C is for the command, which sees to the crawls
        )
    assert process.stdin is not None  # noqa: S101 - a pipe
    with suppress(BrokenPipeError):
        process.stdin.write(json.dumps({**task.order, "stats": str(stats)}).encode() + b"\n")
        process.stdin.flush()
    return process


def _looked_after(
    process: subprocess.Popen[bytes], worker: Worker, key: str, run: str, stats: Path
) -> Iterator[Mapping[str, Any]]:
    """Yield a crawl's stats until it has ended, be it that nobody waits for it any more."""
    told_at = time.monotonic()
    while True:
        with suppress(subprocess.TimeoutExpired):
            process.wait(LOOK_SECONDS)
            yield _read(stats)
            return
        if run in _KILLED:
            return
        if run in _ENDED or not _is_wanted(worker, key):
            process.stdin.close()  # type: ignore[union-attr]
        if time.monotonic() - told_at > TELL_SECONDS:
            told_at = time.monotonic()
            yield _read(stats)


def _is_wanted(worker: Worker, key: str) -> bool:
    """Whether the scheduler still has this worker run the task, and somebody waits for it."""
    task = worker.state.tasks.get(key)
    is_up = worker.status.name in {"running", "paused"}
    return is_up and task is not None and task.state in _ALIVE


def _summed(parts: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """Return the sums of what is a number, and what the last part says of anything else."""
    found: dict[str, Any] = {}
    for part in parts:
        numbers = {
            name: found.get(name, 0) + number
            for name, number in part.items()
            if type(number) is int
        }
        found = {**found, **part, **numbers}
    return found


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _read(stats: Path) -> Mapping[str, Any]:
    try:
        found: Mapping[str, Any] = json.loads(stats.read_bytes())
    except (OSError, ValueError):
        return {}
    return found


def _last_error(log: Path) -> str:
    """Return the last line of a log that says an error, or its last one."""
    lines = log.read_text(errors="replace").splitlines()[-200:]
    errors = [line for line in lines if " ERROR: " in line] or [
        line for line in lines if line.strip()
    ]
    return errors[-1][-300:] if errors else "it said nothing"

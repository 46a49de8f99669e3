"""Runs the crawls of shards, each an ordinary `scrapy crawl` in a process of its own.

A crawl ends with the process that looks after it: the command, or a worker of a Dask cluster, which
gives the crawls of a lost worker to another worker.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import re
import secrets
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hacs_crawler.exceptions import ClusterError, ConfigError, HacsError

if TYPE_CHECKING:
    from distributed import Client

LOOK_SECONDS: Final = 0.1
# How often a crawl is begun whose process is killed each time.
TRIES: Final = 3
# After how long a crawl that SIGSTOP holds is killed and begun again; then it may not send any
# more.
STOPPED_SECONDS: Final = 60.0
# How long workers may take to answer that they end their crawls: one may be stopped.
ANSWER_SECONDS: Final = 5.0
# How long a crawl may take to end in order once nobody looks after it.
PATIENCE_SECONDS: Final = 30.0
# How long a scheduler may take to answer.
CONNECT_SECONDS: Final = 15.0
# How long a cluster without any worker may take to start one.
WORKER_SECONDS: Final = 60.0
_PACKAGE: Final = "hacs-crawler"
_ADDRESS = re.compile(r"(?:(?:tcp|tls|ws|wss)://)?(?:\[[0-9a-fA-F:.]+\]|[\w.-]+):\d{1,5}")
_LOG_LINE: Final = re.compile(r"\S+ \S+ \[[^]]+\] (?:DEBUG|INFO|WARNING): ")
# Starting a process also looks whether others have ended: of two threads that read the exit status
# of one, the second would get 255.
_status_lock: Final = Lock()
# The commands that asked their crawls to end; True if they are to be killed.
_asked_to_end: dict[str, bool] = {}


class Order(NamedTuple):
    """A crawl to be run: what `scrapy` is given, the file of its log, and modules that it needs."""

    arguments: tuple[str, ...]
    log: str
    modules: tuple[str, ...] = ()


class Result(NamedTuple):
    """How a crawl has ended: its exit status, and the last error of its log if that is not 0."""

    status: int
    said: str = ""


class Pool:
    """What runs crawls: threads here, or workers of a cluster, which `call_all` reaches.

    `has_workers` says whether there are any.
    """

    def __init__(
        self,
        executor: Executor,
        call_all: Callable[..., Any],
        runner: Callable[[str, Order], Result],
        has_workers: Callable[[], bool] = lambda: True,
    ) -> None:
        self._executor, self._call_all, self._runner = executor, call_all, runner
        self.has_workers = has_workers
        self._run = secrets.token_hex(8)

    def start(self, order: Order) -> Future[Result]:
        """Have a crawl run when there is room."""
        return self._executor.submit(self._runner, self._run, order)

    def end(self, *, at_once: bool = False) -> None:
        """End all crawls in order, or kill them if `at_once`; waiting crawls do not begin."""
        given = end_crawls, self._run, at_once
        telling = Thread(target=self._call_all, args=given, daemon=True)
        telling.start()
        telling.join(ANSWER_SECONDS)


@contextmanager
def local_pool() -> Iterator[Pool]:
    """Run as many crawls at a time as this machine has cores."""
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        yield Pool(threads, lambda function, *given: function(*given), run_crawl)


@contextmanager
def dask_pool(address: str, here_only: str = "") -> Iterator[Pool]:
    """Connect to the scheduler at HOST:PORT, which may have a protocol.

    Whatever Dask raises in the block becomes ClusterError, in one line. Raises ConfigError if the
    address is malformed, Dask is not installed, or a worker is on another machine and `here_only` gives
    the reason why none may be.
    """
    if not _ADDRESS.fullmatch(address):
        raise ConfigError(f"Dask cluster {address!r}: must be the scheduler's HOST:PORT")
    try:
        from distributed import Client  # noqa: PLC0415 - an extra
    except ImportError as error:
        msg = f"a Dask cluster is asked for: pip install 'hacs-crawler[dask]' ({error})"
        raise ConfigError(msg) from error
    # a worker that is lost is not an error, and each module's logger has a level of its own
    for name in ("distributed", *logging.root.manager.loggerDict):
        if name.split(".")[0] == "distributed":
            logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        with Client(address, timeout=CONNECT_SECONDS, set_as_default=False) as client:
            _check_workers(client, address, here_only)

            def call_all(function: Callable[..., object], *given: object) -> None:
                with suppress(Exception):  # of workers that are lost
                    client.run(function, *given)

            def has_workers() -> bool:
                return client.status != "running" or bool(client.nthreads())

            yield Pool(client.get_executor(), call_all, _crawl_there, has_workers)
    except HacsError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split()) or "it did not answer"
        msg = f"the Dask cluster at {address} failed: {type(error).__name__}: {reason[:300]}"
        raise ClusterError(msg) from error


def run_crawl(run: str, order: Order, is_wanted: Callable[[], bool] = lambda: True) -> Result:
    """Run a crawl to its end, and again if its process was killed, as long as it is wanted."""
    for _ in range(TRIES):
        if run in _asked_to_end or not is_wanted():
            return Result(0)
        process = _started(order)
        is_ending, stopped_seconds = False, 0.0
        while not _has_ended(process):
            # counted by looks: while this process is stopped too, no time passes
            stopped_seconds = stopped_seconds + LOOK_SECONDS if _is_stopped(process) else 0.0
            if stopped_seconds >= STOPPED_SECONDS or _asked_to_end.get(run):
                process.kill()
            elif not is_ending and (run in _asked_to_end or not is_wanted()):
                is_ending = True  # Scrapy takes a second signal for a forced stop
                process.terminate()
        if (process.exitcode or 0) >= 0:
            break
    status = process.exitcode or 0
    return Result(status, _last_error(Path(order.log)) if status else "")


def _crawl_there(run: str, order: Order) -> Result:
    """Run a crawl in a worker, as long as the scheduler wants this worker to run it."""
    from distributed import get_worker  # noqa: PLC0415 - an extra

    worker = get_worker()
    key = worker.get_current_task()

    def is_wanted() -> bool:
        task = worker.state.tasks.get(key)
        is_up = worker.status.name in {"running", "paused"}
        return is_up and task is not None and task.state == "executing"

    return run_crawl(run, order, is_wanted)


def end_crawls(run: str, at_once: bool) -> None:
    """Have the crawls of a command that this process looks after end."""
    _asked_to_end[run] = at_once


def _has_ended(process: BaseProcess) -> bool:
    """Return whether a process has ended, after a moment's wait."""
    wait([process.sentinel], LOOK_SECONDS)
    with _status_lock:
        return not process.is_alive()


def _is_stopped(process: BaseProcess) -> bool:
    """Whether SIGSTOP holds a process; False on systems without /proc."""
    try:
        fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return fields[0] == "T"


def _started(order: Order) -> BaseProcess:
    Path(order.log).parent.mkdir(parents=True, exist_ok=True)
    # a Dask worker with a nanny is a daemon, which Python forbids to have children
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]  # noqa: SLF001
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*order.modules, "hacs_crawler.shards.preloaded"])
    process = context.Process(target=_crawl, args=(order.arguments, order.log))
    # A signal to the whole group is for the command. The fork server, which inherits the mask, would die
    # of it, and with it the exit statuses of its forks. The tracker, if started later, unblocks signals.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    try:
        with _status_lock:
            process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return process


def _crawl(arguments: Sequence[str], log: str) -> None:
    """Run `scrapy`, which ends this process with its exit status."""
    os.setsid()  # Ctrl-C is for the command, which sees to the crawls
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    for stream in (1, 2):
        os.dup2(out, stream)
    Thread(target=_end_with_starter, daemon=True).start()
    sys.argv = ["scrapy", *arguments]
    from scrapy.cmdline import execute  # noqa: PLC0415 - in the process of the crawl only

    execute()


def _end_with_starter() -> None:
    starter = multiprocessing.parent_process()
    assert starter is not None  # noqa: S101 - a child
    starter.join()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(PATIENCE_SECONDS)
    os._exit(1)


def _last_error(log: Path) -> str:
    """Return the last error in a log, or the end of a traceback."""
    lines = [line for line in log.read_text(errors="replace").splitlines()[-200:] if line.strip()]
    errors = [line for line in lines if " ERROR: " in line]
    errors = errors or [line for line in lines if not _LOG_LINE.match(line)]
    return errors[-1][-300:] if errors else "its log has no error"


def _check_workers(client: Client, address: str, here_only: str) -> None:
    """Raise ClusterError if the cluster lacks a worker, or a worker has another version of the package.

    A task that a worker cannot read never ends: Dask has it read again and again.
    """
    if not client.nthreads():
        # a cluster that adapts starts workers for tasks only
        waiting = client.submit(version, _PACKAGE, pure=False)
        try:
            client.wait_for_workers(1, timeout=WORKER_SECONDS)
        except TimeoutError as error:
            msg = f"the Dask cluster at {address} has no worker, for {WORKER_SECONDS:g} s now"
            raise ClusterError(msg) from error
        finally:
            waiting.release()
    try:
        own = version(_PACKAGE)
    except PackageNotFoundError:  # run from its sources
        return
    for worker, its_version in client.run(version, _PACKAGE, on_error="return").items():
        if its_version != own:
            has = (
                "no hacs-crawler"
                if isinstance(its_version, Exception)
                else f"hacs-crawler {its_version}"
            )
            msg = f"the Dask worker at {worker} has {has}: {own} is needed there, as it is here"
            raise ClusterError(msg)
    for worker, host in client.run(socket.gethostname).items() if here_only else ():
        if host != socket.gethostname():
            raise ConfigError(f"{here_only}: the Dask worker at {worker} is on {host}")

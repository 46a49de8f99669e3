"""Runs the crawls of shards, each an ordinary `scrapy crawl` in its own process.

A crawl ends with its parent: the command, or a worker of a Dask cluster. Dask moves the crawls of a
lost worker to another worker.
"""

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
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from multiprocessing import forkserver, resource_tracker, util
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from threading import Lock, Thread, active_count
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from hacs_crawler.exceptions import ClusterError, ConfigError, HacsError, needing

if TYPE_CHECKING:
    from distributed import Client

LOOK_SECONDS: Final = 0.1
# How often to start a crawl whose process is killed each time.
TRIES: Final = 3
# A crawl stopped by SIGSTOP is killed and restarted after this time, when its lock is not valid any
# more.
STOPPED_SECONDS: Final = 60.0
# How long to wait for the workers' answers when crawls are to end: a worker may be stopped.
ANSWER_SECONDS: Final = 5.0
# How long a crawl may take to end in order after its parent has ended.
PATIENCE_SECONDS: Final = 30.0
# How long a scheduler may take to answer.
CONNECT_SECONDS: Final = 15.0
# How long a cluster without any worker may take to start one.
WORKER_SECONDS: Final = 60.0
_PACKAGE: Final = "hacs-crawler"
_PRELOADED: Final = "hacs_crawler.shards.preloaded"
_ADDRESS = re.compile(r"(?:(?:tcp|tls|ws|wss)://)?(?:\[[0-9a-fA-F:.]+\]|[\w.-]+):\d{1,5}")
# The last line of a traceback, or of a usage error: neither has a time, as lines of the log do.
_ERROR: Final = re.compile(r"[\w. -]+(?:: |$)")
# Starting a process also polls the other ones; if two threads read one exit status, the second
# would get 255.
_status_lock: Final = Lock()
# Runs whose crawls were asked to end; True to kill them.
_asked_to_end: dict[str, bool] = {}


class Result(NamedTuple):
    """The exit status of a crawl, and, if it is not 0, the last error in the log."""

    status: int
    said: str = ""


@dataclass(frozen=True)
class Pool:
    """What runs crawls: threads here, or workers of a cluster, which `call_all` reaches."""

    executor: Executor
    call_all: Callable[..., Any]
    runner: Callable[[str, Sequence[str], Path], Result]
    has_workers: Callable[[], bool] = lambda: True
    run: str = field(default_factory=secrets.token_hex)

    def start(self, arguments: Sequence[str], log: Path) -> Future[Result]:
        """Queue a crawl by `scrapy` with these arguments, which logs to a file."""
        return self.executor.submit(self.runner, self.run, arguments, log)

    def end(self, *, at_once: bool = False) -> None:
        """End all crawls in order, or kill them if `at_once`; queued crawls do not start."""
        asking = Thread(target=self.call_all, args=(end_crawls, self.run, at_once), daemon=True)
        asking.start()
        asking.join(ANSWER_SECONDS)


@contextmanager
def local_pool() -> Iterator[Pool]:
    """Run one crawl at a time per core of this machine."""
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        yield Pool(threads, lambda function, *given: function(*given), run_crawl)


@contextmanager
def dask_pool(address: str, file: Path | None = None) -> Iterator[Pool]:
    """Connect to the Dask scheduler at HOST:PORT, optionally with a protocol.

    Exceptions of Dask in the block become ClusterError, in one line. If the state is in a `file`, all
    workers must be on this machine. Raises ConfigError if they are not, if the address is malformed,
    or if Dask is not installed.
    """
    if not _ADDRESS.fullmatch(address):
        raise ConfigError(f"Dask cluster {address!r}: must be the scheduler's HOST:PORT")
    with needing("dask", "a Dask cluster needs more", ConfigError):
        from distributed import Client  # noqa: PLC0415 - an extra
    # Dask logs lost workers as errors; each module's logger has its own level
    for name in ("distributed", *logging.root.manager.loggerDict):
        if name.split(".")[0] == "distributed":
            logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        with Client(address, timeout=CONNECT_SECONDS, set_as_default=False) as client:
            _check_workers(client, address, file)

            def call_all(function: Callable[..., object], *given: object) -> None:
                with suppress(Exception):  # workers may be lost
                    client.run(function, *given)

            def has_workers() -> bool:
                return client.status != "running" or bool(client.nthreads())

            # a pure function's result is remembered: a shard's second crawl would not run
            yield Pool(client.get_executor(pure=False), call_all, _crawl_there, has_workers)
    except HacsError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split()) or "it did not answer"
        msg = f"the Dask cluster at {address} failed: {type(error).__name__}: {reason[:300]}"
        raise ClusterError(msg) from error


def run_crawl(
    run: str, arguments: Sequence[str], log: Path, is_wanted: Callable[[], bool] = lambda: True
) -> Result:
    """Run a crawl to its end; restart it if its process was killed, while it is wanted."""
    status = 1
    for _ in range(TRIES):
        if run in _asked_to_end or not is_wanted():
            return Result(0)
        try:
            process = _started(arguments, log)
        except (EOFError, ConnectionError):  # the server was killed, and is about to end
            time.sleep(LOOK_SECONDS)
            continue
        is_ending, stopped_seconds = False, 0.0
        while True:
            wait([process.sentinel], LOOK_SECONDS)
            with _status_lock:
                if not process.is_alive():
                    break
            # counted by polls: if this process is stopped, too, no time passes
            stopped_seconds = stopped_seconds + LOOK_SECONDS if _is_stopped(process) else 0.0
            if stopped_seconds >= STOPPED_SECONDS or _asked_to_end.get(run):
                process.kill()
            elif not is_ending and (run in _asked_to_end or not is_wanted()):
                is_ending = True  # a second signal would force Scrapy to stop
                process.terminate()
        if (status := process.exitcode or 0) >= 0:
            break
    return Result(status, _last_error(log) if status else "")


def _crawl_there(run: str, arguments: Sequence[str], log: Path) -> Result:
    """Run a crawl in a Dask worker, while the scheduler assigns it to this worker."""
    from distributed import get_worker  # noqa: PLC0415 - an extra

    worker = get_worker()
    key = worker.get_current_task()

    def is_wanted() -> bool:
        is_up, task = worker.status.name in {"running", "paused"}, worker.state.tasks.get(key)
        return is_up and task is not None and task.state == "executing"

    return run_crawl(run, arguments, log, is_wanted)


def end_crawls(run: str, at_once: bool) -> None:
    """End the crawls of a run that are children of this process."""
    _asked_to_end[run] = at_once


def _is_stopped(process: BaseProcess) -> bool:
    """Whether SIGSTOP has stopped a process; False on systems without /proc."""
    with suppress(OSError):
        return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].startswith(" T")
    return False


def _started(arguments: Sequence[str], log: Path) -> BaseProcess:
    log.parent.mkdir(parents=True, exist_ok=True)
    # a Dask worker with a nanny is a daemon, which Python forbids to have children
    multiprocessing.current_process()._config["daemon"] = False  # type: ignore[attr-defined]  # noqa: SLF001
    context = multiprocessing.get_context("forkserver")
    process = context.Process(target=_crawl, args=(arguments, log))
    with _status_lock:
        start_server()
        process.start()
    return process


def start_server(*, is_fork: bool = False) -> None:
    """Start the process whose forks run crawls, if it does not run yet.

    It is a new interpreter, which imports everything again, or a fork of this process, which then must
    not have an open state. If this process has other threads, it is not forked: locks that they hold
    would stay locked.
    """
    forkserver.set_forkserver_preload([_PRELOADED])
    # SIGTERM to the whole group would kill the server, and lose the exit statuses of its forks, so it
    # inherits a mask. The tracker has to run already: starting it would unblock the signal.
    resource_tracker.ensure_running()
    before, spawn = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM}), util.spawnv_passfds
    try:
        if is_fork and active_count() == 1:
            import_module(_PRELOADED)  # before the fork, so that this process has it, too
            util.spawnv_passfds = _fork
        forkserver.ensure_running()
    finally:
        util.spawnv_passfds = spawn
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _fork(path: bytes, args: Sequence[Any], passfds: Sequence[int]) -> int:  # noqa: ARG001
    """Stand in for `spawnv_passfds`: run the code of an interpreter's arguments in a fork."""
    if (pid := os.fork()) == 0:
        try:
            # among the others is the pipe whose closing tells the server to end
            for last, following in pairwise([2, *sorted(passfds), os.sysconf("SC_OPEN_MAX")]):
                os.closerange(last + 1, following)
            logging.root.handlers.clear()  # each crawl adds its own
            exec(args[-1])  # noqa: S102 - that of `multiprocessing`
        finally:
            os._exit(0)
    return pid


def _crawl(arguments: Sequence[str], log: Path) -> None:
    """Run `scrapy`, which ends this process with its exit status."""
    os.setsid()  # Ctrl-C is for the command, which ends the crawls
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
    """Return the last error in a log, or its last line if that is an error's."""
    lines = [line for line in log.read_text(errors="replace").splitlines()[-200:] if line.strip()]
    errors = [line for line in lines if " ERROR: " in line]
    errors = errors or [line for line in lines[-1:] if _ERROR.match(line)]
    return errors[-1][-300:] if errors else "its log has no error"


def _check_workers(client: "Client", address: str, file: Path | None) -> None:
    """Raise ClusterError if workers are missing, or have another version of the package."""
    # a task that a worker cannot unpickle would never end: Dask tries it again and again
    if not client.nthreads():
        try:  # with a task, as an adaptive cluster starts workers only for tasks
            client.submit(socket.gethostname, pure=False).result(WORKER_SECONDS)
        except TimeoutError as error:
            msg = f"the Dask cluster at {address} has had no worker for {WORKER_SECONDS:g} s"
            raise ClusterError(msg) from error
    try:
        own = version(_PACKAGE)
    except PackageNotFoundError:  # run from the sources
        return
    for worker, its_version in client.run(version, _PACKAGE, on_error="return").items():
        if its_version != own:
            is_missing = isinstance(its_version, Exception)
            has = "no hacs-crawler" if is_missing else f"hacs-crawler {its_version}"
            raise ClusterError(f"the Dask worker at {worker} has {has}: it needs {own}, as here")
    for worker, host in client.run(socket.gethostname).items() if file else ():
        if host != socket.gethostname():
            msg = f"HACS_STATE is {file}, of this machine only: the Dask worker at {worker} is on {host}"
            raise ConfigError(msg)

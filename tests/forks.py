"""`scrapy`, `hacs` and scripts as processes of their own that start at once.

Starting Python and importing Scrapy takes longer than most crawls of the tests. So one process imports
everything and runs nothing, and each command is a fork of it: with arguments, folder, environment and
standard streams of its own. One that fails ends as any other. One that does not does all that an
interpreter does at its end but free each object, which takes longer than a small crawl. Tests of the
start itself start a Python instead.
"""

import atexit
import gc
import io
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules, walk_packages
from typing import IO

from scrapy.exceptions import ScrapyDeprecationWarning

_STRICT = ("-W", "error::DeprecationWarning:hacs_crawler")
HANG_SECONDS = 900.0
"""A guard, and no measure: what takes longer hangs, however busy the machine is."""
_LONGEST_MESSAGE_BYTES = 1 << 17
_one_at_a_time = threading.Lock()
_OURS = ("addon", "cli", "middlewares", "crawl.scheduler", "parts", "settings", "spiders", "state")
_SCRAPYS = (
    *("cmdline", "commands", "core.downloader.handlers.http11", "crawler", "downloadermiddlewares"),
    *("dupefilters", "exporters", "extensions", "logformatter", "robotstxt", "shell"),
    *("spidermiddlewares", "squeues"),
)
_PRELOADED = (
    *(f"hacs_crawler.{name}" for name in _OURS),
    *("scipy.optimize", "scipy.special"),
    *(f"scrapy.{name}" for name in _SCRAPYS),
    *("surt", "twisted.internet.asyncioreactor"),
)
"""Modules, and packages with their modules."""


def wait_until(is_so: Callable[[], object], what: str = "it") -> None:
    """Return once something is so."""
    deadline = time.monotonic() + HANG_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, f"{what} never came"
        time.sleep(0.01)


def run(
    program: str,
    arguments: Sequence[str],
    folder: Path,
    given: bytes = b"",
    environment: Mapping[str, str] | None = None,
    timeout: float = HANG_SECONDS,
) -> subprocess.CompletedProcess[bytes]:
    """Run `scrapy`, `hacs` or `python SCRIPT` in a folder, with `given` on standard input, to its end.

    One that takes longer than the timeout is killed.
    """
    reading, writing = os.pipe()
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        streams = [reading, stdout.fileno(), stderr.fileno()]
        channel = _order(program, arguments, folder, environment, streams)
        os.close(reading)
        feeding = threading.Thread(target=_feed, args=(writing, given))
        feeding.start()
        ending = threading.Timer(timeout, os.kill, (int(channel.recv(99)), signal.SIGKILL))
        ending.start()
        with channel:
            status = int(channel.recv(99))
        ending.cancel()
        feeding.join()
        stdout.seek(0)
        stderr.seek(0)
        return subprocess.CompletedProcess(arguments, status, stdout.read(), stderr.read())


class Started:
    """A command that runs, with its standard error; as much of a `Popen` as tests need."""

    def __init__(self, waiter: socket.socket, stderr: IO[str]) -> None:
        self.stderr = stderr
        self.returncode: int | None = None
        self._waiter = waiter
        self._pid = int(waiter.recv(99))

    def poll(self) -> int | None:
        with suppress(TimeoutError):
            self._wait(1e-6)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self._pid, number)

    def communicate(self) -> str:
        """Wait for the end, and return what is left of standard error."""
        ending = threading.Timer(HANG_SECONDS, self.send_signal, (signal.SIGKILL,))
        ending.start()
        with self.stderr, self._waiter:
            rest = self.stderr.read()
            self._wait(None)
        ending.cancel()
        return rest

    def _wait(self, seconds: float | None) -> None:
        if self.returncode is None:
            self._waiter.settimeout(seconds)
            self.returncode = int(self._waiter.recv(99))


def start(
    program: str,
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str] | None = None,
) -> Started:
    """Begin to run what `run` runs, for a test that talks to it while it runs."""
    reading, writing = os.pipe()
    with Path(os.devnull).open("r+b") as nothing:
        streams = [nothing.fileno(), nothing.fileno(), writing]
        channel = _order(program, arguments, folder, environment, streams)
        os.close(writing)
    return Started(channel, os.fdopen(reading))


def _order(
    program: str,
    arguments: Sequence[str],
    folder: Path,
    environment: Mapping[str, str] | None,
    streams: Sequence[int],
) -> socket.socket:
    """Have a command run, and return where its pid and its status are sent."""
    order = {
        "arguments": [program, *arguments],
        "environment": dict(os.environ if environment is None else environment),
        "folder": str(folder),
    }
    with _one_at_a_time:
        requests = _parent()
    channel, its_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with its_end:
        socket.send_fds(requests, [json.dumps(order).encode()], [*streams, its_end.fileno()])
    return channel


def _feed(stream: int, given: bytes) -> None:
    with suppress(BrokenPipeError), os.fdopen(stream, "wb") as file:
        file.write(given)


@cache
def _parent() -> socket.socket:
    """Start the process that commands are forks of; it ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, *_STRICT, __file__, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def _serve(requests: socket.socket) -> None:
    """Fork whenever asked to, say the fork's pid and, when it has ended, its status.

    A fork between waits for the command. Returns in each command.
    """
    waiters: set[int] = set()
    while True:
        message, streams, _, _ = socket.recv_fds(requests, _LONGEST_MESSAGE_BYTES, 4)
        if not message:
            sys.exit()
        waiter = os.fork()
        if waiter:
            for stream in streams:
                os.close(stream)
            waiters.add(waiter)
            waiters.difference_update([one for one in waiters if os.waitpid(one, os.WNOHANG)[0]])
            continue
        channel = socket.socket(fileno=streams.pop())
        pid = os.fork()
        if not pid:
            channel.close()
            requests.close()
            _become(json.loads(message), streams)
            return
        for stream in streams:
            os.close(stream)
        channel.send(b"%d" % pid)
        channel.send(b"%d" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        os._exit(0)


def _become(order: Mapping[str, object], streams: Sequence[int]) -> None:
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["folder"])
    sys.argv[:] = order["arguments"]
    # a signal during a write to a buffer, as when a test has just read it, could not be logged
    sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), write_through=True)
    sys.path[0] = order["folder"]


def _run_script() -> None:
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")


def preload() -> None:
    """Import what crawls do, and fill caches that depend on nothing but the installation.

    Both take more of the CPU time of a small crawl than all else.
    """
    for name in _PRELOADED:
        modules = walk_packages if name.startswith("hacs_crawler") else iter_modules
        for module in modules(getattr(import_module(name), "__path__", ()), f"{name}."):
            import_module(module.name)
    import_module("scrapy.utils.versions").get_versions()
    import_module("surt").surt("http://example.edu/")


def _main() -> None:
    requests = socket.socket(fileno=int(sys.argv[1]))
    warnings.filterwarnings("ignore", category=ScrapyDeprecationWarning, module="scrapy|importlib")
    preload()
    assert "twisted.internet.reactor" not in sys.modules  # each command chooses its own
    programs: dict[str, Callable[[], None]] = {
        "hacs": import_module("hacs_crawler.cli.app").app,
        "python": _run_script,
        "scrapy": import_module("scrapy.cmdline").execute,
    }
    gc.freeze()
    _serve(requests)
    status = _status(programs[sys.argv[0]])
    threading._shutdown()
    atexit._run_exitfuncs()
    gc.collect()  # what was left open says so
    sys.stdout.flush()
    os._exit(status)


def _status(program: Callable[[], object]) -> int:
    try:
        program()
    except SystemExit as end:
        if not isinstance(end.code, int | None):
            raise
        return end.code or 0
    return 0


if __name__ == "__main__":
    _main()

"""Processes that a command starts, and ends whatever happens: none of them outlives it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import IO, Final, Self

from hacs_crawler.demo import clock
from hacs_crawler.exceptions import HacsError

SIGNALS: Final = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)
"""Windows has no SIGHUP."""
PATIENCE_SECONDS: Final = 5.0
"""How long processes have to end when they are told to, before they are killed."""
POLL_SECONDS: Final = 0.05
LAST_LINES: Final = 12
SCRAPY: Final = ("-m", "scrapy")
HACS: Final = ("-m", "hacs_crawler")


class Interruption(BaseException):
    """A signal has asked for an end; no error, so nothing that handles errors catches it."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_status = 128 + number


class EndSignals:
    """Signals that ask for an end, noted during a `with` block.

    They raise `Interruption` where `check` is called, and not in the middle of starting a process, which
    would be lost sight of, or of tidying up.
    """

    def __init__(self) -> None:
        self._noted = 0
        self._handlers: dict[int, Callable[[int, FrameType | None], object] | int | None] = {}

    def __enter__(self) -> Self:
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
                self._handlers[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def check(self) -> None:
        """Raise Interruption if a signal has come."""
        if self._noted:
            raise Interruption(self._noted)

    def _note(self, number: int, _: FrameType | None) -> None:
        self._noted = number


class Processes:
    """The processes of a `with` block, in a folder; at its end those that still run are ended.

    Each is in a session of its own, so that Ctrl-C in a terminal reaches the block alone.
    """

    def __init__(self, folder: Path, signals: EndSignals) -> None:
        self._folder = folder
        self._signals = signals
        self._running: dict[str, subprocess.Popen[str]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end_all()

    def run(self, name: str, *arguments: str) -> str:
        """Run Python with arguments to its end and return what it wrote to standard output.

        What it logs goes to the file `name`.log. Raises HacsError with the end of it where the process
        fails, or one that serves it has ended; Interruption.
        """
        self._signals.check()
        with self._output(f"{name}.out").open("w+", encoding="utf-8") as output:
            process = self._start(name, arguments, output, subprocess.DEVNULL)
            while process.poll() is None:
                self._signals.check()
                self._check_servers(name)
                time.sleep(POLL_SECONDS)
            del self._running[name]
            if process.returncode:
                raise self._failed(name, process.returncode)
            output.seek(0)
            return output.read()

    def serve(self, name: str, *arguments: str) -> str:
        """Start Python with arguments, to run until the block ends; return its first line of output.

        Its standard input ends when this process does, however that comes about. Raises HacsError,
        Interruption.
        """
        self._signals.check()
        process = self._start(name, arguments, subprocess.PIPE, subprocess.PIPE)
        assert process.stdout is not None  # noqa: S101 - a pipe
        line = process.stdout.readline()
        self._signals.check()
        if not line:
            raise self._failed(name, process.wait())
        return line

    def log(self, name: str) -> Path:
        """Return the file of what a process has logged."""
        return self._output(f"{name}.log")

    def last_lines(self, name: str) -> str:
        """Return the end of what a process has logged."""
        lines = self.log(name).read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(f"  {line}" for line in lines[-LAST_LINES:]) or "  (nothing)"

    def _output(self, name: str) -> Path:
        folder = self._folder / "logs"
        folder.mkdir(exist_ok=True)
        return folder / name

    def _start(
        self, name: str, arguments: Sequence[str], output: IO[str] | int, given: int
    ) -> subprocess.Popen[str]:
        with self.log(name).open("w", encoding="utf-8") as log:
            process = subprocess.Popen(  # noqa: S603 - Python itself, with arguments of this package
                [sys.executable, *arguments],
                cwd=self._folder,
                env=_environment(),
                stdin=given,
                stdout=output,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        self._running[name] = process
        return process

    def _check_servers(self, client: str) -> None:
        for name, process in self._running.items():
            if name != client and process.poll() is not None:
                raise self._failed(name, process.returncode)

    def _failed(self, name: str, status: int) -> HacsError:
        how = f"exit status {status}" if status >= 0 else signal.Signals(-status).name
        msg = f"{name} has failed ({how}); the end of its log:\n{self.last_lines(name)}"
        return HacsError(msg)

    def _end_all(self) -> None:
        for process in self._running.values():
            if process.stdin is not None:
                process.stdin.close()
            _end(process, "SIGTERM")
        until = time.monotonic() + PATIENCE_SECONDS
        for process in self._running.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, until - time.monotonic()))
            _end(process, "SIGKILL")
            process.wait()
            if process.stdout is not None:
                process.stdout.close()
        self._running.clear()


def _environment() -> dict[str, str]:
    """Return the environment without what would make another project of the folder's."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SCRAPY_")}
    kept.pop(clock.VARIABLE, None)
    return kept


def _end(process: subprocess.Popen[str], name: str) -> None:
    """Send a signal to a process and to all that it has started; Windows can but end the process."""
    if not hasattr(os, "killpg"):
        process.terminate()
        return
    try:
        os.killpg(process.pid, getattr(signal, name))
    except (ProcessLookupError, PermissionError):  # ended; macOS says the latter of zombies
        process.poll()

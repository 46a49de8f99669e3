"""Forks of a process that has imported everything, and whose clock runs fast."""

import gc
import os
import signal
import subprocess
import sys
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

SERVER = "from fuzz import clock; clock.run_fast(); from fuzz import forked; forked.serve({}, {!r})"


class Forks:
    """Starts forks, one at a time, each of which calls `play` of a module."""

    longest_seconds = 180.0
    """A guard, and no measure: most take less than a second, some a minute where machines are busy."""

    def __init__(self, module: str, folder: Path | None = None) -> None:
        self.pid = 0
        self._orders, theirs = Pipe()
        with theirs:
            self._server = subprocess.Popen(
                [sys.executable, "-c", SERVER.format(theirs.fileno(), module)],
                env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
                pass_fds=[theirs.fileno()],
                cwd=folder,
            )

    def begin(self, *order: object) -> None:
        """Start one; the order is what `play` is called with."""
        self._orders.send(order)
        self.pid = self._orders.recv()

    def is_running(self) -> bool:
        return not self._orders.poll()

    def signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def end(self) -> int | None:
        """Wait for the fork's end and return its status, None where it had to be killed."""
        if not (has_ended := self._orders.poll(self.longest_seconds)):
            self.signal(signal.SIGKILL)
        status: int = self._orders.recv()
        return status if has_ended else None

    def close(self) -> None:
        self._orders.close()
        self._server.wait()


def serve(connection: int, module: str) -> None:
    """Fork at each order; tell the pid, and the status when the fork has ended."""
    play = import_module(module).play
    import_module("forks").preload()  # no part of what is checked for types
    gc.freeze()
    orders: Any = Connection(connection)
    with suppress(EOFError):
        while True:
            order = orders.recv()
            if not (pid := os.fork()):
                orders.close()
                sys.exit(play(*order))
            orders.send(pid)
            orders.send(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

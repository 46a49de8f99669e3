"""Dask clusters of processes of this machine."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from distributed import LocalCluster

from servers import free_port

_KILLING = """
import os, signal
from hacs_crawler.ranking import parts
def killing(*given): os.kill({pid}, signal.SIGKILL)
parts.finalists_of_pieces = killing
"""


@contextmanager
def two_workers() -> Iterator[str]:
    """Yield the address of the scheduler of a cluster of two processes."""
    with LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=50
    ) as local:
        yield str(local.scheduler_address)


@contextmanager
def killed_while_ranking(folder: Path) -> Iterator[str]:
    """Yield the address of a scheduler that its worker kills when it is to rank pages."""
    place = f"127.0.0.1:{free_port()}"
    host, port = place.split(":")
    run = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard"]
    work = [sys.executable, "-m", "distributed.cli.dask_worker", "--no-dashboard", "--no-nanny"]
    quiet: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with ExitStack() as stack:
        head = subprocess.Popen([*run, "--host", host, "--port", port], cwd=folder, **quiet)
        stack.callback(head.wait)
        stack.callback(head.kill)
        preload = folder / "killing.py"
        preload.write_text(_KILLING.format(pid=head.pid))
        hand = subprocess.Popen(
            [*work, "--nthreads", "1", "--preload", str(preload), f"tcp://{place}"],
            cwd=folder,
            **quiet,
        )
        stack.callback(hand.wait)
        stack.callback(hand.kill)
        yield place

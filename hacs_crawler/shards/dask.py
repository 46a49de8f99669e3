"""The workers of a Dask cluster, which gives the crawls of a lost worker to another worker."""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Final

from hacs_crawler.exceptions import ClusterError, ConfigError, HacsError
from hacs_crawler.shards.engine import Order, Pool, Result, run_crawl

if TYPE_CHECKING:
    from distributed import Client

# How long a scheduler may take to answer.
CONNECT_SECONDS: Final = 15.0
# How long a cluster without any worker may take to start one.
WORKER_SECONDS: Final = 60.0
_PACKAGE: Final = "hacs-crawler"
_ADDRESS = re.compile(r"(?:(?:tcp|tls|ws|wss)://)?(?:\[[0-9a-fA-F:.]+\]|[\w.-]+):\d{1,5}")


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
            yield Pool(client.get_executor(), client.run, _crawl_there)
    except HacsError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split()) or "it did not answer"
        msg = f"the Dask cluster at {address} failed: {type(error).__name__}: {reason[:300]}"
        raise ClusterError(msg) from error


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

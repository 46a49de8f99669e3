"""Connecting to a Dask cluster, and what is said where that fails."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Final

from hacs_crawler.cluster.tasks import Cluster
from hacs_crawler.exceptions import ClusterError, ConfigError, HacsError

if TYPE_CHECKING:
    from distributed import Client

LOCAL: Final = "local"
CONNECT_SECONDS: Final = 15.0
"""How long a scheduler may take to answer."""
WORKER_SECONDS: Final = 60.0
"""How long a cluster without any worker may take to start one."""
_PACKAGE: Final = "hacs-crawler"
_ADDRESS = re.compile(r"(?:(?:tcp|tls|ws|wss)://)?(?:\[[0-9a-fA-F:.]+\]|[\w.-]+):\d{1,5}")


def check_cluster(address: str) -> None:
    """Raise ConfigError where it is neither HOST:PORT, which may have a protocol, nor "local"."""
    if address != LOCAL and not _ADDRESS.fullmatch(address):
        msg = f"Dask cluster {address!r}: allowed is the scheduler's HOST:PORT, or {LOCAL}"
        raise ConfigError(msg)


@contextmanager
def connected(address: str) -> Iterator[Cluster]:
    """Connect to the scheduler at an address; for "local" start a process for each core of this machine.

    Whatever Dask raises in the block comes out as ClusterError, in one line. Raises ConfigError where
    the address is none, or Dask is not installed.
    """
    check_cluster(address)
    try:
        from distributed import Client, LocalCluster  # noqa: PLC0415 - an extra
    except ImportError as error:
        msg = f"a Dask cluster is asked for: pip install 'hacs-crawler[dask]' ({error})"
        raise ConfigError(msg) from error
    with ExitStack() as stack:
        stack.enter_context(_quiet())
        stack.enter_context(_in_a_line(address))
        scheduler: str | LocalCluster = address
        if address == LOCAL:
            scheduler = stack.enter_context(
                LocalCluster(
                    threads_per_worker=1,
                    dashboard_address="127.0.0.1:0",
                    silence_logs=logging.CRITICAL,
                )
            )
        client = Client(scheduler, timeout=CONNECT_SECONDS, set_as_default=False)
        stack.enter_context(client)
        if address == LOCAL:
            client.run(os.setpgrp)  # Ctrl-C is for this process, which sees to what they do
        _check_workers(client, address)
        yield Cluster(client)


def _check_workers(client: Client, address: str) -> None:
    """Raise ClusterError where there is no worker, or one has not this version of the package.

    A task that a worker cannot read is never over: Dask has it read again and again.
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
    for worker, found in client.run(version, _PACKAGE, on_error="return").items():
        if found != own:
            has = "no hacs-crawler" if isinstance(found, Exception) else f"hacs-crawler {found}"
            msg = f"the Dask worker at {worker} has {has}: {own} is needed there, as it is here"
            raise ClusterError(msg)


@contextmanager
def _in_a_line(address: str) -> Iterator[None]:
    try:
        yield
    except HacsError:
        raise
    except Exception as error:
        reason = " ".join(str(error).split()) or "it did not answer"
        msg = f"the Dask cluster at {address} failed: {type(error).__name__}: {reason[:300]}"
        raise ClusterError(msg) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Dask's own log to errors that end the work: a worker that is lost is no news here."""
    # each of its modules' loggers has a level of its own
    names = [name for name in logging.root.manager.loggerDict if name.startswith("distributed.")]
    loggers = [logging.getLogger(name) for name in ("distributed", *names)]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)

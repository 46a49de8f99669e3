"""Dask clusters of processes of this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from distributed import LocalCluster


@contextmanager
def two_workers() -> Iterator[str]:
    """Yield the address of the scheduler of a cluster of two processes."""
    with LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=50
    ) as local:
        yield str(local.scheduler_address)

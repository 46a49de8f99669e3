"""A Dask cluster of two processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from distributed import LocalCluster


@contextmanager
def two_workers() -> Iterator[str]:
    """Yield the address of its scheduler."""
    with LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50
    ) as local:
        yield str(local.scheduler_address)

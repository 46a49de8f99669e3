"""`--dask`: work on a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from hacs_crawler.cluster import HERE, Workers, connected

Dask = Annotated[
    str | None,
    typer.Option(help="a Dask cluster does it: its scheduler's HOST:PORT, or local"),
]


@contextmanager
def workers_of(dask: str | None) -> Iterator[Workers]:
    """Connect to the cluster that `--dask` names; without it this process does the work."""
    if dask is None:
        yield HERE
        return
    with connected(dask) as cluster:
        yield cluster

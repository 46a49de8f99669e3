"""`--dask`: work on a Dask cluster."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Annotated

import typer

from hacs_crawler.cluster import HERE, Workers, connected

Dask = Annotated[
    str | None,
    typer.Option(help="a Dask cluster does it: its scheduler's HOST:PORT, or local"),
]


def workers_of(dask: str | None) -> AbstractContextManager[Workers]:
    """Connect to the cluster that `--dask` names; without it this process does the work."""
    return nullcontext(HERE) if dask is None else connected(dask)

"""`--dask`: work on a Dask cluster."""

from __future__ import annotations

from typing import Annotated

import typer

Dask = Annotated[
    str | None,
    typer.Option(help="run it on a Dask cluster: its scheduler's HOST:PORT, or local"),
]

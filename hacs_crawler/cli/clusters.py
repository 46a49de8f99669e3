"""`--dask`: work on a Dask cluster."""

from __future__ import annotations

from typing import Annotated

import typer

Dask = Annotated[
    str | None,
    typer.Option(help="a Dask cluster does it: its scheduler's HOST:PORT, or local"),
]

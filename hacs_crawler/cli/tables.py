"""Rows as files: what `--csv` and `--parquet` write."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hacs_crawler.analysis import Table
from hacs_crawler.exceptions import HacsError
from hacs_crawler.utils.text import printable

Csv = Annotated[
    Path | None, typer.Option("--csv", help="a file for the rows as CSV; - for standard output")
]
Parquet = Annotated[Path | None, typer.Option("--parquet", help="a file for the rows as Parquet")]


def check_targets(csv: Path | None, parquet: Path | None) -> None:
    """Raise HacsError where a file that was asked for cannot be one, before the work is done."""
    for target, option in ((csv, "--csv"), (parquet, "--parquet")):
        if target not in {None, Path("-")} and (target.is_dir() or not target.parent.is_dir()):
            raise HacsError(f"{option} {target}: allowed is a file in a folder that exists")


def write_rows(rows: Table, csv: Path | None, parquet: Path | None) -> bool:
    """Write rows to the files that were asked for; return whether there was one. Raises HacsError."""
    check_targets(csv, parquet)
    if csv == Path("-"):
        for line in rows.csv_text().splitlines():
            typer.echo(printable(line))
    elif csv is not None:
        rows.to_csv(csv)
    if parquet is not None:
        rows.to_parquet(parquet)
    return csv is not None or parquet is not None

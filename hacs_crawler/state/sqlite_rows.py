"""Ranking rows of SQLite as columns: joined by SQLite itself, without a Python object of each."""

from __future__ import annotations

import sqlite3

import numpy as np

from hacs_crawler.state.codec import ROW
from hacs_crawler.state.store import Ids, Rows


def end_of_batch(db: sqlite3.Connection, table: str, first: int, last: int, size: int) -> int:
    """Return the id of the row that is the last of a batch of ids from `first` to `last`."""
    query = f"SELECT id FROM {table} WHERE id BETWEEN ? AND ? ORDER BY id LIMIT 1 OFFSET ?"  # noqa: S608
    found = db.execute(query, (first, last, size - 1)).fetchone()
    return last if found is None else int(found[0])


def joined_rows(
    db: sqlite3.Connection, table: str, first: int, last: int
) -> tuple[Ids, Rows] | None:
    """Return the rows with ids from `first` to `last`, by id; None where one has another size.

    Takes half the time of fetching them one by one. Bytes that are cast to text and back are the same
    only where the database's encoding is UTF-8, as it is unless another program made the file; where it
    is not, None is returned, too.
    """
    if db.execute("PRAGMA encoding").fetchone() != ("UTF-8",):
        return None
    query = (
        "SELECT group_concat(id), CAST(group_concat(row, '') AS BLOB), min(length(row)), "  # noqa: S608
        f"max(length(row)) FROM {table} WHERE id BETWEEN ? AND ?"
    )
    ids, rows, *sizes = db.execute(query, (first, last)).fetchone()
    if ids is None:
        return np.zeros(0, np.int64), np.zeros(0, ROW)
    found = np.fromstring(ids, np.int64, sep=",")
    if sizes != [ROW.itemsize] * 2 or len(rows) != len(found) * ROW.itemsize:
        return None
    return found, np.frombuffer(rows, ROW)

"""Ranking rows of SQLite as columns: joined by SQLite itself, without a Python object of each."""

from __future__ import annotations

import sqlite3

import numpy as np

from hacs_crawler.state.codec import ROW
from hacs_crawler.state.store import Ids, Rows


def joined_rows(
    db: sqlite3.Connection, table: str, first: int, last: int, most: int
) -> tuple[Ids, Rows] | None:
    """Return the first `most` rows with ids from `first` to `last`, by id; None where one is damaged.

    Half the time of fetching them one by one. Bytes that are cast to text and back are the same only
    where the database's encoding is UTF-8, which it is unless another program made the file; where it
    is not, None is returned, too.
    """
    if db.execute("PRAGMA encoding").fetchone() != ("UTF-8",):
        return None
    size = ROW.itemsize
    query = (
        "SELECT count(*), sum(typeof(row) = 'blob' AND length(row) = ?), group_concat(id), "  # noqa: S608
        "CAST(group_concat(row, '') AS BLOB) "
        f"FROM (SELECT id, row FROM {table} WHERE id BETWEEN ? AND ? ORDER BY id LIMIT ?)"
    )
    number, sound, ids, rows = db.execute(query, (size, first, last, most)).fetchone()
    if not number:
        return np.zeros(0, np.int64), np.zeros(0, ROW)
    if number != sound or len(rows) != number * size:
        return None
    return np.fromstring(ids, np.int64, sep=","), np.frombuffer(rows, ROW)

"""Ranking rows of SQLite as columns: joined by SQLite itself, without a Python object of each.

SQLite lets other threads compute while it reads, so that several connections read at once.
"""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from itertools import chain
from pathlib import Path
from queue import SimpleQueue
from typing import Final, NamedTuple

import numpy as np

from hacs_crawler.state.codec import ROW
from hacs_crawler.state.store import Ids, Rows

READERS: Final = 2
"""So many connections read at once; on two cores three take as long."""
_AHEAD: Final = 4
"""So many batches are read before they are asked for, or being read."""


class Batch(NamedTuple):
    """The rows with ids from `first` to `last`, by id; None where they cannot be joined."""

    first: int
    last: int
    joined: tuple[Ids, Rows] | None


def joined_batches(
    db: sqlite3.Connection, file: Path | None, table: str, first: int, last: int, size: int
) -> Generator[Batch]:
    """Yield the rows with ids from `first` to `last`, in batches of that size, by id.

    Where there are several, they are read by connections of their own to the file, if it is given.
    """
    ranges = _ranges(db, table, first, last, size)
    foremost = next(ranges, None)
    if foremost is None:
        return
    if file is None or foremost[1] == last:
        for one in chain([foremost], ranges):
            yield Batch(*one, joined_rows(db, table, *one))
        return
    waiting: deque[tuple[int, int, Future[tuple[Ids, Rows] | None]]] = deque()
    with _readers(file, table) as read:
        for start, end in chain([foremost], ranges):
            waiting.append((start, end, read(start, end)))
            if len(waiting) == _AHEAD:
                yield _read(*waiting.popleft())
        while waiting:
            yield _read(*waiting.popleft())


def _ranges(
    db: sqlite3.Connection, table: str, first: int, last: int, size: int
) -> Iterator[tuple[int, int]]:
    """Yield the first and the last id of each batch."""
    while first <= last:
        end = end_of_batch(db, table, first, last, size)
        yield first, end
        first = end + 1


def _read(first: int, last: int, joined: Future[tuple[Ids, Rows] | None]) -> Batch:
    return Batch(first, last, joined.result())


@contextmanager
def _readers(
    file: Path, table: str
) -> Iterator[Callable[[int, int], Future[tuple[Ids, Rows] | None]]]:
    """Open connections that read ranges of ids in threads."""
    # read-only: a file that is gone is not made anew
    address = f"{file.absolute().as_uri()}?mode=ro"
    idle: SimpleQueue[sqlite3.Connection] = SimpleQueue()

    def joined(first: int, last: int) -> tuple[Ids, Rows] | None:
        db = idle.get()
        try:
            return joined_rows(db, table, first, last)
        finally:
            idle.put(db)

    with ExitStack() as stack:
        for _ in range(READERS):
            db = sqlite3.connect(address, uri=True, isolation_level=None, check_same_thread=False)
            idle.put(stack.enter_context(closing(db)))
        pool = stack.enter_context(ThreadPoolExecutor(READERS))
        try:
            yield lambda first, last: pool.submit(joined, first, last)
        finally:
            pool.shutdown(cancel_futures=True)


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
        "SELECT group_concat(id), CAST(group_concat(row, '') AS BLOB), sum(length(row) <> ?) "  # noqa: S608
        f"FROM {table} WHERE id BETWEEN ? AND ?"
    )
    ids, rows, others = db.execute(query, (ROW.itemsize, first, last)).fetchone()
    if ids is None:
        return np.zeros(0, np.int64), np.zeros(0, ROW)
    found = np.fromstring(ids, np.int64, sep=",")
    if others or len(rows) != len(found) * ROW.itemsize:
        return None
    return found, np.frombuffer(rows, ROW)

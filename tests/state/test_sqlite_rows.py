"""Ranking rows that SQLite joins are those that it gives one by one."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from hacs_crawler.exceptions import StateError
from hacs_crawler.state import sqlite, sqlite_file
from hacs_crawler.state.codec import ROW
from hacs_crawler.state.sqlite import SQLiteStore
from hacs_crawler.state.sqlite_file import end_of_batch, joined_rows
from hacs_crawler.state.store import Store

EVERY = -(2**63), 2**63 - 1
TABLE = '"rows"'


@pytest.fixture(params=["UTF-8", "UTF-16le"])
def db(request: pytest.FixtureRequest) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:")) as found:
        found.execute(f"PRAGMA encoding = '{request.param}'")
        found.execute(f"CREATE TABLE {TABLE} (id INTEGER PRIMARY KEY, row BLOB NOT NULL)")
        yield found


def insert(db: sqlite3.Connection, ids: list[int], rows: list[bytes]) -> None:
    db.executemany(f"INSERT INTO {TABLE} VALUES (?, ?)", zip(ids, rows, strict=True))


def test_rows_of_any_bytes_come_joined_by_id_where_that_is_safe(db: sqlite3.Connection) -> None:
    rng = np.random.default_rng(1)
    ids = [*EVERY, 0, *rng.integers(*EVERY, 200).tolist()]
    rows = [rng.bytes(ROW.itemsize) for _ in ids]
    rows[:2] = bytes(ROW.itemsize), b"\xff" * ROW.itemsize
    insert(db, ids, rows)
    found = joined_rows(db, TABLE, *EVERY)
    if db.execute("PRAGMA encoding").fetchone() != ("UTF-8",):
        assert found is None
        return
    assert found is not None
    wanted = sorted(zip(ids, rows, strict=True))
    assert found[0].tolist() == [one for one, _ in wanted]
    assert found[1].tobytes() == b"".join(row for _, row in wanted)


def test_rows_of_other_sizes_are_not_joined_even_where_their_sum_is_right() -> None:
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute(f"CREATE TABLE {TABLE} (id INTEGER PRIMARY KEY, row BLOB NOT NULL)")
        insert(db, [1, 2, 3], [bytes(ROW.itemsize + more) for more in (0, -1, 1)])
        assert joined_rows(db, TABLE, *EVERY) is None
        found = joined_rows(db, TABLE, 1, 1)
        assert found is not None
        assert found[0].tolist() == [1]


def test_a_batch_ends_where_it_is_full_or_the_range_does() -> None:
    with closing(sqlite3.connect(":memory:")) as db:
        db.execute(f"CREATE TABLE {TABLE} (id INTEGER PRIMARY KEY, row BLOB NOT NULL)")
        insert(db, [1, 5, 7, 9], [b""] * 4)
        assert [end_of_batch(db, TABLE, 2, 99, size) for size in (1, 2, 3, 4)] == [5, 7, 9, 99]


STATE_FILE = "a state? 100 % #1.db"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """A state of twenty pages, in seven batches."""
    monkeypatch.setattr(sqlite, "_ROW_BATCH", 3)
    with closing(SQLiteStore(tmp_path / STATE_FILE, "hacs")) as found:
        change(
            tmp_path,
            'INSERT INTO "hacs.rows" VALUES (?, ?)',
            *((one * 7, bytes(ROW.itemsize)) for one in range(-10, 10)),
        )
        yield found


def change(folder: Path, query: str, *rows: tuple[object, ...]) -> None:
    with closing(sqlite3.connect(folder / STATE_FILE)) as db, db:
        db.executemany(query, rows or [()])


def read(store: Store) -> list[tuple[list[int], bytes]]:
    return [(ids.tolist(), rows.tobytes()) for ids, rows in store.all_rows()]


def test_a_state_reads_the_same_whether_rows_are_joined_or_not(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    joined = read(store)
    monkeypatch.setattr(sqlite_file, "joined_rows", lambda *_: None)
    assert read(store) == joined
    assert [len(ids) for ids, _ in joined] == [3] * 6 + [2]
    assert [one for ids, _ in joined for one in ids] == [one * 7 for one in range(-10, 10)]


def test_several_batches_are_read_at_once_and_come_in_their_order(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers, together, real = set(), threading.Barrier(2, timeout=30), sqlite_file.joined_rows

    def meeting(db: sqlite3.Connection, table: str, first: int, last: int) -> object:
        readers.add(db)
        if first < -50:  # the first two batches wait for each other
            together.wait()
        return real(db, table, first, last)

    whole = read(store)
    monkeypatch.setattr(sqlite_file, "joined_rows", meeting)
    assert read(store) == whole
    assert len(readers) == 2


def test_a_damaged_row_is_made_anew_whatever_its_batch(store: Store, tmp_path: Path) -> None:
    whole = read(store)
    change(tmp_path, 'UPDATE "hacs.rows" SET row = ? WHERE id = ?', (b"short", 7))
    assert read(store) == whole


def test_a_table_that_goes_while_it_is_read_is_one_clear_error(
    store: Store, tmp_path: Path
) -> None:
    batches = store.all_rows()
    next(batches)
    change(tmp_path, 'DROP TABLE "hacs.rows"')
    with pytest.raises(StateError, match=r"cannot read the state in .*: no such table"):
        list(batches)


def test_nothing_is_left_open_where_reading_is_given_up(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, real = [], sqlite3.connect
    monkeypatch.setattr(
        sqlite3, "connect", lambda *a, **k: opened.append(real(*a, **k)) or opened[-1]
    )
    before = threading.active_count()
    batches = store.all_rows()
    next(batches)
    batches.close()
    assert threading.active_count() == before
    assert len(opened) == 2
    for one in opened:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            one.execute("SELECT 1")


def test_a_state_whose_file_was_removed_is_read_as_long_as_it_is_open(
    store: Store, tmp_path: Path
) -> None:
    whole = read(store)
    for file in tmp_path.iterdir():
        file.unlink()
    assert read(store) == whole
    assert list(tmp_path.iterdir()) == []

"""Ranking rows that SQLite joins are those that it gives one by one."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from hacs_crawler.state import sqlite
from hacs_crawler.state.address import open_store
from hacs_crawler.state.codec import ROW
from hacs_crawler.state.sqlite_rows import end_of_batch, joined_rows

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


def test_a_state_reads_the_same_whether_rows_are_joined_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "_ROW_BATCH", 3)
    with closing(open_store(f"sqlite:///{tmp_path}/state.db", "hacs", Path())) as store:
        with closing(sqlite3.connect(tmp_path / "state.db")) as db, db:
            for one in range(-10, 10):
                db.execute('INSERT INTO "hacs.rows" VALUES (?, ?)', (one * 7, bytes(ROW.itemsize)))
        joined = [(ids.tolist(), rows.tobytes()) for ids, rows in store.all_rows()]
        monkeypatch.setattr(sqlite, "joined_rows", lambda *_: None)
        assert [(ids.tolist(), rows.tobytes()) for ids, rows in store.all_rows()] == joined
        assert sum(len(ids) for ids, _ in joined) == 20

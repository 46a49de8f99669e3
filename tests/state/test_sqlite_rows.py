"""Ranking rows that SQLite joins are those that it gives one by one."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from hacs_crawler.exceptions import StateError
from hacs_crawler.state import ROW, Store, sqlite
from hacs_crawler.state.sqlite import SQLiteStore

STATE_FILE = "a state? 100 % #1.db"
IDS = [-(2**63), *(7 * number for number in range(-10, 10)), 2**63 - 1]


def sound_row(number: int) -> bytes:
    row = np.zeros(1, ROW)
    row["rate"], row["last_visit"], row["site"] = 0.1, 2**32 - 1, number * 0x01FE00FF % 2**32
    return row.tobytes()


@pytest.fixture(params=["UTF-8", "UTF-16le"])
def store(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Store]:
    """A state of 22 pages, in eight batches; SQLite joins rows in the first encoding only."""
    monkeypatch.setattr(sqlite, "_ROW_BATCH", 3)
    change(tmp_path, f"PRAGMA encoding = '{request.param}'")
    with closing(SQLiteStore(tmp_path / STATE_FILE, "hacs")) as found:
        rows = [(page_id, sound_row(number)) for number, page_id in enumerate(IDS)]
        change(tmp_path, 'INSERT INTO "hacs.rows" VALUES (?, ?)', *rows)
        yield found


def change(folder: Path, query: str, *rows: tuple[object, ...]) -> None:
    with closing(sqlite3.connect(folder / STATE_FILE)) as db, db:
        if query.startswith("PRAGMA"):
            db.execute(query)
            db.execute("VACUUM")  # makes the file, with its encoding
        else:
            db.executemany(query, rows or [()])


def read(store: Store) -> list[tuple[list[int], bytes]]:
    return [(ids.tolist(), rows.tobytes()) for ids, rows in store.all_rows()]


def test_rows_come_by_id_in_batches_with_their_bytes(store: Store) -> None:
    found = read(store)
    assert [page_id for ids, _ in found for page_id in ids] == IDS
    assert [len(ids) for ids, _ in found] == [3] * 7 + [1]
    assert b"".join(rows for _, rows in found) == b"".join(map(sound_row, range(len(IDS))))


@pytest.mark.parametrize(
    "damage",
    [{7: 5}, {7: ROW.itemsize - 1, 14: ROW.itemsize + 1}],
    ids=["short", "of the right size together"],
)
def test_damaged_rows_are_made_again_whatever_their_batch(
    damage: dict[int, int], store: Store, tmp_path: Path
) -> None:
    sizes = [(bytes(size), page_id) for page_id, size in damage.items()]
    change(tmp_path, 'UPDATE "hacs.rows" SET row = ? WHERE id = ?', *sizes)
    whole = [sound_row(number) for number in range(len(IDS))]
    for page_id in damage:  # no page has that id
        whole[IDS.index(page_id)] = bytes(ROW.itemsize)
    assert b"".join(rows for _, rows in read(store)) == b"".join(whole)


def test_a_table_that_goes_while_it_is_read_is_one_clear_error(
    store: Store, tmp_path: Path
) -> None:
    batches = store.all_rows()
    next(batches)
    change(tmp_path, 'DROP TABLE "hacs.rows"')
    with pytest.raises(StateError, match=r"cannot read the state in .*: no such table"):
        list(batches)


def test_a_state_whose_file_was_removed_is_read_as_long_as_it_is_open(
    store: Store, tmp_path: Path
) -> None:
    whole = read(store)
    for file in tmp_path.iterdir():
        file.unlink()
    assert read(store) == whole
    assert list(tmp_path.iterdir()) == []

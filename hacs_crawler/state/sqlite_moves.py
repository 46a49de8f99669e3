"""Moves the pages of an older SQLite state to where they belong (`state.moves`), in its transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterator
from itertools import groupby
from operator import itemgetter

from hacs_crawler.exceptions import StateError
from hacs_crawler.state.codec import encode_page, encode_row
from hacs_crawler.state.moves import LEFT, id_of, joined, with_page
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

_PAGES_A_CALL = 1_000


def move_pages(db: sqlite3.Connection, namespace: str, tables: Collection[str]) -> int:
    """Move the pages of a namespace and their outcome records; return how many belonged elsewhere.

    `tables` are those of the file. To be called in a transaction that writes.
    """
    pages, rows, outcomes = (f'"{namespace}.{kind}"' for kind in ("pages", "rows", "outcomes"))
    # Beside the state, as they may be many; all are taken out before the first is put back, since
    # one may belong where another one is.
    db.execute("CREATE TEMP TABLE moved (old INTEGER PRIMARY KEY, new INTEGER, body BLOB)")
    for batch in _misplaced(db, pages):
        db.executemany("INSERT INTO temp.moved VALUES (?, ?, ?)", batch)
    (number,) = db.execute("SELECT count(*) FROM temp.moved").fetchone()
    if number:
        for table in (pages, rows):
            db.execute(f"DELETE FROM {table} WHERE id IN (SELECT old FROM temp.moved)")  # noqa: S608
        _put_back(db, namespace)
        if f"{namespace}.outcomes" in tables:
            _move_outcomes(db, outcomes)
        # how far a run had come that estimates all pages is a place among their ids
        db.execute(f"DELETE FROM \"{namespace}.meta\" WHERE key = 'estimate'")  # noqa: S608
    db.execute("DROP TABLE temp.moved")
    return int(number)


def _misplaced(db: sqlite3.Connection, pages: str) -> Iterator[list[tuple[int, int, bytes]]]:
    found = db.execute(f"SELECT id, CAST(body AS BLOB) FROM {pages}")  # noqa: S608
    while batch := found.fetchmany(_PAGES_A_CALL):
        placed = [(page_id, id_of(page_id, body), body) for page_id, body in batch]
        yield [one for one in placed if one[0] != one[1]]


def _put_back(db: sqlite3.Connection, namespace: str) -> None:
    pages, rows = f'"{namespace}.pages"', f'"{namespace}.rows"'
    moved = db.execute("SELECT new, old, body FROM temp.moved ORDER BY new, old")
    for new, group in groupby(moved, itemgetter(0)):
        found = [(old, body) for _, old, body in group]
        query = f"SELECT CAST(body AS BLOB) FROM {pages} WHERE id = ?"  # noqa: S608
        present = [body for (body,) in db.execute(query, (new,))]
        try:
            page = joined([*present, *(body for _, body in found)])
        except StateError:
            for old, body in found:
                logger.error(LEFT, old, namespace)
                page = joined([body])
                _insert(db, pages, rows, (old, page.version, body, encode_row(page)))
            continue
        page.version += 1
        _insert(db, pages, rows, (new, page.version, encode_page(page), encode_row(page)))


def _insert(
    db: sqlite3.Connection, pages: str, rows: str, page: tuple[int, int, bytes, bytes]
) -> None:
    page_id, version, body, row = page
    db.execute(f"INSERT OR REPLACE INTO {pages} VALUES (?, ?, ?)", (page_id, version, body))  # noqa: S608
    db.execute(f"INSERT OR REPLACE INTO {rows} VALUES (?, ?)", (page_id, row))  # noqa: S608


def _move_outcomes(db: sqlite3.Connection, outcomes: str) -> None:
    db.create_function("hacs_with_page", 2, with_page, deterministic=True)
    db.execute(
        f"CREATE TEMP TABLE moved_outcomes AS SELECT at, new AS page, "  # noqa: S608
        f"hacs_with_page(CAST(outcome AS BLOB), new) AS outcome "
        f"FROM {outcomes} JOIN temp.moved ON old = page"
    )
    db.execute(f"DELETE FROM {outcomes} WHERE page IN (SELECT old FROM temp.moved)")  # noqa: S608
    db.execute(
        f"INSERT OR IGNORE INTO {outcomes} SELECT at, page, outcome FROM temp.moved_outcomes"  # noqa: S608
    )
    db.execute("DROP TABLE temp.moved_outcomes")

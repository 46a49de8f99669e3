"""What all that is kept in the state's SQLite file has in common."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from hacs_crawler.exceptions import StateError, StateUnavailableError

BUSY_SECONDS = 10.0
"""How long a writer waits for another."""
APPLICATION_ID: Final = int.from_bytes(b"HACS")
_PASSING = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_FULL", "SQLITE_IOERR")


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Begin a transaction that writes, and commit it, or roll it back at an exception."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise


@contextmanager
def naming_errors(action: str, what: str) -> Iterator[None]:
    """Turn what SQLite and the file system raise into errors: cannot `action` `what`, and why."""
    try:
        yield
    except sqlite3.OperationalError as error:
        msg = f"cannot {action} {what}: {error}"
        if getattr(error, "sqlite_errorname", "").startswith(_PASSING):
            raise StateUnavailableError(msg) from error
        raise StateError(msg) from error
    except (sqlite3.Error, OSError, ValueError, TypeError) as error:
        msg = f"cannot {action} {what}: {error}"
        raise StateError(msg) from error

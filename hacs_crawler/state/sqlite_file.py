"""The SQLite file of a state: a checked connection whose errors name the file."""

import errno
import random
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile
from typing import Final

from hacs_crawler.exceptions import StateError, StateUnavailableError
from hacs_crawler.state.store import SCHEMA, check_schema, refuse_other

# How long a writer waits for another.
BUSY_SECONDS = 10.0
# Free disk space required to open a state for writing: enough for some hundred pages.
ROOM_BYTES: Final = 1_000_000
# Not a file: a database in memory.
MEMORY: Final = Path(":memory:")
APPLICATION_ID: Final = int.from_bytes(b"hacs")
# What SQLite's own words do not say: the index of the write-ahead log has no room, or no place.
_REASONS: Final = {
    "SQLITE_IOERR_SHMSIZE": "its disk is full",
    "SQLITE_CANTOPEN": "the file or its folder is read-only, or belongs to another user",
}
_PASSING = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_FULL", "SQLITE_IOERR")


class SQLiteFile:
    """The file of a state; `make` turns a missing or empty file into a state.

    Raises StateError, without writing anything, if it is another program's or has an unknown schema.
    With `reads_only` nothing is ever written.
    """

    def __init__(self, path: Path, *, reads_only: bool) -> None:
        self.path = path
        if path.is_dir():
            raise StateError(f"cannot open the state in {path}: it is a folder")
        with self.naming_errors("open"):
            if not reads_only:
                path.parent.mkdir(parents=True, exist_ok=True)
            self.db = _connected(str(path))
        try:
            with self.naming_errors("open"):
                if reads_only and self._needs_a_writable_folder():
                    self.db.close()
                    self.db = _connected(f"{path.absolute().as_uri()}?immutable=1")
                self.tables = self._checked_tables()
                if reads_only:
                    self.db.execute("PRAGMA query_only = ON")
                else:
                    if path != MEMORY:
                        self._check_room()
                    self._use_write_ahead_log()
                    # In WAL mode NORMAL loses the last commits when the power fails.
                    self.db.execute("PRAGMA synchronous = FULL")
                    # Overwritten bytes, such as pages that held a login, leave no copy behind.
                    self.db.execute("PRAGMA secure_delete = FAST")
                self._place = _identity_of(path)
        except BaseException:
            self.db.close()
            raise

    def _check_room(self) -> None:
        """Raise StateUnavailableError if the disk is nearly full: small writes might still succeed."""
        try:
            with TemporaryFile(dir=self.path.parent) as file:
                file.write(bytes(ROOM_BYTES))
        except OSError as error:
            if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
                msg = f"cannot write to the state in {self.path}: {error.strerror}"
                raise StateUnavailableError(msg) from error

    def make(self, tables: dict[str, str]) -> None:
        """Create missing tables; `tables` are the columns of each."""
        if self.tables.issuperset(tables):
            return
        with self.naming_errors("open"), self.transaction():
            for table, columns in tables.items():
                self.db.execute(f'CREATE TABLE IF NOT EXISTS "{table}" ({columns})')
            self.db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            self.db.execute(f"PRAGMA user_version = {SCHEMA}")

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Begin a transaction that writes, if the file is still the state that was opened; commit it."""
        with self.naming_errors("write to"), self.transaction():
            if _identity_of(self.path) != self._place:
                refuse_other(str(self.path), "was removed or replaced")
            check_schema(self._pragma("user_version"), str(self.path))
            yield

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Begin a transaction that writes, and commit it, or roll it back at an exception."""
        # A plain BEGIN takes the lock at the first write; if another process has written since the
        # first read, SQLite then fails immediately, without waiting for `BUSY_SECONDS`.
        self.db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.db.execute("COMMIT")
        except BaseException:
            # After some errors, such as a full disk, SQLite has rolled back by itself, and ROLLBACK
            # fails.
            if self.db.in_transaction:
                self.db.execute("ROLLBACK")
            raise

    @contextmanager
    def naming_errors(self, action: str) -> Iterator[None]:
        """Turn exceptions of SQLite and the file system into errors that name the file."""
        try:
            yield
        except sqlite3.OperationalError as error:
            name = getattr(error, "sqlite_errorname", "")
            msg = f"cannot {action} the state in {self.path}: {_REASONS.get(name, error)}"
            if name.startswith(_PASSING):
                raise StateUnavailableError(msg) from error
            raise StateError(msg) from error
        except (sqlite3.Error, OSError, ValueError, TypeError) as error:
            raise StateError(f"cannot {action} the state in {self.path}: {error}") from error

    def close(self) -> None:
        """Close the connection."""
        self.db.close()

    def _needs_a_writable_folder(self) -> bool:
        """Whether SQLite cannot read the file because it cannot create a write-ahead log next to it."""
        try:
            self.db.execute("PRAGMA schema_version")
        except sqlite3.OperationalError as error:
            is_without_log = self.path.exists() and not Path(f"{self.path}-wal").exists()
            return error.sqlite_errorname.endswith(("CANTOPEN", "DIRECTORY")) and is_without_log
        return False

    def _checked_tables(self) -> set[str]:
        # `make` sets both in one transaction, so tables without our application id are another program's
        tables = {name for (name,) in self.db.execute("SELECT name FROM sqlite_master")}
        application = self._pragma("application_id")
        if application != APPLICATION_ID and (tables or application):
            raise StateError(f"{self.path} is another program's database: use another HACS_STATE")
        check_schema(self._pragma("user_version"), str(self.path))
        return tables

    def _pragma(self, name: str) -> int:
        return int(self.db.execute(f"PRAGMA {name}").fetchone()[0])

    def _use_write_ahead_log(self) -> None:
        """Switch the file to WAL mode; if another process does so, too, SQLite fails without waiting."""
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                self.db.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                is_busy = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
                if not is_busy or time.monotonic() > deadline:
                    raise
                time.sleep(random.uniform(0.001, 0.02))  # noqa: S311 - jitter, not a secret
            else:
                return


def _connected(path: str) -> sqlite3.Connection:
    # With an isolation level the module would begin transactions itself. The store is opened in the
    # event loop's thread and then used in another thread, never in two at a time.
    return sqlite3.connect(
        path,
        timeout=BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
        uri=path.startswith("file:"),
    )


def _identity_of(path: Path) -> tuple[int, int] | None:
    """Return the file's identity (device, inode), None without a file."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino

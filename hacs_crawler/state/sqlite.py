"""The embedded store: one SQLite file in WAL mode, for one machine."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hacs_crawler.exceptions import NoStateError, StateError
from hacs_crawler.state.outcome_log import OUTCOME, Outcomes, whole_outcomes
from hacs_crawler.state.rows import ROW, UNKNOWN_ROW, sound_rows, whole_rows
from hacs_crawler.state.sqlite_file import MEMORY, SQLiteFile
from hacs_crawler.state.store import Annotation, Change, Ids, Rows, Store, note

# Rows to read at a time; each holds the outcome records of a whole write.
_OUTCOMES_BATCH = 500
# Larger reads are slower: they have to get new memory from the system each time.
_ROW_BATCH = 10_000
_COLUMNS = {
    "meta": "key TEXT PRIMARY KEY, value TEXT NOT NULL",
    "pages": "id INTEGER PRIMARY KEY, version INTEGER NOT NULL, body BLOB NOT NULL",
    # not in `pages`, whose bodies are much longer: a ranking reads all rows
    "rows": "id INTEGER PRIMARY KEY, row BLOB NOT NULL",
    # one row for each write: a row and an index entry for each record would double the time of a write
    "outcomes": "id INTEGER PRIMARY KEY, first INTEGER, last INTEGER, outcomes BLOB NOT NULL",
    "annotations": "kind TEXT, key INTEGER, value BLOB NOT NULL, PRIMARY KEY (kind, key)",
}


class SQLiteStore(Store):
    """Pages in tables `<namespace>.pages`, `.rows` and so on of one file, see `_COLUMNS`.

    Several processes may use the file at the same time; a writer waits up to `BUSY_SECONDS` for another.
    With `reads_only` nothing is created or changed.
    """

    def __init__(self, path: Path, namespace: str, *, reads_only: bool = False) -> None:
        names = {kind: f"{namespace}.{kind}" for kind in _COLUMNS}
        self._pages, self._rows, self._outcomes, self._annotations, self._meta = (
            f'"{names[kind]}"' for kind in ("pages", "rows", "outcomes", "annotations", "meta")
        )
        self._file = SQLiteFile(path, reads_only=reads_only)
        self._db = self._file.db
        self._naming_errors = self._file.naming_errors
        try:
            self._check_namespace(namespace, reads_only=reads_only)
            if not reads_only:
                self._file.make({names[kind]: columns for kind, columns in _COLUMNS.items()})
        except BaseException:
            self.close()
            raise

    def load(self, page_ids: Sequence[int]) -> dict[int, bytes]:
        with self._naming_errors("read"):
            # if damage has made it text, the module would try to decode it
            return self._by_id("CAST(body AS BLOB)", page_ids)

    def write(self, changes: Sequence[Change]) -> dict[int, bytes]:
        """See `Store.write`; one transaction."""
        with self._file.writing():
            versions = self._by_id("version", [change.page_id for change in changes])
            stale = [c.page_id for c in changes if versions.get(c.page_id, 0) != c.seen]
            skipped = set(stale)
            fresh = [c for c in changes if c.page_id not in skipped]
            self._db.executemany(
                f"INSERT OR REPLACE INTO {self._pages} VALUES (?, ?, ?)",  # noqa: S608
                [(c.page_id, c.seen + 1, c.body) for c in fresh],
            )
            self._db.executemany(
                f"INSERT OR REPLACE INTO {self._rows} VALUES (?, ?)",  # noqa: S608
                [(c.page_id, c.row) for c in fresh],
            )
            self._insert_outcomes(b"".join([c.outcomes for c in fresh]))
            present = self.load(stale) if stale else {}
        return {page_id: present.get(page_id, b"") for page_id in stale}

    def annotations(self, kind: str, keys: Sequence[int]) -> dict[int, bytes]:
        query = (
            f"SELECT a.key, CAST(a.value AS BLOB) FROM json_each(?) AS j "  # noqa: S608
            # with JOIN alone, SQLite would read all annotations of the kind for each key
            f"CROSS JOIN {self._annotations} AS a ON a.kind = ? AND a.key = j.value"
        )
        with self._naming_errors("read"):
            return dict(self._db.execute(query, (json.dumps(list(keys)), kind)))

    def annotated(self, kind: str) -> Ids:
        query = f"SELECT key FROM {self._annotations} WHERE kind = ? ORDER BY key"  # noqa: S608
        with self._naming_errors("read"):
            return np.fromiter((key for (key,) in self._db.execute(query, (kind,))), np.int64)

    def all_annotations(self, kind: str) -> Iterator[dict[int, bytes]]:
        """See `Store.all_annotations`; by key."""
        query = (
            f"SELECT key, CAST(value AS BLOB) FROM {self._annotations} "  # noqa: S608
            f"WHERE kind = ? AND key >= ? ORDER BY key LIMIT {_ROW_BATCH}"
        )
        return map(dict, self._batches(query, kind))

    def annotate(self, kind: str, changes: Sequence[Annotation]) -> dict[int, bytes]:
        """See `Store.annotate`; one transaction."""
        if not changes:
            return {}
        with self._file.writing():
            present = self.annotations(kind, [change.key for change in changes])
            refused = {
                change.key: present.get(change.key, b"")
                for change in changes
                if present.get(change.key, b"") != change.seen
            }
            made = [change for change in changes if change.key not in refused]
            self._db.executemany(
                f"INSERT OR REPLACE INTO {self._annotations} VALUES (?, ?, ?)",  # noqa: S608
                [(kind, change.key, change.value) for change in made if change.value],
            )
            self._db.executemany(
                f"DELETE FROM {self._annotations} WHERE kind = ? AND key = ?",  # noqa: S608
                [(kind, change.key) for change in made if not change.value],
            )
        return refused

    def rows(self, page_ids: Ids) -> Rows:
        query = (
            # one parameter for any number of ids; `key` is the place in the list
            f"SELECT j.key, r.row FROM json_each(?) AS j "  # noqa: S608
            f"JOIN {self._rows} AS r ON r.id = j.value"
        )
        rows = np.repeat(UNKNOWN_ROW, len(page_ids))
        with self._naming_errors("read"):
            for start in range(0, len(page_ids), _ROW_BATCH):
                batch = page_ids[start : start + _ROW_BATCH].tolist()
                pairs = self._db.execute(query, (json.dumps(batch),)).fetchall()
                if pairs:
                    places = np.fromiter((index for index, _ in pairs), np.int64, len(pairs))
                    rows[start + places] = self._rows_of(pairs, page_ids[start + places])
        return rows

    def all_rows(self, after: int | None = None) -> Iterator[tuple[Ids, Rows]]:
        """See `Store.all_rows`; by id."""
        first, last = -(2**63) if after is None else after + 1, 2**63 - 1
        ending = (
            f"SELECT id FROM {self._rows} WHERE id BETWEEN ? AND ? "  # noqa: S608
            f"ORDER BY id LIMIT 1 OFFSET {_ROW_BATCH - 1}"
        )
        while first <= last:
            with self._naming_errors("read"):
                (end,) = self._db.execute(ending, (first, last)).fetchone() or (last,)
                ids, rows = self._rows_between(first, end)
            if len(ids):
                yield ids, rows
            first = end + 1

    def count(self) -> int:
        with self._naming_errors("read"):
            query = f"SELECT count(*) FROM {self._rows}"  # noqa: S608
            return int(self._db.execute(query).fetchone()[0])

    def outcomes(self) -> Iterator[Outcomes]:
        query = (
            f"SELECT id, outcomes FROM {self._outcomes} WHERE id >= ? "  # noqa: S608
            f"ORDER BY id LIMIT {_OUTCOMES_BATCH}"
        )
        for rows in self._batches(query):
            yield whole_outcomes([outcomes for _, outcomes in rows], str(self._file.path))

    def add_outcomes(self, outcomes: Outcomes) -> None:
        """See `Store.add_outcomes`; one transaction."""
        with self._naming_errors("write to"), self._file.transaction():
            self._insert_outcomes(outcomes.tobytes())

    def trim_outcomes(self, before: int) -> None:
        """See `Store.trim_outcomes`; one transaction."""
        with self._naming_errors("write to"), self._file.transaction():
            some = f"FROM {self._outcomes} WHERE first < ?"
            cut = self._db.execute(f"SELECT outcomes {some} AND last >= ?", (before, before))
            parts = whole_outcomes([outcomes for (outcomes,) in cut], str(self._file.path))
            self._db.execute(f"DELETE {some}", (before,))
            self._insert_outcomes(parts[parts["at"] >= before].tobytes())

    def kinds(self) -> list[str]:
        with self._naming_errors("read"):
            query = f"SELECT DISTINCT kind FROM {self._annotations}"  # noqa: S608
            return [kind for (kind,) in self._db.execute(query)]

    def notes(self) -> dict[str, Any]:
        with self._naming_errors("read"):
            texts = self._db.execute(f"SELECT key, value FROM {self._meta}")  # noqa: S608
            return {key: note(key, text) for key, text in texts}

    def size_bytes(self) -> int:
        """See `Store.size_bytes`: the file and its write-ahead log."""
        with self._naming_errors("read"):
            path = self._file.path
            files = (path, path.with_name(f"{path.name}-wal"))
            return sum(file.stat().st_size for file in files if file.exists())

    def read_meta(self, key: str) -> Any:
        with self._naming_errors("read"):
            query = f"SELECT value FROM {self._meta} WHERE key = ?"  # noqa: S608
            row = self._db.execute(query, (key,)).fetchone()
            return note(key, row[0]) if row else None

    def write_meta(self, notes: Mapping[str, Any]) -> None:
        with self._file.writing():
            self._keep(notes)

    def try_to_write(self) -> None:
        with self._file.writing():
            self._keep({"try": 0})
        with self._file.writing():
            self._db.execute(f"DELETE FROM {self._meta} WHERE key = 'try'")  # noqa: S608

    def risks(self) -> Iterator[tuple[str, str]]:
        """See `Store.risks`: damage to the file."""
        with self._file.naming_errors("read"):
            ((found,),) = self._db.execute("PRAGMA quick_check(1)")
        if found != "ok":
            yield (
                f"the file is damaged: {found.splitlines()[-1]}",
                "import an export of it into a new file",
            )

    def swap_meta(self, key: str, seen: Any, value: Any) -> bool:
        """See `Store.swap_meta`; one transaction."""
        with self._file.writing():
            is_there = bool(self.read_meta(key) == seen)
            if is_there:
                self._keep({key: value})
            return is_there

    def close(self) -> None:
        self._file.close()

    def _keep(self, notes: Mapping[str, Any]) -> None:
        query = f"INSERT OR REPLACE INTO {self._meta} VALUES (?, ?)"  # noqa: S608
        self._db.executemany(query, [(key, json.dumps(value)) for key, value in notes.items()])

    def _check_namespace(self, namespace: str, *, reads_only: bool) -> None:
        """Raise StateError for a namespace in another case, NoStateError for one that is missing."""
        names = sorted(name for name in self._file.tables if name.endswith(".pages"))
        namespaces = [name.removesuffix(".pages") for name in names]
        for other in namespaces:
            if other.lower() == namespace.lower() and other != namespace:
                raise StateError(
                    f"the state in {self._file.path} has the namespace {other}, which SQLite cannot "
                    f"tell from {namespace}: use another HACS_NAMESPACE"
                )
        if reads_only and namespace not in namespaces:
            has = f"it has {', '.join(namespaces)}" if namespaces else "it is empty"
            msg = f"there is no state of the namespace {namespace} in {self._file.path}: {has}"
            raise NoStateError(msg)

    def _batches(self, query: str, *given: object) -> Iterator[list[tuple[int, bytes]]]:
        """Yield the rows of a query whose last parameter is the least id or key, in batches."""
        least = -(2**63)
        while least < 2**63:
            with self._naming_errors("read"):
                rows = self._db.execute(query, (*given, least)).fetchall()
            if not rows:
                return
            yield rows
            least = rows[-1][0] + 1

    def _by_id(self, column: str, page_ids: Sequence[int]) -> dict[int, Any]:
        """Return a column of the known pages, by id."""
        query = (
            f"SELECT p.id, {column} FROM json_each(?) AS j "  # noqa: S608
            f"JOIN {self._pages} AS p ON p.id = j.value"
        )
        return dict(self._db.execute(query, (json.dumps(list(page_ids)),)))

    def _insert_outcomes(self, records: bytes) -> None:
        outcomes = np.frombuffer(records, OUTCOME)
        for start in range(0, len(outcomes), _ROW_BATCH):
            some = outcomes[start : start + _ROW_BATCH]
            at = some["at"]
            self._db.execute(
                f"INSERT INTO {self._outcomes} VALUES (NULL, ?, ?, ?)",  # noqa: S608
                (int(at.min()), int(at.max()), some.tobytes()),
            )

    def _rows_between(self, first: int, last: int) -> tuple[Ids, Rows]:
        """Return the rows with ids from `first` to `last`, by id; damaged rows are made again."""
        # SQLite joins them, which takes half the time of making a Python object for each. It casts bytes
        # to text, which keeps them only if the file's encoding is UTF-8; another program's may differ.
        if self._db.execute("PRAGMA encoding").fetchone() == ("UTF-8",):
            query = (
                "SELECT group_concat(id), CAST(group_concat(row, '') AS BLOB), "  # noqa: S608
                f"sum(length(row) <> {ROW.itemsize}) FROM {self._rows} WHERE id BETWEEN ? AND ?"
            )
            joined_ids, joined, others = self._db.execute(query, (first, last)).fetchone()
            if joined_ids is None:
                return np.zeros(0, np.int64), np.zeros(0, ROW)
            ids = np.fromstring(joined_ids, np.int64, sep=",")
            if not others and len(joined) == len(ids) * ROW.itemsize:
                rows = np.frombuffer(joined, ROW)
                return ids, sound_rows(self, ids, rows, str(self._file.path))
        query = f"SELECT id, row FROM {self._rows} WHERE id BETWEEN ? AND ? ORDER BY id"  # noqa: S608
        pairs = self._db.execute(query, (first, last)).fetchall()
        ids = np.fromiter((page_id for page_id, _ in pairs), np.int64, len(pairs))
        return ids, self._rows_of(pairs, ids)

    def _rows_of(self, rows: Sequence[tuple[int, Any]], ids: Ids) -> Rows:
        return whole_rows(self, ids, [row for _, row in rows], str(self._file.path))


class MemoryStore(SQLiteStore):
    """A store in this process's memory, for simulations."""

    def __init__(self) -> None:
        super().__init__(MEMORY, "hacs")

    def __del__(self) -> None:
        self.close()

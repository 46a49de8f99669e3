"""The board in an SQLite file, for the crawlers of one machine, or in memory, for simulations."""

from __future__ import annotations

import json
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from hacs_crawler.exceptions import StateError
from hacs_crawler.fleet.board import (
    FORMAT,
    LEASE_SECONDS,
    PARTITIONS,
    Change,
    Changed,
    Entry,
    View,
    share_of,
)
from hacs_crawler.state.sqlite import APPLICATION_ID, BUSY_SECONDS, naming_errors, transaction

_NUMBERS = (
    "time",
    "clock",
    "round",
    "began",
    "over",
    "epoch",
    "total",
    "done",
    "repeats",
    "lost",
    "published",
    "room",
)
"""What is kept of a board beside its tables; with the texts "phase", "leader" and "format"."""


class SQLiteBoard:
    """A board in tables `<namespace>.<fleet>.…` of the state's own file, one transaction a step.

    What the last steps did may be forgotten when the machine loses power, which ends every worker.
    """

    def __init__(
        self,
        path: Path | None,
        namespace: str = "hacs",
        fleet: str = "fleet",
        *,
        lease_seconds: float = LEASE_SECONDS,
        partitions: int = PARTITIONS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.lease_seconds = lease_seconds
        self._path = path
        self._shown = "memory" if path is None else str(path)
        self._clock = clock
        self._partitions = partitions
        self._format = f"{FORMAT}/{partitions}"
        prefix = f"{namespace}.{quote(fleet, safe='')}"
        names = ("board", "workers", "partitions", "plan", "notes")
        self._board, self._workers, self._owners, self._plan, self._notes = (
            f'"{prefix}.{name}"' for name in names
        )
        with self._naming_errors("open"):
            self._db = sqlite3.connect(
                ":memory:" if path is None else path,
                timeout=BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,
            )
        try:
            self._create()
        except BaseException:
            self._db.close()
            raise

    def renew(
        self,
        worker: str,
        *,
        released: Iterable[int] = (),
        idle_since: int | None = None,
        was_busy: bool = False,
    ) -> View:
        """See `Board.renew`."""
        with self._step() as facts:
            workers = self._names()
            is_new = worker not in workers
            self._db.execute(
                f"INSERT INTO {self._workers} VALUES (?, ?, 0) "
                f"ON CONFLICT (name) DO UPDATE SET until = excluded.until",
                (worker, facts["time"] + self.lease_seconds),
            )
            for partition in released:
                self._free_partition(worker, partition)
            share = share_of(worker, {*workers, worker}, self._partitions)
            given = self._give_partitions(worker, share)
            is_idle = idle_since == facts["epoch"] and not is_new and not given
            if given or was_busy:
                self._forget_idleness(facts)
            self._db.execute(
                f"UPDATE {self._workers} SET idle = ? WHERE name = ?",
                (is_idle, worker),
            )
            held = self._db.execute(
                f"SELECT partition FROM {self._owners} WHERE worker = ?",
                (worker,),
            )
            taken = self._number_in(self._plan, "worker IS NOT NULL")
            facts["over"] = int(self._is_over(facts))
            return View(
                is_new=is_new,
                partitions=frozenset(partition for (partition,) in held),
                share=share,
                phase=facts["phase"],
                round=facts["round"],
                leader=facts["leader"],
                epoch=facts["epoch"],
                is_over=bool(facts["over"]),
                age_seconds=facts["time"] - facts["began"],
                workers=self._number_in(self._workers),
                held=self._number_in(self._plan, "worker = ?", worker),
                waiting=facts["total"] - facts["done"] - taken,
                taken=taken,
                total=facts["total"],
                done=facts["done"],
                repeats=facts["repeats"],
                lost=facts["lost"],
            )

    def begin(self, worker: str, *, anew: bool = False, above: int = 0) -> int:
        """See `Board.begin`."""
        with self._step() as facts:
            names = self._names()
            may_begin = (
                facts["phase"] == "none" or self._is_over(facts) or (anew and len(names) == 1)
            )
            if worker not in names or not may_begin:
                return 0
            self._forget_plan(facts)
            self._forget_idleness(facts)
            facts.update(phase="ranking", leader=worker, done=0, repeats=0)
            facts.update(over=0, began=facts["time"])
            facts["round"] = max(facts["round"], above) + 1
            return int(facts["round"])

    def publish(
        self,
        worker: str,
        number: int,
        start: int,
        entries: Sequence[tuple[int, int, bytes]],
        *,
        may_go: Collection[int] = (),
        is_spare: bool = False,
    ) -> bool:
        """See `Board.publish`."""
        with self._step() as facts:
            if not _leads(worker, number, facts):
                return False
            if start > facts["published"]:
                self._end_ranking(facts)
                return False
            if facts["published"] == start:
                self._db.executemany(
                    f"INSERT INTO {self._plan} VALUES (?, ?, ?, ?, NULL, ?, ?, ?, X'')",
                    [
                        (rank, *entry, float(rank), rank in may_go, is_spare)
                        for rank, entry in enumerate(entries, start)
                    ],
                )
                facts["published"] += len(entries)
                facts["total"] += 0 if is_spare else len(entries)
            return True

    def note(self, worker: str, number: int, notes: Mapping[str, bytes]) -> bool:
        """See `Board.note`."""
        with self._step() as facts:
            if not _leads(worker, number, facts):
                return False
            self._db.executemany(
                f"INSERT OR REPLACE INTO {self._notes} VALUES (?, ?)", notes.items()
            )
            return True

    def notes(self, worker: str, number: int, names: Sequence[str]) -> list[bytes | None]:
        """See `Board.notes`."""
        del worker
        query = f"SELECT note FROM {self._notes} WHERE name = ?"
        with self._step() as facts:
            if facts["round"] != number or facts["phase"] != "open":
                return [None for _ in names]
            found = [self._db.execute(query, (name,)).fetchone() for name in names]
            return [row and row[0] for row in found]

    def rank_anew(self, worker: str, number: int, changes: Sequence[Change]) -> Changed:
        """See `Board.rank_anew`."""
        counts: Counter[str] = Counter()
        with self._step() as facts:
            if facts["round"] == number and facts["phase"] == "open" and not facts["over"]:
                for change in changes:
                    counts[self._rank_anew(worker, change, facts)] += 1
        came_in = counts["came in"] + counts["came in for another"]
        return Changed(counts["moved"], came_in, counts["left out"], counts["came in for another"])

    def _rank_anew(self, worker: str, change: Change, facts: dict[str, Any]) -> str:
        query = (
            f"SELECT is_spare FROM {self._plan} JOIN {self._owners} AS held USING (partition) "
            f"WHERE held.worker = ? AND rank = ? AND partition = ? AND {self._plan}.worker IS NULL"
        )
        found = self._db.execute(query, (worker, change.rank, change.partition)).fetchone()
        if found is None:
            return "passed over"
        if change.position is None:
            if found[0]:
                return "passed over"
            self._leave_out(change.rank, facts)
            facts["room"] += facts["room"] >= 0
            return "left out"
        total = facts["total"]
        if found[0] and not self._has_room(change.position, facts):
            return "passed over"
        came_in = "came in for another" if facts["total"] < total else "came in"
        self._db.execute(
            f"UPDATE {self._plan} SET position = ?, note = ?, may_go = may_go OR is_spare, "
            f"is_spare = 0 WHERE rank = ?",
            (change.position, change.note, change.rank),
        )
        facts["total"] += found[0]
        return came_in if found[0] else "moved"

    def _has_room(self, position: float, facts: dict[str, Any]) -> bool:
        if facts["room"]:
            facts["room"] -= facts["room"] > 0
            return True
        last = self._db.execute(
            f"SELECT rank, position FROM {self._plan} WHERE worker IS NULL AND may_go "
            f"AND NOT is_spare ORDER BY position DESC, partition || ':' || rank DESC LIMIT 1"
        ).fetchone()
        if last is None or last[1] <= position:
            return False
        self._leave_out(last[0], facts)
        return True

    def _leave_out(self, rank: int, facts: dict[str, Any]) -> None:
        self._db.execute(f"UPDATE {self._plan} SET is_spare = 1 WHERE rank = ?", (rank,))
        facts["total"] -= 1

    def open(self, worker: str, number: int, total: int, *, room: int | None = None) -> bool:
        """See `Board.open`."""
        with self._step() as facts:
            is_open = facts["phase"] == "open" and facts["leader"] == worker
            if is_open and facts["round"] == number:
                return True
            if not _leads(worker, number, facts):
                return False
            if facts["published"] != total:
                self._end_ranking(facts)
                return False
            facts.update(phase="open", room=-1 if room is None else room)
            return True

    def take(self, worker: str, partitions: Iterable[int], most: int) -> list[Entry]:
        """See `Board.take`."""
        query = (
            f"SELECT rank, partition, page, request, note FROM {self._plan} WHERE rank IN ("
            f"SELECT best.rank FROM {self._owners} AS held JOIN {self._plan} AS best "
            f"ON best.rank IN (SELECT rank FROM {self._plan} AS other WHERE worker IS NULL "
            f"AND NOT is_spare AND other.partition = held.partition "
            f"ORDER BY position, rank LIMIT ?) "
            f"WHERE held.worker = ? AND held.partition IN (SELECT value FROM json_each(?))"
            f") ORDER BY position, rank LIMIT ?"
        )
        with self._step() as facts:
            if facts["phase"] != "open":
                return []
            wanted = json.dumps([*partitions])
            found = self._db.execute(query, (most, worker, wanted, most)).fetchall()
            self._db.executemany(
                f"UPDATE {self._plan} SET worker = ?, may_go = 0 WHERE rank = ?",
                [(worker, rank) for rank, *_ in found],
            )
            if found:
                self._db.execute(
                    f"UPDATE {self._workers} SET idle = 0 WHERE name = ?",
                    (worker,),
                )
            return [Entry(*row) for row in found]

    def keep(self, worker: str, ranks: Iterable[int]) -> None:
        """See `Board.keep`."""
        with self._step():
            self._db.execute(
                f"UPDATE {self._plan} SET worker = NULL WHERE worker = ? "
                f"AND rank NOT IN (SELECT value FROM json_each(?))",
                (worker, json.dumps([*ranks])),
            )

    def done(self, worker: str, number: int, entries: Sequence[Entry]) -> None:
        """See `Board.done`."""
        del worker
        with self._step() as facts:
            if facts["round"] != number or facts["phase"] != "open":
                return
            for entry in entries:
                found = self._db.execute(
                    f"DELETE FROM {self._plan} WHERE rank = ? RETURNING is_spare",
                    (entry.rank,),
                ).fetchone()
                facts["done" if found == (0,) else "repeats"] += 1

    def leave(self, worker: str) -> None:
        """See `Board.leave`."""
        with self._step() as facts:
            self._free(worker, facts)

    def close(self) -> None:
        """See `Board.close`."""
        self._db.close()

    def _create(self) -> None:
        with self._naming_errors("open"):
            if self._path is None:
                self._db.execute("PRAGMA journal_mode = OFF")
            else:
                self._db.execute("PRAGMA journal_mode = WAL")
                self._db.execute("PRAGMA synchronous = NORMAL")
            if self._number_in("sqlite_master") == 0:
                self._db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            with transaction(self._db):
                for table, columns in (
                    (self._board, "key TEXT PRIMARY KEY, value"),
                    (self._workers, "name TEXT PRIMARY KEY, until REAL, idle INTEGER"),
                    (self._owners, "partition INTEGER PRIMARY KEY, worker TEXT"),
                    (
                        self._plan,
                        "rank INTEGER PRIMARY KEY, partition INTEGER, page INTEGER, request BLOB, "
                        "worker TEXT, position REAL, may_go INTEGER, is_spare INTEGER, note BLOB",
                    ),
                    (self._notes, "name TEXT PRIMARY KEY, note BLOB"),
                ):
                    self._db.execute(f"CREATE TABLE IF NOT EXISTS {table} ({columns})")
                name = self._plan.strip('"')
                self._db.execute(
                    f'CREATE INDEX IF NOT EXISTS "{name}.waiting" '
                    f"ON {self._plan} (partition, position, rank) WHERE worker IS NULL"
                )
                self._db.execute(
                    f'CREATE INDEX IF NOT EXISTS "{name}.taken" '
                    f"ON {self._plan} (worker, rank) WHERE worker IS NOT NULL"
                )

    @contextmanager
    def _step(self) -> Iterator[dict[str, Any]]:
        """One transaction: reads what is known of the board, ends leases, and writes it back."""
        with self._naming_errors("write to"), transaction(self._db):
            facts = self._facts()
            now = self._clock()
            passed = min(max(now - facts["clock"], 0.0), self.lease_seconds / 4)
            facts["time"] += passed
            facts["clock"] = now
            dead = self._db.execute(
                f"SELECT name FROM {self._workers} WHERE until <= ?",
                (facts["time"],),
            ).fetchall()
            for (name,) in dead:
                facts["lost"] += self._free(name, facts)
            yield facts
            self._db.executemany(
                f"INSERT OR REPLACE INTO {self._board} VALUES (?, ?)",
                facts.items(),
            )

    def _facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = dict.fromkeys(_NUMBERS, 0)
        facts.update(phase="none", leader="", format=self._format)
        facts.update(self._db.execute(f"SELECT key, value FROM {self._board}"))
        for name in _NUMBERS:
            if not isinstance(facts[name], int | float) or not abs(facts[name]) < 2**53:
                msg = f"{self._shown} holds {facts[name]!r} as {name} in {self._board}: delete that row"
                raise StateError(msg)
        if facts["format"] != self._format:
            if self._number_in(self._workers, "until > ?", facts["time"]):
                msg = (
                    f"the fleet in {self._shown} is of another version of hacs-crawler (format "
                    f"{facts['format']}, here {self._format}): stop its workers first"
                )
                raise StateError(msg)
            for table in (self._board, self._workers, self._owners, self._plan, self._notes):
                self._db.execute(f"DELETE FROM {table}")
            facts = {**dict.fromkeys(_NUMBERS, 0), "phase": "none", "leader": ""}
            facts["format"] = self._format
        return facts

    def _free(self, worker: str, facts: dict[str, Any]) -> int:
        """Free all that a worker has; returns how many entries it had."""
        is_known = self._db.execute(
            f"DELETE FROM {self._workers} WHERE name = ?",
            (worker,),
        ).rowcount
        if not is_known:
            return 0
        self._forget_idleness(facts)
        self._db.execute(f"DELETE FROM {self._owners} WHERE worker = ?", (worker,))
        had = self._db.execute(
            f"UPDATE {self._plan} SET worker = NULL WHERE worker = ?",
            (worker,),
        ).rowcount
        if facts["phase"] == "ranking" and facts["leader"] == worker:
            self._end_ranking(facts)
        if facts["phase"] == "open" and not self._names() and not self._has_entries():
            facts["phase"] = "none"
        return had

    def _end_ranking(self, facts: dict[str, Any]) -> None:
        self._forget_plan(facts)
        facts.update(phase="none", leader="")

    def _forget_plan(self, facts: dict[str, Any]) -> None:
        self._db.execute(f"DELETE FROM {self._plan}")
        self._db.execute(f"DELETE FROM {self._notes}")
        facts.update(total=0, published=0)

    def _free_partition(self, worker: str, partition: int) -> None:
        is_held = self._db.execute(
            f"DELETE FROM {self._owners} WHERE partition = ? AND worker = ?",
            (partition, worker),
        ).rowcount
        if is_held:
            self._db.execute(
                f"UPDATE {self._plan} SET worker = NULL WHERE worker = ? AND partition = ?",
                (worker, partition),
            )

    def _give_partitions(self, worker: str, share: int) -> int:
        """Give a worker partitions that nobody holds, up to its share; returns how many."""
        owners = dict(self._db.execute(f"SELECT partition, worker FROM {self._owners}"))
        lacks = share - sum(owner == worker for owner in owners.values())
        free = [partition for partition in range(self._partitions) if partition not in owners]
        given = free[: max(lacks, 0)]
        self._db.executemany(
            f"INSERT INTO {self._owners} VALUES (?, ?)",
            [(partition, worker) for partition in given],
        )
        return len(given)

    def _forget_idleness(self, facts: dict[str, Any]) -> None:
        self._db.execute(f"UPDATE {self._workers} SET idle = 0")
        facts["epoch"] += 1

    def _is_over(self, facts: dict[str, Any]) -> bool:
        if facts["phase"] != "open" or facts["over"]:
            return bool(facts["phase"] == "open")
        return (
            not self._has_entries()
            and self._number_in(self._owners) == self._partitions
            and self._number_in(self._workers, "NOT idle") == 0
        )

    def _has_entries(self) -> bool:
        return self._number_in(f"(SELECT 1 FROM {self._plan} WHERE NOT is_spare LIMIT 1)") > 0

    def _names(self) -> list[str]:
        return [name for (name,) in self._db.execute(f"SELECT name FROM {self._workers}")]

    def _number_in(self, table: str, where: str = "1", *args: object) -> int:
        query = f"SELECT count(*) FROM {table} WHERE {where}"
        return int(self._db.execute(query, args).fetchone()[0])

    @contextmanager
    def _naming_errors(self, action: str) -> Iterator[None]:
        with naming_errors(action, f"the fleet's board in {self._shown}"):
            yield


def _leads(worker: str, number: int, facts: dict[str, Any]) -> bool:
    return bool(
        facts["phase"] == "ranking" and facts["leader"] == worker and facts["round"] == number
    )

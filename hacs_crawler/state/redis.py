"""The shared store: Redis 6.2 or newer, one server or a cluster; see `redis_buckets` for its keys."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from secrets import token_hex
from typing import Any, Final

import numpy as np
from redis.exceptions import ResponseError

from hacs_crawler.exceptions import StateUnavailableError
from hacs_crawler.state.outcome_log import OUTCOME, Outcomes, whole_outcomes
from hacs_crawler.state.redis_buckets import (
    COUNT,
    GATHER_FIELDS,
    GATHER_KEYS,
    GATHER_OUTCOMES,
    GATHER_ROWS_OF_ALL,
    KEEP,
    REPLACED,
    SWAP,
    TRIM_OUTCOMES,
    TRY,
    WRITE,
    RedisBuckets,
    field_of,
    page_of,
)
from hacs_crawler.state.redis_connection import RedisServer
from hacs_crawler.state.rows import ROW, UNKNOWN_ROW, sound_rows, whole_rows
from hacs_crawler.state.store import (
    SCHEMA,
    Annotation,
    Change,
    Ids,
    Rows,
    Store,
    check_schema,
    note,
    refuse_other,
)
from hacs_crawler.utils.text import counted

_ROWS_A_CALL = 5_000
_RECORD: Final = np.dtype([("id", "<i8"), ("row", ROW)])


class RedisStore(Store):
    """Pages on a Redis server (`redis://`, `rediss://`, `unix://`) or cluster (`redis+cluster://`).

    With `reads_only` nothing is created or changed.
    """

    def __init__(self, url: str, namespace: str, *, reads_only: bool = False) -> None:
        self._server = RedisServer(url)
        self._redis = self._server.client
        self._place = f"{self._server.shown} (namespace {namespace})"
        self._buckets = RedisBuckets(self._server, namespace)
        self._key = self._buckets.key
        self._namespace, self._notes = namespace, f"{namespace}:notes"
        self._held: dict[bytes, bytes] | None = None
        try:
            with self._server.pipeline("open") as pipe:
                if not reads_only:
                    # of several processes that open a new state at the same time, the first one wins
                    pipe.hsetnx(self._notes, "schema", SCHEMA)
                    pipe.hsetnx(self._notes, "identity", token_hex(8))
                pipe.hmget(self._notes, "schema", "identity")
                # an error's message names the command that failed
                self._known_by = self._checked(pipe.execute()[-1])
        except BaseException:
            self.close()
            raise

    def load(self, page_ids: Sequence[int]) -> dict[int, bytes]:
        return self._known("pages", page_ids)

    def write(self, changes: Sequence[Change]) -> dict[int, bytes]:
        """See `Store.write`; one script for many pages, in a cluster one for each page."""
        if not changes:
            return {}
        by_id = {change.page_id: change for change in changes}
        calls = list(self._buckets.calls([*by_id]))
        with self._server.pipeline("write to") as pipe:
            for pages in calls:
                kinds = "pages", "rows", "outcomes"
                keys = chain.from_iterable(self._buckets.keys(page, *kinds) for page in pages)
                args = chain.from_iterable(_written_of(by_id[page]) for page in pages)
                self._add_write(pipe, WRITE, [*keys], *args)
            waits = self._server.add_waits(pipe, [self._key(pages[0], "pages") for pages in calls])
            answers = self._written(pipe)
        if waits and (replicas := min(answers[-waits:])) < self._server.replicas:
            raise StateUnavailableError(
                f"the state in {self._server.shown} has {replicas} replicas that keep up, of the "
                f"{self._server.replicas} that HACS_STATE asks for"
            )
        return _refused([*by_id], [*chain.from_iterable(answers[: len(calls)])])

    def annotations(self, kind: str, keys: Sequence[int]) -> dict[int, bytes]:
        return self._known(f"annotations:{kind}", keys)

    def annotated(self, kind: str) -> Ids:
        return self._ids_of(f"annotations:{kind}")

    def all_annotations(self, kind: str) -> Iterator[dict[int, bytes]]:
        """See `Store.all_annotations`; in the order of buckets."""
        trips = self._buckets.run_on_all("read", GATHER_FIELDS, f"annotations:{kind}")
        for _, answers in trips:
            texts = list(chain.from_iterable(answers))
            if texts:
                yield dict(zip(map(page_of, texts[::2]), texts[1::2], strict=True))

    def annotate(self, kind: str, changes: Sequence[Annotation]) -> dict[int, bytes]:
        """See `Store.annotate`; one pipeline with a script for each change."""
        if not changes:
            return {}
        with self._server.pipeline("write to") as pipe:
            for change in changes:
                args = (field_of(change.key), change.seen, change.value)
                keys = self._buckets.keys(change.key, f"annotations:{kind}")
                self._add_write(pipe, SWAP, keys, *args)
            answers = self._written(pipe)
        return _refused([change.key for change in changes], answers)

    def rows(self, page_ids: Ids) -> Rows:
        parts = [np.zeros(0, ROW)]
        for start in range(0, len(page_ids), _ROWS_A_CALL):
            some = page_ids[start : start + _ROWS_A_CALL]
            fetched = self._buckets.fetched("rows", some.tolist())
            stored = [UNKNOWN_ROW.tobytes() if row is None else row for row in fetched]
            parts.append(whole_rows(self, some, stored, self._place))
        return np.concatenate(parts)

    def all_rows(self, after: int | None = None) -> Iterator[tuple[Ids, Rows]]:
        """See `Store.all_rows`; in the order of buckets, in a cluster of slots."""
        first = 0 if after is None else self._buckets.part_of(after) + 1
        trips = self._buckets.run_on_all("read", GATHER_ROWS_OF_ALL, "rows", first=first)
        for groups, answers in trips:
            parts = (
                self._mended_rows(buckets) if len(joined) % _RECORD.itemsize else joined
                for buckets, joined in zip(groups, answers, strict=True)
            )
            records = np.frombuffer(b"".join(parts), _RECORD)
            if len(records):
                ids = records["id"]
                yield ids, sound_rows(self, ids, records["row"], self._place)

    def count(self) -> int:
        return sum(sum(answers) for _, answers in self._buckets.run_on_all("read", COUNT, "rows"))

    def outcomes(self) -> Iterator[Outcomes]:
        for groups, answers in self._buckets.run_on_all("read", GATHER_OUTCOMES, "outcomes"):
            parts = (
                self._sound_outcomes(buckets) if len(joined) % OUTCOME.itemsize else joined
                for buckets, joined in zip(groups, answers, strict=True)
            )
            yield np.frombuffer(b"".join(parts), OUTCOME)

    def add_outcomes(self, outcomes: Outcomes) -> None:
        """See `Store.add_outcomes`; one pipeline."""
        data, size = outcomes.tobytes(), OUTCOME.itemsize
        records = [data[start : start + size] for start in range(0, len(data), size)]
        with self._server.pipeline("write to") as pipe:
            for page, record in zip(outcomes["page_id"].tolist(), records, strict=True):
                pipe.rpush(self._key(page, "outcomes"), record)
            if records:
                pipe.execute()

    def trim_outcomes(self, before: int) -> None:
        """See `Store.trim_outcomes`; each bucket in one step."""
        for _ in self._buckets.run_on_all("write to", TRIM_OUTCOMES, "outcomes", before):
            pass

    def kinds(self) -> list[str]:
        """See `Store.kinds`; scans all keys of the server."""
        with self._server.naming_errors("read"):
            keys = self._redis.scan_iter(f"{self._namespace}:{{*}}:annotations:*", count=10_000)
            return sorted({key.split(b":annotations:", 1)[1].decode() for key in keys})

    def notes(self) -> dict[str, Any]:
        with self._server.naming_errors("read"):
            texts = {key.decode(): text for key, text in self._redis.hgetall(self._notes).items()}
            # they describe the store, not its contents
            own = texts.keys() - {"schema", "identity"}
            return {key: note(key, texts[key]) for key in own}

    def size_bytes(self) -> int:
        """See `Store.size_bytes`: the memory of the server, in a cluster of all its primaries."""
        return sum(int(info["used_memory"]) for info in self._server.infos("memory"))

    def risks(self) -> Iterator[tuple[str, str]]:
        """See `Store.risks`: the configuration, and evicted pages."""
        policies = {str(info["maxmemory_policy"]) for info in self._server.infos("memory")}
        for policy in sorted(policies - {"noeviction"}):
            risk = f"maxmemory-policy {policy}: a full server deletes pages"
            yield risk, "set maxmemory-policy noeviction"
        has_log = all(int(info["aof_enabled"]) for info in self._server.infos("persistence"))
        if not has_log and not self._server.makes_snapshots():
            yield "appendonly no, and no snapshots: a restart loses the state", "set appendonly yes"
        if any(int(info["evicted_keys"]) for info in self._server.infos("stats")):
            with_row, kept = (self._ids_of(kind) for kind in ("rows", "pages"))
            number = len(np.setdiff1d(with_row, kept))
            risk = (
                f"the server has evicted keys: {counted(number, 'page')} without visits and links"
            )
            yield risk, "set maxmemory-policy noeviction, and import a backup"

    def read_meta(self, key: str) -> Any:
        with self._server.naming_errors("read"):
            text = self._note_text(key)
            return note(key, text) if text else None

    def hold_notes(self) -> ExitStack:
        held = ExitStack()
        if self._held is None:
            with self._server.naming_errors("read"):
                self._held = self._redis.hgetall(self._notes)
            held.callback(setattr, self, "_held", None)
        return held

    def write_meta(self, notes: Mapping[str, Any]) -> None:
        texts = {key.encode(): json.dumps(value).encode() for key, value in notes.items()}
        with self._server.pipeline("write to") as pipe:
            self._add_write(pipe, KEEP, [self._notes], *chain.from_iterable(texts.items()))
            self._written(pipe)
        self._hold(texts)

    def try_to_write(self) -> None:
        with self._server.pipeline("write to") as pipe:
            self._server.add_call(pipe, TRY, [self._notes])
            self._server.answers(pipe)

    def swap_meta(self, key: str, seen: Any, value: Any) -> bool:
        """See `Store.swap_meta`; the script compares the JSON texts."""
        with self._server.naming_errors("write to"):
            text, new = self._note_text(key), json.dumps(value).encode()
            if (note(key, text) if text else None) != seen:
                return False
            with self._server.pipeline("write to") as pipe:
                self._add_write(pipe, SWAP, [self._notes], key, text, new)
                (present,) = self._written(pipe)
            self._hold({key.encode(): new if present == 1 else present})
            return bool(present == 1)

    def close(self) -> None:
        self._server.close()

    def _note_text(self, key: str) -> bytes:
        held = self._held
        text = self._redis.hget(self._notes, key) if held is None else held.get(key.encode())
        return text or b""

    def _hold(self, texts: dict[bytes, bytes]) -> None:
        """Update the held notes, if any, with notes that were written."""
        if self._held is not None:
            self._held |= texts

    def _add_write(self, pipe: Any, script: str, keys: Sequence[str], *args: object) -> None:
        """Add a script that writes only if the state is still the one that was opened."""
        # In a cluster the notes may be on another node than the pages: a script cannot check them.
        is_guarded = not self._server.is_cluster
        guard = (self._notes,) if is_guarded else ()
        known_by = self._known_by if is_guarded else b""
        self._server.add_call(pipe, script, [*keys, *guard], known_by, *args)

    def _written(self, pipe: Any) -> list[Any]:
        """Send a pipeline of scripts that write, and return their answers."""
        try:
            if self._server.is_cluster:
                self._check_identity()
            return self._server.answers(pipe)
        except ResponseError as error:
            if REPLACED in str(error):
                self._check_identity()
            raise

    def _check_identity(self) -> None:
        """Raise StateError if the server no longer holds the state that was opened."""
        stored = self._redis.hmget(self._notes, "schema", "identity")
        known_by = self._checked(stored)
        if stored[1] is None:
            refuse_other(self._place, "is gone: the server came back empty")
        if known_by != self._known_by:
            refuse_other(self._place, "was replaced")

    def _checked(self, stored: Sequence[bytes | None]) -> bytes:
        """Check a state's schema, and return its identity."""
        schema, identity = stored
        check_schema(0 if schema is None else int(note("schema", schema)), self._place)
        return b"%b %b" % (schema or b"false", identity or b"false")

    def _ids_of(self, kind: str) -> Ids:
        """Return the ids in the hashes of a kind, ascending."""
        trips = self._buckets.run_on_all("read", GATHER_KEYS, kind)
        joined = b"".join(answer for _, answers in trips for answer in answers)
        return np.sort(np.frombuffer(joined, np.dtype("<i8")).astype(np.int64))

    def _known(self, kind: str, keys: Sequence[int]) -> dict[int, bytes]:
        values = self._buckets.fetched(kind, keys)
        return {key: value for key, value in zip(keys, values, strict=True) if value is not None}

    def _mended_rows(self, buckets: Sequence[int]) -> bytes:
        """Return the ids and ranking rows of buckets, with damaged rows repaired."""
        with self._server.pipeline("read") as pipe:
            for bucket in buckets:
                pipe.hkeys(self._key(bucket, "rows"))
            ids = [page_of(field) for fields in pipe.execute() for field in fields]
        records = np.zeros(len(ids), _RECORD)
        records["id"] = ids
        records["row"] = self.rows(records["id"])
        return records.tobytes()

    def _sound_outcomes(self, buckets: Sequence[int]) -> bytes:
        """Return the undamaged outcome records of buckets."""
        with self._server.pipeline("read") as pipe:
            for bucket in buckets:
                pipe.lrange(self._key(bucket, "outcomes"), 0, -1)
            return whole_outcomes([*chain.from_iterable(pipe.execute())], self._place).tobytes()


def _written_of(change: Change) -> tuple[bytes, bytes, bytes, bytes, bytes]:
    """Return the script's arguments for a page."""
    seen = change.seen.to_bytes(4, "little") if change.seen else b""
    return field_of(change.page_id), seen, change.body, change.row, change.outcomes


def _refused(keys: Sequence[int], answers: Sequence[Any]) -> dict[int, bytes]:
    """Return the stored values of the keys whose scripts did not answer that they wrote."""
    return {key: answer for key, answer in zip(keys, answers, strict=True) if answer != 1}

"""The shared store: Redis 6.2 or newer, one server or a cluster; its keys are `redis_buckets`'."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from secrets import token_hex
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from redis.cluster import RedisCluster

from hacs_crawler.exceptions import StateUnavailableError
from hacs_crawler.state.codec import ROW, UNKNOWN_ROW
from hacs_crawler.state.damage import sound_rows, whole_outcomes, whole_rows
from hacs_crawler.state.outcome_log import OUTCOME, Outcomes
from hacs_crawler.state.page import Updates
from hacs_crawler.state.redis_buckets import BUCKETS, RedisBuckets, field_of
from hacs_crawler.state.redis_connection import RedisServer
from hacs_crawler.state.redis_scripts import (
    COUNT,
    GATHER_KEYS,
    GATHER_OUTCOMES,
    GATHER_ROWS_OF_ALL,
    SWAP,
    TRIM_OUTCOMES,
    WRITE,
)
from hacs_crawler.state.schema import SCHEMA, check_schema, refuse_older, refuse_other
from hacs_crawler.state.site_links import LinkClaim, claimed_of
from hacs_crawler.state.store import TRIES, Annotation, Change, Ids, Rows, Store, note

_ROWS_A_CALL = 5_000
_RECORD: Final = np.dtype([("id", "<i8"), ("row", ROW)])


class RedisStore(Store):
    """Pages on a Redis server (`redis://`, `rediss://`, `unix://`) or cluster (`redis+cluster://`).

    With `reads_only` nothing is made or changed.
    """

    updates: Updates = "page"

    def __init__(self, url: str, namespace: str, *, reads_only: bool = False) -> None:
        self._server = RedisServer(url)
        self._redis = self._server.client
        self._place = f"{self._server.shown} (namespace {namespace})"
        self._buckets = RedisBuckets(self._server, namespace)
        self._key = self._buckets.key
        self._notes = f"{namespace}:notes"
        try:
            with self._server.naming_errors("open"):
                if self._redis.exists(f"{namespace}:meta"):
                    refuse_older(self._place)
                if not reads_only:
                    # Of several processes that open a new state at once, the first decides.
                    self._redis.hsetnx(self._notes, "schema", SCHEMA)
                    self._redis.hsetnx(self._notes, "identity", token_hex(8))
                self._identity = self._checked_identity()
        except BaseException:
            self.close()
            raise

    def load(self, page_ids: Sequence[int]) -> dict[int, bytes]:
        return self._known("pages", page_ids)

    def write(self, changes: Sequence[Change]) -> dict[int, bytes]:
        """See `Store.write`; one pipeline of one script a page."""
        if not changes:
            return {}
        with self._server.pipeline("write to") as pipe:
            for change in changes:
                keys = [self._key(change.page_id, kind) for kind in ("pages", "rows", "outcomes")]
                seen = change.seen.to_bytes(4, "little") if change.seen else b""
                field = field_of(change.page_id)
                args = (field, seen, change.body, change.row, *_records(change.outcomes))
                self._server.add_call(pipe, WRITE, keys, *args)
            # Last before the pipeline is sent: a server that came back empty would take every
            # write.
            self._check_identity()
            first_keys = [self._key(change.page_id, "pages") for change in changes]
            waits = self._server.add_waits(pipe, first_keys)
            answers = self._server.answers(pipe)
        if waits and (found := min(answers[-waits:])) < self._server.replicas:
            msg = (
                f"the state in {self._server.shown} has {found} replicas that keep up, of the "
                f"{self._server.replicas} that HACS_STATE asks for"
            )
            raise StateUnavailableError(msg)
        pages = [change.page_id for change in changes]
        return _refused(pages, answers[: len(changes)])

    def site_links(self, sites: Sequence[int]) -> dict[int, bytes]:
        return self._known("site_links", sites)

    def claim(self, claims: Sequence[LinkClaim]) -> list[NDArray[np.bool_]]:
        """See `Store.claim`; a script would keep the server from all others while it compares."""
        owned: dict[int, NDArray[np.bool_]] = {}
        left = list(range(len(claims)))
        for _ in range(TRIES):
            if not left:
                return [owned[place] for place in range(len(claims))]
            some = [claims[place] for place in left]
            before = self.site_links(list({claim.site for claim in some}))
            after, found = claimed_of(before, some)
            changes = [Annotation(site, before.get(site, b""), after[site]) for site in after]
            refused = self._swap("site_links", changes)
            owned |= zip(left, found, strict=True)
            left = [place for place in left if claims[place].site in refused]
        msg = f"what is known of links was changed by others {TRIES} times while being changed"
        raise StateUnavailableError(msg)

    def annotations(self, kind: str, keys: Sequence[int]) -> dict[int, bytes]:
        return self._known(f"annotations:{kind}", keys)

    def annotated(self, kind: str) -> Ids:
        trips = self._buckets.run_on_all("read", GATHER_KEYS, f"annotations:{kind}")
        joined = b"".join(found for _, answers in trips for found in answers)
        return np.sort(np.frombuffer(joined, np.dtype("<i8")).astype(np.int64))

    def all_annotations(self, kind: str) -> Iterator[dict[int, bytes]]:
        """See `Store.all_annotations`; by bucket."""
        keys = self.annotated(kind)
        keys = keys[np.argsort(keys % BUCKETS, kind="stable")]
        for start in range(0, len(keys), _ROWS_A_CALL):
            yield self.annotations(kind, keys[start : start + _ROWS_A_CALL].tolist())

    def annotate(self, kind: str, changes: Sequence[Annotation]) -> dict[int, bytes]:
        return self._swap(f"annotations:{kind}", changes)

    def rows(self, page_ids: Ids) -> Rows:
        parts = [np.zeros(0, ROW)]
        for start in range(0, len(page_ids), _ROWS_A_CALL):
            some = page_ids[start : start + _ROWS_A_CALL]
            joined = self._buckets.rows(some.tolist())
            if len(joined) == len(some) * ROW.itemsize:
                rows = np.frombuffer(joined, ROW)
                parts.append(sound_rows(self, some, rows, self._place))
            else:
                found = self._buckets.fetched("rows", some.tolist())
                stored = [UNKNOWN_ROW.tobytes() if row is None else row for row in found]
                parts.append(whole_rows(self, some, stored, self._place))
        return np.concatenate(parts)

    def all_rows(self, after: int | None = None) -> Iterator[tuple[Ids, Rows]]:
        """See `Store.all_rows`; by bucket, in a cluster by slot."""
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
        records = _records(outcomes.tobytes())
        with self._server.pipeline("write to") as pipe:
            for page, record in zip(outcomes["page_id"].tolist(), records, strict=True):
                pipe.rpush(self._key(page, "outcomes"), record)
            if records:
                pipe.execute()

    def trim_outcomes(self, before: int) -> None:
        """See `Store.trim_outcomes`; each bucket at once."""
        for _ in self._buckets.run_on_all("write to", TRIM_OUTCOMES, "outcomes", before):
            pass

    def size_bytes(self) -> int:
        """See `Store.size_bytes`: the memory of the server, in a cluster of all its primaries."""
        with self._server.naming_errors("read"):
            if not self._server.is_cluster:
                return int(self._redis.info("memory")["used_memory"])
            nodes = self._redis.info("memory", target_nodes=RedisCluster.PRIMARIES)
            by_node = nodes if "used_memory" not in nodes else {"": nodes}
            return sum(int(node["used_memory"]) for node in by_node.values())

    def read_meta(self, key: str) -> Any:
        with self._server.naming_errors("read"):
            found = self._redis.hget(self._notes, key)
            return note(key, found) if found else None

    def write_meta(self, key: str, value: Any) -> None:
        with self._server.naming_errors("write to"):
            self._redis.hset(self._notes, key, json.dumps(value))

    def swap_meta(self, key: str, seen: Any, value: Any) -> bool:
        """See `Store.swap_meta`; compared is the text of what was seen."""
        with self._server.naming_errors("write to"):
            found = self._redis.hget(self._notes, key)
            if (note(key, found) if found else None) != seen:
                return False
            arguments = (self._notes, key, found or b"", json.dumps(value))
            return bool(self._redis.eval(SWAP, 1, *arguments) == 1)

    def close(self) -> None:
        self._server.close()

    def _swap(self, kind: str, changes: Sequence[Annotation]) -> dict[int, bytes]:
        """Make changes as `Store.annotate` does; one pipeline of one script a change."""
        if not changes:
            return {}
        with self._server.pipeline("write to") as pipe:
            for change in changes:
                args = (field_of(change.key), change.seen, change.value)
                self._server.add_call(pipe, SWAP, [self._key(change.key, kind)], *args)
            self._check_identity()
            answers = self._server.answers(pipe)
        return _refused([change.key for change in changes], answers)

    def _check_identity(self) -> None:
        """Raise StateError where the server no longer holds the state that was opened."""
        identity = self._checked_identity()
        if identity is None:
            refuse_other(self._place, "is gone: the server came back empty")
        if identity != self._identity:
            refuse_other(self._place, "was replaced")

    def _checked_identity(self) -> bytes | None:
        """Return by what a state is known again, None where there is none; check its schema."""
        schema, identity = self._redis.hmget(self._notes, "schema", "identity")
        found = 0 if schema is None else int(note("schema", schema))
        check_schema(found, self._place)
        return identity  # type: ignore[no-any-return]

    def _known(self, kind: str, keys: Sequence[int]) -> dict[int, bytes]:
        values = self._buckets.fetched(kind, keys)
        return {key: value for key, value in zip(keys, values, strict=True) if value is not None}

    def _mended_rows(self, buckets: Sequence[int]) -> bytes:
        """Return the ids and ranking rows of buckets, damaged rows made anew."""
        rows: dict[int, bytes] = {}
        for bucket in self._buckets.whole(buckets, "rows"):
            for field, row in bucket.items():
                rows[int.from_bytes(field[:8].ljust(8, b"\0"), "little", signed=True)] = row
        records = np.zeros(len(rows), _RECORD)
        records["id"] = [*rows]
        records["row"] = whole_rows(self, records["id"], [*rows.values()], self._place)
        return records.tobytes()

    def _sound_outcomes(self, buckets: Sequence[int]) -> bytes:
        """Return the outcome records of buckets without the damaged ones."""
        records = [
            record for bucket in self._buckets.whole(buckets, "outcomes") for record in bucket
        ]
        return whole_outcomes(records, self._place).tobytes()


def _refused(keys: Sequence[int], answers: Sequence[Any]) -> dict[int, bytes]:
    """Return what is stored under the keys whose scripts did not answer that they wrote."""
    return {key: answer for key, answer in zip(keys, answers, strict=True) if answer != 1}


def _records(outcomes: bytes) -> list[bytes]:
    """Split outcome records that follow each other."""
    size = OUTCOME.itemsize
    return [outcomes[start : start + size] for start in range(0, len(outcomes), size)]

"""The shared store: Redis 6.2 or newer, one server or a cluster.

Pages fall into `BUCKETS` buckets by their id. A bucket has two hashes, `<namespace>:{<bucket>}:pages`
(id -> page bytes) and `<namespace>:{<bucket>}:rows` (id -> ranking row), and a list,
`<namespace>:{<bucket>}:outcomes`, of the outcome records of its pages' visits; sites fall into
buckets, too: `<namespace>:{<bucket>}:site_links` (site -> what is remembered of its links). What else
is kept of pages and sites has a hash a kind, `<namespace>:{<bucket>}:annotations:<kind>`. The braces
make them one hash tag: whatever touches a page, or a site, stays on one node. With 65,536 buckets the
rows of up to 28 million pages stay in Redis's compact encoding (at most 512 fields a hash), see
benchmarks/README.md.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from secrets import token_hex
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from redis.cluster import RedisCluster
from redis.crc import key_slot

from hacs_crawler.exceptions import StateError, StateUnavailableError
from hacs_crawler.state.codec import ROW, UNKNOWN_ROW, row_of, unsound
from hacs_crawler.state.moves import MOVED
from hacs_crawler.state.outcome_log import OUTCOME, Outcomes
from hacs_crawler.state.redis_connection import RedisServer
from hacs_crawler.state.redis_moves import Mover
from hacs_crawler.state.redis_scripts import (
    ANNOTATE,
    CLAIM,
    COUNT,
    GATHER_KEYS,
    GATHER_OUTCOMES,
    GATHER_ROWS,
    GATHER_ROWS_OF_ALL,
    TRIM_OUTCOMES,
    WRITE,
)
from hacs_crawler.state.site_links import LinkClaim
from hacs_crawler.state.store import (
    DAMAGED_OUTCOMES,
    DAMAGED_ROWS,
    OLD_STATE,
    SCHEMA,
    WHOLE,
    Annotation,
    Change,
    Ids,
    Part,
    Rows,
    note,
)
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

BUCKETS: Final = 65_536
_BUCKETS_A_TRIP = 4_096
_BUCKETS_A_CALL = 64  # a script that joins the rows of thousands takes the server twice as long
_SLOTS_A_PIPELINE = 1_000
_ROWS_A_CALL = 5_000
_UNFINISHED: Final = "unfinished"
"""The note with the schema from which a state is being brought up to date."""
_RECORD: Final = np.dtype([("id", "<i8"), ("row", ROW)])


class RedisStore:
    """Pages on a Redis server (`redis://`, `rediss://`, `unix://`) or cluster (`redis+cluster://`).

    With `reads_only` nothing is changed, and what an older version wrote is read as it is.
    """

    def __init__(self, url: str, namespace: str, *, reads_only: bool = False) -> None:
        self._server = RedisServer(url)
        self._redis = self._server.client
        self._shown = self._server.shown
        self._is_cluster = self._server.is_cluster
        self._namespace = namespace
        self._is_old = False
        try:
            self._check_schema(reads_only=reads_only)
        except BaseException:
            self.close()
            raise

    def load(self, page_ids: Sequence[int]) -> dict[int, bytes]:
        """See `Store.load`."""
        with self._server.naming_errors("read"), self._redis.pipeline(transaction=False) as pipe:
            for page_id in page_ids:
                pipe.hget(self._key(page_id, "pages"), _field(page_id))
            bodies = pipe.execute() if page_ids else []
        return {
            page_id: body
            for page_id, body in zip(page_ids, bodies, strict=True)
            if body is not None
        }

    def write(self, changes: Sequence[Change]) -> dict[int, bytes]:
        """See `Store.write`; one pipeline of one script a page."""
        with (
            self._server.naming_errors("write to"),
            self._redis.pipeline(transaction=False) as pipe,
        ):
            for change in changes:
                keys = [self._key(change.page_id, kind) for kind in ("pages", "rows", "outcomes")]
                seen = change.seen.to_bytes(4, "little") if change.seen else b""
                field = _field(change.page_id)
                args = (field, seen, change.body, change.row, *_records(change.outcomes))
                self._server.add_call(pipe, WRITE, keys, *args)
            # Last before the pipeline is sent: a server that came back empty would take every
            # write.
            if changes:
                self._check_identity()
            first_keys = [self._key(change.page_id, "pages") for change in changes]
            waits = self._server.add_waits(pipe, first_keys) if changes else 0
            answers = _answers(pipe) if changes else []
        if waits and (found := min(answers[-waits:])) < self._server.replicas:
            msg = (
                f"the state in {self._shown} has {found} replicas that keep up, of the "
                f"{self._server.replicas} that HACS_STATE asks for"
            )
            raise StateUnavailableError(msg)
        return {
            change.page_id: answer
            for change, answer in zip(changes, answers[: len(changes)], strict=True)
            if answer != 1
        }

    def site_links(self, sites: Sequence[int]) -> dict[int, bytes]:
        """See `Store.site_links`."""
        found = self._fetched([(self._key(site, "site_links"), site) for site in sites])
        return {site: one for site, one in zip(sites, found, strict=True) if one is not None}

    def claim(self, claims: Sequence[LinkClaim]) -> list[NDArray[np.bool_]]:
        """See `Store.claim`; one pipeline of one script a claim."""
        if not claims:
            return []
        with (
            self._server.naming_errors("write to"),
            self._redis.pipeline(transaction=False) as pipe,
        ):
            for claim in claims:
                page = claim.page.to_bytes(2, "little")
                args = (_field(claim.site), page, claim.links.astype("<u4").tobytes())
                self._server.add_call(pipe, CLAIM, [self._key(claim.site, "site_links")], *args)
            self._check_identity()
            return [np.frombuffer(owned, np.bool_) for owned in _answers(pipe)]

    def annotations(self, kind: str, keys: Sequence[int]) -> dict[int, bytes]:
        """See `Store.annotations`."""
        found = self._fetched([(self._key(key, f"annotations:{kind}"), key) for key in keys])
        return {key: one for key, one in zip(keys, found, strict=True) if one is not None}

    def annotated(self, kind: str) -> Ids:
        """See `Store.annotated`."""
        trips = self._run_on_all("read", GATHER_KEYS, f"annotations:{kind}")
        joined = b"".join(found for _, answers in trips for found in answers)
        return np.sort(np.frombuffer(joined, np.dtype("<i8")).astype(np.int64))

    def all_annotations(self, kind: str) -> Iterator[dict[int, bytes]]:
        """See `Store.all_annotations`; by bucket."""
        keys = self.annotated(kind)
        keys = keys[np.argsort(keys % BUCKETS, kind="stable")]
        for start in range(0, len(keys), _ROWS_A_CALL):
            yield self.annotations(kind, keys[start : start + _ROWS_A_CALL].tolist())

    def annotate(self, kind: str, changes: Sequence[Annotation]) -> dict[int, bytes]:
        """See `Store.annotate`; one pipeline of one script a change."""
        if not changes:
            return {}
        with (
            self._server.naming_errors("write to"),
            self._redis.pipeline(transaction=False) as pipe,
        ):
            for change in changes:
                args = (_field(change.key), change.seen, change.value)
                keys = [self._key(change.key, f"annotations:{kind}")]
                self._server.add_call(pipe, ANNOTATE, keys, *args)
            self._check_identity()
            answers = _answers(pipe)
        return {
            change.key: answer
            for change, answer in zip(changes, answers, strict=True)
            if answer != 1
        }

    def rows(self, page_ids: Ids) -> Rows:
        """See `Store.rows`."""
        parts = []
        for start in range(0, len(page_ids), _ROWS_A_CALL):
            batch = page_ids[start : start + _ROWS_A_CALL].tolist()
            keys = [self._key(page_id, "rows") for page_id in batch]
            fields = [_field(page_id) for page_id in batch]
            with self._server.naming_errors("read"):
                joined = self._gather_rows(keys, fields)
            if len(joined) != len(batch) * ROW.itemsize:
                joined = self._mended_rows_of(batch)
            parts.append(joined)
        return self._sound_rows(page_ids, np.frombuffer(b"".join(parts), ROW))

    def all_rows(self, after: int | None = None, part: Part = WHOLE) -> Iterator[tuple[Ids, Rows]]:
        """See `Store.all_rows`; by bucket, in a cluster by slot."""
        first = 0 if after is None else self._trip_of(after % BUCKETS) + 1
        trips = self._run_on_all("read", GATHER_ROWS_OF_ALL, "rows", first=first, part=part)
        for groups, answers in trips:
            parts = (
                self._mended_rows(buckets) if len(joined) % _RECORD.itemsize else joined
                for buckets, joined in zip(groups, answers, strict=True)
            )
            records = np.frombuffer(b"".join(parts), _RECORD)
            if len(records):
                yield records["id"], self._sound_rows(records["id"], records["row"])

    def count(self) -> int:
        """See `Store.count`."""
        return sum(sum(answers) for _, answers in self._run_on_all("read", COUNT, "rows"))

    def outcomes(self) -> Iterator[Outcomes]:
        """See `Store.outcomes`."""
        for groups, answers in self._run_on_all("read", GATHER_OUTCOMES, "outcomes"):
            parts = (
                self._sound_outcomes(buckets) if len(joined) % OUTCOME.itemsize else joined
                for buckets, joined in zip(groups, answers, strict=True)
            )
            yield np.frombuffer(b"".join(parts), OUTCOME)

    def add_outcomes(self, outcomes: Outcomes) -> None:
        """See `Store.add_outcomes`; one pipeline."""
        records = _records(outcomes.tobytes())
        with (
            self._server.naming_errors("write to"),
            self._redis.pipeline(transaction=False) as pipe,
        ):
            for page, record in zip(outcomes["page_id"].tolist(), records, strict=True):
                pipe.rpush(self._key(page, "outcomes"), record)
            if records:
                pipe.execute()

    def trim_outcomes(self, before: int) -> None:
        """See `Store.trim_outcomes`; each bucket at once."""
        for _ in self._run_on_all("write to", TRIM_OUTCOMES, "outcomes", before):
            pass

    def size_bytes(self) -> int:
        """See `Store.size_bytes`: the memory of the server, in a cluster of all its primaries."""
        with self._server.naming_errors("read"):
            if not self._is_cluster:
                return int(self._redis.info("memory")["used_memory"])
            nodes = self._redis.info("memory", target_nodes=RedisCluster.PRIMARIES)
            by_node = nodes if "used_memory" not in nodes else {"": nodes}
            return sum(int(node["used_memory"]) for node in by_node.values())

    def read_meta(self, key: str) -> Any:
        """See `Store.read_meta`."""
        with self._server.naming_errors("read"):
            found = self._redis.hget(self._meta_key, key)
            return note(key, found) if found else None

    def write_meta(self, key: str, value: Any) -> None:
        """See `Store.write_meta`."""
        with self._server.naming_errors("write to"):
            self._redis.hset(self._meta_key, key, json.dumps(value))

    def close(self) -> None:
        """See `Store.close`."""
        self._server.close()

    def _check_schema(self, *, reads_only: bool) -> None:
        with self._server.naming_errors("open"):
            if not reads_only:
                # Of several processes that open a new state at once, the first decides.
                self._redis.hsetnx(self._meta_key, "schema", SCHEMA)
                self._redis.hsetnx(self._meta_key, "identity", token_hex(8))
            schema, self._identity, unfinished = self._redis.hmget(
                self._meta_key, "schema", "identity", _UNFINISHED
            )
            found = SCHEMA if schema is None else int(note("schema", schema))
            self._refuse_newer(found)
            if unfinished:  # by a process that was stopped, or by one that still runs
                found = int(note(_UNFINISHED, unfinished))
        self._is_old = reads_only and found < SCHEMA
        if self._is_old:
            logger.info(OLD_STATE, self._shown)
        elif found < SCHEMA:
            logger.info("Bringing the state in %s up to date", self._shown)
            with self._server.naming_errors("open"):
                # the schema first: processes of older versions write no more
                begun = {"schema": SCHEMA, _UNFINISHED: found}
                self._redis.hset(self._meta_key, mapping=begun)
                self._bring_up_to_date()
                self._redis.hset(self._meta_key, _UNFINISHED, "")

    def _refuse_newer(self, schema: int) -> None:
        if schema > SCHEMA:
            msg = (
                f"the state in {self._shown} (namespace {self._namespace}) has schema {schema}, newer "
                f"than the {SCHEMA} that this version of hacs-crawler knows: upgrade hacs-crawler or "
                f"use another HACS_NAMESPACE"
            )
            raise StateError(msg)

    def _check_identity(self) -> None:
        """Raise StateError where the server no longer holds the state that was opened."""
        schema, identity = self._redis.hmget(self._meta_key, "schema", "identity")
        if identity == self._identity:
            self._refuse_newer(int(note("schema", schema or b"0")))
            return
        found = "is gone: the server came back empty" if identity is None else "was replaced"
        msg = (
            f"the state in {self._shown} (namespace {self._namespace}) {found} while it was in use; "
            f"restore a backup of it, or start again to begin anew"
        )
        raise StateError(msg)

    def _bring_up_to_date(self) -> None:
        mover = Mover(self._server, self._key, _field, self.load, self.write)
        moved = sum(
            mover.bring_up_to_date(range(start, min(start + _BUCKETS_A_TRIP, BUCKETS)))
            for start in range(0, BUCKETS, _BUCKETS_A_TRIP)
        )
        if moved:
            # how far a run had come that estimates all pages is a place among their ids
            self._redis.hset(self._meta_key, "estimate", "null")
            logger.info(MOVED, moved, self._shown)

    @property
    def _meta_key(self) -> str:
        return f"{self._namespace}:meta"

    def _key(self, page_id: int, kind: str) -> str:
        return f"{self._namespace}:{{{page_id % BUCKETS:04x}}}:{kind}"

    def _gather_rows(self, keys: list[str], fields: list[bytes]) -> bytes:
        unknown = UNKNOWN_ROW.tobytes()
        # Keys of one script have to be in one slot of a cluster.
        if not self._is_cluster:
            return bytes(self._redis.eval(GATHER_ROWS, len(keys), *keys, *fields, unknown))
        with self._redis.pipeline(transaction=False) as pipe:
            for key, field in zip(keys, fields, strict=True):
                pipe.hget(key, field)
            return b"".join(unknown if row is None else row for row in pipe.execute())

    def _run_on_all(
        self,
        action: str,
        script: str,
        kind: str,
        *args: object,
        first: int = 0,
        part: Part = WHOLE,
    ) -> Iterator[tuple[Sequence[Sequence[int]], list[Any]]]:
        """Run a script on the keys of that kind of all buckets, many at a time.

        Yields the groups of buckets of one round trip, and what the call for each of them returned,
        from the round trip of number `first` on, of a part of the buckets.
        """
        for groups in islice(self._groups_of_buckets(part), first, None):
            with (
                self._server.naming_errors(action),
                self._redis.pipeline(transaction=False) as pipe,
            ):
                for buckets in groups:
                    keys = [self._key(bucket, kind) for bucket in buckets]
                    self._server.add_call(pipe, script, keys, *args)
                answers = _answers(pipe)
            yield groups, answers

    def _groups_of_buckets(self, part: Part = WHOLE) -> Iterator[Sequence[Sequence[int]]]:
        """Buckets, in groups that a script may be called with, so many as fit a round trip."""
        groups: Sequence[Sequence[int]]
        if self._is_cluster:
            groups, a_trip = _buckets_by_slot(), _SLOTS_A_PIPELINE
        else:
            starts = range(0, BUCKETS, _BUCKETS_A_CALL)
            groups = [range(start, start + _BUCKETS_A_CALL) for start in starts]
            a_trip = _BUCKETS_A_TRIP // _BUCKETS_A_CALL
        number, parts = part
        first, end = (len(groups) * one // parts for one in (number, number + 1))
        for start in range(first, end, a_trip):
            yield groups[start : min(start + a_trip, end)]

    def _trip_of(self, bucket: int) -> int:
        """Return in which of the round trips that `_groups_of_buckets` yields a bucket is."""
        trips = enumerate(self._groups_of_buckets())
        return next(trip for trip, groups in trips if any(bucket in group for group in groups))

    def _mended_rows_of(self, page_ids: Sequence[int]) -> bytes:
        """Return ranking rows one by one, damaged ones made anew."""
        rows = self._fetched([(self._key(page_id, "rows"), page_id) for page_id in page_ids])
        unknown = UNKNOWN_ROW.tobytes()
        found = {
            page_id: unknown if row is None else row
            for page_id, row in zip(page_ids, rows, strict=True)
        }
        return b"".join(self._mended(found).values())

    def _mended_rows(self, buckets: Sequence[int]) -> bytes:
        """Return the ids and ranking rows of buckets, damaged rows made anew."""
        found: dict[int, bytes] = {}
        for bucket in self._whole(buckets, "rows", "hgetall"):
            for field, row in bucket.items():
                found[int.from_bytes(field[:8].ljust(8, b"\0"), "little", signed=True)] = row
        return b"".join(_field(page_id) + row for page_id, row in self._mended(found).items())

    def _sound_rows(self, page_ids: Ids, rows: Rows) -> Rows:
        """Return ranking rows, those that cannot be made anew."""
        places = unsound(rows)
        if len(places):
            wanted = page_ids[places].tolist()
            mended = self._mended(dict.fromkeys(wanted, b""))
            rows = rows.copy()
            rows[places] = np.frombuffer(b"".join(mended[one] for one in wanted), ROW)
        return rows

    def _mended(self, rows: dict[int, bytes]) -> dict[int, bytes]:
        damaged = [page_id for page_id, row in rows.items() if len(row) != ROW.itemsize]
        bodies = self.load(damaged)
        if not self._is_old:
            logger.error(DAMAGED_ROWS, len(damaged), self._shown, damaged[0])
        return rows | {page_id: row_of(bodies.get(page_id, b"")) for page_id in damaged}

    def _sound_outcomes(self, buckets: Sequence[int]) -> bytes:
        """Return the outcome records of buckets without the damaged ones."""
        records = [one for bucket in self._whole(buckets, "outcomes", "lrange") for one in bucket]
        sound = [record for record in records if len(record) == OUTCOME.itemsize]
        logger.error(DAMAGED_OUTCOMES, len(records) - len(sound), self._shown)
        return b"".join(sound)

    def _whole(self, buckets: Sequence[int], kind: str, command: str) -> list[Any]:
        """Return what the keys of that kind hold."""
        span = () if command == "hgetall" else (0, -1)
        with self._server.naming_errors("read"), self._redis.pipeline(transaction=False) as pipe:
            for bucket in buckets:
                getattr(pipe, command)(self._key(bucket, kind), *span)
            return list(pipe.execute())

    def _fetched(self, fields: Sequence[tuple[str, int]]) -> list[bytes | None]:
        with self._server.naming_errors("read"), self._redis.pipeline(transaction=False) as pipe:
            for key, page_id in fields:
                pipe.hget(key, _field(page_id))
            return list(pipe.execute())


def _answers(pipe: Any) -> list[Any]:
    """Send a pipeline of scripts; an error is raised as the server put it, without the script."""
    answers: list[Any] = pipe.execute(raise_on_error=False)
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    return answers


@cache
def _buckets_by_slot() -> list[list[int]]:
    """All buckets, those in one slot of a cluster together."""
    slots: dict[int, list[int]] = defaultdict(list)
    for bucket in range(BUCKETS):
        slots[key_slot(b"%04x" % bucket)].append(bucket)
    return list(slots.values())


def _records(outcomes: bytes) -> list[bytes]:
    """Split outcome records that follow each other."""
    size = OUTCOME.itemsize
    return [outcomes[start : start + size] for start in range(0, len(outcomes), size)]


def _field(page_id: int) -> bytes:
    return page_id.to_bytes(8, "little", signed=True)

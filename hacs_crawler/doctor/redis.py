"""The Redis server or cluster: whether what it holds survives, and whether it has room for more."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

import redis
from redis.backoff import NoBackoff
from redis.cluster import RedisCluster
from redis.retry import Retry

from hacs_crawler.config import Clock
from hacs_crawler.doctor.check import Check, failure, ok, size_text, warning
from hacs_crawler.state import ROW, describe, split_replicas
from hacs_crawler.state.redis_buckets import BUCKETS
from hacs_crawler.state.redis_connection import ANSWER_SECONDS, CONNECT_SECONDS

LEAST_VERSION: Final = (6, 2)
SLOW_MS: Final = 10.0
PINGS: Final = 20
FULL_SHARE: Final = 0.8
CLOCK_SECONDS: Final = 5.0

Facts = Mapping[str, Any]
"""What INFO answers."""


def redis_checks(url: str, pages: int, clock: Clock) -> Iterator[Check]:
    """Look at every server of a state that could be opened; `pages` is how many it holds.

    Nothing here shows a password.
    """
    options: dict[str, Any] = {
        "socket_connect_timeout": CONNECT_SECONDS,
        "socket_timeout": ANSWER_SECONDS,
        "decode_responses": True,
    }
    url, _ = split_replicas(url)
    try:
        if "+cluster://" not in url:
            retry = Retry(NoBackoff(), 1)
            with redis.Redis.from_url(url, retry=retry, **options) as server:
                if server.info("cluster").get("cluster_enabled"):
                    yield warning(
                        "redis",
                        "it is a node of a cluster, of which only its own slots can be reached",
                        "write redis+cluster:// in HACS_STATE",
                    )
                yield from _server_checks("redis", server, pages, clock)
            return
        with RedisCluster.from_url(url.replace("+cluster", "", 1), **options) as cluster:
            yield _cluster_check(cluster)
            primaries = cluster.get_primaries()
            for node in primaries:
                server = cluster.get_redis_connection(node)
                name = f"redis {node.name}"
                yield from _server_checks(name, server, pages // len(primaries), clock)
    except (redis.exceptions.RedisError, redis.exceptions.RedisClusterException, OSError) as error:
        yield failure(
            "redis",
            f"{describe(url)} did not answer as expected: {type(error).__name__}: {error}",
            "see that the server runs, and that this user may run INFO",
        )


def _cluster_check(cluster: Any) -> Check:
    facts = cluster.cluster_info(target_nodes=cluster.get_random_node())
    state, slots = facts.get("cluster_state"), int(facts.get("cluster_slots_ok", 0))
    text = f"state {state}, {slots} of 16384 slots served by {facts.get('cluster_size')} primaries"
    if state != "ok" or slots < 16384:
        return failure("cluster", text, "`redis-cli --cluster check` and `--cluster fix`")
    return ok("cluster", text)


def _server_checks(name: str, server: Any, pages: int, clock: Clock) -> Iterator[Check]:
    facts: Facts = server.info("all")
    config = _config_of(server)
    yield _version_check(name, facts)
    if facts.get("role") == "slave":
        yield failure(
            name, "it is a replica, which takes no writes", "name the primary in HACS_STATE"
        )
    yield from _persistence_checks(name, facts, config)
    yield _eviction_check(name, facts)
    yield _memory_check(name, facts)
    if config is None:
        yield warning(
            name,
            "CONFIG is refused, as managed servers do: neither the save points, appendfsync nor "
            "the compact encoding could be seen",
            "look them up with the provider; docs/state.md says what is wanted",
        )
    else:
        yield _encoding_check(name, config, pages)
    yield _latency_check(name, server)
    yield from _clock_checks(name, server, clock)


def _config_of(server: Any) -> Facts | None:
    """Return the server's configuration as far as it is looked at, None where that is refused."""
    found: dict[str, Any] = {}
    try:
        for pattern in ("save", "appendfsync", "hash-max-*"):
            found |= server.config_get(pattern)
    except redis.exceptions.ResponseError:  # unknown command, no permission
        return None
    return found


def _version_check(name: str, facts: Facts) -> Check:
    version = str(facts.get("redis_version", "0"))
    if tuple(int(part) for part in version.split(".")[:2]) < LEAST_VERSION:
        return failure(name, f"Redis {version}", "upgrade it to 6.2 or newer")
    return ok(name, f"Redis {version}, up for {int(facts.get('uptime_in_days', 0))} days")


def _persistence_checks(name: str, facts: Facts, config: Facts | None) -> Iterator[Check]:
    for part, field in (
        ("append-only file", "aof_last_write_status"),
        ("dump", "rdb_last_bgsave_status"),
    ):
        if facts.get(field, "ok") != "ok":
            yield failure(
                name,
                f"the last writing of its {part} failed",
                "see the server's log; its disk may be full or read-only",
            )
    advice = "set `appendonly yes`; docs/state.md says what is wanted"
    if facts.get("aof_enabled"):
        fsync = config.get("appendfsync") if config else None
        if fsync == "no":
            yield warning(name, "appendfsync is no: a power cut loses visits", "set it to everysec")
        else:
            yield ok(name, "persistence: append-only file" + (f", fsync {fsync}" if fsync else ""))
    elif config is None:
        yield warning(name, "no append-only file; whether it saves dumps could not be seen", advice)
    elif config.get("save"):
        points = config["save"]
        yield warning(
            name,
            f"persistence by dumps only (save {points}): a crash loses what came since",
            advice,
        )
    else:
        yield failure(name, "nothing is written to disk: a restart loses all that is known", advice)


def _eviction_check(name: str, facts: Facts) -> Check:
    policy, limit = str(facts.get("maxmemory_policy", "?")), int(facts.get("maxmemory", 0))
    if not policy.startswith("allkeys"):
        return ok(name, f"maxmemory-policy {policy}: no page is evicted")
    text = f"maxmemory-policy {policy}: when memory is short, pages are thrown away"
    advice = "set `maxmemory-policy noeviction`"
    return failure(name, text, advice) if limit else warning(name, f"{text}; no limit yet", advice)


def _memory_check(name: str, facts: Facts) -> Check:
    used, limit = int(facts.get("used_memory", 0)), int(facts.get("maxmemory", 0))
    of_machine = int(facts.get("total_system_memory", 0))
    room = limit or of_machine
    whose = "maxmemory" if limit else "the machine's memory, without maxmemory"
    text = f"{size_text(used)} used of {size_text(room)}, {whose}"
    if not room or used < FULL_SHARE * room:
        return ok(name, text)
    return warning(name, text, "raise maxmemory, or move to a larger server or a cluster, in time")


def _encoding_check(name: str, config: Facts, pages: int) -> Check:
    """Rows are kept compactly as long as a bucket has no more fields than Redis allows for that."""
    entries = int(
        config.get("hash-max-listpack-entries") or config.get("hash-max-ziplist-entries", 0)
    )
    value = int(config.get("hash-max-listpack-value") or config.get("hash-max-ziplist-value", 0))
    a_bucket = pages / BUCKETS
    text = f"hash-max-listpack-entries {entries}, -value {value}; {a_bucket:.1f} pages a bucket"
    if value < ROW.itemsize or a_bucket > entries:
        return warning(
            name,
            f"{text}: ranking rows take several times the memory",
            f"set hash-max-listpack-value to {ROW.itemsize} or more, and -entries to "
            f"{max(512, 2 ** round(a_bucket + 1).bit_length())}",
        )
    return ok(name, text)


def _latency_check(name: str, server: Any) -> Check:
    times_ms = []
    try:
        for _ in range(PINGS):
            started = time.perf_counter()
            server.ping()
            times_ms.append(1000 * (time.perf_counter() - started))
    except redis.exceptions.ResponseError:
        return ok(name, "its latency was not measured: this user may not PING")
    median = statistics.median(times_ms)
    text = f"answers in {median:.2f} ms (median of {PINGS}; the slowest {max(times_ms):.2f} ms)"
    if median > SLOW_MS:
        return warning(name, text, "crawl nearer to it: every batch of visits waits for it")
    return ok(name, text)


def _clock_checks(name: str, server: Any, clock: Clock) -> Iterator[Check]:
    if clock is not time.time:
        return
    try:
        seconds, microseconds = server.time()
    except redis.exceptions.ResponseError:  # this user may not; there are other clocks
        return
    ahead = seconds + microseconds / 1e6 - time.time()
    if abs(ahead) > CLOCK_SECONDS:
        yield warning(
            "clock", f"that of {name} is {ahead:+.1f} s from ours", "have both set by NTP"
        )

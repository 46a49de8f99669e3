"""The lock of a shard, on a file and in Redis: one holder at a time, who can be told from others."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import redis

from hacs_crawler.exceptions import StateError, StateUnavailableError
from hacs_crawler.shards import ShardLock, shard_lock
from hacs_crawler.shards.lock import LOCK_SECONDS, RELIED_ON_SECONDS

Locks = Callable[[], ShardLock]


@pytest.fixture
def locks(state_url: str, namespace: str, tmp_path: Path) -> Iterator[Locks]:
    """Makes locks of one shard, as several crawls have them."""
    with ExitStack() as stack:

        def make() -> ShardLock:
            lock = shard_lock(state_url, namespace, tmp_path)
            stack.callback(lock.release)
            return lock

        yield make


@pytest.fixture
def server(redis_port: int) -> Iterator[redis.Redis]:
    with redis.Redis(port=redis_port) as client:
        yield client


@pytest.fixture
def in_redis(redis_port: int, namespace: str) -> Iterator[ShardLock]:
    lock = shard_lock(f"redis://127.0.0.1:{redis_port}/0", namespace, Path())
    assert lock.take() is None
    yield lock
    lock.release()


def test_one_crawl_has_a_shard_at_a_time(locks: Locks) -> None:
    first, second = locks(), locks()
    assert first.take() is None
    assert second.take() is not None
    assert first.renew()
    first.release()
    assert second.take() is None


def test_a_lock_that_was_never_taken_can_be_released(locks: Locks) -> None:
    locks().release()


def test_who_waits_is_told_for_whom(locks: Locks, state_url: str) -> None:
    assert locks().take() is None
    holder = locks().take() or ""
    if state_url.startswith("redis"):
        assert holder.startswith(f"process {os.getpid()} on ")
    else:
        assert holder.startswith("another process, which holds ")


def test_in_redis_it_runs_out_later_than_it_is_relied_on(
    in_redis: ShardLock, server: redis.Redis, namespace: str
) -> None:
    key = f"{namespace}:lock"
    assert in_redis.seconds == RELIED_ON_SECONDS
    server.pexpire(key, 10_000)
    assert in_redis.renew()
    assert RELIED_ON_SECONDS < server.ttl(key) <= LOCK_SECONDS


@pytest.mark.parametrize("value", [None, b"another's"])
def test_one_that_ran_out_or_that_another_has_is_neither_renewed_nor_released(
    in_redis: ShardLock, server: redis.Redis, namespace: str, value: bytes | None
) -> None:
    server.delete(f"{namespace}:lock")
    if value is not None:
        server.set(f"{namespace}:lock", value)
    assert not in_redis.renew()
    assert server.get(f"{namespace}:lock") == value
    in_redis.release()
    assert server.get(f"{namespace}:lock") == value


def test_one_that_was_taken_by_a_try_whose_answer_was_lost_is_had(in_redis: ShardLock) -> None:
    assert in_redis.take() is None
    assert in_redis.renew()


def test_a_server_that_is_away_is_named() -> None:
    lock = shard_lock("redis://127.0.0.1:1/0", "hacs.0-2", Path())
    with pytest.raises(
        StateUnavailableError, match=r"cannot lock a shard of the state in redis://"
    ):
        lock.take()


def test_a_file_that_cannot_be_locked_is_named(tmp_path: Path) -> None:
    (tmp_path / "state.db.hacs.0-2.lock").mkdir()
    with pytest.raises(StateError, match=r"cannot lock .*state\.db\.hacs\.0-2\.lock: "):
        shard_lock(f"sqlite:///{tmp_path}/state.db", "hacs.0-2", tmp_path).take()

"""Locks that allow one crawl of a shard at a time: a key in Redis, or a file next to SQLite's."""

import math
import os
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

from filelock import FileLock, Timeout

from hacs_crawler.exceptions import ConfigError, StateError, needing
from hacs_crawler.state import sqlite_path
from hacs_crawler.utils.times import minute_text

# How long a lock in Redis outlives its last renewal.
LOCK_SECONDS: Final = 120.0
# How long a crawl relies on a lock after it began to renew it; half, since clocks and delays differ.
RELIED_ON_SECONDS: Final = 60.0


class FileShardLock:
    """A lock of the operating system, which releases it when the process ends, even by a kill."""

    seconds = math.inf

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = FileLock(path, thread_local=False)

    def take(self) -> str | None:
        """See `RedisShardLock.take`."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._lock.acquire(blocking=False)
        except Timeout:
            return f"another process, which holds {self._path}"
        except (OSError, NotImplementedError) as error:  # the latter on disks without locks
            raise StateError(f"cannot lock {self._path}: {error}") from error
        return None

    def renew(self) -> bool:
        """Return True: the lock does not expire."""
        return True

    def release(self) -> None:
        """Release the lock."""
        self._lock.release()


class RedisShardLock:
    """A key in Redis, or Redis Cluster, whose value names the holder.

    Any thread may use it, one at a time. It is certain to be held for `seconds` after `take` or
    `renew` was called.
    """

    def __init__(self, url: str, namespace: str) -> None:
        self.seconds = RELIED_ON_SECONDS
        with needing("redis", "HACS_STATE names a Redis server", ConfigError):
            from redis.exceptions import LockError  # noqa: PLC0415 - an extra
            from redis.lock import Lock  # noqa: PLC0415

            from hacs_crawler.state.redis_connection import RedisServer  # noqa: PLC0415
        self._not_ours: type[Exception] = LockError
        self._server = RedisServer(url)
        self._key = f"{namespace}:lock"
        self._lock = Lock(self._server.client, self._key, timeout=LOCK_SECONDS, thread_local=False)
        since = minute_text(int(time.time()))
        self._token = (
            f"process {os.getpid()} on {socket.gethostname()}, since {since} UTC [{uuid4().hex}]"
        )

    def take(self) -> str | None:
        """Try to take the lock; return None, or its other holder. Raises StateError."""
        with self._server.naming_errors("lock a shard of"):
            if self._lock.acquire(blocking=False, token=self._token):
                return None
            holder = (self._server.client.get(self._key) or b"").decode(errors="replace")
            # an earlier attempt succeeded, but its answer was lost with the connection
            if holder == self._token:
                self._lock.local.token = self._token.encode()
                return None
            return holder.partition(" [")[0] or "nobody any more"

    def renew(self) -> bool:
        """Extend the lock; False if it has expired or another crawl has it. Raises StateError."""
        with self._server.naming_errors("lock a shard of"):
            try:
                return bool(self._lock.reacquire())
            except self._not_ours:
                return False

    def release(self) -> None:
        """Release the lock if it is held; raises StateError."""
        try:
            # redis-py raises LockError also if the lock was never taken
            with self._server.naming_errors("unlock a shard of"), suppress(self._not_ours):
                self._lock.release()
        finally:
            self._server.close()


ShardLock = FileShardLock | RedisShardLock


def shard_lock(url: str, namespace: str, base: Path) -> ShardLock:
    """Return the lock of the state that `open_state` opens; raises ConfigError, StateError."""
    path = sqlite_path(url, base)
    if path is not None:
        return FileShardLock(path.with_name(f"{path.name}.{namespace}.lock"))
    return RedisShardLock(url, namespace)

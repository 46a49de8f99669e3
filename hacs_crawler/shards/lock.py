"""A shard is crawled once at a time: its lock is a key of Redis, or a file next to SQLite's."""

from __future__ import annotations

import math
import os
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

from filelock import FileLock, Timeout

from hacs_crawler.exceptions import StateError
from hacs_crawler.state import needing_redis, sqlite_path
from hacs_crawler.utils.times import minute_text

# How long a lock in Redis outlives its last renewal.
LOCK_SECONDS: Final = 120.0
# How long after a renewal was begun a crawl may send: half of that, as clocks and answers differ.
RELIED_ON_SECONDS: Final = 60.0


class FileShardLock:
    """A lock by the operating system, which the end of the process gives up, however it ends."""

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
            msg = f"cannot lock {self._path}: {error}"
            raise StateError(msg) from error
        return None

    def renew(self) -> bool:
        """Return True: it does not run out."""
        return True

    def release(self) -> None:
        """Give it up."""
        self._lock.release()


class RedisShardLock:
    """A key of Redis, or Redis Cluster, whose value names its holder.

    It may be used from any thread, from one at a time, and be relied on for `seconds` after `take` or
    `renew` was called.
    """

    def __init__(self, url: str, namespace: str) -> None:
        self.seconds = RELIED_ON_SECONDS
        with needing_redis():
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
        """Try to take the lock, without waiting; return its holder, None if taken. Raises StateError."""
        with self._server.naming_errors("lock a shard of"):
            if self._lock.acquire(blocking=False, token=self._token):
                return None
            holder = (self._server.client.get(self._key) or b"").decode(errors="replace")
            # a first try was answered to a connection that was lost
            if holder == self._token:
                self._lock.local.token = self._token.encode()
                return None
            return holder.partition(" [")[0] or "nobody any more"

    def renew(self) -> bool:
        """Make it last longer; False if it ran out or another has it. Raises StateError."""
        with self._server.naming_errors("lock a shard of"):
            try:
                return bool(self._lock.reacquire())
            except self._not_ours:
                return False

    def release(self) -> None:
        """Release the lock, if it is held; raises StateError."""
        try:
            # redis-py raises the latter also if it was never taken, which harms nothing
            with self._server.naming_errors("unlock a shard of"), suppress(self._not_ours):
                self._lock.release()
        finally:
            self._server.close()


ShardLock = FileShardLock | RedisShardLock


def shard_lock(url: str, namespace: str, base: Path) -> ShardLock:
    """Return the lock of the state that `open_state` would open; raises ConfigError, StateError."""
    path = sqlite_path(url, base)
    if path is not None:
        return FileShardLock(path.with_name(f"{path.name}.{namespace}.lock"))
    return RedisShardLock(url, namespace)

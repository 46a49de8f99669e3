"""States, and what happens to them."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import redis

from servers import Proxy, RedisCluster, RedisProcess

DURABLE = ("--appendonly", "yes", "--appendfsync", "always")
DISK_BYTES = 4 << 20
LOCKS_SECONDS = [(0, 1)] * 9 + [(9, 13)]
"""Crawls wait for 10 s."""


class State:
    address: str
    is_damaged = False
    """Whether anything may be missing from it, and crawls may end with errors that say so."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    async def listen(self) -> None:
        """Begin what runs in an event loop."""

    def clear(self) -> None:
        raise NotImplementedError

    def mend(self) -> None:
        """Take back what happened."""

    def close(self) -> None:
        pass


class SQLite(State):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.disk = folder / "disk"
        self.disk.mkdir()
        self.file = self.disk / "state.db"
        self.address = f"sqlite:///{self.file}"

    def clear(self) -> None:
        self.is_damaged = False
        for path in self.disk.iterdir():
            path.unlink()

    def lock(self, rng: random.Random) -> None:
        with closing(sqlite3.connect(self.file, isolation_level=None, timeout=60)) as other:
            other.execute("BEGIN EXCLUSIVE")
            time.sleep(rng.uniform(*rng.choice(LOCKS_SECONDS)))

    def damage(self, rng: random.Random) -> None:
        self.is_damaged = True
        for path in (self.file, self.disk / "state.db-wal"):
            if path.exists() and path.stat().st_size:
                with path.open("r+b") as file:
                    for _ in range(rng.randint(1, 9)):
                        file.seek(rng.randrange(path.stat().st_size))
                        file.write(rng.randbytes(1))


class FullDisk(SQLite):
    """Has a small file system of its own, which only some users may mount."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        small = ("-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs")
        subprocess.run(["mount", *small, self.disk], check=True)

    def fill(self, rng: random.Random) -> None:
        ballast = self.disk / "ballast"
        with ballast.open("wb", buffering=0) as file, suppress(OSError):
            while file.write(bytes(1 << 10)):
                pass
        time.sleep(rng.uniform(0, 1))
        if rng.random() < 0.7:
            ballast.unlink()

    def mend(self) -> None:
        (self.disk / "ballast").unlink(missing_ok=True)

    def close(self) -> None:
        subprocess.run(["umount", self.disk], check=True)


class Redis(State):
    """A server behind a proxy."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.server = RedisProcess(folder, *DURABLE)
        self.server.start()
        self.client: Any = redis.Redis(port=self.server.port)
        self.way = Proxy(self.server.port)

    async def listen(self) -> None:
        await self.way.listen()
        self.address = f"redis://127.0.0.1:{self.way.port}/0"

    def clear(self) -> None:
        self.is_damaged = False
        self.client.flushall()

    def go_away(self, rng: random.Random) -> None:
        def limit(size: int) -> None:
            self.client.config_set("maxmemory", size)

        restart = self.server.kill, self.server.start
        halt = self.server.pause, self.server.go_on
        begin, end = rng.choice([restart, halt, (lambda: limit(1), lambda: limit(0))])
        begin()
        time.sleep(rng.uniform(0, 1))
        end()

    def be_far(self, rng: random.Random) -> None:
        self.way.seconds = rng.choice((0.0, 0.01, 0.05, 0.2))
        for _ in range(rng.randint(0 if self.way.seconds else 1, 3)):
            self.way.cut()
            time.sleep(rng.uniform(0, 0.3))

    def damage(self, rng: random.Random) -> None:
        self.is_damaged = True
        keys = sorted(self.client.scan_iter())
        for key in rng.sample(keys, min(len(keys), rng.randint(1, 5))):
            if self.client.type(key) == b"hash":
                field = rng.choice(sorted(self.client.hkeys(key)))
                value = bytearray(self.client.hget(key, field))
                value[rng.randrange(len(value))] = rng.randrange(256)
                self.client.hset(key, field, bytes(value))

    def mend(self) -> None:
        self.way.seconds = 0.0

    def close(self) -> None:
        self.client.close()
        self.server.kill()


class Cluster(State):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._nodes = RedisCluster(folder, 3, 3, (*DURABLE, "--cluster-node-timeout", "1000"))
        self._dead: list[int] = []
        self.address = f"{self._nodes.url}?replicas=1"

    def clear(self) -> None:
        for node in range(len(self._nodes.ports)):
            with self._nodes.client(node) as client, suppress(redis.ReadOnlyError):
                client.flushall()

    def lose_a_node(self, rng: random.Random) -> None:
        """Where it is a primary, its replica takes over."""
        self._dead.append(rng.randrange(1, len(self._nodes.ports)))  # the first is the address
        self._nodes.kill(self._dead[0])

    def mend(self) -> None:
        while self._dead:
            self._nodes.start(self._dead.pop())
            self._nodes.wait_until_ok()
            self._nodes.wait_until_replicated()

    def close(self) -> None:
        self._nodes.stop()

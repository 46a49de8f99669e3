"""States, and what happens to them and to their crawls at a random moment."""

import random
import resource
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any

import redis

from endurance.crawling import Crawls
from servers import Proxy, RedisCluster, RedisProcess

DURABLE = ("--appendonly", "yes", "--appendfsync", "always")
LOCKS_SECONDS = [(0, 1)] * 9 + [(9, 13)]
"""Crawls wait for 10 s."""


class State:
    """A state at an address; each kind knows how it is emptied, and how it is mended."""

    address: str
    is_damaged = False
    """Whether anything may be missing, and crawls may end with errors that say so."""

    def clear(self) -> None:
        raise NotImplementedError

    def mend(self) -> None:
        pass

    close = mend


class SQLite(State):
    def __init__(self, folder: Path) -> None:
        self.file = folder / "state" / "state.db"
        self.file.parent.mkdir()
        self.address = f"sqlite:///{self.file}"

    def clear(self) -> None:
        self.is_damaged = False
        for path in self.file.parent.iterdir():
            path.unlink()

    def lock(self, crawls: Crawls, rng: random.Random) -> None:
        with closing(sqlite3.connect(self.file, isolation_level=None, timeout=60)) as other:
            other.execute("BEGIN EXCLUSIVE")
            time.sleep(rng.uniform(*rng.choice(LOCKS_SECONDS)))

    def fill(self, crawls: Crawls, rng: random.Random) -> None:
        """Let no file grow beyond what the largest has, as if the disk were full."""
        size = max((path.stat().st_size for path in self.file.parent.iterdir()), default=1 << 17)
        with suppress(ProcessLookupError):
            resource.prlimit(crawls.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
            time.sleep(rng.uniform(0, 1))
            unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
            if rng.random() < 0.7:
                resource.prlimit(crawls.pid, resource.RLIMIT_FSIZE, unlimited)

    def damage(self, crawls: Crawls, rng: random.Random) -> None:
        self.is_damaged = True
        for path in (self.file, self.file.with_name("state.db-wal")):
            size = path.stat().st_size if path.exists() else 0
            for _ in range(rng.randint(1, 9) if size else 0):
                with path.open("r+b") as file:
                    file.seek(rng.randrange(size))
                    file.write(rng.randbytes(1))


class Redis(State):
    """A server behind a proxy."""

    def __init__(self, folder: Path) -> None:
        self.server = RedisProcess(folder, *DURABLE)
        self.server.start()
        self.client: Any = redis.Redis(port=self.server.port)
        self.way = Proxy(self.server.port)
        self.address = f"redis://127.0.0.1:{self.way.port}/0"

    def clear(self) -> None:
        self.is_damaged = False
        self.client.flushall()

    def go_away(self, crawls: Crawls, rng: random.Random) -> None:
        """It is killed and started again, stands still, or has no memory left."""
        limit = partial(self.client.config_set, "maxmemory")
        ways: list[tuple[Callable[[], object], Callable[[], object]]] = [
            (self.server.kill, self.server.start),
            (self.server.pause, self.server.go_on),
            (partial(limit, 1), partial(limit, 0)),
        ]
        begin, end = rng.choice(ways)
        begin()
        time.sleep(rng.uniform(0, 1))
        end()

    def be_far(self, crawls: Crawls, rng: random.Random) -> None:
        self.way.seconds = rng.choice((0.0, 0.01, 0.05, 0.2))
        for _ in range(rng.randint(0 if self.way.seconds else 1, 3)):
            self.way.cut()
            time.sleep(rng.uniform(0, 0.3))

    def damage(self, crawls: Crawls, rng: random.Random) -> None:
        self.is_damaged = True
        keys = [key for key in sorted(self.client.scan_iter()) if self.client.type(key) == b"hash"]
        for key in rng.sample(keys, min(len(keys), 4)):
            field, value = rng.choice(sorted(self.client.hgetall(key).items()))
            place = rng.randrange(len(value))
            self.client.hset(key, field, value[:place] + rng.randbytes(1) + value[place + 1 :])

    def mend(self) -> None:
        self.way.seconds = 0.0

    def close(self) -> None:
        self.client.close()
        self.server.kill()


class Replicated(Redis):
    """A server with a replica, behind a proxy."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.address += "?replicas=1"
        self.other = RedisProcess(folder / "other", *DURABLE)
        self._replicate()

    def promote(self, crawls: Crawls, rng: random.Random) -> None:
        """The replica takes the place of the server, dead or not, which comes back as the replica."""
        if rng.random() < 0.5:
            self.server.kill()
        time.sleep(rng.uniform(0, 0.5))
        self.server, self.other = self.other, self.server
        self.client.close()
        self.client = redis.Redis(port=self.server.port)
        self.client.replicaof("NO", "ONE")
        self.way.target = self.server.port
        time.sleep(rng.uniform(0, 0.5))
        self.way.cut()
        self.other.kill()
        self._replicate()

    def _replicate(self) -> None:
        self.other.start()
        with redis.Redis(port=self.other.port) as client:
            client.replicaof("127.0.0.1", self.server.port)
        self.other.wait_until(lambda facts: facts.get("master_link_status") == "up", "replication")

    def close(self) -> None:
        super().close()
        self.other.kill()


class Cluster(State):
    def __init__(self, folder: Path) -> None:
        self.cluster = RedisCluster(folder, *DURABLE, "--cluster-node-timeout", "1000", replicas=3)
        self.dead: list[int] = []
        self.address = f"{self.cluster.url}?replicas=1"

    def clear(self) -> None:
        for node in range(len(self.cluster.ports)):
            with self.cluster.client(node) as client, suppress(redis.ReadOnlyError):
                client.flushall()

    def lose_a_node(self, crawls: Crawls, rng: random.Random) -> None:
        """Where it is a primary, its replica takes over."""
        self.dead.append(rng.randrange(1, len(self.cluster.ports)))  # the first is the address
        self.cluster.nodes[self.dead[0]].kill()

    def mend(self) -> None:
        while self.dead:
            self.cluster.nodes[self.dead.pop()].start()
            self.cluster.wait_until_ok()
            self.cluster.wait_until_replicated()

    def close(self) -> None:
        self.cluster.stop()


def send_signal(state: State, crawls: Crawls, rng: random.Random) -> None:
    number = rng.choice(
        (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGSTOP)
    )
    crawls.signal(number)
    time.sleep(rng.uniform(0, 0.5 if number == signal.SIGSTOP else 0.1))
    if number == signal.SIGSTOP:
        crawls.signal(signal.SIGCONT)
    elif rng.random() < 0.3:  # asked twice, it ends at once
        crawls.signal(number)

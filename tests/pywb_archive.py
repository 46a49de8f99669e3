"""A real web archive for tests: pywb, indexing and serving WARC files that warcio wrote.

pywb needs redis==2.10.6, far older than ours, so it lives in a virtual environment of its own. That is
made in pytest's cache, once: the only thing in the tests that needs the network (a package registry).
"""

import fcntl
import http.client
import io
import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest

from forks import wait_until
from servers import free_port
from wayback_machine import page
from workers import locked, shared_folder

VERSION = "2.10.0"
_START = """
import socket
from pywb.apps.cli import wayback
from gevent.pywsgi import WSGIServer

bind = WSGIServer.init_socket

def bind_without_delay(server):
    bind(server)
    server.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

WSGIServer.init_socket = bind_without_delay
wayback()
"""
"""pywb writes head and body apart: without TCP_NODELAY, 40 ms a request on a kept connection."""
_ENVIRONMENT = {"GEVENT_RESOLVER": "block", "PATH": os.defpath}
"""pywb asks itself over HTTP at each request: the fewer variables and threads, the faster."""
_REQUEST = r'"[A-Z]+ /{}(/(?!index\?|resource/)\S*) HTTP/'


@dataclass(frozen=True)
class Archived:
    """What an archive's crawler was answered: a page of these links, unless there is a body.

    `at` is in seconds since 1970 UTC. With `revisit`, the record of a payload that this URL had before
    is a `warc/revisit` record, which refers to the earliest capture with the payload.
    """

    url: str
    at: int
    links: Sequence[str] = ()
    body: bytes | None = None
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    revisit: bool = True

    @property
    def payload(self) -> bytes:
        return page(*self.links) if self.body is None else self.body


def write_warc(path: Path, responses: Iterable[Archived]) -> Path:
    """Write responses, which may come in any order, as a gzipped WARC file in their order in time."""
    from warcio.warcwriter import WARCWriter

    first: dict[tuple[str, str], int] = {}
    with path.open("wb") as file:
        writer = WARCWriter(file, gzip=True)
        for response in sorted(responses, key=lambda one: one.at):
            record = _response_record(writer, response)
            writer.ensure_digest(record, block=False, payload=True)
            digest = record.rec_headers.get_header("WARC-Payload-Digest")
            first_at = first.setdefault((response.url, digest), response.at)
            if response.revisit and first_at < response.at:
                shown = (response.url, digest, response.url, _iso(first_at))
                record = writer.create_revisit_record(*shown, **_headers(response))
            writer.write_record(record)
    return path


def _response_record(writer: Any, response: Archived) -> Any:
    body = response.payload
    given = _headers(response, ("Content-Length", str(len(body))))
    given |= {"payload": io.BytesIO(body), "length": len(body)}
    return writer.create_warc_record(response.url, "response", **given)


def _headers(response: Archived, *more: tuple[str, str]) -> dict[str, Any]:
    from warcio.statusandheaders import StatusAndHeaders

    status = f"{response.status} {HTTPStatus(response.status).phrase}"
    html = ("Content-Type", "text/html; charset=utf-8")
    headers = [html, *response.headers, *more]
    of_http = StatusAndHeaders(status, headers, protocol="HTTP/1.1")
    return {"http_headers": of_http, "warc_headers_dict": {"WARC-Date": _iso(response.at)}}


def _iso(at: int) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True)
class PywbServer:
    python: Path
    folder: Path
    url: str


@pytest.fixture(scope="session")
def pywb(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PywbServer]:
    """One pywb for all workers of a session: the first that needs it starts it, the last ends it.

    What is installed for it stays in pytest's cache.
    """
    cache = getattr(request.config, "cache", None)  # none with -p no:cacheprovider
    python = pywb_python(cache.mkdir("pywb") if cache else tmp_path_factory.mktemp("pywb"))
    folder = shared_folder(tmp_path_factory, "one-pywb")
    (folder / "collections").mkdir(exist_ok=True)
    running = folder / "running.json"
    with (folder / "users").open("w") as users:
        with locked(folder / "lock"):
            fcntl.flock(users, fcntl.LOCK_SH)  # released by the kernel if this process dies
            if not running.exists():
                running.write_text(json.dumps(_start(python, folder)))
            url, pid = json.loads(running.read_text())
        yield PywbServer(python, folder, url)
        with locked(folder / "lock"), suppress(BlockingIOError):
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            running.unlink()
            os.killpg(pid, signal.SIGKILL)


def pywb_python(cache: Path) -> Path:
    """The Python of a virtual environment in `cache`.

    It is made where it is missing or half made; other processes wait for it meanwhile.
    """
    folder = cache / f"pywb-{VERSION}-{sys.implementation.cache_tag}"
    python, mark = folder / "bin" / "python", folder / "complete"
    with locked(cache / "lock"):
        if not (mark.exists() and python.exists()):
            shutil.rmtree(folder, ignore_errors=True)
            _run(sys.executable, "-m", "venv", str(folder))
            _run(str(python), "-m", "pip", "install", "--quiet", "--no-compile", f"pywb=={VERSION}")
            mark.touch()
    return python


def _run(*command: str) -> None:
    environment = {name: os.environ[name] for name in os.environ if not name.startswith("PYTHON")}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=900, env=environment, check=False
    )
    if done.returncode:
        reason = "\n".join((done.stderr or done.stdout).splitlines()[-5:])
        msg = f"no pywb for the tests: {' '.join(command)} failed:\n{reason}"
        raise RuntimeError(msg)


@dataclass
class PywbArchive:
    server: PywbServer
    name: str
    _read_to: int = field(default=0, repr=False)
    _marks: Iterator[int] = field(default_factory=itertools.count, repr=False)

    @property
    def url(self) -> str:
        return f"{self.server.url}/{self.name}"

    @property
    def cdx_url(self) -> str:
        return f"{self.url}/cdx"

    @property
    def memento_url(self) -> str:
        """What `/{timestamp}id_/{url}` has to follow for a payload as it was archived."""
        return self.url

    @property
    def index(self) -> Path:
        return self.server.folder / "collections" / self.name / "indexes" / "index.cdxj"

    def requests(self) -> list[str]:
        """The paths below the collection's that were asked for since the last call, as they were sent.

        pywb logs a request once it has answered it, so a further one, whose answer is awaited, comes
        after all of them.
        """
        mark = f"/collinfo.json?mark={self.name}-{next(self._marks)}-"
        assert _get(self.server.url, mark) == 200
        log = self.server.folder / "pywb.log"
        wait_until(lambda: mark in log.read_text()[self._read_to :])
        read = log.read_text()[self._read_to :]
        self._read_to += len(read)
        return re.findall(_REQUEST.format(re.escape(self.name)), read)


def pywb_archive(server: PywbServer, *warcs: Path) -> PywbArchive:
    """Index WARC files (of different names) with pywb, and serve them as a new collection."""
    archive = PywbArchive(server, f"c{uuid.uuid4().hex}")
    made = server.folder / "made" / archive.name
    (made / "archive").mkdir(parents=True)
    (made / "indexes").mkdir()
    index = str(made / "indexes" / "index.cdxj")
    _run(str(server.python), "-m", "pywb.indexer.cdxindexer", "-sj", "-o", index, *map(str, warcs))
    for warc in warcs:
        (made / "archive" / warc.name).symlink_to(warc.resolve())
    made.rename(archive.index.parents[1])  # complete when pywb sees it
    return archive


def _start(python: Path, folder: Path) -> tuple[str, int]:
    log, url = folder / "pywb.log", f"http://127.0.0.1:{free_port()}"
    (folder / "config.yaml").write_text("{}")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(python), "-c", _START, "-b", "127.0.0.1", "-p", url.rpartition(":")[2]],
            cwd=folder,
            env=_ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    wait_until(lambda: _answers(url, process, log), "an answer of pywb")
    _started.append(process)
    return url, process.pid


_started: list[subprocess.Popen[bytes]] = []
"""Kept: that it still runs when this process forgets it would be a warning."""


def _answers(url: str, process: subprocess.Popen[bytes], log: Path) -> bool:
    assert process.poll() is None, log.read_text()[-2000:]
    with suppress(OSError):
        return _get(url, "/collinfo.json") == 200
    return False


def _get(url: str, path: str) -> int:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=30)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()

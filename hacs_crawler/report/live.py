"""A report that is made anew while somebody looks at it: a small server for this machine alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread
from time import monotonic
from typing import Any, Final

from hacs_crawler.exceptions import HacsError
from hacs_crawler.report.html import html, json_text
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

HOST: Final = "127.0.0.1"
_HOSTS: Final = frozenset({"localhost", "127.0.0.1"})
_IDLE_SECONDS: Final = 30.0
_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True, slots=True)
class _Answer:
    status: HTTPStatus
    kind: str
    body: bytes
    tag: str = ""


class _Source:
    """The report's data, made when they are asked for and older than `seconds`."""

    def __init__(self, make: Callable[[], dict[str, Any]], seconds: float) -> None:
        self.seconds = seconds
        self._make = make
        self._lock = Lock()  # a state is read by one thread at a time
        self._made_at = -float("inf")
        self._data: dict[str, Any] = {}

    def data(self) -> dict[str, Any]:
        with self._lock:
            if monotonic() - self._made_at >= self.seconds:
                self._data = {**self._make(), "live": self.seconds}
                self._made_at = monotonic()
            return self._data


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int, source: _Source) -> None:
        self.source = source
        super().__init__((HOST, port), _Handler)

    def answer(self, path: str) -> _Answer:
        try:
            if path in {"/", "/index.html"}:
                page = html(self.source.data(), self.source.seconds)
                return _Answer(HTTPStatus.OK, "text/html", page.encode())
            if path == "/data.json":
                body = json_text(self.source.data()).encode()
                tag = f'"{sha256(body).hexdigest()[:32]}"'
                return _Answer(HTTPStatus.OK, "application/json", body, tag)
        except HacsError as error:
            logger.warning("the report is not up to date: %s", error)
            return _plain(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
        return _plain(HTTPStatus.NOT_FOUND, "There is / and /data.json.")


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version = "hacs"
    sys_version = ""
    timeout = _IDLE_SECONDS

    def do_GET(self) -> None:
        self._send(self._answer(), has_body=True)

    def do_HEAD(self) -> None:
        self._send(self._answer(), has_body=False)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
        logger.debug(format, *args)

    def _answer(self) -> _Answer:
        # A name that somebody else has pointed at this machine is a page of theirs that reads ours.
        if self.headers.get("Host", "").partition(":")[0] not in _HOSTS:
            return _plain(HTTPStatus.FORBIDDEN, "Only localhost may ask.")
        return self.server.answer(self.path.partition("?")[0])

    def _send(self, answer: _Answer, *, has_body: bool) -> None:
        is_known = bool(answer.tag) and self.headers.get("If-None-Match") == answer.tag
        self.send_response(HTTPStatus.NOT_MODIFIED if is_known else answer.status)
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        if answer.tag:
            self.send_header("ETag", answer.tag)
        if not is_known:
            self.send_header("Content-Type", f"{answer.kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if has_body and not is_known:
            self.wfile.write(answer.body)


def _plain(status: HTTPStatus, text: str) -> _Answer:
    return _Answer(status, "text/plain", f"{text}\n".encode())


@contextmanager
def serving(make: Callable[[], dict[str, Any]], port: int, seconds: float) -> Iterator[str]:
    """Serve a report on this machine and give its address; port 0 is any that is free.

    `make` returns the report's data. It is called by one thread at a time, when a reader asks and what
    there is is older than `seconds`; a HacsError of it is told to the reader. Nothing can be written
    through the server. Raises HacsError where the port cannot be had.
    """
    try:
        server = _Server(port, _Source(make, seconds))
    except OSError as error:
        raise HacsError(f"cannot serve on port {port}: {error.strerror or error}") from error
    thread = Thread(target=server.serve_forever, name="hacs-report", daemon=True)
    thread.start()
    try:
        yield f"http://{HOST}:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

"""The Wayback Machine's own dialect, played by a local server.

A fake, because the Wayback Machine itself cannot be had here: pywb, which can, speaks another dialect
and is never overloaded. Every quirk names where it is documented:

- README, CDXServer.java, JsonWriter.java, HttpCDXWriter.java: github.com/internetarchive/wayback,
  folder wayback-cdx-server; "wayback#121" is an issue there
- edgi: github.com/edgi-govdata-archiving/wayback, src/wayback/_client.py, by people who talk to the
  archive's staff; "edgi#137" is an issue there
- cassette x: real answers recorded in edgi's src/wayback/tests/cassettes/x.yaml
"""

import base64
import contextlib
import gzip
import hashlib
import json
import re
import socket
import struct
import threading
import time
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from itertools import islice
from typing import Any, Final
from urllib.parse import parse_qs, quote_plus, unquote_plus, urljoin, urlsplit

from surt import surt

from servers import LocalServer

RESET: Final = 0
"""In place of a status: the connection is cut without an answer."""
CUT: Final = -1
"""In place of a status: the first half of the true answer, as if that were all."""

FIELDS: Final = ("urlkey", "timestamp", "original", "mimetype", "statuscode", "digest", "length")
BLOCKED: Final = (
    "org.archive.wayback.exception.AdministrativeAccessControlException: Blocked Site Error"
)

# edgi's tests/test_client.py: "based on an actual rate-limited response"
TOO_MANY: Final = b"""<html><body><h1>429 Too Many Requests</h1>
You have sent too many requests in a given amount of time.
</body></html>"""

EXCLUDED: Final = b"".join(
    # 200, and not to be taken for the page: cassette test_get_memento_raises_blocked_error, 57,794 bytes
    # of which 56,700 and 116 links come before these words
    [
        b"<!DOCTYPE html><html><body>",
        *(b"<a href='https://archive.org/%d'>%s</a>\n" % (one, b"x" * 440) for one in range(116)),
        b"<p>This URL has been excluded from the Wayback Machine.</p></body></html>",
    ]
)

# Odd kinds of Content-Encoding in replay: what the header says, whether the body is packed, and whether
# `Accept-Encoding: identity` avoids it
GARBLED: Final[Mapping[str, tuple[str, bool, bool]]] = {
    "blank": ("", True, True),  # web-monitoring-processing#309
    "comma": (", gzip", True, True),  # web-monitoring-db#433
    "plain": ("gzip", False, False),  # wayback#117
    "packed": ("gzip", True, False),  # as it was archived, wayback#209; pywb always
}


@dataclass(frozen=True)
class Asked:
    """One request; `kind` is "cdx", "memento" or "other"."""

    kind: str
    path: str
    params: Mapping[str, str]
    headers: Mapping[str, str]
    at: float = field(default_factory=time.monotonic)

    @property
    def accepts_gzip(self) -> bool:
        return "gzip" in self.headers.get("accept-encoding", "")

    @property
    def memento(self) -> str:
        """Timestamp and URL as asked for, such as "20010203040506 http://a.org/"."""
        return f"{self.params['timestamp']} {self.params['url']}"


@dataclass
class _Fault:
    kind: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    only_if: Callable[[Asked], bool]
    refuse_for: float
    left: float


@dataclass(frozen=True)
class _Payload:
    """What was archived: the response of a site as it was then."""

    url: str
    status: int
    body: bytes
    headers: Mapping[str, str]
    garbled: str


@dataclass
class _Answer:
    status: int
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    may_pack: bool = True
    refuse_for: float = 0.0


class WaybackMachine(LocalServer):
    """A local Wayback Machine whose captures, limits and faults a test sets.

    `names_times`, which a test may set, is whether mementos have a Memento-Datetime and what else
    replay adds.
    """

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.names_times = True
        self._lock = threading.RLock()
        self._rows: list[tuple[str, int, tuple[str, ...]]] = []
        self._payloads: dict[str, dict[str, _Payload]] = defaultdict(dict)
        self._faults: list[_Fault] = []
        self._blocked: list[str] = []
        self._connections: set[socket.socket] = set()
        self._reopening: threading.Timer | None = None
        super().__init__()

    @property
    def cdx_url(self) -> str:
        return f"{self.url}/cdx/search/cdx"

    @property
    def memento_url(self) -> str:
        return f"{self.url}/web"

    def asks(self, kind: str) -> list[Asked]:
        with self._lock:
            return [asked for asked in self.asked if asked.kind == kind]

    # -- what is archived

    def capture(
        self,
        url: str,
        at: str,
        *links: str,
        status: int = 200,
        headers: Mapping[str, str] | None = None,
        garbled: str = "",
    ) -> str:
        """Archive a response, a page of these links; return its digest.

        `at` has 14 digits. `headers` are the site's own. `garbled` is a key of GARBLED.
        """
        payload = page(*links)
        original = {"Content-Type": "text/html", **(headers or {})}
        digest = sha1_digest(payload)
        self._add(url, at, "text/html", str(status), digest, str(len(payload)))
        with self._lock:
            self._payloads[surt(url)][at] = _Payload(url, status, payload, original, garbled)
        return digest

    def revisit(self, url: str, at: str, of: str) -> None:
        """Archive that nothing had changed since the capture of the timestamp `of`."""
        with self._lock:
            payload = self._payloads[surt(url)][at] = self._payloads[surt(url)][of]
        # README, "Duplicate Counter"; replay finds the original, CDX has neither status nor MIME type
        self._add(url, at, "warc/revisit", "-", sha1_digest(payload.body), "-")

    def row(self, *fields: str) -> None:
        with self._lock:
            insort(self._rows, (" ".join(fields[:2]), len(self._rows), fields))

    def unplayable(self, url: str, at: str) -> None:
        """Lose a capture's payload; its row stays (cassette ..._should_fail_for_non_playbackable...)."""
        with self._lock:
            del self._payloads[surt(url)][at]

    def block(self, url: str) -> None:
        """Exclude everything at and below a URL."""
        with self._lock:
            self._blocked.append(surt(url))

    def _add(self, url: str, at: str, *rest: str) -> None:
        assert re.fullmatch("[0-9]{14}", at), at
        self.row(surt(url), at, url, *rest)

    # -- what goes wrong

    def fail(
        self,
        kind: str,
        status: int,
        *,
        times: float = 1,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        only_if: Callable[[Asked], bool] = lambda _: True,
        refuse_for: float = 0.0,
    ) -> None:
        """Answer the next requests of a kind, those that `only_if` picks, with an error.

        `status` may be RESET or CUT, `times` math.inf. 429 has no Retry-After unless `headers` has one
        (edgi, get_retry_delay). With `refuse_for`, connections are refused for so many seconds
        afterwards, as by the firewall (edgi#137).
        """
        if body is None:
            error = f"<html><head><title>{status}</title></head><body>nginx</body></html>"
            body = TOO_MANY if status == 429 else error.encode()
        fault = _Fault(kind, status, headers or {}, body, only_if, refuse_for, times)
        with self._lock:
            self._faults.append(fault)

    def forgive(self) -> None:
        with self._lock:
            self._faults.clear()

    def _refuse(self, seconds: float) -> None:
        port = self.port
        super().__exit__()
        for connection in [*self._connections]:
            cut(connection)
        self._reopening = threading.Timer(seconds, self._reopen, [port])
        self._reopening.start()

    def _reopen(self, port: int) -> None:
        self.listen(port)
        self.__enter__()

    def __exit__(self, *_: object) -> None:
        if self._reopening is not None:
            self._reopening.join()
        super().__exit__()

    # -- answers

    def answer(self, handler: Any) -> None:
        self._connections.add(handler.connection)
        asked = _asked(handler)
        answer = self._answer_to(asked)
        if answer.refuse_for:
            handler.close_connection = True
            self._connections.discard(handler.connection)  # the last that is still answered
            self._refuse(answer.refuse_for)
        if answer.status == RESET:
            handler.close_connection = True
            cut(handler.connection)
            return
        # Both are sent packed to whom accepts it (README; all cassettes)
        if asked.accepts_gzip and answer.body and answer.may_pack:
            answer.body = gzip.compress(answer.body, 1)
            answer.headers["Content-Encoding"] = "gzip"
        self.send(handler, answer.status, answer.headers, answer.body)

    def _answer_to(self, asked: Asked) -> _Answer:
        with self._lock:
            self.asked.append(asked)
            fault = self._next_fault(asked)
            if fault is None or fault.status == CUT:
                answer = self._true_answer(asked)
                if fault is not None:
                    answer.body = answer.body[: len(answer.body) // 2]
                return answer
        headers = {"Content-Type": "text/html", **fault.headers}
        return _Answer(fault.status, fault.body, headers, refuse_for=fault.refuse_for)

    def _next_fault(self, asked: Asked) -> _Fault | None:
        for fault in self._faults:
            if fault.left > 0 and fault.kind == asked.kind and fault.only_if(asked):
                fault.left -= 1
                return fault
        return None

    def _true_answer(self, asked: Asked) -> _Answer:
        if asked.kind == "cdx":
            return self._cdx(asked.params)
        if asked.kind == "memento":
            return self._memento(asked)
        # /robots.txt too: web.archive.org has none
        return _Answer(404, b"<html>Not found</html>", {"Content-Type": "text/html"})

    # -- the CDX server

    def _cdx(self, params: Mapping[str, str]) -> _Answer:
        first, last = _key_range(params)
        if first.startswith(tuple(self._blocked)):  # cassette test_search_raises_for_blocked_urls
            error = f"org.archive.util.io.RuntimeIOException: {BLOCKED}"
            named = {"X-Archive-Wayback-Runtime-Error": error, "Content-Type": "text/plain"}
            return _Answer(403, f"{error}\n".encode(), named)
        limit = int(params["limit"])
        # The key is decoded a second time, after the parameters (CDXServer.createBoundedCdxIterator)
        start = unquote_plus(params.get("resumeKey", "")) or first
        position = bisect_left(self._rows, (start,))
        rows = list(islice(self._range(position, first, last, params), limit))
        # A key comes whenever the limit is reached, with or without more rows behind it
        resume_key = _resume_key(rows[-1]) if len(rows) >= limit else ""
        return _Answer(200, _json(rows, resume_key), {"Content-Type": "application/json"})

    def _range(
        self, position: int, first: str, last: str, params: Mapping[str, str]
    ) -> Iterator[tuple[str, ...]]:
        """Yield the rows of a query from a position on. Dates are only filtered, not looked up.

        Both ends are inclusive and compared as text, so that timestamps with month 00 come before
        January (CDXServer.writeCdxResponse).
        """
        for key, _, row in self._rows[position:]:
            if key >= last:
                return
            if key >= first and params["from"] <= row[1] <= params["to"]:
                yield row

    # -- replay

    def _memento(self, asked: Asked) -> _Answer:
        timestamp, key = asked.params["timestamp"], surt(asked.params["url"])
        payloads = self._payloads[key]
        if timestamp in payloads:
            return self._replay(timestamp, payloads[timestamp], asked)
        wanted = _second(timestamp)
        found = min(payloads, key=lambda at: (abs(_second(at) - wanted), at))
        headers = {  # cassette test_get_memento_target_window
            "Content-Type": "text/plain; charset=utf-8",
            "Location": f"{self.memento_url}/{found}id_/{payloads[found].url}",
            "X-Archive-Redirect-Reason": f"found capture at {found}",
        }
        return _Answer(302, b"", headers)

    def _replay(self, at: str, payload: _Payload, asked: Asked) -> _Answer:
        """Return what was archived, under its own status, even 429 or 503 (edgi#158)."""
        headers = {
            "Content-Type": payload.headers["Content-Type"],
            "Memento-Datetime": format_datetime(_time(at), usegmt=True),
        }
        headers |= {f"X-Archive-Orig-{name}": value for name, value in payload.headers.items()}
        location = payload.headers.get("Location")
        if location:  # relative: cassette test_get_memento_with_path_based_redirects
            headers["Location"] = f"/web/{at}id_/{urljoin(payload.url, location)}"
        if not self.names_times:
            headers = {"Content-Type": payload.headers["Content-Type"]}
        encoding, is_packed, is_avoidable = GARBLED.get(payload.garbled, ("", False, True))
        if not payload.garbled or (is_avoidable and not asked.accepts_gzip):
            return _Answer(payload.status, payload.body, headers)
        body = gzip.compress(payload.body, mtime=0) if is_packed else payload.body
        headers["Content-Encoding"] = encoding
        return _Answer(payload.status, body, headers, may_pack=False)


_MEMENTO: Final = re.compile("/web/([0-9]{1,14})id_/(.+)", re.DOTALL)


def _asked(handler: Any) -> Asked:
    headers = {name.lower(): value for name, value in handler.headers.items()}
    memento = _MEMENTO.fullmatch(handler.path)
    if memento:
        params = {"timestamp": memento[1], "url": memento[2]}
        return Asked("memento", handler.path, params, headers)
    parts = urlsplit(handler.path)
    params = {name: values[0] for name, values in parse_qs(parts.query).items()}
    kind = "cdx" if parts.path == "/cdx/search/cdx" else "other"
    return Asked(kind, handler.path, params, headers)


def cut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.shutdown(socket.SHUT_RDWR)


def page(*links: str) -> bytes:
    """A page of these links; the same links make the same page."""
    anchors = "".join(f'<p><a href="{link}">about {link}</a></p>' for link in links)
    return f"<html><head><title>Page</title></head><body>{anchors}</body></html>".encode()


def sha1_digest(payload: bytes) -> str:
    return base64.b32encode(hashlib.sha1(payload).digest()).decode()


def limit_above(rows: int) -> Callable[[Asked], bool]:
    """Pick the CDX queries for more than so many rows."""
    return lambda asked: int(asked.params["limit"]) > rows


def _key_range(params: Mapping[str, str]) -> tuple[str, str]:
    """Return the least key of a query and the least one behind it (CDXServer.getCdx).

    A trailing slash counts for nothing, so `a.org/web/` finds `a.org/webzine` too (wayback#299).
    """
    key: str = surt(params["url"])
    if params.get("matchType") == "prefix":
        return key, key[:-1] + chr(ord(key[-1]) + 1)
    return key, key + "!"


def _resume_key(row: Sequence[str]) -> str:
    """Return the encoded key of what follows a row: its key and a timestamp one greater.

    Cassette test_search_multipage has com%2Ccnn%29%2F+2001041400593%3A after 20010414005939. Other rows
    of the same second are skipped by it.
    """
    return quote_plus(f"{row[0]} {row[1][:-1]}{chr(ord(row[1][-1]) + 1)}")


def _json(rows: Sequence[Sequence[str]], resume_key: str) -> bytes:
    """Write rows as JsonWriter.java does: no header where there are no rows, one row a line."""
    lines = [json.dumps(FIELDS, separators=(",", ":"))] if rows else []
    lines += [json.dumps(row) for row in rows]
    if resume_key:
        lines += ["[]", json.dumps([resume_key])]
    return ("[" + ",\n".join(lines) + "]\n").encode()


def _time(timestamp: str) -> datetime:
    full = timestamp + "00000101000000"[len(timestamp) :]
    return datetime.strptime(full, "%Y%m%d%H%M%S").replace(tzinfo=UTC)


def _second(timestamp: str) -> float:
    return _time(timestamp).timestamp()

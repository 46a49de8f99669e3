"""A web server whose every answer is broken in some way: a raw socket, and a seed for its whims."""

import gzip
import random
import re
import socket
import struct
import threading
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from servers import free_port

ENDLESS_SECONDS = 30.0
"""How long an endless body goes on, should nobody hang up."""
_PATH = re.compile(rb"GET (\S+)")
_TAGS = (b"a", b"area", b"base", b"p", b"table", b"script", b"svg", b"math", b"template", b"meta")


@dataclass(frozen=True)
class Sizes:
    """How large the large answers are.

    Links on the longest pages, bytes of a link, depth of nesting, attributes of a tag, links that
    take the long way or lie in one another, and bytes of what decoders take long for.
    """

    links: int = 100_000
    link_bytes: int = 1_000_000
    depth: int = 20_000
    attributes: int = 300_000
    odd_links: int = 100_000
    bytes: int = 3_000_000


class MalformedSite:
    """Answers `/KIND/NUMBER` with that kind of broken answer; NUMBER seeds what varies in it."""

    def __init__(self, sizes: Sizes | None = None, salt: str = "") -> None:
        """With another salt its answers are others."""
        self._sizes = sizes or Sizes()
        self._salt = salt
        self._port = free_port()
        self._listener = socket.create_server(("127.0.0.1", self._port), backlog=512)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self.asked: Counter[str] = Counter()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def urls(self, number: int) -> list[str]:
        """Return so many URLs, of all kinds in turn."""
        return [
            f"{self.url}/{kind}/{place}"
            for place, kind in zip(range(number), _in_turn(), strict=False)
        ]

    def _serve(self) -> None:
        while not self._is_over.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(client,), daemon=True).start()

    def _answer(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            client.settimeout(30)
            found = _PATH.match(client.recv(65_536))
            path = found[1].decode("latin-1") if found else "/"
            kind, _, number = path.strip("/").partition("/")
            self.asked[kind] += 1
            if kind not in KINDS:
                client.sendall(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
                return
            answers = Answers(random.Random(f"{self._salt}{kind} {number}"), self._sizes, path)
            for part in getattr(answers, kind.replace("-", "_"))():
                client.sendall(part)
                if self._is_over.is_set():
                    return
            if kind == "reset":
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def close(self) -> None:
        self._is_over.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()


@contextmanager
def malformed_site(sizes: Sizes | None = None, salt: str = "") -> Iterator[MalformedSite]:
    site = MalformedSite(sizes, salt)
    site._thread.start()
    try:
        yield site
    finally:
        site.close()


def _page(
    body: bytes, *headers: bytes, kind: bytes = b"text/html; charset=utf-8"
) -> Iterator[bytes]:
    lines = [b"HTTP/1.1 200 OK", b"Content-Type: " + kind, b"Connection: close", *headers]
    if not any(line.lower().startswith(b"content-length") for line in lines):
        lines.append(b"Content-Length: %d" % len(body))
    yield b"\r\n".join([*lines, b"", b""])
    yield body


def _redirect(target: bytes) -> Iterator[bytes]:
    head = b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nConnection: close\r\nLocation: "
    yield head + target + b"\r\n\r\n"


@dataclass(frozen=True)
class Answers:
    """Each kind of broken answer, in parts, to a path."""

    rng: random.Random
    sizes: Sizes
    path: str

    def _links(self, number: int) -> bytes:
        return b"".join(
            b'<a href="/x/%d">%d</a>' % (self.rng.randrange(10**9), n) for n in range(number)
        )

    def fuzzed(self) -> Iterator[bytes]:
        body = bytearray(b"<html><body>" + self._links(50) + b"</body></html>")
        for _ in range(self.rng.randrange(1, 200)):
            body[self.rng.randrange(len(body))] = self.rng.randrange(256)
        return _page(bytes(body))

    def soup(self) -> Iterator[bytes]:
        parts = []
        for _ in range(self.rng.randrange(10, 300)):
            tag = self.rng.choice(_TAGS)
            value = bytes(self.rng.randrange(256) for _ in range(self.rng.randrange(12)))
            parts.append(
                self.rng.choice([b"<%s href='%s'>", b"<%s href=%s", b"</%s %s>"]) % (tag, value)
            )
        return _page(b"".join(parts))

    def noise(self) -> Iterator[bytes]:
        return _page(self.rng.randbytes(self.rng.randrange(1, 20_000)))

    def long_link(self) -> Iterator[bytes]:
        link = b"x" * self.sizes.link_bytes
        return _page(
            b'<a href="/%s">x</a><a href="http://%s/">y</a><base href="//%s">' % ((link,) * 3)
        )

    def many_links(self) -> Iterator[bytes]:
        links = self.sizes.links if self.rng.random() < 0.1 else self.sizes.links // 50
        return _page(b"".join(b"<a href=%d>" % number for number in range(links)))

    def deep(self) -> Iterator[bytes]:
        tag = self.rng.choice([b"<p>", b"<div>", b"<table><tr><td>", b"<b><i>", b"<svg>"])
        return _page(tag * self.sizes.depth + self._links(3))

    def charset(self) -> Iterator[bytes]:
        name = self.rng.choice(
            [b"utf-16", b"utf-7", b"no-such-code", b"hex", b"rot13", b"idna", b'"', b"\xff"]
        )
        text = "<p>ü€</p>".encode(self.rng.choice(["utf-8", "latin-1", "utf-16"]), "replace")
        return _page(self._links(5) + text, kind=b"text/html; charset=" + name)

    def meta_charset(self) -> Iterator[bytes]:
        name = self.rng.choice([b"utf-16", b"utf-32", b"x-user-defined", b"base64", b"punycode"])
        return _page(b"<meta charset=%s>" % name + self._links(5), kind=b"text/html")

    def endless(self, part: bytes = b"", pause: float = 0.0) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n"
        deadline = time.monotonic() + ENDLESS_SECONDS
        while time.monotonic() < deadline:
            yield part or self._links(100) * 20
            time.sleep(pause)

    def trickle(self) -> Iterator[bytes]:
        return self.endless(b"<a href=x>", 0.2)

    def silent(self) -> Iterator[bytes]:
        time.sleep(ENDLESS_SECONDS / 10)
        return iter(())

    def gzip_cut(self) -> Iterator[bytes]:
        whole = gzip.compress(self._links(500))
        return _page(whole[: self.rng.randrange(1, len(whole))], b"Content-Encoding: gzip")

    def gzip_bad(self) -> Iterator[bytes]:
        whole = bytearray(gzip.compress(self._links(500)))
        whole[self.rng.randrange(10, len(whole))] ^= 1 + self.rng.randrange(255)
        encoding = self.rng.choice(
            [b"gzip", b"deflate", b"gzip, gzip", b"x-gzip", b"br", b"zstd", b"no-such"]
        )
        return _page(bytes(whole), b"Content-Encoding: " + encoding)

    def bomb(self) -> Iterator[bytes]:
        squeeze = zlib.compressobj(9, zlib.DEFLATED, 31)
        block = b"<p>" * 100_000
        body = b"".join(squeeze.compress(block) for _ in range(200)) + squeeze.flush()
        return _page(body, b"Content-Encoding: gzip")

    def length(self) -> Iterator[bytes]:
        value = self.rng.choice(
            [b"-5", b"1e3", b"99999999999999999999", b"3", b"100000", b"x", b"", b"5, 6"]
        )
        return _page(self._links(20), b"Content-Length: " + value)

    def chunks(self) -> Iterator[bytes]:
        chunk = self.rng.choice(
            [b"zz\r\nx\r\n", b"-1\r\n", b"ffffffffffffffff\r\nx", b"5\r\nab", b"3\r\nabc\r\n0"]
        )
        yield b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nTransfer-Encoding: chunked\r\n\r\n"
        yield b"5\r\n<a hr\r\n" + chunk

    def headers(self) -> Iterator[bytes]:
        junk = [
            b"X: " + b"y" * 100_000,
            b": no name",
            b"no colon",
            b"X\x00Y: \x00\xff",
            b"ETag: " + self.rng.randbytes(300).replace(b"\n", b"").replace(b"\r", b""),
            b"Last-Modified: " + b"\xff" * 70_000,
            b"Retry-After: 1e999",
            b"Content-Type: \xff\xfe",
            b"Content-Type: text/html; charset=" + b"z" * 5_000,
        ]
        return _page(self._links(20), *self.rng.sample(junk, 3))

    def many_headers(self) -> Iterator[bytes]:
        return _page(self._links(20), *(b"X-%d: y" % number for number in range(2_000)))

    def status(self) -> Iterator[bytes]:
        line = self.rng.choice(
            [b"200", b"999 Odd", b"0 Nothing", b"-1 Less", b"20 OK", b"2000 OK", b"abc"]
        )
        yield b"HTTP/1.1 " + line + b"\r\nContent-Type: text/html\r\nContent-Length: 2\r\n\r\nhi"

    def not_http(self) -> Iterator[bytes]:
        yield self.rng.choice(
            [b"SSH-2.0-OpenSSH_9\r\n", b"220 smtp\r\n", b"\x16\x03\x01", b"\r\n\r\n", b"HTTP"]
        )
        yield self.rng.randbytes(self.rng.randrange(500))

    def nothing(self) -> Iterator[bytes]:
        return iter(())

    def reset(self) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 500\r\n\r\n<a href=x>"

    def loop(self) -> Iterator[bytes]:
        return _redirect(self.path.encode("latin-1"))

    def astray(self) -> Iterator[bytes]:
        targets = [b"http://[", b"//", b"javascript:x()", b"\xff\xfe", b"", b"file:///etc"]
        return _redirect(
            self.rng.choice([*targets, b"http://127.0.0.1:99999/", b"/" + b"y" * 100_000])
        )

    def bases(self) -> Iterator[bytes]:
        bases = [b"http://[", b"http://h:99999/", b"data:text/html,x", b"//\xff"]
        bases.append(b"http://" + b"a." * 5_000)
        return _page(b'<base href="%s">' % self.rng.choice(bases) + self._links(10))

    def hrefs(self) -> Iterator[bytes]:
        odd = [
            b"http://[::1", b"http://h:99999/", b"http://999.999.1.1/", b"http://user:pw@h/", b"//",
            b"http://%00/", b"http://\xed\xa0\x80/", b"?" + b"&" * 2_000, b"/%ff%fe", b"/../" * 600,
            b"http://xn--/", b"http://" + b"a" * 300, b"http://a..b/", b"&#xD800;", b"&#0;", b"#" * 99,
            b"http:", b"http://\xc3\xbc.de", b"http://1.2.3/",
        ]  # fmt: skip
        return _page(b"".join(b'<a href="%s">x</a>' % href for href in self.rng.sample(odd, 12)))

    def attributes(self) -> Iterator[bytes]:
        form = self.rng.choice(
            [b"a%d ", b"a%d=1 ", b'a%d=">" ', b'b==" a%d=">" ', b"<b%d ", b"a%d/"]
        )
        names = (form % number for number in range(self.sizes.attributes))
        return _page(b"<a href=x " + b"".join(names) + b">" + self._links(3))

    def some_attributes(self) -> Iterator[bytes]:
        names = (b"a%d" % number for number in range(self.rng.randrange(100, 500)))
        tag = b"<p " + b" ".join(names) + b"></p>"
        return _page(tag * (self.sizes.bytes // len(tag)) + self._links(3))

    def areas(self) -> Iterator[bytes]:
        half = self.sizes.odd_links // 2
        return _page(b"<a href=x></a><area href=y>" * half + self._links(3))

    def odd_links(self) -> Iterator[bytes]:
        forms = [b"/x%%41?b=%d&a=%%C3", "http://ü%d.de/".encode(), b"a/../b/%d;sid=4/../"]
        form = self.rng.choice([*forms, b"/%d?" + b"a=%%C3&" * 300])
        number = min(self.sizes.odd_links, self.sizes.bytes // len(form))
        return _page(b"".join(b"<a href='" + form % place + b"'>" for place in range(number)))

    def nested_links(self) -> Iterator[bytes]:
        links = b"".join(b"<a href=/%d><div>" % number for number in range(2_000))
        return _page(links + b"x" * self.sizes.bytes)

    def punycode(self) -> Iterator[bytes]:
        body = self._links(3) + b"x-" + b"ba" * (self.sizes.bytes // 2)
        if self.rng.random() < 0.5:
            return _page(body, kind=b"text/html; charset=punycode")
        return _page(b"<meta charset=punycode>" + body, kind=b"text/html")

    def packed_bomb(self) -> Iterator[bytes]:
        inside = gzip.compress(b"<p>" * 10_000_000)
        return _page(gzip.compress(inside), b"Content-Encoding: gzip")

    def spaces(self) -> Iterator[bytes]:
        text = self.rng.choice(
            [b" ", b"x ", b"&amp;", b"<", b"<!--", b"</p>", b"<a href=", b"\xc3", b"\n<a "]
        )
        return _page(self._links(3) + text * (self.sizes.bytes // len(text)))


KINDS = [
    name.replace("_", "-")
    for name, member in vars(Answers).items()
    if callable(member) and not name.startswith("_")
]
_LONG_TO_READ = (
    *("attributes", "some-attributes", "areas", "odd-links", "nested-links"),
    *("punycode", "packed-bomb", "spaces"),
)
_LONG_TO_FETCH = ("long-link", "many-links", "deep", "endless", "trickle", "silent", "bomb")
COSTLY = _LONG_TO_FETCH + _LONG_TO_READ


def _in_turn() -> Iterator[str]:
    """Yield the names of kinds for ever; costly ones now and then."""
    cheap = [kind for kind in KINDS if kind not in COSTLY]
    while True:
        for costly in COSTLY:
            yield from cheap
            yield costly

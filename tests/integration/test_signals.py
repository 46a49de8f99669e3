"""Sitemaps in real crawls: honest, lazy, lying, absent and broken ones on fifty hosts."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread

import pytest

from hacs_crawler.state import MemoryStore, Source, read_hearings, read_sources  # noqa: F401
from hacs_crawler.state.address import open_store
from integration_support import Project

SITES = 50
PAGES = 4
KINDS = ("honest", "lazy", "lying", "absent", "broken")
DAY = timedelta(days=1)
START = datetime(2026, 1, 1, 6, tzinfo=UTC)
LARGE = 11 * 1024 * 1024


class Web:
    """Fifty hosts, 127.0.0.1 to .50 on one port; page n of a host is updated every n + 2 days."""

    def __init__(self) -> None:
        self.today = START
        self.asked: list[tuple[str, str]] = []
        self._lock = Lock()
        web = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                host = self.headers.get("Host", "").partition(":")[0]
                with web._lock:
                    web.asked.append((host, self.path))
                status, headers, body = web.answer(host, self.path, dict(self.headers))
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("0.0.0.0", 0), Handler)  # noqa: S104 - all of 127.0.0.x
        self._server.daemon_threads = True
        Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._server.server_port)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def url(self, number: int, path: str) -> str:
        return f"http://127.0.0.{number + 1}:{self.port}{path}"

    def pages(self) -> list[str]:
        return [self.url(n, f"/p{k}.html") for n in range(SITES) for k in range(PAGES)]

    def sources(self) -> list[tuple[str, str]]:
        return [one for one in self.asked if ".html" not in one[1]]

    def updated(self, page: int) -> datetime:
        """When a page was updated last."""
        days = int((self.today - START) / DAY)
        return START - DAY / 4 + DAY * (days - days % (page + 2))

    def answer(
        self, host: str, path: str, headers: dict[str, str]
    ) -> tuple[int, dict[str, str], bytes]:
        number = int(host.rpartition(".")[2]) - 1
        if found := re.fullmatch(r"/p(\d)\.html", path):
            page = int(found[1])
            count = int((self.today - START) / DAY) // (page + 2)
            links = "".join(f'<a href="/l{page}-{k}">x</a>' for k in range(count + 1))
            return 200, {"Content-Type": "text/html"}, f"<html><body>{links}".encode()
        if path == "/robots.txt":
            body = f"User-agent: *\nDisallow: /private\nSitemap: {self.url(number, '/map.xml')}\n"
            named = KINDS[number % 5] in {"honest", "lying"} and number % 2
            return (200, {}, body.encode()) if named else (404, {}, b"")
        if path in {"/map.xml", "/sitemap.xml"}:
            return self.sitemap(number, path, headers)
        return 404, {}, b""

    def sitemap(
        self, number: int, path: str, headers: dict[str, str]
    ) -> tuple[int, dict[str, str], bytes]:
        kind = KINDS[number % 5]
        if kind == "absent":
            return 404, {}, b""
        if kind == "broken":
            return self.broken(number)
        times = {
            "honest": [self.updated(page) for page in range(PAGES)],
            "lazy": [START - 30 * DAY] * PAGES,
            "lying": [self.today - DAY / 24] * PAGES,
        }[kind]
        body = self.urlset(number, [one.isoformat() for one in times])
        etag = f'"{hash(body)}"'
        if headers.get("If-None-Match") == etag:
            return 304, {"ETag": etag}, b""
        return 200, {"Content-Type": "application/xml", "ETag": etag}, body

    def urlset(self, number: int, times: list[str], prefix: str = "") -> bytes:
        urls = "".join(
            f"<url><loc>{self.url(number, f'/p{page}.html')}</loc><lastmod>{time}</lastmod></url>"
            for page, time in enumerate(times)
        )
        space = "http://www.sitemaps.org/schemas/sitemap/0.9"
        return f'<?xml version="1.0"?>{prefix}<urlset xmlns="{space}">{urls}</urlset>'.encode()

    def broken(self, number: int) -> tuple[int, dict[str, str], bytes]:
        """Give what does harm, another way on each host."""
        space = "http://www.sitemaps.org/schemas/sitemap/0.9"
        elsewhere = f"http://127.0.0.99:{self.port}"
        levels = "".join(f'<!ENTITY e{n} "{f"&e{n - 1};" * 10}">' for n in range(1, 12))
        bomb = f'<!DOCTYPE u [<!ENTITY e0 "{"x" * 100}">{levels}]>'
        now = self.today.isoformat()
        ways = (
            (200, {}, b"<urlset>" + b" " * LARGE),
            (200, {}, gzip.compress(b"<urlset>" + b" " * LARGE)),
            (200, {}, self.urlset(number, ["&e11;"] * PAGES, bomb)),
            (200, {}, self.urlset(number, ["2999-01-01", "yesterday", "", "-1"])),
            (
                200,
                {},
                f'<urlset xmlns="{space}"><url><loc>{elsewhere}/p0.html</loc><lastmod>{now}</lastmod>'
                f"</url><url><loc>{self.url(number, '/unknown.html')}</loc><lastmod>{now}</lastmod>"
                "</url></urlset>".encode(),
            ),
            (301, {"Location": f"{elsewhere}/sitemap.xml"}, b""),
            (
                200,
                {},
                f'<sitemapindex xmlns="{space}"><sitemap><loc>{elsewhere}/s.xml</loc></sitemap>'
                + "".join(
                    f"<sitemap><loc>{self.url(number, f'/s{k}.xml')}</loc></sitemap>" for k in range(500)
                )
                + "</sitemapindex>",
            ),
            (500, {}, b""),
            (200, {}, b"\x00\xff" * 1000),
            (301, {"Location": "/sitemap.xml"}, b""),
        )
        status, headers, body = ways[number // 5]
        return status, headers, body if isinstance(body, bytes) else body.encode()


@pytest.fixture
def web() -> Iterator[Web]:
    web = Web()
    yield web
    web.close()


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path, f"sqlite:///{tmp_path}/state.db")

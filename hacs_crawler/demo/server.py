"""The server: the web of a folder on one port of this machine, its archive on another.

`python -m hacs_crawler.demo.server FOLDER` prints the two ports, as JSON, when it is ready, and ends
when its standard input does: it cannot outlive whoever started it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from hacs_crawler.demo import clock
from hacs_crawler.demo.archive import HTML, Archive, Reply
from hacs_crawler.demo.pages import GONE, render
from hacs_crawler.demo.web import Web, WebPage, read_web

CDX_PATH: Final = "/cdx/search/cdx"
MEMENTO_PATH: Final = "/web"
WEB_FILE: Final = "web.json"
CLOCK_FILE: Final = "clock"
TEXT: Final = {"Content-Type": "text/plain; charset=utf-8"}
ROBOTS: Final = Reply(200, b"User-agent: *\nAllow: /\n", TEXT)
NOT_FOUND: Final = Reply(404, GONE, {"Content-Type": HTML})

Site = Callable[[str], Reply]
"""Answers a request, given what follows the host in its URL."""


class LiveWeb:
    """A web as it is now: each page as it stands at the clock's moment."""

    def __init__(self, web: Web, now: Callable[[], float]) -> None:
        self._pages = {page.path: page for page in web.pages}
        self._now = now
        sites: dict[str, list[str]] = {}
        for page in web.pages:
            sites.setdefault(page.homepage, []).append(page.path)
        self._sites = {homepage: tuple(paths) for homepage, paths in sites.items()}

    def answer(self, place: str) -> Reply:
        """Reply a request for a page or robots.txt."""
        path = unquote(urlsplit(place).path)
        if path == "/robots.txt":
            return ROBOTS
        page, now = self._pages.get(path), self._now()
        if page is None or page.is_gone(now):
            return NOT_FOUND
        return Reply(200, self.show(page, now), {"Content-Type": HTML})

    def show(self, page: WebPage, at: float) -> bytes:
        """Return the HTML of a page at a second; a homepage links to the pages below it."""
        return render(page, self._sites[page.homepage], at)


def archive_site(archive: Archive, now: Callable[[], float]) -> Site:
    """Return what answers requests to an archive."""

    def answer(place: str) -> Reply:
        parts = urlsplit(place)
        if parts.path == CDX_PATH:
            return archive.index(dict(parse_qsl(parts.query)), now())
        if place.startswith(f"{MEMENTO_PATH}/"):
            return archive.memento(place.removeprefix(f"{MEMENTO_PATH}/"), now())
        return NOT_FOUND

    return answer


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one packet an answer
    disable_nagle_algorithm = True
    server: Server

    def do_GET(self) -> None:
        answer = self.server.site(self.path)
        self.send_response_only(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)


class Server(ThreadingHTTPServer):
    """Serves one site on a port of this machine: a free one, unless told otherwise; raises OSError."""

    daemon_threads = True

    def __init__(self, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.site: Site = lambda _: NOT_FOUND

    def handle_error(self, request: object, client_address: object) -> None:
        """Pass over connections that a crawler has cut."""

    def begin(self, site: Site) -> None:
        """Reply requests from now on, in a thread of its own."""
        self.site = site
        threading.Thread(target=self.serve_forever, daemon=True).start()


def serve(folder: Path) -> None:
    """Serve until standard input ends; raises HacsError."""
    web = read_web(folder / WEB_FILE)

    def now() -> float:
        return clock.read(folder / CLOCK_FILE)

    live, pages, mementos = LiveWeb(web, now), Server(), Server()
    base = f"http://127.0.0.1:{pages.server_port}"
    pages.begin(live.answer)
    mementos.begin(archive_site(Archive(web, base, live.show), now))
    sys.stdout.write(json.dumps([pages.server_port, mementos.server_port]) + "\n")
    sys.stdout.flush()
    sys.stdin.buffer.read()


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
    os._exit(0)  # threads may still be answering

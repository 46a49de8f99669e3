"""The server of the demonstration's web, on a port of this machine."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final
from urllib.parse import unquote, urlsplit

from hacs_crawler.demo.pages import render
from hacs_crawler.demo.web import Web, WebPage

NOT_FOUND: Final = b"<!DOCTYPE html><title>404 Not Found</title><p>There is no such page here.\n"


class LiveWeb:
    """A web as it is now: each page as it stands at the clock's moment."""

    def __init__(self, web: Web, now: Callable[[], float]) -> None:
        self._pages = {page.path: page for page in web.pages}
        self._now = now
        self._below: dict[str, tuple[str, ...]] = {}
        for page in web.pages:
            self._below[page.homepage] = (*self._below.get(page.homepage, ()), page.path)

    def answer(self, path: str) -> bytes | None:
        """Return the HTML of a path as it is now, None if there is no page."""
        page, now = self._pages.get(path), self._now()
        return None if page is None or page.is_gone(now) else self.show(page, now)

    def show(self, page: WebPage, at: float) -> bytes:
        """Return the HTML of a page at a second; it links to its author's other pages."""
        return render(page, self._below[page.homepage], at)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # one packet an answer
    disable_nagle_algorithm = True
    server: Server

    def do_GET(self) -> None:
        body = self.server.web.answer(unquote(urlsplit(self.path).path))
        self.send_response_only(404 if body is None else 200)
        answer = NOT_FOUND if body is None else body
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)


class Server(ThreadingHTTPServer):
    """Serves a web on a port of this machine, 0 for a free one, in a thread; raises OSError."""

    daemon_threads = True

    def __init__(self, web: LiveWeb, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        self.web = web
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()

    @property
    def address(self) -> str:
        """The beginning of its URLs."""
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: object, client_address: object) -> None:
        """Pass over connections that a crawler has cut."""

"""A local site whose pages are made by JavaScript, each in a way of its own."""

import json
import time
from http.server import BaseHTTPRequestHandler
from threading import Event, Lock
from typing import NamedTuple
from urllib.parse import urlsplit

from servers import LocalServer

APP = """
fetch("/data" + location.pathname).then(answer => answer.json()).then(links => {
  for (const link of links) {
    const a = document.createElement("a");
    a.href = link; a.textContent = link;
    document.querySelector("#root").append(a, document.createElement("br"));
  }
});
"""
SHELL = """<!doctype html><html><head><title>App</title></head><body>
<div id="root"></div>{more}<script src="/app.js"></script></body></html>"""
SAME = """<!doctype html><html><body><div id="root">{links}</div>
<script>/* {padding} */ document.title = "seen";</script></body></html>"""
INFINITE = """<!doctype html><html><body><div id="root"></div><script>
let next = 0, busy = false;
async function more() {
  if (busy || document.body.scrollHeight > scrollY + 2 * innerHeight) return;
  busy = true;
  const links = await (await fetch("/batch/" + next++)).json();
  for (const link of links) {
    const box = document.createElement("div");
    box.style.height = "200px";
    box.innerHTML = `<a href="${link}">x</a>`;
    document.querySelector("#root").append(box);
  }
  busy = false;
  more();
}
addEventListener("scroll", more);
more();
</script></body></html>"""
SCRIPTS = {
    "/stuck": "<script>while (true) {}</script>",
    "/crash": "<script>const all = []; while (true) all.push(new Array(100000).fill({}))</script>",
    "/never": '<script>fetch("/hangs")</script><script src="/hangs" async></script>',
    "/away": '<script>location = "http://localhost:1/"</script>',
    "/blank": '<script>location = "about:blank"</script>',
    "/heavy": '<img src="/a.png"><p>text</p><video src="/v.mp4" autoplay></video>'
    "<style>@font-face{font-family:F;src:url(/f.woff)}p{font-family:F}</style>",
}
PAGES = {path: SHELL.format(more=more) for path, more in SCRIPTS.items()} | {"/infinite": INFINITE}


class Asked(NamedTuple):
    path: str
    at: float
    by_browser: bool


class ScriptedSite(LocalServer):
    """`links` are those that pages show, by path; what a page below /app shows only a browser sees."""

    def __init__(self) -> None:
        self.links: dict[str, list[str]] = {}
        self.moved: dict[str, str] = {}
        """Where redirects lead."""
        self.asked: list[Asked] = []
        self._over = Event()
        self._lock = Lock()
        super().__init__()

    def times_asked(self, path: str) -> int:
        return sum(one.path == path for one in self.asked)

    def body_of(self, path: str) -> tuple[str, str]:
        files = {
            "/robots.txt": ("text/plain", "User-agent: *\nDisallow: /data/forbidden\n"),
            "/app.js": ("text/javascript", APP),
            "/file": ("application/octet-stream", "x" * 100),
        }
        if path in files:
            return files[path]
        if path.startswith("/data/"):
            return "application/json", json.dumps(self.links.get(path.removeprefix("/data"), []))
        if path.startswith("/batch/"):
            number = int(path.removeprefix("/batch/"))
            return "application/json", json.dumps([f"/entry/{number}-{n}" for n in range(5)])
        if path.startswith(("/app", "/forbidden")):
            return "text/html", SHELL.format(more="")
        anchors = "".join(f'<a href="{link}">x</a>' for link in self.links.get(path, []))
        return "text/html", PAGES.get(path) or SAME.format(links=anchors, padding="x" * 2000)

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        by_browser = "sec-fetch-mode" in {name.lower() for name in handler.headers}
        path = urlsplit(handler.path).path  # as a proxy it is given whole URLs
        with self._lock:
            self.asked.append(Asked(path, time.monotonic(), by_browser))
        if path == "/hangs":
            self._over.wait()
            return
        kind, text = self.body_of(path)
        headers = {"Content-Type": f"{kind}; charset=utf-8"}
        if path in self.moved:
            headers["Location"] = self.moved[path]
        self.send(handler, 302 if path in self.moved else 200, headers, text.encode())

    def __exit__(self, *error: object) -> None:
        self._over.set()
        super().__exit__(*error)

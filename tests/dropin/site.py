"""The site that judged spiders crawl: what it answers follows from the URL alone.

| path                        | answer                                                          |
|-----------------------------|-----------------------------------------------------------------|
| `/links?to=/a&to=/b`        | a page with these links                                         |
| `/status/404`               | that status; `?after=3600` adds a Retry-After                   |
| `/flaky/503/2`              | that status twice, then a page; `?after=…` too                  |
| `/redirect?to=/a`           | 302 to there                                                    |
| `/slow/0.5`                 | a page, after so many seconds                                   |
| `/broken`                   | a closed connection                                             |
| `/echo`                     | method, body and cookies as JSON                                |
| `/login`, `/account`        | a form with a CSRF token, and what only those see who sent it    |
| `/scroll?page=0`            | JSON with three links and the number of the next page           |
| `/sitemap.xml`, `/feed.xml` | what they are called                                            |
| `/file/a.txt`               | a text file                                                     |
| `/api/extract`              | a page as Zyte API answers it                                    |
| `/robots.txt`               | disallows `/private`                                            |
| `/-/asked`                  | what was asked for since the last time, as JSON                 |
| anything else               | a page without links                                            |
"""

import base64
import json
import threading
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qs, parse_qsl, urlsplit

from servers import LocalServer

TOKEN = "5f2a"
COOKIE = "session=9c1e"
HTML = "text/html; charset=utf-8"


class Asked(NamedTuple):
    """One request as the site saw it, without the site's port."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...]
    body: str


class Answer(NamedTuple):
    body: str = ""
    status: int = 200
    content_type: str = HTML
    headers: Mapping[str, str] = {}


class JudgedSite(LocalServer):
    """Serves every address of the loopback range, so that 127.0.0.2 is another host."""

    def __init__(self) -> None:
        self._asked: list[Asked] = []
        self._times: Counter[str] = Counter()
        self._lock = threading.Lock()
        super().__init__("0.0.0.0")

    def answer(self, handler: Any) -> None:
        method, path, headers = handler.command, handler.path, dict(handler.headers)
        if path == "/-/asked":
            answer = _json(self.take_asked())
        else:
            body = handler.body.decode()
            self._note(method, path, headers, body)
            if urlsplit(path).path == "/broken":
                handler.close_connection = True
                return
            answer = self._answer(method, path, headers, body)
        given = {"Content-Type": answer.content_type, **answer.headers}
        self.send(handler, answer.status, given, answer.body.encode())

    def take_asked(self) -> list[Asked]:
        """What was asked for, in order; begin anew, as for one who never asked anything."""
        with self._lock:
            asked, self._asked = self._asked, []
            self._times.clear()
            return asked

    def _note(self, method: str, path: str, headers: dict[str, str], body: str) -> None:
        port = f":{self.port}"
        rest = {name: value.replace(port, "") for name, value in headers.items()}
        url = f"http://{rest.pop('Host', '?')}{path}".replace(port, "")
        with self._lock:
            self._asked.append(Asked(method, url, tuple(sorted(rest.items())), body))

    def _answer(  # noqa: C901, PLR0911, PLR0912 - a case for each path of the table above
        self, method: str, path: str, headers: dict[str, str], body: str
    ) -> Answer:
        split = urlsplit(path)
        query = parse_qs(split.query)
        after = {"Retry-After": query["after"][0]} if "after" in query else {}
        match split.path.strip("/").split("/"):
            case ["links"]:
                return _page(path, query.get("to", []))
            case ["status", status]:
                return Answer(f"<html><body>{status}</body></html>", int(status), HTML, after)
            case ["flaky", status, times]:
                with self._lock:
                    self._times[path] += 1
                    is_enough = self._times[path] > int(times)
                return _page(path) if is_enough else Answer("not now", int(status), HTML, after)
            case ["redirect"]:
                return Answer("", 302, HTML, {"Location": query.get("to", ["/redirect"])[0]})
            case ["slow", seconds]:
                time.sleep(float(seconds))
                return _page(path)
            case ["echo"]:
                return _json({"method": method, "body": body, "cookie": headers.get("Cookie")})
            case ["login"]:
                return _login(method, body)
            case ["account"]:
                is_known = headers.get("Cookie") == COOKIE
                return _page(path, ["/account/1", "/account/2"] if is_known else ["/login"])
            case ["scroll"]:
                number = int(query["page"][0])
                found = {"links": [f"/item/{number}/{n}" for n in range(3)]}
                return _json({**found, "next": number + 1 if number < 4 else None})
            case ["sitemap.xml"]:
                return Answer(self._sitemap(), 200, "application/xml")
            case ["feed.xml"]:
                entries = "".join(f"<entry><id>{n}</id></entry>" for n in range(3))
                return Answer(f"<feed>{entries}</feed>", 200, "application/xml")
            case ["file", name]:
                return Answer(f"the file {name}", 200, "text/plain")
            case ["api", "extract"]:
                return _extract(json.loads(body))
            case ["robots.txt"]:
                return Answer("User-agent: *\nDisallow: /private\n", 200, "text/plain")
            case _:
                return _page(path)

    def _sitemap(self) -> str:
        urls = "".join(f"<url><loc>{self.url}/map/{n}</loc></url>" for n in range(4))
        space = "http://www.sitemaps.org/schemas/sitemap/0.9"
        return f'<?xml version="1.0"?><urlset xmlns="{space}">{urls}</urlset>'


def _page(title: str, links: list[str] | None = None) -> Answer:
    anchors = "".join(f'<p><a href="{link}">{link}</a></p>' for link in links or [])
    return Answer(f"<html><head><title>{title}</title></head><body>page{anchors}</body></html>")


def _json(content: Any) -> Answer:
    return Answer(json.dumps(content), 200, "application/json")


def _extract(asked: dict[str, Any]) -> Answer:
    if asked["url"].endswith("/status/503"):
        return Answer('{"type": "/request/invalid"}', 400, "application/json")
    page = _page(asked["url"], parse_qs(urlsplit(asked["url"]).query).get("to")).body
    if "browserHtml" in asked:
        return _json({"url": asked["url"], "browserHtml": page})
    encoded = base64.b64encode(page.encode()).decode()
    headers = [{"name": "content-type", "value": HTML}]
    return _json(
        {
            "url": asked["url"],
            "statusCode": 200,
            "httpResponseBody": encoded,
            "httpResponseHeaders": headers,
        }
    )


def _login(method: str, body: str) -> Answer:
    if method != "POST":
        form = f'<input type="hidden" name="token" value="{TOKEN}"><input name="user">'
        return Answer(f'<html><body><form method="post">{form}</form></body></html>')
    if dict(parse_qsl(body)) != {"token": TOKEN, "user": "ada"}:
        return Answer("who are you?", 403)
    return Answer("", 302, HTML, {"Location": "/account", "Set-Cookie": f"{COOKIE}; Path=/"})

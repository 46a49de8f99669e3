"""The site of a scenario: a real server in the process that crawls, with a log of what it answered."""

import asyncio
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from email import message_from_string
from typing import Any

from fuzz.scenario import Page, Scenario

HTML = "text/html; charset=utf-8"
CLOSED_SECONDS = 3600
SLOW_SECONDS = 0.5
PADDING = "<p>what this page says does not change</p>" * 3


@dataclass
class Answer:
    body: bytes = b""
    status: int = 200
    kind: str = HTML
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    is_broken: bool = False


NOT_FOUND = Answer(b"<p>nothing here", 404)
ROBOTS_TXT = {
    "open": "User-agent: *\nDisallow:\n",
    "closed to some": "User-agent: *\nDisallow: /p1\nCrawl-delay: 0.1\n",
    "names a sitemap": "User-agent: *\nDisallow: /p1\nSitemap: http://HOST/sitemap.xml\n",
    "malformed": "\xff\xfe<html>" + bytes(range(256)).decode("latin-1"),
    "malformed sitemap": "Sitemap: http://[::1/x\nSitemap: //\nSitemap: http://x:y/\nSitemap: \0\n",
    "broken": "User-agent",
}
SITEMAPS = {
    "index": "<sitemapindex><sitemap><loc>http://HOST/part.xml</loc></sitemap></sitemapindex>",
    "malformed": "<urlset><url><loc>http://[</loc><lastmod>9999-99-99</lastmod></url><url>",
}
FILES = {
    "robots.txt": "text/plain",
    "sitemap.xml": "application/xml",
    "part.xml": "application/xml",
    "feed.xml": "application/atom+xml",
}
LISTED = "<url><loc>{url}</loc><lastmod>2026-01-{day:02}</lastmod></url>"
ENTRY = (
    '<entry><title>t</title><link href="{url}"/><id>{url}</id>'
    "<updated>2026-01-{day:02}T00:00:00Z</updated></entry>"
)
FEED_LINK = '<link rel="alternate" type="application/atom+xml" href="/feed.xml">'
SCRIPT = '<div id="root"></div><script src="/app.js"></script>'


class FuzzedSite:
    """Answers as the scenario says on the `day`; `log` has what it was asked, and the status."""

    def __init__(self) -> None:
        self.day = self.port = 0
        self.log: list[dict[str, Any]] = []
        self._scenario = Scenario(())
        self._times: Counter[str] = Counter()

    async def listen(self) -> None:
        server = await asyncio.start_server(self._serve, "0.0.0.0", 0)
        self.port = server.sockets[0].getsockname()[1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            while await self._answer_next(reader, writer):
                await writer.drain()
        writer.close()

    async def _answer_next(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Answer a request; returns whether the connection stays open."""
        first, _, lines = (await reader.readuntil(b"\r\n\r\n")).decode().partition("\r\n")
        method, path, _ = first.split()
        headers = message_from_string(lines)
        await reader.readexactly(int(headers.get("Content-Length", 0)))
        answer = self.answer(method, headers["Host"], path, headers.get("If-None-Match"))
        await asyncio.sleep(answer.delay)
        length = 9999 if answer.is_broken else len(answer.body)
        given = {"Content-Type": answer.kind, "Content-Length": length, **answer.headers}
        if answer.status == 304:
            del given["Content-Length"]
        head = "".join(f"{name}: {value}\r\n" for name, value in given.items())
        writer.write(f"HTTP/1.1 {answer.status} -\r\n{head}\r\n".encode())
        writer.write(answer.body if method != "HEAD" else b"")
        return not answer.is_broken

    def begin(self, scenario: Scenario, day: int) -> None:
        self._scenario, self.day = scenario, day
        self.log.clear()
        self._times.clear()

    def url(self, number: int) -> str:
        return f"http://127.0.0.{self._scenario.pages[number].host}:{self.port}/p{number}"

    def answer(
        self, method: str, host: str, path: str, etag: str | None, *, by_browser: bool = False
    ) -> Answer:
        asked = f"{method} {path}"  # a form's answer is another one's
        self._times[asked] += 1
        found = self._found(path, self._times[asked], host, etag, by_browser=by_browser)
        is_page = 200 <= found.status < 300 and found.kind == HTML and not found.is_broken
        self.log.append(
            {
                "method": method,
                "url": f"http://{host}{path}",
                "status": 0 if found.is_broken else found.status,
                "is_page": is_page and bool(found.body.strip()),
                "by_browser": by_browser,
            }
        )
        return found

    def _found(
        self, path: str, times: int, host: str, etag: str | None, *, by_browser: bool
    ) -> Answer:
        name = path.partition("?")[0].strip("/")
        if name in FILES:
            return self._file(name, host)
        number = name.removeprefix("p")
        if name.startswith("p") and number.isdecimal() and int(number) < len(self._scenario.pages):
            return self._page(int(number), times, etag, by_browser=by_browser)
        return Answer(_html("another page"))

    def _file(self, name: str, host: str) -> Answer:
        listing = f"<urlset>{self._listing(LISTED)}</urlset>"
        text = {
            "robots.txt": ROBOTS_TXT.get(self._scenario.robots),
            "sitemap.xml": {**SITEMAPS, "pages": listing}.get(self._scenario.sitemap),
            "part.xml": listing,
            "feed.xml": f'<feed xmlns="http://www.w3.org/2005/Atom">{self._listing(ENTRY)}</feed>',
        }[name]
        if text is None:
            return NOT_FOUND
        body = text.replace("HOST", host).encode("latin-1")
        return Answer(body, kind=FILES[name], is_broken=text == ROBOTS_TXT["broken"])

    def _page(  # noqa: C901, PLR0911, PLR0912 - a case for each kind of page
        self, number: int, times: int, etag: str | None, *, by_browser: bool
    ) -> Answer:
        page = self._scenario.pages[number]
        links, last = self._links(page), self._last(page)
        answer = Answer(_html(f"p{number}", links))
        match page.kind:
            case "redirect":
                return Answer(status=302, headers={"Location": self.url(page.to)})
            case "refresh":
                refresh = f'<meta http-equiv="refresh" content="0; url={self.url(page.to)}">'
                return Answer(_html(f"p{number}", head=refresh))
            case "twin":
                return Answer(_html("twin", self._links(self._scenario.pages[page.to])))
            case "missing":
                return NOT_FOUND
            case "gone" if self.day >= page.to:
                return NOT_FOUND
            case "busy" if times <= page.to:
                return Answer(_html("busy"), 429, headers={"Retry-After": str(page.to)})
            case "throttled" if times == 1:
                return Answer(_html("busy"), 429)
            case "unavailable" if times == 1:
                return Answer(_html("unavailable"), 503, headers={"Retry-After": "20"})
            case "closed":
                return Answer(_html("closed"), 429, headers={"Retry-After": str(CLOSED_SECONDS)})
            case "broken":
                answer.is_broken = True
            case "broken-once":
                answer.is_broken = times == 1
            case "slow":
                answer.delay = SLOW_SECONDS
            case "empty":
                return Answer(b"")
            case "json":
                return Answer(b'{"json": 1}', kind="application/json")
            case "script" | "crash" if not by_browser:
                return Answer(_html(f"p{number}", links[:1], body=SCRIPT))
            case "crash":
                return Answer(is_broken=True)
            case "session":
                return Answer(_html(f"p{number}", [f"{one}?sid={number}x{times}" for one in links]))
            case "rotating":
                return Answer(_html(f"p{number}", [*links, f"/r{number}x{times}"]))
            case "etag" | "wrong-etag":
                answer.headers["ETag"] = f'"{0 if page.kind == "wrong-etag" else last}"'
                if etag == answer.headers["ETag"]:
                    return Answer(status=304, headers=answer.headers)
            case "bytes":
                return Answer(bytes(range(256)) * 4)
            case "feed":
                return Answer(_html(f"p{number}", links, head=FEED_LINK))
        return answer

    def _links(self, page: Page) -> list[str]:
        return [self.url(number) for number, day in page.links if day <= self.day]

    def _listing(self, entry: str) -> str:
        pages = enumerate(self._scenario.pages)
        return "".join(
            entry.format(url=self.url(number), day=1 + self._last(page)) for number, page in pages
        )

    def _last(self, page: Page) -> int:
        """The day of a page's newest link."""
        return max((day for _, day in page.links if day <= self.day), default=0)


def _html(title: str, links: list[str] | None = None, *, head: str = "", body: str = "") -> bytes:
    anchors = "".join(f'<p><a href="{link}">{link}</a></p>' for link in links or [])
    page = f"<html><head><title>{title}</title>{head}</head><body>{PADDING}{anchors}{body}</body></html>"
    return page.encode()

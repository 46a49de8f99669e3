"""The site of a scenario: a real server in the process that crawls, with a log of what it answered."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from twisted.internet import reactor
from twisted.web.http import Request as Asked
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Site as Server

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


class FuzzedSite:
    """Answers as the scenario says on the `day`; `log` has what it was asked, and the status."""

    def __init__(self) -> None:
        self.day = 0
        self.log: list[dict[str, Any]] = []
        self._scenario = Scenario(())
        self._times: Counter[str] = Counter()
        self._port = reactor.listenTCP(0, Server(_Root(self)), interface="0.0.0.0")  # type: ignore[attr-defined]

    @property
    def port(self) -> int:
        return int(self._port.getHost().port)

    def begin(self, scenario: Scenario, day: int) -> None:
        """Show the site of a day to somebody who was never here."""
        self._scenario, self.day = scenario, day
        self.log.clear()
        self._times.clear()

    def url(self, number: int) -> str:
        return f"http://127.0.0.{self._scenario.pages[number].host}:{self.port}/p{number}"

    def answer(
        self,
        method: str,
        host: str,
        path: str,
        headers: dict[str, str],
        *,
        by_browser: bool = False,
    ) -> Answer:
        self._times[path] += 1
        found = self._found(path, host, headers, by_browser=by_browser)
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

    def _found(self, path: str, host: str, headers: dict[str, str], *, by_browser: bool) -> Answer:
        name = path.partition("?")[0].strip("/")
        if name == "robots.txt":
            return self._robots(host)
        if name == "sitemap.xml":
            return self._sitemap(host)
        if name == "part.xml":
            return self._listing()
        if name == "feed.xml":
            return self._feed()
        number = name.removeprefix("p")
        if name.startswith("p") and number.isdecimal() and int(number) < len(self._scenario.pages):
            return self._page(int(number), self._times[path], headers, by_browser=by_browser)
        return Answer(_html("another page"))

    def _page(  # noqa: C901, PLR0911, PLR0912 - a case for each kind of page
        self, number: int, times: int, headers: dict[str, str], *, by_browser: bool
    ) -> Answer:
        page = self._scenario.pages[number]
        links = self._links(page)
        match page.kind:
            case "redirect":
                return Answer(status=302, headers={"Location": self.url(page.to)})
            case "refresh":
                refresh = f'<meta http-equiv="refresh" content="0; url={self.url(page.to)}">'
                return Answer(_html(f"p{number}", head=refresh))
            case "twin":
                return Answer(_html("twin", self._links(self._scenario.pages[page.to])))
            case "missing":
                return Answer(_html("nothing here"), 404)
            case "gone" if self.day >= page.to:
                return Answer(_html("gone"), 404)
            case "busy" if times <= page.to:
                return Answer(_html("busy"), 429, headers={"Retry-After": str(page.to)})
            case "unavailable" if times == 1:
                return Answer(_html("unavailable"), 503, headers={"Retry-After": "2"})
            case "closed":
                return Answer(_html("closed"), 429, headers={"Retry-After": str(CLOSED_SECONDS)})
            case "broken":
                return Answer(_html(f"p{number}"), is_broken=True)
            case "broken-once" if times == 1:
                return Answer(_html(f"p{number}"), is_broken=True)
            case "slow":
                return Answer(_html(f"p{number}", links), delay=SLOW_SECONDS)
            case "empty":
                return Answer(b"")
            case "json":
                return Answer(b'{"json": 1}', kind="application/json")
            case "script" | "crash" if not by_browser:
                script = '<div id="root"></div><script src="/app.js"></script>'
                return Answer(_html(f"p{number}", links[:1], body=script))
            case "crash":
                return Answer(is_broken=True)
            case "session":
                return Answer(_html(f"p{number}", [f"{one}?sid={number}x{times}" for one in links]))
            case "rotating":
                return Answer(_html(f"p{number}", [*links, f"/r{number}x{times}"]))
            case "etag" | "wrong-etag":
                day = max((day for _, day in page.links if day <= self.day), default=0)
                tag = f'"{0 if page.kind == "wrong-etag" else day}"'
                if headers.get("if-none-match") == tag:
                    return Answer(status=304, headers={"ETag": tag})
                return Answer(_html(f"p{number}", links), headers={"ETag": tag})
            case "bytes":
                return Answer(bytes(range(256)) * 4)
            case "feed":
                head = '<link rel="alternate" type="application/atom+xml" href="/feed.xml">'
                return Answer(_html(f"p{number}", links, head=head))
            case _:
                return Answer(_html(f"p{number}", links))

    def _links(self, page: Page) -> list[str]:
        return [self.url(number) for number, day in page.links if day <= self.day]

    def _robots(self, host: str) -> Answer:
        match self._scenario.robots:
            case "open":
                text = "User-agent: *\nDisallow:\n"
            case "closed to some":
                text = "User-agent: *\nDisallow: /p1\nCrawl-delay: 0.1\n"
            case "names a sitemap":
                text = f"User-agent: *\nDisallow: /p1\nSitemap: http://{host}/sitemap.xml\n"
            case "malformed":
                return Answer(b"\xff\xfe<html>" + bytes(range(256)), kind="text/plain")
            case "malformed sitemap":
                text = "Sitemap: http://[::1/x\nSitemap: //\nSitemap: http://x:y/\nSitemap: \x00\n"
            case "broken":
                return Answer(b"User-agent", kind="text/plain", is_broken=True)
            case _:
                return Answer(_html("nothing here"), 404)
        return Answer(text.encode(), kind="text/plain")

    def _sitemap(self, host: str) -> Answer:
        match self._scenario.sitemap:
            case "pages":
                return self._listing()
            case "index":
                entry = f"<sitemap><loc>http://{host}/part.xml</loc></sitemap>"
                return Answer(
                    f"<sitemapindex>{entry}</sitemapindex>".encode(), kind="application/xml"
                )
            case "malformed":
                text = "<urlset><url><loc>http://[</loc><lastmod>9999-99-99</lastmod></url><url>"
                return Answer(text.encode(), kind="application/xml")
            case _:
                return Answer(_html("nothing here"), 404)

    def _listing(self) -> Answer:
        urls = "".join(
            f"<url><loc>{self.url(number)}</loc>"
            f"<lastmod>2026-01-{1 + self._last(page):02}</lastmod></url>"
            for number, page in enumerate(self._scenario.pages)
        )
        return Answer(f"<urlset>{urls}</urlset>".encode(), kind="application/xml")

    def _feed(self) -> Answer:
        entries = "".join(
            f'<entry><title>t</title><link href="{self.url(number)}"/><id>{number}</id>'
            f"<updated>2026-01-{1 + self._last(page):02}T00:00:00Z</updated></entry>"
            for number, page in enumerate(self._scenario.pages)
        )
        text = f'<feed xmlns="http://www.w3.org/2005/Atom">{entries}</feed>'
        return Answer(text.encode(), kind="application/atom+xml")

    def _last(self, page: Page) -> int:
        """The day of a page's newest link."""
        return max((day for _, day in page.links if day <= self.day), default=0)


def _html(title: str, links: list[str] | None = None, *, head: str = "", body: str = "") -> bytes:
    anchors = "".join(f'<p><a href="{link}">{link}</a></p>' for link in links or [])
    page = f"<html><head><title>{title}</title>{head}</head><body>{PADDING}{anchors}{body}</body></html>"
    return page.encode()


class _Root(Resource):
    isLeaf = True  # noqa: N815 - Twisted looks for it

    def __init__(self, site: FuzzedSite) -> None:
        super().__init__()
        self._site = site

    def render(self, request: Asked) -> Any:
        headers = {
            name.decode("latin-1").lower(): values[0].decode("latin-1")
            for name, values in request.requestHeaders.getAllRawHeaders()
        }
        method, path = request.method.decode(), request.uri.decode("latin-1")
        answer = self._site.answer(method, headers.get("host", "?"), path, headers)
        request.notifyFinish().addErrback(lambda _: None)  # who asked went away
        reactor.callLater(answer.delay, _send, request, answer)  # type: ignore[attr-defined]
        return NOT_DONE_YET


def _send(request: Asked, answer: Answer) -> None:
    if request.channel is None or request._disconnected:
        return
    request.setResponseCode(answer.status)
    request.setHeader("Content-Type", answer.kind)
    for name, value in answer.headers.items():
        request.setHeader(name, value)
    if answer.is_broken:
        request.setHeader("Content-Length", "9999")
        request.write(answer.body)
        request.channel.loseConnection()
        return
    if answer.status not in {204, 304}:
        request.setHeader("Content-Length", str(len(answer.body)))
    if request.method != b"HEAD":
        request.write(answer.body)
    request.finish()

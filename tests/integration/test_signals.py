"""Sitemaps in real crawls: honest, lazy, lying, absent and broken ones on fifty hosts."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from http.server import BaseHTTPRequestHandler
from textwrap import dedent
from threading import Lock

import numpy as np
import pytest

from hacs_crawler.links import site_id
from hacs_crawler.model import trust_of
from hacs_crawler.state import read_known_signals, source_id
from integration_support import Crawl, Project
from reliability_support import opened
from servers import LocalServer

SPIDER = dedent("""
    from pathlib import Path

    import scrapy

    class Pages(scrapy.Spider):
        name = "pages"

        def __init__(self, file, **kwargs):
            super().__init__(**kwargs)
            self.start_urls = Path(file).read_text().split()

        def parse(self, response):
            yield {"url": response.url}
""")
SITES = 50
PAGES = 4
KINDS = ("honest", "lazy", "lying", "absent", "broken")
DAY = timedelta(days=1)
START = datetime(2026, 1, 1, 6, tzinfo=UTC)
SPACE = "http://www.sitemaps.org/schemas/sitemap/0.9"


def urlset(pages: Iterable[tuple[str, str]]) -> bytes:
    urls = "".join(f"<url><loc>{url}</loc><lastmod>{time}</lastmod></url>" for url, time in pages)
    return f'<?xml version="1.0"?><urlset xmlns="{SPACE}">{urls}</urlset>'.encode()


class Web(LocalServer):
    """Fifty hosts, 127.0.0.1 to .50 on one port; page n of a host is updated every n + 2 days."""

    def __init__(self) -> None:
        self.today = START
        self.asked: list[tuple[str, str]] = []
        self.robots = ""
        self._lock = Lock()
        super().__init__("0.0.0.0")

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        host = handler.headers.get("Host", "").partition(":")[0]
        with self._lock:
            self.asked.append((host, handler.path))
        self.send(handler, *self.found(host, handler.path, dict(handler.headers)))

    def page(self, number: int, path: str) -> str:
        return f"http://127.0.0.{number + 1}:{self.port}{path}"

    def pages(self) -> list[str]:
        return [self.page(n, f"/p{k}.html") for n in range(SITES) for k in range(PAGES)]

    def sources(self) -> list[tuple[str, str]]:
        return [one for one in self.asked if ".html" not in one[1]]

    def updated(self, page: int) -> datetime:
        days = int((self.today - START) / DAY)
        return START - DAY / 4 + DAY * (days - days % (page + 2))

    def found(
        self, host: str, path: str, headers: dict[str, str]
    ) -> tuple[int, dict[str, str], bytes]:
        number = int(host.rpartition(".")[2]) - 1
        if found := re.fullmatch(r"/p(\d)\.html", path):
            page = int(found[1])
            count = int((self.today - START) / DAY) // (page + 2)
            links = "".join(f'<a href="/l{page}-{k}">x</a>' for k in range(count + 1))
            return 200, {"Content-Type": "text/html"}, f"<html><body>{links}".encode()
        if path == "/robots.txt" and self.robots:
            return 200, {}, self.robots.encode()
        if path == "/robots.txt":
            body = f"User-agent: *\nDisallow: /private\nSitemap: {self.page(number, '/map.xml')}\n"
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
        body = urlset(
            (self.page(number, f"/p{page}.html"), time.isoformat())
            for page, time in enumerate(times)
        )
        etag = f'"{sha256(body).hexdigest()}"'
        if headers.get("If-None-Match") == etag:
            return 304, {"ETag": etag}, b""
        return 200, {"Content-Type": "application/xml", "ETag": etag}, body

    def broken(self, number: int) -> tuple[int, dict[str, str], bytes]:
        """Give what does harm, another way on each host."""
        elsewhere = f"http://127.0.0.99:{self.port}"
        pages = [f"{elsewhere}/p0.html", self.page(number, "/unknown.html")]
        maps = [f"{elsewhere}/s.xml", *(self.page(number, f"/s{k}.xml") for k in range(500))]
        index = "".join(f"<sitemap><loc>{url}</loc></sitemap>" for url in maps)
        ways: tuple[tuple[int, dict[str, str], bytes], ...] = (
            (200, {}, urlset(zip(pages, [self.today.isoformat()] * 2, strict=True))),
            (301, {"Location": f"{elsewhere}/sitemap.xml"}, b""),
            (200, {}, f'<sitemapindex xmlns="{SPACE}">{index}</sitemapindex>'.encode()),
            (500, {}, b""),
            (200, {}, b"\x00\xff" * 1000),
            (301, {"Location": "http://[::1/x"}, b""),
            (301, {"Location": "/sitemap.xml"}, b""),
        )
        return ways[number // 5 % len(ways)]


@pytest.fixture
def web() -> Iterator[Web]:
    with Web() as web:
        yield web


@pytest.fixture
def crawl(web: Web, project: Project, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Crawl]:
    """Crawls the given pages on a day of the web's, with HACS_SIGNALS as told."""
    spider = project.folder / "spider.py"
    spider.write_text(SPIDER)

    def run(day: int, urls: list[str], **settings: object) -> Crawl:
        web.today = START + DAY * day
        monkeypatch.setenv("HACS_TESTS_NOW", str(web.today.timestamp()))
        seeds = project.folder / "urls.txt"
        seeds.write_text("\n".join(urls))
        settings |= {"HACS_CLOCK": "tests.clocks.of_environment", "LOG_LEVEL": "DEBUG"}
        return project.run("runspider", str(spider), "-a", f"file={seeds}", **settings)

    return run


def test_honest_sitemaps_say_where_to_look_and_no_other_does_harm(
    web: Web, project: Project, crawl: Callable[..., Crawl]
) -> None:
    crawls = [crawl(0, web.pages(), HACS_SIGNALS=120)]
    crawls += [crawl(day, web.pages(), HACS_SIGNALS=120, HACS_BUDGET=100) for day in (2, 4, 6, 8)]

    assert all(one.stat("hacs/signals/requests") <= 120 for one in crawls)
    assert all(one.stat("hacs/visits") <= 100 for one in crawls[1:])
    own = {f"127.0.0.{n + 1}" for n in range(SITES)}
    assert {host for host, _ in web.asked} <= own
    pages = {path for _, path in web.asked if path.endswith(".html")}
    assert pages == {f"/p{page}.html" for page in range(PAGES)}
    assert crawls[-1].stat("hacs/signals/not_modified") > 0
    hosts = [int(host.rpartition(".")[2]) - 1 for host, path in web.asked if ".html" in path]
    visits = Counter(KINDS[number % 5] for number in hosts)
    assert visits["honest"] > visits["absent"]
    assert min(visits.values()) > 0.9 * visits["absent"], "silence of a source counts for nothing"

    with opened(project.state) as state:
        sites = np.array([site_id(url) for url in web.pages()])
        (known,) = read_known_signals(state.store, sites)
        recall: dict[str, list[float]] = {}
        for number in range(SITES):
            key = source_id(web.page(number, "").rstrip("/"))
            if key in known.sources:
                weights = known.weights[known.sources.index(key)]
                recall.setdefault(KINDS[number % 5], []).append(trust_of(weights).recall)
    assert min(recall["honest"]) > 2 * max(recall["lazy"])
    assert "absent" not in recall


def test_a_sitemap_that_robots_txt_forbids_is_not_asked_for(
    web: Web, crawl: Callable[..., Crawl]
) -> None:
    web.robots = "User-agent: *\nDisallow: /sitemap.xml\n"
    crawl(0, web.pages()[:PAGES], HACS_SIGNALS=500)
    assert "/sitemap.xml" not in {path for _, path in web.asked}


def test_whatever_reading_a_source_raises_costs_no_page_and_no_other_source(
    web: Web, project: Project, crawl: Callable[..., Crawl]
) -> None:
    with (project.folder / "spider.py").open("a") as spider:
        spider.write(
            dedent("""
            from hacs_crawler.parts.signals.requests import READINGS

            def fail(body, url, now):
                raise RecursionError("too deep")

            READINGS["sitemap"] = fail
            """)
        )
    urls = web.pages()[: 2 * PAGES]
    done = crawl(0, urls, HACS_SIGNALS=500)
    assert done.stat("item_scraped_count") == len(urls)
    assert done.stat("hacs/signals/failed") == 2
    for host in ("127.0.0.1", "127.0.0.2"):
        line = f"The sitemap of http://{host}:{web.port} cannot be read: RecursionError: too deep"
        assert done.log.count(line) == 1

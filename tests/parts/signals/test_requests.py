"""Which files of a source are asked for: those of an index that changed last, each time anew."""

import asyncio
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from scrapy import Request
from scrapy.http import Response

from crawl_support import open_crawl
from hacs_crawler.parts.signals.register import SignalSource
from hacs_crawler.parts.signals.requests import FILES_A_HOST, SignalRequests
from hacs_crawler.parts.signals.sitemap import Listing, read_sitemap

HOST = "http://a.example"
NOW = 1_900_000_000
Files = dict[str, tuple[str, str]]


class Index(SignalRequests):
    """A host with an index of sitemaps, one more each day, the newest last."""

    def __init__(self, days: int) -> None:
        self.days = days
        self.asked: list[str] = []
        self._crawl = SimpleNamespace(stats=SimpleNamespace(count=lambda *_: None))

    async def _guess(self, origin: str) -> list[str]:
        return [f"{origin}/index.xml"]

    async def _ask(self, url: str, validators: tuple[str, str], **meta: Any) -> Response | None:
        self.asked.append(url.removeprefix(f"{HOST}/"))
        files = (
            f"<sitemap><loc>/{day}.xml</loc><lastmod>2026-11-{day:02}</lastmod></sitemap>"
            for day in range(1, self.days + 1)
        )
        body = f"<sitemapindex>{''.join(files)}</sitemapindex>" if "index" in url else "<urlset/>"
        return Response(url, body=body.encode())

    async def _parsed(self, kind: str, response: Response, at: int) -> Listing | None:
        return read_sitemap(response.body, response.url, at)


def test_the_newest_files_of_an_index_are_read_at_each_reading() -> None:
    files: dict[str, tuple[str, str]] = {}
    for days in (20, 25):
        index = Index(days)
        found = asyncio.run(index.files("sitemap", SignalSource(HOST, files=files), NOW))
        newest = [f"{day}.xml" for day in range(days, days - FILES_A_HOST + 1, -1)]
        assert index.asked == ["index.xml", *newest]
        files = found.files


MAP = b"<urlset><url><loc>/x</loc><lastmod>2026-11-01</lastmod></url></urlset>"
READ, NAMED = (200, MAP, {"ETag": '"1"'}), (200, b"Sitemap: /s.xml\nSitemap: /s.xml", {})
GONE, BROKEN, UNCHANGED = ((status, b"", {}) for status in (404, 500, 304))
TAGGED, UNTAGGED, PATHS = {"s": ('"1"', "")}, {"s": ("", "")}, ["s", "t", "u", "v", "w"]


def to(path: str, status: int = 301) -> tuple[int, bytes, dict[str, str]]:
    return status, b"", {"Location": path}


@pytest.mark.parametrize(
    ("known", "answers", "asked", "files", "is_whole", "is_unchanged"),
    [
        ({}, {"robots.txt": NAMED, "s.xml": READ}, ["robots.txt", "s.xml"], TAGGED, True, False),
        (
            {},
            {"sitemap.xml": READ},
            ["robots.txt", "sitemap.xml"],
            {"sitemap": ('"1"', "")},
            True,
            False,
        ),
        ({}, {"robots.txt": (201, *NAMED[1:])}, ["robots.txt", "sitemap.xml"], {}, True, False),
        (TAGGED, {"s.xml": UNCHANGED}, ["s.xml"], TAGGED, True, True),
        (UNTAGGED, {"s.xml": BROKEN}, ["s.xml"], UNTAGGED, False, False),
        (UNTAGGED, {"s.xml": None}, ["s.xml"], UNTAGGED, False, False),
        (UNTAGGED, {"s.xml": (200, b"no map", {})}, ["s.xml"], {}, False, False),
        (
            UNTAGGED,
            {"s.xml": to("t.xml"), "t.xml": to("u.xml", 307), "u.xml": READ},
            ["s.xml", "t.xml", "u.xml"],
            TAGGED,
            True,
            False,
        ),
        (
            UNTAGGED,
            {f"{one}.xml": to(f"{other}.xml") for one, other in pairwise(PATHS)},
            ["s.xml", "t.xml", "u.xml"],
            UNTAGGED,
            False,
            False,
        ),
        (UNTAGGED, {"s.xml": to("http://b.example/s.xml")}, ["s.xml"], UNTAGGED, False, False),
        (dict.fromkeys(PATHS, ("", "")), {}, [f"{x}.xml" for x in "stuv"], None, False, False),
    ],
)
async def test_the_files_of_a_source_are_asked_for_as_often_as_allowed(  # noqa: PLR0917
    known: Files,
    answers: dict[str, tuple[int, bytes, dict[str, str]] | None],
    asked: list[str],
    files: Files | None,
    is_whole: bool,
    is_unchanged: bool,
    tmp_path: Path,
) -> None:
    requests: list[Request] = []

    async def download(request: Request) -> Response:
        requests.append(request)
        status, body, headers = answers.get(
            request.url.removeprefix(f"{HOST}/"), BROKEN if files is None else GONE
        )
        return Response(request.url, status, headers, body)

    def named(some: Files) -> Files:
        return {f"{HOST}/{name}.xml": validators for name, validators in some.items()}

    async with open_crawl(tmp_path) as crawl:
        engine: Any = crawl.crawler.engine
        engine.download_async = download
        asking = SignalRequests(crawl, 4)
        found = await asking.files("sitemap", SignalSource(HOST, files=named(known)), NOW)
        assert [request.url.removeprefix(f"{HOST}/") for request in requests] == asked
        assert asking.left == 4 - len(asked)
        assert found.files == named(known if files is None else files)
        assert (found.is_whole, found.is_unchanged) == (is_whole, is_unchanged)
        assert found.pages.keys() == ({f"{HOST}/x"} if READ in answers.values() else set())
        assert crawl.stats.get("signals/not_modified") == is_unchanged
        assert [
            request.headers.get("If-None-Match") for request in requests if known is TAGGED
        ] == [b'"1"'] * is_unchanged
        crawl.fail("over")
        assert not SignalRequests(crawl, 3).may_ask
        crawl.failure = None
        asking.close()

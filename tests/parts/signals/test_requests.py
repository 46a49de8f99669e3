"""Which files of a source are asked for: those of an index that changed last, each time anew."""

import asyncio
from types import SimpleNamespace
from typing import Any

from scrapy.http import Response

from hacs_crawler.parts.signals.register import SignalSource
from hacs_crawler.parts.signals.requests import FILES_A_HOST, SignalRequests
from hacs_crawler.parts.signals.sitemap import Listing, read_sitemap

HOST = "http://a.example"
NOW = 1_900_000_000


class Index(SignalRequests):
    """A host with an index of sitemaps, one more each day, the newest last."""

    def __init__(self, days: int) -> None:
        self.days = days
        self.asked: list[str] = []
        self._crawl = SimpleNamespace(stats=SimpleNamespace(count=lambda *_: None))

    async def _guess(self, origin: str) -> list[str]:
        return [f"{origin}/index.xml"]

    async def _ask(self, url: str, validators: tuple[str, str], **meta: Any) -> Response | None:
        del validators, meta
        self.asked.append(url.removeprefix(f"{HOST}/"))
        files = (
            f"<sitemap><loc>/{day}.xml</loc><lastmod>2026-11-{day:02}</lastmod></sitemap>"
            for day in range(1, self.days + 1)
        )
        body = f"<sitemapindex>{''.join(files)}</sitemapindex>" if "index" in url else "<urlset/>"
        return Response(url, body=body.encode())

    async def _parsed(self, kind: str, response: Response, at: int) -> Listing | None:
        del kind
        return read_sitemap(response.body, response.url, at)


def test_the_newest_files_of_an_index_are_read_at_each_reading() -> None:
    files: dict[str, tuple[str, str]] = {}
    for days in (20, 25):
        index = Index(days)
        found = asyncio.run(index.files("sitemap", SignalSource(HOST, files=files), NOW))
        newest = [f"{day}.xml" for day in range(days, days - FILES_A_HOST + 1, -1)]
        assert index.asked == ["index.xml", *newest]
        files = found.files

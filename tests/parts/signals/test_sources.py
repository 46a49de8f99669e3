"""Which sources a crawl reads, when it reads them again, and what it keeps of the hosts it met."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request
from scrapy.http import HtmlResponse, Response

from crawl_support import observed, open_crawl
from hacs_crawler.parts.signals import sources
from hacs_crawler.parts.signals.register import SignalSource, read_sources
from hacs_crawler.parts.signals.sources import SignalSources
from hacs_crawler.state import State, Visit
from hacs_crawler.utils.times import DAY

A, B = "http://a.example", "http://b.example"
NOW = 1_900_000_000
MAP = b"<urlset><url><loc>/x</loc><lastmod>2026-11-01</lastmod></url></urlset>"
RSS = b"<rss version='2.0'><channel><item><link>http://a.example/x</link></item></channel></rss>"
FEED = "<link rel=alternate type=application/rss+xml href=/{}>"
OF_A = [f"{A}/robots.txt", f"{A}/sitemap.xml"]


class World:
    """A crawl, and hosts of which only a.example has a sitemap."""

    def __init__(self, crawl: Any) -> None:
        self.crawl, self.part = crawl, crawl.parts.of(SignalSources)
        self.asked: list[str] = []
        crawl.crawler.engine.download_async = self._download
        self.at(0)

    async def _download(self, request: Request) -> Response:
        self.asked.append(request.url)
        if "If-None-Match" in request.headers:
            return Response(request.url, 304)
        body = {OF_A[1]: MAP, f"{A}/one": RSS}.get(request.url, b"")
        return Response(request.url, 200 if body else 500, {"ETag": "1"}, body)

    def at(self, seconds: int) -> None:
        self.crawl.clock = lambda: NOW + seconds

    async def ranked(self, *urls: str, sites: set[int] | None = None) -> list[str]:
        """What is asked for before pages are ranked."""
        self.asked.clear()
        await self.part.before_rank(urls or None, sites)
        return self.asked

    async def kept(self, origin: str, kind: str = "sitemap") -> SignalSource:
        [source] = await self.crawl.state.once(lambda at: read_sources(at.store, kind, [origin]))
        return source

    def observe(self, response: Response, reason: str = "") -> None:
        seen = observed(Visit(response.url, NOW), reason, response)
        assert list(self.part.observed(seen)) == []


Make = Callable[..., AbstractAsyncContextManager[World]]


@pytest.fixture
def crawling(tmp_path: Path) -> Make:
    @asynccontextmanager
    async def began(most: int = 9) -> AsyncIterator[World]:
        async with open_crawl(tmp_path, HACS_SIGNALS=most) as crawl:
            yield World(crawl)

    return began


async def test_a_source_is_read_once_a_run_or_round_and_again_after_an_hour(crawling: Make) -> None:
    async with crawling() as world:
        await world.crawl.state.once(State.record, [Visit(f"{A}/x", NOW - DAY)])
        assert await world.ranked(f"{A}/x", f"{A}/y", "mailto:x") == OF_A
        source = await world.kept(A)
        assert (source.tried, source.read, source.failures) == (NOW, NOW, 0)
        assert source.files == {OF_A[1]: ("1", "")}
        for seconds, asked in (0, []), (3599, []), (3600, OF_A[1:]):
            world.at(seconds)
            assert await world.ranked(f"{A}/x") == []
            await world.part.round_began()
            assert await world.ranked(f"{A}/x") == asked
        world.at(9 * DAY)
        assert await world.ranked(sites={7}) == []
        assert await world.ranked(sites={*source.sites}) == OF_A[1:]
        assert world.crawl.stats.get("signals/sources") == 3
        await world.part.round_began()
        world.part._requests.left = 0
        assert await world.ranked(f"{A}/x") == []


async def test_a_host_without_an_answer_is_asked_again_after_ever_more_days(crawling: Make) -> None:
    days = 0
    async with crawling(99) as world:
        for failures in (1, 2, 3):
            world.at(days * DAY)
            assert len(await world.ranked(f"{B}/x")) == 2
            source = await world.kept(B)
            assert (source.failures, source.tried, source.read) == (failures, NOW + days * DAY, 0)
            days += 2 ** (failures - 1)
            world.at(days * DAY - 1)
            await world.part.round_began()
            assert await world.ranked(f"{B}/x") == []
            await world.part.round_began()
        assert world.crawl.stats.get("signals/failed") == 3


async def test_the_hosts_that_a_crawl_met_are_kept_with_the_feeds_that_their_pages_announce(
    crawling: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "MOST_NEW_SOURCES", 1)
    async with crawling() as world:
        for name, status, reason in (
            ("one", 200, ""),
            ("two", 200, ""),
            ("not", 304, ""),
            ("bad", 200, "gone"),
        ):
            body = FEED.format(name).encode()
            world.observe(HtmlResponse(f"{A}/x", status, body=body), reason)
        world.observe(Response(f"{A}/y"))
        world.observe(HtmlResponse(f"{B}/x", body=FEED.format("one").encode()))
    async with crawling() as world:
        feeds = [f"{A}/one", f"{A}/two"]
        assert [*(await world.kept(A, "feed")).files] == feeds
        assert (await world.kept(A)).sites
        assert await world.kept(B, "feed") == SignalSource(B)
        assert set(await world.ranked(f"{A}/x")) == {*OF_A, *feeds}
        assert (await world.kept(A, "feed")).read == NOW
        assert await world.kept(B) == SignalSource(B)

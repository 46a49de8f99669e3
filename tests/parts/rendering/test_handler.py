"""A project's download handler is wrapped, whichever way it answers and closes."""

import asyncio
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest
import scrapy
from scrapy import Request, Spider
from scrapy.http import Response
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred, succeed

from crawl_support import new_crawl, settled
from hacs_crawler.parts.rendering.browser import Browser
from hacs_crawler.parts.rendering.handler import with_browser

URL = "http://a.example/"


class Bare:
    closed: Deferred[None]

    async def download_request(self, request: Request) -> Response:
        return Response(request.url, body=b"plain")


class New(Bare):
    lazy = False

    async def close(self) -> None:
        await maybe_deferred_to_future(self.closed)


class Old(Bare):
    """As handlers were before Scrapy 2.14."""

    def download_request(self, request: Request, spider: Spider) -> Deferred[Response]:
        assert spider.name == "any"
        return succeed(Response(request.url, body=b"plain"))

    def close(self) -> Deferred[None]:
        return self.closed


def awaitable(answer: Any) -> Awaitable[Any]:
    return maybe_deferred_to_future(answer) if isinstance(answer, Deferred) else answer


@pytest.mark.parametrize("mode", ["auto", "never"])
@pytest.mark.parametrize("around", [Bare, New, Old])
async def test_requests_are_given_to_the_handler_around_which_it_is_unless_they_are_rendered(
    around: Any, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def render(_: Browser, request: Request) -> Response:
        return Response(request.url, body=b"rendered")

    monkeypatch.setattr(Browser, "render", render)
    monkeypatch.setattr(Bare, "closed", closed := Deferred(), raising=False)
    crawler = new_crawl(tmp_path, HACS_RENDER=mode).crawler
    kind = with_browser(around)
    assert kind.lazy is (around is not New)
    handler: Any = kind.from_crawler(crawler)
    given = (crawler.spider,) if scrapy.version_info < (2, 14) else ()
    for meta, body in ({}, b"plain"), ({"hacs.render": URL}, b"rendered"):
        response = await awaitable(handler.download_request(Request(URL, meta=meta), *given))
        assert response.body == (body if mode == "auto" else b"plain")
    closing = asyncio.ensure_future(awaitable(handler.close()))
    await settled()
    assert closing.done() is (around is Bare)
    closed.callback(None)
    await closing

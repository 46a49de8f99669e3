"""Which requests are one and the same: only the project's own filter says."""

import asyncio
from typing import Any

from scrapy import FormRequest, Request
from scrapy.http import JsonRequest

from ..base import SITE, Row, facts, rows, url, urls


class SameForAnArchive(Row):
    """Ten URLs that SURT takes for fewer."""

    start_urls = urls(
        "/Item/A", "/item/a", "/q?x=abC", "/q?x=ABc", "/s", "/s/", "/s/index.html",
        "/t;jsessionid=0123456789abcdef0123456789abcdef", "/t",
        "/u?PHPSESSID=0123456789abcdef0123456789abcdef",
    )  # fmt: skip
    visits = 10


class NotWebPages(Row):
    start_urls = [
        "data:text/plain,hello",
        "data:text/html,<a href='/x'>x</a>",
        "file:///dev/null",
        "file:///proc/sys/kernel/ostype",  # wherever the project is, as many bytes
        url("/1"),
    ]

    def parse(self, response: Any) -> Any:
        yield {"url": response.url[:10], "length": len(response.body), "status": response.status}


class StrangeUrls(Row):
    start_urls = [
        "http://127.0.0.1:99999/",
        "http://[::1/",
        "http://no-such-host.invalid/",
        "http://1.2.3.4.5.6:1/",
        "gopher://127.0.0.1/",
        "http:///nothing",
        SITE.replace("http://", "http://ada:secret@") + "/login-in-url",
        SITE.replace("http", "HTTP") + "/upper",
        url("/ünï?q=ö&r=%E4"),
        url("/" + "x" * 3_000),
        url("/1"),
    ]

    async def start(self) -> Any:
        for one in self.start_urls:
            try:
                request = Request(one, errback=self.failed)
            except ValueError as error:
                yield {"refused": str(error)}
            else:
                yield request


class WithoutQuery:
    """A project's own idea of what is one request."""

    def fingerprint(self, request: Any) -> bytes:
        return request.url.partition("?")[0].encode()


rows(
    globals(),
    Row,
    SameForScrapy={
        "start_urls": urls("/q?a=1&b=2", "/q?b=2&a=1", "/r#top", "/r", "/r", "/%7Eada", "/~ada")
    },
    OwnFingerprinter={
        "custom_settings": {"REQUEST_FINGERPRINTER_CLASS": WithoutQuery},
        "start_urls": urls("/1?a=1", "/1?a=2", "/2", "/2?b=1"),
    },
    NoFilter={
        "custom_settings": {"DUPEFILTER_CLASS": "scrapy.dupefilters.BaseDupeFilter"},
        "start_urls": urls("/1", "/1", "/2", "/1"),
    },
    RedirectLoop={
        "custom_settings": {"REDIRECT_MAX_TIMES": 3},
        "start_urls": urls("/redirect", "/redirect?to=/redirect?to=/1", "/redirect?to=/2"),
    },
)


class SamePageAsFollowUp(Row):
    """A page that is a seed and linked to from another is fetched once."""

    start_urls = urls("/links?to=/1&to=/2", "/1", "/2")

    def parse(self, response: Any) -> Any:
        yield {"url": response.url}
        yield from response.follow_all(css="a")


class RedirectsToOnePage(Row):
    """Which seed gets there first is the scheduler's to choose."""

    custom_settings = {"REFERER_ENABLED": False}
    start_urls = urls("/redirect?to=/1", "/redirect?to=/1&x", "/redirect?to=/1&y")

    def parse(self, response: Any) -> Any:
        yield {"url": response.url}


class RedirectsToASeed(RedirectsToOnePage):
    start_urls = urls("/redirect?to=/1", "/1", "/redirect?to=/redirect?to=/1")


class NotOnlyGet(Row):
    warnings_of_ours = 1

    async def start(self) -> Any:
        yield FormRequest(url("/echo"), formdata={"a": "1"}, callback=self.parse)
        yield FormRequest(url("/echo"), formdata={"a": "2"}, callback=self.parse)
        yield JsonRequest(url("/echo"), data={"b": 1}, callback=self.parse)
        yield self.page("/echo", method="PUT", body="c")
        yield self.page("/echo", method="HEAD")
        yield self.page("/echo")

    def parse(self, response: Any) -> Any:
        yield {"body": response.text, **facts(response)}


class OwnHeadersAndCookies(Row):
    warnings_of_ours = 1

    async def start(self) -> Any:
        for number in range(3):
            jar = {"cookiejar": number}
            yield self.page(
                f"/echo?{number}",
                headers={"X-N": str(number)},
                cookies={"n": str(number)},
                meta=jar,
            )


class Offsite(Row):
    allowed_domains = ["127.0.0.1"]

    async def start(self) -> Any:
        for host in (1, 2, 1, 3):
            yield self.page(f"/{host}", host)


class ObeysRobots(Row):
    """Scrapy 2.19 lets some pass while robots.txt is on its way: here it has come."""

    custom_settings = {"ROBOTSTXT_OBEY": True}

    async def start(self) -> Any:
        self.has_come = asyncio.Event()
        yield self.page("/1")
        await self.has_come.wait()
        for path in ("/private/1", "/2", "/private/2"):
            yield self.page(path)

    def parse(self, response: Any) -> Any:
        self.has_come.set()
        yield facts(response)

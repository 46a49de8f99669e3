"""Requests the files of a signal source: a host's sitemaps, or its feeds.

The project's downloader middlewares, robots.txt and delays apply to these requests, but they bypass
the scheduler and the spider. Redirects to other hosts are not followed.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Final
from urllib.parse import urlsplit

from scrapy import Request
from scrapy.http import Response
from scrapy.utils.defer import maybe_deferred_to_future

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.meta import UNSCHEDULED
from hacs_crawler.crawl.scrapy_internals import download, is_closing
from hacs_crawler.parts.signals.feed import read_feed
from hacs_crawler.parts.signals.register import SignalSource
from hacs_crawler.parts.signals.sitemap import (
    MOST_BYTES,
    Listing,
    SignalError,
    read_sitemap,
    same_host,
    sitemaps_of_robots,
)
from hacs_crawler.utils.loop import Worker
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

# How many files of a host are read; of an index, those that changed last.
FILES_A_HOST: Final = 8
REDIRECTS: Final = 2
TIMEOUT_SECONDS: Final = 20.0
_META: Final = {
    **UNSCHEDULED,
    "dont_redirect": True,
    "dont_retry": True,
    "dont_cache": True,
    "dont_merge_cookies": True,
    "handle_httpstatus_all": True,
    "download_timeout": TIMEOUT_SECONDS,
    "download_maxsize": MOST_BYTES,
    "download_warnsize": 0,
}


# The parser for each kind of source.
READINGS: Final[dict[str, Callable[[bytes, str, int], Listing]]] = {"sitemap": read_sitemap}
# an extra: without it, feeds are not requested
if find_spec("feedparser") is not None:
    READINGS["feed"] = read_feed


@dataclass(slots=True)
class SourceReading:
    """The combined content of a source's files."""

    pages: dict[str, int] = field(default_factory=dict)
    files: dict[str, tuple[str, str]] = field(default_factory=dict)
    answers: int = 0
    # Whether every file was read or unchanged.
    is_whole: bool = True
    # Whether a file was unchanged, so that its entries are missing in `pages`.
    is_unchanged: bool = False


class SignalRequests:
    """Requests the files of sources, with a limit on requests per run or round."""

    def __init__(self, crawl: Crawl, most: int) -> None:
        self._crawl = crawl
        # How many requests are left.
        self.left = most
        self._worker = Worker()

    def close(self) -> None:
        """End the thread that parses files."""
        self._worker.close()

    @property
    def may_ask(self) -> bool:
        """Whether another request may be sent."""
        is_over = self._crawl.failure is not None or is_closing(self._crawl.crawler)
        return self.left > 0 and not is_over

    async def files(self, kind: str, source: SignalSource, at: int) -> SourceReading:
        """Return the content of a source's files at second `at`, until the requests are used up."""
        reading = SourceReading()
        waiting = list(source.files) or await self._guess(source.origin)
        seen: set[str] = set()
        while waiting and len(seen) < FILES_A_HOST:
            url = waiting.pop(0)
            if url in seen:
                continue
            seen.add(url)
            response = await self._ask(url, source.files.get(url, ("", "")))
            status = 0 if response is None else response.status
            if status in {404, 410}:
                continue
            if response is not None and status == 200:
                listing = await self._parsed(kind, response, at)
                if listing is None:
                    reading.is_whole = False
                    continue
                etag, modified = (
                    (response.headers.get(name) or b"").decode("latin-1")[:500]
                    for name in (b"ETag", b"Last-Modified")
                )
                reading.files[url] = etag, modified
                # follow the new order of an index, and read its files before other known files
                waiting = listing.files + [file for file in waiting if file not in listing.files]
                for page, second in listing.pages.items():
                    reading.pages[page] = max(second, reading.pages.get(page, 0))
            elif url in source.files:
                reading.files[url] = source.files[url]
            if status == 304:
                reading.is_unchanged = True
                self._crawl.stats.count("signals/not_modified")
            reading.answers += status in {200, 304}
            reading.is_whole &= status in {200, 304}
        if waiting:
            reading.is_whole = False
        return reading

    async def _guess(self, origin: str) -> list[str]:
        """Return the URLs of a host's sitemaps in robots.txt, else the usual URL."""
        robots = await self._ask(f"{origin}/robots.txt", ("", ""), dont_obey_robotstxt=True)
        named = []
        if robots is not None and robots.status == 200:
            named = sitemaps_of_robots(robots.body, robots.url)
        return named or [f"{origin}/sitemap.xml"]

    async def _parsed(self, kind: str, response: Response, at: int) -> Listing | None:
        crawl = self._crawl
        crawl.stats.count("signals/bytes", len(response.body))
        try:
            listing = await maybe_deferred_to_future(
                self._worker.run(READINGS[kind], response.body, response.url, at)
            )
        except SignalError as error:
            crawl.stats.count("signals/unreadable")
            logger.info("No signals: %s", error)
            return None
        crawl.stats.count("signals/pages", len(listing.pages))
        crawl.stats.count("signals/passed_over", listing.unread)
        return listing

    async def _ask(self, url: str, validators: tuple[str, str], **meta: Any) -> Response | None:
        """Return the answer to a request, following redirects on the same host; None on failure."""
        headers = zip(("If-None-Match", "If-Modified-Since"), validators, strict=True)
        sent = {name: value for name, value in headers if value}
        for _ in range(REDIRECTS + 1):
            if not self.may_ask:
                return None
            self.left -= 1
            self._crawl.stats.count_extra("signals/requests", "signal request")
            request = Request(url, headers=sent, dont_filter=True, meta={**_META, **meta})
            try:
                response = await download(self._crawl.crawler, request)
            except Exception as error:  # noqa: BLE001 - any error of the network
                logger.debug("No signals from %s: %r", url, error)
                return None
            if response.status not in {301, 302, 303, 307, 308}:
                return response
            location = (response.headers.get(b"Location") or b"").decode("latin-1")
            target = same_host(location, url)
            if target is None:
                return None
            url = target
        return None


def origin_of(url: str) -> str | None:
    """Return scheme and host of an HTTP URL, None for others."""
    parts = urlsplit(url)
    is_web = parts.scheme in {"http", "https"} and parts.netloc
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2].lower()}" if is_web else None

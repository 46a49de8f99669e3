"""A web archive as a harvest uses it: which captures it has, and what their mementos show.

The index of a CDX server is read chunk by chunk, in sizes that the server can take.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import urlsplit

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import DeferredLock

from hacs_crawler.archive import ArchiveAddress, ArchiveKind, Capture, warcio_headers
from hacs_crawler.config import Config
from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.exceptions import HacsError
from hacs_crawler.harvest.asking import (
    MEMENTO_SLOT,
    Asker,
    RefusedError,
    TooMuchError,
    UnansweredError,
)
from hacs_crawler.harvest.dialects import (
    cdx_answer,
    crawl_indexes,
    timegate_answer,
    timemap_answer,
)
from hacs_crawler.harvest.memento import Memento, other_capture, read_memento, read_range
from hacs_crawler.harvest.query import IndexAnswer, Site, Span, memento_url
from hacs_crawler.links import fingerprint
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

# Mementos in a row at which the archive failed, each after Scrapy's retries: then the seed is left.
MOST_ERRORS: Final = 20
# A longer page is parsed in the thread next to the event loop.
LARGE_BODY_BYTES: Final = 1 << 20
# Redirects of the archive that are followed: it leads to the capture that it has instead.
HOPS: Final = 5


class ArchiveClient:
    """Asks an archive for captures, and it or the archives it names for mementos.

    Used from the event loop.
    """

    def __init__(
        self, crawler: Crawler, crawl: Crawl, config: Config, address: ArchiveAddress
    ) -> None:
        self.address = address
        self._crawl = crawl
        self.asker = Asker(crawler, crawl, address)
        self._rules = config.rules
        self._errors_in_a_row: Counter[str] = Counter()
        self._shown: set[str] = set()
        self._refused: set[str] = set()
        self._crawls: list[Span] | None = None
        self._listing = DeferredLock()
        crawler.signals.connect(self.asker.close, signals.spider_closed)
        # Whether the CDX server knows no resume keys; None until an answer shows it.
        self.is_keyless: bool | None = False if address.names_mementos else None

    async def spread(self, todo: Sequence[Span]) -> list[Span]:
        """Return spans of time in the form in which the archive is asked for them, in order.

        Raises ArchiveError, UnansweredError, and as `Asker.get`.
        """
        if self.address.kind is not ArchiveKind.COLLINFO or all(span.index for span in todo):
            return list(todo)
        await maybe_deferred_to_future(self._listing.acquire())
        try:
            if self._crawls is None:
                # its captures are WARC records: say so if they cannot be read
                warcio_headers()
                self._crawl.stats.count("archive/cdx_requests")
                self._crawls = await crawl_indexes(self.asker)
        finally:
            self._listing.release()
        return [
            replace(
                span,
                since=max(span.since, crawl.since),
                until=min(span.until, crawl.until),
                index=crawl.index,
            )
            for span in todo
            for crawl in ([span] if span.index else self._crawls)
            if crawl.since <= span.until and span.since <= crawl.until
        ]

    async def captures(self, site: Site, span: Span, limit: int) -> IndexAnswer:
        """Ask which captures there are of a site; a CDX server for up to `limit` rows.

        Raises BlockedError, UnansweredError, and as `Asker.get`.
        """
        self._crawl.stats.count("archive/cdx_requests")
        if self.address.kind is ArchiveKind.TIMEMAP:
            url = f"{self.address.index_url}{site.homepage}"
            return await timemap_answer(self.asker, url, site, span)
        if self.address.kind is ArchiveKind.TIMEGATE:
            return await timegate_answer(self.asker, site, span)
        return await cdx_answer(self.asker, site, span, limit)

    async def memento(self, capture: Capture) -> Memento:
        """Fetch a capture's memento and the links it shows.

        Raises BlockedError if the archive shows no memento of this URL, UnansweredError if it
        failed at too many in a row, and as `Asker.get`.
        """
        url = capture.place or memento_url(self.address.memento_url, capture)
        host = urlsplit(url).netloc
        memento = await self._follow(url, host, capture)
        if not memento.reason:
            self._errors_in_a_row[host] = 0
        # else only this memento is missing
        elif memento.problem == "error" or host not in self._shown:
            self._errors_in_a_row[host] += 1
        if self._errors_in_a_row[host] >= MOST_ERRORS:
            self._errors_in_a_row[host] = 0
            address = self.address.memento_url or host
            msg = f"{address} failed {MOST_ERRORS} times in a row: {memento.reason}"
            raise UnansweredError(msg)
        return memento

    async def _follow(self, url: str, host: str, capture: Capture) -> Memento:
        file, _, part = url.partition("#bytes=")
        headers: dict[str, str] = {}
        meta: dict[str, Any] = {}
        if part:
            first, _, last = part.partition("-")
            headers["Range"] = f"bytes={part}"
            # a cache would know parts of one file by its URL alone; a server may send all of the file
            meta = {"dont_cache": True, "download_maxsize": int(last) - int(first) + 1}
        for _ in range(HOPS):
            try:
                response = await self.asker.get(file, MEMENTO_SLOT, headers, **meta)
            except RefusedError as error:
                if self.address.names_mementos:
                    if host not in self._refused:
                        self._refused.add(host)
                        logger.warning("%s: its mementos are left out: %s", host, error)
                elif host not in self._shown:  # maybe robots.txt forbids all of them
                    raise
                return Memento(capture.at, problem="refused")
            except HacsError:
                raise
            except Exception as error:  # noqa: BLE001 - whatever the network does
                logger.debug("%s: %r", url, error)
                return Memento.failed(capture, type(error).__name__)
            file = other_capture(response)
            if not file:
                return await self._read(response, host, capture, is_part=bool(part))
        return Memento(capture.at, problem="moved")

    async def _read(
        self, response: Response, host: str, capture: Capture, *, is_part: bool
    ) -> Memento:
        read = read_range if is_part else read_memento
        if is_part or len(response.body) > LARGE_BODY_BYTES:
            memento = await self.asker.beside(read, response, capture, self._rules)
        else:
            memento = read(response, capture, self._rules)
        if memento.marks is not None:
            self._shown.add(host)
        return memento


# Rows a request, at first: some 1 MB, and a few seconds of the Wayback Machine's time.
LIMIT: Final = 5_000
LEAST_LIMIT: Final = 50
# Rows a request to a server without resume keys: rows cut off have to be requested again.
LIMIT_WITHOUT_KEYS: Final = 50_000
# How often in a row a query is made smaller before it is given up.
TRIES: Final = 16


class IndexReader:
    """Asks for a site's rows; remembers how many rows at a time the server was able to give."""

    def __init__(self, client: ArchiveClient, site: Site) -> None:
        self._client = client
        self._site = site
        self._limit = LIMIT
        self._keys: set[int] = set()

    async def read(self, todo: Sequence[Span]) -> tuple[IndexAnswer, list[Span]]:
        """Return the next rows of the remaining spans, and the spans that remain after them.

        Raises the errors of `ArchiveClient.captures`; TooMuchError only after smaller and smaller
        requests.
        """
        failures = 0
        left = list(todo)
        self._limit = max(self._limit, LIMIT_WITHOUT_KEYS if self._client.is_keyless else 0)
        while True:
            try:
                answer = await self._client.captures(self._site, left[0], self._limit)
            except TooMuchError as error:
                failures += 1
                if failures > TRIES:
                    raise
                # A server walks a whole prefix whatever the dates are (internetarchive/wayback issue
                # 285), so there the number of rows is halved first, and then the span of time.
                if self._limit > LEAST_LIMIT and (self._site.has_subpages or failures % 2):
                    self._limit = max(self._limit // 2, LEAST_LIMIT)
                else:
                    left[:1] = left[0].halves()
                logger.info("%s; asked again for less", error)
                continue
            rest = self._rest(left, answer)
            if rest is not None:
                return answer, rest
            if self._limit >= LIMIT_WITHOUT_KEYS or (failures and left[0].since < left[0].until):
                left[:1] = left[0].halves()
            else:
                self._limit = LIMIT_WITHOUT_KEYS

    def _rest(self, left: list[Span], answer: IndexAnswer) -> list[Span] | None:
        """Return the spans left after an answer; None if it was cut off without a resume key."""
        if answer.resume_key:
            self._client.is_keyless = False
            mark = fingerprint(answer.resume_key)
            if mark not in self._keys:
                self._keys.add(mark)
                return [replace(left[0], resume_key=answer.resume_key), *left[1:]]
            logger.warning(
                "%s: the resume key %r came a second time; taken as the end of the index",
                self._site.homepage,
                answer.resume_key,
            )
        elif answer.rows >= self._limit and self._client.is_keyless is not False:
            self._client.is_keyless = True
            if self._limit < LIMIT_WITHOUT_KEYS or left[0].since < left[0].until:
                return None
            logger.warning(
                "%s: more captures in one second than the archive gives", self._site.homepage
            )
        self._keys.clear()
        return left[1:]

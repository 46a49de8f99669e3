"""Reads a web archive for a harvest: the index of captures, and mementos.

The index of a CDX server is read in chunks that the server can handle.
"""

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
from hacs_crawler.harvest.dialects import cdx_answer, crawl_indexes, timegate_answer, timemap_answer
from hacs_crawler.harvest.memento import Memento, other_capture, read_memento, read_range
from hacs_crawler.harvest.query import IndexAnswer, Site, Span, memento_url
from hacs_crawler.links import fingerprint
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

# After this many consecutive failed mementos, each retried by Scrapy, the seed is given up.
MOST_ERRORS: Final = 20
# Longer pages are parsed in a thread.
LARGE_BODY_BYTES: Final = 1 << 20
# How many redirects of the archive, to a capture that it has instead, are followed.
HOPS: Final = 5


class ArchiveClient:
    """Requests captures from an archive, and mementos from it or from archives that it names.

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
        # Whether the CDX server lacks resume keys; None until an answer shows it.
        self.is_keyless: bool | None = False if address.names_mementos else None

    async def spread(self, todo: Sequence[Span]) -> list[Span]:
        """Split spans of time by the archive's indexes, if it has several; keeps the order.

        Raises ArchiveError, UnansweredError, and as `Asker.get`.
        """
        if self.address.kind is not ArchiveKind.COLLINFO or all(span.index for span in todo):
            return list(todo)
        await maybe_deferred_to_future(self._listing.acquire())
        try:
            if self._crawls is None:
                # fail early if WARC records, which these captures are, cannot be read
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
        """Return the captures of a site in a span, from a CDX server up to `limit` rows.

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
        """Fetch a capture's memento, with its marks.

        Raises BlockedError if the archive shows no memento of this URL, UnansweredError after too
        many consecutive failures, and as `Asker.get`.
        """
        url = capture.place or memento_url(self.address.memento_url, capture)
        host = urlsplit(url).netloc
        memento = await self._follow(url, host, capture)
        if not memento.reason:
            self._errors_in_a_row[host] = 0
        # other problems concern only this memento, once the host has shown any
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
            # a cache would confuse parts of a file, which share its URL; a server may send all of it
            meta = {"dont_cache": True, "download_maxsize": int(last) - int(first) + 1}
        for _ in range(HOPS):
            try:
                response = await self.asker.get(file, MEMENTO_SLOT, headers, **meta)
            except RefusedError as error:
                if self.address.names_mementos:
                    if host not in self._refused:
                        self._refused.add(host)
                        logger.warning("%s: its mementos are left out: %s", host, error)
                elif host not in self._shown:  # robots.txt may forbid all mementos
                    raise
                return Memento(capture.at, problem="refused")
            except HacsError:
                raise
            except Exception as error:  # noqa: BLE001 - any error of the network
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
            memento = await self.asker.in_thread(read, response, capture, self._rules)
        else:
            memento = read(response, capture, self._rules)
        if memento.marks is not None:
            self._shown.add(host)
        return memento


# Rows per request, at first: about 1 MB, which takes the Wayback Machine a few seconds.
LIMIT: Final = 5_000
LEAST_LIMIT: Final = 50
# Rows per request to a server without resume keys, where cut-off rows are requested again.
LIMIT_WITHOUT_KEYS: Final = 50_000
# How often a query is made smaller before it is given up.
TRIES: Final = 16


class IndexReader:
    """Reads a site's index; remembers how many rows at a time the server can handle."""

    def __init__(self, client: ArchiveClient, site: Site) -> None:
        self._client = client
        self._site = site
        self._limit = LIMIT
        self._keys: set[int] = set()

    async def read(self, todo: Sequence[Span]) -> tuple[IndexAnswer, list[Span]]:
        """Return the next rows of the spans in `todo`, and the spans that remain after them.

        Raises the errors of `ArchiveClient.captures`; before TooMuchError, smaller requests are tried.
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
                # For a prefix, a shorter span does not save time (internetarchive/wayback issue 285),
                # so the number of rows is halved first, and then the span.
                if self._limit > LEAST_LIMIT and (self._site.has_subpages or failures % 2):
                    self._limit = max(self._limit // 2, LEAST_LIMIT)
                else:
                    left[:1] = left[0].halves()
                logger.info("%s; trying a smaller request", error)
                continue
            rest = self._rest(left, answer)
            if rest is not None:
                return answer, rest
            if self._limit >= LIMIT_WITHOUT_KEYS or (failures and left[0].since < left[0].until):
                left[:1] = left[0].halves()
            else:
                self._limit = LIMIT_WITHOUT_KEYS

    def _rest(self, left: list[Span], answer: IndexAnswer) -> list[Span] | None:
        """Return the spans that remain after an answer; None if it was cut off without a key."""
        if answer.resume_key:
            self._client.is_keyless = False
            mark = fingerprint(answer.resume_key)
            if mark not in self._keys:
                self._keys.add(mark)
                return [replace(left[0], resume_key=answer.resume_key), *left[1:]]
            logger.warning(
                "%s: the resume key %r was repeated; this is taken for the end of the index",
                self._site.homepage,
                answer.resume_key,
            )
        elif answer.rows >= self._limit and self._client.is_keyless is not False:
            self._client.is_keyless = True
            if self._limit < LIMIT_WITHOUT_KEYS or left[0].since < left[0].until:
                return None
            logger.warning(
                "%s: more captures in one second than the archive returns", self._site.homepage
            )
        self._keys.clear()
        return left[1:]

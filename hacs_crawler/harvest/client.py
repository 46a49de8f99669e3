"""A web archive as a crawl asks it: each request goes through Scrapy's downloader and middlewares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scrapy import Request, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.utils.defer import maybe_deferred_to_future

from hacs_crawler.archive import ArchiveError, Capture
from hacs_crawler.config import Config
from hacs_crawler.crawl.backoff import HostPausedError
from hacs_crawler.crawl.loop import Worker, call_later
from hacs_crawler.crawl.scrapy_internals import Downloads, is_closing
from hacs_crawler.crawl.session import Session
from hacs_crawler.exceptions import HacsError
from hacs_crawler.harvest.memento import (
    BlockedError,
    Memento,
    first_line,
    is_blocked,
    other_capture,
    read_memento,
)
from hacs_crawler.harvest.query import Answer, Span, memento_url, query_url, read_answer
from hacs_crawler.harvest.site import Site
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

CDX_SLOT: Final = "hacs-cdx"
MEMENTO_SLOT: Final = "hacs-mementos"
CDX_TIMEOUT_SECONDS: Final = 180.0
"""The Wayback Machine takes up to a minute for a long prefix (agntn/archives issue 70)."""
MOST_ERRORS: Final = 20
"""Mementos in a row at which the archive failed, each after Scrapy's retries: then the seed is left."""
NO_HOST: Final = frozenset({"CannotResolveHostError", "DNSLookupError"})
"""What Scrapy and Twisted call it when there is no such host, or no network."""
LARGE_BODY_BYTES: Final = 1 << 20
"""A longer page is taken apart beside the event loop."""
HOPS: Final = 5
"""Redirects of the archive that are followed: it leads to the capture that it has instead."""
REQUESTS_AT_ONCE: Final[Mapping[str, int]] = {CDX_SLOT: 4, MEMENTO_SLOT: 8}
RECALL_SECONDS: Final = 0.5
"""How soon after the crawl began to close requests are given up that were not sent yet."""


class UnansweredError(HacsError):
    """The archive did not answer; asking for less may help where `is_narrowable`."""

    def __init__(self, reason: str, *, is_narrowable: bool) -> None:
        super().__init__(reason)
        self.is_narrowable = is_narrowable


class RefusedError(HacsError):
    """Something on our side, such as the archive's robots.txt, keeps requests from being sent."""


class StoppedError(HacsError):
    """The crawl is closing, so nothing more is asked for."""


class ArchiveClient:
    """Asks a CDX server for captures and an archive for mementos. Used from the event loop."""

    def __init__(self, crawler: Crawler, session: Session, config: Config) -> None:
        self._crawler = crawler
        self._session = session
        self._cdx_url = config.cdx_url
        self._memento_url = config.memento_url
        self._rules = config.link_rules
        self._worker = Worker()
        self._errors_in_a_row = 0
        self._has_shown = False
        self._cancel_recall = call_later(RECALL_SECONDS, self._recall)
        crawler.signals.connect(self.close, signals.spider_closed)
        self.is_keyless: bool | None = None
        """Whether the CDX server knows no resume keys; None until an answer shows it."""

    def close(self) -> None:
        """Release the thread that reads answers; called when the spider has closed."""
        self._cancel_recall()
        self._worker.close()

    def _recall(self) -> None:
        """Take back what waits to be sent when the crawl closes: it would take minutes."""
        if self._is_stopped:
            for slot in REQUESTS_AT_ONCE:
                Downloads(self._crawler).recall(
                    slot, lambda request: "hacs_archive" in request.meta, HostPausedError(slot)
                )
        self._cancel_recall = call_later(RECALL_SECONDS, self._recall)

    @property
    def _is_stopped(self) -> bool:
        return self._session.failure is not None or is_closing(self._crawler)

    async def captures(self, site: Site, span: Span, limit: int) -> Answer:
        """Ask for up to `limit` rows about a site.

        Raises BlockedError, UnansweredError, RefusedError, StoppedError.
        """
        url = query_url(self._cdx_url, site, span, limit)
        self._session.stats.count("archive/cdx_requests")
        try:
            response = await self._get(url, CDX_SLOT)
        except HacsError:
            raise
        except Exception as error:
            has_host = type(error).__name__ not in NO_HOST
            raise UnansweredError(f"{url}: {_said(error)}", is_narrowable=has_host) from error
        if self._is_stopped:
            raise StoppedError
        body = _index(response)
        try:
            return await maybe_deferred_to_future(
                self._worker.run(read_answer, body, url, site, span)
            )
        except ArchiveError as error:
            raise UnansweredError(str(error), is_narrowable=False) from error

    async def memento(self, capture: Capture) -> Memento:
        """Fetch a capture's memento and the links it shows.

        Raises BlockedError where the archive shows no memento of this URL, UnansweredError where it
        failed at too many in a row, RefusedError, StoppedError.
        """
        memento = await self._follow(capture)
        if not memento.is_passing:
            self._errors_in_a_row = 0
        elif memento.problem == "error" or not self._has_shown:  # else only this one is missing
            self._errors_in_a_row += 1
        if self._errors_in_a_row >= MOST_ERRORS:
            self._errors_in_a_row = 0
            msg = f"{self._memento_url} failed {MOST_ERRORS} times in a row: {memento.reason}"
            raise UnansweredError(msg, is_narrowable=False)
        return memento

    async def _follow(self, capture: Capture) -> Memento:
        url = memento_url(self._memento_url, capture)
        for _ in range(HOPS):
            try:
                response = await self._get(url, MEMENTO_SLOT)
            except RefusedError:
                if not self._has_shown:  # maybe robots.txt forbids all of them
                    raise
                return Memento(capture.at, problem="refused")
            except HacsError:
                raise
            except Exception as error:  # noqa: BLE001 - whatever the network does
                logger.debug("%s: %s", url, _said(error))
                return Memento(
                    capture.at, problem="error", is_passing=True, reason=type(error).__name__
                )
            url = other_capture(response)
            if not url:
                return await self._read(response, capture)
        return Memento(capture.at, problem="moved")

    async def _read(self, response: Response, capture: Capture) -> Memento:
        if len(response.body) > LARGE_BODY_BYTES:
            memento = await maybe_deferred_to_future(
                self._worker.run(read_memento, response, capture, self._rules)
            )
        else:
            memento = read_memento(response, capture, self._rules)
        self._has_shown = self._has_shown or memento.links is not None
        return memento

    async def _get(self, url: str, slot: str) -> Response:
        engine = self._crawler.engine
        assert engine is not None  # noqa: S101 - there is one while crawling
        if self._is_stopped:
            raise StoppedError
        meta = {"hacs": False, "hacs_archive": True, "download_slot": slot}
        if slot == CDX_SLOT:
            meta |= {"dont_retry": True, "download_timeout": CDX_TIMEOUT_SECONDS}
        else:  # archived pages may lead anywhere
            meta["dont_redirect"] = True
        request = Request(url, meta=meta, headers={"Accept-Encoding": "identity"})
        try:
            if hasattr(engine, "download_async"):  # Scrapy 2.14
                return await engine.download_async(request)
            return await maybe_deferred_to_future(engine.download(request))
        except IgnoreRequest as error:
            if self._is_stopped:
                raise StoppedError from error
            msg = f"{url} was not asked for: {error}"
            raise RefusedError(msg) from error


def _index(response: Response) -> bytes:
    """Return the rows that a CDX server answered; raises what its answer means where it is none."""
    body: bytes = response.body.strip()
    is_json = body[:1] in {b"[", b"{"}
    if (not is_json or len(body) < 1_000) and is_blocked(response):
        raise BlockedError(f"{response.url}: {first_line(response)}")
    if response.status == 404 and b"no captures" in body[:2_000].lower():
        return b""
    if response.status != 200:
        is_narrowable = response.status >= 500 or response.status in {408, 413}
        msg = f"{response.url} answered {response.status}: {first_line(response)}"
        raise UnansweredError(msg, is_narrowable=is_narrowable)
    if body[:1] == b"<":
        raise UnansweredError(f"{response.url} answered with HTML", is_narrowable=True)
    if body[:1] == b"[" and body[-1:] != b"]":
        raise UnansweredError(f"{response.url}: the answer is cut off", is_narrowable=True)
    return response.body


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"

"""Sends requests to an archive through Scrapy's downloader, at the pace of each host.

A host has one downloader slot for its index and one for mementos. Archives with the same host share
the slots, at the slower of their rates.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, ParamSpec, TypeVar
from urllib.parse import urlsplit

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.utils.defer import maybe_deferred_to_future

from hacs_crawler.archive import ArchiveAddress
from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.part import PutBackError
from hacs_crawler.crawl.scrapy_internals import Downloads, download, is_closing
from hacs_crawler.exceptions import HacsError
from hacs_crawler.utils.loop import Worker, call_later

P = ParamSpec("P")
T = TypeVar("T")

CDX_SLOT: Final = "hacs-cdx"
MEMENTO_SLOT: Final = "hacs-mementos"
REQUESTS_AT_ONCE: Final[Mapping[str, int]] = {CDX_SLOT: 4, MEMENTO_SLOT: 8}
# With a delay of 0, Scrapy sends a burst regardless of the slot's concurrency.
LEAST_DELAY_SECONDS: Final = 0.001
# The Wayback Machine takes up to a minute for a long prefix (agntn/archives issue 70).
CDX_TIMEOUT_SECONDS: Final = 180.0
# How often to check whether the crawl is closing, to recall requests that were not sent.
RECALL_SECONDS: Final = 0.5


class GivenUpError(IgnoreRequest):
    """A host had too many pauses, or asks for too long a pause, and is given up in this run."""


class UnansweredError(HacsError):
    """The archive did not answer."""


class TooMuchError(UnansweredError):
    """The archive did not answer; a smaller request may help."""


class RefusedError(HacsError):
    """A request may not be sent, for example because of robots.txt."""


class StoppedError(HacsError):
    """The crawl is closing, or done with this archive."""


def slots_of(host: str) -> dict[str, str]:
    """Return the names of a host's slots, by kind."""
    return {kind: f"{kind} {host}" for kind in REQUESTS_AT_ONCE}


class Asker:
    """Sends one archive's requests, at the pace of each host."""

    def __init__(self, crawler: Crawler, crawl: Crawl, address: ArchiveAddress) -> None:
        self.address = address
        self._crawler = crawler
        self._crawl = crawl
        self._per_minute = {
            CDX_SLOT: address.cdx_per_minute,
            MEMENTO_SLOT: address.mementos_per_minute,
        }
        self._slots: set[str] = set()
        self._is_ended = False
        self._worker = Worker()
        self._cancel_recall = call_later(RECALL_SECONDS, self._recall)

    @property
    def is_stopped(self) -> bool:
        """Whether no more requests are sent."""
        return self._is_ended or self._crawl.failure is not None or is_closing(self._crawler)

    async def in_thread(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Run a function in a thread."""
        return await maybe_deferred_to_future(self._worker.run(function, *args, **kwargs))

    def end(self) -> None:
        """Send no more requests."""
        self._is_ended = True

    def close(self) -> None:
        """End the thread, and stop recalling requests."""
        self._cancel_recall()
        self._worker.close()

    async def get(
        self, url: str, kind: str, headers: Mapping[str, str] | None = None, **meta: Any
    ) -> Response:
        """Return the answer to a request; `kind` is the slot's, `meta` is Scrapy's.

        Raises StoppedError, RefusedError, HacsError if the archive is given up in this run,
        UnansweredError if only another archive's host is, and errors of the network.
        """
        if self.is_stopped:
            raise StoppedError
        own: dict[str, Any] = {"hacs": False, "hacs_archive": self.address.name}
        own["download_slot"] = self._slot(kind, url)
        if kind == CDX_SLOT:
            own |= {"dont_retry": True, "download_timeout": CDX_TIMEOUT_SECONDS}
        else:  # archived redirects may lead anywhere
            own["dont_redirect"] = True
        meta = own | meta
        if not self.address.obeys_robots and urlsplit(url).netloc in self.address.hosts:
            meta |= {"dont_obey_robotstxt": True}
        sent = {"Accept-Encoding": "identity", **(headers or {})}
        request = Request(url, meta=meta, headers=sent)
        try:
            return await download(self._crawler, request)
        except GivenUpError as error:
            is_elsewhere = kind == MEMENTO_SLOT and self.address.names_mementos
            raise (UnansweredError if is_elsewhere else HacsError)(str(error)) from error
        except IgnoreRequest as error:
            if self.is_stopped:
                raise StoppedError from error
            raise RefusedError(f"{url} was not requested: {error}") from error

    def _slot(self, kind: str, url: str) -> str:
        """Return the slot for a request, and set its delay before the first request."""
        slot = slots_of(urlsplit(url).netloc)[kind]
        if slot not in self._slots:
            per_minute = self._per_minute[kind]
            delay = 60.0 / per_minute if per_minute > 0 else LEAST_DELAY_SECONDS
            Downloads(self._crawler).plan(slot, delay, REQUESTS_AT_ONCE[kind])
            self._slots.add(slot)
        return slot

    def _recall(self) -> None:
        """Recall waiting requests if the crawl is closing: sending them would take minutes."""
        if self.is_stopped:
            Downloads(self._crawler).recall(
                lambda request: request.meta.get("hacs_archive") == self.address.name,
                PutBackError(),
            )
        self._cancel_recall = call_later(RECALL_SECONDS, self._recall)

"""Downloader middleware: leaves a web archive alone when it has had enough.

The Wayback Machine answers 429, as a rule without a Retry-After. Who goes on asking finds connections
refused, for an hour at first (its staff in edgi-govdata-archiving/wayback issue 137).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from protego import Protego
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.error import ConnectionRefusedError as TwistedConnectionRefusedError

from hacs_crawler.archive import PAUSE_SECONDS
from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.part import PutBackError
from hacs_crawler.crawl.scrapy_internals import Downloads, is_closing
from hacs_crawler.harvest.asking import REQUESTS_AT_ONCE, GivenUpError, slots_of
from hacs_crawler.utils.loop import sleep
from hacs_crawler.utils.text import safe_logger
from hacs_crawler.utils.times import retry_after

try:
    from scrapy.exceptions import DownloadConnectionRefusedError
except ImportError:  # before Scrapy 2.14
    REFUSED: tuple[type[Exception], ...] = (TwistedConnectionRefusedError,)
else:
    REFUSED = (TwistedConnectionRefusedError, DownloadConnectionRefusedError)

logger = safe_logger(__name__)

# How often an archive is left alone that has not answered anything yet: its address may be wrong.
PAUSES_WITHOUT_ANSWER: Final = 2
# How often in a row: with 60 s doubled each time, that is two hours.
PAUSES: Final = 7
# An archive that asks for more is asked again in another run.
LONGEST_SECONDS: Final = 3 * 3600.0
# After this many times the last pause without another, the next pause is the shortest again.
CALM: Final = 10
# In the 503 answers, without Retry-After, of Amazon's S3, where Common Crawl's files are.
_SLOW_DOWN: Final = b"<Code>SlowDown</Code>"


@dataclass(slots=True)
class _Host:
    """How a host of an archive is left alone: until when, and how often and long before."""

    until: float = 0.0
    last_seconds: float = 0.0
    doublings: int = 0
    pauses: int = 0
    has_answered: bool = False
    given_up: str = ""


class ArchivePauseMiddleware:
    """Holds all requests to a host of an archive back when it has had enough, longer each time.

    That is after a 429, a 503 with Retry-After or SlowDown, or a refused connection.

    The requests are sent again afterwards. An archived answer, recognized by its Memento-Datetime, is
    not the archive's own answer, whatever its status.
    """

    def __init__(
        self, crawler: Crawler, crawl: Crawl, clock: Callable[[], float] = time.time
    ) -> None:
        self._crawler = crawler
        self._crawl = crawl
        self._clock = clock
        self._archives = {archive.name: archive for archive in crawl.config.archives}
        self._hosts: dict[str, _Host] = {}

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> ArchivePauseMiddleware:
        """Read HACS_ARCHIVES."""
        return cls(crawler, Crawl.of(crawler))

    async def process_request(self, request: Request, spider: Spider | None = None) -> None:
        """Wait while the host must not be asked."""
        del spider
        if not _is_meant(request):
            return
        host = self._host(request)
        while (wait := host.until - self._clock()) > 0:
            self._refuse_at_end(request)
            await maybe_deferred_to_future(sleep(min(wait, 1.0)))
        self._refuse_given_up(request)

    def process_response(
        self, request: Request, response: Response, spider: Spider | None = None
    ) -> Request | Response:
        """Pause the host if it has had too many requests, and have the request sent again."""
        del spider
        if not _is_meant(request):
            return response
        if urlsplit(request.url).path == "/robots.txt":
            self._on_crawl_delay(request, response)
        if response.headers.get(b"Memento-Datetime"):
            request.meta["dont_retry"] = True
        asked = retry_after(response.headers.get(b"Retry-After"), self._clock())
        if _is_too_many(response):
            self._leave_alone(request, "has had too many requests", asked)
            return request.replace(dont_filter=True)
        host = self._host(request)
        if response.status == 503 and asked is not None and asked > 0:
            host.has_answered = True
            self._leave_alone(request, "answered 503", asked)
        elif self._clock() >= host.until:
            host.has_answered = True
            host.pauses = 0
            if self._clock() >= host.until + CALM * host.last_seconds:
                host.doublings = 0
        return response

    def process_exception(
        self, request: Request, exception: Exception, spider: Spider | None = None
    ) -> Request | None:
        """Have a request sent again that was refused or called back."""
        del spider
        if not _is_meant(request):
            return None
        if isinstance(exception, REFUSED):
            self._leave_alone(request, "refuses connections", None)
        elif not isinstance(exception, PutBackError):
            return None
        self._refuse_at_end(request)
        return request.replace(dont_filter=True)

    def _on_crawl_delay(self, request: Request, response: Response) -> None:
        """Go no faster than robots.txt asks for, which Scrapy does not look at."""
        if response.status != 200 or not self._crawler.settings.getbool("ROBOTSTXT_OBEY"):
            return
        settings = self._crawler.settings
        agent = settings["ROBOTSTXT_USER_AGENT"] or settings["USER_AGENT"]
        delay = Protego.parse(response.body.decode("utf-8", "replace")).crawl_delay(agent)
        if not delay or delay < 0:
            return
        self._refuse_to_wait_for_ever(request, delay)
        host = urlsplit(response.url).netloc
        logger.info("%s asks in robots.txt for %g s between requests", host, delay)
        for kind, slot in slots_of(host).items():
            Downloads(self._crawler).plan(slot, delay, REQUESTS_AT_ONCE[kind])

    def _refuse_given_up(self, request: Request) -> None:
        if reason := self._host(request).given_up:
            # of robots.txt Scrapy 2.13 logs any other class as a failure
            raise (GivenUpError if "hacs_archive" in request.meta else IgnoreRequest)(reason)

    def _refuse_at_end(self, request: Request) -> None:
        self._refuse_given_up(request)
        if self._crawl.failure is not None or is_closing(self._crawler):
            raise IgnoreRequest("the crawl is closing")

    def _host(self, request: Request) -> _Host:
        return self._hosts.setdefault(urlsplit(request.url).netloc, _Host())

    def _leave_alone(self, request: Request, reason: str, asked: float | None) -> None:
        """Begin a pause, or make one longer if asked to; raises GivenUpError if there were too many."""
        self._refuse_to_wait_for_ever(request, asked or 0.0)
        host, name = self._host(request), urlsplit(request.url).netloc
        if self._clock() < host.until:
            host.until = max(host.until, self._clock() + (asked or 0.0))
            return
        # the archive at whose address the request is, else the one that made the request
        there = [archive for archive in self._archives.values() if name in archive.hosts]
        archive = there[0] if there else self._archives.get(request.meta.get("hacs_archive", ""))
        if host.pauses >= (PAUSES if host.has_answered else PAUSES_WITHOUT_ANSWER):
            hint = "" if host.has_answered or archive is None else f" (is {archive.setting} right?)"
            self._give_up(request, f"{name} {reason}, also after {host.pauses} pauses{hint}")
        first = PAUSE_SECONDS if archive is None else archive.pause_seconds
        host.last_seconds = max(asked or 0.0, first * 2**host.doublings)
        host.doublings = min(host.doublings + 1, PAUSES)
        host.pauses += 1
        host.until = max(host.until, self._clock() + host.last_seconds)
        logger.warning("%s %s: left alone for %.0f s", name, reason, host.last_seconds)
        self._crawl.stats.count("archive/pauses")
        self._recall(name)

    def _refuse_to_wait_for_ever(self, request: Request, asked: float) -> None:
        if asked > LONGEST_SECONDS:
            name = urlsplit(request.url).netloc
            self._give_up(request, f"{name} asks to be left alone for {asked:.0f} s")

    def _give_up(self, request: Request, reason: str) -> None:
        host = self._host(request)
        host.given_up = f"{reason}; started again, the spider goes on where it was"
        self._recall(urlsplit(request.url).netloc)
        self._refuse_given_up(request)

    def _recall(self, host: str) -> None:
        Downloads(self._crawler).recall(
            lambda waiting: _is_meant(waiting) and urlsplit(waiting.url).netloc == host,
            PutBackError(),
        )


def _is_meant(request: Request) -> bool:
    """Whether a request is for an archive: for its robots.txt Scrapy asks."""
    return "hacs_archive" in request.meta or urlsplit(request.url).path == "/robots.txt"


def _is_too_many(response: Response) -> bool:
    """Whether the archive itself says 429 or SlowDown, or redirects to the page that says so."""
    if response.headers.get(b"Memento-Datetime"):
        return False
    target = response.headers.get(b"Location") or b""
    is_slow = response.status == 503 and _SLOW_DOWN in response.body[:2_000]
    return response.status == 429 or is_slow or target.endswith(b"/429.html")

"""Downloader middleware: pauses requests to a web archive that is overloaded.

The Wayback Machine answers 429, usually without a Retry-After. It refuses connections of clients
that go on, for an hour at first (its staff in edgi-govdata-archiving/wayback issue 137).
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Self
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

# How many pauses a host gets that has not answered at all: its address may be wrong.
PAUSES_WITHOUT_ANSWER: Final = 2
# How many consecutive pauses a host gets: from 60 s, doubled each time, two hours in total.
PAUSES: Final = 7
# A host that asks for a longer pause is given up in this run.
LONGEST_SECONDS: Final = 3 * 3600.0
# After this many times the last pause without a pause, doubling starts over.
CALM: Final = 10
# Amazon's S3, which has Common Crawl's files, sends this with 503, without Retry-After.
_SLOW_DOWN: Final = b"<Code>SlowDown</Code>"


@dataclass(slots=True)
class _Host:
    """The pauses of an archive's host: the end of the current one, and the number of earlier ones."""

    until: float = 0.0
    last_seconds: float = 0.0
    doublings: int = 0
    pauses: int = 0
    has_answered: bool = False
    given_up: str = ""


class ArchivePauseMiddleware:
    """Pauses all requests to an archive's host, longer each time.

    A pause begins after a 429, a 503 with Retry-After or SlowDown, or a refused connection; then
    the requests are sent again. The status of an archived answer, which has a Memento-Datetime,
    does not count.
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
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Read HACS_ARCHIVES."""
        return cls(crawler, Crawl.of(crawler))

    async def process_request(self, request: Request, spider: Spider | None = None) -> None:
        """Wait for the end of the host's pause."""
        if not _is_for_archive(request):
            return
        host = self._host(request)
        while (wait := host.until - self._clock()) > 0:
            self._refuse_at_end(request)
            await maybe_deferred_to_future(sleep(min(wait, 1.0)))
        self._refuse_given_up(request)

    def process_response(
        self, request: Request, response: Response, spider: Spider | None = None
    ) -> Request | Response:
        """Begin a pause if the answer asks for it, and retry the request."""
        if not _is_for_archive(request):
            return response
        if urlsplit(request.url).path == "/robots.txt":
            self._on_crawl_delay(request, response)
        if response.headers.get(b"Memento-Datetime"):
            request.meta["dont_retry"] = True
        asked = retry_after(response.headers.get(b"Retry-After"), self._clock())
        if _is_overloaded(response):
            self._pause(request, "has had too many requests", asked)
            return request.replace(dont_filter=True)
        host = self._host(request)
        if response.status == 503 and asked is not None and asked > 0:
            host.has_answered = True
            self._pause(request, "answered 503", asked)
        elif self._clock() >= host.until:
            host.has_answered = True
            host.pauses = 0
            if self._clock() >= host.until + CALM * host.last_seconds:
                host.doublings = 0
        return response

    def process_exception(
        self, request: Request, exception: Exception, spider: Spider | None = None
    ) -> Request | None:
        """Retry a request that was refused or recalled."""
        if not _is_for_archive(request):
            return None
        if isinstance(exception, REFUSED):
            self._pause(request, "refuses connections", None)
        elif not isinstance(exception, PutBackError):
            return None
        self._refuse_at_end(request)
        return request.replace(dont_filter=True)

    def _on_crawl_delay(self, request: Request, response: Response) -> None:
        """Obey the Crawl-delay in robots.txt, which Scrapy ignores."""
        if response.status != 200 or not self._crawler.settings.getbool("ROBOTSTXT_OBEY"):
            return
        settings = self._crawler.settings
        agent = settings["ROBOTSTXT_USER_AGENT"] or settings["USER_AGENT"]
        delay = Protego.parse(response.body.decode("utf-8", "replace")).crawl_delay(agent)
        if not delay or delay < 0:
            return
        self._refuse_long_pause(request, delay)
        host = urlsplit(response.url).netloc
        logger.info("%s asks in robots.txt for %g s between requests", host, delay)
        for kind, slot in slots_of(host).items():
            Downloads(self._crawler).plan(slot, delay, REQUESTS_AT_ONCE[kind])

    def _refuse_given_up(self, request: Request) -> None:
        if reason := self._host(request).given_up:
            # for robots.txt, Scrapy 2.13 logs subclasses of IgnoreRequest as failures
            raise (GivenUpError if "hacs_archive" in request.meta else IgnoreRequest)(reason)

    def _refuse_at_end(self, request: Request) -> None:
        self._refuse_given_up(request)
        if self._crawl.failure is not None or is_closing(self._crawler):
            raise IgnoreRequest("the crawl is closing")

    def _host(self, request: Request) -> _Host:
        return self._hosts.setdefault(urlsplit(request.url).netloc, _Host())

    def _pause(self, request: Request, reason: str, asked: float | None) -> None:
        """Begin a pause, or extend it if asked to; raises GivenUpError after too many."""
        self._refuse_long_pause(request, asked or 0.0)
        host, name = self._host(request), urlsplit(request.url).netloc
        if self._clock() < host.until:
            host.until = max(host.until, self._clock() + (asked or 0.0))
            return
        # the archive that has this host, else the archive for which the request was made
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

    def _refuse_long_pause(self, request: Request, asked: float) -> None:
        if asked > LONGEST_SECONDS:
            name = urlsplit(request.url).netloc
            self._give_up(request, f"{name} asks to be left alone for {asked:.0f} s")

    def _give_up(self, request: Request, reason: str) -> None:
        host = self._host(request)
        host.given_up = f"{reason}; run the spider again to continue"
        self._recall(urlsplit(request.url).netloc)
        self._refuse_given_up(request)

    def _recall(self, host: str) -> None:
        Downloads(self._crawler).recall(
            lambda waiting: _is_for_archive(waiting) and urlsplit(waiting.url).netloc == host,
            PutBackError(),
        )


def _is_for_archive(request: Request) -> bool:
    """Whether a request is for an archive, or for a robots.txt, which Scrapy requests."""
    return "hacs_archive" in request.meta or urlsplit(request.url).path == "/robots.txt"


def _is_overloaded(response: Response) -> bool:
    """Whether the archive itself answers 429 or SlowDown, or redirects to its page for 429."""
    if response.headers.get(b"Memento-Datetime"):
        return False
    target = response.headers.get(b"Location") or b""
    is_slow = response.status == 503 and _SLOW_DOWN in response.body[:2_000]
    return response.status == 429 or is_slow or target.endswith(b"/429.html")

"""Downloader middleware: leaves a web archive alone when it has had enough.

The Wayback Machine answers 429, as a rule without a Retry-After. Who goes on asking finds connections
refused, for an hour at first (its staff in edgi-govdata-archiving/wayback issue 137).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, NoReturn
from urllib.parse import urlsplit

from protego import Protego
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.http import Response
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.error import ConnectionRefusedError as TwistedConnectionRefusedError

from hacs_crawler.config import Config
from hacs_crawler.crawl.backoff import HostPausedError, retry_after
from hacs_crawler.crawl.loop import sleep
from hacs_crawler.crawl.scrapy_internals import Downloads, is_closing
from hacs_crawler.crawl.session import Session
from hacs_crawler.harvest.client import REQUESTS_AT_ONCE
from hacs_crawler.utils.text import safe_logger

try:
    from scrapy.exceptions import DownloadConnectionRefusedError
except ImportError:  # before Scrapy 2.14
    REFUSED: tuple[type[Exception], ...] = (TwistedConnectionRefusedError,)
else:
    REFUSED = (TwistedConnectionRefusedError, DownloadConnectionRefusedError)

logger = safe_logger(__name__)

PAUSES_WITHOUT_ANSWER: Final = 2
"""How often an archive is left alone that has not answered anything yet: its address may be wrong."""
PAUSES: Final = 7
"""How often in a row: with 60 s doubled each time, that is two hours."""
LONGEST_SECONDS: Final = 3 * 3600.0
"""An archive that asks for more is asked again in another run."""
CALM: Final = 10
"""After so many times the last pause without another one the next begins with the shortest again."""


class ArchivePauseMiddleware:
    """Holds all requests to the archive back when it has had enough, longer each time.

    That is after a 429, a 503 with Retry-After, or a refused connection.

    The requests are sent again afterwards. An archived answer is none of the archive's own, whatever
    its status: it has a Memento-Datetime.
    """

    def __init__(
        self, crawler: Crawler, session: Session, clock: Callable[[], float] = time.time
    ) -> None:
        self._crawler = crawler
        self._session = session
        self._clock = clock
        config = session.config
        self._hosts = _hosts(config) if config is not None else frozenset[str]()
        self._pause_seconds = config.archive_pause_seconds if config is not None else 0.0
        self._until = 0.0
        self._last_seconds = 0.0
        self._doublings = 0
        self._pauses = 0
        self._has_answered = False

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> ArchivePauseMiddleware:
        """Read HACS_CDX_URL, HACS_MEMENTO_URL and HACS_ARCHIVE_PAUSE_SECONDS."""
        return cls(crawler, Session.of(crawler))

    async def process_request(self, request: Request, spider: Spider | None = None) -> None:
        """Wait while the archive is to be left alone."""
        del spider
        if not self._is_meant(request):
            return
        while (wait := self._until - self._clock()) > 0:
            self._refuse_at_end()
            await maybe_deferred_to_future(sleep(min(wait, 1.0)))

    def process_response(
        self, request: Request, response: Response, spider: Spider | None = None
    ) -> Request | Response:
        """Note when the archive has had enough, and have the request sent again."""
        del spider
        if not self._is_meant(request):
            return response
        if urlsplit(request.url).path == "/robots.txt":
            self._note_crawl_delay(response)
        if response.headers.get(b"Memento-Datetime"):
            request.meta["dont_retry"] = True
        asked = retry_after(response, self._clock())
        if _is_too_many(response):
            self._leave_alone(request, "has had too many requests", asked)
            return request.replace(dont_filter=True)
        if response.status == 503 and asked is not None and asked > 0:
            self._has_answered = True
            self._leave_alone(request, "answered 503", asked)
        elif self._clock() >= self._until:
            self._has_answered = True
            self._pauses = 0
            if self._clock() >= self._until + CALM * self._last_seconds:
                self._doublings = 0
        return response

    def process_exception(
        self, request: Request, exception: Exception, spider: Spider | None = None
    ) -> Request | None:
        """Have a request sent again that was refused or called back."""
        del spider
        if not self._is_meant(request):
            return None
        if isinstance(exception, REFUSED):
            self._leave_alone(request, "refuses connections", None)
        elif not isinstance(exception, HostPausedError):
            return None
        self._refuse_at_end()
        return request.replace(dont_filter=True)

    def _note_crawl_delay(self, response: Response) -> None:
        """Go no faster than robots.txt asks for, which Scrapy does not look at."""
        if response.status != 200 or not self._crawler.settings.getbool("ROBOTSTXT_OBEY"):
            return
        settings = self._crawler.settings
        agent = settings["ROBOTSTXT_USER_AGENT"] or settings["USER_AGENT"]
        delay = Protego.parse(response.body.decode("utf-8", "replace")).crawl_delay(agent)
        if not delay or delay < 0:
            return
        host = urlsplit(response.url).netloc
        self._refuse_to_wait_for_ever(host, delay)
        engine = self._crawler.engine
        assert engine is not None  # noqa: S101 - there is one while crawling
        for key in REQUESTS_AT_ONCE:
            planned = engine.downloader.per_slot_settings.setdefault(key, {})
            if planned.get("delay", 0.0) < delay:
                logger.info("%s asks in robots.txt for %g s between requests", host, delay)
                planned["delay"] = delay
            slot = engine.downloader.slots.get(key)
            if slot is not None:
                slot.delay = max(slot.delay, delay)

    def _refuse_at_end(self) -> None:
        if self._session.failure is not None or is_closing(self._crawler):
            raise IgnoreRequest("the crawl is closing")

    def _is_meant(self, request: Request) -> bool:
        return "hacs_archive" in request.meta or urlsplit(request.url).netloc in self._hosts

    def _leave_alone(self, request: Request, reason: str, asked: float | None) -> None:
        """Begin a pause, or make one longer if asked to; raises IgnoreRequest if there were too many."""
        host = urlsplit(request.url).netloc
        self._refuse_to_wait_for_ever(host, asked or 0.0)
        if self._clock() < self._until:
            self._until = max(self._until, self._clock() + (asked or 0.0))
            return
        if self._pauses >= (PAUSES if self._has_answered else PAUSES_WITHOUT_ANSWER):
            hint = "" if self._has_answered else " (are HACS_CDX_URL and HACS_MEMENTO_URL right?)"
            self._give_up(f"{host} {reason}, also after {self._pauses} pauses{hint}")
        seconds = max(asked or 0.0, self._pause_seconds * 2**self._doublings)
        self._last_seconds = seconds
        self._doublings = min(self._doublings + 1, PAUSES)
        self._pauses += 1
        self._wait(seconds, f"{host} {reason}")

    def _refuse_to_wait_for_ever(self, host: str, asked: float) -> None:
        if asked > LONGEST_SECONDS:
            self._give_up(f"{host} asks to be left alone for {asked:.0f} s")

    def _give_up(self, reason: str) -> NoReturn:
        self._session.fail(f"{reason}; started again, the spider goes on where it was")
        raise IgnoreRequest(self._session.failure)

    def _wait(self, seconds: float, reason: str) -> None:
        logger.warning("%s: left alone for %.0f s", reason, seconds)
        self._until = max(self._until, self._clock() + seconds)
        self._session.stats.count("archive/pauses")
        for slot_key in REQUESTS_AT_ONCE:
            Downloads(self._crawler).recall(slot_key, self._is_meant, HostPausedError(slot_key))


def _hosts(config: Config) -> frozenset[str]:
    return frozenset(urlsplit(url).netloc for url in (config.cdx_url, config.memento_url))


def _is_too_many(response: Response) -> bool:
    """Whether this is the archive's own 429, or its redirect to the page that says so."""
    if response.headers.get(b"Memento-Datetime"):
        return False
    target = response.headers.get(b"Location") or b""
    return response.status == 429 or target.endswith(b"/429.html")

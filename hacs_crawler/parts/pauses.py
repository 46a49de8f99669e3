"""Obeys Retry-After (HACS_RETRY_AFTER) and Crawl-delay in robots.txt.

For the spider `wayback`'s requests to web archives, `ArchivePauseMiddleware` does this.
"""

import time
from collections.abc import Callable
from typing import Final, Self
from urllib.parse import urlsplit

from scrapy import Request, signals
from scrapy.http import Response
from scrapy.robotstxt import RobotParser

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.for_parts import CrawlPart
from hacs_crawler.crawl.part import Part, PutBackError
from hacs_crawler.crawl.scrapy_internals import Downloads
from hacs_crawler.utils.text import safe_logger
from hacs_crawler.utils.times import retry_after

logger = safe_logger(__name__)

STATUSES: Final = (429, 503)
# The pause after a 429 without Retry-After.
DEFAULT_PAUSE_SECONDS: Final = 60.0
# Cap on Crawl-delay, as in Heritrix, so that no robots.txt can make a crawl endless.
LONGEST_DELAY_SECONDS: Final = 300.0


class HostPauses(CrawlPart):
    """Makes requests wait while their host pauses after a 429 or 503.

    Scrapy retries such answers regardless of Retry-After (scrapy/scrapy issue 3849). Pauses are by
    host, not by downloader slot: a redirect keeps its first host's slot (scrapy issue 2141), and a
    slot that a spider names may mix hosts.
    """

    required = True

    def __init__(self, crawl: Crawl, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(crawl)
        self._downloads = Downloads(crawl.crawler)
        self._clock = clock
        self._until: dict[str, float] = {}
        # a middleware would be too late: by then, Scrapy has sent the next request of the slot
        crawl.crawler.signals.connect(self.on_response, signals.response_downloaded)

    def admit(self, request: Request) -> float:
        """Return the remaining seconds of the host's pause."""
        if not self._until or "hacs_archive" in request.meta:
            return 0.0
        host = _host(request)
        left = self._until.get(host, 0.0) - self._clock()
        if left <= 0.0:
            self._until.pop(host, None)
        return left

    def on_response(self, request: Request, response: Response) -> None:
        """Begin the host's pause, and recall its requests from the downloader's queues."""
        if response.status not in STATUSES or "hacs_archive" in request.meta:
            return
        seconds = retry_after(response.headers.get(b"Retry-After"), time.time())
        if seconds is None:
            seconds = DEFAULT_PAUSE_SECONDS if response.status == 429 else 0.0
        if seconds > 0:
            host = _host(response)  # not the request's: a browser follows redirects itself
            until = self._clock() + seconds
            self._until[host] = max(self._until.get(host, until), until)
            logger.info("%s answered %d: left alone for %.0f s", host, response.status, seconds)
            self._downloads.recall(lambda waiting: _host(waiting) == host, PutBackError())


class CrawlDelays(Part):
    """Obeys Crawl-delay in robots.txt: one request at a time per slot, with that delay.

    Scrapy reads Crawl-delay since 2.18, but does not obey it (scrapy/scrapy issue 892).
    """

    def __init__(self, crawl: Crawl) -> None:
        self._crawler = crawl.crawler
        self._delays: dict[str, float] = {}
        crawl.crawler.signals.connect(self.obey, signals.robots_parsed)

    @classmethod
    def from_crawl(cls, crawl: Crawl) -> Self | None:
        """Make the part; None if robots.txt is not obeyed or Scrapy lacks the signal for its rules."""
        obeys = crawl.crawler.settings.getbool("ROBOTSTXT_OBEY")
        return cls(crawl) if obeys and hasattr(signals, "robots_parsed") else None

    def obey(self, robotparser: RobotParser, request: Request) -> None:
        """Apply the host's Crawl-delay to the slot of a request, unless DOWNLOAD_DELAY is longer."""
        settings = self._crawler.settings
        agent = settings["ROBOTSTXT_USER_AGENT"] or request.headers.get(b"User-Agent")
        asked = robotparser.crawl_delay(agent or settings["USER_AGENT"]) or 0.0
        if not asked > 0.0 or "hacs_archive" in request.meta:
            return
        # connected late, so as to run after AutoThrottle, which may shorten the delay
        if not self._delays:
            self._crawler.signals.connect(self._keep, signals.response_downloaded)
        slot = Downloads(self._crawler).slot_of(request)
        delay = max(min(asked, LONGEST_DELAY_SECONDS), settings.getfloat("DOWNLOAD_DELAY"))
        logger.info(
            "%s asks in robots.txt for %g s between requests: it gets %g", slot, asked, delay
        )
        self._delays[slot] = max(delay, self._delays.get(slot, 0.0))
        self._plan(slot)

    def _keep(self, request: Request) -> None:
        if request.meta.get("download_slot") in self._delays:
            self._plan(request.meta["download_slot"])

    def _plan(self, slot: str) -> None:
        Downloads(self._crawler).plan(slot, self._delays[slot], 1)


def _host(message: Request | Response) -> str:
    return urlsplit(message.url).hostname or ""

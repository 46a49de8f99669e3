"""Hosts are left alone as they ask: by Retry-After (HACS_RETRY_AFTER), and by Crawl-delay in robots.txt.

Requests of the spider `wayback` to web archives are left to `ArchivePauseMiddleware`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final
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
# After a 429 that names no time.
DEFAULT_PAUSE_SECONDS: Final = 60.0
# Longer ones count as this, as in Heritrix: no robots.txt makes a crawl last for ever.
LONGEST_DELAY_SECONDS: Final = 300.0


class HostPauses(CrawlPart):
    """The time until which each host must not be asked after a 429 or 503.

    Scrapy retries such answers without regard to their Retry-After (scrapy/scrapy issue 3849).
    Not by downloader slot: a redirect keeps the slot of the host that it began with (scrapy issue 2141),
    and a spider's own slot may have requests for many hosts, or some of the requests for one.
    """

    required = True

    def __init__(self, crawl: Crawl, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(crawl)
        self._downloads = Downloads(crawl.crawler)
        self._clock = clock
        self._until: dict[str, float] = {}
        # before a middleware sees a response, Scrapy has sent what waited for its turn behind it
        crawl.crawler.signals.connect(self.on_response, signals.response_downloaded)

    def admit(self, request: Request) -> float:
        """Return for how many seconds from now a request's host wants to be left alone."""
        if not self._until or "hacs_archive" in request.meta:
            return 0.0
        host = _host(request)
        left = self._until.get(host, 0.0) - self._clock()
        if left <= 0.0:
            self._until.pop(host, None)
        return left

    def on_response(self, request: Request, response: Response) -> None:
        """Note how long the host must not be asked, and recall the requests that wait for it."""
        if response.status not in STATUSES or "hacs_archive" in request.meta:
            return
        seconds = retry_after(response.headers.get(b"Retry-After"), time.time())
        if seconds is None:
            seconds = DEFAULT_PAUSE_SECONDS if response.status == 429 else 0.0
        if seconds > 0:
            host = _host(response)  # a browser follows redirects by itself
            until = self._clock() + seconds
            self._until[host] = max(self._until.get(host, until), until)
            logger.info("%s answered %d: left alone for %.0f s", host, response.status, seconds)
            self._downloads.recall(lambda waiting: _host(waiting) == host, PutBackError())


class CrawlDelays(Part):
    """Plans the slots of hosts with a Crawl-delay in robots.txt: one request at a time, that far apart.

    Scrapy reads Crawl-delay from 2.18 on, but does not obey it (scrapy/scrapy issue 892).
    """

    def __init__(self, crawl: Crawl) -> None:
        self._crawler = crawl.crawler
        self._delays: dict[str, float] = {}
        crawl.crawler.signals.connect(self.obey, signals.robots_parsed)

    @classmethod
    def from_crawl(cls, crawl: Crawl) -> CrawlDelays | None:
        """Return None if robots.txt is not obeyed, or if Scrapy does not pass on its rules."""
        obeys = crawl.crawler.settings.getbool("ROBOTSTXT_OBEY")
        return cls(crawl) if obeys and hasattr(signals, "robots_parsed") else None

    def obey(self, robotparser: RobotParser, request: Request) -> None:
        """Slow the slot of a request down to its host's Crawl-delay; DOWNLOAD_DELAY may be slower."""
        settings = self._crawler.settings
        agent = settings["ROBOTSTXT_USER_AGENT"] or request.headers.get(b"User-Agent")
        asked = robotparser.crawl_delay(agent or settings["USER_AGENT"]) or 0.0
        if not asked > 0.0 or "hacs_archive" in request.meta:
            return
        # AutoThrottle, which may make a delay shorter, has connected by now
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

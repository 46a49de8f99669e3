"""Hosts are asked no faster than the Crawl-delay of their robots.txt allows, where the project obeys it.

Scrapy reads it from 2.18 on, and tells of it, but does nothing about it (scrapy/scrapy issue 892).
Web archives as the spider `wayback` asks them are left to `ArchivePauseMiddleware`.
"""

from __future__ import annotations

from typing import Final

from scrapy import Request, signals
from scrapy.robotstxt import RobotParser

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.part import Part
from hacs_crawler.crawl.scrapy_internals import Downloads
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

LONGEST_DELAY_SECONDS: Final = 300.0
"""Longer ones count as this, as in Heritrix: no robots.txt makes a crawl last for ever."""


class CrawlDelays(Part):
    """Plans the slots of hosts that ask for a delay: one request at a time, that far apart."""

    def __init__(self, crawl: Crawl) -> None:
        self._crawler = crawl.crawler
        self._delays: dict[str, float] = {}
        crawl.crawler.signals.connect(self.obey, signals.robots_parsed)

    @classmethod
    def from_crawl(cls, crawl: Crawl) -> CrawlDelays | None:
        """Return None where robots.txt is not obeyed, or Scrapy does not tell what it says."""
        obeys = crawl.crawler.settings.getbool("ROBOTSTXT_OBEY")
        return cls(crawl) if obeys and hasattr(signals, "robots_parsed") else None

    def obey(self, robotparser: RobotParser, request: Request) -> None:
        """Slow the slot of a request down to what its host asks for; DOWNLOAD_DELAY may be slower."""
        settings = self._crawler.settings
        agent = settings["ROBOTSTXT_USER_AGENT"] or request.headers.get(b"User-Agent")
        asked = robotparser.crawl_delay(agent or settings["USER_AGENT"]) or 0.0
        if not asked > 0.0 or "hacs_archive" in request.meta:
            return
        if not self._delays:  # AutoThrottle, which may make a delay shorter, has connected by now
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

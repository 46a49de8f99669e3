"""Downloader middleware: Scrapy's own for robots.txt, obeyed by requests that wait for it together, too.

In Scrapy 2.19 several requests to a host await one Deferred while its robots.txt is fetched, and the
first of them takes the parser out of it: the others get None, which means that there are no rules. HACS
sends many start requests of one host at once, so it asks again where the answer is None.
"""

from __future__ import annotations

import logging
from inspect import iscoroutinefunction
from typing import Any

from scrapy import signals
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares import robotstxt
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware

_AWAITS_ONE_DEFERRED = iscoroutinefunction(RobotsTxtMiddleware.robot_parser)


class ObeyedRobotsTxtMiddleware(RobotsTxtMiddleware):
    """Obeys robots.txt from the first request on."""

    if _AWAITS_ONE_DEFERRED:

        async def robot_parser(self, *arguments: Any) -> Any:
            """Return the parser of a host's robots.txt, None where there is none to be had."""
            parser = await super().robot_parser(*arguments)
            # what was awaited is known by now: asked again, Scrapy answers at once, and right
            return parser or await super().robot_parser(*arguments)


class OneLineAHost(logging.Filter):
    """An extension: a host whose robots.txt cannot be fetched costs this crawl a line, no traceback."""

    def __init__(self, crawler: Crawler) -> None:
        super().__init__()
        self._crawler = crawler
        robotstxt.logger.addFilter(self)
        crawler.signals.connect(self._remove, signals.engine_stopped)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> OneLineAHost:
        """Begin at once."""
        return cls(crawler)

    def filter(self, record: logging.LogRecord) -> bool:
        """Take the traceback out of what this crawl logs."""
        if getattr(record, "spider", None) is self._crawler.spider:
            record.exc_info = None
        return True

    def _remove(self) -> None:
        robotstxt.logger.removeFilter(self)

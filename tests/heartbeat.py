"""A Scrapy extension that says for how long the event loop stood still at most.

For how long its thread waited for a processor is taken off: that is other programs' doing.
"""

import logging
import time
from pathlib import Path
from typing import Self

from scrapy import signals
from scrapy.crawler import Crawler
from twisted.internet.task import LoopingCall

logger = logging.getLogger(__name__)

BEAT_SECONDS = 0.02
LONG_SECONDS = 1.0
_SCHEDULED = Path("/proc/thread-self/schedstat")
"""Nanoseconds of work, and of waiting for a processor, of Linux's scheduler; 0 where it keeps none."""


class Heartbeat:
    """Sets the stat `heartbeat/longest_ms`, and says in a line what came before a long one."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._beat = LoopingCall(self._note)
        self._seen: list[str] = []
        self._last = self._longest = 0.0

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        extension = cls(crawler)
        crawler.signals.connect(extension.begin, signals.spider_opened)
        crawler.signals.connect(extension.end, signals.spider_closed)
        crawler.signals.connect(extension.remember, signals.response_received)
        return extension

    def begin(self) -> None:
        self._last = _seconds()
        self._beat.start(BEAT_SECONDS, now=False)

    def remember(self, response: object) -> None:
        self._seen.append(str(response)[:100])

    def end(self) -> None:
        self._note()
        self._beat.stop()
        assert self._crawler.stats is not None
        self._crawler.stats.set_value("heartbeat/longest_ms", round(1000 * self._longest))

    def _note(self) -> None:
        now = _seconds()
        stood, self._last = now - self._last, now
        self._longest = max(self._longest, stood)
        if stood > LONG_SECONDS:
            logger.info("stood still for %.2f s: %s", stood, self._seen)
        self._seen.clear()


def _seconds() -> float:
    """Return the time in seconds without that for which this thread waited for a processor."""
    waited = int(_SCHEDULED.read_text().split()[1]) if _SCHEDULED.exists() else 0
    return time.monotonic() - waited / 1e9

"""A Scrapy extension that says for how long the event loop stood still at most."""

from __future__ import annotations

import logging
import time

from scrapy import signals
from scrapy.crawler import Crawler
from twisted.internet.task import LoopingCall

logger = logging.getLogger(__name__)

BEAT_SECONDS = 0.02
LONG_SECONDS = 1.0


class Heartbeat:
    """Stats `heartbeat/longest_ms` and `heartbeat/longest_cpu_ms`, and in a line what came before."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._beat = LoopingCall(self._note)
        self._seen: list[str] = []
        self._last = self._last_cpu = 0.0
        self._longest = self._longest_cpu = 0.0

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Heartbeat:
        extension = cls(crawler)
        crawler.signals.connect(extension.begin, signals.spider_opened)
        crawler.signals.connect(extension.end, signals.spider_closed)
        crawler.signals.connect(extension.remember, signals.response_received)
        return extension

    def begin(self) -> None:
        self._last, self._last_cpu = time.monotonic(), time.thread_time()
        self._beat.start(BEAT_SECONDS, now=False)

    def remember(self, response: object) -> None:
        self._seen.append(str(response)[:100])

    def end(self) -> None:
        self._note()
        self._beat.stop()
        assert self._crawler.stats is not None
        for name, seconds in (("ms", self._longest), ("cpu_ms", self._longest_cpu)):
            self._crawler.stats.set_value(f"heartbeat/longest_{name}", round(1000 * seconds))

    def _note(self) -> None:
        now, cpu = time.monotonic(), time.thread_time()
        stood, worked = now - self._last, cpu - self._last_cpu
        self._last, self._last_cpu = now, cpu
        self._longest = max(self._longest, stood)
        self._longest_cpu = max(self._longest_cpu, worked)
        if stood > LONG_SECONDS:
            logger.info("stood still for %.2f s, CPU %.2f s: %s", stood, worked, self._seen)
        self._seen.clear()

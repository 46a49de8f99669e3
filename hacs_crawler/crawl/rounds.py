"""Rounds of a continuous crawl: each ranks all pages once the round before is finished."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from scrapy.crawler import Crawler
from scrapy.utils.defer import maybe_deferred_to_future

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.ranker import Ranker
from hacs_crawler.crawl.scrapy_internals import Downloads, is_parsing
from hacs_crawler.crawl.stats import CrawlStats
from hacs_crawler.utils.loop import sleep
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

MINUTE: Final = 60.0
CHECK_SECONDS: Final = 0.25
"""How often to check whether a round is done."""


class Rounds:
    """The rounds of one crawl; `next` is called from the spider's `start()` when its seeds are over."""

    def __init__(
        self,
        crawler: Crawler,
        clock: Callable[[], float] = time.monotonic,
        turn: Callable[[CrawlStats], bool] | None = None,
        minutes: float = 0.0,
    ) -> None:
        self._crawler = crawler
        self._crawl = Crawl.of(crawler)
        self._ranker = Ranker.of(crawler)
        self._clock = clock
        self._turn = turn
        self._minutes = minutes
        self._began = clock()

    async def next(self) -> bool:
        """End a round and return when the next round begins; False if the crawl has failed.

        A round is over when every request that its seeds led to has been visited and written to the
        state. The next round begins `minutes` after this round began, or now if that is past. With a
        simulated clock, `turn` lets the time pass and says whether there is a next round.
        """
        crawl = self._crawl
        if self._ranker is not None:
            await self._ranker.end_round()
        while crawl.failure is None and not self._is_idle():
            await maybe_deferred_to_future(sleep(CHECK_SECONDS))
        await crawl.end_round()
        if crawl.failure is not None:
            return False
        if self._turn is not None and not self._turn(crawl.stats):
            return False
        rest = self._began + self._minutes * MINUTE - self._clock()
        if rest > 0 and self._turn is None:
            logger.info("The next round begins in %.1f minutes", rest / MINUTE)
            await maybe_deferred_to_future(sleep(rest))
        self._began = self._clock()
        await crawl.begin_round()
        if self._ranker is not None:
            self._ranker.begin_round()
        return crawl.failure is None

    def _is_idle(self) -> bool:
        """Whether nothing is waiting, under way or being parsed, as Scrapy's engine asks it."""
        if self._ranker is not None:
            return not self._ranker.has_work and self._ranker.is_quiet()
        return not (Downloads(self._crawler).active or is_parsing(self._crawler))

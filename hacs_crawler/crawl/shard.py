"""One shard crawled: which pages are its own, and what becomes of those of others."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from typing import Final

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import DeferredLock

from hacs_crawler.config import Config
from hacs_crawler.crawl.asked import Asked, asked_of, read_asked, write_asked
from hacs_crawler.crawl.meta import is_seed, page_url
from hacs_crawler.crawl.shard_hold import ShardHold
from hacs_crawler.crawl.state_access.state_thread import RETRY_SECONDS
from hacs_crawler.crawl.state_access.write_behind import CLOSING_PAUSES_SECONDS
from hacs_crawler.crawl.stats import CrawlStats
from hacs_crawler.exceptions import ConfigError, StateError, StateUnavailableError
from hacs_crawler.links import page_id_of
from hacs_crawler.state import (
    PAGES_A_CALL,
    Page,
    Shard,
    open_state,
    shard_lock,
    shard_of_page,
)
from hacs_crawler.utils.loop import Worker, begin, call_later, sleep
from hacs_crawler.utils.text import counted, safe_logger

logger = safe_logger(__name__)

INDEX_VARIABLE: Final = "JOB_COMPLETION_INDEX"
"""Kubernetes sets it in each pod of an indexed job."""
HAND_OVER_SECONDS: Final = 2.0
"""The longest that a page of another shard waits to be written there."""
_Seeds = dict[str, Asked | None]


def with_own_shard(config: Config) -> Config:
    """Return the settings with the shard that the environment names; raises ConfigError.

    As they are, where HACS_SHARDS is not set, or HACS_SHARD is.
    """
    if config.shards is None or config.shard is not None:
        return config
    text, most = os.environ.get(INDEX_VARIABLE), config.shards - 1
    if text is None:
        raise ConfigError(
            f"HACS_SHARDS = {config.shards}: the environment variable {INDEX_VARIABLE}, which says "
            f"which of these a crawl has, is not set; HACS_SHARD says it, too"
        )
    if not (text.isascii() and text.isdigit() and int(text[:9]) <= most):
        raise ConfigError(f"{INDEX_VARIABLE} = {text[:50]!r}: allowed is a number from 0 to {most}")
    shard = Shard(int(text), config.shards)
    shard.namespace(config.namespace)
    return replace(config, shard=shard)


class OwnShard:
    """The shard of one crawl.

    Pages of other shards are not asked for: those that all crawls begin with are left to theirs, and
    those that callbacks ask for are put into the state of theirs, with how they were asked for.
    """

    def __init__(
        self, crawler: Crawler, config: Config, stats: CrawlStats, fail: Callable[[str], None]
    ) -> None:
        assert config.shard is not None  # noqa: S101 - else there is none
        self._crawler = crawler
        self._config = config
        self._shard = config.shard
        self._stats = stats
        self._fail = fail
        self._worker = Worker()
        self._hold: ShardHold | None = None
        self._is_over = False
        self._waiting: dict[int, _Seeds] = {}
        self._writing = DeferredLock()
        self._has_said = False

    async def begin(self, *, has_scheduler: bool) -> bool:
        """Take the shard; returns whether the crawl may go on. A failure is said."""
        config = self._config
        problem: str | None = "HACS_SHARD needs HACS's own SCHEDULER, which leaves out other pages"
        try:
            if has_scheduler:
                lock = shard_lock(config.state, config.own_namespace, config.base)
                self._hold = ShardHold(self._crawler, self._shard, lock, self._fail)
                problem = await self._hold.take(self._worker, waits=config.shard_wait)
        except (ConfigError, StateError) as error:
            problem = str(error)
        if problem is not None:
            self._fail(problem)
        return problem is None and not self._is_over

    def stop_waiting(self) -> None:
        """Let `begin` return: the crawl is over."""
        self._is_over = True
        if self._hold is not None:
            self._hold.stop_waiting()

    def takes(self, request: Request, is_filtered: Callable[[Request], bool]) -> bool:
        """Whether a request is this crawl's: for no page, for one of this shard, or under way already.

        What is not is left out, or handed over unless the project `is_filtered` it.
        """
        url = None if request.meta.get("hacs_claimed") else page_url(request)
        if url is None or (number := shard_of_page(url, self._shard.count)) == self._shard.index:
            return True
        if is_seed(request):
            self._stats.count("shard/left_out")
        elif not is_filtered(request):
            self._hand_over(url, number, request)
        return False

    async def close(self, on_loss: Callable[[str], None]) -> None:
        """Write what is to be handed over, and give up the shard; `on_loss` is told what is lost."""
        for pause in (0.0, *CLOSING_PAUSES_SECONDS):
            await maybe_deferred_to_future(sleep(pause))
            if (problem := await self._write()) is None:
                break
        else:
            number = sum(map(len, self._waiting.values()))
            on_loss(
                f"{counted(number, 'page')} of other shards could not be handed over: {problem}"
            )
        if self._hold is not None:
            await maybe_deferred_to_future(self._worker.run(self._hold.release))
        self._worker.close()

    def _hand_over(self, url: str, number: int, request: Request) -> None:
        if not self._waiting:
            self._write_in(HAND_OVER_SECONDS)
        self._waiting.setdefault(number, {})[url] = asked_of(request, self._spider)
        self._stats.count("shard/handed_over")
        if not self._has_said:
            self._has_said = True
            logger.info(
                "%s is a page of shard %d/%d: it is put into the state of that shard, whose next crawl "
                "visits it, as are others from now on",
                url,
                number,
                self._shard.count,
            )

    def _write_in(self, seconds: float) -> None:
        call_later(seconds, lambda: None if self._is_over else begin(self._write()))

    async def _write(self) -> str | None:
        """Write what waits into the states of its shards; return why some still does."""
        await maybe_deferred_to_future(self._writing.acquire())
        try:
            while self._waiting:
                number, seeds = self._waiting.popitem()
                try:
                    await maybe_deferred_to_future(
                        self._worker.run(_handed_over, self._config, self._spider, number, seeds)
                    )
                except StateError as error:
                    self._waiting[number] = {**seeds, **self._waiting.get(number, {})}
                    if not isinstance(error, StateUnavailableError):
                        self._fail(str(error))
                    elif not self._is_over:
                        logger.warning("%s; next try in %g s", error, RETRY_SECONDS)
                        self._write_in(RETRY_SECONDS)
                    return str(error)
                logger.debug("%s handed over to shard %d", counted(len(seeds), "page"), number)
        finally:
            self._writing.release()
        return None

    @property
    def _spider(self) -> Spider:
        assert self._crawler.spider is not None  # noqa: S101 - it crawls
        return self._crawler.spider


def _handed_over(config: Config, spider: Spider, number: int, seeds: _Seeds) -> None:
    """Make pages known to the state of another shard, with how this crawl would ask for them."""
    assert config.shard is not None  # noqa: S101 - else nothing is handed over
    theirs = replace(config, shard=Shard(number, config.shard.count))
    with closing(open_state(*theirs.state_arguments)) as state:
        urls = list(seeds)
        for start in range(0, len(urls), PAGES_A_CALL):
            some = urls[start : start + PAGES_A_CALL]
            state.restore(map(Page, some))
            asked = {page_id_of(url): how for url in some if (how := seeds[url]) is not None}
            known = read_asked(state, spider.name, list(asked))
            write_asked(
                state,
                spider.name,
                {page_id: how for page_id, how in asked.items() if page_id not in known},
                {name for how in asked.values() for name in (how.callback, how.errback)},
            )

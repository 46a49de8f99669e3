"""HACS_SHARD: which pages are a crawl's own, and what becomes of those of other shards.

Pages of other shards are not asked for: those that all crawls begin with are left to theirs, and those
that callbacks ask for are put into the state of theirs, with how they were asked for.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import Final

from scrapy import Request, Spider, signals
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import DeferredLock

from hacs_crawler.config import Config
from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.meta import is_seed
from hacs_crawler.crawl.part import Part
from hacs_crawler.crawl.ranker import Ranker
from hacs_crawler.crawl.recipes import RequestRecipe, read_recipes, recipe_of, write_recipes
from hacs_crawler.crawl.state_access.write_behind import CLOSING_PAUSES_SECONDS
from hacs_crawler.exceptions import ConfigError, StateError, StateUnavailableError
from hacs_crawler.links import page_id_of
from hacs_crawler.parts.shards.hold import ShardHold
from hacs_crawler.ranking.choice import Quota
from hacs_crawler.ranking.shard_rounds import Round, quota_left, read_round
from hacs_crawler.state import PAGES_A_CALL, Page, Shard, open_state, shard_lock, shard_of_page
from hacs_crawler.utils.loop import Worker, begin, call_later, sleep
from hacs_crawler.utils.text import counted, safe_logger

logger = safe_logger(__name__)

HAND_OVER_SECONDS: Final = 2.0
"""The longest that a page of another shard waits to be written there, and until the next try."""
ROUND_LOOK_SECONDS: Final = 1.0
"""How often it is looked whether a plan over shards has begun the next round."""


class Shards(Part):
    """The shard of one crawl, and its round of a plan over all shards, where there is one."""

    required = True

    def __init__(self, crawl: Crawl, config: Config, shard: Shard) -> None:
        self._crawl = crawl
        self._config = config
        self._shard = shard
        self._since: int | None = getattr(crawl.crawler, "hacs_round", None)
        self._left: Quota | None = None
        self._worker = Worker()
        self._hold: ShardHold | None = None
        self._waiting: dict[str, RequestRecipe | None] = {}
        self._handed_over: set[int] = set()
        self._writing = DeferredLock()
        crawl.crawler.signals.connect(self._stop_waiting, signals.spider_closed)

    @classmethod
    def from_crawl(cls, crawl: Crawl) -> Shards | None:
        """Return None unless the settings name a shard."""
        config = crawl.config
        return None if config.shard is None else cls(crawl, config, config.shard)

    async def opening(self) -> None:
        """Take the shard; raises ConfigError and StateError."""
        config, crawler = self._config, self._crawl.crawler
        if Ranker.of(crawler) is None:
            raise ConfigError("HACS_SHARD needs HACS's own SCHEDULER, which leaves out other pages")
        lock = shard_lock(config.state, config.own_namespace, config.base)
        self._hold = ShardHold(crawler, self._shard, lock, self._crawl.fail)
        await self._hold.take(self._worker, waits=config.shard_wait)

    async def opened(self) -> None:
        """Read which round of a plan this is, and what is left of it."""
        if self._since is None:
            return
        found = await self._crawl.state.once(read_round, self._since)
        if found is None:
            raise StateError("another `hacs crawl` has planned this shard meanwhile, and crawls it")
        await self._begin(found)

    async def round_began(self) -> None:
        """Wait until the next round is planned."""
        if self._since is None:
            return
        while (found := await self._crawl.state.patiently(read_round, self._since)) is None:
            await maybe_deferred_to_future(sleep(ROUND_LOOK_SECONDS))
            if not self._crawl.is_open:
                return
        await self._begin(found)

    def quota(self, quota: Quota) -> Quota:
        """Return what of the round is left to this crawl."""
        left = self._left
        if left is None:
            return quota
        return replace(quota, budget=left.budget, unseen=left.unseen, done=left.done)

    def takes(self, page_url: str, request: Request | None) -> bool:
        """Whether a page is of this shard; others are left out, or handed over."""
        number = shard_of_page(page_url, self._shard.count)
        if number == self._shard.index:
            return True
        if request is None or is_seed(request):
            self._crawl.stats.count("shard/left_out")
        elif (page_id := page_id_of(page_url)) not in self._handed_over:
            self._hand_over(page_url, number, request)
            self._handed_over.add(page_id)
        return False

    async def closing(self) -> None:
        """Write what is to be handed over."""
        for pause in (0.0, *CLOSING_PAUSES_SECONDS):
            await maybe_deferred_to_future(sleep(pause))
            if (problem := await self._write()) is None:
                return
        pages = counted(len(self._waiting), "page")
        self._crawl.fail(f"{pages} of other shards could not be handed over: {problem}")

    async def closed(self) -> None:
        """Give up the shard."""
        if self._hold is not None:
            await maybe_deferred_to_future(self._worker.run(self._hold.release))
        self._worker.close()

    async def _begin(self, found: Round) -> None:
        self._left = await self._crawl.state.patiently(quota_left, found)
        self._since = found.began + 1

    def _stop_waiting(self) -> None:
        if self._hold is not None:
            self._hold.stop_waiting()

    def _hand_over(self, url: str, number: int, request: Request) -> None:
        if not self._handed_over:
            logger.info(
                "%s is a page of shard %d/%d: it is put into the state of that shard, whose next crawl "
                "visits it, as are others from now on",
                url,
                number,
                self._shard.count,
            )
        if not self._waiting:
            self._write_soon()
        self._waiting[url] = recipe_of(request, self._spider)
        self._crawl.stats.count("shard/handed_over")

    def _write_soon(self) -> None:
        call_later(HAND_OVER_SECONDS, lambda: begin(self._write()) if self._crawl.is_open else None)

    async def _write(self) -> str | None:
        """Write what waits into the states of its shards; return why some still does."""
        await maybe_deferred_to_future(self._writing.acquire())
        taken, self._waiting = self._waiting, {}
        try:
            await maybe_deferred_to_future(
                self._worker.run(_write, self._config, self._shard.count, self._spider, taken)
            )
        except StateError as error:
            self._waiting = {**taken, **self._waiting}
            if not isinstance(error, StateUnavailableError):
                self._crawl.fail(str(error))
            elif self._crawl.is_open:
                logger.warning("%s; next try in %g s", error, HAND_OVER_SECONDS)
                self._write_soon()
            return str(error)
        finally:
            self._writing.release()
        return None

    @property
    def _spider(self) -> Spider:
        assert self._crawl.crawler.spider is not None  # noqa: S101 - it crawls
        return self._crawl.crawler.spider


def _write(
    config: Config, count: int, spider: Spider, seeds: dict[str, RequestRecipe | None]
) -> None:
    """Make pages known to the states of their shards, with how this crawl would ask for them.

    It may be done again: what is known there stays as it is.
    """
    by_shard: dict[int, list[str]] = {}
    for url in seeds:
        by_shard.setdefault(shard_of_page(url, count), []).append(url)
    for number, urls in by_shard.items():
        theirs = replace(config, shard=Shard(number, count))
        with closing(open_state(*theirs.state_arguments)) as state:
            for start in range(0, len(urls), PAGES_A_CALL):
                some = urls[start : start + PAGES_A_CALL]
                state.restore(map(Page, some))
                asked = {page_id_of(url): how for url in some if (how := seeds[url]) is not None}
                known = read_recipes(state, spider.name, list(asked))
                write_recipes(
                    state,
                    spider.name,
                    {page_id: how for page_id, how in asked.items() if page_id not in known},
                    {name for how in asked.values() for name in (how.callback, how.errback)},
                )
        logger.debug("%s handed over to shard %d", counted(len(urls), "page"), number)

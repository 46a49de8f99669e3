"""HACS_SHARD: limits a crawl to its shard, takes its share of a round, and hands over other pages."""

import math
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final, ParamSpec, TypeVar

import numpy as np
from scrapy import Request, signals
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import DeferredLock

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.for_parts import CrawlPart
from hacs_crawler.crawl.meta import is_seed, is_start
from hacs_crawler.crawl.ranker import Ranker
from hacs_crawler.crawl.recipes import pages_handed_over, recipe_of, requests_again
from hacs_crawler.crawl.scrapy_internals import is_closing
from hacs_crawler.crawl.state_access.write_behind import CLOSING_PAUSES_SECONDS
from hacs_crawler.exceptions import ConfigError, StateError, StateUnavailableError
from hacs_crawler.links import page_id_of
from hacs_crawler.parts.shards.handed_over import WaitingPage, hand_over
from hacs_crawler.parts.shards.hold import ShardHold
from hacs_crawler.ranking.choice import Quota, foremost
from hacs_crawler.ranking.policies import Floats
from hacs_crawler.shards import Round, RoundNotes, open_rounds, shard_lock
from hacs_crawler.state import PAGES_A_CALL, Recorded, State, shard_of_page
from hacs_crawler.utils.arrays import BoolArray
from hacs_crawler.utils.loop import Worker, begin, call_later, sleep
from hacs_crawler.utils.text import counted, safe_logger

logger = safe_logger(__name__)

# How long requests wait to be handed over, and the pause after a failed attempt.
WRITE_SECONDS: Final = 2.0
# How many pages of other shards, from a `start()` that has not ended, may wait in memory.
MOST_START_PAGES: Final = 10_000
# The stats for the table of all shards, by name or prefix.
COUNTED: Final = {
    "asked": "downloader/request_count",
    "items": "item_scraped_count",
    "dropped": "hacs/dropped/",
}
P = ParamSpec("P")
T = TypeVar("T")


class Shards(CrawlPart):
    """The shard of a crawl, and its share of a round of all shards, if one is planned."""

    required = True
    _hold: ShardHold
    _notes: RoundNotes

    def __init__(self, crawl: Crawl) -> None:
        super().__init__(crawl)
        assert crawl.config.shard is not None  # noqa: S101 - else the part is off
        spider = crawl.crawler.spider
        assert spider is not None  # noqa: S101 - the engine is made after it
        self._config, self._shard, self._spider = crawl.config, crawl.config.shard, spider
        self._worker = Worker()
        # held while the round is changed or requests are written; closing waits for it
        self._in_use = DeferredLock()
        self._at_end: list[Callable[[], object]] = []
        self._round: Round | None = None
        self._given = 0
        self._before: dict[str, float] = {}
        self._began_at = time.monotonic()
        # pages not to visit (again): visited earlier in the round, or handed over and in `start()`
        self._done: set[int] = set()
        self._visited: set[int] = set()
        # pages whose requests are, or will be, in their shard's state
        self._kept: set[int] = set()
        self._waiting: dict[int, WaitingPage] = {}
        self._to_forget: set[int] = set()
        self._start_pages: dict[int, WaitingPage] = {}
        self._start = 0
        self._is_timed = False
        self._last_pauses = iter(CLOSING_PAUSES_SECONDS)
        self._reason = ""
        # for file names such as FEEDS = {"items-%(hacs_shard)s.jsonl": …}
        spider.hacs_shard = f"{self._shard.index}-{self._shard.count}"  # type: ignore[attr-defined]
        self._may_be_a_queue = not type(spider).start.__module__.startswith(("scrapy.", "hacs_"))
        crawl.crawler.signals.connect(self._on_closed, signals.spider_closed)

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Hold the shard; raises ConfigError and StateError."""
        try:
            await self._take()
            yield
        finally:
            # wait for work in progress, which will find the crawl closed
            await maybe_deferred_to_future(self._in_use.run(lambda: None))
            for end in reversed(self._at_end):
                await maybe_deferred_to_future(self._worker.run(end))
            self._worker.close()

    async def _take(self) -> None:
        config, crawler = self._config, self._crawl.crawler
        if Ranker.of(crawler) is None:
            raise ConfigError("HACS_SHARD needs HACS's own SCHEDULER, which leaves out other pages")
        lock = shard_lock(config.state, config.own_namespace, config.base)
        self._hold = ShardHold(crawler, self._shard, lock, self._crawl.fail)
        self._at_end.append(self._hold.release)
        crawler.signals.connect(self._hold.stop_waiting, signals.spider_closed)
        await self._hold.take(self._worker)

    async def opened(self) -> None:
        """Join the planned round, if any."""
        self._notes = await self._patiently(open_rounds, self._config, self._shard.count)
        self._at_end.append(self._notes.close)
        kept = await self._crawl.state.once(pages_handed_over, self._spider.name)
        self._kept = set(kept.tolist())
        await self._join(await self._patiently(self._notes.read))

    async def start_requests(self) -> AsyncIterator[Request]:
        """Yield the requests that were handed over to this shard."""
        # a plan of the whole state includes these pages
        if getattr(self._spider, "seeds", None) == "state":
            return
        state, spider = self._crawl.state, self._spider
        page_ids = await state.patiently(pages_handed_over, spider.name)
        for start in range(0, len(page_ids), PAGES_A_CALL):
            some = page_ids[start : start + PAGES_A_CALL]
            waiting = await state.patiently(requests_again, some, spider, len(some), "all")
            waiting.log(spider)
            self._crawl.stats.count("shard/taken_over", len(waiting.requests))
            for request in waiting.requests:
                yield request

    async def round_began(self) -> None:
        """Join the next round; if the last round was planned, wait until the next one is."""
        before = self._round
        while self._crawl.is_open:
            found = await self._patiently(self._notes.read)
            if before is None or found is None or found.began != before.began:
                await self._join(found)
                break
            await maybe_deferred_to_future(sleep(WRITE_SECONDS))

    def quota(self, quota: Quota) -> Quota:
        """Return the quota of a round of all shards."""
        if self._round is None:
            return quota
        budget, shards = self._round.budget, self._shard.count
        grant = None if budget is None else self.grant
        least = -math.inf if self._round.cut_off is None else self._round.cut_off
        return replace(quota, budget=budget, shards=shards, grant=grant, least=least)

    def takes(self, page_url: str, request: Request | None) -> bool:
        """Return whether this crawl may visit a page; requests for other pages are handed over."""
        number = shard_of_page(page_url, self._shard.count)
        is_own = number == self._shard.index
        if is_own and self._round is None and not self._kept:
            return True
        page_id = page_id_of(page_url)
        if request is not None and is_start(request):
            self._start = (self._start + page_id) % 2**62
        if is_own and page_id in self._done:
            self._crawl.stats.count("dropped/done")
            return False
        if request is not None and not is_seed(request):
            if not is_own or self._round is not None:
                self._keep(page_id, WaitingPage(page_url, recipe_of(request, self._spider)), number)
        elif not is_own:
            self._crawl.stats.count("shard/left_out")
            if request is not None and self._may_be_a_queue and self._round is not None:
                self._start_pages[page_id] = WaitingPage(page_url, recipe_of(request, self._spider))
                self._write_soon()
        elif request is not None and page_id in self._kept:
            # the page was handed over: drop a second request for it, from `start()`
            self._done.add(page_id)
        return is_own

    async def grant(self, score: Floats, is_new: BoolArray, *, is_last: bool) -> BoolArray:
        """Take a lot of the budget, and return which of the waiting pages it is for.

        `is_last` says that the crawl has nothing else to do: without a lot, the shard has ended.
        """

        async def granted() -> BoolArray:
            is_granted = await self._lot(score, is_new)
            if is_last and not is_granted.any() and self._crawl.is_open:
                await self._end(has_more=len(score) > 0, unseen=int(is_new.sum()))
                # this may have removed the cut-off
                is_granted = await self._lot(score, is_new)
            return is_granted

        return await self._exclusively(granted)

    def recorded(self, batch: Sequence[Recorded]) -> None:
        """Forget the waiting requests of visited pages."""
        visited = {page_id_of(recorded.visit.url) for recorded in batch}
        self._visited |= visited
        for page_id in visited & self._waiting.keys():
            del self._waiting[page_id]
        self._to_forget |= visited & self._kept
        self._write_soon()

    async def closing(self) -> None:
        """Hand over the remaining requests."""

        async def write() -> None:
            try:
                await self._write()
            except StateError as error:
                left = len(self._waiting | self._start_pages)
                requests = f"{counted(left, 'page')} could not be handed over: " if left else ""
                self._crawl.fail(f"{requests}{error}")

        await self._exclusively(write)

    async def round_ended(self, is_asked_to_end: Callable[[], bool]) -> None:
        """End the shard's share of the round."""
        if self._round is None or self._crawl.failure is not None:
            return
        if self._round.shards[self._shard.index].is_open and self._reason in {"", "finished"}:
            await self._end(has_more=False)
        ids = np.array([*self._visited | self._done], np.int64)
        visited, updates = await self._crawl.state.once(State.visited_since, self._round.began, ids)
        await self._count(visited=len(visited), updates=updates)

    async def _join(self, found: Round | None) -> None:
        """Join a round, if there is one; raises ConfigError, StateError."""
        self._round, self._done, self._visited = found, set(), set()
        if found is None:
            return
        if (found.budget is None) != (self._config.ranking.budget is None):
            raise ConfigError(
                f"HACS_BUDGET = {self._config.ranking.budget}: the round was planned with "
                f"{found.budget}, give its crawls and the plan the same"
            )
        if found.shards[self._shard.index].attempts:
            self._done = await self._crawl.state.once(_done_since, found.began)
            self._to_forget |= self._kept & self._done
        share = await self._change(lambda round_: round_.join(self._shard, len(self._done)))
        self._given, self._before = share.given, share.counts
        logger.info(
            "Shard %s is crawled in a round of all shards: budget %s, cut-off %s",
            self._shard,
            found.budget,
            "none" if found.cut_off is None else f"{found.cut_off:.4g}",
        )

    async def _lot(self, score: Floats, is_new: BoolArray) -> BoolArray:
        """Take a lot of the budget, and return the pages that get it: the best known and new ones."""
        current, is_granted = self._round, np.zeros(len(score), np.bool_)
        if current is None or not self._crawl.is_open or is_closing(self._crawl.crawler):
            return is_granted
        reaches = ~is_granted if current.cut_off is None else score >= current.cut_off
        is_extra = reaches & is_new & (current.for_new is not None or current.kept > 0)
        kinds = np.flatnonzero(reaches & ~is_extra), np.flatnonzero(is_extra)
        if reaches.any():
            index, had = self._shard.index, current.shards[self._shard.index]
            seen, new = map(len, kinds)
            lots = await self._change(lambda round_: round_.take(index, seen, new, had))
            for places, number in zip(kinds, lots, strict=True):
                is_granted[places[foremost(-score[places], number)]] = True
        return is_granted

    async def _end(self, *, has_more: bool, unseen: int = 0) -> None:
        """Note in the round that the shard has no more pages above the cut-off."""
        number, left = self._shard.index, {"given": self._given, "unseen": unseen}
        await self._change(lambda round_: round_.end(number, has_more=has_more, **left))

    def _keep(self, page_id: int, page: WaitingPage, number: int) -> None:
        """Queue a request from a callback to be written into the state of its shard."""
        if page_id in self._kept:
            return
        self._kept.add(page_id)
        self._waiting[page_id] = page
        self._write_soon()
        if number != self._shard.index:
            if not self._crawl.stats.get("shard/handed_over"):
                logger.info(
                    "%s belongs to shard %d/%d: its request is handed over to the next crawl of that "
                    "shard, as are later ones",
                    page.url,
                    number,
                    self._shard.count,
                )
            self._crawl.stats.count("shard/handed_over")

    def _write_soon(self) -> None:
        if not self._is_timed:
            self._is_timed = True
            call_later(WRITE_SECONDS, self._begin_to_write)

    def _begin_to_write(self) -> None:
        self._is_timed = False
        # else the loop may end before the coroutine has begun
        if self._crawl.is_open:
            begin(self._exclusively(self._write_now))

    async def _write_now(self) -> None:
        try:
            await self._write()
            await self._count()
        except StateUnavailableError:
            pass  # the crawl is ending, and tries again in `closing`
        except StateError as error:
            self._crawl.fail(str(error))

    async def _write(self) -> None:
        """Write waiting requests into their shards; raises StateError."""
        if self._start_pages and self._round is not None:
            ranker, is_ending = Ranker.of(self._crawl.crawler), is_closing(self._crawl.crawler)
            number, start, is_usual = self._shard.index, self._start, None
            if ranker is None or ranker.watch.is_over or is_ending:
                # if start() reads a queue, only this crawl got these requests
                is_usual = await self._change(lambda found: found.is_usual(number, start))
            if is_usual is None and not is_ending and len(self._start_pages) <= MOST_START_PAGES:
                self._write_soon()
            else:
                self._waiting |= {} if is_usual else self._start_pages
                self._start_pages = {}
        taken, self._waiting = self._waiting, {}
        made, self._to_forget = self._to_forget, set()
        try:
            name, began = self._spider.name, math.inf if self._round is None else self._round.began
            given = await self._patiently(hand_over, self._config, name, taken, made, began)
            if given and self._round is not None:
                await self._change(lambda round_: round_.give(given))
        except StateError:
            self._waiting = taken | self._waiting
            self._to_forget |= made
            raise

    async def _count(self, **at_end: int) -> None:
        """Write the counts of this shard's crawls in the round, and those known only at the end."""
        if self._round is None:
            return
        stats = list(self._crawl.stats.collector.get_stats().items())
        counts = {
            name: sum(number for stat, number in stats if stat.startswith(beginning))
            for name, beginning in COUNTED.items()
        }
        counts["dropped"] -= self._crawl.stats.get("dropped/done")
        counts["seconds"] = time.monotonic() - self._began_at
        totals = {name: number + self._before.get(name, 0) for name, number in counts.items()}
        totals["dropped"] = counts["dropped"]  # the next crawl gets these requests again

        def counted_in(round_: Round) -> None:
            share = round_.shards[self._shard.index]
            share.counts, share.counted_at = totals | at_end, int(self._crawl.clock())

        await self._change(counted_in)

    def _on_closed(self, reason: str) -> None:
        self._reason = reason

    async def _exclusively(self, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine when no other such coroutine runs; return its result."""
        result: T = await maybe_deferred_to_future(self._in_use.run(lambda: begin(function())))
        return result

    async def _change(self, change: Callable[[Round], T]) -> T:
        """Change the round atomically; raises StateError."""
        assert self._round is not None  # noqa: S101 - asked in a round only
        self._round, result = await self._patiently(self._notes.change, self._round.began, change)
        return result

    async def _patiently(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return a function's result; retry while the state is unreachable. Raises StateError."""
        while True:
            try:
                return await maybe_deferred_to_future(self._worker.run(function, *args, **kwargs))
            except StateUnavailableError as error:
                is_ending = is_closing(self._crawl.crawler)
                pause = next(self._last_pauses, None) if is_ending else WRITE_SECONDS
                if pause is None:
                    raise
                logger.warning("%s; next try in %g s", error, pause)
                await maybe_deferred_to_future(sleep(pause))


def _done_since(state: State, began: int) -> set[int]:
    """Return the ids of pages with a visit or attempt since a second."""
    tried = (some["page_id"][some["at"] >= began].tolist() for some in state.store.outcomes())
    return set(state.visited_since(began)[0]).union(*tried)

"""Ranks seeds by their pages' rows in the state, and queues the chosen seeds."""

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.log import failure_to_exc_info
from twisted.internet.defer import Deferred, DeferredLock
from twisted.python.failure import Failure

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.meta import mark_ranked, page_id_or_none, seed_url, was_sent
from hacs_crawler.crawl.part import Part
from hacs_crawler.crawl.queues import SeedQueue, UnrankedSeeds
from hacs_crawler.crawl.recipes import with_only_requests
from hacs_crawler.crawl.scrapy_internals import wake
from hacs_crawler.crawl.start_watch import StartWatch
from hacs_crawler.crawl.state_access.read_ahead import RETRY_SECONDS
from hacs_crawler.exceptions import ConfigError, StateError, StateUnavailableError
from hacs_crawler.links import without_login
from hacs_crawler.ranking.choice import Grant
from hacs_crawler.ranking.demands import EVERY_KEY, WEIGHT_KEY, Demands, demands_of
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.selection import Chosen, Dropped, Selection
from hacs_crawler.ranking.signals import Signals, read_signals
from hacs_crawler.state import Rows, State
from hacs_crawler.utils.loop import begin, sleep
from hacs_crawler.utils.text import counted, safe_logger

logger = safe_logger(__name__)

# With fewer ranked seeds in the queue, more are requested from a budget shared with other crawls.
FEW_WAITING: Final = 50
# How many seeds of a plan may wait as requests, approximately.
MOST_WAITING: Final = 2_000


class Ranker:
    """Ranks the seeds that a scheduler holds, when `start()` pauses or ends.

    `is_quiet` says whether no other request waits or is in progress, `is_filtered` asks the
    project's duplicate filter, and `forget_seen` empties it. Seeds that cannot be ranked are kept,
    and the crawl fails.
    """

    def __init__(
        self,
        crawl: Crawl,
        queue: SeedQueue,
        is_quiet: Callable[[], bool],
        is_filtered: Callable[[Request], bool],
        forget_seen: Callable[[], None],
    ) -> None:
        self._crawl = crawl
        self._queue = queue
        self.is_quiet = is_quiet
        self._is_filtered = is_filtered
        self._forget_seen = forget_seen
        self._budget = crawl.config.ranking.budget
        self.seeds = UnrankedSeeds(self._budget)
        # With a budget or threshold, the pages of this round's seeds, and those that were chosen.
        self.asked: set[int] = set()
        self._chosen: set[int] = set()
        # Triggers the ranking of the held seeds.
        self.watch = StartWatch(self.on_pause, time.monotonic)
        self._lock = DeferredLock()
        self._has_ranked = self._has_said_future = self._is_over = self._has_more = False
        self._room: Deferred[None] | None = None
        self._enough_room = 0
        crawl.when_failed(self.on_room)
        crawl.crawler.hacs_ranker = self  # type: ignore[attr-defined]

    @staticmethod
    def of(crawler: Crawler) -> "Ranker | None":
        """Return a crawler's ranker, None if its scheduler is the project's own."""
        return getattr(crawler, "hacs_ranker", None)

    @property
    def has_work(self) -> bool:
        """Whether seeds wait to be ranked, are being ranked, or wait for the rest of a budget."""
        return bool(len(self.seeds) or self.is_ranking or self.seeds.is_kept)

    @property
    def is_ranking(self) -> bool:
        """Whether seeds are being ranked at the moment."""
        return bool(self._lock.locked)

    @property
    def wants_ranking(self) -> bool:
        """Whether enough seeds for one ranking are held."""
        return self._crawl.is_open and self.seeds.is_chunk

    async def rank_ahead(self) -> None:
        """Rank the held seeds, and return when more seeds may be read."""
        await self.rank()
        wake(self._crawl.crawler)
        await self.make_room(self.seeds.most_ahead)

    async def make_room(self, most: int | None = MOST_WAITING) -> None:
        """Return when fewer than `most` ranked seeds wait, to limit memory."""
        if most is not None and len(self._queue) >= most and self._crawl.failure is None:
            self._room, self._enough_room = Deferred(), max(1, most // 2)
            await maybe_deferred_to_future(self._room)

    def on_room(self) -> None:
        """Let `make_room` return if there is room now, or if the crawl has failed."""
        is_failed = self._crawl.failure is not None
        if self._room is not None and (is_failed or len(self._queue) < self._enough_room):
            room, self._room = self._room, None
            room.callback(None)
        if self._has_more and len(self._queue) < FEW_WAITING and not self.is_ranking:
            self._has_more = False
            begin(self._release(is_idle=False)).addErrback(self._on_error)

    async def end_round(self, *, is_last: bool = True) -> None:
        """Rank the held seeds; if they are the last, release all that are within the budget."""
        await self.rank(is_last=is_last)
        wake(self._crawl.crawler)

    async def send_what_can_be_sent(self) -> None:
        """Rank the held seeds, and return when the engine has taken all it can.

        Called before an error of `start()` is passed on: Scrapy may then close the spider
        immediately, but would have sent the requests before the error.
        """
        await self.end_round()
        # the engine asks in the next turn of the loop
        await maybe_deferred_to_future(sleep(0))

    def begin_round(self) -> None:
        """Renew the budget, and let pages be visited again."""
        self.seeds.begin_round()
        self.asked.clear()
        self._chosen.clear()
        self._forget_seen()

    def has_left_out(self, request: Request) -> bool:
        """Whether a redirect leads to a page that a seed is for, and that was not chosen.

        Scrapy's filter calls it a duplicate of the seed, which may never be sent.
        """
        if not (self.asked and was_sent(request)):
            return False
        page_id = page_id_or_none(without_login(request.url))
        return page_id in self.asked and page_id not in self._chosen

    def on_pause(self, *, is_last: bool = True) -> None:
        """Rank the held seeds and have them sent, because `start()` pauses or has ended.

        If lists are still read, they are not the last, and wait for the others if there is a budget.
        """
        # Python may also end a start() that Scrapy abandoned, after the crawl
        if not self._is_over:
            begin(self.end_round(is_last=is_last)).addErrback(self._on_error)

    def take_all(self) -> list[Request]:
        """Return all unsent seeds at the end of a crawl, for the next job to rank."""
        self._is_over = True
        return self.seeds.all()

    def drop_all(self) -> None:
        """Drop all unsent seeds at the end of a crawl."""
        self._is_over = True
        chosen, dropped = self.seeds.take(is_last=True)
        self.drop([*dropped, *(chosen.entries if chosen is not None else ())], "budget")
        # a crawl that begins with known pages needs no such advice
        begins_with_known = self._crawl.parts.override("start_requests")
        selection = None if begins_with_known else self.seeds.selection
        if selection is not None and (number := selection.dropped_better):
            logger.info(
                "%s left out that had a better chance of news than others that were requested before: "
                'HACS_REVISIT = "budget" visits the best known pages first',
                counted(number, "page was", "pages were"),
            )

    async def rank(self, *, is_last: bool = False) -> None:
        """Rank the held seeds; with a budget, release them only if `is_last`.

        In a crawl with nothing else to do, also release what new or known pages left of their
        shares of the budget.
        """
        if not self._crawl.is_open:
            return
        self.watch.reset()
        is_idle = self.seeds.is_kept and not len(self.seeds) and self.is_quiet()
        if len(self.seeds):
            await maybe_deferred_to_future(self._lock.acquire())
            try:
                if self._crawl.is_open:
                    await self._rank()
            finally:
                self._lock.release()
        if (is_last or not self._budget) and not self._is_over:
            await self._release(is_idle=is_idle)

    async def _rank(self) -> None:
        held, page_ids = self.seeds.begin_ranking(self._is_filtered)
        is_done = False
        try:
            if self._crawl.parts.override("before_rank"):
                urls = [seed_url(seed) for seed in held]
                await self._crawl.parts.wait(Part.before_rank, urls)
            evidence = await self._rows(page_ids)
            is_done = self._is_over or (
                evidence is not None and self._offer(held, page_ids, *evidence)
            )
        finally:
            self.seeds.end_ranking(*(([], []) if is_done else (held, page_ids)))

    async def _rows(
        self, page_ids: list[int]
    ) -> tuple[Rows, list[Signals], NDArray[np.bool_]] | None:
        """Read the pages' rows and signals, and which pages are exempt from the threshold.

        If the state cannot be reached, the first ranking fails the crawl; later ones wait.
        """
        while True:
            try:
                rows, future = await self._crawl.state.rows(page_ids, self._crawl.clock())
                spider = self._crawl.crawler.spider
                assert spider is not None  # noqa: S101 - it crawls
                signals, exempt = await self._crawl.state.once(
                    _evidence, page_ids, rows, self._crawl.config.ranking, spider.name
                )
            except StateUnavailableError as error:
                if not self._has_ranked:
                    self._crawl.fail(str(error))
                    return None
                logger.warning("%s; ranking goes on when it is back", error)
                await maybe_deferred_to_future(sleep(RETRY_SECONDS))
            except StateError as error:
                self._crawl.fail(str(error))
                return None
            else:
                # say once that visits in the future are ignored
                if future is not None and not self._has_said_future:
                    self._has_said_future = True
                    logger.warning("%s", future)
                return rows, signals, np.isin(page_ids, exempt)

    def _offer(
        self,
        held: list[Request],
        page_ids: list[int],
        rows: Rows,
        signals: list[Signals],
        is_exempt: NDArray[np.bool_],
    ) -> bool:
        """Score seeds; return whether that succeeded."""
        started = time.perf_counter()
        crawl, selection = self._crawl, self.seeds.selection
        if selection is None:
            options = crawl.ranking.seeded(secrets.randbits(63))
            selection = Selection(options, crawl.quota)
            self.seeds.selection = selection
        try:
            demands, matched = self._demands(held)
            dropped: Dropped[Request] = selection.offer(
                held,
                np.array(page_ids, np.int64),
                rows,
                crawl.clock(),
                crawl.state.estimation,
                is_exempt,
                signals=signals,
                demands=demands,
            )
        except ConfigError as error:
            crawl.fail(str(error))
            return False
        crawl.stats.matched |= matched
        for reason in ("gone", "early", "threshold", "budget"):
            self.drop(getattr(dropped, reason), reason)
        self._has_ranked = True
        crawl.stats.count("seeds", len(held))
        crawl.stats.count("rank_seconds", time.perf_counter() - started)
        return True

    def _demands(self, held: list[Request]) -> tuple[Demands | None, frozenset[str]]:
        """Return the weights and intervals of the seeds' pages; raises ConfigError."""
        options = self._crawl.ranking
        metas = [seed.meta for seed in held]
        if not options.demands and not any(
            WEIGHT_KEY in meta or EVERY_KEY in meta for meta in metas
        ):
            return None, frozenset()
        urls = [seed_url(seed) for seed in held]
        return demands_of(urls, options.weights, options.every, metas)

    async def _release(self, *, is_idle: bool) -> None:
        """Let the chosen seeds be sent, by score."""
        selection, grant = self.seeds.selection, self._crawl.quota.grant
        if selection is not None and grant is not None:
            await maybe_deferred_to_future(self._lock.acquire())
            try:
                chosen, dropped = await self._granted(selection, grant, is_last=is_idle)
            except StateError as error:
                self._crawl.fail(str(error))
                return
            finally:
                self._lock.release()
            wake(self._crawl.crawler)
        else:
            chosen, dropped = self.seeds.take(is_last=is_idle)
        self.drop(dropped, "budget")
        if chosen is None:
            return
        crawl = self._crawl
        # while seeds wait for an unused part of the budget, nobody knows which overdue pages are left
        if selection is not None and (grant is not None or not selection.waits):
            # the plan says what the budget of all shards is enough for
            budget = self._budget if grant is None else None
            crawl.stats.gauge_overdue(selection.demanded, selection.chosen_overdue, budget)
        crawl.parts.tell(Part.chosen, chosen.pages.p, int(chosen.visit_twice.sum()))
        label = crawl.ranking.label(crawl.state.estimation).number
        predicted, visit_twice = chosen.predictor(label, crawl.run), chosen.visit_twice

        # called when the seed is sent: an earlier tag would only take memory
        def mark(seed: Request, place: int) -> None:
            mark_ranked(seed, predicted(place), visit_twice=bool(visit_twice[place]))

        self._chosen.update(chosen.pages.page_ids.tolist() if self.asked else ())
        self._queue.add(chosen.entries, (-chosen.score).tolist(), mark)
        crawl.stats.count("ranked", len(chosen.entries))

    async def _granted(
        self, selection: Selection[Request], grant: Grant, *, is_last: bool
    ) -> tuple[Chosen[Request] | None, list[Request]]:
        """Return the seeds that a shared budget grants, and the seeds to drop."""
        score, is_new = selection.waiting()
        is_granted = await grant(score, is_new, is_last=is_last)
        if not self._crawl.is_open or len(selection.entries) != len(score):
            return None, []
        self._has_more = bool(is_granted.any())
        if not self._has_more:
            return None, selection.drop_all() if is_last else []
        return selection.take_granted(is_granted), []

    def drop(self, requests: list[Request], reason: str) -> None:
        """Count requests that will not be sent, and signal them to the project as Scrapy does."""
        self._crawl.stats.count(f"dropped/{reason}", len(requests))
        if (selection := self.seeds.selection) is not None:
            self._crawl.stats.dropped_new = selection.dropped_new
        for request in requests:
            self._crawl.drop(request)

    def _on_error(self, failure: Failure) -> None:
        logger.debug("Ranking failed", exc_info=failure_to_exc_info(failure))
        if not self._crawl.is_open:  # the crawl was closed meanwhile
            return
        error = failure.value
        self._crawl.fail(f"the seeds could not be ranked: {type(error).__name__}: {error}")
        wake(self._crawl.crawler)


def _evidence(
    state: State, page_ids: list[int], rows: Rows, options: RankingOptions, spider_name: str
) -> tuple[list[Signals], list[int]]:
    """Return the pages' signals, and the pages exempt from the threshold: they lead on to others."""
    signals = read_signals(state.store, rows["site"], options.policy)
    return signals, with_only_requests(state, spider_name, page_ids) if options.least_p else []


@contextmanager
def reading_a_list(crawler: Crawler, *, ranked_whole: bool = True) -> Iterator[None]:
    """Note that `start()` reads one of this package's lists, which does not wait for requests.

    With `ranked_whole`, the list is ranked as a whole, even if it is long.
    """
    ranker = Ranker.of(crawler)
    if ranker is None:
        yield
        return
    ranker.watch.is_reading = True
    ranker.seeds.ends_surely |= ranked_whole
    try:
        yield
    finally:
        ranker.watch.is_reading = False

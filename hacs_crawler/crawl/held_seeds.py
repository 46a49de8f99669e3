"""Start requests that wait to be ranked: held, scored with what the state knows, and released."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from itertools import compress, count
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scrapy import Request
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import DeferredLock

from hacs_crawler.config import Config
from hacs_crawler.crawl.asked import read_asked
from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.meta import is_added, is_start, mark_ranked, seed_url, take_added_mark
from hacs_crawler.crawl.seed_queue import SeedQueue
from hacs_crawler.crawl.state_access.state_thread import RETRY_SECONDS
from hacs_crawler.exceptions import ConfigError, StateError, StateUnavailableError
from hacs_crawler.ranking.selection import Selection
from hacs_crawler.ranking.signals import Signals
from hacs_crawler.state import Future, Rows
from hacs_crawler.utils.loop import sleep
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

LEAST_CHUNK: Final = 1_000
"""With a budget, seeds are ranked in chunks of at least this many, so that memory stays O(budget)."""
MOST_AHEAD: Final = 2_000
"""A `start()` that may never end is read so far ahead of what is sent: it may count up until a callback
stops it, and each seed that was read is sent."""


class HeldSeeds:
    """Holds seeds until they are ranked, and puts those that are chosen into the queue.

    `drop` is called with those that are left out, and the reason, and `is_filtered` tells which ones
    the project's filter drops. What cannot be ranked fails the crawl, and stays.
    """

    def __init__(
        self,
        crawl: Crawl,
        config: Config,
        queue: SeedQueue,
        drop: Callable[[list[Request], str], None],
        is_filtered: Callable[[Request], bool],
    ) -> None:
        self._crawl = crawl
        self._config = config
        self._queue = queue
        self._drop = drop
        self._is_filtered = is_filtered
        self._held: list[Request] = []
        self._ranking: list[Request] = []
        self._page_ids: list[int] = []
        self._added: set[int] = set()
        self._lock = DeferredLock()
        self._selection: Selection[Request] | None = None
        self._has_ranked = False
        self._releases = count()
        self._budget = config.ranking.budget
        self._has_said_future = False
        self.ends_surely = False
        """Whether what is held comes from a list, which can be ranked whole."""

    def __len__(self) -> int:
        return len(self._held)

    @property
    def is_ranking(self) -> bool:
        """Whether seeds are being ranked at the moment."""
        return bool(self._lock.locked)

    @property
    def is_chunk(self) -> bool:
        """Whether so many seeds are held that they are to be ranked before more are read."""
        if self._budget:
            return len(self._held) >= max(self._budget, LEAST_CHUNK)
        return not self.ends_surely and len(self._held) >= MOST_AHEAD

    @property
    def most_ahead(self) -> int | None:
        """How many ranked seeds may wait before more are read; None for any number."""
        return None if self._budget or self.ends_surely else MOST_AHEAD

    def add(self, seed: Request, page_id: int) -> None:
        """Hold a seed, whose page has that id."""
        self._held.append(seed)
        self._page_ids.append(page_id)

    def passes_filter(self, seed: Request, page_id: int) -> bool:
        """Whether the filter is not to be asked of a seed, whose page has that id.

        Of one that HACS added it is asked when it is ranked: the spider may ask for the page by then. If
        it does so later, the filter has seen nothing but what HACS added.
        """
        is_first = is_start(seed) and page_id in self._added
        if is_first:
            self._added.remove(page_id)
        return is_first or is_added(seed)

    def all(self) -> list[Request]:
        """Return what is kept for what is left of the budget, and what is not ranked yet."""
        kept = [] if self._selection is None else self._selection.entries
        return [*kept, *self._ranking, *self._held]

    @property
    def waits(self) -> bool:
        """Whether what was ranked is kept for what is left of the budget in the end."""
        return self._selection is not None and self._selection.waits

    def drop_all(self) -> None:
        """Leave out what is held or kept: the crawl is over."""
        if self._selection is not None:
            kept, others = self._selection.take()
            self._drop([*others, *(seed for best in kept for seed in best.entries)], "budget")

    async def rank(self, *, is_last: bool, is_idle: bool = False) -> None:
        """Rank what is held; with a budget, release it when `is_last`.

        When the crawl `is_idle`, what pages never seen, or the others, left unused is released, too.
        """
        if self._held:
            await maybe_deferred_to_future(self._lock.acquire())
            try:
                if self._crawl.is_open:
                    await self._rank()
            finally:
                self._lock.release()
        if is_last or not self._budget:
            self._release(is_idle=is_idle)

    def begin_round(self) -> None:
        """Give each arm its budget anew."""
        self._selection = None
        self._added.clear()

    async def _rank(self) -> None:
        self._ranking, self._held = self._held, []
        try:
            await self._rank_these(self._ranking)
        finally:
            self._ranking = []

    async def _rank_these(self, held: list[Request]) -> None:
        page_ids, self._page_ids = self._page_ids, []
        held, page_ids = self._not_done(*self._without_twins(held, page_ids))
        await self._crawl.parts.before_rank([seed_url(seed) for seed in held])
        found = await self._rows(page_ids)
        is_exempt = await self._leads_on(page_ids)
        if found is None or not self._offer(held, page_ids, *found, is_exempt):
            self._held, self._page_ids = held + self._held, page_ids + self._page_ids

    def _without_twins(
        self, held: list[Request], page_ids: list[int]
    ) -> tuple[list[Request], list[int]]:
        """Leave out what HACS added of the pages that the spider asks for itself."""
        own = {page_id for seed, page_id in zip(held, page_ids, strict=True) if not is_added(seed)}
        kept: list[Request] = []
        kept_ids: list[int] = []
        for seed, page_id in zip(held, page_ids, strict=True):
            if take_added_mark(seed):
                if page_id in own or self._is_filtered(seed):
                    continue
                self._added.add(page_id)
            kept.append(seed)
            kept_ids.append(page_id)
        return kept, kept_ids

    def _not_done(
        self, held: list[Request], page_ids: list[int]
    ) -> tuple[list[Request], list[int]]:
        """Drop the seeds whose pages were visited in this round already; return the others."""
        is_done = np.isin(page_ids, self._crawl.done)
        dropped = list(compress(held, is_done))
        self._drop(dropped, "done")
        return list(compress(held, ~is_done)), list(compress(page_ids, ~is_done))

    async def _rows(self, page_ids: list[int]) -> tuple[Rows, list[Signals]] | None:
        """Read ranking rows, and what was heard of the pages.

        Once something was ranked, a state that is away is waited for.
        """
        while True:
            try:
                state = self._crawl.state
                rows, future = await state.rows(page_ids, self._crawl.clock())
                signals = await self._crawl.parts.evidence(rows)
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
                self._say(future)
                return rows, signals

    async def _leads_on(self, page_ids: list[int]) -> NDArray[np.bool_] | None:
        """Return which pages only lead on to others, None where that does not count."""
        recipes = self._crawl.asked
        if recipes is None or not self._config.ranking.threshold:
            return None
        try:
            asked = await self._crawl.state.patiently(read_asked, recipes.spider_name, page_ids)
        except StateError as error:
            self._crawl.fail(str(error))
            return None
        found = (asked.get(page_id) for page_id in page_ids)
        return np.array([how is not None and how.leads_on for how in found], np.bool_)

    def _say(self, future: Future | None) -> None:
        """Say once in a crawl that visits are set aside."""
        if future is not None and not self._has_said_future:
            self._has_said_future = True
            logger.warning("%s", future)

    def _offer(
        self,
        held: list[Request],
        page_ids: list[int],
        rows: Rows,
        signals: list[Signals],
        is_exempt: NDArray[np.bool_] | None,
    ) -> bool:
        """Have seeds scored; returns whether that could be done."""
        started = time.perf_counter()
        crawl = self._crawl
        if self._selection is None:
            options = crawl.ranking.seeded(secrets.randbits(63))
            most = crawl.allowance.most
            self._selection = Selection(options, crawl.correct, seed_url, most, crawl.costs)
        try:
            dropped = self._selection.offer(
                held,
                np.array(page_ids, np.int64),
                rows,
                crawl.clock(),
                crawl.state.estimation,
                is_exempt,
                signals=signals,
            )
        except ConfigError as error:
            crawl.fail(str(error))
            return False
        except Exception as error:  # noqa: BLE001 - a policy is the user's own code
            crawl.fail(f"{self._config.policy_text} failed: {type(error).__name__}: {error}")
            return False
        self._drop(dropped.gone, "gone")
        self._drop(dropped.threshold, "threshold")
        self._drop(dropped.budget, "budget")
        self._has_ranked = True
        crawl.stats.count("seeds", len(held))
        crawl.stats.count("rank_seconds", time.perf_counter() - started)
        return True

    def _release(self, *, is_idle: bool) -> None:
        """Let the chosen seeds be sent: by score, or all arms at the same pace."""
        if self._selection is None:
            return
        chosen, others = self._selection.take(is_last=is_idle)
        self._drop(others, "budget")
        for best in chosen:
            self._crawl.parts.chosen(best.p, best.controls)
        run, release = self._crawl.run, next(self._releases)
        is_by_score = len(chosen) == 1
        for best, label in zip(chosen, self._crawl.labels, strict=True):
            number = len(best.entries)
            predictions = best.predictions(label.number, run)
            asked_twice = best.asked_twice.tolist()
            for seed, prediction, twice in zip(best.entries, predictions, asked_twice, strict=True):
                mark_ranked(seed, prediction, label.arm, asked_twice=twice)
            self._crawl.allowance.made += best.controls
            paces = release + (np.arange(number) + 0.5) / max(number, 1)
            orders = -best.score if is_by_score else paces
            self._queue.add(best.entries, orders.tolist())
            self._crawl.stats.count("ranked", number)

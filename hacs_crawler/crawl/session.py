"""One crawl's link between Scrapy and the state: opened once, shared by scheduler and middlewares."""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

import numpy as np
from scrapy import Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider
from scrapy.utils.defer import maybe_deferred_to_future

from hacs_crawler.config import Clock, Config, unknown_settings
from hacs_crawler.crawl.fleet_member import Crew
from hacs_crawler.crawl.fleet_member import Ranker as FleetRanker
from hacs_crawler.crawl.loop import Worker, in_batches, sleep
from hacs_crawler.crawl.meta import planned_meta
from hacs_crawler.crawl.page_cache import WriteBehind
from hacs_crawler.crawl.prefetch import Prefetch
from hacs_crawler.crawl.seeds import SeedsError, read_seeds
from hacs_crawler.crawl.stats import Tally
from hacs_crawler.exceptions import ConfigError, StateError, StateUnavailableError
from hacs_crawler.fleet.board import Board
from hacs_crawler.fleet.member import FleetWorker, new_name
from hacs_crawler.links import check_url, page_id
from hacs_crawler.ranking.calibration import Drift, drift_of
from hacs_crawler.ranking.plan import correction_of, make_plan
from hacs_crawler.ranking.ranking import Correct
from hacs_crawler.state import (
    PAGES_A_CALL,
    Label,
    News,
    Page,
    Prediction,
    Recorded,
    Rows,
    State,
    Visit,
    open_state,
)
from hacs_crawler.utils.times import MAX_SECOND

logger = logging.getLogger(__name__)

CLOSE_REASON = "hacs_error"
MINUTE = 60.0
RETRY_SECONDS = 5.0
"""After how long a state that was away is asked again."""
P = ParamSpec("P")
T = TypeVar("T")


class Ranker(FleetRanker, Protocol):
    """What ranks seeds: the scheduler, as far as the middlewares know it."""

    start_is_waiting: bool

    async def make_room(self) -> None:
        """Return when few ranked seeds wait, or the crawl has failed."""

    def wake(self) -> None:
        """Have a seed sent now."""

    def note_failure(self) -> None:
        """Let nothing wait any more: the crawl is about to close."""

    @property
    def has_partitions(self) -> bool:
        """Whether requests that callbacks yield wait where the holder of their host finds them."""


class Session:
    """The state as one crawl uses it. All its methods are called from the event loop.

    A failed session (`failure` says why) does nothing and lets no request out; the crawl then closes
    with the reason "hacs_error", and `scrapy crawl` ends with exit status 1.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self.failure: str | None = None
        self.config: Config | None = None
        self.clock: Clock = time.time
        self.run = 0
        """When this run began, in seconds since 1970 UTC."""
        self.labels: list[Label] = []
        """By which the visits of each arm are recorded."""
        self.correct: Correct | None = None
        """How p is corrected; known once the state is open."""
        self.tally = Tally(crawler.stats)
        self.log_summary: Callable[[], None] = self.tally.log_summary
        self._worker = Worker()
        self._state: State | None = None
        self._buffer: WriteBehind | None = None
        self.prefetch: Prefetch | None = None
        self.ranker: Ranker | None = None
        self.crew: Crew | None = None
        """This crawl's part in its fleet, if HACS_FLEET is on."""
        try:
            self.config = Config.from_settings(crawler.settings)
            self.clock = self.config.clock
        except ConfigError as error:
            self.fail(str(error))
        for name, similar in unknown_settings(crawler.settings).items():
            hint = f"; did you mean {similar}?" if similar else ""
            logger.warning("%s is not a setting of hacs-crawler%s", name, hint)
        crawler.signals.connect(self.close, signals.spider_closed)

    @classmethod
    def of(cls, crawler: Crawler) -> Session:
        """Return the crawler's session, made when first asked for."""
        session: Session | None = getattr(crawler, "hacs_session", None)
        if session is None:
            session = cls(crawler)
            crawler.hacs_session = session  # type: ignore[attr-defined]
        return session

    @property
    def is_open(self) -> bool:
        """Whether the state is open and nothing has failed."""
        return self._state is not None and self.failure is None

    @property
    def is_of_fleet(self) -> bool:
        """Whether this crawl is one worker of a fleet."""
        return self.config is not None and self.config.fleet is not None

    @property
    def waiting_visits(self) -> int:
        """How many visits wait in memory to be written."""
        return self._buffer.waiting if self._buffer is not None else 0

    @property
    def prior_rate_per_day(self) -> float:
        """The rate expected of a page of which nothing is known."""
        return self.state.estimation.prior.mean_rate

    @property
    def state(self) -> State:
        """The open state; to be used only through `run`."""
        assert self._state is not None, "the session is not open"  # noqa: S101
        return self._state

    def fail(self, message: str) -> None:
        """Say once, in one line, why this crawl cannot go on, and have it closed."""
        if self.failure is not None:
            return
        self.failure = message
        logger.error("%s", message)
        if self.ranker is not None:
            self.ranker.note_failure()
        self._crawler.signals.connect(self._close_spider, signals.spider_idle)
        self._crawler.signals.connect(self._report_failure, signals.engine_stopped)

    async def open(self) -> None:
        """Open the state, if that was not done yet; a failure is kept in `failure`."""
        if self.config is None or self.failure is not None or self._state is not None:
            return
        # A crawl keeps the downloader full, so Python's full collections come often, and each would
        # look through the 100,000 objects of the libraries again: half of a crawl's CPU time.
        gc.collect()
        gc.freeze()
        config = self.config
        self.run = int(self.clock())
        if not 0 < self.run <= MAX_SECOND:
            self.fail(
                f"HACS_CLOCK, or this machine's clock, says second {self.run} since 1970 UTC: "
                f"visits can be recorded from 1970 to 2106"
            )
            return
        self.labels = config.labels()
        try:
            state, self.correct = await maybe_deferred_to_future(
                self._worker.run(_open_state, config)
            )
        except (ConfigError, StateError) as error:
            self.fail(str(error))
            return
        except Exception as error:  # noqa: BLE001 - whatever it is, no request may go out
            self.fail(f"cannot open the state: {type(error).__name__}: {error}")
            return
        self._state = state
        self._buffer = WriteBehind(
            state,
            self._worker,
            count=config.flush_visits,
            seconds=config.flush_seconds,
            limit=config.buffer_visits,
            on_recorded=self._note_recorded,
            on_error=self._note_state_error,
        )
        self.prefetch = Prefetch(state, self._worker, self._buffer, self._note_state_error)

    async def seeds_of_fleet(
        self, start: AsyncIterator[Any], again: Callable[[], AsyncIterator[Any]], *, forever: bool
    ) -> AsyncIterator[Any]:
        """Join the fleet and yield what this crawl is to do of its plan; see `Crew.seeds`."""
        config, ranker = self.config, self.ranker
        if config is None or not self.is_open:
            return
        if ranker is None or not ranker.has_partitions:
            self.fail(
                "HACS_FLEET needs HACS's scheduler around scrapy-redis's: remove SCHEDULER, "
                "HACS_INNER_SCHEDULER and SCHEDULER_QUEUE_CLASS, or see docs/fleet.md"
            )
            return
        assert config.fleet is not None  # noqa: S101 - else this is not asked for
        try:
            board = _open_board(config, config.fleet)
        except (ConfigError, StateError) as error:
            self.fail(str(error))
            return
        worker = FleetWorker(board, new_name(), forever=forever)
        seconds = config.round_minutes * MINUTE if forever else 0.0
        self.crew = Crew(self._crawler, ranker, self, board, worker, seconds)
        async for entry in self.crew.seeds(start, again):
            if self.failure is not None:
                return
            yield entry

    async def rows(self, page_ids: Sequence[int]) -> Rows:
        """Return the pages' ranking rows; raises StateError."""
        ids = np.array(page_ids, np.int64)
        return await maybe_deferred_to_future(self._worker.run(self.state.rows, ids))

    async def seeds(self, source: str) -> AsyncIterator[str]:
        """Stream the URLs of a seed file (see `read_seeds`), or for "state" of every page known.

        Raises SeedsError, StateError.
        """
        if source == "state":
            async for url in in_batches(self._worker, self.state.urls()):
                yield url
            return
        worker = Worker()  # standard input may keep its reader waiting, and the state must not wait
        try:
            async for url in in_batches(worker, read_seeds(source)):
                yield url
        finally:
            worker.close()

    async def planned_seeds(self) -> AsyncIterator[tuple[str, dict[str, Any]]]:
        """Plan a crawl of all that the state knows; yield the URL and the meta of each seed, best first.

        A request with that meta is not ranked again. Raises SeedsError where the state knows no page.
        """
        assert self.config is not None  # noqa: S101 - the session is open
        started = time.perf_counter()
        plan = await self.patiently(make_plan, self.config, self.clock())
        self.tally.count("rank_seconds", time.perf_counter() - started)
        if not plan.known:
            raise SeedsError("seeds = 'state': there is no usable seed in it, it knows no page yet")
        self.tally.count_plan(plan)
        for start in range(0, len(plan), PAGES_A_CALL):
            batch = range(start, min(start + PAGES_A_CALL, len(plan)))
            ids = plan.page_ids[start : batch.stop].tolist()
            pages = await self.patiently(State.load, ids)
            for place, key in zip(batch, ids, strict=True):
                if key not in pages:
                    continue
                if problem := check_url(pages[key].url):
                    logger.error("the page with id %d cannot be visited: %s", key, problem)
                    continue
                if self.ranker is not None:
                    await self.ranker.make_room()
                if self.failure is not None:
                    return
                ranked = plan.ranked(place, pages[key].url)
                yield ranked.entry, planned_meta(ranked, self.labels[plan.arms[place]], self.run)

    def take_page(self, key: int) -> tuple[bool, Page | None]:
        """Return whether a page could be read, and the page, None where it is new."""
        return self.prefetch.take(key) if self.prefetch is not None else (False, None)

    def record(self, visit: Visit, before: Page | None, after: Page | None) -> None:
        """Take a visit into the write-behind buffer; `before` and `after` are its page, if known."""
        if self._buffer is not None:
            self._buffer.add(visit, before, after)

    async def make_room(self) -> None:
        """Return when the buffer takes more visits without giving any up."""
        if self._buffer is not None:
            await self._buffer.make_room()

    async def settle(self) -> bool:
        """Return, once nothing waits to be written, whether nothing of it was given up."""
        buffer = self._buffer
        if buffer is None:
            return False
        await buffer.settle()
        return self.failure is None and not buffer.given_up

    async def patiently(
        self, function: Callable[Concatenate[State, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Return what a function of the state returns, however long the state is away.

        Raises StateError where trying again is of no use.
        """
        while True:
            try:
                return await maybe_deferred_to_future(
                    self._worker.run(function, self.state, *args, **kwargs)
                )
            except StateUnavailableError as error:
                self._note_state_error(error)
                logger.warning("%s; next try in %g s", error, RETRY_SECONDS)
                await maybe_deferred_to_future(sleep(RETRY_SECONDS))

    def record_absence(
        self, url: str, at: int, news: News, prediction: Prediction | None = None
    ) -> None:
        """Record an answer that shows nothing of the page: gone, or no observation."""
        self.record(Visit(url, at, news, prediction=prediction), None, None)

    async def end_round(self) -> None:
        """Have everything written, and say in a sentence what the round did."""
        await self.give_up()
        await self._look_back()
        if self.failure is None:
            self.log_summary()

    async def begin_round(self) -> None:
        """Read what is to be known for ranking anew, and count what is found from now on."""
        assert self.config is not None  # noqa: S101 - the session is open
        try:
            self.correct = await self.patiently(_renewed, self.config)
        except StateError as error:
            self.fail(str(error))
            return
        self.run = int(self.clock())
        self.tally.begin_round()

    async def give_up(self) -> None:
        """Record that requests which ended without a word told nothing, and have it written."""
        self._note_unfinished()
        await self.settle()

    async def close(self, spider: Spider, reason: str) -> None:
        """Write what waits, refit the prior, and say in a sentence what the crawl did."""
        del spider, reason
        gc.unfreeze()
        if self._buffer is not None and self._state is not None:
            started = time.monotonic()
            self._note_unfinished()
            await self._buffer.close()
            if self._buffer.lost:
                self.tally.count("state/lost", self._buffer.lost)
                logger.error("%d visits could not be written to the state", self._buffer.lost)
            else:
                await self._look_back()
            self._buffer = None
            if self.failure is None:
                self.log_summary()
            if self.crew is not None:
                await self.crew.leave()
            await maybe_deferred_to_future(self._worker.run(self._state.close))
            logger.debug("The state was closed in %.2f s", time.monotonic() - started)
        self._worker.close()

    def _note_unfinished(self) -> None:
        """Count requests that ended without a word, as after too many redirects."""
        if self.prefetch is not None:
            for url, prediction in self.prefetch.unfinished():
                self.tally.count_not_observed("unfinished")
                self.record_absence(url, int(self.clock()), News.FAILED, prediction)

    async def _look_back(self) -> None:
        """Fit the prior anew, bound the record of outcomes, and say whether predictions have drifted."""
        config = self.config
        if not self.tally.recorded or config is None:
            return
        try:
            await maybe_deferred_to_future(self._worker.run(self.state.refit_prior))
            if self.tally.predicted:
                drift = await maybe_deferred_to_future(
                    self._worker.run(_bound_and_judge, self.state, config)
                )
                if drift is not None:
                    logger.warning("p is off: %s", drift)
        except StateError as error:
            self._note_state_error(error)
            logger.warning("The prior was not fitted anew: %s", error)

    def _note_recorded(self, recorded: Sequence[Recorded]) -> None:
        self.tally.count_recorded(recorded)
        if self.crew is not None:
            self.crew.done(
                page_id(one.visit.url) for one in recorded if one.visit.prediction is not None
            )
        if self.prefetch is not None:
            self.prefetch.note_recorded(recorded)

    def _note_state_error(self, error: StateError) -> None:
        self.tally.count("state/errors")
        if not isinstance(error, StateUnavailableError):
            self.fail(str(error))

    def _close_spider(self) -> None:
        raise CloseSpider(CLOSE_REASON)

    def _report_failure(self) -> None:
        # `scrapy crawl` exits with 1 where a crawler has no spider: Scrapy's only sign of failure
        self._crawler.spider = None


def _open_state(config: Config) -> tuple[State, Correct | None]:
    """Return the open state, and the correction of p that it keeps if that is to be applied."""
    state = open_state(*config.state_arguments)
    try:
        for label in config.labels():
            state.keep_label(label)
        return state, correction_of(state, config)
    except BaseException:
        state.close()
        raise


def _open_board(config: Config, fleet: str) -> Board:
    try:
        from hacs_crawler.fleet.redis_board import RedisBoard  # noqa: PLC0415 - an extra
    except ImportError as error:
        msg = f"HACS_FLEET needs Redis: pip install 'hacs-crawler[redis]' ({error})"
        raise ConfigError(msg) from error
    return RedisBoard(config.state, config.namespace, fleet, lease_seconds=config.lease_seconds)


def _renewed(state: State, config: Config) -> Correct | None:
    """Read the prior anew, and return the correction that is to be applied."""
    state.read_prior()
    return correction_of(state, config)


def _bound_and_judge(state: State, config: Config) -> Drift | None:
    outcomes = state.bound_outcomes(config.outcomes)
    return drift_of(state, config.model, outcomes, is_corrected=config.calibration)

"""Connects one Scrapy crawl to the state; shared by the scheduler and the middlewares."""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Self

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import CloseSpider, DontCloseSpider, IgnoreRequest
from scrapy.http import Response
from scrapy.settings import BaseSettings
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred

from hacs_crawler.config import Clock, Config, warn_of_unknown
from hacs_crawler.crawl.idle_settings import log_unmatched, warn_of_idle
from hacs_crawler.crawl.meta import release, tag_of
from hacs_crawler.crawl.part import Part
from hacs_crawler.crawl.parts import Parts, load_parts
from hacs_crawler.crawl.scrapy_internals import Downloads, exempt_from_page_count, mark_as_failed
from hacs_crawler.crawl.state_access.write_behind import OpenState
from hacs_crawler.crawl.stats import CrawlStats
from hacs_crawler.exceptions import ConfigError, StateError, StateUnavailableError
from hacs_crawler.ranking.choice import Quota
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.selection import informed
from hacs_crawler.state import News, Page, Prediction, Recorded, State, Visit, describe, open_state
from hacs_crawler.utils.loop import Worker, begin, shutdown_waits
from hacs_crawler.utils.text import counted, safe_logger
from hacs_crawler.utils.times import MAX_SECOND
from hacs_crawler.watch import Rules

logger = safe_logger(__name__)

CLOSE_REASON = "hacs_error"


class Crawl:
    """The state as one crawl uses it. All its methods are called from the event loop.

    After a failure (`failure` says why), HACS lets no request out, the crawl closes with the reason
    "hacs_error", and `scrapy crawl` ends with exit status 1.
    """

    # When this run began, in seconds since 1970 UTC.
    run = 0

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self.failure: str | None = None
        self.stats = CrawlStats(crawler.stats)
        self._ranking: RankingOptions | None = None
        self.parts = Parts((), self.stats, self.fail)
        self._opening: Deferred[None] | None = None
        self._worker = Worker()
        self._state: OpenState | None = None
        self._needs_answers = False
        self._log_summary: Callable[[], None] = self.stats.log_summary
        # True while the state is open and nothing has failed.
        self.is_open = self._is_closing = self._is_closed = False
        self._on_failure: list[Callable[[], None]] = []
        self._before_end: list[Callable[[], None]] = []
        try:
            self._read_settings(crawler.settings)
        except ConfigError as error:
            self._read_settings(BaseSettings())  # defaults: the crawl fails anyway
            self.fail(str(error))
            if not crawler.settings.frozen:
                # opening feeds and pipelines might empty the files of the crawl before
                for name in ("FEEDS", "FEED_URI", "ITEM_PIPELINES"):
                    crawler.settings.set(name, {}, "cmdline")
        crawler.signals.connect(self._decide_whether_to_close, signals.spider_idle)
        crawler.signals.connect(self.close, signals.spider_closed)

    def _read_settings(self, settings: BaseSettings) -> None:
        warn_of_unknown(settings)
        self.config = Config.from_settings(settings)
        warn_of_idle(settings, self.config)
        self.clock = self._guarded(self.config.clock)
        self.stats.watched = self.config.noun
        self.parts = Parts(load_parts(self.config.parts_in_use, self), self.stats, self.fail)

    @classmethod
    def of(cls, crawler: Crawler) -> Self:
        """Return a crawler's crawl; make it if necessary."""
        crawl: Self | None = getattr(crawler, "hacs_crawl", None)
        if crawl is None:
            crawl = cls(crawler)
            crawler.hacs_crawl = crawl  # type: ignore[attr-defined]
        return crawl

    # As an extension, the first of all, it is made before any feed or pipeline.
    from_crawler = of

    @property
    def waiting_visits(self) -> int:
        """How many visits wait in memory to be written."""
        return 0 if self._state is None else self._state.write_behind.waiting

    @property
    def state(self) -> OpenState:
        """The open state."""
        assert self._state is not None, "the crawl is not open"  # noqa: S101
        return self._state

    def expect_answers(self) -> None:
        """End the crawl with status 1 if no page answers."""
        self._needs_answers = True

    def sum_up_by(self, log_summary: Callable[[], None]) -> None:
        """Replace the function that logs the summary of the crawl."""
        self._log_summary = log_summary

    def fail(self, message: str) -> None:
        """Close the crawl, unless it is over, and log the reason; only the first failure counts."""
        # a ranking may fail after the crawl was closed
        if self.failure is not None or self._is_closed:
            return
        self.failure, self.is_open = message, False
        self._end_with_error(message)
        # the downloader would still send the requests in its queues, and no visit is recorded now
        Downloads(self.crawler).recall(self.drop, IgnoreRequest("the crawl has failed"))
        for function in self._on_failure:
            function()

    def drop(self, request: Request) -> bool:
        """Tell the project that a request is dropped, as Scrapy does; return True."""
        self.crawler.signals.send_catch_log(
            signals.request_dropped, request=request, spider=self.crawler.spider
        )
        return True

    def before_end(self, function: Callable[[], None]) -> None:
        """Register a function to call before each round, or the crawl, ends."""
        self._before_end.append(function)

    def when_failed(self, function: Callable[[], None]) -> None:
        """Register a function to call when the crawl fails, for example to end a wait."""
        self._on_failure.append(function)

    async def open(self) -> None:
        """Open the state, once; if that fails, `failure` says why."""
        if self._opening is None:
            # a spider may be closed before its start() runs
            if self._is_closing:
                return
            self._opening = begin(self._open())
        await maybe_deferred_to_future(self._opening)

    async def _open(self) -> None:
        if self.failure is not None:
            return
        try:
            exempt_from_page_count(self.crawler, lambda request: tag_of(request).unscheduled)
            await self.parts.enter()
            if self._is_closing or self.failure is not None:
                return
            self.run = int(_checked_time(self.clock()))
            opening = self._worker.run(_open_state, self.config)
            state, ranking = await maybe_deferred_to_future(opening)
            self._ranking = ranking
            on_error, flush_visits = self._on_state_error, self.config.flush_visits
            self._state = OpenState(state, self._worker, on_error, self._on_recorded, flush_visits)
            with await self._state.once(lambda state: state.store.hold_notes()):
                await self.parts.each(Part.opened)
        except (ConfigError, StateError) as error:
            self.fail(str(error))
        except Exception as error:  # noqa: BLE001 - after any error, no request may be sent
            self.fail(f"cannot open the state: {type(error).__name__}: {error}")
        else:
            self.parts.begin_round()
            self.is_open = self.failure is None

    @property
    def ranking(self) -> RankingOptions:
        """The ranking options, with the hubs in the state."""
        assert self._ranking is not None, "the crawl is not open"  # noqa: S101
        return self._ranking

    @property
    def quota(self) -> Quota:
        """How many visits a round may make."""
        return self.parts.quota(Quota(self.ranking.budget))

    def rules(self, response: Response, page: Page | None = None) -> Rules:
        """Return the rules for reading a response; `page` is its page's row in the state."""
        return self.parts.rules(response, self.config.rules, page)

    async def end_round(self) -> None:
        """Write all visits, and log a one-sentence summary of the round."""
        self._record_unfinished()
        await self.state.write_behind.settle()
        await self._learn()
        if self.failure is None:
            await self._sum_up()

    async def begin_round(self) -> None:
        """Reload the data that ranking needs, and restart the counts of the round."""
        try:
            await self.parts.each(Part.round_began)
            self.parts.begin_round()
            if not self.is_open:
                return
            self._ranking = await self.state.patiently(_informed_ranking, self.config)
        except ConfigError as error:
            logger.warning("%s; this round uses what was read before", error)
        except StateError as error:
            self.fail(str(error))
            return
        self.run = int(self.clock())
        self.stats.begin_round()

    async def close(self, spider: Spider, reason: str) -> None:
        """Write the remaining visits, refit the prior, and log a one-sentence summary of the crawl."""
        with shutdown_waits() as is_asked_to_end:
            self._is_closing = True
            await self._close(is_asked_to_end)
            await self.parts.leave()

    async def _close(self, is_asked_to_end: Callable[[], bool]) -> None:
        # let it finish: a state that opens after this would never be closed
        if self._opening is not None:
            await self.open()
        if (state := self._state) is not None:
            started = time.monotonic()
            self._record_unfinished()
            await state.write_behind.close()
            await self.parts.wait(Part.closing)
            if lost := state.write_behind.lost + self.stats.unrecorded:
                self.stats.count("state/lost", lost)
                unwritten = f"{counted(lost, 'visit')} could not be written to the state"
                self._end_with_error(f"{unwritten}{state.write_behind.reason}")
            else:
                await self._learn(is_asked_to_end)
            if self.failure is None:
                causes = self.stats.causes()
                if self._needs_answers and causes and not self.stats.answers:
                    self._end_with_error(f"not one page answered: {causes}")
                await self._sum_up()
                self.stats.log_if_few_were_pages(self.config.pages, self.config.ranking.budget)
                await log_unmatched(self.config, self.stats, state)
            self.is_open, self._is_closed = False, True
            await state.once(State.close)
            logger.debug("The state was closed in %.2f s", time.monotonic() - started)
        self._worker.close()

    async def _sum_up(self) -> None:
        self._log_summary()
        if self._log_summary == self.stats.log_summary and self.stats.saw_only_new_pages:
            with suppress(StateError):  # the visits are written; only this log line is lost
                pages = await self.state.once(lambda state: state.store.count())
                shown = f"Namespace {self.config.own_namespace} of {describe(self.config.state)}"
                self.stats.log_pages_known_before(pages, shown)
        self.parts.tell(Part.sum_up)

    def _record_unfinished(self) -> None:
        """Record requests that ended without answer or error, for example after too many redirects."""
        for function in self._before_end:
            function()
        # a failed crawl does not know how its requests ended
        for claim in self.state.read_ahead.unfinished() if self.failure is None else ():
            cause = "too many or repeated redirects"
            self.stats.count_not_observed("unfinished", claim.url, cause=cause)
            self.record_failure(claim.url, claim.prediction)

    def record_also(self, visit: Visit, reason: str) -> None:
        """Record a visit that another page's visit implies; if it failed, count the reason."""
        if visit.news is News.FAILED:
            self.stats.count_not_observed(reason, visit.url)
        self.state.write_behind.record(visit)

    def release(self, request: Request) -> None:
        """Release the page of a request that waits to be sent again, such as a retry.

        The request claims its page again when it is sent. If the crawl stops before that, no failed
        attempt is recorded.
        """
        if self.is_open and (url := release(request)) is not None:
            self.state.read_ahead.drop(url)

    def record_failure(self, url: str, prediction: Prediction | None) -> None:
        """Record a failed attempt."""
        visit = Visit(url, int(self.clock()), News.FAILED, prediction=prediction)
        self.state.write_behind.record(visit)

    async def _learn(self, is_asked_to_end: Callable[[], bool] = lambda: False) -> None:
        """Let parts learn from the recorded visits; a continuous crawl may do so later."""
        try:
            with await self.state.once(lambda state: state.store.hold_notes()):
                await self.parts.each(Part.round_ended, is_asked_to_end)
        except StateError as error:
            self._on_state_error(error)
            message = f"This run could not be learned from as a whole: {error}"
            if not self._is_closing:
                logger.warning("%s", message)
            elif self.failure is None:
                self._end_with_error(message)

    def _on_recorded(self, recorded: Sequence[Recorded]) -> None:
        self.parts.tell(Part.recorded, recorded)
        self.stats.count_recorded(recorded, self.state.estimation.updates)

    def _on_state_error(self, error: StateError) -> None:
        self.stats.count("state/errors")
        if not isinstance(error, StateUnavailableError):
            self.fail(str(error))

    def _guarded(self, clock: Clock) -> Clock:
        """Wrap a clock: if it raises or is out of range, the crawl fails and the time stands still."""
        last = 0.0

        def now() -> float:
            nonlocal last
            try:
                last = _checked_time(clock())
            except ConfigError as error:
                self.fail(str(error))
            except Exception as error:  # noqa: BLE001 - the function is the user's
                self.fail(f"HACS_CLOCK: {type(error).__name__}: {error}")
            return last

        return now

    def _decide_whether_to_close(self) -> None:
        if self.failure is not None:
            raise CloseSpider(CLOSE_REASON)
        if self.is_open and self.parts.busy():
            raise DontCloseSpider

    def _end_with_error(self, message: str) -> None:
        def end() -> None:
            mark_as_failed(self.crawler)
            # Scrapy logs some fifty lines after the first
            logger.error("Exit status 1: %s", message)

        logger.error("%s", message)
        self.crawler.signals.connect(end, signals.engine_stopped, weak=False)


def _open_state(config: Config) -> tuple[State, RankingOptions]:
    """Open the state, and complete the ranking options with its data; raises as `open_state`."""
    state = open_state(*config.state_arguments)
    try:
        state.keep_label(config.ranking.label(config.estimation))
        # computed here and cached: the first ranking would have to wait for it
        state.estimation.expected()
        return state, informed(config.ranking, state, config.clock())
    except BaseException:
        state.close()
        raise


def _informed_ranking(state: State, config: Config) -> RankingOptions:
    state.read_prior()
    return informed(config.ranking, state, config.clock())


def _checked_time(second: float) -> float:
    """Return the time in seconds since 1970 UTC; raises ConfigError if visits cannot store it."""
    if 0 < second <= MAX_SECOND:
        return second
    raise ConfigError(
        f"HACS_CLOCK, or this machine's clock, says second {second:.0f} since 1970 UTC: visits can be "
        "recorded from 1970 to 2106"
    )

"""A crawl as one worker of a fleet: renews its lease, leads or takes seeds, and says what is done.

The board is asked in a thread of its own, so that neither ranking nor the state keep a lease waiting.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, ParamSpec, Protocol, TypeVar

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import Deferred

from hacs_crawler.crawl.loop import Worker, call_later, sleep
from hacs_crawler.crawl.meta import check_ranked
from hacs_crawler.crawl.page_cache import CLOSING_PAUSES_SECONDS
from hacs_crawler.crawl.scrapy_internals import Downloads
from hacs_crawler.exceptions import StateError, StateUnavailableError
from hacs_crawler.fleet import serializer
from hacs_crawler.fleet.board import Board, partition_of
from hacs_crawler.fleet.member import SOON_SHARE, Assignment, FleetWorker, Task
from hacs_crawler.fleet.partitions import Holdings, under_way
from hacs_crawler.fleet.serializer import SerializerError
from hacs_crawler.links import page_id_of
from hacs_crawler.utils.text import counted, safe_logger

logger = safe_logger(__name__)

BATCH: Final = 16
"""Seeds taken at once: a worker that dies keeps no more from the others than these, for a lease."""
SLICE: Final = 1_000
"""Seeds published at once."""
LOOK_SECONDS: Final = 0.1
"""How often it is looked whether there is room for more seeds, and whether all is done here."""
RETRY_SECONDS: Final = 2.0
P = ParamSpec("P")
T = TypeVar("T")


class LeftToOthersError(IgnoreRequest):
    """The request waited in the downloader when another worker of the fleet got its host."""


class SeedRanker(Protocol):
    """The scheduler, as far as a fleet's worker knows it."""

    @property
    def wants_ranking(self) -> bool:
        """Whether enough seeds have come to be ranked."""

    def enqueue_request(self, request: Request) -> bool:
        """Take a request; one of the plan is not ranked again."""

    async def rank(self, *, is_last: bool = False) -> None:
        """Rank the seeds that have come."""

    async def end_round(self) -> None:
        """Rank the seeds that have come, the last ones of this round."""

    def begin_round(self) -> None:
        """Let seeds be ranked that were ranked before."""

    def has_pending_requests(self) -> bool:
        """Whether any request waits that this worker may send."""

    def ranked_seeds(self) -> list[Request]:
        """Return the ranked seeds that wait."""

    def take_ranked(self) -> list[Request]:
        """Return the ranked seeds that wait, and forget them."""

    def take_waiting(self) -> list[Request]:
        """Return the ranked seeds, and what waits until its host may be asked, and forget them."""

    @property
    def fleet_adaptation(self) -> PlanAdaptation:
        """What ranks anew what waits on the board."""


class PlanAdaptation(Protocol):
    """What ranks anew what waits on the board, as far as a fleet's worker knows it."""

    is_ranking: bool
    """Whether the board is to hear of other places soon."""

    def join(
        self, ask: Callable[..., Any], worker: FleetWorker, on_change: Callable[[], None]
    ) -> None:
        """Begin to ask the board; `on_change` is called when there may be something else to take."""

    def enter(self, number: int) -> None:
        """Begin to take part in the round of that number."""

    def note_published(self, seeds: Sequence[Request], *, is_spare: bool = False) -> Sequence[int]:
        """Note the next entries of the plan; return the ranks of those that others may replace."""

    async def spares(self) -> list[Request]:
        """Return requests for pages that were left out, and may come in."""

    def notes(self) -> Iterator[dict[str, bytes]]:
        """Yield what all workers are to know of the plan that was published, some at a time."""

    @property
    def room(self) -> int | None:
        """For how many pages more than those of the plan the budget is enough, None without one."""

    def mark(self, seed: Request, note: bytes) -> None:
        """Write into a seed's meta what was predicted of it when it was ranked anew."""


class CrawlSession(Protocol):
    """The session, as far as a fleet's worker knows it."""

    failure: str | None
    """Why this crawl cannot go on, None while it can."""

    def fail(self, message: str) -> None:
        """Say why this crawl cannot go on, and have it closed."""

    async def begin_round(self) -> None:
        """Read what is to be known for ranking anew, and count what is found from now on."""

    async def end_round(self) -> None:
        """Have everything written, and say in a sentence what the round did."""

    async def give_up(self) -> None:
        """Record that requests which ended without a word told nothing, and have it written."""


class Crew:
    """One crawl's part in its fleet. All methods are called from the event loop."""

    def __init__(
        self,
        crawler: Crawler,
        ranker: SeedRanker,
        record: CrawlSession,
        board: Board,
        worker: FleetWorker,
    ) -> None:
        self._crawler = crawler
        self._ranker = ranker
        self._record = record
        self._board = board
        self._worker = worker
        self._adaptation = ranker.fleet_adaptation
        self._adaptation.join(self._ask, worker, self._look_again)
        self._holdings = Holdings.of(crawler)
        self._holdings.may_send = lambda: worker.may_send(time.monotonic())
        self._thread = Worker()
        self._assignment: Assignment | None = None
        self._round = self._led = 0
        self._is_in_round = False
        self._emptied: Assignment | None = None
        """Under which nothing waited in the partitions held: nothing does before the next."""
        self._is_beating = False
        self._beat_at = 0.0
        self._cancel: Callable[[], object] | None = None
        self._is_over = False

    def may_send(self) -> bool:
        """Whether the seeds that were taken may be sent now; until they are, their hosts stay here."""
        return self._holdings.may_send()

    async def seeds(
        self, start: AsyncIterator[Any], again: Callable[[], AsyncIterator[Any]]
    ) -> AsyncIterator[Any]:
        """Yield the seeds that this worker takes from the plan, until its round is over.

        `start` are the spider's seeds, for when this worker leads; `again` makes them anew for the
        next time it does. Items among them are yielded too.
        """
        await self._beat()
        while not self._has_ended() and (assignment := self._assignment) is not None:
            if assignment.task is Task.LEAD and self._led != assignment.round:
                self._led = assignment.round
                async for item in self._lead(start):
                    yield item
                start = again()
                await self._beat()
            elif self._may_take(assignment):
                await self._enter(assignment.round)
                seeds = await self._take()
                for seed in seeds:
                    yield seed
                if not seeds:
                    self._emptied = assignment
            elif self._is_in_round and assignment.view.is_over:
                await self._leave_round()
            elif self._is_resting():
                await self._give_up()
                await self._beat()
            else:
                await maybe_deferred_to_future(sleep(LOOK_SECONDS))

    def _may_take(self, assignment: Assignment) -> bool:
        return (
            assignment.task is Task.CRAWL
            and assignment is not self._emptied
            and len({*self._ranker.ranked_seeds()} - {*self._holdings.waiting()}) < BATCH
        )

    def _is_resting(self) -> bool:
        """Whether nothing is under way here, and the board is to hear of it: all may wait for that."""
        soon = self._beat_at + SOON_SHARE * self._board.lease_seconds
        is_quiet = not (self._is_beating or self._ranker.ranked_seeds() or under_way(self._crawler))
        return is_quiet and time.monotonic() >= soon

    def done(self, page_ids: Iterable[int]) -> None:
        """Say that visits are recorded: nobody is to make them again in this round."""
        # in the order of the thread, so that it comes before whatever this worker does next
        told = self._thread.run(self._worker.done, list(page_ids))
        told.addErrback(lambda failure: self._record.fail(str(failure.value)))

    async def leave(self) -> None:
        """Give back what is not done, so that others need not wait for the lease to run out."""
        self._end()
        for pause in CLOSING_PAUSES_SECONDS:
            if self._holdings.settle(is_last=False):
                break
            await maybe_deferred_to_future(sleep(pause))
        else:
            self._holdings.settle(is_last=True)
        try:
            await maybe_deferred_to_future(self._thread.run(self._worker.leave))
        except StateError as error:
            logger.warning(
                "%s; what this worker has not done waits until its lease runs out", error
            )
        await maybe_deferred_to_future(self._thread.run(self._board.close))
        self._thread.close()

    async def _enter(self, number: int) -> None:
        """Begin a round here, if that was not done yet."""
        if number == self._round:
            return
        await self._leave_round()
        self._round, self._is_in_round = number, True
        await self._record.begin_round()
        self._adaptation.enter(number)

    async def _leave_round(self) -> None:
        if self._is_in_round:
            self._is_in_round = False
            await self._record.end_round()

    async def _lead(self, start: AsyncIterator[Any]) -> AsyncIterator[Any]:
        """Rank the spider's seeds for the whole fleet and publish them; yield items among them."""
        ranker = self._ranker
        await self._enter(self._led)
        ranker.begin_round()
        async for entry in start:
            if not isinstance(entry, Request):
                yield entry
                continue
            entry.meta.setdefault("is_start_request", True)  # Scrapy's mark, which comes later
            ranker.enqueue_request(entry)
            if ranker.wants_ranking:
                await ranker.rank()
            if len(ranker.ranked_seeds()) >= SLICE and not await self._publish():
                return
        await ranker.end_round()
        is_published = (
            not self._has_ended() and await self._publish() and await self._publish_standings()
        )
        if is_published and await self._ask(self._worker.open_round, self._adaptation.room):
            logger.info("This worker has ranked the seeds of round %d for its fleet", self._led)

    async def _publish_standings(self) -> bool:
        """Publish what it takes to rank anew what waits; returns whether this worker leads still."""
        if not await self._put_up(await self._adaptation.spares(), is_spare=True):
            return False
        for notes in self._adaptation.notes():
            if not await self._ask(self._worker.note, notes):
                return False
        return True

    async def _publish(self) -> bool:
        """Publish the seeds that are ranked; returns whether this worker leads still."""
        return await self._put_up(self._ranker.take_ranked())

    async def _put_up(self, seeds: Sequence[Request], *, is_spare: bool = False) -> bool:
        """Put seeds on the board; returns whether this worker leads still."""
        spider = self._crawler.spider
        for first in range(0, len(seeds), SLICE):
            found = [(seed, _entry(seed, spider)) for seed in seeds[first : first + SLICE]]
            entries = [entry for _, entry in found if entry is not None]
            usable = [seed for seed, entry in found if entry is not None]
            may_go = frozenset(self._adaptation.note_published(usable, is_spare=is_spare))
            publish = partial(self._worker.publish, may_go=may_go, is_spare=is_spare)
            if not await self._ask(publish, entries):
                logger.info("Another worker leads now: its ranking counts")
                return False
        return True

    async def _take(self) -> list[Request]:
        """Take seeds from the plan, as requests that are neither ranked again nor shared."""
        entries = await self._ask(
            self._worker.take, BATCH, time.monotonic(), self._holdings.left_alone()
        )
        seeds = []
        for entry in entries or ():
            try:
                seed = serializer.read_request(entry.request, self._crawler.spider)
                self._adaptation.mark(seed, entry.note)
                check_ranked(seed)
                seed.meta.update(hacs_unsent=True, hacs_planned=True)
            except (SerializerError, ValueError) as error:
                logger.error("A seed of the plan cannot be used and is left out: %s", error)
                await self._ask(self._worker.done, [entry.page_id])
            else:
                seeds.append(seed)
        return seeds

    async def _ask(self, step: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """Take a step on the board, however long that is away; None where that is of no use."""
        return await self._patiently(lambda: self._thread.run(step, *args, **kwargs))

    async def _patiently(self, ask: Callable[[], Deferred[T]]) -> T | None:
        while not self._is_over:
            try:
                return await maybe_deferred_to_future(ask())
            except StateUnavailableError as error:
                logger.warning("%s; next try in %g s", error, RETRY_SECONDS)
                await maybe_deferred_to_future(sleep(RETRY_SECONDS))
            except StateError as error:
                self._record.fail(str(error))
                self._end()
            except Exception as error:  # noqa: BLE001 - whatever a shared server holds
                self._record.fail(f"the fleet's board cannot be used: {error!r}")
                self._end()
        return None

    async def _beat(self) -> None:
        """Renew the lease, take up what comes of that, and come again in time."""
        self._stop_timer()
        self._is_beating = True
        assignment = await self._patiently(self._tick)
        self._is_beating = False
        self._beat_at = time.monotonic()
        if assignment is None or self._has_ended():
            return
        if assignment.has_lost:
            waited = self._ranker.take_waiting() + Downloads(self._crawler).recall_all(
                LeftToOthersError("left to another worker")
            )
            self._holdings.lose(waited)
            logger.warning(
                "The fleet's board was not reached for so long that other workers have this one's part; "
                "%s that waited here: left to them",
                counted(len(waited), "request"),
            )
        self._holdings.partitions = assignment.partitions
        self._assignment = assignment
        if assignment.task is Task.OVER:
            self._end()
            return
        self._stop_timer()  # of a beat that came meanwhile
        self._cancel = call_later(assignment.tick_seconds, self._beat_in_time)

    def _beat_in_time(self) -> None:
        beat: Deferred[None] = deferred_from_coro(self._beat())
        beat.addErrback(lambda failure: self._record.fail(f"the fleet was left: {failure.value!r}"))

    def _tick(self) -> Deferred[Assignment]:
        """Renew the lease, by what is under way now: a try that failed may have been long ago."""
        busy = self._busy()
        return self._thread.run(
            self._worker.tick,
            time.monotonic(),
            busy=busy,
            is_idle=self._is_idle(busy),
            has_begun=self._holdings.take_has_begun(),
        )

    def _is_idle(self, busy: frozenset[int]) -> bool:
        return not (busy or self._ranker.has_pending_requests() or self._adaptation.is_ranking)

    def _look_again(self) -> None:
        """Note that something may wait in the partitions held."""
        self._emptied = None

    async def _give_up(self) -> None:
        """Say of seeds that ended without a word, as after too many redirects, that they are done.

        Called where no seed is on its way from the board to the scheduler.
        """
        held = [entry.page_id for entry in self._worker.held()]
        if held and self._is_idle(self._busy()):
            await self._record.give_up()
            await self._ask(self._worker.done, held)

    def _busy(self) -> frozenset[int]:
        """Return the partitions whose hosts are asked, or will be by what waits or is parsed here."""
        requests = under_way(self._crawler).union(self._ranker.ranked_seeds())
        busy = self._holdings.busy() | self._holdings.kept() | self._holdings.left_alone()
        return busy.union(partition_of(request.url) for request in requests)

    def _has_ended(self) -> bool:
        """Whether this worker has nothing more to do; one that has failed leaves the rest to others."""
        if self._record.failure is not None:
            self._end()
        return self._is_over

    def _end(self) -> None:
        self._is_over = True
        self._holdings.partitions = frozenset()
        self._stop_timer()

    def _stop_timer(self) -> None:
        if self._cancel is not None:
            self._cancel()


def _entry(seed: Request, spider: Spider | None) -> tuple[str, int, bytes] | None:
    """Return what is published of a seed; None, and a line in the log, where that cannot be."""
    try:
        request = serializer.dumps(seed.to_dict(spider=spider))
    except (SerializerError, ValueError) as error:  # ValueError: a callback that is no method
        logger.error("%s cannot be given to other workers and is left out: %s", seed, error)
        return None
    return seed.url, page_id_of(seed.meta["hacs_page"]), request

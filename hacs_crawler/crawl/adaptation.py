"""What a run finds changes the rest of it: siblings of a page just visited are ranked anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final, NamedTuple

import numpy as np
from scrapy import Request
from scrapy.utils.log import failure_to_exc_info
from twisted.python.failure import Failure

from hacs_crawler.config import Config
from hacs_crawler.crawl.loop import begin
from hacs_crawler.crawl.meta import mark_ranked
from hacs_crawler.crawl.plans import MakeRequests, PlannedPages, ranks_anew
from hacs_crawler.crawl.ranked_anew import Ranked, ranked_anew
from hacs_crawler.crawl.seed_queue import SeedQueue
from hacs_crawler.crawl.session import Session
from hacs_crawler.exceptions import StateError
from hacs_crawler.links import site_id
from hacs_crawler.ranking.families import Families
from hacs_crawler.ranking.policies import Floats
from hacs_crawler.state import Ids, Prediction, Recorded, Rows
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

MOST_KEPT: Final = 10_000
"""So many requests that were left out are kept at most, for what a visit of their site may tell."""


@dataclass(slots=True)
class _Waiting:
    """A ranked seed that was not sent yet."""

    request: Request
    score: float


class _Kept(NamedTuple):
    """A request that was left out, and why."""

    request: Request
    reason: str


class Adaptation:
    """Ranks anew what waits of a site when a visit of the same run has told of it.

    Siblings of a page found updated move up, those of a quiet one down. Under a budget, what was left
    out comes in for what is now worse; what falls below the threshold is left out. Only where the order
    is by p alone, and one for the whole crawl: experiments of several arms and HACS_RANK_WINDOW keep the
    order in which they began.
    """

    def __init__(
        self,
        session: Session,
        config: Config,
        queue: SeedQueue,
        drop: Callable[[list[Request], str], None],
        on_change: Callable[[], None],
        take_room: Callable[[], bool],
    ) -> None:
        self._session = session
        self._options = config.ranking
        self._queue = queue
        self._drop = drop
        self._on_change = on_change
        self._take_room = take_room
        self.is_on = ranks_anew(config)
        # what was never seen has a share of its own and the lowest or highest scores
        self._may_swap = config.ranking.discover is None
        self._threshold = config.ranking.thresholds()[0]
        self._is_over = False
        self._is_ranking = False
        self._forget()

    def _forget(self) -> None:
        self._families = Families()
        self._waiting: dict[int, _Waiting] = {}
        self._page_of: dict[Request, int] = {}
        self._worst: list[tuple[float, int]] = []
        self._kept: dict[int, _Kept] = {}
        self._touched: set[int] = set()
        self._room = 0  # of a list: what fell below the threshold has left
        self._plan: PlannedPages | None = None
        self._make_requests: MakeRequests | None = None

    def note_offered(self, page_ids: Sequence[int], rows: Rows) -> None:
        """Note pages that are ranked, by their ranking rows: who is whose sibling."""
        if self.is_on:
            self._families.add(np.array(page_ids, np.int64), rows["site"].astype(np.int64))

    def note_chosen(self, page_ids: Ids, score: Floats, requests: Sequence[Request]) -> None:
        """Note seeds that are to be sent, with their scores."""
        if not self.is_on:
            return
        is_movable = self._families.have(page_ids)
        if self._options.budget is not None and self._may_swap:
            is_movable[:] = True
        for place in np.flatnonzero(is_movable).tolist():
            self.note_waiting(int(page_ids[place]), requests[place], float(score[place]))

    def note_waiting(self, page_id: int, request: Request, score: float) -> None:
        """Note a seed that is to be sent."""
        if self.is_on:
            self._waiting[page_id] = _Waiting(request, score)
            self._page_of[request] = page_id
            if self._options.budget is not None:
                heappush(self._worst, (score, page_id))

    def note_sent(self, request: Request) -> None:
        """Note that a seed is under way: nothing can be changed about it."""
        page_id = self._page_of.pop(request, None)
        if page_id is not None:
            del self._waiting[page_id]

    def leave_out(self, page_ids: Iterable[int], requests: list[Request], reason: str) -> None:
        """Take requests that are not to be sent: some may be yet, the others are dropped."""
        if not (self.is_on and self._may_swap):
            self._drop(requests, reason)
            return
        others = []
        ids = np.fromiter(page_ids, np.int64, len(requests))
        has_sibling = self._families.have(ids).tolist()
        for page_id, request, has in zip(ids.tolist(), requests, has_sibling, strict=True):
            if has and len(self._kept) < MOST_KEPT:
                self._kept[page_id] = _Kept(request, reason)
            else:
                others.append(request)
        self._drop(others, reason)

    def note_plan(self, plan: PlannedPages, make_requests: MakeRequests | None) -> None:
        """Note a plan of the whole state, whose pages become requests bit by bit.

        `make_requests` makes those for other pages; with None no others come in.
        """
        if self.is_on:
            self._plan, self._make_requests = plan, make_requests if self._may_swap else None
            self._families = plan.families
            budget = self._session.ranking.budget or 0  # without the instant tier's
            self._room = max(0, budget - len(plan) - int(plan.plan.asked_twice.sum()))

    def note_recorded(self, recorded: Sequence[Recorded]) -> None:
        """Rank anew what waits of the sites of which these visits told."""
        if not self.is_on or self._is_over or not self._families:
            return
        self._touched.update(site_id(one.after.url) for one in recorded)
        if not self._is_ranking and (self._waiting or self._kept):
            self._is_ranking = True
            begin(self._rank_touched()).addErrback(self._note_error)

    def begin_round(self) -> None:
        """Forget the round before: drop what it left out."""
        self.close()
        self._is_over = False

    def close(self) -> None:
        """Drop what was left out: the crawl, or a round, is over."""
        self._is_over = True
        for reason in {kept.reason for kept in self._kept.values()}:
            left = [kept.request for kept in self._kept.values() if kept.reason == reason]
            self._drop(left, reason)
        self._forget()

    async def _rank_touched(self) -> None:
        try:
            while self._touched and not self._is_over and self._session.is_open:
                touched, self._touched = self._touched, set()
                page_ids = self._families.of(touched)
                if len(page_ids):
                    await self._rank(page_ids)
                    self._on_change()
        finally:
            self._is_ranking = False

    async def _rank(self, page_ids: Ids) -> None:
        ranked = await ranked_anew(self._session, self._options, page_ids)
        if self._is_over or not self._session.is_open:
            return
        self._move([one for one in ranked if one.page_id in self._waiting])
        await self._let_in([one for one in ranked if one.may_come and self._could_come(one)])

    def _move(self, ranked: Sequence[Ranked]) -> None:
        """Give seeds that wait their new places; leave out what fell below the threshold."""
        moved, fallen = 0, []
        for page_id, score, prediction, _ in ranked:
            seed = self._waiting[page_id]
            before: Prediction = seed.request.meta["hacs"]
            if prediction["p"] < self._threshold <= before["p"]:
                fallen.append(self._take_out(page_id))
            elif score != seed.score:
                self._queue.move(seed.request, -seed.score, -score)
                seed.request.meta["hacs"] = prediction
                seed.score = score
                moved += 1
                if self._options.budget is not None:
                    heappush(self._worst, (score, page_id))
        self._room += len(fallen)
        self._session.stats.count("adapted/moved", moved)
        self._session.stats.count("ranked", -len(fallen))
        self._drop(fallen, "threshold")

    def _could_come(self, one: Ranked) -> bool:
        """Whether a page may be asked for that is not to be, or later."""
        if one.page_id in self._waiting:
            return False
        if self._plan is None:
            return one.page_id in self._kept
        self._plan.note_ranked(one.page_id, one.score, one.prediction)
        return self._make_requests is not None and self._plan.could_come(one.page_id, one.score)

    async def _let_in(self, ranked: list[Ranked]) -> None:
        """Have pages asked for that are better than what they take the place of, best first."""
        ranked.sort(key=lambda one: one.score, reverse=True)
        number = 0
        while number < len(ranked) and self._has_place(ranked[number]):
            number += 1
        requests = await self._requests(ranked[:number])
        if self._is_over:
            return
        for page_id, score, prediction, _ in ranked[:number]:
            request = requests.get(page_id)
            if request is None or page_id in self._waiting:
                continue
            mark_ranked(request, prediction, self._session.labels[0].arm)
            self._queue.add([request], [-score])
            self.note_waiting(page_id, request, score)
            self._session.stats.count("adapted/came_in")

    def _has_place(self, one: Ranked) -> bool:
        """Make room for a page, for which something worse may be left out; False if there is none."""
        plan, stats = self._plan, self._session.stats
        if plan is not None and plan.take_early(one.page_id):
            return True
        if self._options.budget is None or self._room:
            self._room = max(0, self._room - 1)
            stats.count("ranked")
        elif plan is None and self._take_room():
            stats.count("ranked")
        elif plan is not None and plan.leave_out_last(one.score):
            stats.count("dropped/budget")
        else:
            worst = self._worst_below(one.score)
            if worst is None:
                return False
            self.leave_out([worst], [self._take_out(worst)], "budget")
        if plan is not None:  # it was counted among what the plan leaves out
            plan.note_asked(one.page_id)
            stats.count(f"dropped/{'threshold' if self._options.budget is None else 'budget'}", -1)
        return True

    def _worst_below(self, score: float) -> int | None:
        """Return the page with the lowest score of those that wait; None where none is below."""
        while self._worst and self._may_swap:
            worst, page_id = self._worst[0]
            waiting = self._waiting.get(page_id)
            if (
                waiting is None
                or waiting.score != worst
                or waiting.request.meta.get("hacs_control")
            ):
                heappop(self._worst)
            else:
                return page_id if worst < score else None
        return None

    def _take_out(self, page_id: int) -> Request:
        waiting = self._waiting.pop(page_id)
        del self._page_of[waiting.request]
        self._queue.remove(waiting.request, -waiting.score)
        return waiting.request

    async def _requests(self, ranked: Sequence[Ranked]) -> dict[int, Request]:
        if self._make_requests is None:
            return {one.page_id: self._kept.pop(one.page_id).request for one in ranked}
        try:
            return await self._make_requests([one.page_id for one in ranked])
        except StateError as error:
            logger.debug("Siblings were not read: %s", error)
            return {}

    def _note_error(self, failure: Failure) -> None:
        logger.debug("Siblings were not ranked anew", exc_info=failure_to_exc_info(failure))

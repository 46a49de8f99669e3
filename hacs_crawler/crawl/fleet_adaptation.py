"""What a fleet finds changes the rest of its plan: siblings of a page just visited get other places."""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple

import numpy as np
from scrapy import Request

from hacs_crawler.config import Config
from hacs_crawler.crawl.adaptation import MOST_KEPT
from hacs_crawler.crawl.loop import begin
from hacs_crawler.crawl.meta import mark_ranked, prediction_of
from hacs_crawler.crawl.plans import MakeRequests, PlannedPages, ranks_anew
from hacs_crawler.crawl.ranked_anew import ranked_anew
from hacs_crawler.crawl.session import Session
from hacs_crawler.exceptions import StateError
from hacs_crawler.fleet.board import Change, Changed, partition_of
from hacs_crawler.fleet.member import FleetWorker
from hacs_crawler.fleet.standings import (
    MOST_OF_FAMILY,
    SCALE,
    Member,
    Published,
    Scale,
    StandingsError,
    packed_families,
    packed_scale,
    read_family,
    read_scale,
    site_note,
)
from hacs_crawler.links import page_id_of, site_id
from hacs_crawler.ranking.families import Families
from hacs_crawler.ranking.policies import Floats
from hacs_crawler.state import PAGES_A_CALL, Ids, Recorded, Rows
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

Ask = Callable[..., Awaitable[Any]]
"""Takes a step on the board, however long that is away; None where that is of no use."""
NOTES_A_CALL: Final = 1_000


class Movable(NamedTuple):
    """Published entries that may get other places."""

    page_ids: array[int]
    ranks: array[int]
    partitions: array[int]


class FleetAdaptation:
    """Ranks anew what waits on the board of a site when a visit of this worker has told of it.

    The worker that leads notes what is needed for that: the siblings of what it publishes, and which
    score stands where. What was left out is published, too, and comes in by what a visit tells of it.
    Each worker gives new places to what waits in its own partitions, where all pages of a site are;
    what it has taken from the board already keeps its place.
    """

    def __init__(
        self, session: Session, config: Config, drop: Callable[[list[Request], str], None]
    ) -> None:
        self._session = session
        self._options = config.ranking
        self._drop = drop
        self.is_on = ranks_anew(config)
        """Whether what waits is ranked anew."""
        self.is_ranking = False
        """Whether the board is to hear of other places soon."""
        # what is explored, or never seen, has a share of its own and the lowest or highest scores
        self._may_swap = not config.ranking.explore and config.ranking.discover is None
        self._threshold = config.ranking.thresholds()[0]
        self._touched: set[int] = set()
        self._round = 0
        self._scale: Scale | None = None
        self._has_warned = False
        self._forget_plan()

    def _forget_plan(self) -> None:
        self._families = Families()
        self._score: dict[Request, float] = {}
        self._kept: list[tuple[Request, str]] = []
        self._plan: PlannedPages | None = None
        self._make_requests: MakeRequests | None = None
        self._number = self._planned = 0  # entries published, and visits that they are for
        self._movable = Movable(array("q"), array("q"), array("q"))
        self._ranks, self._scores = array("q"), array("d")

    # for the worker that leads

    def begin_round(self) -> None:
        """Forget the plan before."""
        self._forget_plan()

    def note_offered(self, page_ids: Sequence[int], rows: Rows) -> None:
        """Note pages that are ranked, by their ranking rows: who is whose sibling."""
        if self.is_on:
            self._families.add(np.array(page_ids, np.int64), rows["site"].astype(np.int64))

    def note_chosen(self, page_ids: Ids, score: Floats, requests: Sequence[Request]) -> None:
        """Note seeds that are to be published, with their scores."""
        del page_ids
        if self.is_on:
            self._score.update(zip(requests, score.tolist(), strict=True))

    def note_waiting(self, page_id: int, request: Request, score: float) -> None:
        """Note a seed that is to be published."""
        del page_id
        if self.is_on:
            self._score[request] = score

    def note_sent(self, request: Request) -> None:
        """Note that a seed is under way, which the board knows."""

    def leave_out(self, page_ids: Iterable[int], requests: list[Request], reason: str) -> None:
        """Take requests that are not to be sent: some may be yet, the others are dropped."""
        ids = np.fromiter(page_ids, np.int64, len(requests))
        has_sibling = self._families.have(ids) & (self.is_on and self._may_swap)
        others = []
        for request, has in zip(requests, has_sibling.tolist(), strict=True):
            if has and len(self._kept) < MOST_KEPT:
                self._kept.append((request, reason))
            else:
                others.append(request)
        self._drop(others, reason)

    def note_plan(self, plan: PlannedPages, make_requests: MakeRequests | None) -> None:
        """Note a plan of the whole state, and how requests for pages that it leaves out are made."""
        if self.is_on:
            self._plan, self._families = plan, plan.families
            self._make_requests = make_requests if self._may_swap else None

    def note_published(self, seeds: Sequence[Request], *, is_spare: bool = False) -> list[int]:
        """Note the next entries of the plan; return the ranks of those that others may replace."""
        first, self._number = self._number, self._number + len(seeds)
        is_bounded = self._options.budget is not None and self._may_swap
        may_go = []
        for rank, seed in enumerate(seeds, first):
            score = self._score.pop(seed, -math.inf)
            if math.isfinite(score):  # what is gone comes last, and stays there
                self._ranks.append(rank)
                self._scores.append(score)
            if not is_spare:
                self._planned += 2 if seed.meta.get("hacs_control") else 1
                if not self._could_move(seed, score):
                    continue
            self._movable.page_ids.append(page_id_of(seed.meta["hacs_page"]))
            self._movable.ranks.append(rank)
            self._movable.partitions.append(partition_of(seed.url))
            if is_bounded and not is_spare and not seed.meta.get("hacs_control"):
                may_go.append(rank)
        return may_go

    def _could_move(self, seed: Request, score: float) -> bool:
        """Whether another place may be found for a seed; what the threshold does not hold for stays."""
        prediction = prediction_of(seed)
        is_exempt = prediction is None or prediction["p"] < self._threshold
        return math.isfinite(score) and not is_exempt

    async def spares(self) -> list[Request]:
        """Return requests for pages that were left out, and may come in."""
        kept, self._kept = self._kept, []
        for reason in {reason for _, reason in kept}:
            self._drop([request for request, why in kept if why == reason], reason)
        spares = [request for request, _ in kept]
        if self._plan is not None and self._make_requests is not None:
            left_out = self._left_out(self._plan.plan.page_ids)
            for start in range(0, len(left_out), PAGES_A_CALL):
                spares += await self._made(
                    self._make_requests, left_out[start : start + PAGES_A_CALL]
                )
        for request in spares:
            request.meta.setdefault("hacs_page", request.url)
        return spares

    async def _made(self, make_requests: MakeRequests, page_ids: Ids) -> list[Request]:
        try:
            return [*(await make_requests(page_ids.tolist())).values()]
        except StateError as error:
            logger.debug("Siblings were not read: %s", error)
            return []

    def _left_out(self, chosen: Ids) -> Ids:
        """Return the siblings of pages that a plan leaves out, those of its best pages first."""
        sites, page_ids = self._families.all()
        _, number, size = np.unique(sites, return_inverse=True, return_counts=True)
        order = np.argsort(chosen)
        at = order[np.searchsorted(chosen, page_ids, sorter=order).clip(max=len(chosen) - 1)]
        is_chosen = chosen[at] == page_ids
        best = np.full(len(size), len(chosen))
        np.minimum.at(best, number[is_chosen], at[is_chosen])
        left = np.flatnonzero(~is_chosen & (size[number] <= MOST_OF_FAMILY))
        return page_ids[left[np.argsort(best[number[left]], kind="stable")]][:MOST_KEPT]

    def notes(self) -> Iterator[dict[str, bytes]]:
        """Yield what all workers are to know of the plan that was published, some at a time."""
        if not self.is_on or not self._families:
            return
        yield {SCALE: packed_scale(np.array(self._ranks), np.array(self._scores))}
        published = Published(*map(np.array, self._movable))
        families = packed_families(*self._families.all(), published)
        while some := dict(islice(families, NOTES_A_CALL)):
            yield some

    @property
    def room(self) -> int | None:
        """For how many pages more than those of the plan the budget is enough, None without one."""
        budget = self._session.ranking.budget
        return None if budget is None else max(0, budget - self._planned)

    # for each worker

    def join(self, ask: Ask, worker: FleetWorker, on_change: Callable[[], None]) -> None:
        """Begin to ask the board; `on_change` is called when there may be something else to take."""
        self._ask, self._worker, self._on_change = ask, worker, on_change

    def enter(self, number: int) -> None:
        """Begin to take part in the round of that number."""
        self._round, self._scale, self._has_warned = number, None, False
        self._touched.clear()

    def mark(self, seed: Request, note: bytes) -> None:
        """Write into a seed's meta what was predicted of it when it was ranked anew.

        Raises ValueError where the note is none.
        """
        if note:
            mark_ranked(seed, json.loads(note), self._session.labels[0].arm)

    def note_recorded(self, recorded: Sequence[Recorded]) -> None:
        """Rank anew what waits of the sites of which these visits told."""
        if not self.is_on or not self._round:
            return
        self._touched.update(site_id(one.after.url) for one in recorded)
        if not self.is_ranking:
            self.is_ranking = True
            begin(self._rank_touched()).addErrback(
                lambda failure: logger.debug("Siblings were not ranked anew: %s", failure.value)
            )

    def close(self) -> None:
        """Rank nothing any more: the crawl is over."""
        self._round = 0
        self._touched.clear()

    async def _rank_touched(self) -> None:
        try:
            while self._touched and self._session.is_open:
                number, touched = self._round, self._touched
                self._touched = set()
                changes = await self._changes(number, touched)
                changed = (
                    await self._ask(self._worker.rank_anew, number, changes) if changes else None
                )
                self._note(changed or Changed(0, 0, 0, 0))
        finally:
            self.is_ranking = False

    async def _changes(self, number: int, sites: Iterable[int]) -> list[Change]:
        """Return the new places of the pages of some sites in a round."""
        try:
            scale, members = await self._standings(number, sites)
        except StandingsError as error:
            if not self._has_warned:
                logger.warning("%s: the plan keeps its order in this round", error)
            self._has_warned = True
            return []
        if scale is None or not members:
            return []
        page_ids = np.unique(np.array([member.page_id for member in members], np.int64))
        ranked = await ranked_anew(self._session, self._options, page_ids)
        positions = scale.positions_of(np.array([one.score for one in ranked]))
        places: dict[int, tuple[float | None, bytes]] = {}
        for one, position in zip(ranked, positions.tolist(), strict=True):
            if one.prediction["p"] < self._threshold:
                places[one.page_id] = (None, b"")
            elif one.may_come:
                places[one.page_id] = (position, json.dumps(one.prediction).encode())
        return [
            Change(member.partition, member.rank, *places[member.page_id])
            for member in members
            if member.rank is not None and member.page_id in places
        ]

    async def _standings(
        self, number: int, sites: Iterable[int]
    ) -> tuple[Scale | None, list[Member]]:
        """Return what is noted of a round: its scale, None before it is open; pages of some sites."""
        scale = self._scale
        if scale is None:
            (note,) = await self._ask(self._worker.notes, number, [SCALE]) or [None]
            scale = None if note is None else read_scale(note)
        names = [*map(site_note, sorted(sites))]
        notes = await self._ask(self._worker.notes, number, names) or []
        if number == self._round:  # else another has begun meanwhile
            self._scale = scale
        return scale, [member for note in notes if note is not None for member in read_family(note)]

    def _note(self, changed: Changed) -> None:
        stats = self._session.stats
        # what came in for another was counted as dropped in its place
        more = changed.came_in - changed.replaced
        for name, number in (
            ("adapted/moved", changed.moved),
            ("adapted/came_in", changed.came_in),
            ("dropped/threshold", changed.left_out - (more if self._threshold else 0)),
            ("dropped/budget", 0 if self._threshold else -more),
        ):
            if number:
                stats.count(name, number)
        if changed.moved or changed.came_in:
            self._on_change()

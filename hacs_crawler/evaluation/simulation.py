"""A recrawl loop on known histories: what each policy would have found, with production's own code.

The estimators, the store's logic, the ranking and the policies are those of a crawl; only the clock and
the web are simulated. Once a day, at 00:00 UTC, a policy picks as many pages as its budget allows and
visits them. A visit finds the updates since that policy's last visit of the page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.evaluation.timelines import Seconds, Timelines
from hacs_crawler.policies import Candidates, Floats
from hacs_crawler.ranking import Ranking
from hacs_crawler.state.knowledge import Estimation, Knowledge
from hacs_crawler.state.memory import MemoryStore
from hacs_crawler.state.page import DAY, Visit

REFIT_DAYS: Final = 30
"""How often the prior is fitted anew to what the policy has seen; a crawl does it at its end."""
BATCH: Final = 1_000
_BASELINE_LINK: Final = -1


class Contender(Protocol):
    """What picks pages in a simulation: a policy, and what it remembers by itself if anything."""

    is_unbounded: bool
    """Whether the budget does not apply."""
    elapsed_from: str

    def score(self, candidates: Candidates) -> Floats:
        """Score the pages; the highest are visited."""

    def note(self, places: NDArray[np.int64], now: int, found: NDArray[np.int64]) -> None:
        """Learn what visits of pages at second `now` found, in numbers of updates."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is simulated. Times are seconds since 1970 UTC, `start` included and `end` not.

    `budget` is in visits a day. Pages first seen at or after `start` are left out.
    """

    timelines: Timelines
    start: int
    end: int
    budget: int
    estimation: Estimation
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Score:
    """How a policy did.

    `hits` are visits that found at least one update, `precision` is hits / visits and `wasted_share`
    the rest. `mean_delay_days` is from an update to the visit that found it, over the updates found
    (None if there are none); `mean_freshness` the time average of the share of pages with no update
    that no visit has found yet. `updates_total` are those up to the end that the history did not show.
    """

    policy: str
    visits: int
    hits: int
    precision: float | None
    updates_found: int
    updates_total: int
    new_links_found: int
    mean_delay_days: float | None
    mean_freshness: float
    wasted_share: float | None


class World:
    """The true web of a scenario, as one contender comes to know it; pages are numbered from 0."""

    def __init__(self, scenario: Scenario) -> None:
        timelines = scenario.timelines
        self._start, self._end = scenario.start, scenario.end
        self._places = np.flatnonzero(timelines.first_seen < scenario.start).tolist()
        self.page_ids = timelines.page_ids[self._places]
        self._urls = [timelines.urls[place] for place in self._places]
        self._updates = [timelines.updates.of(place) for place in self._places]
        offsets = timelines.updates.offsets
        self._new_links = [
            timelines.updates.new_links[offsets[place] : offsets[place + 1]]
            for place in self._places
        ]
        self._seen = np.zeros(len(self._places), np.int64)
        self._known_at_start = self._seen
        self._visits = self._hits = self._updates_found = self._new_links_found = 0
        self._delay_days = self._stale_days = 0.0

    def history(self, scenario: Scenario) -> list[Visit]:
        """Return the visits before the start, the same for all: captures, else the first sight."""
        visits: list[Visit] = []
        for page, place in enumerate(self._places):
            times = scenario.timelines.captures.of(place)
            before = times[times < scenario.start].tolist()
            first_seen = int(scenario.timelines.first_seen[place])
            visits += [self._visit(page, at) for at in before or [first_seen]]
        self._known_at_start = self._seen.copy()
        return visits

    def visit(self, pages: Sequence[int], now: int) -> tuple[list[Visit], NDArray[np.int64]]:
        """Visit pages at second `now`: return the visits and how many updates each of them found."""
        before = self._seen[list(pages)]
        visits = [self._visit(page, now) for page in pages]
        found = self._seen[list(pages)] - before
        for page, first, number in zip(pages, before.tolist(), found.tolist(), strict=True):
            if number:
                self._count(page, slice(first, first + number), now)
        self._visits += len(visits)
        self._hits += int(np.count_nonzero(found))
        return visits, found

    def first_unseen(self) -> Seconds:
        """Return when each page had its first update that no visit found; far away if there is none."""
        first = np.full(len(self._places), np.iinfo(np.int64).max)
        for page, times in enumerate(self._updates):
            if self._seen[page] < len(times):
                first[page] = times[self._seen[page]]
        return first

    def score(self, name: str) -> Score:
        """Return how the contender did, once the simulation is over."""
        last = [int(np.searchsorted(times, self._end)) for times in self._updates]
        first = np.minimum(self.first_unseen(), self._end)
        unseen_days = float(np.sum(self._end - np.maximum(first, self._start))) / DAY
        page_days = len(self._places) * (self._end - self._start) / DAY
        return Score(
            policy=name,
            visits=self._visits,
            hits=self._hits,
            precision=self._hits / self._visits if self._visits else None,
            updates_found=self._updates_found,
            updates_total=int(np.sum(np.array(last) - self._known_at_start)),
            new_links_found=self._new_links_found,
            mean_delay_days=self._delay_days / self._updates_found if self._updates_found else None,
            mean_freshness=1.0 - (self._stale_days + unseen_days) / page_days,
            wasted_share=1.0 - self._hits / self._visits if self._visits else None,
        )

    def _visit(self, page: int, at: int) -> Visit:
        """Return a visit that shows the links added since the last one, and one that was ever there."""
        before = int(self._seen[page])
        self._seen[page] = np.searchsorted(self._updates[page], at, side="right")
        links = {_BASELINE_LINK}
        for update in range(before, int(self._seen[page])):
            links.update(range(update << 32, (update << 32) + int(self._new_links[page][update])))
        return Visit(self._urls[page], at, links=frozenset(links))

    def _count(self, page: int, new: slice, now: int) -> None:
        times = self._updates[page][new]
        self._updates_found += len(times)
        self._new_links_found += int(np.sum(self._new_links[page][new]))
        self._delay_days += float(np.sum(now - times)) / DAY
        self._stale_days += (now - max(int(times[0]), self._start)) / DAY


def simulate(
    scenario: Scenario,
    name: str,
    make: Callable[[World], Contender],
    on_day: Callable[[], None] = lambda: None,
) -> Score:
    """Run one contender from start to end; `on_day` is called after every simulated day."""
    world = World(scenario)
    contender = make(world)
    knowledge = Knowledge(MemoryStore(), scenario.estimation)
    history = world.history(scenario)
    for start in range(0, len(history), BATCH):
        knowledge.record(history[start : start + BATCH])
    pages = list(range(len(world.page_ids)))
    for day, now in enumerate(range(scenario.start, scenario.end, DAY)):
        if day % REFIT_DAYS == 0:
            knowledge.refit_prior()
        ranking: Ranking[int] = Ranking(
            contender.score,
            budget=None if contender.is_unbounded else scenario.budget,
            elapsed_from=contender.elapsed_from,
            seed=scenario.seed + day,
        )
        rows = knowledge.rows(world.page_ids)
        ranking.offer(pages, world.page_ids, rows, now, knowledge.estimation.prior.mean_rate)
        chosen = [ranked.entry for ranked in ranking.take()[0]]
        visits, found = world.visit(chosen, now)
        knowledge.record(visits)
        contender.note(np.array(chosen, np.int64), now, found)
        on_day()
    return world.score(name)

"""Simulated crawls on known histories: the updates that each policy finds.

Estimators, store, ranking and policies are the code of real crawls; only the clock and the web are
simulated. Once a day, or every few days, at 00:00 UTC, a policy chooses pages within its budget and
visits them. A visit finds the updates since that policy's last visit to the page.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.exceptions import HacsError
from hacs_crawler.lab.timelines import Seconds, Timelines
from hacs_crawler.model import ESTIMATORS
from hacs_crawler.ranking.choice import Quota
from hacs_crawler.ranking.controls import Allowance
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.policies import Candidates, Floats, Policy
from hacs_crawler.ranking.selection import Selection
from hacs_crawler.ranking.signals import Signals
from hacs_crawler.state import Estimation, MemoryStore, Rows, State, Visit, follow_prior
from hacs_crawler.utils.times import DAY, MAX_SECOND

Places = NDArray[np.int64]
Counts = NDArray[np.int64]

# The prior is fitted to the policy's visits at this interval; a crawl does it at its end.
REFIT_DAYS: Final = 30
BATCH: Final = 1_000
_BASELINE_LINK: Final = -1
_NEVER: Final = np.iinfo(np.int64).max


class Contender(ABC):
    """Picks pages in a simulation: a policy, and its own memory if it has one."""

    # Whether the budget does not apply: every page is visited every day.
    is_unbounded = False
    # Whether it uses λ, so that control visits are worth their cost.
    uses_rate = False

    @abstractmethod
    def score(self, candidates: Candidates) -> Floats:
        """Score the pages; the highest are visited."""

    def note(self, places: Places, now: int, updates: Counts) -> None:  # noqa: B027 - most forget it
        """Learn the outcomes of visits of pages at second `now`, in numbers of updates."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """The setting of a simulation. Times are seconds since 1970 UTC, `start` included and `end` not.

    `budget` is in visits a day, `has_siblings` as HACS_SIBLINGS, `control_share` as HACS_CONTROLS,
    `stale_days` as HACS_STALE_DAYS.
    There is a run each `every` days, which spends the budget of them all.
    Pages first seen at or after `start` are left out. Raises HacsError if nothing can be simulated.
    """

    timelines: Timelines
    start: int
    end: int
    budget: int
    estimation: Estimation
    seed: int = 0
    has_siblings: bool = True
    control_share: float = 0.02
    every: int = 1
    stale_days: float | None = None

    def __post_init__(self) -> None:
        if not 0 < self.start < self.end <= MAX_SECOND:
            raise HacsError("the start must be before the end, and both between 1970 and 2106")
        if self.budget < 1:
            raise HacsError(f"budget = {self.budget}: must be a whole number of at least 1")
        if self.estimation.estimator not in ESTIMATORS:
            allowed = ", ".join(ESTIMATORS)
            raise HacsError(f"estimator {self.estimation.estimator!r}: must be one of {allowed}")
        days = {"fade_days": self.estimation.fade_days, "stale_days": self.stale_days}
        for name, number in days.items():
            if number is not None and not number > 0:
                raise HacsError(f"{name} = {number}: must be a number above 0")
        if self.every < 1:
            raise HacsError(f"every = {self.every}: must be a whole number of at least 1")
        if not len(self.places()):
            raise HacsError("no page was first seen before the start: there is nothing to visit")

    def places(self) -> Places:
        """Return the positions of the simulated pages in the timelines."""
        return np.flatnonzero(self.timelines.first_seen < self.start)

    @property
    def run_budget(self) -> int:
        """How many visits a run makes."""
        return self.budget * self.every

    def days(self) -> range:
        """Return the seconds at which runs are: at which pages are picked and visited."""
        return range(self.start, self.end, self.every * DAY)


@dataclass(frozen=True, slots=True)
class Score:
    """The result of a policy.

    `hits` are visits that found at least one update, `precision` is hits / visits (None without
    visits). `mean_delay_days` is from an update to the visit that found it, over
    the updates found (None without any); `mean_freshness` the time average of the share of pages
    with no update that no visit has found yet. `updates_total` are those up to the end that the history
    did not show.
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


class SimulatedVisit(NamedTuple):
    """A visit of the history: its page, its second, and how many updates it found."""

    page: int
    at: int
    found: int


class World:
    """The true web of a scenario, as one contender comes to know it; pages are numbered from 0.

    `history` are the visits before the start, the same for all contenders: a page's captures, or one at
    without captures its first sight. `past` are their outcomes, page by page and in time order; a
    page's first visit is the baseline and finds nothing.
    """

    def __init__(self, scenario: Scenario) -> None:
        timelines, places = scenario.timelines, scenario.places()
        self.scenario = scenario
        self.now = scenario.start
        self.page_ids = timelines.page_ids[places]
        self._urls = [timelines.urls[index] for index in places]
        self._updates = [timelines.updates.of(index).tolist() for index in places]
        self._new_links = [timelines.updates.new_links_of(index).tolist() for index in places]
        self._seen = [0] * len(places)
        # when each page had its first update that no visit found; without one far ahead
        self.first_unseen: Seconds = np.array(
            [next(iter(times), _NEVER) for times in self._updates]
        )
        self.history: list[Visit] = []
        self.past: list[SimulatedVisit] = []
        for page, index in enumerate(places):
            captures = timelines.captures.of(index)
            before = captures[captures < scenario.start].tolist()
            for number, at in enumerate(before or [int(timelines.first_seen[index])]):
                found = self._advance(page, at)
                self.history.append(self._shown(page, at))
                self.past.append(SimulatedVisit(page, at, found if number else 0))
        self.history.sort(key=lambda visit: visit.at)  # as a crawl records them
        self._known_at_start = sum(self._seen)
        self.controls = 0
        self._visits = self._hits = self._updates_found = self._new_links_found = 0
        self._delay_seconds = self._stale_seconds = 0

    def visit(self, pages: Places, now: int) -> Counts:
        """Visit pages at second `now`, each once: return how many updates that found on each."""
        updates = np.zeros(len(pages), np.int64)
        for index in np.flatnonzero(self.first_unseen[pages] <= now).tolist():
            updates[index] = self._discover(int(pages[index]), now)
        self._visits += len(pages)
        self._hits += int(np.count_nonzero(updates))
        return updates

    def control(self, pages: Places, now: int) -> list[Visit]:
        """Visit pages a second time that were just visited at second `now`."""
        self._visits += len(pages)
        self.controls += len(pages)
        return self.shown(pages, now + 1)

    def shown(self, pages: Places, now: int) -> list[Visit]:
        """Return visits that have just been made as a crawl would record them."""
        return [self._shown(page, now) for page in pages.tolist()]

    def signals(self, rows: Rows, estimation: Estimation) -> Sequence[Signals]:  # noqa: ARG002
        """Return the signals of the pages, given their ranking rows: none by default."""
        return ()

    def score(self, name: str) -> Score:
        """Return how the contender did, once the simulation is over."""
        start, end = self.scenario.start, self.scenario.end
        up_to_end = sum(bisect_left(times, end) for times in self._updates)
        waiting = np.clip(self.first_unseen, start, end)
        stale_seconds = self._stale_seconds + int(np.sum(end - waiting))
        updates = self._updates_found
        return Score(
            policy=name,
            visits=self._visits,
            hits=self._hits,
            precision=self._hits / self._visits if self._visits else None,
            updates_found=updates,
            updates_total=up_to_end - self._known_at_start,
            new_links_found=self._new_links_found,
            mean_delay_days=self._delay_seconds / DAY / updates if updates else None,
            mean_freshness=1.0 - stale_seconds / (len(self._urls) * (end - start)),
        )

    def _advance(self, page: int, at: int) -> int:
        """Mark the page's updates up to second `at` as seen; return how many were unseen."""
        times, before = self._updates[page], self._seen[page]
        seen = bisect_right(times, at)
        self._seen[page] = seen
        self.first_unseen[page] = times[seen] if seen < len(times) else _NEVER
        return seen - before

    def _discover(self, page: int, now: int) -> int:
        first = self._seen[page]
        number = self._advance(page, now)
        times = self._updates[page][first : first + number]
        self._updates_found += number
        self._new_links_found += sum(self._new_links[page][first : first + number])
        self._delay_seconds += sum(now - at for at in times)
        self._stale_seconds += now - max(times[0], self.scenario.start)
        return number

    def _shown(self, page: int, at: int) -> Visit:
        """Return a visit that shows a link for each update so far."""
        links = frozenset((_BASELINE_LINK, *range(self._seen[page])))
        return Visit(self._urls[page], at, marks=links)


def simulate(
    scenario: Scenario,
    name: str,
    make: Callable[[World], Contender],
    make_world: Callable[[Scenario], World] = World,
) -> Score:
    """Run one contender from start to end."""
    world = make_world(scenario)
    contender = make(world)
    policy = Policy(name, contender.score, uses_rate=contender.uses_rate)
    store = MemoryStore()
    state = State(store, scenario.estimation)
    for start in range(0, len(world.history), BATCH):
        state.record(world.history[start : start + BATCH])
    allowance = Allowance()
    for number, now in enumerate(scenario.days()):
        if number % max(1, REFIT_DAYS // scenario.every) == 0:
            follow_prior(state, lambda *_: None)
            state = State(store, scenario.estimation)  # the next crawl reads it
        world.now = now
        share = scenario.control_share if scenario.estimation.has_posterior else 0.0
        allowance = Allowance(allowance.rest(), share * scenario.run_budget)
        # it visits every page, so learning would not help it
        if contender.is_unbounded:
            everything = np.arange(len(world.page_ids))
            contender.note(everything, now, world.visit(everything, now))
        else:
            pages, visit_twice = _picked(policy, world, state, number, allowance.most)
            allowance.made += len(visit_twice)
            updates = world.visit(pages, now)
            state.record(world.shown(pages, now) + world.control(visit_twice, now))
            contender.note(pages, now, updates)
    return world.score(name)


def _picked(
    policy: Policy, world: World, state: State, number: int, controls: int
) -> tuple[Places, Places]:
    """Return the pages visited in the run with that number, and which of them get a control visit."""
    scenario = world.scenario
    options = RankingOptions(
        policy,
        budget=scenario.run_budget,
        siblings=scenario.has_siblings,
        stale_days=scenario.stale_days,
        random_seed=(scenario.seed << 32) + number,
    )
    quota = Quota(options.budget, controls if policy.uses_rate else 0)
    selection: Selection[int] = Selection(options, quota)
    rows = state.rows(world.page_ids)
    selection.offer(
        list(range(len(rows))),
        world.page_ids,
        rows,
        world.now,
        state.estimation,
        signals=world.signals(rows, state.estimation),
    )
    chosen, _ = selection.take()
    pages = np.array(chosen.entries, np.int64)
    return pages, pages[chosen.visit_twice]

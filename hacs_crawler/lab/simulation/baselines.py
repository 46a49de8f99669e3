"""Contenders of simulations, by name: the policies of a crawl, and other crawlers' as baselines.

The baselines follow their sources and papers: adaptive intervals, and divided budgets. To add one, add
an entry to `BASELINES`.
"""

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

import numpy as np

from hacs_crawler.exceptions import HacsError
from hacs_crawler.lab.simulation.simulation import (
    Contender,
    Counts,
    Places,
    Scenario,
    Score,
    World,
    simulate,
)
from hacs_crawler.model import LOCALIZED, update_probability
from hacs_crawler.ranking.options import policy_named
from hacs_crawler.ranking.policies import POLICIES, Candidates, Floats, Policy, brute_force, random
from hacs_crawler.utils.settings import NotAllowedError
from hacs_crawler.utils.times import DAY

_BEFORE_ALL_OTHERS: Final = 1e9
MINUTE: Final = 60


class IntervalSchedule(Contender):
    """Visits the pages that have been due for the longest.

    It knows the history, like all contenders. If fewer pages are due than the budget allows, the pages
    due next are visited early: the original crawlers would leave the rest of the budget unused.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._due = np.zeros(len(world.page_ids), np.int64)
        for sight in world.past:
            self._due[sight.page] = self.next_visit(sight.page, sight.at, changed=sight.found > 0)

    def score(self, candidates: Candidates) -> Floats:  # noqa: ARG002 - it has a memory of its own
        """Score by the days since the page was due."""
        return (self._world.now - self.due(self._world.now)) / DAY

    def note(self, places: Places, now: int, updates: Counts) -> None:
        """Set the pages' next visits."""
        for page, number in zip(places.tolist(), updates.tolist(), strict=True):
            self._due[page] = self.next_visit(page, now, changed=number > 0)

    def due(self, now: int) -> Places:  # noqa: ARG002 - a schedule may look at it
        """Return the second at which each page is due, seen from second `now`."""
        return self._due

    @abstractmethod
    def next_visit(self, page: int, at: int, *, changed: bool) -> int:
        """Return the second of a page's next visit, after one at second `at`."""


class Nutch(IntervalSchedule):
    """Apache Nutch's AdaptiveFetchSchedule with the values of nutch-default.xml.

    Source: apache/nutch, commit 7906941, src/java/org/apache/nutch/crawl: AdaptiveFetchSchedule
    .setFetchSchedule for the interval and the shift by sync_delta, CrawlDbReducer.reduce for what counts
    as modified and for intervals above db.fetch.interval.max, AbstractFetchSchedule.shouldFetch and
    .forceRefetch; conf/nutch-default.xml (the class's own defaults of 0.2 are overridden there). The
    modification time is when a visit last found an update: no server's Last-Modified is simulated.
    """

    DEFAULT_SECONDS: Final = 2_592_000  # db.fetch.interval.default
    LONGEST_SECONDS: Final = 7_776_000  # db.fetch.interval.max
    INC_RATE: Final = 0.4  # db.fetch.schedule.adaptive.inc_rate, and so on below
    DEC_RATE: Final = 0.2
    MIN_SECONDS: Final = 60
    MAX_SECONDS: Final = 31_536_000
    SYNC_DELTA_RATE: Final = 0.3

    def __init__(self, world: World) -> None:
        pages = len(world.page_ids)
        self._interval = [self.DEFAULT_SECONDS] * pages
        self._modified = [0] * pages
        self._has_signature = [False] * pages
        super().__init__(world)

    def next_visit(self, page: int, at: int, *, changed: bool) -> int:
        """Return the second of the next fetch."""
        interval: float = self._interval[page]
        modified = self._modified[page] or at
        if self._has_signature[page] and changed:
            interval, modified = interval * (1 - self.DEC_RATE), at
        elif self._has_signature[page]:
            interval *= 1 + self.INC_RATE
        delta = at - modified
        shift = round(delta * self.SYNC_DELTA_RATE)
        if shift > self.MAX_SECONDS:
            # offset / delta * maxIntervalMillis in whole numbers, and offset < delta
            shift = 0
        interval = round(min(max(interval, delta, self.MIN_SECONDS), self.MAX_SECONDS))
        # then forceRefetch forgets the signature
        is_too_long = interval > self.LONGEST_SECONDS
        self._interval[page] = round(0.9 * self.LONGEST_SECONDS) if is_too_long else interval
        self._has_signature[page] = not is_too_long
        self._modified[page] = 0 if is_too_long else modified
        return at - shift + interval

    def due(self, now: int) -> Places:
        """Return when pages are due; a page that is due too far ahead is fetched immediately."""
        due = super().due(now)
        return np.where(due - now > self.LONGEST_SECONDS, now, due)


class StormCrawler(IntervalSchedule):
    """Apache StormCrawler's AdaptiveScheduler with its default values.

    Source: apache/stormcrawler, commit 384e98c, core/src/main/java/org/apache/stormcrawler/persistence:
    AdaptiveScheduler.schedule for the interval, DefaultScheduler.schedule for a page's first fetch;
    fetchInterval.default from core/src/main/resources/crawler-default.yaml, the others from the class.
    Intervals are whole minutes.
    """

    DEFAULT_MINUTES: Final = 1_440  # fetchInterval.default
    MIN_MINUTES: Final = 60  # scheduler.adaptive.fetchInterval.min, and so on below
    MAX_MINUTES: Final = 20_160
    RATE_INCR: Final = 0.5
    RATE_DECR: Final = 0.5

    def __init__(self, world: World) -> None:
        self._minutes: dict[int, int] = {}
        super().__init__(world)

    def next_visit(self, page: int, at: int, *, changed: bool) -> int:
        """Return the second of the next fetch."""
        minutes = self._minutes.get(page)
        if minutes is None:
            minutes = self.DEFAULT_MINUTES
        elif changed:
            minutes = int((1 - self.RATE_DECR) * minutes + self.RATE_DECR * self.MIN_MINUTES)
        else:
            minutes = min(int(minutes * (1 + self.RATE_INCR)), self.MAX_MINUTES)
        self._minutes[page] = minutes
        return at + minutes * MINUTE


# of the log price: pages hardly worth a visit depend on its last digits
_TOLERANCE: Final = 1e-12
_FIRST_STEP: Final = 0.05

# The visits a day of pages of these rates per day at a price of a visit; falling in the price.
Demand = Callable[[Floats, float], Floats]


def freshness_demand(rate_per_day: Floats, price: float) -> Floats:
    """Return the visits a day that keep the most pages fresh, evenly spaced, at a price of a visit.

    Cho and Garcia-Molina, "Effective page refresh policies for web crawlers", ACM TODS 28(4), 2003,
    doi:10.1145/958942.958945: visited every 1/f days a page of rate lambda is fresh for the share
    (1 - exp(-lambda/f)) f/lambda of the time, so that under the constraint sum f = budget

        [1 - (1 + lambda/f) exp(-lambda/f)] / lambda = price,

    the left side being P(2, lambda/f) / lambda. Pages that change too often for the price get f = 0,
    as do those that never change. A frequency below lambda/36 cannot be had: in double precision its
    price is that of frequency 0.
    """
    is_worth_it = (rate_per_day > 0) & (price * rate_per_day < 1)
    from scipy.special import gammaincinv  # noqa: PLC0415 - takes a while to import

    expected = gammaincinv(2.0, np.where(is_worth_it, price * rate_per_day, 1.0))
    return np.where(is_worth_it, np.divide(rate_per_day, expected), 0.0)


def harmonic_demand(rate_per_day: Floats, price: float) -> Floats:
    """Return the visits a day at Poisson times that keep the harmonic penalty low, at a price.

    Kolobov et al., "Staying up to date with online content changes using reinforcement learning for
    scheduling", NeurIPS 2019, Proposition 2 (LambdaCrawl, sources with incomplete observations):

        f = [-lambda + sqrt(lambda^2 + 4 lambda / price)] / 2,

    written so that it does not cancel.
    """
    ratio = rate_per_day / price
    root = np.sqrt(rate_per_day**2 + 4 * ratio)
    return np.divide(2 * ratio, rate_per_day + root, out=np.zeros_like(root), where=root > 0)


def binary_demand(rate_per_day: Floats, price: float) -> Floats:
    """Return the visits a day at Poisson times that keep the most pages fresh, at a price of a visit.

    f = max(0, sqrt(lambda / price) - lambda): Azar et al., "Tractable near-optimal policies for
    crawling", PNAS 115(32), 2018, doi:10.1073/pnas.1801519115, which Kolobov et al. 2019 compare with
    as BinaryLambdaCrawl. Pages that change too often for the price get f = 0.
    """
    return np.maximum(np.sqrt(rate_per_day / price) - rate_per_day, 0.0)


class Allocation:
    """Divides a budget of visits a day among pages, repeatedly as their rates are learned."""

    def __init__(self, demand: Demand, visits_per_day: float) -> None:
        self._demand = demand
        self._visits_per_day = visits_per_day
        self._log_price = 0.0

    def frequencies(self, rate_per_day: Floats) -> Floats:
        """Return visits a day that add up to the budget; all 0 if no page ever changes."""
        if not np.any(rate_per_day > 0):
            return np.zeros_like(rate_per_day)

        def excess(log_price: float) -> float:
            frequencies = self._demand(rate_per_day, math.exp(log_price))
            return float(np.sum(frequencies)) - self._visits_per_day

        # log prices around the root, near the last one: rates change little from day to day
        around = []
        for sign in (-1, 1):
            log_price, step = self._log_price, _FIRST_STEP
            while sign * excess(log_price) > 0:
                log_price, step = log_price + sign * step, 2 * step
            around.append(log_price)
        from scipy.optimize import brentq  # noqa: PLC0415 - takes a while to import

        self._log_price = brentq(excess, *around, xtol=_TOLERANCE)
        return self._demand(rate_per_day, math.exp(self._log_price))


class EvenlySpaced(Contender):
    """Divides the budget among the pages by their estimated rates and spaces each page's visits evenly.

    Every day the budget is divided again; the pages most overdue against their share come first.
    """

    def __init__(self, world: World, demand: Demand) -> None:
        self._allocation = Allocation(demand, world.scenario.budget)

    def score(self, candidates: Candidates) -> Floats:
        """Score by the time since the last visit, in units of the page's interval."""
        return self._preferred(self._allocation.frequencies(candidates.rate_per_day), candidates)

    def _preferred(self, frequency: Floats, candidates: Candidates) -> Floats:
        return np.where(frequency > 0, candidates.days_since_visit * frequency, 0.0)


class AtRandomTimes(EvenlySpaced):
    """Divides the budget in the same way, but visits each page at the times of a Poisson process.

    Given the number of visits in a day, the visits of independent Poisson processes are a sample
    weighted by the rates f. The largest values of log(U)/f, U uniform, are such a sample, without
    replacement (Efraimidis and Spirakis, "Weighted random sampling with a reservoir", IPL 97(5), 2006).
    """

    def _preferred(self, frequency: Floats, candidates: Candidates) -> Floats:
        log_uniform = np.log(np.maximum(random(candidates), np.finfo(np.float64).tiny))
        return np.divide(
            log_uniform, frequency, out=np.full_like(frequency, -np.inf), where=frequency > 0
        )


class Stateless(Contender):
    """A policy, which has no memory except the state."""

    def __init__(self, policy: Policy) -> None:
        self._policy, self.uses_rate = policy, policy.uses_rate
        self.is_unbounded = policy.score is brute_force

    def score(self, candidates: Candidates) -> Floats:
        """Score by the policy."""
        return self._policy(candidates)


def paper_rule(candidates: Candidates) -> Floats:
    """Score by p as in Jayawardana et al. 2020, with e since the last known update.

    A page without a known update has lambda = 0, by Eq. 5 or for want of a gap, hence p = 0.
    """
    rate = np.where(candidates.updates > 0, candidates.rate_per_day, 0.0)
    elapsed_days = np.where(candidates.updates > 0, candidates.days_since_update, 0.0)
    return update_probability(rate, elapsed_days)


class Oracle(Contender):
    """Knows every update: the page with the oldest unseen update comes first.

    Pages without unseen updates follow, the page seen longest ago first.
    """

    def __init__(self, world: World) -> None:
        self._world = world

    def score(self, candidates: Candidates) -> Floats:
        """Score by the days for which an update has been waiting."""
        waiting_days = (self._world.now - self._world.first_unseen) / DAY
        return np.where(
            waiting_days >= 0, _BEFORE_ALL_OTHERS + waiting_days, candidates.days_since_visit
        )


@dataclass(frozen=True, slots=True)
class Baseline:
    """How a contender is made, and its own estimator if it has one."""

    make: Callable[[World], Contender]
    estimator: str | None = None


def _stateless(policy: Policy, estimator: str | None = None) -> Baseline:
    return Baseline(lambda _world: Stateless(policy), estimator)


# The policies of a crawl, and their baselines.
BASELINES: Final[Mapping[str, Baseline]] = MappingProxyType(
    {
        **{name: _stateless(policy) for name, policy in POLICIES.items()},
        "hacs-paper": _stateless(Policy("hacs-paper", paper_rule, uses_rate=False), "mle"),
        **{f"hacs-{name}": _stateless(POLICIES["hacs"], name) for name in LOCALIZED},
        "nutch": Baseline(Nutch),
        "stormcrawler": Baseline(StormCrawler),
        # Cho and Garcia-Molina 2003: visits evenly spaced, pages in a fixed order
        "optimal-freshness": Baseline(lambda world: EvenlySpaced(world, freshness_demand)),
        # Kolobov et al. 2019: as published, with even spacing, and with their baselines
        "lambda-crawl": Baseline(lambda world: AtRandomTimes(world, harmonic_demand)),
        "lambda-crawl-even": Baseline(lambda world: EvenlySpaced(world, harmonic_demand)),
        "lambda-crawl-binary": Baseline(lambda world: AtRandomTimes(world, binary_demand)),
        "oracle": Baseline(Oracle),
    }
)


def find_baseline(name: str) -> Baseline:
    """Return the baseline of that name, or a baseline of the policy at that path; raises HacsError."""
    if name in BASELINES:
        return BASELINES[name]
    try:
        return _stateless(policy_named(name, BASELINES))
    except NotAllowedError as error:
        raise HacsError(f"policy {name!r}: must be one of {error}") from error


def compete(scenario: Scenario, name: str) -> Score:
    """Simulate the contender of that name, with its own estimator if it has one."""
    baseline = find_baseline(name)
    if baseline.estimator is not None:
        estimation = replace(scenario.estimation, estimator=baseline.estimator)
        scenario = replace(scenario, estimation=estimation)
    return simulate(scenario, name, baseline.make)

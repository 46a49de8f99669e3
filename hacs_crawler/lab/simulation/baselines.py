"""Contenders of simulations, by name: the policies of a crawl, and their baselines.

A further baseline is one further entry of `BASELINES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

import numpy as np

from hacs_crawler.exceptions import HacsError
from hacs_crawler.lab.simulation.crawlers import (
    AtRandomTimes,
    EvenlySpaced,
    Nutch,
    StormCrawler,
    binary_demand,
    freshness_demand,
    harmonic_demand,
)
from hacs_crawler.lab.simulation.simulation import (
    Contender,
    Scenario,
    Score,
    World,
    simulate,
)
from hacs_crawler.model import LOCALIZED, update_probability
from hacs_crawler.ranking.policies import (
    POLICIES,
    Candidates,
    Floats,
    Policy,
    Scorer,
    brute_force,
    policy_of,
)
from hacs_crawler.utils.settings import NotAllowedError, loaded
from hacs_crawler.utils.times import DAY

_BEFORE_ALL_OTHERS: Final = 1e9


class Stateless(Contender):
    """A policy, which remembers nothing but the state."""

    def __init__(
        self, score: Scorer, *, is_unbounded: bool = False, uses_rate: bool = False
    ) -> None:
        self._score = score
        self.is_unbounded, self.uses_rate = is_unbounded, uses_rate

    def score(self, candidates: Candidates) -> Floats:
        """Score by the policy."""
        return self._score(candidates)


def paper_rule(candidates: Candidates) -> Floats:
    """Score by p as Jayawardana et al. 2020 do: e since the last known update, and nothing else.

    A page without a known update has lambda = 0, by Eq. 5 or for want of a gap, hence p = 0.
    """
    rate = np.where(candidates.updates > 0, candidates.rate_per_day, 0.0)
    elapsed_days = np.where(candidates.updates > 0, candidates.days_since_update, 0.0)
    return update_probability(rate, elapsed_days)


class Oracle(Contender):
    """Knows every update: the page that has had an unseen update for the longest comes first.

    Without any such page, the page seen longest ago does.
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
    return Baseline(
        lambda _world: Stateless(
            policy.score,
            is_unbounded=policy.score is brute_force,
            uses_rate=policy.uses_rate,
        ),
        estimator,
    )


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
    what = f"{', '.join(BASELINES)}, or the dotted path of a function"
    try:
        policy = loaded(name, what)
    except NotAllowedError as error:
        raise HacsError(f"policy {name!r}: must be one of {error}") from error
    if not callable(policy):
        raise HacsError(f"policy {name!r}: must be one of {what} (that is not a function)")
    return _stateless(policy_of(name, policy))


def compete(scenario: Scenario, name: str) -> Score:
    """Simulate the contender of that name, with its own estimator if it has one."""
    baseline = find_baseline(name)
    if baseline.estimator is not None:
        estimation = replace(scenario.estimation, estimator=baseline.estimator)
        scenario = replace(scenario, estimation=estimation)
    return simulate(scenario, name, baseline.make)

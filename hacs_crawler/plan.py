"""What would be crawled now: every page that the state knows, ranked as the scheduler ranks seeds."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.calibration import read_correction
from hacs_crawler.choosing import Places, chosen_places, scored
from hacs_crawler.config import Config
from hacs_crawler.policies import Candidates, Floats, brute_force
from hacs_crawler.progress import Progress
from hacs_crawler.ranking import Correct, Ranked, candidates_from
from hacs_crawler.state.codec import ROW
from hacs_crawler.state.knowledge import Knowledge
from hacs_crawler.state.store import Ids, Rows

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Plan:
    """What would be crawled now, best first: arrays with one element a page.

    `arms` are places in `arm_names` (one arm named "" where no experiment is on). `raw_p` is p before
    any calibration. Times are in days, `days_since_visit` and `days_since_update` infinite where there
    was none; `updates` counts visits with an update, `failures` the attempts since the last visit that
    told nothing.
    """

    page_ids: Ids
    arms: Counts
    p: Floats
    raw_p: Floats
    rate_per_day: Floats
    days_since_visit: Floats
    days_since_update: Floats
    visits: Counts
    updates: Counts
    failures: Counts
    arm_names: tuple[str, ...]
    known: int
    """Pages in the state."""
    waiting: int
    """Pages that are gone and not to be visited yet."""
    below_threshold: int
    left_out: int
    """Pages over the budget or the limit."""

    def __len__(self) -> int:
        return len(self.page_ids)

    def candidates(self, arm: int, seed: int) -> Candidates:
        """Return the pages of an arm as its policy looks at them."""
        is_of_arm = self.arms == arm
        names = {field.name for field in fields(Candidates)} - {"seed"}
        return Candidates(**{name: getattr(self, name)[is_of_arm] for name in names}, seed=seed)

    def ranked(self, place: int, url: str) -> Ranked[str]:
        """Return one page of the plan, whose URL is given, as the scheduler ranks seeds."""
        return Ranked(
            url,
            float(self.p[place]),
            float(self.raw_p[place]),
            float(self.rate_per_day[place]),
            float(self.days_since_visit[place]),
        )


def make_plan(
    knowledge: Knowledge,
    config: Config,
    now: float,
    limit: int | None = None,
    progress: Progress | None = None,
) -> Plan:
    """Return what `scrapy crawl scholar -a seeds=state` would visit, in its order.

    `now` is in seconds since 1970 UTC. With `limit` only that many pages of the beginning are returned.
    Every page is ranked at once; HACS_RANK_WINDOW does not count. Takes memory in proportion to the
    pages known, and makes no Python object of any. Raises StateError, and ConfigError where a policy
    does not return one number a page.
    """
    return plan_of(*read_rows(knowledge, progress), knowledge, config, now, limit)


def read_rows(knowledge: Knowledge, progress: Progress | None = None) -> tuple[Ids, Rows]:
    """Return the ids and the ranking rows of every page known, in the store's order."""
    total = knowledge.store.count() if progress is not None else 0
    number = 0
    ids, rows = [np.zeros(0, np.int64)], [np.zeros(0, ROW)]
    for some_ids, some_rows in knowledge.store.all_rows():
        ids.append(some_ids)
        rows.append(some_rows)
        number += len(some_ids)
        if progress is not None:
            progress.update(f"{number} pages", number, total)
    return np.concatenate(ids), np.concatenate(rows)


def correction_of(knowledge: Knowledge, config: Config) -> Correct | None:
    """Return how the scheduler corrects p, None if it does not. Raises StateError."""
    return read_correction(knowledge, config.labels()[0].model) if config.calibration else None


def candidates_of(
    page_ids: Ids,
    rows: Rows,
    knowledge: Knowledge,
    config: Config,
    now: float,
    correct: Correct | None,
) -> Candidates:
    """Return what policies look at; `rows` are those of whole sites, whose pages tell of each other."""
    return candidates_from(
        page_ids,
        rows,
        now,
        prior_rate_per_day=knowledge.estimation.prior.mean_rate,
        elapsed_from=config.elapsed_from,
        horizon_days=config.horizon_days,
        has_siblings=config.siblings,
        correct=correct,
        seed=secrets.randbits(63) if config.random_seed is None else config.random_seed,
    )


def plan_of(
    page_ids: Ids,
    rows: Rows,
    knowledge: Knowledge,
    config: Config,
    now: float,
    limit: int | None = None,
) -> Plan:
    """Return the plan of pages whose ranking rows were read, see `make_plan`."""
    correct = correction_of(knowledge, config)
    candidates = candidates_of(page_ids, rows, knowledge, config, now, correct)
    arms = config.experiment.assign(rows["site"])
    is_waiting = rows["not_before"] > now
    is_low = ~is_waiting & (candidates.p < _thresholds(config)[arms])
    may_be_visited = ~is_waiting & ~is_low
    winners = _winners(candidates, arms, may_be_visited, config, limit)
    best = _taken(candidates, winners)
    return Plan(
        page_ids=best.page_ids,
        arms=arms[winners],
        p=best.p,
        raw_p=best.raw_p,
        rate_per_day=best.rate_per_day,
        days_since_visit=best.days_since_visit,
        days_since_update=best.days_since_update,
        visits=best.visits,
        updates=best.updates,
        failures=best.failures,
        arm_names=tuple(arm.name for arm in config.experiment.arms),
        known=len(page_ids),
        waiting=int(is_waiting.sum()),
        below_threshold=int(is_low.sum()),
        left_out=int(may_be_visited.sum()) - len(winners),
    )


def _thresholds(config: Config) -> Floats:
    """Return the least p of each arm; none applies to brute force."""
    arms = config.experiment.arms
    return np.array([0.0 if arm.policy is brute_force else config.threshold for arm in arms])


def _winners(
    candidates: Candidates,
    arms: Counts,
    may_be_visited: NDArray[np.bool_],
    config: Config,
    limit: int | None,
) -> Places:
    """Return the places to be visited in their order: each arm's own, all used up at the same pace."""
    experiment = config.experiment
    parts, paces = [], []
    budgets = experiment.budgets(config.budget)
    for number, (arm, budget) in enumerate(zip(experiment.arms, budgets, strict=True)):
        places = np.flatnonzero(may_be_visited & (arms == number))
        mine = _taken(candidates, places)
        score = scored(arm.policy, mine)
        chosen = chosen_places(score, mine.visits, budget, config.explore, limit)
        of_all = len(places) if budget is None else min(len(places), budget)
        parts.append(places[chosen])
        paces.append((np.arange(len(chosen)) + 0.5) / max(of_all, 1))
    joined = np.concatenate(parts)
    return joined[np.argsort(np.concatenate(paces), kind="stable")[:limit]]


def _taken(candidates: Candidates, places: Places) -> Candidates:
    columns = {
        field.name: getattr(candidates, field.name)[places]
        for field in fields(candidates)
        if field.name != "seed"
    }
    return Candidates(**columns, seed=candidates.seed)

"""What would be crawled now: every page that the state knows, ranked as the scheduler ranks seeds."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.config import Config
from hacs_crawler.ranking.calibration import read_correction
from hacs_crawler.ranking.policies import POLICIES, Candidates, Floats, brute_force
from hacs_crawler.ranking.ranking import Correct, Ranked, candidates_from
from hacs_crawler.ranking.selection import Places, chosen_places, scored
from hacs_crawler.state import ROW, Ids, Rows, State
from hacs_crawler.utils.progress import Progress

Counts = NDArray[np.int64]

BLOCK_PAGES: Final = 50_000
"""About so many pages are looked at at a time: what is computed stays in the processor's cache."""
_MOST_BLOCKS: Final = 2**16  # their numbers are sorted in linear time
_NO_ARM: Final = -1


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
    state: State,
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
    return plan_of(*read_rows(state, progress), state, config, now, limit)


def read_rows(state: State, progress: Progress | None = None) -> tuple[Ids, Rows]:
    """Return the ids and the ranking rows of every page known, in the store's order."""
    total = state.store.count() if progress is not None else 0
    # they grow in place: joining parts at the end would take twice the memory
    ids, rows = bytearray(), bytearray()
    for some_ids, some_rows in state.store.all_rows():
        ids += some_ids.tobytes()
        rows += some_rows.tobytes()
        if progress is not None:
            number = len(ids) // 8
            progress.update(f"{number} pages", number, total)
    return np.frombuffer(ids, np.int64), np.frombuffer(rows, ROW)


def correction_of(state: State, config: Config) -> Correct | None:
    """Return how the scheduler corrects p, None if it does not. Raises StateError."""
    return read_correction(state, config.model) if config.calibration else None


def candidates_of(
    page_ids: Ids,
    rows: Rows,
    state: State,
    config: Config,
    now: float,
    correct: Correct | None,
) -> Candidates:
    """Return what policies look at; `rows` are those of whole sites, whose pages tell of each other."""
    return candidates_from(
        page_ids,
        rows,
        now,
        prior_rate_per_day=state.estimation.prior.mean_rate,
        elapsed_from=config.elapsed_from,
        horizon_days=config.horizon_days,
        has_siblings=config.siblings,
        correct=correct,
        seed=secrets.randbits(63) if config.random_seed is None else config.random_seed,
    )


def plan_of(
    page_ids: Ids,
    rows: Rows,
    state: State,
    config: Config,
    now: float,
    limit: int | None = None,
) -> Plan:
    """Return the plan of pages whose ranking rows were read, see `make_plan`."""
    if config.random_seed is None:
        config = replace(config, random_seed=secrets.randbits(63))  # the same in every block
    judged = _judged(page_ids, rows, state, config, now)
    winners = _winners(judged, rows, config, limit)
    ids, few = page_ids[winners], np.take(rows, winners)
    best = candidates_of(ids, few, state, replace(config, siblings=False), now, None)
    return Plan(
        page_ids=ids,
        arms=judged.arms[winners].astype(np.int64),
        p=judged.p[winners],
        raw_p=judged.raw_p[winners],
        rate_per_day=best.rate_per_day,
        days_since_visit=best.days_since_visit,
        days_since_update=best.days_since_update,
        visits=best.visits,
        updates=best.updates,
        failures=best.failures,
        arm_names=tuple(arm.name for arm in config.experiment.arms),
        known=len(page_ids),
        waiting=judged.waiting,
        below_threshold=judged.below_threshold,
        left_out=int((judged.arms != _NO_ARM).sum()) - len(winners),
    )


@dataclass(slots=True)
class _Judged:
    """What is kept of every page while the best are chosen: arrays with one element a page.

    `arms` are places in the experiment's arms, `_NO_ARM` for a page that is not to be visited.
    """

    arms: NDArray[np.int8]
    p: Floats
    raw_p: Floats
    score: Floats
    waiting: int = 0
    below_threshold: int = 0


def _judged(page_ids: Ids, rows: Rows, state: State, config: Config, now: float) -> _Judged:
    """Score every page, some whole sites at a time."""
    correct = correction_of(state, config)
    p = np.empty(len(rows))
    raw_p = p if correct is None else np.empty(len(rows))
    judged = _Judged(np.full(len(rows), _NO_ARM, np.int8), p, raw_p, np.empty(len(rows)))
    thresholds = _thresholds(config)
    for places in _blocks(rows["site"], config):
        some = np.take(rows, places)
        candidates = candidates_of(page_ids[places], some, state, config, now, correct)
        arms = config.experiment.assign(some["site"])
        is_waiting = some["not_before"] > now
        is_low = ~is_waiting & (candidates.p < thresholds[arms])
        arms[is_waiting | is_low] = _NO_ARM
        judged.raw_p[places] = candidates.raw_p
        judged.p[places] = candidates.p
        judged.arms[places] = arms
        judged.waiting += int(is_waiting.sum())
        judged.below_threshold += int(is_low.sum())
        for number, arm in enumerate(config.experiment.arms):
            mine = np.flatnonzero(arms == number)
            judged.score[places[mine]] = scored(arm.policy, _taken(candidates, mine))
    return judged


def _blocks(sites: NDArray[np.integer], config: Config) -> Iterator[Places]:
    """Yield the places of all pages, some whole sites at a time, each site's in their order.

    Policies that are not of this package get all pages at once: they may compare them.
    """
    number = min(len(sites) // BLOCK_PAGES, _MOST_BLOCKS)
    is_ours = all(arm.policy in POLICIES.values() for arm in config.experiment.arms)
    if number < 2 or not is_ours:
        yield np.arange(len(sites))
        return
    block = (sites % np.uint32(number)).astype(np.uint16)
    order = np.argsort(block, kind="stable")
    ends = np.cumsum(np.bincount(block, minlength=number))
    del block
    yield from np.split(order, ends[:-1])


def _thresholds(config: Config) -> Floats:
    """Return the least p of each arm; none applies to brute force."""
    arms = config.experiment.arms
    return np.array([0.0 if arm.policy is brute_force else config.threshold for arm in arms])


def _winners(judged: _Judged, rows: Rows, config: Config, limit: int | None) -> Places:
    """Return the places to be visited in their order: each arm's own, all used up at the same pace."""
    experiment = config.experiment
    parts, paces = [], []
    for number, budget in enumerate(experiment.budgets(config.budget)):
        places = np.flatnonzero(judged.arms == number)
        visits = rows["visits"][places]
        chosen = chosen_places(judged.score[places], visits, budget, config.explore, limit)
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

"""What would be crawled now: every page that the state knows, ranked as the scheduler ranks seeds."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.exceptions import StateError
from hacs_crawler.links import check_url, site_of
from hacs_crawler.ranking.candidates import Places, taken
from hacs_crawler.ranking.controls import control_worth, controlled
from hacs_crawler.ranking.finalists import SHARD_BITS, Counts, Finalists, finalists_of
from hacs_crawler.ranking.instant import with_hubs
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.policies import Candidates, Floats
from hacs_crawler.ranking.selection import best_places
from hacs_crawler.state import (
    PAGES_A_CALL,
    ROW,
    Ids,
    Label,
    Page,
    Prediction,
    Rows,
    State,
    predictions,
    without_future,
)
from hacs_crawler.utils.progress import Progress
from hacs_crawler.utils.text import counted, safe_logger

logger = safe_logger(__name__)


@dataclass(frozen=True, slots=True)
class Plan:
    """What would be crawled now, best first: arrays with one element a page.

    `shards` say of which state each page is, where it is a plan of several: by their places. `arms` are
    places in `arm_names` (one arm named "" where no experiment is on). `score` is the policy's. `raw_p`
    is p before any calibration. Times are in days, `days_since_visit` and `days_since_update` infinite
    where there was none; `updates` counts visits with an update, `failures` the attempts since the last
    visit that told nothing. Where there are fewer than `VISITS_OF_A_RATE` visits, λ is the prior's.
    `churn` and `churning` are as in `Candidates`, `asked_twice` says which pages get a control visit.
    """

    page_ids: Ids
    shards: Counts
    arms: Counts
    score: Floats
    p: Floats
    raw_p: Floats
    rate_per_day: Floats
    days_since_visit: Floats
    days_since_update: Floats
    visits: Counts
    updates: Counts
    failures: Counts
    churn: Floats
    churning: Floats
    asked_twice: NDArray[np.bool_]
    arm_names: tuple[str, ...]
    known: int
    """Pages in the state."""
    waiting: int
    """Pages that are gone and not to be visited yet."""
    below_threshold: int
    left_out: int
    """Pages over the budget or the limit."""
    seconds: Floats | None = None
    """What visits take, where a policy asks for that."""

    def __len__(self) -> int:
        return len(self.page_ids)

    def candidates(self, arm: int, seed: int) -> Candidates:
        """Return the pages of an arm as its policy looks at them."""
        is_of_arm = self.arms == arm
        names = {field.name for field in fields(Candidates)} - {"seed"}
        names -= set() if self.seconds is not None else {"seconds"}
        return Candidates(**{name: getattr(self, name)[is_of_arm] for name in names}, seed=seed)

    def predictions(self, places: slice, labels: Sequence[Label], run: int) -> list[Prediction]:
        """Return what is predicted of some pages, by the arms' labels, in the run of that second."""
        found = predictions(
            0,
            run,
            p=self.p[places],
            raw_p=self.raw_p[places],
            rate_per_day=self.rate_per_day[places],
            days_since_visit=self.days_since_visit[places],
            churn=self.churn[places],
        )
        for prediction, arm in zip(found, self.arms[places].tolist(), strict=True):
            prediction["label"] = labels[arm].number
        return found


def make_plan(
    state: State,
    options: RankingOptions,
    now: float,
    limit: int | None = None,
    progress: Progress | None = None,
    controls: int = 0,
) -> Plan:
    """Return what `scrapy crawl scholar -a seeds=state` would visit, in its order.

    `now` is in seconds since 1970 UTC. With `limit` only that many pages of the beginning are returned.
    `controls` is how many control visits there may be.
    Takes memory in proportion to the pages known, and makes no Python object of any. Raises StateError,
    and ConfigError where a policy does not return one number a page. Pages that no crawl could visit
    leave their places to those behind them, and are logged.
    """
    return _made(state, options, now, limit, progress, controls)[0]


def _made(
    state: State,
    options: RankingOptions,
    now: float,
    limit: int | None,
    progress: Progress | None,
    controls: int,
) -> tuple[Plan, Ids, Rows]:
    """Return the plan, and the ids and rows of the pages that can be visited."""
    page_ids, rows = read_rows(state, progress, now)
    plan, left, known = plan_of_usable(
        page_ids, rows, state, options, now, limit, controls=controls
    )
    return replace(plan, known=plan.known + len(page_ids) - len(left)), left, known


def plan_of_usable(
    page_ids: Ids,
    rows: Rows,
    state: State,
    options: RankingOptions,
    now: float,
    limit: int | None = None,
    *,
    controls: int = 0,
) -> tuple[Plan, Ids, Rows]:
    """Return the plan without pages that no crawl could visit, and the ids and rows that are left.

    See `planned_without_unusable`.
    """

    def planner(some: RankingOptions, ahead: int | None, without: Ids, controls: int = 0) -> Plan:
        ids, known = usable(page_ids, rows, without)
        return plan_of(ids, known, state, some, now, ahead, controls=controls)

    plan, without = planned_without_unusable(planner, [state], options, limit, controls)
    return plan, *usable(page_ids, rows, without)


class Planner(Protocol):
    """Makes a plan."""

    def __call__(
        self, options: RankingOptions, limit: int | None, without: Ids, controls: int = 0, /
    ) -> Plan:
        """Return the plan of so many pages, without those of some ids."""


def planned_without_unusable(
    planner: Planner,
    states: Sequence[State],
    options: RankingOptions,
    limit: int | None,
    controls: int,
) -> tuple[Plan, Ids]:
    """Return the plan without pages that no crawl could visit, and the ids of these.

    Those among the pages of the plan are found, and logged; a plan of all pages is not looked at. Never
    seen, they are all in front.
    """
    options = options.seeded(secrets.randbits(63))  # the same each time
    look, ahead, unusable = options, limit, _Unusable(states)
    while True:
        without = unusable.ids()
        plan = planner(options, limit, without, controls)
        if not (plan.left_out or limit) or not unusable.add(plan):
            break
        # so that many such pages are found in few steps
        look, ahead = replace(look, budget=look.budget and 2 * look.budget), ahead and 2 * ahead
        unusable.add(planner(look, ahead, without))
    unusable.log()
    return plan, without


def usable(page_ids: Ids, rows: Rows, without: Ids) -> tuple[Ids, Rows]:
    """Return ids and rows without those of some ids."""
    if not len(without):
        return page_ids, rows
    is_left = ~np.isin(page_ids, without)
    return page_ids[is_left], rows[is_left]


def pages_of(plan: Plan, places: slice, states: Sequence[State]) -> dict[int, Page]:
    """Return the known ones of a plan's pages at some places, by id."""
    found: dict[int, Page] = {}
    for _, pages in _pages_by_shard(plan, places, states):
        found |= pages
    return found


def _pages_by_shard(
    plan: Plan, places: slice, states: Sequence[State]
) -> Iterator[tuple[int, dict[int, Page]]]:
    ids, shards = plan.page_ids[places], plan.shards[places]
    for shard in np.unique(shards).tolist():
        yield shard, states[shard].load(ids[shards == shard].tolist())


class _Unusable:
    """Pages in states that no crawl could visit, such as versions before let an import bring there."""

    def __init__(self, states: Sequence[State]) -> None:
        self._states = states
        self._page_ids: set[int] = set()
        self._example = ""
        self._shard_of: dict[str, int] = {}

    def ids(self) -> Ids:
        """Return the ids of those found."""
        return np.array(sorted(self._page_ids), np.int64)

    def add(self, plan: Plan) -> bool:
        """Look for such pages in a plan; return whether there are any.

        Raises StateError where a site has pages in two of the states.
        """
        found = len(self._page_ids)
        for start in range(0, len(plan), PAGES_A_CALL):
            places = slice(start, start + PAGES_A_CALL)
            for shard, pages in _pages_by_shard(plan, places, self._states):
                for page_id, page in pages.items():
                    if problem := check_url(page.url):
                        self._page_ids.add(page_id)
                        self._example = self._example or f"{page.url[:200]}: {problem}"
                    elif len(self._states) > 1:
                        self._check_shard(site_of(page.url), shard)
        return len(self._page_ids) > found

    def _check_shard(self, site: str, shard: int) -> None:
        other = self._shard_of.setdefault(site, shard)
        if other != shard:
            msg = (
                f"the site {site[:200]} has pages in two shards, number {other + 1} and {shard + 1} of "
                "those named: all of a host must be in one"
            )
            raise StateError(msg)

    def log(self) -> None:
        """Say how many there are."""
        if self._page_ids:
            logger.warning(
                "skipped: %s of the state that cannot be visited, such as %s",
                counted(len(self._page_ids), "page"),
                self._example,
            )


def read_rows(
    state: State, progress: Progress | None = None, now: float | None = None
) -> tuple[Ids, Rows]:
    """Return the ids and the ranking rows of every page known, in the store's order.

    With `now`, in seconds since 1970 UTC, visits later than that are set aside, and logged.
    """
    total = state.store.count() if progress is not None else 0
    # they grow in place: joining parts at the end would take twice the memory
    ids, rows = bytearray(), bytearray()
    for some_ids, some_rows in state.store.all_rows():
        ids += some_ids.tobytes()
        rows += some_rows.tobytes()
        if progress is not None:
            number = len(ids) // 8
            progress.update(f"{number} pages", number, total)
    found, known = np.frombuffer(ids, np.int64), np.frombuffer(rows, ROW)
    if now is None:
        return found, known
    known, future = without_future(state, found, known, now)
    if future is not None:
        logger.warning("%s", future)
    return found, known


def plan_of(
    page_ids: Ids,
    rows: Rows,
    state: State,
    options: RankingOptions,
    now: float,
    limit: int | None = None,
    *,
    controls: int = 0,
) -> Plan:
    """Return the plan of pages whose ranking rows were read, see `make_plan`."""
    options = with_hubs(options, state, now)
    options = options.seeded(secrets.randbits(63))  # the same in every block
    finalists = finalists_of(page_ids, rows, state, options, now, limit)
    return plan_from(finalists, options, limit, controls=controls)


def plan_from(
    finalists: Finalists, options: RankingOptions, limit: int | None, *, controls: int = 0
) -> Plan:
    """Return the plan that chooses among finalists, see `make_plan`."""
    winners, asked_twice = _winners(finalists, options, limit, controls)
    best = taken(finalists.candidates, winners)
    return Plan(
        page_ids=best.page_ids,
        shards=finalists.places[winners] >> SHARD_BITS,
        arms=finalists.arms[winners],
        score=finalists.score[winners],
        p=best.p,
        raw_p=best.raw_p,
        rate_per_day=best.rate_per_day,
        days_since_visit=best.days_since_visit,
        days_since_update=best.days_since_update,
        visits=best.visits,
        updates=best.updates,
        failures=best.failures,
        churn=best.churn,
        churning=best.churning,
        asked_twice=asked_twice,
        arm_names=tuple(arm.name for arm in options.experiment.arms),
        known=finalists.known,
        waiting=finalists.waiting,
        below_threshold=finalists.below_threshold,
        left_out=int(finalists.eligible.sum()) - len(winners),
        seconds=best.seconds,
    )


def _winners(
    finalists: Finalists, options: RankingOptions, limit: int | None, controls: int
) -> tuple[Places, NDArray[np.bool_]]:
    """Return the places of the finalists to be visited in their order, and which are asked twice.

    Each arm has its own; all are used up at the same pace.
    """
    parts, paces, twice = [], [], []
    candidates = finalists.candidates
    shares = zip(options.budgets(), options.controls(controls), strict=True)
    for number, (budget, most) in enumerate(shares):
        places = np.flatnonzero(finalists.arms == number)
        best = places[best_places(finalists.score[places], budget, limit)]
        of_best = taken(candidates, best)
        worth = control_worth(of_best.p, of_best.churning, of_best.visits, of_best.updates)
        asked_twice, kept = controlled(worth, budget, most)
        eligible = int(finalists.eligible[number])
        of_all = eligible if budget is None else min(eligible, budget)
        parts.append(best[:kept])
        twice.append(asked_twice)
        paces.append((np.arange(kept) + 0.5) / max(of_all, 1))
    order = np.argsort(np.concatenate(paces), kind="stable")[:limit]
    return np.concatenate(parts)[order], np.concatenate(twice)[order]

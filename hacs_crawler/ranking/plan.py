"""The pages that would be crawled now, and when a page will be visited next."""

import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from enum import Enum
from itertools import repeat
from typing import Any, Final

import numpy as np

from hacs_crawler.ranking.candidates import candidates_from, taken
from hacs_crawler.ranking.choice import Quota, choose, scored
from hacs_crawler.ranking.demands import Demanded, demands_of, is_overdue
from hacs_crawler.ranking.finalists import Finalists, finalists_of, urls_of
from hacs_crawler.ranking.instant import with_hubs
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.policies import Candidates, Floats, patience
from hacs_crawler.ranking.signals import read_signals
from hacs_crawler.state import ROW, Ids, Label, Prediction, Rows, State, without_future
from hacs_crawler.utils.arrays import BoolArray
from hacs_crawler.utils.terminal import Progress
from hacs_crawler.utils.text import safe_logger
from hacs_crawler.utils.times import DAY

logger = safe_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Candidates):
    """The pages that a crawl would visit now, best first: `Candidates` with more arrays.

    `score` is the policy's, `visit_twice` says which pages get a control visit. With fewer than
    `VISITS_OF_A_RATE` visits, λ is the prior's. `demanded` sums the demands on all pages, but counts
    only the overdue pages that the budget leaves out.
    """

    score: Floats
    visit_twice: BoolArray
    # Pages in the state.
    known: int
    # Pages that are gone and not to be visited yet.
    waiting: int
    # Pages visited more recently than HACS_EVERY allows.
    early: int
    below_threshold: int
    # Pages over the budget or the limit.
    left_out: int
    demanded: Demanded

    def __len__(self) -> int:
        return len(self.page_ids)

    @property
    def is_overdue(self) -> BoolArray:
        """Which pages come first because their longest interval has passed."""
        return is_overdue(self.score)

    def without(self, page_ids: Ids) -> "Plan":
        """Return the plan of the other pages."""
        is_left = np.isin(self.page_ids, page_ids, invert=True)
        columns: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        for name, column in columns.items():
            columns[name] = column[is_left] if isinstance(column, np.ndarray) else column
        return Plan(**columns)

    def predictions(self, places: slice, label: Label, run: int) -> list[Prediction]:
        """Return the predictions for some pages; `run` is the second in which the run began."""
        columns = (self.p, self.rate_per_day, self.days_since_visit, self.churn)
        values = (column[places].tolist() for column in columns)
        return list(map(Prediction, repeat(label.number), repeat(run), *values))


def make_plan(
    state: State, options: RankingOptions, now: float, *, quota: Quota | None = None
) -> Plan:
    """Return the pages that `scrapy crawl scholar -a seeds=state` would visit, in its order.

    `now` is in seconds since 1970 UTC. `quota` defaults to the options' budget. Takes memory in
    proportion to the known pages. Raises StateError, and ConfigError if a policy does not return one
    number a page.
    """
    return plan_of(*read_rows(state, now=now), state, options, now, quota=quota)


def read_rows(
    state: State, progress: Progress | None = None, now: float | None = None
) -> tuple[Ids, Rows]:
    """Return the ids and the ranking rows of all known pages, in the store's order.

    With `now`, in seconds since 1970 UTC, later visits are set aside, and logged.
    """
    total = state.store.count() if progress is not None else 0
    # buffers that grow in place: joining parts at the end would take twice the memory
    ids, rows = bytearray(), bytearray()
    for some_ids, some_rows in state.store.all_rows():
        ids += some_ids.tobytes()
        rows += some_rows.tobytes()
        if progress is not None:
            progress.counts("pages", total)(len(ids) // 8)
    page_ids, kept_rows = np.frombuffer(ids, np.int64), np.frombuffer(rows, ROW)
    if now is None:
        return page_ids, kept_rows
    kept_rows, future = without_future(state, page_ids, kept_rows, now)
    if future is not None:
        logger.warning("%s", future)
    return page_ids, kept_rows


def plan_of(
    page_ids: Ids,
    rows: Rows,
    state: State,
    options: RankingOptions,
    now: float,
    limit: int | None = None,
    *,
    quota: Quota | None = None,
) -> Plan:
    """Return the plan for pages whose ranking rows were read, see `make_plan`; at most `limit` pages."""
    quota = (quota or Quota(options.budget)).within(limit)
    options = with_hubs(options, state, now)
    options = options.seeded(secrets.randbits(63))  # the same in every block
    return plan_from(finalists_of(page_ids, rows, state, options, now, quota), quota)


def plan_from(finalists: Finalists, quota: Quota) -> Plan:
    """Return the plan, chosen from finalists, see `make_plan`."""
    picks = choose(finalists.candidates, finalists.score, quota)
    winners = picks.places[finalists.score[picks.places] >= quota.least]
    best = taken(finalists.candidates, winners)
    score = finalists.score[winners]
    return Plan(
        **{field.name: getattr(best, field.name) for field in fields(Candidates)},
        score=score,
        visit_twice=picks.visit_twice[: len(winners)],
        known=finalists.known,
        waiting=finalists.waiting,
        early=finalists.early,
        below_threshold=finalists.below_threshold,
        left_out=finalists.eligible - len(winners),
        demanded=finalists.demanded.without(int(is_overdue(score).sum())),
    )


FARTHEST_DAYS: Final = 36_525.0


class BlockReason(Enum):
    """The reason why a page is not visited now."""

    NOTHING = "nothing"
    # It answered 404 or 410, and its waiting time is not over.
    GONE = "gone"
    # It was visited more recently than HACS_EVERY allows.
    EARLY = "early"
    THRESHOLD = "threshold"
    BUDGET = "budget"


@dataclass(frozen=True, slots=True)
class Forecast:
    """When a page will be visited, and the reason why it is not visited now.

    `rank` (from 1) is its place among the `ranked` pages, ignoring the budget; None if it waits or is
    below the threshold. `at` is when it would be visited, in seconds since 1970 UTC, if all other pages
    stay as they are; None if unknown. `p_alone` is p without siblings. `p_halved` is p times
    `patience`, by which policies rank that rank by p. `p_to_pass` is the threshold, or `p_halved` of
    the last page within the budget; None if the policy does not rank by p.
    """

    reason: BlockReason
    p: float
    p_halved: float
    p_alone: float
    rate_per_day: float
    rank: int | None
    ranked: int
    p_to_pass: float | None
    at: float | None


def forecast_of(
    page_id: int,
    siblings: tuple[Ids, Rows],
    state: State,
    options: RankingOptions,
    now: float,
    whole: Plan,
) -> Forecast:
    """Return the forecast for a page; `siblings` are the ids and rows of all pages of its site.

    `whole` is the plan without a budget, of all shards if there are several. `now` is in seconds since
    1970 UTC. Raises as `make_plan`.
    """
    options = with_hubs(options, state, now)
    policy = options.policy
    places = np.flatnonzero(whole.page_ids == page_id)
    most = options.budget or len(whole) + 1
    own = int(np.flatnonzero(siblings[0] == page_id)[0])
    row = siblings[1][own]
    urls = urls_of(siblings[0], state) if options.demands else [""] * len(siblings[0])
    demands, _ = demands_of(urls, options.weights, options.every)
    signals = read_signals(state.store, siblings[1]["site"], policy)

    def at_age(days: float, options: RankingOptions = options) -> Candidates:
        return candidates_from(
            *siblings, now + days * DAY, state.estimation, options, signals=signals, demands=demands
        )

    present = at_age(0.0)
    reason, at, p_to_pass = BlockReason.NOTHING, now, None
    if row["not_before"] > now:
        reason, at = BlockReason.GONE, float(row["not_before"])
    elif present.is_early[own]:
        reason = BlockReason.EARLY
        at = float(row["last_visit"]) + float(present.least_days[own]) * DAY
    elif not len(places) or places[0] >= most:
        reason = BlockReason.BUDGET if len(places) else BlockReason.THRESHOLD
        # any score is enough if the budget is not used up
        least = float(whole.score[most - 1]) if most <= len(whole) else -math.inf
        if reason is BlockReason.THRESHOLD:
            p_to_pass = options.threshold
        elif options.ranks_by_p:
            p_to_pass = float((whole.p * patience(whole.failures, whole.visits))[most - 1])

        def is_due(days: float) -> bool:
            siblings_then = at_age(days)
            score = scored(policy, siblings_then)
            is_high = siblings_then.p[own] >= options.threshold or is_overdue(score)[own]
            return bool(is_high and score[own] > least)

        at = now + _first_days(is_due) * DAY if policy.grows_with_time else math.inf
    return Forecast(
        reason=reason,
        p=float(present.p[own]),
        p_halved=float((present.p * patience(present.failures, present.visits))[own]),
        p_alone=float(at_age(0.0, replace(options, siblings=False)).p[own]),
        rate_per_day=float(present.rate_per_day[own]),
        rank=int(places[0]) + 1 if len(places) else None,
        ranked=len(whole),
        p_to_pass=p_to_pass,
        at=at if math.isfinite(at) else None,
    )


def _first_days(is_due: Callable[[float], bool]) -> float:
    """Return in how many days a page will be due, by bisection; inf if that is over `FARTHEST_DAYS`."""
    high = 1 / 24
    while not is_due(high):
        if high >= FARTHEST_DAYS:
            return math.inf
        high = min(2 * high, FARTHEST_DAYS)
    low = 0.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if is_due(middle) else (middle, high)
    return high

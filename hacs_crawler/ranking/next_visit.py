"""When one page will be visited next: its place in today's plan, and what keeps it out of it."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

import numpy as np

from hacs_crawler.ranking.candidates import candidates_from
from hacs_crawler.ranking.choice import scored
from hacs_crawler.ranking.demands import demands_of, is_overdue
from hacs_crawler.ranking.finalists import urls_of
from hacs_crawler.ranking.instant import with_hubs
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.plan import Plan, plan_of
from hacs_crawler.ranking.policies import Candidates
from hacs_crawler.ranking.signals import read_signals
from hacs_crawler.state import Ids, Rows, State
from hacs_crawler.utils.times import DAY

FARTHEST_DAYS: Final = 36_525.0


class BlockReason(Enum):
    """What keeps a page from being visited now."""

    NOTHING = "nothing"
    # It answered 404 or 410, and its waiting time is not over.
    GONE = "gone"
    # It was visited a shorter time ago than HACS_EVERY allows.
    EARLY = "early"
    THRESHOLD = "threshold"
    BUDGET = "budget"


@dataclass(frozen=True, slots=True)
class Forecast:
    """When a page will be visited, and what keeps it from being visited now.

    `rank` (from 1) is its place among the `ranked` pages, whatever the budget; None if it waits or is
    below the threshold. `at` is when it would be visited, in seconds since 1970 UTC, if all other pages
    stay as they are; None if that cannot be said. `p_to_pass` is the threshold, or the p of the last
    page within the budget; None if the policy does not rank by p.
    """

    reason: BlockReason
    p: float
    rate_per_day: float
    rank: int | None
    ranked: int
    p_to_pass: float | None
    at: float | None


def forecast_of(
    page_id: int, page_ids: Ids, rows: Rows, state: State, options: RankingOptions, now: float
) -> Forecast:
    """Return the forecast for a page that is among `page_ids`; these are all pages known.

    `now` is in seconds since 1970 UTC. Raises as `make_plan`.
    """
    options = with_hubs(options, state, now).seeded(secrets.randbits(63))
    policy = options.policy
    (index,) = np.flatnonzero(page_ids == page_id)
    row = rows[index]
    plan = plan_of(page_ids, rows, state, options, now)
    whole = plan_of(page_ids, rows, state, replace(options, budget=None), now)
    places = np.flatnonzero(whole.page_ids == page_id)

    is_sibling = rows["site"] == row["site"]
    siblings = page_ids[is_sibling], rows[is_sibling]
    urls = urls_of(siblings[0], state) if options.demands else [""] * len(siblings[0])
    demands, _ = demands_of(urls, options.weights, options.every)
    signals = read_signals(state.store, siblings[1]["site"], policy)

    def at_age(days: float) -> Candidates:
        return candidates_from(
            *siblings,
            now + days * DAY,
            state.estimation,
            options,
            signals=signals,
            demands=demands,
        )

    own = int(np.flatnonzero(siblings[0] == page_id)[0])
    present = at_age(0.0)
    reason, at, p_to_pass = BlockReason.NOTHING, now, None
    if row["not_before"] > now:
        reason, at = BlockReason.GONE, float(row["not_before"])
    elif present.is_early[own]:
        reason = BlockReason.EARLY
        at = float(row["last_visit"]) + float(present.least_days[own]) * DAY
    elif page_id not in plan.page_ids:
        reason = BlockReason.BUDGET if len(places) else BlockReason.THRESHOLD
        least, last_p = _last_within(plan, options)
        if reason is BlockReason.THRESHOLD:
            p_to_pass = options.threshold
        elif options.ranks_by_p:
            p_to_pass = last_p

        def is_due(days: float) -> bool:
            siblings_then = at_age(days)
            score = scored(policy, siblings_then)
            is_high = siblings_then.p[own] >= options.threshold or is_overdue(score)[own]
            return bool(is_high and score[own] > least)

        at = now + _first_days(is_due) * DAY if policy.grows_with_time else math.inf
    return Forecast(
        reason=reason,
        p=float(present.p[own]),
        rate_per_day=float(present.rate_per_day[own]),
        rank=int(places[0]) + 1 if len(places) else None,
        ranked=len(whole),
        p_to_pass=p_to_pass,
        at=at if math.isfinite(at) else None,
    )


def _last_within(plan: Plan, options: RankingOptions) -> tuple[float, float | None]:
    """Return score and p of the last page that the budget takes for its score.

    If the budget is not used up, any score is enough: minus infinity.
    """
    if options.budget is None or len(plan) < options.budget:
        return -math.inf, None
    score = scored(options.policy, plan)
    best = np.argsort(-score, kind="stable")[: options.budget]
    if not len(best):
        return math.inf, None
    return float(score[best[-1]]), float(plan.p[best[-1]])


def _first_days(is_due: Callable[[float], bool]) -> float:
    """Return in how many days a page will be due, that stays due once it is; inf if it never is."""
    high = 1 / 24
    while not is_due(high):
        high *= 2
        if high > FARTHEST_DAYS:
            return math.inf
    low = 0.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (low, middle) if is_due(middle) else (middle, high)
    return high

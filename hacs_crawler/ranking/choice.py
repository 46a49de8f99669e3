"""Which pages are visited, and in which order: one rule for crawls and plans, over arrays of pages.

A run chooses the best pages within its quota from those that neither wait nor are below the threshold.
Of two pages with the same score, the earlier one in the arrays is better.
"""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol, Self

import numpy as np

from hacs_crawler.exceptions import ConfigError
from hacs_crawler.ranking.candidates import Places, taken
from hacs_crawler.ranking.controls import control_worth, controlled
from hacs_crawler.ranking.demands import OVERDUE, is_overdue
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.policies import Candidates, Floats, Policy
from hacs_crawler.state import Rows
from hacs_crawler.utils.arrays import BoolArray


class Grant(Protocol):
    """Grants visits to ranked pages, if other crawls share the budget."""

    async def __call__(self, score: Floats, is_new: BoolArray, *, is_last: bool) -> BoolArray:
        """Return which pages may be visited, given their scores and whether they were never seen.

        The others wait for another call, once most of these are sent. `is_last` says that nothing else
        is left to do: pages that get no grant then are dropped. Raises StateError.
        """


@dataclass(frozen=True, slots=True)
class Quota:
    """How many visits a run may make: the `budget` (None: no limit), with up to `controls` controls.

    `unseen` visits of the budget are for pages never seen (None: all pages compete). The crawls of
    `shards` shards share the budget, and `grant` gives each its share. Plans leave out pages with a
    score below `least`.
    """

    budget: int | None = None
    controls: int = 0
    unseen: int | None = None
    shards: int = 1
    grant: Grant | None = None
    least: float = -math.inf

    def within(self, limit: int | None) -> Self:
        """Return the quota for at most `limit` pages (None or 0: no limit)."""
        if not limit:
            return self
        budget = limit if self.budget is None else min(self.budget, limit)
        return replace(self, budget=budget)

    def sharing(self, discover: float | None) -> Self:
        """Return the quota with this share of the budget for pages never seen, unless `unseen` is set.

        If the share is not 0, at least one of two or more visits is for such pages; otherwise a small
        budget would never discover any.
        """
        if self.budget is None or self.unseen is not None or discover is None:
            return self
        share = math.floor(discover * self.budget + 1e-9)
        return replace(self, unseen=max(share, 1) if discover and self.budget > 1 else share)

    def without(self, is_unseen: BoolArray, controls: int) -> Self:
        """Return the rest of the quota after visits to some pages, and control visits."""
        if self.budget is None:
            return self
        budget, unseen = self.budget - len(is_unseen) - controls, self.unseen
        if unseen is not None:
            unseen = min(max(unseen - int(np.count_nonzero(is_unseen)), 0), budget)
        return replace(self, budget=budget, controls=self.controls - controls, unseen=unseen)


class Picks(NamedTuple):
    """The places of pages to be visited, best first, and which get a control visit."""

    places: Places
    visit_twice: BoolArray


def scored(policy: Policy, candidates: Candidates) -> Floats:
    """Return the policy's scores; NaN becomes the lowest, and overdue pages precede all others.

    Infinite scores, such as from `last_obs` for pages never seen, become `OVERDUE` / 2.

    Raises ConfigError if the policy, which may be the user's own, does not return one number a page.
    """
    try:
        score = np.asarray(policy(candidates))
    except Exception as error:
        msg = f"policy {policy.name!r} failed: {type(error).__name__}: {error}"
        raise ConfigError(msg) from error
    if score.shape != candidates.p.shape or not np.issubdtype(score.dtype, np.number):
        raise ConfigError(
            f"policy {policy.name!r} returned {score.dtype} of shape {score.shape} for "
            f"{len(candidates.p)} pages: must be one number a page"
        )
    score = np.nan_to_num(score.astype(np.float64), nan=-np.inf, posinf=np.inf, neginf=-np.inf)
    score = np.minimum(score, OVERDUE / 2)
    if np.isinf(candidates.most_days).all():
        return score
    passed = candidates.intervals_passed
    # by the number of intervals passed, scaled so that the scores still differ as floats
    return np.where(passed < 1.0, score, OVERDUE * (1.0 + np.minimum(passed, 1e6) * 1e-6))


def left_out(
    candidates: Candidates, score: Floats, rows: Rows, now: float, options: RankingOptions
) -> tuple[BoolArray, BoolArray, BoolArray]:
    """Return which pages wait as they are gone, were visited too recently, or have too low a p."""
    is_waiting = rows["not_before"] > now
    is_early = candidates.is_early & ~is_waiting
    is_low = (candidates.p < options.least_p) & ~(is_waiting | is_early | is_overdue(score))
    return is_waiting, is_early, is_low


def foremost(key: Floats, count: int) -> Places:
    """Return the places of the `count` lowest keys, in no order; ties go to the lowest places."""
    if count <= 0 or count >= len(key):
        return np.arange(max(0, min(count, len(key))))
    last = np.partition(key, count - 1)[count - 1]
    sure = np.flatnonzero(key < last)
    tied = np.flatnonzero(key == last)
    return np.concatenate([sure, tied[: count - len(sure)]])


def contenders(score: Floats, quota: Quota, is_unseen: BoolArray | None = None) -> Places:
    """Return the places, ascending, of the pages that may still be chosen when others are added.

    `is_unseen` is needed if pages never seen have a share: then the best of each kind are kept, up to
    the whole budget.
    """
    if quota.budget is None:
        return np.arange(len(score))
    kinds = [np.arange(len(score))]
    if quota.unseen is not None and is_unseen is not None:
        kinds = [np.flatnonzero(~is_unseen), np.flatnonzero(is_unseen)]
    best = [kind[foremost(-score[kind], quota.budget)] for kind in kinds]
    return np.sort(np.concatenate(best))


def choose(candidates: Candidates, score: Floats, quota: Quota, *, is_last: bool = True) -> Picks:
    """Choose visits among some pages.

    If pages never seen have a share, and these pages are the last, an unused part of the budget of one
    kind of page goes to the other: to visited pages first.
    """
    best = np.sort(_best(score, candidates.is_unseen, quota, is_last=is_last))
    best = best[np.argsort(-score[best], kind="stable")]
    of_best = taken(candidates, best)
    worth = control_worth(of_best.p, of_best.churning, of_best.visits, of_best.updates)
    visit_twice, kept = controlled(worth, quota.budget, quota.controls)
    return Picks(best[:kept], visit_twice)


def _best(score: Floats, is_unseen: BoolArray, quota: Quota, *, is_last: bool) -> Places:
    """Return the places of the best pages, in no order."""
    if quota.budget is None or quota.unseen is None:
        return foremost(-score, len(score) if quota.budget is None else quota.budget)
    unseen, seen = np.flatnonzero(is_unseen), np.flatnonzero(~is_unseen)
    of_unseen = min(len(unseen), quota.unseen)
    # overdue pages take precedence over the share of pages never seen
    overdue = int(np.count_nonzero(is_overdue(score[seen])))
    of_seen = min(len(seen), max(quota.budget - quota.unseen, min(overdue, quota.budget)))
    of_unseen = min(of_unseen, quota.budget - of_seen)
    if is_last:
        of_seen = min(len(seen), quota.budget - of_unseen)
        of_unseen = min(len(unseen), quota.budget - of_seen)
    first, newest = foremost(-score[seen], of_seen), foremost(-score[unseen], of_unseen)
    return np.concatenate([unseen[newest], seen[first]])

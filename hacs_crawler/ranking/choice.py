"""Who is visited, and in which order: one rule for crawls and plans, over arrays of pages.

Pages wait, are below the threshold, or may be visited; of these each arm takes the best within its
quota. Of two pages with the same score the one that comes first in the arrays is better.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.exceptions import ConfigError
from hacs_crawler.ranking.candidates import Places, taken
from hacs_crawler.ranking.controls import control_worth, controlled
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.policies import Candidates, Floats, Policy
from hacs_crawler.utils.arrays import BoolArray

Arms = NDArray[np.integer]

NO_ARM: Final = -1
"""In the place of an arm's number: the page is not to be visited."""


class ArmScores(NamedTuple):
    """What decides about pages: their arms, by number, their scores, and which p is too low."""

    arms: NDArray[np.int64]
    score: Floats
    is_low: BoolArray


class Quota(NamedTuple):
    """What an arm may visit: `budget` pages (None: all), some of them twice by `controls` visits.

    `unseen` of the budget are for pages never seen, the others for the rest; None: all compete.
    """

    budget: int | None
    controls: int = 0
    unseen: int | None = None

    def within(self, limit: int | None) -> Quota:
        """Return the quota of one who looks at the best `limit` pages only (None or 0: at all)."""
        if not limit:
            return self
        return self._replace(budget=limit if self.budget is None else min(self.budget, limit))

    def without(self, visits: NDArray[np.integer], controls: int) -> Quota:
        """Return what is left of the quota after pages, each with its visits, and control visits."""
        if self.budget is None:
            return self
        budget, unseen = self.budget - len(visits) - controls, self.unseen
        if unseen is not None:
            unseen = min(max(unseen - int(np.count_nonzero(visits == 0)), 0), budget)
        return Quota(budget, self.controls - controls, unseen)


class ArmChoice(NamedTuple):
    """The places of an arm's pages to be visited, best first, and which get a control visit."""

    places: Places
    visit_twice: BoolArray


def quotas_of(options: RankingOptions, discover: float | None = None) -> list[Quota]:
    """Return the quota of each arm; `discover` is the share of each budget for pages never seen."""
    if options.quotas is not None:
        shares = [unseen for _, unseen in options.quotas]
    else:
        shares = [_for_unseen(budget, discover) for budget in options.budgets()]
    return [Quota(*row) for row in zip(options.budgets(), options.controls(), shares, strict=True)]


def _for_unseen(budget: int | None, discover: float | None) -> int | None:
    """Return the visits for pages never seen; one at least of two or more, unless the user wants none.

    What no page leads to would never be found.
    """
    if budget is None or discover is None:
        return None
    share = math.floor(discover * budget + 1e-9)
    return max(share, 1) if discover and budget > 1 else share


def scored(policy: Policy, candidates: Candidates) -> Floats:
    """Return the policy's scores; one that is no number is the lowest.

    Raises ConfigError where the policy, which may be the user's own, does not return one number a page.
    """
    try:
        score = np.asarray(policy(candidates))
    except Exception as error:
        msg = f"policy {policy.name!r} failed: {type(error).__name__}: {error}"
        raise ConfigError(msg) from error
    if score.shape != candidates.p.shape or not np.issubdtype(score.dtype, np.number):
        msg = (
            f"policy {policy.name!r} returned {score.dtype} of shape {score.shape} for "
            f"{len(candidates.p)} pages: allowed is one number a page"
        )
        raise ConfigError(msg)
    return np.nan_to_num(score.astype(np.float64), nan=-np.inf, posinf=np.inf, neginf=-np.inf)


def arm_scores(
    candidates: Candidates, sites: NDArray[np.integer] | None, options: RankingOptions
) -> ArmScores:
    """Return arms and scores of pages of those sites, and which have a p below their arm's threshold.

    No sites are needed where no experiment is on. Raises as `scored`.
    """
    arms, experiment = options.experiment.arms, options.experiment
    if sites is None or not experiment.is_on:
        score = scored(arms[0].policy, candidates)
        is_low: BoolArray = candidates.p < options.thresholds()[0]
        return ArmScores(np.zeros(len(score), np.int64), score, is_low)
    arm_of, score = experiment.assign(sites), np.empty(len(sites))
    for number, arm in enumerate(arms):
        places = np.flatnonzero(arm_of == number)
        score[places] = scored(arm.policy, taken(candidates, places))
    is_low = candidates.p < np.array(options.thresholds())[arm_of]
    return ArmScores(arm_of, score, is_low)


def foremost(key: Floats, count: int) -> Places:
    """Return the places of the `count` lowest keys, in no order; ties go to the lowest places."""
    if count <= 0 or count >= len(key):
        return np.arange(max(0, min(count, len(key))))
    last = np.partition(key, count - 1)[count - 1]
    sure = np.flatnonzero(key < last)
    tied = np.flatnonzero(key == last)
    return np.concatenate([sure, tied[: count - len(sure)]])


def contenders(
    arms: Arms, score: Floats, quotas: Sequence[Quota], visits: NDArray[np.integer] | None = None
) -> Places:
    """Return the places of pages that may be chosen, whatever is added to them, ascending.

    `visits` are needed where pages never seen have a share: as many of each kind as the budget may be.
    """
    found = []
    for number, quota in enumerate(quotas):
        places = np.flatnonzero(arms == number)
        kinds = [places]
        if quota.unseen is not None and visits is not None:
            is_seen = visits[places] > 0
            kinds = [places[is_seen], places[~is_seen]]
        for kind in kinds:
            is_cut = quota.budget is not None and quota.budget < len(kind)
            found.append(kind[foremost(-score[kind], quota.budget or 0)] if is_cut else kind)
    return np.sort(np.concatenate(found))


def choose(
    candidates: Candidates,
    arms: Arms,
    score: Floats,
    quotas: Sequence[Quota],
    limit: int | None = None,
    *,
    is_last: bool = True,
) -> list[ArmChoice]:
    """Return what each arm visits of some pages, the best `limit` of it at most.

    Where pages never seen have a share, what one kind leaves unused is given to the other if these
    pages are the last: to visited pages first.
    """
    choices = []
    for number, quota in enumerate(quotas):
        places = np.flatnonzero(arms == number)
        mine = score[places]
        best = np.sort(_best(mine, candidates.visits[places], quota, limit, is_last=is_last))
        best = places[best[np.argsort(-mine[best], kind="stable")]]
        of_best = taken(candidates, best)
        worth = control_worth(of_best.p, of_best.churning, of_best.visits, of_best.updates)
        visit_twice, kept = controlled(worth, quota.budget, quota.controls)
        choices.append(ArmChoice(best[:kept], visit_twice))
    return choices


def _best(
    score: Floats,
    visits: NDArray[np.integer],
    quota: Quota,
    limit: int | None,
    *,
    is_last: bool,
) -> Places:
    """Return the places of an arm's best pages, in no order."""
    if quota.budget is None or quota.unseen is None:
        return foremost(-score, min(n for n in (quota.budget, limit, len(score)) if n is not None))
    unseen, seen = np.flatnonzero(visits == 0), np.flatnonzero(visits > 0)
    of_unseen = min(len(unseen), quota.unseen)
    of_seen = min(len(seen), quota.budget - quota.unseen)
    if is_last:
        of_seen = min(len(seen), quota.budget - of_unseen)
        of_unseen = min(len(unseen), quota.budget - of_seen)
    first, newest = foremost(-score[seen], of_seen), foremost(-score[unseen], of_unseen)
    return np.concatenate([unseen[newest], seen[first]])

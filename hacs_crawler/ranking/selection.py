"""From candidates to the places of those to be visited, best first; arrays in, arrays out."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.exceptions import ConfigError
from hacs_crawler.ranking.policies import Candidates, Floats, Policy

Places = NDArray[np.int64]


def scored(policy: Policy, candidates: Candidates) -> Floats:
    """Return the policy's scores; one that is no number is the lowest.

    Raises ConfigError where the policy does not return one number a page.
    """
    score = np.asarray(policy(candidates))
    if score.shape != candidates.p.shape or not np.issubdtype(score.dtype, np.number):
        msg = (
            f"HACS_POLICY: {policy} returned {score.dtype} of shape {score.shape} for "
            f"{len(candidates.p)} pages: allowed is one number a page"
        )
        raise ConfigError(msg)
    return np.nan_to_num(score.astype(np.float64), nan=-np.inf, posinf=np.inf, neginf=-np.inf)


def explored(budget: int | None, explore: float) -> int:
    """Return how many visits of a budget go to the pages with the fewest visits."""
    return math.floor(explore * budget + 1e-9) if budget else 0


def chosen_places(
    score: Floats, visits: Places, budget: int | None, explore: float, limit: int | None = None
) -> Places:
    """Return the places that `Ranking` would choose, best first, `limit` of them at most.

    Ties keep their order. Takes time in proportion to the number of scores where few are chosen.
    """
    number = len(score)
    if budget is None or number <= budget:
        return _first((-score,), number if limit is None else min(limit, number))
    share = explored(budget, explore)
    chosen = _first((-score,), budget - share)
    if share:
        is_left = np.ones(number, np.bool_)
        is_left[chosen] = False
        others = np.flatnonzero(is_left)
        least_known = _first((visits[others], -score[others]), share)
        chosen = np.sort(np.concatenate([chosen, others[least_known]]))
        chosen = chosen[np.argsort(-score[chosen], kind="stable")]
    return chosen[:limit]


def _first(keys: Sequence[NDArray[np.generic]], count: int) -> Places:
    """Return the first `count` places in ascending order of the keys, the first of them foremost."""
    places = _foremost(keys, count)
    return places[np.lexsort((places, *(key[places] for key in reversed(keys))))]


def _foremost(keys: Sequence[NDArray[np.generic]], count: int) -> Places:
    """Return the same places in no particular order; ties of all keys go to the lowest places."""
    number = len(keys[0])
    if count <= 0 or count >= number:
        return np.arange(max(0, min(count, number)))
    last = np.partition(keys[0], count - 1)[count - 1]
    sure = np.flatnonzero(keys[0] < last)
    tied = np.flatnonzero(keys[0] == last)
    left = count - len(sure)
    rest = [key[tied] for key in keys[1:]]
    tied = tied[_foremost(rest, left)] if rest else tied[:left]
    return np.concatenate([sure, tied])

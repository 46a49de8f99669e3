"""Control visits: pages asked once more at once, where that tells time's updates from churn best.

What differs between two fetches of a page some seconds apart was brought by the request, not by time.
Controls are taken out of a run's budget, at most a share of it; what a run leaves of its share the next
one has. Without a budget there are none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.exceptions import StateError
from hacs_crawler.ranking.policies import Floats
from hacs_crawler.state import State

NOTE: Final = "controls"
DOUBTFUL: Final = (0.05, 0.999)
"""From which probability that a page churns to which one it may be asked twice.

Updates alone bring it to 0.97, or 0.997 where many pages churn, however many they are and though none
of their links was seen again; a control visit that fails brings it to 0.9999. Below 0.05 there is little
to clear.
"""


@dataclass(slots=True)
class Allowance:
    """How many control visits a run may make: what was `left` before it, and a share of its budget."""

    left: float = 0.0
    of_budget: float = 0.0
    made: int = 0

    @property
    def most(self) -> int:
        """How many more may be made."""
        return int(self.left + self.of_budget + 1e-9) - self.made

    def rest(self) -> float:
        """Return what the next run has beside its own share, at most fifty times as much as that."""
        return min(self.left + self.of_budget - self.made, MOST_KEPT * self.of_budget)


MOST_KEPT: Final = 50


def read_allowance(state: State, budget: int | None, share: float) -> Allowance:
    """Return what a run with that budget may make; raises StateError where the note is damaged."""
    if not budget or not share:
        return Allowance()
    left = state.store.read_meta(NOTE) or 0.0
    if not isinstance(left, int | float) or not 0.0 <= left < np.inf:
        msg = f"the note {NOTE!r} in the state is damaged, remove it: {left!r}"
        raise StateError(msg)
    return Allowance(float(left), share * budget)


def keep_allowance(state: State, allowance: Allowance) -> None:
    """Keep for the next run what this one left."""
    if allowance.of_budget:
        state.store.write_meta(NOTE, round(allowance.rest(), 6))


def controlled(
    p: Floats, churning: Floats, budget: int | None, most: int
) -> tuple[NDArray[np.bool_], int]:
    """Return which of the pages chosen, best first, are asked twice, and how many are visited at all.

    `p` and `churning` (the probability that a page churns) have one element a page. Controls go where
    that is hardest to tell and p is high; in return as many of the last pages are left out as the
    budget has no place for.
    """
    number = len(p)
    doubt = 4.0 * churning * (1.0 - churning)
    is_doubtful = (churning >= DOUBTFUL[0]) & (churning <= DOUBTFUL[1])
    worth = np.where(is_doubtful, doubt * p, 0.0)
    asked_twice = np.zeros(number, np.bool_)
    if budget is None or most <= 0:
        return asked_twice, number
    for controls in range(min(most, int(np.count_nonzero(worth))), 0, -1):
        kept = min(number, budget - controls)
        if np.count_nonzero(worth[:kept]) >= controls:
            best = np.argsort(-worth[:kept], kind="stable")[:controls]
            asked_twice[best] = True
            return asked_twice[:kept], kept
    return asked_twice, number

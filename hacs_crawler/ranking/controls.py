"""Control visits: immediate second requests for pages, to distinguish updates from churn.

Differences between two fetches of a page within seconds come from the request, not from time.
Control visits may take a share of a run's budget; a run leaves the unused part to the next run. A crawl
without a budget makes none.
"""

import math
from dataclasses import dataclass
from typing import Annotated, Final

import numpy as np
from msgspec import Meta

from hacs_crawler.ranking.policies import Counts, Floats
from hacs_crawler.state import State, change_note
from hacs_crawler.utils.arrays import BoolArray

NOTE: Final = "controls"
_Left = Annotated[float, Meta(ge=0, lt=2**53)]
# A page may get a control visit if its probability of churn is between these.
#
# Without control visits the probability stays below 0.9997 for daily visits (0.99993 every six hours),
# even if many pages churn; one that differs raises it above 0.99999 if one page in twenty churns. Below
# 0.1 there is little doubt, unless every visit showed a new mark.
DOUBTFUL: Final = (0.1, 0.99999)
LEAST_DOUBT: Final = 0.02
# Limit on the control visits of a run, in multiples of its own share.
MOST_AT_ONCE: Final = 4
# Limit on the unused control visits kept for later runs, in multiples of a run's share.
MOST_KEPT: Final = 50


@dataclass(slots=True)
class Allowance:
    """How many control visits a run may make: `left` by earlier runs, and a share of its budget."""

    left: float = 0.0
    of_budget: float = 0.0
    made: int = 0

    @property
    def most(self) -> int:
        """How many more this run may make: not all that are left, as later pages may need them more."""
        at_once = math.ceil(MOST_AT_ONCE * self.of_budget)
        return min(int(self.left + self.of_budget + 1e-9), at_once) - self.made

    def rest(self, others: float = 0.0, *, has_visited: bool = True) -> float:
        """Return the number for the next run in addition to its own share, at most `MOST_KEPT` shares.

        `others` is the number that this run did not take; a run without visits adds no share of its own.
        The result is at least 0: concurrent control visits may have exceeded the allowance.
        """
        own = self.of_budget if has_visited else 0.0
        rest = min(others + self.left + own - self.made, MOST_KEPT * self.of_budget)
        return max(round(rest, 6), 0.0)


def take_allowance(state: State, budget: int | None, share: float) -> Allowance:
    """Return the allowance of a run with that budget; raises StateError if the note is damaged.

    The run takes as many of the visits left by earlier runs as it may make, so that concurrent runs do
    not use the same ones; `keep_allowance` gives back the rest. The allowance is empty if the estimator
    cannot distinguish churn from updates.
    """
    if not budget or not share or not state.estimation.has_posterior:
        return Allowance()
    allowance = Allowance(0.0, share * budget)

    def less(left: float | None) -> float | None:
        most = math.ceil(MOST_AT_ONCE * allowance.of_budget) - allowance.of_budget
        allowance.left = min(left or 0.0, most)
        return left if left is None else round(left - allowance.left, 6)

    change_note(state.store, NOTE, _Left, less)
    return allowance


def keep_allowance(state: State, allowance: Allowance, *, has_visited: bool = True) -> None:
    """Keep unused control visits for later runs; the run's own share only if it `has_visited`."""
    if allowance.of_budget:
        change_note(
            state.store,
            NOTE,
            _Left,
            lambda others: allowance.rest(others or 0.0, has_visited=has_visited),
        )


def control_worth(p: Floats, churning: Floats, visits: Counts, updates: Counts) -> Floats:
    """Return the worth of a control visit for each page, 0 if it would decide nothing.

    It is p times the uncertainty whether the page churns. `churning` is the probability of churn, 0
    without signs of it. If every visit showed a new mark, low probabilities count as doubtful, too.
    """
    low, high = DOUBTFUL
    has_always_news = (churning > 0.0) & (updates + 1 >= visits)
    is_doubtful = ((churning >= low) | has_always_news) & (churning <= high)
    return np.where(is_doubtful, (4.0 * churning * (1.0 - churning) + LEAST_DOUBT) * p, 0.0)


def controlled(worth: Floats, budget: int | None, most: int) -> tuple[BoolArray, int]:
    """Return which of the chosen pages, best first, get a control visit, and how many pages are visited.

    `worth` is the worth of a control visit (`control_worth`), one element a page. The pages with the
    highest worth get one; the last pages, which then exceed the budget, are left out.
    """
    number = len(worth)
    visit_twice = np.zeros(number, np.bool_)
    if budget is None or most <= 0:
        return visit_twice, number
    for controls in range(min(most, int(np.count_nonzero(worth))), 0, -1):
        kept = min(number, budget - controls)
        if np.count_nonzero(worth[:kept]) >= controls:
            best = np.argsort(-worth[:kept], kind="stable")[:controls]
            visit_twice[best] = True
            return visit_twice[:kept], kept
    return visit_twice, number

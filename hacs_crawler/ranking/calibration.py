"""How well predictions agree with outcomes.

Only visits that showed the page count, and not a page's first: its p is 1 by convention, not a
prediction. The chance of new links from either source is compared with whether the visit found any: p is
about the links that time brings, and on a churning page a single visit cannot distinguish them from the
links that the request brings.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.state import (
    SEEN,
    UPDATED,
    Outcomes,
    State,
    chance_of_new_links,
    churn_of,
    sorted_outcomes,
)
from hacs_crawler.statistics.scoring import Expectation, clustered_z, summary
from hacs_crawler.utils.arrays import BoolArray, FloatArray

DRIFT_VISITS: Final = 1_000
DRIFT_RUNS: Final = 3
DRIFT_RATIO: Final = 1.25
# Over a year of daily checks, there are false alarms for less than 5 % of states with correct
# predictions (benchmarks/calibration.py).
DRIFT_Z: Final = 3.5


@dataclass(frozen=True, slots=True)
class Group:
    """The predicted visits of one policy and model, by time; `model` is `Label.model`."""

    policy: str
    model: str
    outcomes: Outcomes

    @property
    def p(self) -> FloatArray:
        """The probabilities of new links from time or the request (see `chance_of_new_links`)."""
        p = self.outcomes["p"].astype(np.float64)
        return np.asarray(chance_of_new_links(p, churn_of(self.outcomes)))

    @property
    def found(self) -> BoolArray:
        """Whether each visit found an update."""
        return np.asarray((self.outcomes["flags"] & UPDATED) > 0)

    @property
    def site(self) -> NDArray[np.uint32]:
        """The site of each visit's page."""
        return np.asarray(self.outcomes["site"])

    def score(self) -> Expectation:
        """Return the predicted and the actual number of updates."""
        return summary(self.p, self.found)


@dataclass(frozen=True, slots=True)
class Drift:
    """A lasting difference between predictions and outcomes."""

    visits: int
    runs: int
    expected_updates: float
    found_updates: int

    def __str__(self) -> str:
        """Return a sentence for the log."""
        excess = self.found_updates - self.expected_updates
        share = (
            f"{100.0 * abs(excess) / self.expected_updates:.0f} % " if self.expected_updates else ""
        )
        return (
            f"for the last {self.visits:,} predicted visits (in {self.runs} runs) {share}"
            f"{'more' if excess > 0.0 else 'fewer'} updates were found than predicted "
            f"({self.found_updates}, not {self.expected_updates:.1f}); "
            "`hacs report` shows at which p"
        )


def predicted(outcomes: Outcomes) -> Outcomes:
    """Return the records of visits that were predicted."""
    is_seen = (outcomes["flags"] & SEEN) > 0
    made: Outcomes = outcomes[is_seen & np.isfinite(outcomes["days_since_visit"])]
    return made


def groups(state: State, outcomes: Outcomes | None = None) -> list[Group]:
    """Return the predicted visits by policy and model, in the order of these names.

    `outcomes` are the state's outcome records, if they were read already. Records without a known label
    are left out. Raises StateError.
    """
    outcomes = predicted(state.outcomes() if outcomes is None else outcomes)
    numbers: dict[tuple[str, str], list[int]] = {}
    for number in np.unique(outcomes["label"]).tolist():
        if (label := state.label(number)) is not None:
            numbers.setdefault((label.policy, label.model), []).append(number)
    return [
        Group(*name, outcomes[np.isin(outcomes["label"], numbers[name])])
        for name in sorted(numbers)
    ]


def drift(outcomes: Outcomes) -> Drift | None:
    """Return the lasting difference between predictions and outcomes, or None.

    `outcomes` are the records of one model, by time; the last DRIFT_VISITS predicted visits count, in at
    least DRIFT_RUNS runs. There is a drift if the number of updates found is outside of 1 / DRIFT_RATIO
    to DRIFT_RATIO times the predicted number, on the same side in each third of the visits, and DRIFT_Z
    standard errors (clustered by site) away.
    """
    latest = predicted(outcomes)[-DRIFT_VISITS:]
    runs = len(np.unique(latest["run"]))
    if len(latest) < DRIFT_VISITS or runs < DRIFT_RUNS:
        return None
    group = Group("", "", latest)
    p, updated = group.p, group.found
    expected, updates = float(p.sum()), int(updated.sum())
    if expected / DRIFT_RATIO <= updates <= expected * DRIFT_RATIO:
        return None
    sides = {float(part.sum()) > 0.0 for part in np.array_split(updated - p, 3)}
    if len(sides) > 1 or abs(clustered_z(p, updated, group.site)) < DRIFT_Z:
        return None
    return Drift(len(latest), runs, expected, updates)


def drift_of(state: State, model: str, outcomes: Outcomes | None = None) -> Drift | None:
    """Return the `drift` of a model over all policies; `outcomes` as for `groups`. Raises StateError."""
    own = [group.outcomes for group in groups(state, outcomes) if group.model == model]
    return drift(sorted_outcomes(own))

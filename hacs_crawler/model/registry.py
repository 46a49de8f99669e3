"""Estimators by name, each with the gaps that it is defined on."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from hacs_crawler.model.bayes import bayes
from hacs_crawler.model.estimators import cho, naive
from hacs_crawler.model.gaps import Gaps, gaps_between, interpolated_gaps
from hacs_crawler.model.mle import mle
from hacs_crawler.model.prior import DEFAULT_PRIOR, LogNormalPrior
from hacs_crawler.utils.arrays import BoolArray, FloatArray, IndexArray


@dataclass(frozen=True, slots=True)
class Visits:
    """Visit times and outcomes of a batch of pages; the arguments of `gaps_between`."""

    visit_days: FloatArray
    updated: BoolArray
    offsets: IndexArray
    fade_days: float = math.inf

    def gaps(self) -> Gaps:
        """Gaps between visits."""
        return gaps_between(self.visit_days, self.updated, self.offsets, self.fade_days)

    def interpolated(self) -> Gaps:
        """Intervals between interpolated updates and accesses without update."""
        return interpolated_gaps(self.visit_days, self.updated, self.offsets, self.fade_days)


Estimator = Callable[[Visits, LogNormalPrior], FloatArray]

ESTIMATORS: Mapping[str, Estimator] = MappingProxyType(
    {
        "naive": lambda visits, _prior: naive(visits.gaps()),
        "cho": lambda visits, _prior: cho(visits.gaps()),
        "mle": lambda visits, _prior: mle(visits.gaps()),
        "mle-interpolated": lambda visits, _prior: mle(visits.interpolated(), visits.gaps()),
        "bayes": lambda visits, prior: bayes(visits.gaps(), prior),
    }
)
"""Name -> function of visits and prior. A further estimator is one further entry."""


def estimate(
    name: str,
    visit_days: FloatArray,
    updated: BoolArray,
    offsets: IndexArray,
    *,
    prior: LogNormalPrior = DEFAULT_PRIOR,
    fade_days: float = math.inf,
) -> FloatArray:
    """Rates per day of each page, by the estimator of that name. Shape (n_pages,).

    Visits as for `gaps_between`. Only "bayes" uses prior and fade_days. Raises ValueError for a
    name that is not in ESTIMATORS, and for visits that do not fit together.
    """
    if name not in ESTIMATORS:
        raise ValueError(f"unknown estimator {name!r}; known are {', '.join(ESTIMATORS)}")
    return ESTIMATORS[name](Visits(visit_days, updated, offsets, fade_days), prior)

"""How a budget of visits is best divided among pages of known rates: visits a day for each page.

All are solutions of a convex problem with one constraint, the sum of the visits. Each page's frequency
is a function of one multiplier, the price of a visit, at which together they cost the budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from hacs_crawler.ranking.policies import Floats

_TOLERANCE: Final = 1e-12  # of the log price: pages hardly worth a visit depend on its last digits
_FIRST_STEP: Final = 0.05

Demand = Callable[[Floats, float], Floats]
"""The visits a day of pages of these rates per day at a price of a visit; falling in the price."""


def freshness_demand(
    rate_per_day: Floats, price: float, importance: Floats | float = 1.0
) -> Floats:
    """Return the visits a day that keep the most pages fresh, evenly spaced, at a price of a visit.

    Cho and Garcia-Molina, "Effective page refresh policies for web crawlers", ACM TODS 28(4), 2003,
    doi:10.1145/958942.958945: visited every 1/f days a page of rate lambda is fresh for the share
    (1 - exp(-lambda/f)) f/lambda of the time, so that under the constraint sum f = budget

        mu/lambda [1 - (1 + lambda/f) exp(-lambda/f)] = price,

    the left side being P(2, lambda/f) mu/lambda. Pages that change too often for the price get f = 0,
    as do those that never change. A frequency below lambda/36 is not to be had: in double precision its
    price is that of none.
    """
    worth = np.divide(rate_per_day, importance)
    is_worth_it = (rate_per_day > 0) & (price * worth < 1)
    from scipy.special import gammaincinv  # noqa: PLC0415 - takes a while to import

    expected = gammaincinv(2.0, np.where(is_worth_it, price * worth, 1.0))
    return np.where(is_worth_it, np.divide(rate_per_day, expected), 0.0)


def harmonic_demand(rate_per_day: Floats, price: float, importance: Floats | float = 1.0) -> Floats:
    """Return the visits a day at Poisson times that keep the harmonic penalty low, at a price.

    Kolobov et al., "Staying up to date with online content changes using reinforcement learning for
    scheduling", NeurIPS 2019, Proposition 2 (LambdaCrawl, sources with incomplete observations):

        f = [-lambda + sqrt(lambda^2 + 4 mu lambda / price)] / 2,

    written so that it does not cancel.
    """
    ratio = importance * rate_per_day / price
    root = np.sqrt(rate_per_day**2 + 4 * ratio)
    return np.divide(2 * ratio, rate_per_day + root, out=np.zeros_like(root), where=root > 0)


def binary_demand(rate_per_day: Floats, price: float, importance: Floats | float = 1.0) -> Floats:
    """Return the visits a day at Poisson times that keep the most pages fresh, at a price of a visit.

    f = max(0, sqrt(mu lambda / price) - lambda): Azar et al., "Tractable near-optimal policies for
    crawling", PNAS 115(32), 2018, doi:10.1073/pnas.1801519115, which Kolobov et al. 2019 compare with
    as BinaryLambdaCrawl. Pages that change too often for the price get f = 0.
    """
    return np.maximum(np.sqrt(importance * rate_per_day / price) - rate_per_day, 0.0)


class Allocation:
    """Divides a budget of visits a day among pages, again and again as their rates are learned."""

    def __init__(self, demand: Demand, visits_per_day: float) -> None:
        self._demand = demand
        self._visits_per_day = visits_per_day
        self._log_price = 0.0

    def frequencies(self, rate_per_day: Floats) -> Floats:
        """Return visits a day that add up to the budget; all 0 where no page ever changes."""
        if not np.any(rate_per_day > 0):
            return np.zeros_like(rate_per_day)

        def excess(log_price: float) -> float:
            frequencies = self._demand(rate_per_day, math.exp(log_price))
            return float(np.sum(frequencies)) - self._visits_per_day

        low, high = self._bracket(excess)
        from scipy.optimize import brentq  # noqa: PLC0415 - takes a while to import

        self._log_price = brentq(excess, low, high, xtol=_TOLERANCE)
        return self._demand(rate_per_day, math.exp(self._log_price))

    def _bracket(self, excess: Callable[[float], float]) -> tuple[float, float]:
        """Return log prices around the root, near the last one: rates change little from day to day."""
        low = high = self._log_price
        step = _FIRST_STEP
        while excess(low) < 0:
            low, step = low - step, 2 * step
        step = _FIRST_STEP
        while excess(high) > 0:
            high, step = high + step, 2 * step
        return low, high

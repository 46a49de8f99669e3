"""The posterior of a page's rate under a log-normal prior, on one fixed grid, and the prior's fit.

The log-likelihood of gaps between visits is the sum of w log(1 - e^(-λ t)) over gaps with an update less
the sum of w λ t over those without: the interval-censored Poisson process of HACS's Eq. 5, each gap t
raised to its weight w. Sums over the grid are the trapezoid rule on log λ: E[λ] is within 1e-5 for up to
100 gaps a page, and within 1 % for 300 gaps of about 1/λ, whose posterior is two nodes wide.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from hacs_crawler.model.gaps import Gaps
from hacs_crawler.model.survival import TIMES
from hacs_crawler.utils.arrays import FloatArray, offsets_of, sum_by_page

# Logarithms of rates from one update in 450 years to 1,100 a day.
LOG_RATES: Final = np.linspace(-12.0, 7.0, 96)
RATES: Final = np.exp(LOG_RATES)
# The probability of no update at each of these rates, up to each of `TIMES`.
SURVIVAL: Final = np.exp(-np.multiply.outer(RATES, TIMES))
# Gaps per block, so that the working arrays, over the grid, fit a core's cache.
BLOCK: Final = 512
MIN_PAGES_TO_FIT: Final = 50
MIN_UPDATES_TO_FIT: Final = 10
_MOST_STEPS: Final = 1_000
_SAME_SHARE: Final = 1e-5
# Many abandoned pages widen the distribution: an unbounded fit would give them a rate of nearly 0, so
# that they would not be visited even when they are updated again.
LOG_SD_BOUNDS: Final = (0.3, 1.75)
_LOG_MEDIAN_BOUNDS: Final = (-10.0, 5.0)
_LEAST_STEP: Final = 1e-3
_TINY: Final = 1e-300


@dataclass(frozen=True, slots=True)
class LogNormalPrior:
    """log lambda ~ Normal(log_median, log_sd^2), lambda in updates per day."""

    log_median: float
    log_sd: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.log_median):
            raise ValueError(f"log_median must be finite, not {self.log_median}")
        if not 0 < self.log_sd < math.inf:
            raise ValueError(f"log_sd must be greater than 0 and finite, not {self.log_sd}")
        if self.log_median + self.log_sd**2 / 2 > 700.0:
            raise ValueError("the mean rate must be finite")

    @property
    def mean_rate(self) -> float:
        """Mean of lambda, exp(log_median + log_sd^2 / 2), per day."""
        return math.exp(self.log_median + self.log_sd**2 / 2)


# Half of the pages change more often than every 110 days, the finding of HACS (Jayawardana et al.
# 2020) for scholarly homepages; a log_sd of 1.5 leaves 95% of them between 6 and 2,100 days.
DEFAULT_PRIOR = LogNormalPrior(log_median=-math.log(110.0), log_sd=1.5)


def log_likelihood(gaps: Gaps, weight: FloatArray, churn: FloatArray | None = None) -> FloatArray:
    """Return the log-likelihood of each page at each rate, shape (n_pages, n_rates).

    `weight` is the weight of each gap, `churn` the c of each page (None: 0).
    """
    quiet = np.where(gaps.updated, 0.0, weight)
    days = sum_by_page(quiet * gaps.days, gaps.offsets)
    logs = np.multiply.outer(-days, RATES)
    missed = np.exp(np.multiply.outer(-gaps.days[gaps.updated], RATES))
    if churn is not None:
        number = sum_by_page(quiet, gaps.offsets)
        logs += (number * np.log1p(-np.minimum(churn, 1.0 - 1e-12)))[:, np.newaxis]
        missed *= 1.0 - np.repeat(churn, gaps.counts)[gaps.updated, np.newaxis]
    seen = np.subtract(1.0, missed, out=missed)
    np.log(np.maximum(seen, _TINY, out=seen), out=seen)
    seen *= weight[gaps.updated, np.newaxis]
    number_updated = sum_by_page(gaps.updated.astype(np.int64), gaps.offsets)
    logs += sum_by_page(seen, offsets_of(number_updated.astype(np.int64)))
    return logs


@lru_cache(maxsize=4)
def log_prior(prior: LogNormalPrior) -> FloatArray:
    """Return the logarithms of the prior weights of the rates, which add up to 1."""
    logs: FloatArray = -0.5 * ((LOG_RATES - prior.log_median) / prior.log_sd) ** 2
    return logs - normalised(logs[np.newaxis])[1]


def normalised(logs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return e^logs, scaled so that each row adds up to 1, and the logarithm of each sum."""
    most = logs.max(axis=1, keepdims=True)
    weights = np.exp(logs - most)
    total = weights.sum(axis=1, keepdims=True)
    weights /= total
    return weights, (most + np.log(total))[:, 0]


def posterior(gaps: Gaps, prior: LogNormalPrior) -> FloatArray:
    """Return the probabilities of the rates of each page, shape (n_pages, n_rates).

    A page without gaps, or with weights of 0 only, has the prior. With the same weights, more
    quiet time never raises the mean rate. With fading, a new visit also ages the earlier gaps, which
    moves the page towards the prior.
    """
    weights = np.empty((len(gaps), len(RATES)))
    for pages, _, some in gaps.in_blocks(BLOCK):
        weights[pages], _ = normalised(log_likelihood(some, some.weight) + log_prior(prior))
    return weights


def fit_shares(
    logs: FloatArray, usual: FloatArray, members: float, most_steps: int = _MOST_STEPS
) -> FloatArray:
    """Return the shares of kinds in a population, from log-likelihoods of shape (n, n_kinds).

    By expectation maximisation, with `members` additional members of the `usual` shares.
    """
    shares = usual
    for _ in range(most_steps):
        before = shares
        expected, _ = normalised(logs + np.log(np.maximum(shares, _TINY)))
        shares = (expected.sum(axis=0) + members * usual) / (len(logs) + members)
        if np.abs(shares - before).max() < _SAME_SHARE:
            break
    return shares


def bayes_quantiles(gaps: Gaps, prior: LogNormalPrior, q: Sequence[float]) -> FloatArray:
    """Return posterior quantiles of lambda per day, shape (n_pages, n_q).

    q: probabilities between 0 and 1; (0.1, 0.5, 0.9) gives the median and the limits of the central
    80 % interval. Between the grid's rates the distribution function of log λ is interpolated linearly.
    """
    half = (LOG_RATES[1] - LOG_RATES[0]) / 2
    below = np.cumsum(posterior(gaps, prior), axis=1)
    logs = [np.interp(q, cumulated, LOG_RATES + half) for cumulated in below]
    return np.asarray(np.exp(np.reshape(logs, (len(below), len(q)))))


def fit_prior(gaps: Gaps) -> LogNormalPrior:
    """Fit the prior that maximises the pages' marginal likelihood (type-II maximum likelihood).

    The search starts from the best point of a coarse grid of medians and log_sds, and moves to better
    neighbours in ever smaller steps; the result depends on the pages only. Every gap has the weight 1: a
    likelihood raised to weights, as in `posterior`, is not the probability of the data, and makes pages
    look more alike than they are. Pages without gaps are ignored.

    Returns DEFAULT_PRIOR below MIN_PAGES_TO_FIT pages with gaps or MIN_UPDATES_TO_FIT gaps with an
    update (quiet pages only show that rates are small, not how small). For simulated stores of
    10 / 30 / 50 / 100 pages with 5 gaps each, the fitted prior is worse than the default in
    37 / 13 / 3 / 1 % of cases (benchmarks/estimators.py; median 30 days, log_sd 1).
    """
    has_gaps = gaps.counts > 0
    if np.count_nonzero(has_gaps) < MIN_PAGES_TO_FIT or gaps.updated.sum() < MIN_UPDATES_TO_FIT:
        return DEFAULT_PRIOR
    parts = gaps.of(has_gaps).in_blocks(BLOCK)
    likelihood = np.concatenate(
        [log_likelihood(some, np.ones_like(some.days)) for *_, some in parts]
    )
    likelihood = np.exp(likelihood - likelihood.max(axis=1, keepdims=True))

    def best_of(medians: FloatArray, spreads: FloatArray) -> tuple[float, float]:
        pairs = [(median, spread) for median in medians.tolist() for spread in spreads.tolist()]
        weights = [np.exp(log_prior(LogNormalPrior(*pair))) for pair in pairs]
        marginal = np.maximum(likelihood @ np.array(weights).T, _TINY)
        return pairs[int(np.log(marginal).sum(axis=0).argmax())]

    best = best_of(np.linspace(*_LOG_MEDIAN_BOUNDS, 31), np.linspace(*LOG_SD_BOUNDS, 6))
    step = 0.25
    while step > _LEAST_STEP:
        # 0 first: argmax takes the first of equal points, so that the search stops
        around = step * np.array([0.0, -1.0, 1.0])
        optimum = best_of(
            np.clip(best[0] + around, *_LOG_MEDIAN_BOUNDS),
            np.clip(best[1] + around / 2, *LOG_SD_BOUNDS),
        )
        if optimum == best:
            step /= 2
        best = optimum
    return LogNormalPrior(*best)

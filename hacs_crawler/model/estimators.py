"""The estimators by name, and those of the papers that give one rate: from visits to `Rates`."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np

from hacs_crawler.model.bursts import DEFAULT_BURSTS, Bursts, with_bursts
from hacs_crawler.model.churn import CHURNING_PAGES, LinkLifetimes, churn_of
from hacs_crawler.model.gaps import Gaps, gaps_between
from hacs_crawler.model.grid import DEFAULT_PRIOR, RATES, SURVIVAL, LogNormalPrior, posterior
from hacs_crawler.model.survival import Rates, fitted, known_rates
from hacs_crawler.utils.arrays import (
    BoolArray,
    FloatArray,
    IndexArray,
    blocks,
    offsets_of,
    page_of_value,
    sum_by_page,
)

# Those of `model.localized`, which is imported when they are used.
LOCALIZED: Final = "weibull", "duane", "matloff"
# gaps solved together: four arrays of this size stay in a core's cache
_BLOCK = 8192
_MAX_STEPS = 100
# relative step; Newton squares it, so the remaining error is rounding
_CONVERGED = 1e-7
_MAX_EXPONENT = 700.0  # exp() beyond is infinite; by then the term is negligible


def naive(gaps: Gaps) -> FloatArray:
    """Divide updates seen by time watched: lambda = X / T, per day (HACS Eq. 3).

    Shape (n_pages,). Biased low: several updates in one gap count once. X is the number of gaps
    with an update, T the sum of all gaps. A page without gaps gets 0. Weights are not used (every
    gap counts 1), as in the paper.
    """
    n_updated = sum_by_page(gaps.updated.astype(np.float64), gaps.offsets)
    total_days = sum_by_page(gaps.days, gaps.offsets)
    return np.divide(n_updated, total_days, out=np.zeros(len(gaps)), where=total_days > 0)


def cho(gaps: Gaps) -> FloatArray:
    """Lambda = -log((n - X + 0.5) / (n + 0.5)) / (mean gap), per day (HACS Eq. 4).

    Shape (n_pages,). Exact only for regular access: n gaps of one length, X of them with an
    update. Source: Cho and Garcia-Molina, "Estimating frequency of change", ACM TOIT 3(3), 2003,
    doi:10.1145/857166.857170. No update or no gap -> 0. Weights are not used, as in the paper.
    """
    n_gaps = gaps.counts.astype(np.float64)
    n_updated = sum_by_page(gaps.updated.astype(np.float64), gaps.offsets)
    total_days = sum_by_page(gaps.days, gaps.offsets)
    # -log1p(-X/(n+0.5)) is the same expression, exact 0 at X = 0.
    rate_per_gap = -np.log1p(-n_updated / (n_gaps + 0.5))
    return np.divide(
        rate_per_gap * n_gaps, total_days, out=np.zeros(len(gaps)), where=n_updated > 0
    )


def mle(gaps: Gaps, accesses: Gaps | None = None) -> FloatArray:
    """Root of sum_i t_ci / (exp(lambda t_ci) - 1) = sum_j t_uj, per day (HACS Eq. 5).

    Shape (n_pages,). t_c are the gaps with an update, t_u those without; Cho and Garcia-Molina
    2003, doi:10.1145/857166.857170, section 6. Relative error below 1e-9.

    Without any update the rate is 0, without any gap too. If every gap has an update, Eq. 5
    lacks a finite root, and Eq. 4 (`cho`) is used instead, on `accesses` if given: for interpolated
    `gaps`, Eq. 4 is about the true gaps between accesses. So the first gap without update, if it
    is very short, can raise the rate: it moves the page from Eq. 4 to Eq. 5. Weights are not used
    (every gap counts 1), as in the paper.
    """
    updated_days = np.where(gaps.updated, gaps.days, 0.0)
    quiet_days = sum_by_page(gaps.days - updated_days, gaps.offsets)
    n_updated = sum_by_page(gaps.updated.astype(np.float64), gaps.offsets).astype(np.int64)
    every = (n_updated > 0) & (n_updated == gaps.counts)
    solvable = (n_updated > 0) & ~every
    rates = np.where(every, cho(gaps if accesses is None else accesses), 0.0)
    if solvable.any():
        mine = gaps.updated & np.repeat(solvable, gaps.counts)
        rates[solvable] = _roots(
            gaps.days[mine], offsets_of(n_updated[solvable]), quiet_days[solvable]
        )
    return rates


def _roots(t: FloatArray, offsets: IndexArray, quiet_days: FloatArray) -> FloatArray:
    """Roots for pages that all have both kinds of gaps; t holds the gaps with an update."""
    rates = np.empty(quiet_days.size)
    for first, last in blocks(offsets, _BLOCK):
        cut = offsets[first : last + 1]
        rates[first:last] = _newton(t[cut[0] : cut[-1]], cut - cut[0], quiet_days[first:last])
    return rates


def _newton(t: FloatArray, offsets: IndexArray, quiet_days: FloatArray) -> FloatArray:
    """Newton steps on phi(lambda) = log(sum t / (exp(lambda t) - 1)) - log(quiet_days), from below.

    phi is decreasing and convex: each term is log-convex in lambda, and so is their sum. A tangent from
    below therefore never passes the root. The start: t / (exp(lambda t) - 1) is convex and decreasing in
    t, so the mean of t in the place of every t (Jensen) gives a lower bound, exact for equal gaps.
    """
    n = (offsets[1:] - offsets[:-1]).astype(np.float64)
    mean = sum_by_page(t, offsets) / n
    # 1e-12: the bound is exact for equal gaps, and its rounding must not pass the root
    rate = np.log1p(n * mean / quiet_days) / mean * (1 - 1e-12)
    page = page_of_value(offsets)
    for _ in range(_MAX_STEPS):
        term = t / np.expm1(np.minimum(rate[page] * t, _MAX_EXPONENT))
        total = sum_by_page(term, offsets)
        slope = sum_by_page(term * (term + t), offsets) / total  # -phi'
        step = np.maximum(np.log(total / quiet_days) / slope, 0.0)
        rate = rate + step
        if (step <= _CONVERGED * rate).all():
            break
    return rate


@dataclass(frozen=True, slots=True)
class Visits:
    """Visit times and outcomes of a batch of pages; the arguments of `gaps_between`.

    `lifetimes` are the lifetimes of the links that each visit brought, see `LinkLifetimes`; None
    if they are unknown.
    """

    visit_days: FloatArray
    updated: BoolArray
    offsets: IndexArray
    fade_days: float = math.inf
    baselines: BoolArray | None = None
    lifetimes: LinkLifetimes | None = None

    def gaps(self, *, is_interpolated: bool = False) -> Gaps:
        """Return the gaps between visits, see `gaps_between`."""
        return gaps_between(
            self.visit_days,
            self.updated,
            self.offsets,
            self.fade_days,
            self.baselines,
            is_interpolated=is_interpolated,
        )

    def gap_lifetimes(self) -> LinkLifetimes | None:
        """Return the lifetimes of the links that each gap brought."""
        if self.lifetimes is None:
            return None
        is_gap = np.ones(len(self.visit_days), np.bool_)
        is_gap[self.offsets[:-1][np.diff(self.offsets) > 0]] = False
        if self.baselines is not None:
            is_gap &= ~self.baselines
        return self.lifetimes[is_gap]


@dataclass(frozen=True, slots=True)
class Estimator:
    """A function of visits, prior, share of churning pages and bursts, and its properties.

    `uses_prior`: the rates of some pages depend on prior and fading. `has_posterior`: the rates of every
    page come from the posterior, which has quantiles and tells churn from updates.
    """

    estimate: Callable[[Visits, LogNormalPrior, float, Bursts], Rates]
    uses_prior: bool = False
    has_posterior: bool = False


def _of_known_rates(rates_per_day: Callable[[Visits], FloatArray]) -> Estimator:
    return Estimator(lambda visits, *_: known_rates(rates_per_day(visits)))


def _bayes(
    visits: Visits, prior: LogNormalPrior, churning_pages: float, bursts: Bursts | None = None
) -> Rates:
    gaps = visits.gaps()
    lifetimes = visits.gap_lifetimes()
    churned = churn_of(gaps, posterior(gaps, prior), prior, lifetimes, churning_pages)
    survival = churned.rates @ SURVIVAL
    if bursts is not None:
        survival = with_bursts(survival, gaps, churned.churn, churned.churning, prior, bursts)
    return _fitted(gaps, churned.rates @ RATES, survival, churned.churn, churned.churning)


def _localized(name: str) -> Estimator:
    def estimated(visits: Visits, prior: LogNormalPrior, *_: object) -> Rates:
        from hacs_crawler.model.localized import last_windows  # noqa: PLC0415 - seldom used

        gaps = visits.gaps()
        rates = posterior(gaps, prior)
        rate, survival = rates @ RATES, rates @ SURVIVAL
        windows = last_windows(name, visits.visit_days, visits.updated, visits.offsets)
        rate[windows.page] = windows.rate_per_day()
        survival[windows.page] = windows.survival()
        return _fitted(gaps, rate, survival, np.zeros(len(gaps)), np.zeros(len(gaps)))

    return Estimator(estimated, uses_prior=True)


def _fitted(
    gaps: Gaps, rate: FloatArray, survival: FloatArray, churn: FloatArray, churning: FloatArray
) -> Rates:
    """Return the rates of pages with that survival at `TIMES`; a page without a gap is fitted at 1/λ."""
    days = sum_by_page(gaps.days, gaps.offsets)
    mean_gap = np.divide(days, gaps.counts, out=1.0 / rate, where=gaps.counts > 0)
    share, fast, slow = fitted(survival, mean_gap)
    return Rates(rate, share, fast, slow, churn, churning)


# By name. A further estimator is one further entry.
ESTIMATORS: Mapping[str, Estimator] = MappingProxyType(
    {
        "naive": _of_known_rates(lambda visits: naive(visits.gaps())),
        "cho": _of_known_rates(lambda visits: cho(visits.gaps())),
        "mle": _of_known_rates(lambda visits: mle(visits.gaps())),
        "mle-interpolated": _of_known_rates(
            lambda visits: mle(visits.gaps(is_interpolated=True), visits.gaps())
        ),
        "bayes": Estimator(
            lambda visits, prior, churning_pages, _: _bayes(visits, prior, churning_pages),
            uses_prior=True,
            has_posterior=True,
        ),
        "bursts": Estimator(_bayes, uses_prior=True, has_posterior=True),
        **{name: _localized(name) for name in LOCALIZED},
    }
)


def estimate(
    name: str,
    visits: Visits,
    prior: LogNormalPrior = DEFAULT_PRIOR,
    churning_pages: float = CHURNING_PAGES,
    bursts: Bursts = DEFAULT_BURSTS,
) -> Rates:
    """Return the rates of pages by the estimator of that name.

    `churning_pages` is the share of pages that are expected to churn, `bursts` the state's fitted
    bursts. An estimator without posterior takes its rates as exact, and attributes every new link to
    time: churn and churning are 0. Raises ValueError for a name that is not in ESTIMATORS, and for
    visits that do not fit together.
    """
    if name not in ESTIMATORS:
        raise ValueError(f"unknown estimator {name!r}; known are {', '.join(ESTIMATORS)}")
    return ESTIMATORS[name].estimate(visits, prior, churning_pages, bursts)

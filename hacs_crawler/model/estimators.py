"""Rates in closed form: updates over time, and Cho and Garcia-Molina's correction of it."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np

from hacs_crawler.model.bayes import bayes
from hacs_crawler.model.bursts import DEFAULT_BURSTS, Bursts, with_bursts
from hacs_crawler.model.churn import CHURNING_PAGES, LinkLifetimes, Rates, rates_with_churn
from hacs_crawler.model.gaps import Gaps, gaps_between, interpolated_gaps
from hacs_crawler.model.prior import DEFAULT_PRIOR, LogNormalPrior
from hacs_crawler.utils.arrays import (
    BoolArray,
    FloatArray,
    IndexArray,
    blocks,
    offsets_of,
    page_of_value,
    sum_by_page,
)

LOCALIZED: Final = "weibull", "duane", "matloff"
"""Those of `model.localized`, which is imported when they are used."""
_BLOCK = 8192  # gaps solved at once: four arrays of this size stay in a core's cache
_MAX_STEPS = 100
_CONVERGED = 1e-7  # relative step; Newton squares it, so what is left is rounding
_MAX_EXPONENT = 700.0  # exp() beyond is infinite; the term is 0 beside the others by then


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

    Without any update the rate is 0, without any gap too. Where every gap has an update Eq. 5
    has no finite root, and Eq. 4 (`cho`) is used instead, on `accesses` if given: for interpolated
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
    """Newton steps on log lambda inside a bracket that closes from both sides.

    phi(lambda) = log(sum t / (exp(lambda t) - 1)) - log(quiet_days) is decreasing and convex: each
    term is log-convex in lambda, and so is their sum. A tangent therefore meets 0 at or below the
    root, whichever side it is drawn from, which gives a lower bound at each step. A step on
    log lambda is far quicker where lambda t is small, but may pass the root; where it leaves the
    bracket the tangent's own step, which is safe, is taken.

    The bracket to start from: t / (exp(lambda t) - 1) is convex and decreasing in t, so putting
    the mean of t for every t (Jensen) gives a lower bound, exact for equal gaps, and the smallest
    t an upper one.
    """
    n = (offsets[1:] - offsets[:-1]).astype(np.float64)
    mean, least = sum_by_page(t, offsets) / n, np.minimum.reduceat(t, offsets[:-1])
    # 1e-12: the bounds are exact for equal gaps, and their rounding must not exclude the root
    low = np.log1p(n * mean / quiet_days) / mean * (1 - 1e-12)
    high = np.log1p(n * least / quiet_days) / least * (1 + 1e-12)
    rate, page = low, page_of_value(offsets)
    for _ in range(_MAX_STEPS):
        u = np.minimum(rate[page] * t, _MAX_EXPONENT)
        term = t / np.expm1(u)
        total = sum_by_page(term, offsets)
        slope = sum_by_page(term * (term + t), offsets) / total  # -phi'
        step = np.log(total / quiet_days) / (slope * rate)
        low = np.maximum(low, rate * (1 + step))
        high = np.where(step < 0, np.minimum(high, rate), high)
        on_log = rate * np.exp(np.minimum(step, _MAX_EXPONENT))
        rate = np.where(on_log < high, np.maximum(on_log, low), np.minimum(low, high))
        if np.abs(step).max() < _CONVERGED:
            break
    return rate


@dataclass(frozen=True, slots=True)
class Visits:
    """Visit times and outcomes of a batch of pages; the arguments of `gaps_between`.

    `lifetimes` says what became of the links that each visit brought, see `LinkLifetimes`; None
    where nothing is known of it.
    """

    visit_days: FloatArray
    updated: BoolArray
    offsets: IndexArray
    fade_days: float = math.inf
    baselines: BoolArray | None = None
    lifetimes: LinkLifetimes | None = None

    def gaps(self) -> Gaps:
        """Gaps between visits."""
        return gaps_between(*self._arguments)

    def gap_lifetimes(self) -> LinkLifetimes | None:
        """Return the lifetimes of what each gap brought."""
        if self.lifetimes is None:
            return None
        is_gap = np.ones(len(self.visit_days), np.bool_)
        is_gap[self.offsets[:-1][np.diff(self.offsets) > 0]] = False
        if self.baselines is not None:
            is_gap &= ~self.baselines
        return self.lifetimes[is_gap]

    def interpolated(self) -> Gaps:
        """Intervals between interpolated updates and accesses without update."""
        return interpolated_gaps(*self._arguments)

    @property
    def _arguments(
        self,
    ) -> tuple[FloatArray, BoolArray, IndexArray, float, BoolArray | None]:
        return self.visit_days, self.updated, self.offsets, self.fade_days, self.baselines


@dataclass(frozen=True, slots=True)
class Estimator:
    """A function of visits and prior, and what is asked of it elsewhere.

    `posterior` is there where rates come from the posterior under the prior, which has quantiles and
    fades: it tells how uncertain each rate is, and churn apart from it, see `Rates`. One that
    `is_localized` does so for pages of few updates only; of the others `log_sd` is the rate's
    `packed_trend`.
    """

    rates_per_day: Callable[[Visits, LogNormalPrior], FloatArray]
    posterior: Callable[[Visits, LogNormalPrior, float, Bursts], Rates] | None = None
    is_localized: bool = False

    @property
    def uses_prior(self) -> bool:
        """Whether the rates of some pages depend on prior and fading."""
        return self.posterior is not None

    @property
    def has_posterior(self) -> bool:
        """Whether every rate comes from the posterior under the prior."""
        return self.uses_prior and not self.is_localized


def _localized(name: str) -> Estimator:
    def posterior(visits: Visits, prior: LogNormalPrior, _share: float, _bursts: Bursts) -> Rates:
        from hacs_crawler.model.localized import localized_with_spread  # noqa: PLC0415 - seldom used

        visited = visits.visit_days, visits.updated, visits.offsets
        found = localized_with_spread(
            name,
            *visited,
            fade_days=visits.fade_days,
            prior=prior,
            baselines=visits.baselines,
        )
        return Rates(*found, *np.zeros((4, len(found[0]))))

    return Estimator(
        lambda visits, prior: posterior(visits, prior, 0.0, DEFAULT_BURSTS).rate_per_day,
        posterior,
        is_localized=True,
    )


def _with_bursts(
    visits: Visits, prior: LogNormalPrior, churning_pages: float, bursts: Bursts
) -> Rates:
    gaps = visits.gaps()
    rates = rates_with_churn(gaps, prior, visits.gap_lifetimes(), churning_pages)
    return with_bursts(rates, gaps, visits.fade_days, prior, bursts)


ESTIMATORS: Mapping[str, Estimator] = MappingProxyType(
    {
        "naive": Estimator(lambda visits, _prior: naive(visits.gaps())),
        "cho": Estimator(lambda visits, _prior: cho(visits.gaps())),
        "mle": Estimator(lambda visits, _prior: mle(visits.gaps())),
        "mle-interpolated": Estimator(lambda visits, _: mle(visits.interpolated(), visits.gaps())),
        "bayes": Estimator(
            lambda visits, prior: bayes(visits.gaps(), prior),
            lambda visits, prior, churning_pages, _bursts: rates_with_churn(
                visits.gaps(), prior, visits.gap_lifetimes(), churning_pages
            ),
        ),
        "bursts": Estimator(lambda visits, prior: bayes(visits.gaps(), prior), _with_bursts),
        **{name: _localized(name) for name in LOCALIZED},
    }
)
"""By name. A further estimator is one further entry."""


def estimate(
    name: str,
    visit_days: FloatArray,
    updated: BoolArray,
    offsets: IndexArray,
    *,
    prior: LogNormalPrior = DEFAULT_PRIOR,
    fade_days: float = math.inf,
    baselines: BoolArray | None = None,
) -> FloatArray:
    """Rates per day of each page, by the estimator of that name. Shape (n_pages,).

    Visits as for `gaps_between`. Only one with a posterior uses prior and fade_days. Raises
    ValueError for a name that is not in ESTIMATORS, and for visits that do not fit together.
    """
    if name not in ESTIMATORS:
        raise ValueError(f"unknown estimator {name!r}; known are {', '.join(ESTIMATORS)}")
    visits = Visits(visit_days, updated, offsets, fade_days, baselines)
    return ESTIMATORS[name].rates_per_day(visits, prior)


def estimate_with_churn(
    name: str,
    visits: Visits,
    prior: LogNormalPrior = DEFAULT_PRIOR,
    churning_pages: float = CHURNING_PAGES,
    bursts: Bursts = DEFAULT_BURSTS,
) -> Rates:
    """Rates per day of each page, by the estimator of that name, how uncertain each is, and churn.

    `churning_pages` is the share of pages that are expected to churn, `bursts` what is known of bursts.
    An estimator without posterior takes its rates for known, and every new link for time's: log_sd,
    churn and churning are 0. The log_sd is the `packed_trend` where the rate is that of a window of the
    page's own updates. Raises as `estimate`.
    """
    posterior = ESTIMATORS[name].posterior if name in ESTIMATORS else None
    if posterior is not None:
        return posterior(visits, prior, churning_pages, bursts)
    rates = estimate(
        name,
        visits.visit_days,
        visits.updated,
        visits.offsets,
        prior=prior,
        baselines=visits.baselines,
    )
    return Rates(rates, *np.zeros((5, len(rates))))

"""The estimators by name, from visits to `Rates`; here are the papers' estimators of a single rate.

They ignore the weights of gaps: every gap counts 1.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from hacs_crawler.model.bursts import DEFAULT_BURSTS, Bursts, with_bursts
from hacs_crawler.model.churn import CHURNING_PAGES, churn_of
from hacs_crawler.model.gaps import Gaps, Visits
from hacs_crawler.model.grid import DEFAULT_PRIOR, RATES, SURVIVAL, LogNormalPrior, posterior
from hacs_crawler.model.survival import Rates, fitted, known_rates
from hacs_crawler.utils.arrays import (
    FloatArray,
    IndexArray,
    blocks,
    offsets_of,
    page_of_value,
    sum_by_page,
)

# gaps per block: four arrays of this size fit a core's cache
_BLOCK = 8192
_MAX_STEPS = 100
# relative step; Newton squares it, so the remaining error is rounding
_CONVERGED = 1e-7
_MAX_EXPONENT = 700.0  # exp() beyond is infinite; by then the term is negligible


def naive(gaps: Gaps) -> FloatArray:
    """Divide updates seen by time watched: lambda = X / T, per day (HACS Eq. 3).

    Biased low: several updates in one gap count once. X is the number of gaps with an update, T the sum
    of all gaps. A page without gaps gets 0.
    """
    n_updated, total_days = _sums(gaps)
    return np.divide(n_updated, total_days, out=np.zeros(len(gaps)), where=total_days > 0)


def cho(gaps: Gaps) -> FloatArray:
    """Lambda = -log((n - X + 0.5) / (n + 0.5)) / (mean gap), per day (HACS Eq. 4).

    Exact only for regular access: n gaps of one length, X of them with an update. Source: Cho and
    Garcia-Molina, "Estimating frequency of change", ACM TOIT 3(3), 2003, doi:10.1145/857166.857170. No
    update or no gap -> 0.
    """
    n_updated, total_days = _sums(gaps)
    # -log1p(-X/(n+0.5)) is the same expression, exact 0 at X = 0.
    rate_per_gap = -np.log1p(-n_updated / (gaps.counts + 0.5))
    return np.divide(
        rate_per_gap * gaps.counts, total_days, out=np.zeros(len(gaps)), where=n_updated > 0
    )


def _sums(gaps: Gaps) -> tuple[FloatArray, FloatArray]:
    """Return the number of each page's gaps with an update, and the days of all its gaps."""
    n_updated = sum_by_page(gaps.updated.astype(np.float64), gaps.offsets)
    return n_updated, sum_by_page(gaps.days, gaps.offsets)


def mle(gaps: Gaps, accesses: Gaps | None = None) -> FloatArray:
    """Root of sum_i t_ci / (exp(lambda t_ci) - 1) = sum_j t_uj, per day (HACS Eq. 5).

    t_c are the gaps with an update, t_u the gaps without; Cho and Garcia-Molina 2003, section 6.
    Relative error below 1e-9.

    Without any update or gap the rate is 0. If every gap has an update, Eq. 5 lacks a finite root, and
    Eq. 4 (`cho`) is used instead: on `accesses`, the true gaps, if `gaps` are interpolated. A very short
    first gap without update can therefore raise the rate, by moving the page from Eq. 4 to Eq. 5.
    """
    quiet_days = sum_by_page(np.where(gaps.updated, 0.0, gaps.days), gaps.offsets)
    n_updated = _sums(gaps)[0].astype(np.int64)
    every = (n_updated > 0) & (n_updated == gaps.counts)
    solvable = (n_updated > 0) & ~every
    rates = np.where(every, cho(gaps if accesses is None else accesses), 0.0)
    t = gaps.days[gaps.updated & np.repeat(solvable, gaps.counts)]
    offsets, quiet_days = offsets_of(n_updated[solvable]), quiet_days[solvable]
    roots = np.empty(quiet_days.size)
    for first, last in blocks(offsets, _BLOCK):
        cut = offsets[first : last + 1]
        roots[first:last] = _newton(t[cut[0] : cut[-1]], cut - cut[0], quiet_days[first:last])
    rates[solvable] = roots
    return rates


def _newton(t: FloatArray, offsets: IndexArray, quiet_days: FloatArray) -> FloatArray:
    """Newton steps on phi(lambda) = log(sum t / (exp(lambda t) - 1)) - log(quiet_days), from below.

    All pages have both kinds of gaps; t holds the gaps with an update. phi is decreasing and convex:
    each term is log-convex in lambda, and so is their sum. A tangent from below therefore never passes
    the root. The start: t / (exp(lambda t) - 1) is convex and decreasing in t, so the mean of t in the
    place of every t (Jensen) gives a lower bound, exact for equal gaps.
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


# The estimators of a single rate, in 1/day.
ONE_RATE: Final[Mapping[str, Callable[[Visits], FloatArray]]] = MappingProxyType(
    {
        "naive": lambda visits: naive(visits.gaps()),
        "cho": lambda visits: cho(visits.gaps()),
        "mle": lambda visits: mle(visits.gaps()),
        "mle-interpolated": lambda visits: mle(visits.gaps(is_interpolated=True), visits.gaps()),
    }
)
# Estimators by a posterior, which has quantiles and distinguishes churn from updates.
WITH_POSTERIOR: Final = "bayes", "bursts"
# Estimators of `model.localized`, imported when used; pages with few updates get the rates of `bayes`.
LOCALIZED: Final = "weibull", "duane", "matloff"
ESTIMATORS: Final = *ONE_RATE, *WITH_POSTERIOR, *LOCALIZED


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
    time: churn and churning are 0. Raises ValueError for an unknown name and for inconsistent visits.
    """
    if name not in ESTIMATORS:
        raise ValueError(f"unknown estimator {name!r}; known are {', '.join(ESTIMATORS)}")
    if name in ONE_RATE:
        return known_rates(ONE_RATE[name](visits))
    gaps = visits.gaps()
    rates, churn, churning = posterior(gaps, prior), np.zeros(len(gaps)), np.zeros(len(gaps))
    if name in WITH_POSTERIOR:
        lifetimes = None if visits.lifetimes is None else visits.lifetimes[visits.end_gaps()]
        rates, churn, churning = churn_of(gaps, rates, prior, lifetimes, churning_pages)
    rate, survival = rates @ RATES, rates @ SURVIVAL
    if name == "bursts":
        survival = with_bursts(survival, gaps, churn, churning, prior, bursts)
    elif name in LOCALIZED:
        from hacs_crawler.model.localized import last_windows  # noqa: PLC0415 - seldom used

        windows = last_windows(name, visits)
        rate[windows.page] = windows.rate_per_day()
        survival[windows.page] = windows.survival()
    # for a page without a gap, the fit is centred on 1/λ
    days = sum_by_page(gaps.days, gaps.offsets)
    mean_gap = np.divide(days, gaps.counts, out=1.0 / rate, where=gaps.counts > 0)
    return Rates(rate, *fitted(survival, mean_gap), churn, churning)

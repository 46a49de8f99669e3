"""Every estimator ends in λ and S(x) = w e^(-ax) + (1 - w) e^(-bx), fitted to its own survival."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from hacs_crawler.model import (
    DEFAULT_BURSTS,
    DEFAULT_PRIOR,
    ESTIMATORS,
    LOCALIZED,
    Bursts,
    Gaps,
    Rates,
    Visits,
    estimate,
)
from hacs_crawler.model.bursts import with_bursts
from hacs_crawler.model.grid import RATES, SURVIVAL, posterior
from hacs_crawler.model.localized import last_windows
from hacs_crawler.model.survival import TIMES, fitted
from hacs_crawler.utils.arrays import FloatArray, sum_by_page

MULTIPLES = np.geomspace(0.1, 3.0, 15)
PAGES = 60


def visits_of(seed: int, number: int, *, is_regular: bool = False) -> Visits:
    """Pages of rates and habits of all kinds, each with `number` gaps between visits."""
    rng = np.random.default_rng(seed)
    rate = np.exp(rng.normal(DEFAULT_PRIOR.log_median, DEFAULT_PRIOR.log_sd, PAGES))
    usual = 1.0 / rate if is_regular else rng.lognormal(np.log(20.0), 1.0, PAGES)
    days = rng.lognormal(0.0, 0.5, (PAGES, number)) * usual[:, None]
    updated = np.zeros((PAGES, number + 1), np.bool_)
    updated[:, 1:] = rng.random(days.shape) < -np.expm1(-rate[:, None] * days)
    at = np.zeros(updated.shape)
    np.cumsum(days, axis=1, out=at[:, 1:])
    return Visits(at.ravel(), updated.ravel(), np.arange(PAGES + 1) * (number + 1), 365.0)


def mean_gap(gaps: Gaps) -> FloatArray:
    return sum_by_page(gaps.days, gaps.offsets) / gaps.counts


def of_bayes(gaps: Gaps, days: FloatArray) -> FloatArray:
    weights = posterior(gaps, DEFAULT_PRIOR)
    decays = np.exp(-RATES[None, :, None] * days[:, None, :])
    return np.einsum("pr,prt->pt", weights, decays)


def of_law(name: str, visits: Visits, days: FloatArray) -> FloatArray:
    """e^-(Λ(T + x) - Λ(T)) where a page has a window of its own, else that of bayes."""
    found = of_bayes(visits.gaps(), days)
    windows = last_windows(name, visits)
    for place, count, shape, end in zip(*windows, strict=True):
        found[place] = np.exp(-count * np.expm1(shape * np.log1p(days[place] / end)))
    return found


def survival_of(rates: Rates, days: FloatArray) -> FloatArray:
    columns = rates.fast_share, rates.fast_per_day, rates.slow_per_day
    share, fast, slow = (column[:, None] for column in columns)
    return share * np.exp(-fast * days) + (1.0 - share) * np.exp(-slow * days)


@pytest.mark.parametrize("name", ["naive", "cho", "mle", "mle-interpolated"])
def test_an_estimator_of_one_known_rate_has_exactly_that(name: str) -> None:
    found = estimate(name, visits_of(1, 8))
    assert (found.fast_share == 1.0).all()
    assert found.fast_per_day.tolist() == found.slow_per_day.tolist() == found.rate_per_day.tolist()


@pytest.mark.parametrize("is_regular", [True, False])
@pytest.mark.parametrize("number", [2, 5, 20, 80])
@pytest.mark.parametrize("name", ["bayes", *LOCALIZED])
def test_p_is_that_of_the_estimator_between_a_tenth_and_three_times_the_mean_gap(
    name: str, number: int, is_regular: bool
) -> None:
    visits = visits_of(number, number, is_regular=is_regular)
    days = mean_gap(visits.gaps())[:, None] * MULTIPLES
    is_localized = name in LOCALIZED
    exact = of_law(name, visits, days) if is_localized else of_bayes(visits.gaps(), days)
    found = estimate(name, visits, churning_pages=1e-9)
    is_meant = found.churning == 0.0
    assert np.abs(survival_of(found, days) - exact)[is_meant].max() <= 0.02


@pytest.mark.parametrize("gain", [-0.02, 0.06])
@pytest.mark.parametrize("number", [2, 5, 20, 80])
def test_so_it_is_in_bursts(number: int, gain: float) -> None:
    visits = visits_of(number, number)
    gaps, none = visits.gaps(), np.zeros(PAGES)
    bursts = Bursts(DEFAULT_BURSTS.shares, gain)
    of_rates = of_bayes(gaps, np.tile(TIMES, (PAGES, 1)))
    exact = with_bursts(of_rates, gaps, none, none, DEFAULT_PRIOR, bursts)
    found = estimate("bursts", visits, bursts=bursts, churning_pages=1e-9)
    gap = mean_gap(gaps)[:, None]
    is_meant = (0.1 * gap <= TIMES) & (3.0 * gap >= TIMES) & (found.churning == 0.0)[:, None]
    off = np.abs(survival_of(found, np.tile(TIMES, (PAGES, 1))) - exact)[is_meant]
    assert np.quantile(off, 0.99) <= 0.02
    assert off.max() <= 0.03


@settings(deadline=None, max_examples=60, derandomize=True)
@given(st.floats(0.05, 0.95), st.floats(1e-3, 1.0), st.floats(2.0, 50.0))
def test_two_rates_are_found_again(share: float, slow: float, times: float) -> None:
    fast = slow * times
    exact = share * np.exp(-fast * TIMES) + (1 - share) * np.exp(-slow * TIMES)
    found = fitted(exact[None], np.array([1.0 / fast]))
    days = MULTIPLES / fast
    p = found[0] * np.exp(-found[1] * days) + (1 - found[0]) * np.exp(-found[2] * days)
    assert p == pytest.approx(
        share * np.exp(-fast * days) + (1 - share) * np.exp(-slow * days), abs=0.02
    )


@settings(deadline=None, max_examples=60, derandomize=True)
@given(st.integers(4, 300), st.floats(1.1, 50.0), st.floats(0.1, 3.0))
def test_a_rate_that_grows_has_a_share_below_zero(number: int, shape: float, gap: float) -> None:
    """λ is 1 a day at the last visit, in a window of that many updates."""
    watched = number * shape
    exact = np.exp(-number * np.expm1(np.minimum(shape * np.log1p(TIMES / watched), 600.0)))
    share, fast, slow = fitted(exact[None], np.array([gap]))
    assert -1.0 <= share[0] <= 0.0
    assert fast[0] >= slow[0] > 0.0
    days = gap * MULTIPLES
    true = np.exp(-number * np.expm1(shape * np.log1p(days / watched)))
    p = share * np.exp(-fast * days) + (1 - share) * np.exp(-slow * days)
    assert p == pytest.approx(true, abs=0.02)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_page_seen_once_goes_on_as_any(name: str) -> None:
    found = estimate(name, Visits(np.array([3.0]), np.array([False]), np.array([0, 1])))
    assert -1.0 <= found.fast_share[0] <= 1.0
    assert found.fast_per_day[0] >= found.slow_per_day[0] >= 0.0


def test_the_fit_is_centred_on_the_mean_gap_or_on_the_mean_time_between_updates() -> None:
    visits = Visits(np.array([0.0, 0.0, 5.0]), np.array([False] * 3), np.array([0, 1, 3]))
    found = estimate("weibull", visits)
    mean = np.array([1.0 / found.rate_per_day[0], 5.0])
    expected = fitted(posterior(visits.gaps(), DEFAULT_PRIOR) @ SURVIVAL, mean)
    columns = found.fast_share, found.fast_per_day, found.slow_per_day
    assert np.array(columns) == pytest.approx(np.array(expected))


def test_pages_that_go_on_by_types_are_between_types_and_rates() -> None:
    gaps = visits_of(3, 10).gaps()
    alone = of_bayes(gaps, np.tile(TIMES, (PAGES, 1)))
    none = np.zeros(PAGES)
    never = Bursts(DEFAULT_BURSTS.shares, -10.0)
    found = with_bursts(alone, gaps, none, none, DEFAULT_PRIOR, never)
    assert found == pytest.approx(alone, abs=1 / (1 + np.exp(6.0)) + 1e-9)

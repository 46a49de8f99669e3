"""The ratio of two crawls of the same sites: exact examples, symmetries, and what is promised of it."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import norm, t as student

from hacs_crawler.statistics.twins import (
    MIXTURE_SD,
    Contrast,
    SiteTally,
    contrast,
    effective_sites,
    multiplier,
)

Crawls = tuple[SiteTally, SiteTally, np.ndarray, np.ndarray]
"""Those of two twins, the pages of each site, and what is known of its past."""


def tally(updates: object, visits: object, worth: float = 0.0) -> SiteTally:
    return SiteTally(np.array(updates, float), np.array(visits, float), np.array(worth))


def without_past(one: SiteTally, other: SiteTally, pages: object) -> Contrast:
    sizes = np.array(pages, float)
    return contrast(one, other, sizes, np.zeros((len(sizes), 0)))


@st.composite
def crawls(draw: st.DrawFn) -> Crawls:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    sites = draw(st.integers(12, 40))
    pages = rng.integers(1, 9, sites).astype(float)
    visits = rng.poisson(6.0 * pages, (2, sites)) + 1.0
    updates = rng.binomial(visits.astype(int), 0.4).astype(float) + 1.0
    worth = rng.uniform(0.0, 0.5, 2)
    past = rng.uniform(0.1, 1.0, (sites, 2)) * pages[:, None]
    one, other = (SiteTally(updates[n], visits[n], np.array(worth[n])) for n in range(2))
    return one, other, pages, past


def test_two_sites_are_compared_as_by_hand() -> None:
    """psi = (1/2, -1/2), leverage 1/2, so rho = (1, -1), and s^2 = 1/2 (1 + 1)."""
    found = without_past(tally([3, 1], [10, 10]), tally([1, 1], [10, 10]), [1, 1])
    assert found.log_ratio == pytest.approx(math.log(2))
    assert (found.error, found.freedom) == (pytest.approx(1.0), 1.0)


def test_a_visit_elsewhere_is_worth_less_than_the_mean_one() -> None:
    """mu = 0.1: psi_1 = (3 - 0.1 * 15 - (0.2 - 0.1) 20 / 2) / (4 / 2) = 1/4."""
    one = tally([3, 1], [15, 5], 0.1)
    assert without_past(one, tally([1, 1], [10, 10]), [1, 1]).error == pytest.approx(0.5)


@given(crawls())
def test_exchanged_twins_have_the_inverse_ratio_and_the_same_error(given_: Crawls) -> None:
    one, other, pages, past = given_
    found, back = contrast(one, other, pages, past), contrast(other, one, pages, past)
    assert back.log_ratio == pytest.approx(-found.log_ratio)
    assert back.error == pytest.approx(found.error)
    assert back.freedom == pytest.approx(found.freedom)
    low, high = found.interval(0.05)
    assert back.interval(0.05) == pytest.approx((1 / high, 1 / low))


@given(crawls(), st.floats(0.1, 10.0), st.floats(0.1, 10.0))
def test_units_and_a_column_of_the_past_that_says_nothing_new_change_nothing(
    given_: Crawls, pages_unit: float, past_unit: float
) -> None:
    one, other, pages, past = given_
    found = contrast(one, other, pages, past)
    more = np.concatenate([past_unit * past, 2.0 * past], axis=-1)
    scaled = contrast(one, other, pages_unit * pages, more)
    assert scaled.error == pytest.approx(found.error)
    assert scaled.freedom == pytest.approx(found.freedom)


@given(crawls(), st.integers(2, 5))
def test_as_many_times_the_visits_with_as_many_updates_say_the_same(
    given_: Crawls, times: int
) -> None:
    one, other, pages, past = given_
    more = [
        SiteTally(times * part.updates, times * part.visits, part.worth) for part in (one, other)
    ]
    found, scaled = contrast(one, other, pages, past), contrast(*more, pages, past)
    assert scaled.log_ratio == pytest.approx(found.log_ratio)
    assert scaled.error == pytest.approx(found.error)


@given(crawls())
def test_samples_are_compared_one_by_one(given_: Crawls) -> None:
    one, other, pages, past = given_
    both = [
        SiteTally(
            *(
                np.stack([getattr(two[place], name) for two in ((one, other), (other, one))])
                for name in ("updates", "visits", "worth")
            )
        )
        for place in range(2)
    ]
    found = contrast(*both, pages, past)
    assert found.error[0] == pytest.approx(float(contrast(one, other, pages, past).error))
    assert found.log_ratio[1] == pytest.approx(-found.log_ratio[0])


def test_giants_leave_few_degrees_of_freedom() -> None:
    rng = np.random.default_rng(1)
    pages = np.array([400.0, 400.0, *[4.0] * 50])
    visits = pages.copy()
    updates = rng.binomial(visits.astype(int), 0.3) + 1.0
    one, other = tally(updates, visits), tally(updates[::-1].copy()[::-1] + 1.0, visits)
    assert without_past(one, other, pages).freedom <= effective_sites(pages) - 1 < 2.2


def test_without_an_update_nothing_is_said() -> None:
    found = without_past(tally([0, 0], [1, 1]), tally([1, 1], [1, 1]), [1, 1])
    assert np.isnan(found.interval(0.05)[0])


def test_crawls_that_are_worth_the_same_are_rarely_told_apart_however_often_one_looks() -> None:
    """300 experiments of 40 days on sites that differ, one look a day."""
    rng = np.random.default_rng(3)
    runs, days, sites = 300, 40, 30
    pages = rng.integers(2, 12, sites).astype(float)
    rate = rng.beta(1.0, 3.0, (runs, 1, sites))
    sums = []
    for _ in range(2):
        visits = rng.poisson(pages / 4, (runs, days, sites))
        sums.append((np.cumsum(rng.binomial(visits, rate), 1), np.cumsum(visits, 1)))
    worth = np.full((runs, days), 0.05)
    tallies = [
        SiteTally(updates.astype(float), visits.astype(float), worth) for updates, visits in sums
    ]
    low, high = contrast(*tallies, pages, np.zeros((sites, 0))).interval(0.05)
    is_enough = np.min([(one.updates > 0).sum(-1) for one in tallies], axis=0) >= 10
    assert (((low > 1) | (high < 1)) & is_enough).any(1).mean() <= 0.05


# Intervals that hold at every look


errors = st.floats(1e-3, 2.0)


@given(errors, st.floats(1e-4, 0.2))
def test_at_the_boundary_the_mixture_of_likelihood_ratios_is_one_over_alpha(
    error: float, alpha: float
) -> None:
    difference = float(multiplier(error, alpha)) * error
    grid = np.linspace(-12 * MIXTURE_SD, 12 * MIXTURE_SD, 200_001)
    log_ratio = (difference * grid - grid**2 / 2) / error**2
    top = log_ratio.max()
    density = norm.pdf(grid, scale=MIXTURE_SD)
    mixed = np.sum(np.exp(log_ratio - top) * density) * (grid[1] - grid[0])
    assert top + math.log(mixed) == pytest.approx(-math.log(alpha), rel=2e-3, abs=2e-3)


@given(errors)
def test_looking_often_costs_at_least_half_as_much_again(error: float) -> None:
    assert multiplier(error, 0.05) > 1.5 * norm.ppf(0.975)


@given(errors, st.floats(1, 1000))
def test_few_degrees_of_freedom_widen_as_students_t_does(error: float, freedom: float) -> None:
    normal = multiplier(error, 0.05)
    if normal > 8:  # beyond, the tails cannot be told from 0
        return
    few = multiplier(error, 0.05, freedom)
    assert few >= normal
    assert student.sf(few, freedom) == pytest.approx(norm.sf(normal), rel=1e-4)


def test_without_an_error_there_is_no_multiplier_and_with_an_infinite_one_no_end() -> None:
    assert np.isnan(multiplier(math.nan, 0.05))
    assert np.isinf(multiplier(math.inf, 0.05))


def test_a_path_without_drift_crosses_rarely_however_often_one_looks() -> None:
    random = np.random.default_rng(0)
    information = np.cumsum(np.full(1_000, 1.0))
    score = np.cumsum(random.normal(size=(2_000, 1_000)), axis=1)
    estimate, error = score / information, 1 / np.sqrt(information)
    looked = np.abs(estimate) > multiplier(error, 0.05) * error
    naive = np.abs(estimate) > 1.96 * error
    assert looked.any(axis=1).mean() < 0.05
    assert naive.any(axis=1).mean() > 0.4

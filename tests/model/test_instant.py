"""What a visit of a hub is worth, against numerical integration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from hacs_crawler.model import (
    best_interval_days,
    hub_rate,
    instant_index,
    mean_days,
    tier_rate,
    update_index,
    value_per_day,
    visit_value,
)
from hacs_crawler.model.lognormal import lognormal_cumulative

mus = st.floats(-3.0, 3.0)
sigmas = st.floats(0.2, 2.0)
rates = st.floats(0.01, 1000.0)
days = st.floats(0.001, 100.0)


def rest(t: float, mu: float, sigma: float) -> float:
    return float(1.0 - lognormal_cumulative(t, np.array(mu), np.array(sigma)))


@given(days, rates, mus, sigmas)
def test_the_value_of_a_visit_is_the_integral_of_the_interest_that_is_left(
    e: float, rate: float, mu: float, sigma: float
) -> None:
    whole, _ = quad(rest, 0.0, e, args=(mu, sigma), epsabs=1e-12, limit=200)
    assert visit_value(e, rate, mu, sigma) == pytest.approx(rate * whole, rel=1e-5, abs=1e-9)


@given(days, rates, mus, sigmas, st.floats(0.1, 10.0))
def test_the_index_is_the_value_without_what_waiting_adds(
    e: float, rate: float, mu: float, sigma: float, worth: float
) -> None:
    value = visit_value(e, rate, mu, sigma, worth)
    expected = value - e * value_per_day(e, rate, mu, sigma, worth)
    found = instant_index(e, rate, mu, sigma, worth)
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-9 * float(value))


@given(days, mus, sigmas)
def test_the_value_grows_by_its_derivative(e: float, mu: float, sigma: float) -> None:
    step = 1e-5 * e
    slope = (visit_value(e + step, 1.0, mu, sigma) - visit_value(e - step, 1.0, mu, sigma)) / (
        2 * step
    )
    assert slope == pytest.approx(float(value_per_day(e, 1.0, mu, sigma)), rel=1e-3, abs=1e-6)


@given(rates, mus, sigmas)
def test_after_a_long_time_all_that_is_left_is_the_mean_time_of_interest(
    rate: float, mu: float, sigma: float
) -> None:
    most = rate * mean_days(mu, sigma)
    assert visit_value(np.inf, rate, mu, sigma) == pytest.approx(most)
    assert instant_index(np.inf, rate, mu, sigma) == pytest.approx(most)
    assert instant_index(0.0, rate, mu, sigma) == 0.0


@given(st.floats(0.01, 0.99), rates, mus, sigmas)
def test_at_the_best_interval_the_index_is_the_price(
    share: float, rate: float, mu: float, sigma: float
) -> None:
    price = share * rate * float(mean_days(mu, sigma))
    best = best_interval_days(price, rate, mu, sigma)
    assert instant_index(best, rate, mu, sigma) == pytest.approx(price)


@given(st.floats(0.05, 0.95), mus, sigmas)
def test_no_other_interval_brings_more_for_its_price(share: float, mu: float, sigma: float) -> None:
    price = share * float(mean_days(mu, sigma))
    best = float(best_interval_days(price, 1.0, mu, sigma))

    def gain_a_day(interval: float) -> float:
        return (float(visit_value(interval, 1.0, mu, sigma)) - price) / interval

    others = best * np.array([0.5, 0.9, 1.1, 2.0])
    assert all(gain_a_day(best) >= gain_a_day(one) - 1e-12 for one in others)


def test_a_hub_that_is_worth_less_than_the_price_is_never_visited_for_its_links() -> None:
    price = float(mean_days(0.0, 1.0))
    assert best_interval_days([price, 2 * price, 0.0], 1.0, 0.0, 1.0).tolist() == [
        np.inf,
        np.inf,
        0.0,
    ]


@given(st.floats(0.0, 20.0))
def test_the_index_of_an_update_goes_by_p_alone(expected_updates: float) -> None:
    x = expected_updates
    assert update_index(-np.expm1(-x)) == pytest.approx(1.0 - (1.0 + x) * np.exp(-x), abs=1e-7)


def test_a_page_that_is_surely_updated_is_worth_one_update() -> None:
    found = update_index(np.array([0.0, 0.3, 0.9, 1.0]))
    assert found[0] == 0.0
    assert found[-1] == 1.0
    assert np.all(np.diff(found) > 0)


def test_a_new_hub_has_the_rate_of_its_tier_and_an_old_one_its_own() -> None:
    links, elapsed = np.array([0.0, 3000.0, 0.0]), np.array([0.0, 100.0, 100.0])
    of_tier = tier_rate(links, elapsed, optimistic=24.0)
    assert of_tier == pytest.approx((24 + 3000) / 201)
    new, busy, quiet = hub_rate(links, elapsed, of_tier)
    assert new == pytest.approx(of_tier)
    assert busy == pytest.approx(30.0, rel=0.01)
    assert 0.0 < quiet < 0.01

"""What a visit of a hub is worth, against numerical integration."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.integrate import quad

from hacs_crawler.lab.interest.curves import lognormal_cumulative
from hacs_crawler.ranking.instant import hub_rate, instant_index, tier_rate

mus = st.floats(-3.0, 3.0)
sigmas = st.floats(0.2, 2.0)
rates = st.floats(0.01, 1000.0)
days = st.floats(0.001, 100.0)


def mean_days(mu: float, sigma: float) -> float:
    """The mean time of interest in a link."""
    return float(np.exp(mu + sigma**2 / 2))


def rest(t: float, mu: float, sigma: float) -> float:
    return float(1.0 - lognormal_cumulative(t, np.array(mu), np.array(sigma)))


@given(days, rates, mus, sigmas, st.floats(0.1, 10.0))
def test_the_index_is_the_interest_left_in_new_links_without_what_waiting_adds(
    e: float, rate: float, mu: float, sigma: float, worth: float
) -> None:
    whole, _ = quad(rest, 0.0, e, args=(mu, sigma), epsabs=1e-12, limit=200)
    expected = rate * worth * (whole - e * rest(e, mu, sigma))
    found = float(instant_index(e, rate, mu, sigma, worth))
    assert found == pytest.approx(expected, rel=1e-5, abs=1e-8 * rate * worth * max(whole, 1.0))


@given(rates, mus, sigmas)
def test_after_a_long_time_the_index_is_the_mean_time_of_interest(
    rate: float, mu: float, sigma: float
) -> None:
    assert instant_index(np.inf, rate, mu, sigma) == pytest.approx(rate * mean_days(mu, sigma))
    assert instant_index(0.0, rate, mu, sigma) == 0.0


@pytest.mark.parametrize("share", [0.05, 0.5, 0.9])
@pytest.mark.parametrize(("mu", "sigma"), [(-2.0, 0.4), (0.0, 1.0), (2.0, 1.8)])
def test_no_interval_brings_more_than_that_at_which_the_index_is_the_price(
    share: float, mu: float, sigma: float
) -> None:
    price = share * mean_days(mu, sigma)
    intervals = np.exp(mu + sigma * np.linspace(-4.0, 6.0, 60))
    value = np.array([quad(rest, 0.0, days, args=(mu, sigma), limit=200)[0] for days in intervals])
    best = int(np.argmax((value - price) / intervals))
    assert 0 < best < 59
    assert instant_index(intervals[best - 1], 1.0, mu, sigma) < price
    assert instant_index(intervals[best + 1], 1.0, mu, sigma) > price


def test_a_new_hub_has_the_rate_of_its_tier_and_an_old_one_its_own() -> None:
    links, elapsed = np.array([0.0, 3000.0, 0.0]), np.array([0.0, 100.0, 100.0])
    of_tier = tier_rate(links, elapsed, optimistic=24.0)
    assert of_tier == pytest.approx((24 + 3000) / 201)
    new, busy, quiet = hub_rate(links, elapsed, of_tier)
    assert new == pytest.approx(of_tier)
    assert busy == pytest.approx(30.0, rel=0.01)
    assert 0.0 < quiet < 0.01

"""p where the rate is uncertain: against plain quadrature, and by its limits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from hacs_crawler.model import DEFAULT_PRIOR, LogNormalPrior, gaps_between, update_probability
from hacs_crawler.model.bayes import bayes, bayes_with_spread
from hacs_crawler.model.predictive import MOST_SPREAD, predictive_probability, spread_of

rates = st.floats(1e-9, 1e4)
spreads = st.floats(0.0, MOST_SPREAD)
spans = st.floats(0.0, 1e5)
Z = np.linspace(-10.0, 10.0, 8001)
NORMAL = np.exp(-Z * Z / 2) / np.exp(-Z * Z / 2).sum()


def by_quadrature(rate: float, log_sd: float, days: float) -> float:
    rates_per_day = rate * np.exp(log_sd * Z - log_sd * log_sd / 2)
    return float(-np.expm1(-rates_per_day * days) @ NORMAL)


def test_a_page_seen_once_is_less_likely_to_have_changed_than_its_mean_rate_says() -> None:
    rate = DEFAULT_PRIOR.mean_rate
    assert update_probability(rate, 30.0) == pytest.approx(0.568, abs=0.001)
    found = predictive_probability(rate, DEFAULT_PRIOR.log_sd, 30.0)
    assert found == pytest.approx(0.339, abs=0.001)


@given(rates, spreads, spans)
def test_p_is_that_of_plain_quadrature(rate: float, log_sd: float, days: float) -> None:
    found = predictive_probability(rate, log_sd, days)
    assert found == pytest.approx(by_quadrature(rate, log_sd, days), abs=5e-4)


@given(rates, spans)
def test_where_the_rate_is_known_p_is_equation_1(rate: float, days: float) -> None:
    expected = update_probability(rate, days)
    assert predictive_probability(rate, 0.0, days) == pytest.approx(float(expected), rel=1e-9)


@given(rates, spreads, spans, spans)
def test_p_grows_with_time_and_is_never_above_that_of_a_known_rate(
    rate: float, log_sd: float, one: float, other: float
) -> None:
    low, high = predictive_probability(rate, log_sd, np.sort([one, other]))
    assert 0.0 <= low <= high <= update_probability(rate, max(one, other)) + 1e-9


@given(spreads, spans)
def test_p_grows_with_the_rate(log_sd: float, days: float) -> None:
    found = predictive_probability(np.geomspace(1e-6, 1e3, 50), log_sd, days)
    assert (np.diff(found) >= 0).all()


def test_a_page_never_visited_is_sure_to_be_new() -> None:
    assert predictive_probability(0.0, 1.0, math.inf) == 1.0


def test_without_a_rate_or_time_there_is_no_update() -> None:
    assert predictive_probability([0.0, 0.5], 1.0, [5.0, 0.0]).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("rate", "log_sd", "days"),
    [
        (-1.0, 0.0, 1.0),
        (math.inf, 0.0, 1.0),
        (1.0, -0.1, 1.0),
        (1.0, math.nan, 1.0),
        (1.0, 0.0, -1.0),
    ],
)
def test_what_is_no_rate_spread_or_time_is_refused(rate: float, log_sd: float, days: float) -> None:
    with pytest.raises(ValueError, match="must be at least 0"):
        predictive_probability(rate, log_sd, days)


@given(st.floats(0.0, 3.0))
def test_the_spread_comes_back_from_p_after_one_update_expected(log_sd: float) -> None:
    assert spread_of(predictive_probability(1.0, log_sd, 1.0)) == pytest.approx(log_sd, abs=0.01)


def test_a_page_without_gaps_has_the_priors_spread() -> None:
    prior = LogNormalPrior(-3.0, 1.2)
    gaps = gaps_between(np.array([5.0]), np.array([True]), np.array([0, 1]))
    rate, log_sd = bayes_with_spread(gaps, prior)
    assert (rate[0], log_sd[0]) == (prior.mean_rate, prior.log_sd)


def test_the_more_is_seen_of_a_page_the_less_its_rate_is_spread() -> None:
    spread = []
    for number in (1, 4, 16, 64):
        days = np.arange(number + 1) * 10.0
        updated = np.arange(number + 1) % 3 == 0
        gaps = gaps_between(days, updated, np.array([0, len(days)]))
        spread.append(float(bayes_with_spread(gaps, DEFAULT_PRIOR)[1][0]))
    assert spread == sorted(spread, reverse=True)
    assert 0.0 < spread[-1] < 0.4 < spread[0] < DEFAULT_PRIOR.log_sd


def test_p_is_within_three_hundredths_of_the_posteriors_own() -> None:
    """The log-normal form of a posterior: exact in mean and after 1/mean days, near elsewhere."""
    random = np.random.default_rng(5)
    numbers = random.integers(1, 20, 150)
    offsets = np.concatenate([[0], np.cumsum(numbers)])
    true = np.repeat(np.exp(random.normal(DEFAULT_PRIOR.log_median, 1.5, 150)), numbers)
    waits = random.lognormal(3.0, 1.0, offsets[-1])
    days = np.cumsum(waits)
    gaps = gaps_between(days, random.random(len(days)) < -np.expm1(-true * waits), offsets, 365.0)
    rate, log_sd = bayes_with_spread(gaps, DEFAULT_PRIOR)
    assert rate == pytest.approx(bayes(gaps, DEFAULT_PRIOR), rel=1e-12)
    x = np.linspace(-20.0, 6.0, 4001)
    page = np.repeat(np.arange(150), gaps.counts)
    worst = 0.0
    for place in range(150):
        own = page == place
        t, w, updated = gaps.days[own, None], gaps.weight[own, None], gaps.updated[own, None]
        each = np.where(updated, np.log(-np.expm1(-t * np.exp(x)) + 1e-300), -t * np.exp(x))
        log_density = (w * each).sum(axis=0) - 0.5 * ((x - DEFAULT_PRIOR.log_median) / 1.5) ** 2
        density = np.exp(log_density - log_density.max())
        density /= density.sum()
        for times in (0.1, 0.3, 1.0, 3.0, 10.0):
            span = times / rate[place]
            exact = float(-np.expm1(-np.exp(x) * span) @ density)
            error = abs(float(predictive_probability(rate[place], log_sd[place], span)) - exact)
            worst = max(worst, error)
            assert times != 1.0 or error < 0.003
    assert worst < 0.03

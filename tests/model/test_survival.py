"""Rates and elapsed time become a probability: of one known rate, and of two."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from hacs_crawler.model import (
    chance_of_update,
    days_out_of_date,
    elapsed_days,
    update_index,
    update_probability,
)
from hacs_crawler.ranking.bound import highest_rate

rates = st.floats(0, 1e6)
spans = st.floats(0, allow_nan=False)


@given(rates, rates, spans, spans)
@settings(deadline=None, derandomize=True)
def test_no_higher_rate_and_no_more_time_lowers_it_and_it_lies_between_0_and_1(a, b, c, d):
    p = update_probability(np.sort([a, b])[:, None], np.sort([c, d]))
    assert (np.diff(p, axis=0) >= 0).all()
    assert (np.diff(p, axis=1) >= 0).all()
    assert ((p >= 0) & (p <= 1)).all()


@pytest.mark.parametrize(
    ("rate", "days", "p"),
    [
        (1 / 110, 110, 1 - math.exp(-1)),
        (1e-12, 1e-6, 1e-18),  # small products keep their precision
        *((rate, math.inf, 1) for rate in (0.0, 1e-300, 5.0)),  # never visited
        (0.0, 1e9, 0),
    ],
)
def test_p_of_one_rate_is_that_of_a_poisson_process(rate, days, p):
    assert update_probability(rate, days) == pytest.approx(p, rel=1e-12)


def test_days_run_from_a_reference_to_now_and_are_infinite_without_one():
    found = elapsed_days(12.0, np.array([3.0, 10.0, math.nan, 14.0]))
    assert found.tolist() == [9, 2, math.inf, 0], "one in the future counts as now"


shares, positive = st.floats(0, 1), st.floats(1e-4, 10)


@given(shares, positive, positive, spans, spans)
@settings(deadline=None, derandomize=True)
def test_of_two_rates_p_grows_with_time_up_to_one(share, one, other, a, b):
    slow, fast = sorted([one, other])
    low, high = chance_of_update(share, fast, slow, np.sort([a, b]))
    assert 0 <= low <= high <= 1


def test_a_share_below_zero_is_a_rate_that_grows():
    days = np.linspace(0, 30, 400)
    hazard = np.diff(-np.log1p(-chance_of_update(-1.0, 0.4, 0.2, days))) / np.diff(days)
    assert (np.diff(hazard) > 0).all()
    assert hazard[0] < 0.01
    assert hazard[-1] == pytest.approx(0.2, rel=0.02)


@given(st.floats(-1, 1), positive, st.floats(1, 20), st.floats(0, 100))
@settings(deadline=None, derandomize=True)
def test_no_survival_falls_faster_than_at_its_highest_rate(share, slow, times, days):
    fast = 2 * slow if share < 0 else times * slow
    p = chance_of_update(share, fast, slow, days)
    assert p <= -math.expm1(-highest_rate(share, fast, slow) * days) + 1e-12


@given(st.floats(-1, 1), positive, st.floats(1, 20), st.floats(0.01, 100))
@settings(deadline=None, derandomize=True)
def test_days_out_of_date_are_the_integral_of_s_less_x_times_s(share, slow, times, days):
    fast = 2 * slow if share < 0 else times * slow
    t = np.linspace(0, days, 100_001)
    s = 1 - chance_of_update(share, fast, slow, t)
    expected = (s[:-1] + s[1:]) @ np.diff(t) / 2 - days * s[-1]
    assert days_out_of_date(share, fast, slow, days) == pytest.approx(expected, rel=1e-3, abs=1e-6)


def test_days_out_of_date_of_small_rates_keep_their_precision():
    """For one rate it is λ x² / 2 when λ x is small."""
    assert days_out_of_date(1.0, 1e-12, 1e-12, 10.0) == pytest.approx(5e-11)
    assert days_out_of_date(1.0, 0.0, 0.0, 10.0) == 0.0


@given(st.floats(0.0, 20.0))
def test_the_index_of_an_update_goes_by_p_alone(expected_updates: float) -> None:
    x = expected_updates
    assert update_index(-np.expm1(-x)) == pytest.approx(1.0 - (1.0 + x) * np.exp(-x), abs=1e-7)
    assert update_index(1.0) == 1.0

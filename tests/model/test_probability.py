"""Rate and elapsed time become a probability."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from hacs_crawler.model import elapsed_days, update_probability

rates = st.floats(0, 1e6)
spans = st.floats(0, allow_nan=False)


@given(rates, spans)
@settings(deadline=None, derandomize=True)
def test_probability_lies_between_0_and_1(rate, span):
    assert 0 <= update_probability(rate, span) <= 1


@given(rates, rates, spans)
@settings(deadline=None, derandomize=True)
def test_a_higher_rate_never_lowers_it(a, b, span):
    low, high = update_probability(np.sort([a, b]), span)
    assert low <= high


@given(rates, spans, spans)
@settings(deadline=None, derandomize=True)
def test_more_time_never_lowers_it(rate, a, b):
    low, high = update_probability(rate, np.sort([a, b]))
    assert low <= high


def test_one_mean_interval_gives_1_minus_1_over_e():
    assert update_probability(1 / 110, 110) == pytest.approx(1 - math.exp(-1))


def test_small_products_keep_their_precision():
    assert update_probability(1e-12, 1e-6) == pytest.approx(1e-18, rel=1e-12)


@pytest.mark.parametrize("rate", [0.0, 1e-300, 5.0])
def test_a_page_never_visited_is_sure_to_be_new(rate):
    assert update_probability(rate, math.inf) == 1


def test_a_page_that_never_changes_is_never_due():
    assert update_probability(0.0, 1e9) == 0


@pytest.mark.parametrize(
    ("rate", "span"), [(-1.0, 1.0), (math.nan, 1.0), (math.inf, 1.0), (1.0, -1.0), (1.0, math.nan)]
)
def test_impossible_rates_and_times_are_refused(rate, span):
    with pytest.raises(ValueError, match="at least 0"):
        update_probability(rate, span)


def test_elapsed_runs_from_the_reference_to_now():
    assert elapsed_days(12.0, np.array([3.0, 10.0])).tolist() == [9, 2]


def test_elapsed_is_infinite_without_a_reference():
    assert elapsed_days(10.0, math.nan) == math.inf


def test_a_reference_in_the_future_counts_as_now():
    assert elapsed_days(10.0, 12.0) == 0

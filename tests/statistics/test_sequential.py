"""Intervals that hold at every look."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import norm, t as student

from hacs_crawler.statistics.clusters import Rate, difference_of, rate_of
from hacs_crawler.statistics.sequential import (
    MIXTURE_SD,
    anytime_multiplier,
    detecting_error,
    interval_of,
    multiplier,
    ratio_interval,
)

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


def test_experiments_without_a_difference_are_rarely_taken_for_one() -> None:
    """Sites that differ, visited daily for two months, 300 experiments, one look a day."""
    random = np.random.default_rng(1)
    p = np.minimum(random.lognormal(-2.5, 1.0, (300, 40)), 1.0)
    updates, visits = np.zeros_like(p), np.zeros_like(p)
    alarmed, naive = np.zeros(300, np.bool_), np.zeros(300, np.bool_)
    for _ in range(60):
        updates += random.binomial(3, p)
        visits += 3
        arm, control = (rate_of(updates[:, half], visits[:, half]) for half in halves())
        scale = updates.sum(-1) / visits.sum(-1)
        low, high = interval_of(
            difference := difference_of(arm, control, scale), anytime_multiplier(difference, 0.05)
        )
        alarmed |= (low > 0) | (high < 0)
        naive |= np.abs(difference.value) > 1.96 * np.sqrt(scale * (1 - scale) * 4 / visits.sum(-1))
    assert alarmed.mean() < 0.02
    assert naive.mean() > 0.7


def halves() -> tuple[slice, slice]:
    return slice(20), slice(20, None)


def rate(value: float, error: float) -> Rate:
    return Rate(np.array(value), np.array(error), np.array(30.0))


rates = st.builds(rate, st.floats(0.01, 0.9), st.floats(0.001, 0.2))


@given(rates, rates)
def test_the_ratios_interval_leaves_out_1_where_the_differences_leaves_out_0(
    arm: Rate, control: Rate
) -> None:
    difference = difference_of(arm, control, (arm.value + control.value) / 2)
    multiple = anytime_multiplier(difference, 0.05)
    low, high = interval_of(difference, multiple)
    low_ratio, high_ratio = ratio_interval(arm, control, multiple)
    assert low_ratio <= arm.value / control.value <= high_ratio
    if math.isfinite(high_ratio) and min(abs(low), abs(high)) > 1e-9:
        assert (low > 0) == (low_ratio > 1)
        assert (high < 0) == (high_ratio < 1)


def test_a_control_that_may_have_no_rate_leaves_the_ratio_open() -> None:
    low, high = ratio_interval(rate(0.3, 0.1), rate(0.1, 0.1), np.array(3.0))
    assert (low, high) == (0, math.inf)


@pytest.mark.parametrize(("ratio", "freedom"), [(1.1, math.inf), (1.3, 30.0), (1 / 1.3, 30.0)])
def test_at_the_detecting_error_the_ratio_is_found_in_four_of_five_experiments(
    ratio: float, freedom: float
) -> None:
    error = detecting_error(ratio, 0.05, freedom)
    reach = float(multiplier(error, 0.05, freedom))
    assert norm.sf(reach, loc=abs(math.log(ratio)) / error) == pytest.approx(0.8, abs=1e-6)

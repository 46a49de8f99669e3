"""Intervals that hold at every look."""

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import norm, t as student

from hacs_crawler.statistics.twins import MIXTURE_SD, multiplier

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

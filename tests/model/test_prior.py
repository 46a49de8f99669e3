"""The prior of rates and its fit to a store."""

import math

import numpy as np
import pytest

from hacs_crawler.model import DEFAULT_PRIOR, Gaps, LogNormalPrior, fit_prior
from hacs_crawler.model.grid import MIN_PAGES_TO_FIT
from model_support import gaps_between

TRUTH = LogNormalPrior(log_median=-math.log(30.0), log_sd=0.8)


def store(n_pages, prior=TRUTH, n_gaps=10, seed=5):
    rng = np.random.default_rng(seed)
    rates = np.exp(rng.normal(prior.log_median, prior.log_sd, n_pages))
    gap_days = rng.lognormal(math.log(14.0), 1.0, (n_pages, n_gaps))
    updated = rng.random(gap_days.shape) < -np.expm1(-rates[:, None] * gap_days)
    return Gaps(
        gap_days.ravel(), updated.ravel(), np.ones(gap_days.size), np.arange(n_pages + 1) * n_gaps
    )


def test_default_median_is_110_days():
    assert math.exp(-DEFAULT_PRIOR.log_median) == pytest.approx(110)
    assert DEFAULT_PRIOR.log_sd == 1.5


def test_mean_rate_is_that_of_the_log_normal():
    assert LogNormalPrior(0.0, 2.0).mean_rate == pytest.approx(math.exp(2.0))


@pytest.mark.parametrize(
    ("log_median", "log_sd"), [(math.nan, 1.0), (math.inf, 1.0), (0.0, 0.0), (0.0, math.nan)]
)
def test_a_prior_needs_a_finite_median_and_a_positive_spread(log_median, log_sd):
    with pytest.raises(ValueError, match="log_"):
        LogNormalPrior(log_median, log_sd)


def test_fit_recovers_a_known_prior():
    fitted = fit_prior(store(2000))
    assert fitted.log_median == pytest.approx(TRUTH.log_median, abs=0.1)
    assert fitted.log_sd == pytest.approx(TRUTH.log_sd, abs=0.1)


@pytest.mark.parametrize("fade_days", [90.0, 365.0, math.inf])
def test_fading_does_not_bias_the_fit(fade_days):
    rng = np.random.default_rng(0)
    n_pages, n_gaps = 2000, 30
    rates = np.exp(rng.normal(DEFAULT_PRIOR.log_median, DEFAULT_PRIOR.log_sd, n_pages))
    gap_days = rng.lognormal(math.log(30.0), 1.0, (n_pages, n_gaps))
    updated = np.zeros((n_pages, n_gaps + 1), np.bool_)
    updated[:, 1:] = rng.random(gap_days.shape) < -np.expm1(-rates[:, None] * gap_days)
    days = np.zeros(updated.shape)
    np.cumsum(gap_days, axis=1, out=days[:, 1:])
    offsets = np.arange(n_pages + 1) * (n_gaps + 1)
    fitted = fit_prior(gaps_between(days.ravel(), updated.ravel(), offsets, fade_days))
    assert fitted.log_sd == pytest.approx(1.5, abs=0.08)
    assert fitted.mean_rate == pytest.approx(DEFAULT_PRIOR.mean_rate, rel=0.12)


def test_scaling_time_moves_the_median_alone():
    gaps = store(300)
    slower = Gaps(gaps.days * 7, gaps.updated, gaps.weight, gaps.offsets)
    fitted, scaled = fit_prior(gaps), fit_prior(slower)
    assert scaled.log_median == pytest.approx(fitted.log_median - math.log(7), abs=0.01)
    assert scaled.log_sd == pytest.approx(fitted.log_sd, abs=0.01)


def test_pages_without_gaps_are_ignored():
    gaps = store(100)
    padded = Gaps(gaps.days, gaps.updated, gaps.weight, np.repeat(gaps.offsets, 3))
    assert fit_prior(padded) == fit_prior(gaps)


def test_without_enough_pages_or_any_update_the_default_stays():
    assert fit_prior(store(MIN_PAGES_TO_FIT)) != DEFAULT_PRIOR
    gaps = store(200)
    quiet = Gaps(gaps.days, np.zeros_like(gaps.updated), gaps.weight, gaps.offsets)
    for some in (store(MIN_PAGES_TO_FIT - 1), quiet, store(0)):
        assert fit_prior(some) == DEFAULT_PRIOR


@pytest.mark.parametrize("rate_spread", [0.0, 12.0])
def test_spread_stays_within_its_bounds(rate_spread):
    fitted = fit_prior(store(500, LogNormalPrior(-4.0, max(rate_spread, 1e-9)), n_gaps=50))
    assert 0.3 <= fitted.log_sd <= 1.75
    assert math.isfinite(fitted.log_median)

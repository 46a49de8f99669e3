"""Curves fitted in batches: what is put in comes out, and one by one SciPy finds the same."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.optimize import minimize
from scipy.stats import lognorm

from hacs_crawler.lab.interest.curves import fit_anchored, lognormal_cumulative, rise_of
from hacs_crawler.utils.arrays import FloatArray

DAYS = 60
CURVES = ("mu", "sigma", "b", "scale")


def expected(mu: float, sigma: float, birth: float, views: float) -> FloatArray:
    """What a curve brings on each day."""
    edges = np.maximum(np.arange(DAYS + 1) - birth, 0)
    return views * np.diff(lognorm.cdf(edges, sigma, scale=np.exp(mu)))


def drawn(n: int, seed: int = 0) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Views of pages born in the window, and their mu, sigma and b."""
    random = np.random.default_rng(seed)
    mu, sigma = random.uniform(0, 1.5, n), random.uniform(0.4, 0.9, n)
    b = random.integers(1, 30, n) + 0.0
    views = [random.poisson(expected(*one, 20_000)) for one in zip(mu, sigma, b, strict=True)]
    return np.array(views, dtype=np.float64), mu, sigma, b


def test_the_share_that_has_come_is_the_log_normal_distribution_and_nothing_before_day_0() -> None:
    t, mu, sigma = np.array([0.2, 1.0, 7.0]), np.array(0.5), np.array(0.8)
    known = lognorm.cdf(t, sigma, scale=np.exp(mu))
    assert lognormal_cumulative(t, mu, sigma) == pytest.approx(known, rel=1e-12)
    assert lognormal_cumulative(np.array([-1.0, 0.0]), mu, sigma).tolist() == [0.0, 0.0]


def test_the_anchored_fit_recovers_the_curve_that_made_the_views() -> None:
    views, mu, sigma, b = drawn(300)
    found = fit_anchored(views)
    assert np.median(np.abs(found.mu - mu)) < 0.05
    assert np.median(np.abs(found.sigma - sigma)) < 0.03
    assert np.median(np.abs(found.b - b)) < 0.1
    phi = lognormal_cumulative(3.0, mu, sigma)
    assert np.quantile(np.abs(found.phi(3) - phi), 0.95) < 0.08


def test_of_single_pages_scipy_finds_what_the_batch_of_the_anchored_fit_found() -> None:
    views, *_ = drawn(8, seed=4)
    batch = fit_anchored(views)
    rise = rise_of(views)

    def loss(parameters: FloatArray, y: FloatArray, edges: FloatArray) -> float:
        b, mu, log_sigma = parameters
        share = np.diff(lognormal_cumulative(edges - b, np.array(mu), np.array(np.exp(log_sigma))))
        share = share + 1e-9
        likelihood = float((y / y.sum()) @ np.log(share / share.sum()))
        return -likelihood + 0.5e-4 * (mu**2 + log_sigma**2)

    for page, y in enumerate(views):
        since = y[rise[page] :]
        edges = np.arange(since.size + 1.0)
        ours = np.array([batch.b[page] - rise[page], batch.mu[page], np.log(batch.sigma[page])])
        theirs = minimize(
            loss,
            [-0.5, 0.5, -0.5],
            (since, edges),
            "L-BFGS-B",
            bounds=[(-2, 0), (-6, 8), (np.log(0.05), np.log(4))],
        )
        assert loss(ours, since, edges) <= theirs.fun + 1e-6


@settings(max_examples=25, deadline=None)
@given(
    mu=st.floats(-1, 2.5),
    sigma=st.floats(0.3, 1.2),
    birth=st.integers(0, 50),
    factor=st.sampled_from([0.01, 3.0, 1e6]),
)
def test_multiples_of_the_views_have_the_same_curve_but_for_its_scale(
    mu: float, sigma: float, birth: int, factor: float
) -> None:
    views = np.round(expected(mu, sigma, birth, 5000))[None, :]
    one, many = fit_anchored(views), fit_anchored(factor * views)
    for name in ("mu", "sigma", "b"):
        assert getattr(many, name) == pytest.approx(getattr(one, name), rel=1e-4, abs=1e-4)
    assert many.scale == pytest.approx(factor * one.scale, rel=1e-4)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.integers(0, 10**6), min_size=5, max_size=5), min_size=1, max_size=4))
def test_any_counts_have_finite_curves_or_none_at_all(counts: list[list[int]]) -> None:
    views = np.array(counts, dtype=np.float64)
    has_views = views.sum(axis=1) > 0
    found = fit_anchored(views)
    for name in CURVES:
        assert np.isfinite(getattr(found, name)).tolist() == has_views.tolist()


def test_the_birth_is_anchored_within_two_days_before_the_rise() -> None:
    views, *_ = drawn(200, seed=5)
    b, rise = fit_anchored(views).b, rise_of(views)
    assert (b <= rise).all()
    assert (b >= rise - 2).all()


def test_a_page_with_all_its_views_on_one_day_is_over_within_three() -> None:
    views = np.zeros((2, DAYS))
    views[0, 20], views[1, DAYS - 1] = 500, 500
    found = fit_anchored(views)
    assert found.phi(3)[0] > 0.8
    assert np.isfinite(found.mu).all()


def test_a_batch_is_fitted_as_its_pages_are_alone() -> None:
    views, *_ = drawn(30, seed=6)
    batch = fit_anchored(views)
    alone = [fit_anchored(page[None, :]) for page in views]
    for name in CURVES:
        values = np.array([getattr(one, name)[0] for one in alone])
        assert getattr(batch, name) == pytest.approx(values, rel=1e-9)


def test_views_by_the_hour_give_curves_of_hours() -> None:
    random = np.random.default_rng(1)
    mu, sigma, born_hour = np.log(5 / 24), 0.6, 24 * 10 + 9
    edges = np.maximum(np.arange(DAYS * 24 + 1) - born_hour, 0) / 24
    share = np.diff(lognorm.cdf(edges, sigma, scale=np.exp(mu)))
    views = random.poisson(3000 * share, (40, DAYS * 24)).astype(np.float64)
    found = fit_anchored(views, 24)
    assert np.median(found.mu) == pytest.approx(mu, abs=0.1)
    assert np.median(found.sigma) == pytest.approx(sigma, abs=0.1)
    assert np.median(found.b) == pytest.approx(born_hour / 24, abs=0.1)


def test_a_page_rises_where_a_quiet_time_ends_and_at_once_where_there_was_none() -> None:
    steady = np.full(DAYS, 10.0)
    late = np.where(np.arange(DAYS) < 25, 0.0, 10.0)
    spike = np.full(DAYS, 2.0)
    spike[40:44] = 500, 200, 80, 20
    stray = late.copy()
    stray[3] = 1.0
    assert rise_of(np.array([steady, late, spike, stray])).tolist() == [1, 25, 40, 25]

"""How uncertain the posterior leaves a rate."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from hacs_crawler.model import DEFAULT_PRIOR, LogNormalPrior, bayes_quantiles
from model_support import HISTORY, MINUTE, gaps_of

LEVELS = (0.01, 0.1, 0.5, 0.9, 0.99)

Page = list[tuple[float, bool]]


def on_a_dense_grid(
    page: Page, prior: LogNormalPrior
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    x = np.linspace(prior.log_median - 40, prior.log_median + 40, 200_001)
    log_density = -0.5 * ((x - prior.log_median) / prior.log_sd) ** 2
    for days, updated in page:
        expected = days * np.exp(x)
        log_density += np.log(-np.expm1(-expected)) if updated else -expected
    mass = np.exp(log_density - log_density.max())
    below = (np.cumsum(mass) - mass / 2) / mass.sum()
    return np.exp(np.interp(LEVELS, below, x))


@pytest.mark.parametrize("log_sd", [0.3, 1.0, 1.5])
@pytest.mark.parametrize(
    "page",
    [
        [(3650.0, False)],
        [(MINUTE, True)],
        [(60 * MINUTE, True)] * 3,
        [(365.0, True)] * 30 + [(1.0, False)],
        [(MINUTE, True), (20_000.0, False)],
        [(10.0, True), (12.0, False), (30.0, True), (4.0, False)] * 8,
    ],
)
def test_quantiles_agree_with_a_dense_grid(page: Page, log_sd: float) -> None:
    prior = LogNormalPrior(DEFAULT_PRIOR.log_median, log_sd)
    found = bayes_quantiles(gaps_of(page), prior, LEVELS)
    np.testing.assert_allclose(found, [on_a_dense_grid(page, prior)], rtol=0.1)


def test_without_gaps_they_are_the_priors() -> None:
    (found,) = bayes_quantiles(gaps_of([]), DEFAULT_PRIOR, (0.5, 0.9))
    assert found[0] == pytest.approx(1 / 110, rel=0.01)
    assert found[1] == pytest.approx(np.exp(-math.log(110) + 1.5 * 1.2815515655446004), rel=0.01)


@settings(deadline=None, max_examples=50, derandomize=True)
@given(st.lists(HISTORY, min_size=1, max_size=3))
def test_they_are_ordered_finite_and_each_pages_own(pages: list[Page]) -> None:
    together = bayes_quantiles(gaps_of(*pages), DEFAULT_PRIOR, LEVELS)
    assert (np.diff(together, axis=1) > 0).all()
    assert ((together > 0) & np.isfinite(together)).all()
    apart = [bayes_quantiles(gaps_of(page), DEFAULT_PRIOR, LEVELS)[0] for page in pages]
    np.testing.assert_allclose(together, apart, rtol=1e-3)

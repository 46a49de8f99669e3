"""What every estimator of a rate must do, and what each one is."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.integrate import quad
from scipy.optimize import brentq

from hacs_crawler.model import (
    DEFAULT_PRIOR,
    ESTIMATORS,
    LOCALIZED,
    WITH_POSTERIOR,
    LogNormalPrior,
    Visits,
    estimate,
    mle,
)
from hacs_crawler.model.estimators import cho, naive
from hacs_crawler.model.grid import RATES
from model_support import GAP, HISTORY, MINUTE, bayes, gaps_of

ESTIMATE = {"naive": naive, "cho": cho, "mle": mle, "bayes": lambda g: bayes(g, DEFAULT_PRIOR)}
STATIONARY = [name for name in ESTIMATORS if name not in LOCALIZED]
"""Those that see one rate in a page's whole history; the others are in test_localized.py."""

quick = settings(deadline=None, max_examples=60, derandomize=True)


def visits_of(page):
    days = np.concatenate([[0.0], np.cumsum([days for days, _ in page])])
    return days, np.array([False, *(updated for _, updated in page)]), np.array([0, days.size])


def rates_of(name, page, prior=DEFAULT_PRIOR, fade_days=math.inf):
    """The mean rates alone, with every update time's: churn is in test_churn.py."""
    visits = Visits(*visits_of(page), fade_days)
    if name in WITH_POSTERIOR:
        return bayes(visits.gaps(), prior)
    return estimate(name, visits, prior).rate_per_day


def random_pages(seed, n_pages):
    """Histories from easy to extreme: gaps of minutes to decades, one update among hundreds."""
    rng = np.random.default_rng(seed)
    pages = []
    for _ in range(n_pages):
        n = int(rng.choice([2, 3, 10, 50, 400]))
        center, spread = rng.uniform(math.log(MINUTE), math.log(5000)), rng.choice([0.0, 1.0, 4.0])
        days = np.exp(np.clip(rng.normal(center, spread, n), math.log(MINUTE), math.log(20_000)))
        updated = rng.random(n) < rng.choice([0.0, 0.2, 0.9, 1.0])
        updated[rng.integers(n)] = True
        pages.append(list(zip(days, updated, strict=True)))
    return pages


# Fixed expectations, worked by hand


EQUAL_GAPS = [(2, True), (2, True), (2, False), (2, True)]


@pytest.mark.parametrize(
    ("estimator", "page", "rate"),
    [
        (naive, [(2, True), (3, False), (5, True)], 2 / 10),
        (cho, EQUAL_GAPS, math.log(3) / 2),  # n = 4, X = 3: -log(1.5 / 4.5) / 2
        (mle, EQUAL_GAPS, math.log(4) / 2),  # 3 t / (e^(lambda t) - 1) = t
    ],
)
def test_a_rate_is_what_the_formula_gives(estimator, page, rate):
    assert estimator(gaps_of(page)) == pytest.approx([rate], rel=1e-13)


def test_mle_without_a_quiet_gap_is_cho():
    gaps = gaps_of([(2, True), (7, True)])
    assert mle(gaps) == pytest.approx(cho(gaps))


@pytest.mark.parametrize("estimator", [naive, cho, mle])
def test_no_update_and_no_gap_is_rate_zero(estimator):
    assert estimator(gaps_of([], [(2, False), (7, False)], [])).tolist() == [0.0, 0.0, 0.0]


def test_bayes_without_gaps_is_the_prior_mean():
    assert bayes(gaps_of([], []), DEFAULT_PRIOR) == pytest.approx([DEFAULT_PRIOR.mean_rate] * 2)


# Numerical accuracy, against SciPy


def eq_5_by_brentq(page):
    t = np.array([days for days, updated in page if updated])
    quiet = math.fsum(days for days, updated in page if not updated)

    def excess(log_rate):
        with np.errstate(over="ignore"):
            return float((t / np.expm1(math.exp(log_rate) * t)).sum()) - quiet

    return math.exp(brentq(excess, -40, 40, xtol=1e-14, rtol=1e-14))


EXTREMES = [
    [(MINUTE, True), (20_000, False)],
    [(20_000, True), (MINUTE, False)],
    [(MINUTE, True), (20_000, True), (MINUTE / 60, False)],
    [(20_000, True)] * 50 + [(MINUTE, True), (1, False)],
    [(30, True)] + [(7, False)] * 900,
    [(30, True)] * 900 + [(1e-3, False)],
]


def test_mle_agrees_with_brentq():
    drawn = (page for seed in range(4) for page in random_pages(seed, 150))
    pages = [page for page in drawn if not all(updated for _, updated in page)] + EXTREMES
    expected = [eq_5_by_brentq(page) for page in pages]
    np.testing.assert_allclose(mle(gaps_of(*pages)), expected, rtol=1e-9)


def posterior_mean_by_quad(page, prior, weights):
    t = np.array([days for days, _ in page])
    updated = np.array([seen for _, seen in page], dtype=bool)
    w = np.array(weights)

    def log_density(x):
        u = math.exp(x) * t
        with np.errstate(divide="ignore"):
            terms = np.where(updated, np.log(-np.expm1(-u)), -u)
        return float((w * terms).sum()) - ((x - prior.log_median) / prior.log_sd) ** 2 / 2

    # quiet decades push the mode far below a narrow prior, updates each minute far above
    reach = prior.log_sd * 9 + 15
    grid = np.linspace(prior.log_median - reach, prior.log_median + 2 * reach, 6000)
    heights = np.array([log_density(x) for x in grid])
    top, top_mean = heights.max(), (heights + grid).max()
    alive = grid[(heights > top - 45) | (heights + grid > top_mean - 45)]
    step = grid[1] - grid[0]
    pieces = list(itertools.pairwise(np.linspace(alive[0] - step, alive[-1] + step, 12)))

    def integral(shift, peak):
        return math.fsum(
            quad(lambda x: math.exp(log_density(x) + shift * x - peak), a, b, epsrel=1e-9)[0]
            for a, b in pieces
        )

    return integral(1, top_mean) / integral(0, top) * math.exp(top_mean - top)


HARD = {
    "quiet for long": [(3650, False)],
    "quiet for ever": [(20_000, False)] * 50,
    "quiet for a minute": [(MINUTE, False)],
    "updated in a minute": [(MINUTE, True)],
    "updated each minute": [(MINUTE, True)] * 50,
    "updated each day": [(1, True)] * 300,
    "updated each year": [(365, True)] * 300,
    "updated each year, quiet for a day": [(365, True)] * 300 + [(1, False)],
    "minutes and decades": [(MINUTE, True), (20_000, True), (10, False)],
    "minutes and decades, all updated": [(MINUTE, True), (1, True), (20_000, True)],
    "fast at first sight, then quiet": [(MINUTE, True), (20_000, False)],
    "balanced": [(10, True), (12, False), (30, True), (4, False)] * 8,
}


@pytest.mark.parametrize("log_sd", [0.3, 1.0, 1.75])
@pytest.mark.parametrize("name", HARD)
def test_bayes_agrees_with_adaptive_quadrature(name, log_sd):
    page, prior = HARD[name], LogNormalPrior(DEFAULT_PRIOR.log_median, log_sd)
    expected = posterior_mean_by_quad(page, prior, [1.0] * len(page))
    # the grid ends at an update in 450 years, and at one in 80 seconds
    expected = min(expected, RATES[-1])
    np.testing.assert_allclose(bayes(gaps_of(page), prior), [expected], rtol=0.01, atol=5e-6)


def test_bayes_agrees_with_adaptive_quadrature_on_random_faded_histories():
    pages = random_pages(9, 12)
    rng = np.random.default_rng(9)
    weights = [np.exp(-rng.exponential(1.0, len(page))) for page in pages]
    expected = [
        posterior_mean_by_quad(page, DEFAULT_PRIOR, weight)
        for page, weight in zip(pages, weights, strict=True)
    ]
    gaps = gaps_of(*pages, weight=np.concatenate(weights))
    np.testing.assert_allclose(bayes(gaps, DEFAULT_PRIOR), expected, rtol=0.01)


# Properties


@pytest.mark.parametrize("name", ESTIMATE)
@given(page=HISTORY)
@quick
def test_a_rate_is_finite_and_not_negative(name, page):
    (rate,) = ESTIMATE[name](gaps_of(page))
    assert 0 <= rate < math.inf
    assert rate > 0 or name != "bayes"


@pytest.mark.parametrize("name", STATIONARY)
@given(page=HISTORY, scale=st.floats(0.2, 5.0), stretch=st.floats(1, 100), data=st.data())
@quick
def test_scaled_time_divides_the_rate_and_a_longer_quiet_gap_does_not_raise_it(
    name, page, scale, stretch, data
):
    prior = LogNormalPrior(DEFAULT_PRIOR.log_median - math.log(scale), DEFAULT_PRIOR.log_sd)
    slower = [(days * scale, updated) for days, updated in page]
    (rate,) = rates_of(name, page, DEFAULT_PRIOR, 365.0)
    (scaled,) = rates_of(name, slower, prior, 365.0 * scale)
    # the grid of rates does not move with time
    assert scaled * scale == pytest.approx(rate, rel=0.02)
    page = [*with_a_quiet_gap(name, page), (5.0, False)]
    k = data.draw(st.sampled_from([k for k, (_, updated) in enumerate(page) if not updated]))
    longer = [(d * stretch if i == k else d, updated) for i, (d, updated) in enumerate(page)]
    before, after = rates_of(name, page), rates_of(name, longer)
    assert after[0] <= before[0] * (1 + 1e-6)


def with_a_quiet_gap(name, page):
    """Eq. 5 takes over from Eq. 4 at the first quiet gap, and may jump there."""
    return [*page, (5.0, False)] if name.startswith("mle") else page


@pytest.mark.parametrize("name", ESTIMATORS)
@given(page=HISTORY, more=GAP)
@quick
def test_a_further_quiet_gap_never_raises_the_rate(name, page, more):
    page = with_a_quiet_gap(name, page)
    assert rates_of(name, [*page, (more, False)])[0] <= rates_of(name, page)[0] * (1 + 1e-6)


@pytest.mark.parametrize("name", ESTIMATE)
def test_a_batch_gives_what_its_pages_give_one_by_one(name):
    pages = [[], *random_pages(3, 400), [], [(3.0, False)], [(3.0, True)], []]
    one_by_one = np.concatenate([ESTIMATE[name](gaps_of(page)) for page in pages])
    np.testing.assert_allclose(ESTIMATE[name](gaps_of(*pages)), one_by_one, rtol=1e-6)

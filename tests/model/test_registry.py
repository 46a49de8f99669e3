"""Estimators are chosen by name."""

import numpy as np
import pytest

from hacs_crawler.model import DEFAULT_PRIOR, ESTIMATORS, LOCALIZED, Visits, estimate, mle
from hacs_crawler.model.estimators import cho, naive
from model_support import bayes, gaps_between

PAGES = (
    np.array([0.0, 4.0, 9.0, 12.0, 50.0, 0.0, 3.0, 11.0]),
    np.array([False, True, False, True, False, False, True, True]),
    np.array([0, 5, 8]),
)


def rates_of(name, *visits, **options):
    return estimate(name, Visits(*visits, **options)).rate_per_day


def test_the_names_are_these():
    classic = ["naive", "cho", "mle", "mle-interpolated", "bayes", "bursts"]
    assert list(ESTIMATORS) == [*classic, *LOCALIZED]


@pytest.mark.parametrize("by_name", [naive, cho, mle])
def test_estimators_without_prior_see_the_gaps_between_visits(by_name):
    expected = by_name(gaps_between(*PAGES))
    assert rates_of(by_name.__name__, *PAGES).tolist() == expected.tolist()


def test_mle_interpolated_solves_eq_5_on_interpolated_intervals_or_sees_the_true_gaps():
    rates = rates_of("mle-interpolated", *PAGES)
    assert rates[0] == mle(gaps_between(*PAGES, is_interpolated=True))[0]
    assert rates[1] == cho(gaps_between(*PAGES))[1], "every gap of this page has an update"


def test_bayes_sees_prior_and_fading():
    expected = bayes(gaps_between(*PAGES, fade_days=20.0), DEFAULT_PRIOR)
    rates = rates_of("bayes", *PAGES, fade_days=20.0)
    assert rates[0] == pytest.approx(expected[0])  # the other page may churn


@pytest.mark.parametrize("name", ["naive", "cho", "mle", "mle-interpolated"])
def test_the_paper_s_estimators_ignore_fading(name):
    assert rates_of(name, *PAGES, fade_days=5.0) == pytest.approx(rates_of(name, *PAGES))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_an_empty_batch_gives_no_rates(name):
    nothing = np.empty(0), np.empty(0, dtype=bool), np.zeros(1, dtype=int)
    assert rates_of(name, *nothing).shape == (0,)


def test_an_unknown_name_is_an_error_that_lists_the_known_ones():
    with pytest.raises(ValueError, match="'mel'; known are naive, cho, mle, mle-interpolated"):
        rates_of("mel", *PAGES)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_baseline_is_neither_update_nor_quiet(name):
    days, updated = np.array([0.0, 3.0, 5.0]), np.array([False, True, False])
    known = rates_of(name, days, updated, np.array([0, 3]))
    with_baseline = rates_of(
        name,
        np.array([0.0, 3.0, 5.0, 905.0]),
        np.array([False, True, False, True]),
        np.array([0, 4]),
        baselines=np.array([False, False, False, True]),
    )
    assert with_baseline == pytest.approx(known)

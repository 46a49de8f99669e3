"""Predictions against what was found."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays

from hacs_crawler.statistics.scoring import (
    LOG_FLOOR,
    clustered_z,
    reliability,
    summary,
    wilson_interval,
)

quick = settings(deadline=None, derandomize=True, max_examples=50)


@st.composite
def predictions(draw, least=0):
    size = draw(st.integers(least, 120))
    p = arrays(np.float64, size, elements=st.floats(0.0, 1.0) | st.sampled_from([0.0, 0.25, 1.0]))
    return draw(p), draw(arrays(np.bool_, size)), draw(arrays(np.uint8, size))


def test_the_sums_and_scores_of_three_visits_are_those_by_hand():
    made = summary([0.9, 0.5, 0.2], [True, False, False])
    assert (made.visits, made.found_updates) == (3, 1)
    assert made.expected_updates == pytest.approx(1.6)
    assert made.brier == pytest.approx((0.01 + 0.25 + 0.04) / 3)
    assert made.base_brier == pytest.approx(2 / 9)
    assert made.log_loss == pytest.approx(-math.log(0.9 * 0.5 * 0.8) / 3)
    assert made.base_log_loss == pytest.approx(-math.log(1 / 3 * (2 / 3) ** 2) / 3)
    assert made.brier_skill == pytest.approx(1 - 0.1 / (2 / 9))
    assert made.log_skill == pytest.approx(1 - made.log_loss / made.base_log_loss)


def test_scores_of_nothing_are_not_a_number():
    made = summary([], [])
    assert (made.visits, made.expected_updates, made.found_updates) == (0, 0.0, 0)
    assert all(math.isnan(score) for score in (made.brier, made.log_loss, made.brier_skill))
    assert math.isnan(summary([0.5, 0.6], [True, True]).brier_skill), "all found the same"


@quick
@given(predictions(least=1))
def test_no_score_is_infinite_even_where_0_or_1_was_wrong(data):
    p, found, _ = data
    made = summary(p, found)
    assert 0.0 <= made.brier <= 1.0
    assert 0.0 <= made.log_loss <= -math.log(LOG_FLOOR) + 1e-9


@quick
@given(predictions(least=1))
def test_the_base_rate_itself_has_no_skill(data):
    _, found, _ = data
    made = summary(np.full(found.size, found.mean()), found)
    assert made.brier == pytest.approx(made.base_brier)
    assert made.log_loss == pytest.approx(made.base_log_loss)


@quick
@given(predictions(), st.integers(1, 12))
def test_bins_hold_every_visit_once_in_order_and_equal_p_together(data, bins):
    p, found, _ = data
    made = reliability(p, found, bins)
    assert made.visits.size <= bins
    assert made.visits.sum() == p.size
    assert (made.found_share * made.visits).sum() == pytest.approx(found.sum())
    assert (made.mean_p * made.visits).sum() == pytest.approx(p.sum())
    assert (made.low_p[1:] > made.high_p[:-1]).all()


def test_bins_of_different_p_are_of_equal_size():
    assert reliability(np.linspace(0, 1, 103), np.zeros(103), 10).visits.tolist() == [
        10, 10, 10, 11, 10, 10, 11, 10, 10, 11,
    ]  # fmt: skip


@quick
@given(predictions(), st.integers(1, 12), st.booleans())
def test_intervals_hold_the_share_found(data, bins, has_sites):
    p, found, sites = data
    made = reliability(p, found, bins, sites if has_sites else None)
    assert ((made.lower >= 0.0) & (made.lower <= made.found_share)).all()
    assert ((made.upper <= 1.0) & (made.upper >= made.found_share)).all()


@quick
@given(predictions(least=1))
def test_sites_never_make_an_interval_narrower(data):
    p, found, sites = data
    plain, clustered = reliability(p, found, 3), reliability(p, found, 3, sites)
    assert (clustered.upper - clustered.lower >= plain.upper - plain.lower - 1e-12).all()


def test_wilsons_interval_is_the_published_one():
    # Newcombe 1998, table I: 15 of 148, and 0 of 20
    lower, upper = wilson_interval([15 / 148, 0.0], [148, 20])
    assert lower == pytest.approx([0.0624, 0.0], abs=5e-5)
    assert upper == pytest.approx([0.1605, 0.1611], abs=5e-5)


def test_visits_that_only_repeat_a_site_do_not_narrow_its_interval():
    found = np.arange(40) % 2 == 0
    once = reliability(np.full(40, 0.5), found, 1, np.arange(40))
    ten_times = reliability(
        np.full(400, 0.5), np.repeat(found, 10), 1, np.repeat(np.arange(40), 10)
    )
    assert ten_times.lower == pytest.approx(once.lower, abs=0.01)
    assert ten_times.upper == pytest.approx(once.upper, abs=0.01)


def test_a_bin_of_one_site_counts_as_one_visit():
    made = reliability(np.full(100, 0.5), np.arange(100) < 50, 1, np.zeros(100))
    assert (made.lower, made.upper) == wilson_interval([0.5], [1.0])


def test_z_of_independent_visits_has_a_standard_deviation_of_1():
    rng = np.random.default_rng(1)
    p = rng.uniform(0.01, 0.4, (400, 500))
    found = rng.random(p.shape) < p
    z = [clustered_z(*pair, np.arange(500) // 5) for pair in zip(p, found, strict=True)]
    assert np.mean(z) == pytest.approx(0.0, abs=0.15)
    assert np.std(z) == pytest.approx(1.0, abs=0.12)


def test_z_counts_updates_of_one_site_together_as_one_surprise():
    p, found = np.full(100, 0.1), np.arange(100) < 20
    alone = clustered_z(p, found, np.arange(100))
    together = clustered_z(p, found, np.arange(100) // 20)
    assert alone == pytest.approx(10 / math.sqrt(20 * 0.81 + 80 * 0.01))
    assert together == pytest.approx(10 / math.sqrt(18.0**2 + 4 * 2.0**2))


@pytest.mark.parametrize("p", [[], [0.0, 0.0], [1.0]])
def test_z_is_0_where_what_had_to_happen_happened(p):
    assert clustered_z(p, np.array(p) > 0, np.zeros(len(p))) == 0.0

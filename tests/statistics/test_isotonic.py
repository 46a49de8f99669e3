"""Monotone corrections of probabilities."""

import json
from dataclasses import asdict

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hacs_crawler.statistics.isotonic import BINS, IDENTITY, TILT, Correction, fit_isotonic

quick = settings(deadline=None, derandomize=True, max_examples=50)  # the first call loads SciPy
GRID = np.linspace(0.0, 1.0, 2001)
PROBABILITIES = st.floats(0.0, 1.0) | st.sampled_from([0.0, 1.0, 0.5, 1e-12, 1.0 - 1e-12, 5e-324])


@st.composite
def visits(draw):
    size = draw(st.integers(0, 200))
    p = draw(arrays(np.float64, size, elements=PROBABILITIES))
    found = draw(arrays(np.bool_, size))
    return p, found


def simulated(true_share, size=20_000, low=0.0, high=1.0, seed=3):
    rng = np.random.default_rng(seed)
    p = rng.uniform(low, high, size)
    return p, rng.random(size) < true_share(p)


@quick
@given(visits())
def test_whatever_was_found_the_correction_strictly_increases_within_0_and_1(data):
    corrected = fit_isotonic(*data)(GRID)
    assert (np.diff(corrected) > 0.0).all()
    assert corrected[0] >= 0.0
    assert corrected[-1] <= 1.0


@quick
@given(visits())
def test_of_the_probabilities_it_was_fitted_to_the_order_stays(data):
    p = np.unique(np.round(data[0], 8))
    assert (np.diff(fit_isotonic(*data)(p)) > 0.0).all()


@quick
@given(visits())
def test_a_correction_survives_json(data):
    fitted = fit_isotonic(*data)
    assert msgspec.convert(json.loads(json.dumps(asdict(fitted))), Correction) == fitted


@quick
@given(visits())
def test_the_order_of_the_visits_does_not_matter(data):
    p, found = data
    backwards = fit_isotonic(p[::-1], found[::-1])
    np.testing.assert_allclose(backwards(GRID), fit_isotonic(p, found)(GRID), atol=1e-9)


def test_without_visits_it_is_the_identity():
    assert fit_isotonic([], []) == IDENTITY
    np.testing.assert_array_equal(IDENTITY(GRID), GRID)


@quick
@given(
    arrays(np.float64, st.integers(1, 5), elements=st.floats(0.02, 0.98)),
    arrays(np.bool_, 5),
)
def test_five_visits_at_most_move_p_by_a_quarter(p, found):
    # their information is 5/4 at most, that of the identity 4
    corrected = fit_isotonic(p, found[: p.size])(p.mean())
    assert abs(corrected - p.mean()) < 1.25 / (1.25 + 4.0) + TILT


def test_the_more_is_known_the_less_the_identity_counts():
    off = [
        abs(float(fit_isotonic([0.2] * size, [False] * size)(0.2)) - 0.2)
        for size in (1, 10, 100, 1_000)
    ]
    assert off == sorted(off)
    assert off[0] < 0.01
    assert off[-1] > 0.19


def test_visits_that_found_what_was_predicted_leave_p_nearly_as_it_is():
    p, found = simulated(lambda p: p)
    assert np.abs(fit_isotonic(p, found)(GRID) - GRID).max() < 0.04


@pytest.mark.parametrize("power", [0.5, 2.0, 3.0])
def test_a_monotone_error_is_mended(power):
    p, found = simulated(lambda p: p**power)
    off = fit_isotonic(p, found)(GRID) - GRID**power
    assert np.sqrt(np.mean(off**2)) < 0.02


def test_what_is_overstated_at_low_values_is_mended_there():
    p, found = simulated(lambda p: 0.3 * p, size=20_000, high=0.1)
    fitted = fit_isotonic(p, found)
    assert fitted(np.array([0.02, 0.05, 0.09])) == pytest.approx([0.006, 0.015, 0.027], abs=0.008)


def test_on_its_own_data_about_as_many_updates_are_expected_as_were_found():
    p, found = simulated(lambda p: p**2)
    assert fit_isotonic(p, found)(p).sum() == pytest.approx(found.sum(), rel=0.01)


def test_a_reversed_relation_becomes_nearly_flat_and_not_falling():
    p, found = simulated(lambda p: 1.0 - p)
    middle = fit_isotonic(p, found)(np.array([0.2, 0.8]))
    assert middle == pytest.approx([0.5, 0.5], abs=0.02)
    assert middle[1] > middle[0]


def test_visits_of_one_p_are_one_bin():
    fitted = fit_isotonic(np.full(1_000, 0.4), np.arange(1_000) < 100)
    assert fitted.raw == (0.0, pytest.approx(0.4), 1.0)
    assert fitted(0.4) == pytest.approx(0.1, abs=0.01)


def test_where_0_was_often_wrong_it_becomes_what_was_found():
    fitted = fit_isotonic(np.zeros(100_000), np.arange(100_000) < 1_000)
    assert fitted(0.0) == pytest.approx(0.01, rel=0.1)


def test_a_p_of_0_has_a_bin_of_its_own_however_many_others_are_near_it():
    p = np.concatenate([np.zeros(5_000), np.full(5_000, 0.001)])
    found = np.concatenate([np.arange(5_000) < 50, np.arange(5_000) < 250])
    # each bin has pseudo-visits of information 2, which is 2,000 visits with p = 0.001
    expected = [50 / 7_000, (250 + 2) / 7_000]
    assert fit_isotonic(p, found)(np.array([0.0, 0.001])) == pytest.approx(expected, rel=2e-3)


def test_0_and_1_stay_where_no_visit_says_otherwise():
    p, found = simulated(lambda p: p**2, low=0.01, high=0.99)
    assert fit_isotonic(p, found)(np.array([0.0, 1.0])).tolist() == [0.0, 1.0]


def test_there_are_never_more_knots_than_bins_and_corners():
    assert len(fit_isotonic(*simulated(lambda p: p, 100_000)).raw) == BINS + 2


@pytest.mark.parametrize(
    ("p", "found"),
    [
        ([1.1], [1]),
        ([-0.1], [1]),
        ([float("nan")], [1]),
        ([0.5], [2]),
        ([0.5], [1, 0]),
        ([[0.5]], [[1]]),
    ],
)
def test_what_is_no_visit_is_refused(p, found):
    with pytest.raises(ValueError, match="must be"):
        fit_isotonic(p, found)


@pytest.mark.parametrize(
    ("raw", "corrected"),
    [
        ([0.0, 1.0], [0.0]),
        ([0.0], [0.0]),
        ([0.1, 1.0], [0.0, 1.0]),
        ([0.0, 0.9], [0.0, 1.0]),
        ([0.0, 1.0], [-0.1, 1.0]),
        ([0.0, 1.0], [0.0, 1.1]),
        ([0.0, 0.5, 1.0], [0.0, 0.0, 1.0]),
        ([0.0, 0.5, 0.5, 1.0], [0.0, 0.2, 0.3, 1.0]),
        ([0.0, float("nan"), 1.0], [0.0, 0.2, 1.0]),
    ],
)
def test_knots_that_make_no_correction_are_refused(raw, corrected):
    with pytest.raises(ValueError, match="correct"):
        msgspec.convert({"raw": raw, "corrected": corrected}, Correction)

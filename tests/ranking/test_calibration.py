"""Predictions against outcomes, and the corrections that a state keeps."""

import numpy as np
import pytest

from calibration_support import BAYES, drawn, keep, label, records
from hacs_crawler.exceptions import StateError
from hacs_crawler.ranking.calibration import (
    MIN_SITES,
    MIN_UPDATES,
    MIN_VISITS,
    by_model,
    corrected_models,
    drift,
    drift_of,
    fit,
    groups,
    predicted,
    read_correction,
    remove_correction,
    shortage,
    write_correction,
)
from hacs_crawler.state.database import State
from hacs_crawler.state.estimation import Estimation
from hacs_crawler.state.memory import MemoryStore
from hacs_crawler.state.outcome_log import SEEN, UPDATED
from hacs_crawler.statistics.isotonic import IDENTITY, Correction, fit_isotonic

HALF = Correction((0.0, 0.5, 1.0), (0.0, 0.25, 1.0))


@pytest.fixture
def state():
    return State(MemoryStore(), Estimation())


def alternating(size, share, found_share, **how):
    """Every visit predicted `share`, and found evenly in `found_share` of them."""
    found = np.diff(np.floor(np.arange(size + 1) * found_share + 1e-9)) > 0
    return records(np.full(size, share), found, **how)


def test_only_visits_count_that_were_predicted_and_observed():
    some = alternating(3, 0.5, 1.0)
    some["days_since_visit"][0] = np.inf
    some["flags"][1] = 0
    assert predicted(some).tolist() == some[2:].tolist()


def test_visits_are_grouped_by_policy_and_model_whatever_the_arm(state):
    others = [
        label(),
        label(arm="a", experiment=7),
        label("last-obs"),
        label(estimator="mle"),
        label(fade_days=30.0),
    ]
    for number, by in enumerate(others):
        keep(state, alternating(number + 1, 0.5, 1.0, by=by, first_at=1_000 * (number + 1)), by)
    assert [(one.policy, one.model, len(one.outcomes)) for one in groups(state)] == [
        ("hacs", "bayes fade 30 since visit siblings", 5),
        ("hacs", BAYES, 3),
        ("hacs", "mle since visit siblings", 4),
        ("last-obs", BAYES, 3),
    ]


def test_a_group_has_what_was_predicted_and_what_was_found(state):
    some = records([0.9, 0.1], [True, False])
    some["raw_p"] = [0.8, 0.2]
    keep(state, some)
    (group,) = groups(state)
    assert group.p == pytest.approx([0.9, 0.1])
    assert group.raw_p == pytest.approx([0.8, 0.2])
    assert group.found.tolist() == [True, False]
    assert group.site.tolist() == some["site"].tolist()
    assert group.score().brier == pytest.approx(0.01)


def test_records_without_a_label_are_in_no_group(state):
    state.store.add_outcomes(alternating(5, 0.5, 1.0))
    assert groups(state) == []


def test_the_records_of_a_model_are_those_of_all_policies_by_time(state):
    keep(state, alternating(3, 0.5, 1.0, first_at=2_000))
    keep(state, alternating(2, 0.5, 1.0, by=label("random"), first_at=1_000), label("random"))
    ((model, outcomes),) = by_model(groups(state)).items()
    assert model == BAYES
    assert outcomes["at"].tolist() == [1_000, 1_001, 2_000, 2_001, 2_002]


def test_enough_visits_updates_and_sites_are_no_shortage():
    assert shortage(alternating(MIN_VISITS, 0.1, 0.1, sites=MIN_SITES)) is None


@pytest.mark.parametrize(
    ("size", "p", "found_share", "sites", "missing"),
    [
        (MIN_VISITS - 1, 0.5, 0.5, 50, "199 predicted visits, at least 200 are needed"),
        (MIN_VISITS, 0.04, 0.04, 50, "8 updates found or expected, at least 20 are needed"),
        (MIN_VISITS, 0.5, 0.5, MIN_SITES - 1, "9 sites, at least 10 are needed"),
    ],
)
def test_a_shortage_says_what_is_missing(size, p, found_share, sites, missing):
    assert shortage(alternating(size, p, found_share, sites=sites)) == missing


@pytest.mark.parametrize(("p", "found_share"), [(0.2, 0.0), (0.0, 0.2)])
def test_updates_that_were_only_found_or_only_expected_are_enough(p, found_share):
    size = int(MIN_UPDATES / 0.2) * 2
    assert shortage(alternating(size, p, found_share)) is None


def test_a_fit_of_predictions_that_are_off_is_better_for_other_sites():
    made = fit(drawn(5_000, lambda p: p**2))
    assert made.is_better
    assert made.crossed.log_loss < 0.95 * made.raw.log_loss
    assert made.crossed.expected_updates == pytest.approx(made.raw.found_updates, rel=0.05)
    assert made.correction(0.4) == pytest.approx(0.16, abs=0.04)


def test_a_fit_of_right_predictions_is_no_better():
    assert not fit(drawn(5_000, lambda p: p)).is_better


def test_a_site_is_judged_by_the_visits_of_others_alone():
    some = drawn(2_000, lambda p: p)
    odd = some["site"] == 3
    some["flags"][odd] = SEEN
    some["flags"][odd & (some["raw_p"] > 0.2)] = SEEN + UPDATED
    of_others = some["site"] % 5 != 3
    expected = fit_isotonic(some["raw_p"][of_others], some["flags"][of_others] > SEEN)
    made = fit(some)
    assert made.crossed_p[odd] == pytest.approx(expected(some["raw_p"][odd]))


def test_a_fit_starts_from_p_before_any_correction():
    some = drawn(2_000, lambda p: p**2)
    corrected = some.copy()
    corrected["p"] = some["raw_p"] ** 2
    assert fit(corrected).correction == fit(some).correction


@pytest.mark.parametrize(("found_share", "said"), [(0.05, "50 % fewer"), (0.15, "50 % more")])
def test_a_lasting_difference_is_a_drift_and_the_log_can_say_what_to_do(found_share, said):
    found = drift(alternating(3_000, 0.1, found_share, runs=30))
    assert str(found) == (
        f"for the last 1,000 predicted visits (in 10 runs) {said} updates were found than predicted "
        f"({round(1_000 * found_share)}, not 100.0); `hacs calibrate` fits a correction"
    )


def test_updates_where_none_was_ever_predicted_are_a_drift():
    found = drift(alternating(1_000, 0.0, 0.05))
    assert " more updates were found than predicted (50, not 0.0)" in str(found)


@pytest.mark.parametrize(
    "some",
    [
        alternating(1_000, 0.1, 0.1),
        alternating(1_000, 0.1, 0.09),  # within the ratio
        alternating(999, 0.1, 0.5),  # too few visits
        alternating(1_000, 0.1, 0.5, runs=2),  # too few runs
        alternating(1_000, 0.1, 0.5, sites=3),  # could be one author's week
        alternating(1_000, 0.002, 0.004),  # could be chance
        np.concatenate(
            [alternating(400, 0.3, 0.0), alternating(600, 0.1, 0.2, first_at=2_000_000)]
        ),
        alternating(0, 0.1, 0.1),
    ],
)
def test_anything_less_is_no_drift(some):
    assert drift(some) is None


def test_a_drift_that_the_present_correction_mends_is_none():
    some = drawn(3_000, lambda p: p**2)
    assert drift(some) is not None
    assert drift(some, fit(some).correction) is None


def test_a_correction_that_is_wrong_by_now_is_a_drift():
    some = drawn(3_000, lambda p: p)
    assert drift(some) is None
    assert drift(some, HALF) is not None


def test_the_drift_of_a_model_is_judged_with_its_correction_if_that_is_applied(state):
    some = drawn(3_000, lambda p: p**2)
    keep(state, some)
    assert drift_of(state, BAYES, is_corrected=True) is not None
    write_correction(state, BAYES, fit(some).correction)
    assert drift_of(state, BAYES, is_corrected=True) is None
    assert drift_of(state, BAYES, is_corrected=False) is not None
    assert drift_of(state, "another", is_corrected=True) is None


def test_a_correction_is_kept_for_its_model_alone_and_replaced(store):
    state = State(store, Estimation())
    write_correction(state, BAYES, IDENTITY)
    write_correction(state, BAYES, HALF)
    assert read_correction(state, BAYES) == HALF
    assert read_correction(state, "another") is None
    assert corrected_models(state) == [BAYES]


def test_a_correction_that_was_removed_is_none(store):
    state = State(store, Estimation())
    write_correction(state, BAYES, HALF)
    write_correction(state, "another", IDENTITY)
    assert remove_correction(state, BAYES)
    assert not remove_correction(state, BAYES)
    assert read_correction(state, BAYES) is None
    assert corrected_models(state) == ["another"]


@pytest.mark.parametrize("value", [[], {"raw": [0, 1]}, {"raw": [0, 1], "corrected": [1, 0]}, 5])
def test_a_damaged_correction_is_named_and_can_be_removed(state, value):
    write_correction(state, BAYES, HALF)
    state.store.write_meta(f"calibration/{BAYES}", value)
    with pytest.raises(StateError, match=f"'calibration/{BAYES}'.* is damaged"):
        read_correction(state, BAYES)
    assert remove_correction(state, BAYES)
    assert read_correction(state, BAYES) is None


def test_a_damaged_list_of_corrections_is_named(state):
    state.store.write_meta("calibrations", {"no": "list"})
    with pytest.raises(StateError, match="'calibrations'"):
        corrected_models(state)

"""Predictions against outcomes."""

import numpy as np
import pytest

from calibration_support import BAYES, keep, label, records
from hacs_crawler.ranking.calibration import drift, drift_of, groups, predicted
from hacs_crawler.state import Estimation, MemoryStore, State


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


def test_visits_are_grouped_by_policy_and_model(state):
    others = [label(), label("last-obs"), label(estimator="mle"), label(fade_days=30.0)]
    for number, by in enumerate(others):
        keep(state, alternating(number + 1, 0.5, 1.0, by=by, first_at=1_000 * (number + 1)), by)
    assert [(one.policy, one.model, len(one.outcomes)) for one in groups(state)] == [
        ("hacs", "bayes, fading in 30 days, since the last visit, with siblings", 4),
        ("hacs", BAYES, 1),
        ("hacs", "mle, since the last visit, with siblings", 3),
        ("last-obs", BAYES, 2),
    ]


def test_a_group_has_what_was_predicted_and_what_was_found(state):
    some = records([0.9, 0.1], [True, False])
    keep(state, some)
    (group,) = groups(state)
    assert group.p == pytest.approx([0.9, 0.1])
    assert group.found.tolist() == [True, False]
    assert group.site.tolist() == some["site"].tolist()
    assert group.score().brier == pytest.approx(0.01)


def test_records_without_a_label_are_in_no_group(state):
    state.store.add_outcomes(alternating(5, 0.5, 1.0))
    assert groups(state) == []


@pytest.mark.parametrize(("found_share", "said"), [(0.05, "50 % fewer"), (0.15, "50 % more")])
def test_a_lasting_difference_is_a_drift_and_the_log_can_say_what_to_do(found_share, said):
    found = drift(alternating(3_000, 0.1, found_share, runs=30))
    assert str(found) == (
        f"for the last 1,000 predicted visits (in 10 runs) {said} updates were found than predicted "
        f"({round(1_000 * found_share)}, not 100.0); `hacs report` shows at which p"
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


def test_the_drift_of_a_model_is_that_of_its_records_under_all_policies(state):
    older = alternating(600, 0.1, 0.5, by=label("random"), first_at=1_000)
    keep(state, alternating(600, 0.1, 0.5, first_at=2_000_000))
    assert drift_of(state, BAYES) is None
    keep(state, older, label("random"))
    assert drift_of(state, BAYES) is not None
    assert drift_of(state, "another") is None

"""Rates whose error is that between clusters."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from hacs_crawler.statistics.clusters import (
    Rate,
    bootstrap,
    difference_of,
    effective_clusters,
    excess_of,
    rate_of,
    within_variance,
)

Floats = NDArray[np.float64]


def floats(*values: float) -> Floats:
    return np.array(values, np.float64)


tables = st.lists(st.tuples(st.integers(1, 30), st.integers(0, 30)), min_size=2, max_size=12).map(
    lambda rows: (floats(*(min(u, v) for v, u in rows)), floats(*(v for v, _ in rows)))
)


@given(tables)
def test_the_error_is_that_of_leaving_out_each_cluster_in_turn(
    table: tuple[Floats, Floats],
) -> None:
    updates, visits = table
    rate = rate_of(updates, visits)
    left = [
        np.delete(updates, i).sum() / np.delete(visits, i).sum() - rate.value
        for i in range(len(visits))
    ]
    n = len(visits)
    assert rate.value == pytest.approx(updates.sum() / visits.sum())
    assert rate.error == pytest.approx(np.sqrt((n - 1) / n * np.sum(np.square(left))), abs=1e-12)


def test_the_error_of_an_adjusted_rate_is_that_of_fitting_the_line_without_each_cluster() -> None:
    random = np.random.default_rng(7)
    visits = floats(*random.integers(1, 9, 20), 200)
    updates = np.round(visits * random.random(21))
    excess = visits * random.normal(0, 0.1, 21)
    rate = rate_of(updates, visits, excess)

    def fitted(left: slice | NDArray[np.int64]) -> float:
        u, v, z = updates[left], visits[left], excess[left]
        mean = u.sum() / v.sum()
        slope = (u - mean * v) @ z / (z @ z)
        return float(mean - slope * z.sum() / v.sum())

    changes = [fitted(np.delete(np.arange(21), i)) - rate.value for i in range(21)]
    assert rate.value == pytest.approx(fitted(slice(None)))
    assert rate.error == pytest.approx(np.sqrt(20 / 21 * np.sum(np.square(changes))))


def test_a_cluster_that_alone_has_an_excess_leaves_no_line_without_it() -> None:
    updates, visits = floats(3, 1, 2, 40), floats(10, 10, 10, 200)
    rate = rate_of(updates, visits, floats(0, 0, 0, 1 / 3))
    plain = rate_of(updates, visits)
    assert rate.error > plain.error / 2


def test_clusters_count_as_many_as_carry_the_visits() -> None:
    assert effective_clusters(np.full(7, 3.0)) == pytest.approx(7)
    assert effective_clusters(floats(100, 100, *[1] * 10)) == pytest.approx(2.2, abs=0.01)
    assert effective_clusters(np.zeros(3)) == 0


def test_clusters_of_one_visit_give_the_error_of_a_share() -> None:
    rate = rate_of(np.repeat([1.0, 0.0], [30, 70]), np.ones(100))
    assert rate.error == pytest.approx(np.sqrt(0.3 * 0.7 / 99))
    assert rate.freedom == pytest.approx(99)


def test_visits_of_one_cluster_more_do_not_make_it_more_than_one_cluster() -> None:
    few, many = rate_of(floats(1, 3), floats(10, 10)), rate_of(floats(100, 300), floats(1000, 1000))
    assert few.error == pytest.approx(many.error)


def test_unequal_clusters_have_fewer_degrees_of_freedom() -> None:
    even, uneven = (
        rate_of(np.ones(10), np.full(10, 10.0)),
        rate_of(np.ones(10), floats(91, *[1] * 9)),
    )
    assert even.freedom == pytest.approx(9)
    assert uneven.freedom < 1


def test_samples_are_computed_each_for_itself() -> None:
    updates, visits = floats(1, 2, 0, 3, 5, 1).reshape(2, 3), np.full((2, 3), 10.0)
    both = rate_of(updates, visits)
    for sample in (0, 1):
        alone = rate_of(updates[sample], visits[sample])
        assert both.value[sample] == alone.value
        assert both.error[sample] == alone.error


def test_without_two_visited_clusters_there_is_no_error() -> None:
    assert np.isnan(rate_of(floats(1, 0), floats(10, 0)).error)
    assert np.isnan(rate_of(floats(), floats()).value)


def test_excess_adds_up_to_nothing_and_is_nothing_for_sites_that_are_alike_or_unknown() -> None:
    excess = excess_of(floats(4, 1, 1, 0), floats(0.4, 0.3, 0.1, 0.0))
    assert excess.sum() == pytest.approx(0)
    assert excess.tolist() == pytest.approx([0.4 - 4 * 0.8 / 6, 0.3 - 0.8 / 6, 0.1 - 0.8 / 6, 0])
    assert not excess_of(floats(2, 3), floats(0.2, 0.3)).round(12).any()
    assert not excess_of(floats(0, 0), floats(0, 0)).any()


def test_what_was_known_before_is_taken_out_of_rate_and_error() -> None:
    random = np.random.default_rng(1)
    before = random.exponential(0.1, 400)
    updates = random.binomial(200, np.minimum(before, 1.0)).astype(np.float64)
    visits = np.full(400, 200.0)
    excess = before - before.mean()
    first = slice(200)
    plain = rate_of(updates[first], visits[first])
    adjusted = rate_of(updates[first], visits[first], excess[first])
    truth = np.minimum(before, 1.0).mean()
    assert adjusted.error < plain.error / 3
    assert abs(adjusted.value - truth) < abs(plain.value - truth)


def test_an_excess_of_nothing_changes_nothing() -> None:
    updates, visits = floats(1, 4, 2), floats(10, 12, 9)
    plain, adjusted = rate_of(updates, visits), rate_of(updates, visits, np.zeros(3))
    assert (plain.value, plain.error) == (adjusted.value, adjusted.error)


def test_the_variance_of_a_difference_is_the_sum_of_both() -> None:
    arm = Rate(floats(0.3), floats(0.03), floats(9))
    control = Rate(floats(0.2), floats(0.04), floats(9))
    difference = difference_of(arm, control, floats(0.25))
    assert difference.value == pytest.approx(0.1)
    assert difference.error == pytest.approx(0.05)
    assert difference.relative_error == pytest.approx(0.2)
    assert 9 < difference.freedom[0] < 18


def test_within_variance_is_that_of_the_visits_where_clusters_do_not_differ() -> None:
    random = np.random.default_rng(2)
    clusters = np.repeat(np.arange(200), 50)
    updates = (random.random(10_000) < 0.3).astype(np.float64)
    visits = np.ones(10_000)
    assert within_variance(clusters, updates, visits) == pytest.approx(0.21 / 10_000, rel=0.1)


def test_within_variance_leaves_out_what_differs_between_clusters() -> None:
    clusters = np.repeat(np.arange(10), 4)
    updates = np.repeat(floats(*range(10)), 4)
    assert within_variance(clusters, updates, np.full(40, 10.0)) == pytest.approx(0)


def test_within_variance_needs_a_cluster_of_two_blocks() -> None:
    assert np.isnan(within_variance(np.arange(5), np.ones(5), np.ones(5)))


def test_the_bootstraps_spread_is_the_error_and_its_seed_repeats_it() -> None:
    random = np.random.default_rng(3)
    visits = random.integers(1, 20, 300).astype(np.float64)
    updates = random.binomial(visits.astype(np.int64), 0.3).astype(np.float64)
    excess = random.normal(0, 1, 300)
    for known in (None, excess - excess.mean()):
        replicates = bootstrap(updates, visits, known, 4_000, np.random.default_rng(0))
        rate = rate_of(updates, visits, known)
        assert replicates.shape == (4_000,)
        assert replicates.std() == pytest.approx(float(rate.error), rel=0.06)
        assert replicates.mean() == pytest.approx(float(rate.value), rel=0.01)
        again = bootstrap(updates, visits, known, 4_000, np.random.default_rng(0))
        assert (replicates == again).all()


def test_nothing_can_be_resampled_of_no_clusters() -> None:
    assert np.isnan(bootstrap(floats(), floats(), None, 3, np.random.default_rng(0))).all()

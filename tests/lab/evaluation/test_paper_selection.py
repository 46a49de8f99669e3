"""Evaluation 1: counts, averages and the best threshold, by hand and by enumeration."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from hacs_crawler.lab.evaluation.measures import AVERAGES, MODELS, THETAS, Tally, curve


def tally(*moments: tuple[list[float], list[bool]]) -> Tally:
    made = Tally()
    for p, changed in moments:
        made.add(np.array(p, np.float64), np.array(changed, np.bool_))
    return made


TWO = tally(([0.9, 0.4, 0.0], [True, False, True]), ([0.6, 0.2], [False, False]))


@pytest.mark.parametrize(
    ("model", "average", "expected"),
    [
        # at theta 0.5 HACS selects one page of three (updated), then one of two (not updated)
        ("HACS", "micro", (1, 1, 1, 2, 1 / 2, 1 / 2, 1 / 2)),
        ("HACS", "macro", (1, 1, 1, 2, 1 / 2, 1 / 2, (2 / 3 + 0) / 2)),
        # one of three drawn, two of which were updated: 2/3 of a hit
        ("Random", "micro", (2 / 3, 4 / 3, 4 / 3, 5 / 3, 1 / 3, 1 / 3, 1 / 3)),
        ("Random", "macro", (2 / 3, 4 / 3, 4 / 3, 5 / 3, 1 / 3, 1 / 3, (4 / 9 + 0) / 2)),
        # found in the first moment only; Random in two of three draws there, with F1 2/3
        ("HACS", "macro-found", (1, 1, 1, 2, 1 / 2, 1 / 2, 2 / 3)),
        ("Random", "macro-found", (2 / 3, 4 / 3, 4 / 3, 5 / 3, 1 / 3, 1 / 3, 2 / 3)),
        ("Brute Force", "macro-found", (2, 3, 0, 0, 1 / 3, 1, 4 / 5)),
        ("Brute Force", "micro", (2, 3, 0, 0, 2 / 5, 1, 4 / 7)),
        ("Brute Force", "macro", (2, 3, 0, 0, 1 / 3, 1, (4 / 5 + 0) / 2)),
    ],
)
def test_measures_by_hand(model: str, average: str, expected: tuple[float, ...]) -> None:
    made = curve(TWO.counts(model), average)
    found = (
        made.true_positives,
        made.false_positives,
        made.false_negatives,
        made.true_negatives,
        made.precision,
        made.recall,
        made.f1,
    )
    assert [x[int(np.flatnonzero(THETAS == 0.5)[0])] for x in found] == pytest.approx(expected)


def test_a_page_whose_p_is_theta_is_selected_at_every_theta() -> None:
    for place, theta in enumerate(THETAS.tolist()):
        counts = tally(([theta], [True])).counts("HACS")
        assert counts.selected[0].tolist() == [1.0] * (place + 1) + [0.0] * (20 - place)


def test_at_theta_0_all_three_are_brute_force() -> None:
    for average in AVERAGES:
        assert len({curve(TWO.counts(model), average).f1[0] for model in MODELS}) == 1


def test_the_best_threshold_has_the_greatest_f1_and_is_the_highest_of_equals() -> None:
    best = curve(tally(([0.62, 0.3], [True, False])).counts("HACS"), "micro").best()
    assert best is not None
    assert THETAS[best] == 0.6


@pytest.mark.parametrize("average", AVERAGES)
def test_without_any_update_there_is_no_best_threshold(average: str) -> None:
    made = curve(tally(([0.9, 0.1], [False, False])).counts("HACS"), average)
    assert made.best() is None
    assert np.isnan(made.recall).all()
    assert made.precision[0] == 0
    assert np.isnan([made.precision[-1], made.f1[-1]]).all()  # nothing selected, nothing updated


@pytest.mark.parametrize("average", AVERAGES)
def test_where_all_are_updated_precision_is_1_wherever_something_is_selected(average: str) -> None:
    made = curve(tally(([0.9, 0.1], [True, True])).counts("HACS"), average)
    assert made.precision[:19].tolist() == [1.0] * 19
    assert np.isnan(made.precision[19:]).all()
    assert (made.recall[19:] == 0).all()


@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("model", MODELS)
def test_without_pages_nothing_is_defined(model: str, average: str) -> None:
    empty = tally(([], []))
    made = curve(empty.counts(model), average)
    assert empty.moments == 0
    assert made.best() is None
    assert np.isnan([made.precision, made.recall, made.f1]).all()
    assert made.true_positives.tolist() == [0.0] * 21


pages = st.lists(st.tuples(st.sampled_from([0.0, 0.12, 0.5, 0.97]), st.booleans()), min_size=1)


@given(st.lists(pages.filter(lambda p: len(p) <= 5), min_size=1, max_size=3))
def test_random_is_the_mean_of_all_draws(moments: list[list[tuple[float, bool]]]) -> None:
    made = tally(*(([p for p, _ in one], [c for _, c in one]) for one in moments))
    counts = made.counts("Random")
    for row, one in enumerate(moments):
        for column, selected in enumerate(counts.selected[row].astype(int).tolist()):
            draws = [sum(drawn) for drawn in combinations([c for _, c in one], selected)]
            assert counts.hits[row, column] == pytest.approx(np.mean(draws))
            some = np.mean([drawn > 0 for drawn in draws])
            assert counts.found[row, column] == pytest.approx(some, abs=1e-9)


@given(st.lists(pages, min_size=1, max_size=4))
def test_counts_add_up_and_measures_are_shares(moments: list[list[tuple[float, bool]]]) -> None:
    made = tally(*(([p for p, _ in one], [c for _, c in one]) for one in moments))
    number = sum(map(len, moments))
    for model in MODELS:
        for average in AVERAGES:
            one = curve(made.counts(model), average)
            four = (
                one.true_positives + one.false_positives + one.false_negatives + one.true_negatives
            )
            assert four == pytest.approx(np.full(21, number))
            for measure in (one.precision, one.recall, one.f1):
                defined = measure[~np.isnan(measure)]
                assert ((defined >= 0) & (defined <= 1 + 1e-12)).all()

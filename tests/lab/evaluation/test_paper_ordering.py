"""Evaluation 2: weighted P@K, by hand and against all ways to break ties."""

from itertools import pairwise, permutations
from math import inf, log2

import numpy as np
import pytest
from hypothesis import given, strategies as st

from hacs_crawler.lab.evaluation.measures import precision_at_k, weighted_precision


def at_k(predicted: list[float], actual: list[float]) -> list[float]:
    return precision_at_k(np.array(predicted), np.array(actual)).tolist()


def test_weights_by_hand() -> None:
    # predicted a b c d, actual b a d c: a is not b, then {a, b}, then c is not d, then all
    weights = [1 / log2(2), 1 / log2(3), 1 / log2(4), 1 / log2(5)]
    expected = (0 * weights[0] + 1 * weights[1] + 2 / 3 * weights[2] + 1 * weights[3]) / sum(
        weights
    )
    score, next_update = np.array([0.9, 0.8, 0.7, 0.6]), np.array([20.0, 10.0, 40.0, 30.0])
    assert weighted_precision(score, next_update) == pytest.approx(expected)


def test_the_true_order_scores_1_and_pages_never_updated_are_tied_behind() -> None:
    score = np.array([0.9, 0.5, 0.0, 0.0])
    assert weighted_precision(score, np.array([1.0, 2.0, inf, inf])) == pytest.approx(
        np.array([1, 1, (2 + 0.5) / 3, 1]) @ weights_of(4)
    )


def weights_of(n: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    weights = 1 / np.log2(np.arange(2, n + 2))
    return weights / weights.sum()


def orders(keys: list[float]) -> list[tuple[int, ...]]:
    """All orders of the places that agree with the keys."""
    found = permutations(range(len(keys)))
    return [one for one in found if all(keys[a] <= keys[b] for a, b in pairwise(one))]


few = st.lists(
    st.tuples(st.integers(0, 2), st.sampled_from([1.0, 2.0, inf])), min_size=1, max_size=4
)


@given(few)
def test_ties_are_the_mean_over_all_ways_to_break_them(pages: list[tuple[int, float]]) -> None:
    predicted, actual = [float(p) for p, _ in pages], [a for _, a in pages]
    expected = [
        np.mean(
            [len(set(p[:k]) & set(a[:k])) / k for p in orders(predicted) for a in orders(actual)]
        )
        for k in range(1, len(pages) + 1)
    ]
    assert at_k(predicted, actual) == pytest.approx(expected)


@given(st.integers(2, 200), st.integers(0, 10**6))
def test_without_ties_it_is_the_plain_definition(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    predicted, actual = rng.permutation(n), rng.permutation(n)
    first, second = np.argsort(predicted), np.argsort(actual)
    expected = [len(set(first[:k]) & set(second[:k])) / k for k in range(1, n + 1)]
    found = precision_at_k(predicted.astype(float), actual.astype(float))
    assert found == pytest.approx(expected, abs=1e-9)


def test_a_hundred_thousand_pages_stay_exact() -> None:
    n = 100_000
    keys = np.repeat(np.arange(n // 10, dtype=float), 10)
    found = precision_at_k(keys, keys)
    assert found[9::10] == pytest.approx(np.ones(n // 10))
    assert found[-6] == pytest.approx((n - 10 + 5 * 0.5) / (n - 5))

"""The curve of a place, from those of its temporal pages."""

from __future__ import annotations

import numpy as np
import pytest

from hacs_crawler.model import STEADY, TEMPORAL, Curves, tempers_of


def curves(mu: np.ndarray, sigma: np.ndarray) -> Curves:
    nothing = np.zeros(len(mu))
    return Curves(mu, sigma, nothing, nothing, nothing)


def test_a_place_with_many_pages_has_the_spread_of_all_their_reading() -> None:
    random = np.random.default_rng(0)
    mu, sigma = random.normal(-0.5, 0.6, 4000), np.full(4000, 0.8)
    place_of = np.repeat([0, 1], 2000)
    classes = np.full(4000, TEMPORAL, np.int8)
    mu[2000:] += 2.0
    found = tempers_of(place_of, classes, curves(mu, sigma), np.ones(4000), 2)
    assert found.mu == pytest.approx([-0.5, 1.5], abs=0.05)
    assert found.sigma == pytest.approx([1.0, 1.0], abs=0.05)


def test_pages_that_are_not_temporal_do_not_count_and_few_pages_are_shrunk() -> None:
    mu = np.array([0.0] * 100 + [3.0, 9.0])
    classes = np.array([TEMPORAL] * 101 + [STEADY], np.int8)
    place_of = np.array([0] * 100 + [1, 2])
    views = np.array([100.0] * 100 + [1000.0, 1e6])
    found = tempers_of(place_of, classes, curves(mu, np.ones(102)), views, 3)
    assert 0.0 < found.mu[1] < 1.0
    assert found.mu[2] == pytest.approx(3 / 101)
    assert 1.0 < found.worth[1] < 5.0
    assert found.worth[2] == pytest.approx(1.0)


def test_without_temporal_pages_all_places_are_alike() -> None:
    nothing = np.full(2, STEADY, np.int8)
    found = tempers_of(np.array([0, 1]), nothing, curves(*np.ones((2, 2))), np.ones(2), 2)
    assert (found.mu.tolist(), found.sigma.tolist(), found.worth.tolist()) == (
        [0.0, 0.0],
        [1.0, 1.0],
        [1.0, 1.0],
    )

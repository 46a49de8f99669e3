"""Which pages are called news, which are not, and of which it is not known."""

from __future__ import annotations

import numpy as np
import pytest

from hacs_crawler.model import CLASSES, classify, classify_by_curve, fit_paper, shape_of
from hacs_crawler.utils.arrays import FloatArray

DAYS = 60
WEEK = np.array([1.3, 1.3, 1.2, 1.2, 1.1, 0.5, 0.4])


def spike(day: int, views: float = 400.0, days: int = DAYS) -> FloatArray:
    """A story: half of what is left is read on each day."""
    return np.array([views * 0.5 ** (one - day) if one >= day else 0.0 for one in range(days)])


def steady(views: float = 20.0, days: int = DAYS) -> FloatArray:
    return np.random.default_rng(0).poisson(views * WEEK[np.arange(days) % 7]).astype(np.float64)


def class_of(views: FloatArray) -> str:
    return CLASSES[classify(views[None, :])[0]]


@pytest.mark.parametrize("day", [1, 10, 30, 50, 56])
def test_a_story_inside_the_window_is_temporal(day: int) -> None:
    assert class_of(spike(day)) == "temporal"


@pytest.mark.parametrize("views", [1.2, 20.0, 5000.0])
def test_a_page_with_weeks_and_noise_is_steady(views: float) -> None:
    assert class_of(steady(views)) == "steady"


@pytest.mark.parametrize("day", [35, 45, 52])
def test_a_steady_page_that_is_new_is_steady(day: int) -> None:
    assert class_of(np.where(np.arange(DAYS) >= day, steady(), 0.0)) == "steady"


def test_a_story_on_a_quiet_page_is_temporal_without_and_with_its_background() -> None:
    assert class_of(steady(2.0) + spike(30)) == "temporal"


@pytest.mark.parametrize("born", [0, -1, -2, -5])
def test_a_page_that_was_falling_when_the_window_began_is_unknown(born: int) -> None:
    whole = spike(0, 40_000, DAYS - born) + 20.0 / (1 + np.arange(DAYS - born) / 4)
    assert class_of(whole[-born:]) == "unknown"


@pytest.mark.parametrize("day", [57, 58, 59])
def test_a_page_that_rose_less_than_three_days_before_the_end_is_unknown(day: int) -> None:
    assert class_of(spike(day)) == "unknown"


def test_a_page_without_views_is_unknown() -> None:
    assert class_of(np.zeros(DAYS)) == "unknown"


def test_one_burst_on_a_steady_page_makes_it_unstable() -> None:
    views = steady()
    views[33] += 2000
    assert class_of(views) == "unstable"


def test_a_class_that_half_the_window_does_not_share_is_unstable() -> None:
    views = np.full(DAYS, 5.0)
    views[20:23] += 60.0
    whole, half = shape_of(views[None, :]), shape_of(views[None, 20:50])
    assert whole.concentration[0] < 0.4 < half.concentration[0]
    assert class_of(views) == "unstable"


def test_a_page_with_all_views_on_one_day_is_temporal() -> None:
    views = np.zeros(DAYS)
    views[20] = 500
    assert class_of(views) == "temporal"


def test_classes_do_not_depend_on_how_large_a_page_is() -> None:
    views = np.stack([spike(10), steady(), steady(2.0) + spike(30), spike(58)])
    assert classify(views).tolist() == classify(1000 * views).tolist()


@pytest.mark.parametrize("days", [1, 2, 3, 4, 10, 14])
def test_windows_of_a_few_days_have_classes_too(days: int) -> None:
    found = classify(np.stack([spike(0, days=days), np.zeros(days), np.ones(days)]))
    assert found.shape == (3,)
    assert found[1] == CLASSES.index("unknown")


def test_the_shape_has_the_textbook_numbers() -> None:
    even, one_day = np.full(DAYS, 7.0), np.zeros(DAYS)
    one_day[10] = 60
    shape = shape_of(np.stack([even, one_day]))
    assert shape.best_share == pytest.approx([3 / 60, 1])
    assert shape.gini == pytest.approx([0, 1 - 1 / DAYS])
    assert shape.half_life[1] == pytest.approx(0.5)
    assert shape.half_life[0] == pytest.approx(DAYS / 2, abs=1)
    assert shape.concentration[1] == pytest.approx(1)
    assert shape.concentration[0] == pytest.approx(0, abs=0.01)


def test_the_papers_class_is_that_of_its_curve() -> None:
    x = np.arange(1.0, DAYS + 1)
    bump = np.exp(-0.5 * ((x - 30) / 6) ** 2)  # a b far in the past fits it best: Phi(3) is 0
    curves = fit_paper(np.stack([1000 * bump, spike(20)]))
    assert [CLASSES[one] for one in classify_by_curve(curves)] == ["steady", "temporal"]

"""Which pages are called temporal."""

import numpy as np
import pytest

from hacs_crawler.lab.interest.hubs import concentration_of, temporal_by_days
from hacs_crawler.utils.arrays import FloatArray

DAYS = 60
WEEK = np.array([1.3, 1.3, 1.2, 1.2, 1.1, 0.5, 0.4])


def spike(day: int, views: float = 400.0, days: int = DAYS) -> FloatArray:
    """A story: half of what is left is read on each day."""
    return np.array([views * 0.5 ** (at - day) if at >= day else 0.0 for at in range(days)])


def steady(views: float = 20.0, days: int = DAYS) -> FloatArray:
    return np.random.default_rng(0).poisson(views * WEEK[np.arange(days) % 7]).astype(np.float64)


def is_temporal(views: FloatArray) -> bool:
    return bool(temporal_by_days(views[None, :])[0])


def on_one_day(day: int, views: float) -> FloatArray:
    return np.where(np.arange(DAYS) == day, views, 0.0)


@pytest.mark.parametrize(
    ("views", "expected"),
    [
        *((spike(day), True) for day in (1, 10, 30, 50, 56)),
        (steady(2.0) + spike(30), True),
        (on_one_day(20, 500.0), True),
        *((steady(number), False) for number in (1.2, 20.0, 5000.0)),
        *((np.where(np.arange(DAYS) >= day, steady(), 0.0), False) for day in (35, 45, 52)),
        (steady() + on_one_day(33, 2000.0), False),  # one burst on a steady page
        (np.zeros(DAYS), False),
    ],
)
def test_a_story_inside_the_window_is_temporal_and_a_page_with_weeks_and_noise_is_not(
    views: FloatArray, expected: bool
) -> None:
    assert is_temporal(views) is expected


@pytest.mark.parametrize("day", [57, 58, 59])
def test_of_a_page_that_rose_less_than_three_days_before_the_end_nothing_is_known(day: int) -> None:
    assert not is_temporal(spike(day))
    assert np.isnan(concentration_of(spike(day)[None, :]))[0]


def test_how_large_a_page_is_does_not_matter() -> None:
    views = np.stack([spike(10), steady(), steady(2.0) + spike(30), spike(58)])
    assert temporal_by_days(views).tolist() == temporal_by_days(1000 * views).tolist()


@pytest.mark.parametrize("days", [1, 2, 3, 4, 10, 14])
def test_windows_of_a_few_days_can_be_judged_too(days: int) -> None:
    found = temporal_by_days(np.stack([spike(0, days=days), np.zeros(days), np.ones(days)]))
    assert found.shape == (3,)
    assert found[1:].tolist() == [False, False]


def test_the_concentration_is_0_of_an_even_page_and_1_of_a_single_day() -> None:
    views = np.stack([np.full(DAYS, 7.0), on_one_day(10, 60.0)])
    assert concentration_of(views) == pytest.approx([0, 1], abs=0.01)

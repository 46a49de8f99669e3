"""Which pages are called temporal; sites scored by them, and the curves of their links."""

import numpy as np
import pytest

from hacs_crawler.lab.interest.curves import Curves
from hacs_crawler.lab.interest.hubs import (
    SiteScores,
    concentration_of,
    interest_in_sites,
    pages_to_add,
    score_sites,
    temporal_by_days,
)
from hacs_crawler.utils.arrays import FloatArray


def scored(sites: list[list[bool]]) -> SiteScores:
    """Score sites by which of their pages are temporal, all with the same views."""
    site_of = np.repeat(np.arange(len(sites)), [len(site) for site in sites])
    is_temporal = np.array([page for site in sites for page in site], np.bool_)
    return score_sites(site_of, is_temporal, np.full(site_of.size, 100.0), len(sites))


def test_the_score_is_the_papers() -> None:
    site_of, is_temporal = np.zeros(4, np.int64), np.array([True, False, False, False])
    scores = score_sites(site_of, is_temporal, np.array([300.0, 50.0, 25.0, 25.0]), 1, more=0.0)
    assert scores.score[0] == pytest.approx((3 * 0.25 + 2 * 0.75) / 5)


def test_a_site_of_one_page_ranks_below_one_of_many() -> None:
    many = [True] * 45 + [False] * 5
    others = [[False] * 20 for _ in range(8)]
    scores = scored([[True], many, *others, [True] + [False] * 19])
    assert scores.best().tolist()[:2] == [1, 0]
    assert scores.best(1).tolist() == [1]


def test_a_site_without_pages_has_the_usual_score() -> None:
    scores = scored([[], [True] * 5, [False] * 5])
    assert scores.score[0] == pytest.approx(scores.usual_score)


@pytest.mark.parametrize(
    ("sites", "listed"),
    [
        ([[], [True] * 5, [False] * 5], [1]),
        ([[True, False, False]], [0]),
        ([[False] * 3, [False]], []),
    ],
)
def test_sites_with_temporal_pages_are_listed(sites: list[list[bool]], listed: list[int]) -> None:
    assert scored(sites).best().tolist() == listed


def test_few_pages_are_added_where_sites_differ_and_many_where_they_are_alike() -> None:
    n = np.full(60, 20.0)
    apart = np.where(np.arange(60) < 10, 20.0, 0.0)
    alike = np.random.default_rng(0).binomial(20, 10 / 60, 60).astype(np.float64)
    assert pages_to_add(apart, n) < 1
    assert pages_to_add(alike, n) > 20


def curves(mu: FloatArray, sigma: FloatArray) -> Curves:
    nothing = np.zeros(len(mu))
    return Curves(mu, sigma, nothing, nothing)


def test_a_site_with_many_pages_has_the_spread_of_all_their_reading() -> None:
    mu, sigma = np.random.default_rng(0).normal(-0.5, 0.6, 4000), np.full(4000, 0.8)
    site_of = np.repeat([0, 1], 2000)
    mu[2000:] += 2.0
    mus, sigmas, _ = interest_in_sites(
        site_of, np.ones(4000, np.bool_), curves(mu, sigma), np.ones(4000), 2
    )
    assert mus == pytest.approx([-0.5, 1.5], abs=0.05)
    assert sigmas == pytest.approx([1.0, 1.0], abs=0.05)


def test_pages_that_are_not_temporal_do_not_count_and_few_pages_are_shrunk() -> None:
    mu = np.array([0.0] * 100 + [3.0, 9.0])
    is_temporal = np.array([True] * 101 + [False])
    site_of = np.array([0] * 100 + [1, 2])
    views = np.array([100.0] * 100 + [1000.0, 1e6])
    mus, _, worth = interest_in_sites(site_of, is_temporal, curves(mu, np.ones(102)), views, 3)
    assert 0.0 < mus[1] < 1.0
    assert mus[2] == pytest.approx(3 / 101)
    assert 1.0 < worth[1] < 5.0
    assert worth[2] == pytest.approx(1.0)


def test_without_temporal_pages_all_sites_are_alike() -> None:
    none = np.zeros(2, np.bool_)
    mus, sigmas, worth = interest_in_sites(
        np.array([0, 1]), none, curves(*np.ones((2, 2))), np.ones(2), 2
    )
    assert [one.tolist() for one in (mus, sigmas, worth)] == [[0.0, 0.0], [1.0, 1.0], [1.0, 1.0]]


# Which pages are called temporal


DAYS = 60
WEEK = np.array([1.3, 1.3, 1.2, 1.2, 1.1, 0.5, 0.4])


def spike(day: int, days: int = DAYS) -> FloatArray:
    """A story: half of what is left is read on each day."""
    return np.array([400.0 * 0.5 ** (at - day) if at >= day else 0.0 for at in range(days)])


def steady(views: float = 20.0) -> FloatArray:
    return np.random.default_rng(0).poisson(views * WEEK[np.arange(DAYS) % 7]).astype(np.float64)


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

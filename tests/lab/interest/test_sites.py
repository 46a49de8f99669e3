"""Sites scored by their pages, the lists made of them, and the curves of their links."""

import numpy as np
import pytest

from hacs_crawler.lab.interest.curves import Curves
from hacs_crawler.lab.interest.hubs import SiteScores, interest_in_sites, pages_to_add, score_sites
from hacs_crawler.utils.arrays import FloatArray


def scored(sites: list[list[bool]], views: float = 100.0) -> SiteScores:
    """Score sites by which of their pages are temporal, all with the same views."""
    site_of = np.repeat(np.arange(len(sites)), [len(site) for site in sites])
    is_temporal = np.array([page for site in sites for page in site], np.bool_)
    return score_sites(site_of, is_temporal, np.full(site_of.size, views), len(sites))


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
    random = np.random.default_rng(0)
    mu, sigma = random.normal(-0.5, 0.6, 4000), np.full(4000, 0.8)
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

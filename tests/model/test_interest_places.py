"""Sites scored by their pages, and the lists made of them."""

from __future__ import annotations

import numpy as np
import pytest

from hacs_crawler.model import STEADY, TEMPORAL, UNKNOWN, UNSTABLE, best_places, score_places
from hacs_crawler.model.interest_places import pages_to_add


def scored(sites: list[list[int]], views: float = 100.0):  # type: ignore[no-untyped-def]
    """Score sites by the classes of their pages, all with the same views."""
    place = np.repeat(np.arange(len(sites)), [len(site) for site in sites])
    classes = np.array([one for site in sites for one in site], np.int8)
    return score_places(place, classes, np.full(place.size, views), len(sites))


def test_the_raw_score_is_the_papers() -> None:
    place, classes = np.array([0, 0, 0, 0]), np.array([TEMPORAL, STEADY, STEADY, STEADY], np.int8)
    places = score_places(place, classes, np.array([300.0, 50.0, 25.0, 25.0]), 1)
    assert places.raw_score[0] == pytest.approx((3 * 0.25 + 2 * 0.75) / 5)


def test_a_site_of_one_page_ranks_below_one_of_many() -> None:
    many = [TEMPORAL] * 45 + [STEADY] * 5
    others = [[STEADY] * 20 for _ in range(8)]
    places = scored([[TEMPORAL], many, *others, [TEMPORAL] + [STEADY] * 19])
    assert places.raw_score[0] == 1 > places.raw_score[1]
    assert best_places(places).tolist()[:2] == [1, 0]


def test_unknown_pages_do_not_count_and_unstable_ones_count_as_not_temporal() -> None:
    places = scored([[TEMPORAL, UNKNOWN, UNKNOWN], [TEMPORAL, UNSTABLE]])
    assert places.judged.tolist() == [1, 2]
    assert places.pages.tolist() == [3, 2]
    assert places.raw_score.tolist() == pytest.approx([1, 0.5])


def test_a_site_with_no_judged_page_has_the_usual_score_and_is_not_listed() -> None:
    places = scored([[UNKNOWN], [TEMPORAL] * 5, [STEADY] * 5])
    assert np.isnan(places.raw_score[0])
    assert places.score[0] == pytest.approx(places.usual_score)
    assert best_places(places).tolist() == [1]


def test_the_only_site_there_is_is_listed() -> None:
    assert best_places(scored([[TEMPORAL, STEADY, STEADY]])).tolist() == [0]


def test_nothing_is_listed_where_no_page_is_temporal() -> None:
    assert best_places(scored([[STEADY] * 3, [STEADY]])).size == 0


def test_a_burden_passes_over_what_is_too_large_for_it() -> None:
    sites = [[TEMPORAL] * 30, [TEMPORAL] * 4, [TEMPORAL] * 3, [STEADY] * 40]
    places = scored(sites)
    assert best_places(places, burden=10).tolist() == [1, 2]
    assert best_places(places, top=2).tolist() == [0, 1]
    assert best_places(places, burden=2).size == 0


def test_few_pages_are_added_where_sites_differ_and_many_where_they_are_alike() -> None:
    n = np.full(60, 20.0)
    apart = np.where(np.arange(60) < 10, 20.0, 0.0)
    alike = np.random.default_rng(0).binomial(20, 10 / 60, 60).astype(np.float64)
    assert pages_to_add(apart, n) < 1
    assert pages_to_add(alike, n) > 20

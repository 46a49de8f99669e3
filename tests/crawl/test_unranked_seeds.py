"""Seeds that wait to be ranked, without an engine: how many are held, and that none is lost."""

import pytest
from scrapy import Request

from hacs_crawler.crawl.queues import LEAST_CHUNK, MOST_AHEAD, UnrankedSeeds


def is_filtered(_: Request) -> bool:
    return False


def seeds(number: int) -> list[Request]:
    return [Request(f"http://a.example/{one}") for one in range(number)]


def filled(number: int, budget: int | None = None) -> UnrankedSeeds:
    unranked = UnrankedSeeds(budget)
    for page_id, seed in enumerate(seeds(number)):
        unranked.add(seed, page_id)
    return unranked


def test_what_is_being_ranked_is_not_held_and_not_lost_until_it_was_ranked() -> None:
    unranked = filled(3)
    ranking, page_ids = unranked.begin_ranking(is_filtered)
    assert page_ids == [0, 1, 2]
    assert len(unranked) == 0
    assert unranked.all() == ranking
    unranked.end_ranking([], [])
    assert unranked.all() == []


def test_what_could_not_be_ranked_is_held_before_what_came_meanwhile() -> None:
    unranked = filled(2)
    ranking, page_ids = unranked.begin_ranking(is_filtered)
    late = Request("http://a.example/late")
    unranked.add(late, 9)
    unranked.end_ranking(ranking, page_ids)
    assert unranked.begin_ranking(is_filtered) == ([*ranking, late], [0, 1, 9])


@pytest.mark.parametrize(
    ("budget", "chunk"), [(None, MOST_AHEAD), (5, LEAST_CHUNK), (3 * LEAST_CHUNK, 3 * LEAST_CHUNK)]
)
def test_so_many_are_ranked_at_once(budget: int | None, chunk: int) -> None:
    assert not filled(chunk - 1, budget).is_chunk
    assert filled(chunk, budget).is_chunk


def test_a_list_is_ranked_whole_and_nothing_is_held_back_of_it() -> None:
    unranked = filled(MOST_AHEAD)
    assert unranked.most_ahead == MOST_AHEAD
    unranked.ends_surely = True
    assert not unranked.is_chunk
    assert unranked.most_ahead is None


def test_nothing_is_taken_and_nothing_kept_where_nothing_was_ranked() -> None:
    unranked = filled(1, budget=1)
    assert unranked.take(is_last=True) == (None, [])
    assert not unranked.is_kept

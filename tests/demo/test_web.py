"""The made-up web: its histories, and its answers at a time."""

from itertools import pairwise

import numpy as np
import pytest

from hacs_crawler.demo.web import BEGIN, END, HOST, START, Web, WebPage, generated
from hacs_crawler.utils.times import DAY


@pytest.fixture(scope="module")
def webs() -> list[Web]:
    return [generated(seed) for seed in range(5)]


def homepages(web: Web) -> list[str]:
    return list(dict.fromkeys(page.homepage for page in web.pages))


def test_the_same_seed_gives_the_same_web(webs: list[Web]) -> None:
    assert generated(3).pages == webs[3].pages
    assert webs[3].pages != webs[4].pages


def test_a_web_has_the_authors_asked_for_and_some_three_pages_of_each(webs: list[Web]) -> None:
    for web in webs:
        assert len(homepages(web)) == 100
        assert 250 < len(web.pages) < 380
        assert len({page.path for page in web.pages}) == len(web.pages)


def test_updates_and_captures_are_in_order_and_within_the_history(webs: list[Web]) -> None:
    for page in webs[0].pages:
        assert all(earlier < later for earlier, later in pairwise(page.updates))
        assert all(earlier < later for earlier, later in pairwise(page.captures))
        assert all(BEGIN <= at < END for at in page.updates)
        assert all(BEGIN <= at < START for at in page.captures)
        assert len(page.updates) == len(page.new_links)


def test_some_pages_never_change_and_a_few_go_away(webs: list[Web]) -> None:
    for web in webs:
        assert 0.1 < np.mean([not page.updates for page in web.pages]) < 0.4
        assert 0 < sum(page.gone_at > 0 for page in web.pages) < 0.1 * len(web.pages)


PAGES = (
    WebPage("/~ada/", 2, updates=[START + 5 * DAY], new_links=[4], captures=[]),
    WebPage("/~ada/data.html", 1, [], [], captures=[], gone_at=START + 20 * DAY),
    WebPage("/~adam/", 1, [], [], captures=[]),
)


def get(path: str, day: float = 0) -> tuple[int, str]:
    answer = Web(PAGES).answer(HOST + path, START + day * DAY)
    return answer.status, answer.body.decode()


def test_a_page_shows_its_links_at_that_time() -> None:
    assert get("/~ada/")[1].count(".pdf") == 2
    assert get("/~ada/", 6)[1].count(".pdf") == 6


def test_a_page_links_to_its_authors_others_and_to_nobody_elses() -> None:
    _, body = get("/~ada/")
    assert 'href="/~ada/data.html"' in body
    assert "/~adam/" not in body


def test_other_paths_are_not_found_nor_is_a_page_from_when_it_went_away() -> None:
    for path in ("/", "/robots.txt", "/~eve/", "/~ada"):
        assert get(path) == (404, "")
    assert get("/~ada/data.html")[0] == 200
    assert get("/~ada/data.html", 21)[0] == 404

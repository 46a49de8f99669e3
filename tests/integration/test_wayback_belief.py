"""`scrapy crawl wayback`: what is believed to be a memento, and what is asked for once more."""

import math

import pytest

from wayback_machine import EXCLUDED, page
from wayback_support import Bootstrap, known, months, recorded_directly, visit

URL = "http://foo.edu/~bar/"
TIMES = list(months(12))
OWN_PAGE = b"<html><a href='http://archive.example/donate'>We are down for maintenance</a></html>"
FOR_EVER = math.inf


@pytest.fixture
def bootstrap(bootstrap: Bootstrap) -> Bootstrap:
    """An archive of one page that gains a link every other month."""
    for number, at in enumerate(TIMES):
        bootstrap.archive.capture(URL, at, *links(number))
    return bootstrap


def links(number: int) -> list[str]:
    outside = ["http://b.org/x?y=1", "https://www.c.org/", "mailto:a@b.org", "#top"]
    return [*outside, *(f"/{one}" for one in range(number // 2 + 1)), "cv.html", "../~eve/"]


def assert_complete(bootstrap: Bootstrap) -> None:
    """Nothing of the archive is missing in the state, and nothing else is in it."""
    visits = [visit(URL, at, *links(number)) for number, at in enumerate(TIMES)]
    assert bootstrap.state() == known(recorded_directly(bootstrap.project.folder, visits))


def test_the_page_that_says_a_url_is_excluded_is_read_to_its_end(bootstrap: Bootstrap) -> None:
    assert EXCLUDED.index(b"excluded") > 50_000
    bootstrap.archive.fail("memento", 200, times=FOR_EVER, body=EXCLUDED)
    crawl = bootstrap.run([URL])
    assert [item["status"] for item in crawl.items] == ["blocked"]
    assert bootstrap.pages() == {}


def test_a_seed_of_which_nothing_could_be_recorded_is_not_said_to_have_a_history(
    bootstrap: Bootstrap,
) -> None:
    bootstrap.archive.fail("memento", 200, times=FOR_EVER, body=OWN_PAGE)
    crawl = bootstrap.run([URL])
    assert bootstrap.pages() == {}
    assert "12 mementos were not shown (no Memento-Datetime: 12" in crawl.log
    assert [item["status"] for item in crawl.items] == ["unread"]
    assert "0 have a history" in crawl.log
    assert "(archival rate 0 %), 1 have no readable capture" in crawl.log


def test_an_archive_that_names_no_times_is_believed_where_the_digest_is_right(
    bootstrap: Bootstrap,
) -> None:
    bootstrap.archive.names_times = False
    other = page("/other")
    bootstrap.archive.fail("memento", 200, body=other, only_if=lambda one: TIMES[0] in one.path)
    bootstrap.run([URL])
    assert len(bootstrap.pages()[URL].visits) == len(TIMES) - 1
    bootstrap.run([URL])
    assert_complete(bootstrap)


def test_links_that_an_archive_has_rewritten_are_put_right_and_it_is_said_once(
    bootstrap: Bootstrap,
) -> None:
    bootstrap.archive.rewrites = True
    crawl = bootstrap.run([URL])
    assert crawl.log.count("rewrites the links of pages, although the request") == 1
    assert_complete(bootstrap)

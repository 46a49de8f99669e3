"""The demonstration's web, as its server shows it."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from hacs_crawler.demo.server import LiveWeb, Server
from hacs_crawler.demo.web import Web, WebPage
from hacs_crawler.utils.times import DAY

START = 1_700_000_000
PAGES = (
    WebPage("/~ada/", 2, updates=[START + 5 * DAY], new_links=[4], captures=[]),
    WebPage("/~ada/data.html", 1, [], [], captures=[], gone_at=START + 20 * DAY),
    WebPage("/~adam/", 1, [], [], captures=[]),
)


@dataclass
class Served:
    """A running server, and what its clock says."""

    now: float = START
    address: str = ""

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(self.address + path, timeout=30) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()


@pytest.fixture
def served() -> Iterator[Served]:
    made = Served()
    with Server(LiveWeb(Web(PAGES, START), lambda: made.now)) as server:
        made.address = server.address
        yield made


def test_a_page_shows_the_links_of_the_clocks_moment(served: Served) -> None:
    assert served.get("/~ada/")[1].count(".pdf") == 2
    served.now += 6 * DAY
    assert served.get("/~ada/")[1].count(".pdf") == 6


def test_a_page_links_to_its_authors_others_and_to_nobody_elses(served: Served) -> None:
    _, body = served.get("/~ada/")
    assert 'href="/~ada/data.html"' in body
    assert "/~adam/" not in body


@pytest.mark.parametrize("path", ["/", "/robots.txt", "/~eve/", "/~ada"])
def test_what_is_no_page_is_not_found(served: Served, path: str) -> None:
    assert served.get(path)[0] == 404


def test_a_page_that_goes_away_is_not_found_from_then_on(served: Served) -> None:
    assert served.get("/~ada/data.html")[0] == 200
    served.now += 21 * DAY
    assert served.get("/~ada/data.html")[0] == 404

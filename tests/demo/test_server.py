"""The server of demonstrations, as it is run: a web on one port, its archive on another."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from pathlib import Path

import pytest

from hacs_crawler.demo import clock
from hacs_crawler.demo.processes import EndSignals, Processes
from hacs_crawler.demo.project import write_web
from hacs_crawler.demo.web import Web, WebPage
from hacs_crawler.harvest.query import Span, memento_url, query_url, read_answer
from hacs_crawler.harvest.site import Site

START = 1_700_000_000
DAY = 86_400
PAGES = (
    WebPage(
        "/~ada/",
        links=2,
        updates=[START - 50 * DAY, START + 5 * DAY],
        new_links=[3, 4],
        captures=[START - 90 * DAY, START - 60 * DAY, START - 30 * DAY, START + 30 * DAY],
    ),
    WebPage(
        "/~ada/data.html",
        links=1,
        updates=[],
        new_links=[],
        captures=[START - 60 * DAY, START - 10 * DAY],
        gone_at=START - 20 * DAY,
    ),
    WebPage("/~adam/", links=1, updates=[], new_links=[], captures=[START - 60 * DAY]),
)


@dataclass
class Served:
    """A running server, and its clock."""

    web: str
    archive: str
    clock: Path

    def at(self, days: float) -> None:
        """Let it be so many days after the start."""
        clock.set_to(self.clock, START + days * DAY)

    def query(self, site: Site, limit: int = 100, resume_key: str = "") -> list[tuple[str, int]]:
        """Ask for a site's captures as the spider does: SURT and second of each."""
        span = Span(START - 1_000 * DAY, START + 1_000 * DAY, resume_key)
        _, body, _ = get(query_url(f"{self.archive}/cdx/search/cdx", site, span, limit))
        answer = read_answer(body, "index", site, span)
        rows = [(surt, one.at) for surt, found in answer.pages for one in found]
        return rows + (self.query(site, limit, answer.resume_key) if answer.resume_key else [])


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("served")
    write_web(folder, Web(PAGES, START, START + 100 * DAY))
    with Processes(folder, EndSignals()) as processes:
        line = processes.serve("server", "-m", "hacs_crawler.demo.server", str(folder))
        web, archive = (f"http://127.0.0.1:{port}" for port in json.loads(line))
        yield Served(web, archive, folder / "clock")


def get(url: str) -> tuple[int, bytes, dict[str, str]]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read(), dict(answer.headers)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(), dict(error.headers)


def links(body: bytes) -> int:
    """How many links to works a page has."""
    return body.count(b".pdf")


@pytest.mark.parametrize(("days", "number"), [(0, 5), (4.9, 5), (5.1, 9)])
def test_a_page_is_as_it_was_at_the_clocks_moment(served: Served, days: float, number: int) -> None:
    served.at(days)
    status, body, _ = get(f"{served.web}/~ada/")
    assert (status, links(body)) == (200, number)


def test_a_page_that_went_away_is_gone(served: Served) -> None:
    served.at(-21)
    assert get(f"{served.web}/~ada/data.html")[0] == 200
    served.at(-19)
    assert get(f"{served.web}/~ada/data.html")[0] == 404


def test_a_homepage_leads_to_the_authors_other_pages(served: Served) -> None:
    served.at(0)
    _, body, _ = get(f"{served.web}/~ada/")
    assert b'href="/~ada/data.html"' in body
    assert b"~adam" not in body


def test_there_is_a_robots_txt_that_allows_everything(served: Served) -> None:
    assert get(f"{served.web}/robots.txt")[:2] == (200, b"User-agent: *\nAllow: /\n")


@pytest.mark.parametrize("path", ["/", "/~nobody/", "/~ada/more.html"])
def test_other_pages_are_not_found(served: Served, path: str) -> None:
    assert get(f"{served.web}{path}")[0] == 404


def test_the_index_has_the_captures_of_a_site_that_were_made_by_now(served: Served) -> None:
    served.at(0)
    rows = served.query(Site(f"{served.web}/~ada/", has_subpages=True))
    seconds = [at for _, at in rows]
    # of the page that is gone since, the capture of an error is none
    assert seconds == [START - days * DAY for days in (90, 60, 30, 60)]
    served.at(31)
    assert len(served.query(Site(f"{served.web}/~ada/", has_subpages=True))) == 5


def test_the_index_can_be_read_in_chunks(served: Served) -> None:
    served.at(0)
    site = Site(f"{served.web}/~ada/", has_subpages=True)
    assert sorted(served.query(site, limit=2)) == sorted(served.query(site))


def test_the_index_of_one_page_has_no_others(served: Served) -> None:
    served.at(0)
    assert len(served.query(Site(f"{served.web}/~ada/", has_subpages=False))) == 3


def test_an_index_is_asked_for_a_url(served: Served) -> None:
    assert get(f"{served.archive}/cdx/search/cdx")[:2] == (400, b"url parameter is required\n")


def test_a_digest_changes_when_a_page_does(served: Served) -> None:
    served.at(0)
    _, body, _ = get(f"{served.archive}/cdx/search/cdx?url={served.web}/~ada/&output=json")
    digests = [row[5] for row in json.loads(body)[1:]]
    assert digests[0] == digests[1] != digests[2]


def test_a_memento_is_the_page_as_it_was_captured(served: Served) -> None:
    served.at(0)
    site = Site(f"{served.web}/~ada/", has_subpages=False)
    span = Span(START - 1_000 * DAY, START)
    _, body, _ = get(query_url(f"{served.archive}/cdx/search/cdx", site, span, 100))
    (_, captures), *_ = read_answer(body, "index", site, span).pages
    numbers = []
    for capture in captures:
        status, body, headers = get(memento_url(f"{served.archive}/web", capture))
        assert status == 200
        assert parsedate_to_datetime(headers["Memento-Datetime"]).timestamp() == capture.at
        numbers.append(links(body))
    assert numbers == [2, 2, 5]


@pytest.mark.parametrize("timestamp", ["20230101000000", "nonsense", "20231214221320"])
def test_what_was_not_captured_by_now_has_no_memento(served: Served, timestamp: str) -> None:
    served.at(0)  # the last of the three is a capture of 30 days later
    assert get(f"{served.archive}/web/{timestamp}id_/{served.web}/~ada/")[0] == 404

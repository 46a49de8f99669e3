"""Control visits: a page whose every visit showed something new is asked twice, within the budget."""

import re
import signal
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler
from itertools import count, pairwise
from pathlib import Path
from threading import Lock
from typing import Any

import pytest

from hacs_crawler.state.page import Visit
from hacs_crawler.utils.times import DAY
from integration_support import AnySpider, Crawl, Project, finish, read_until
from servers import LocalServer

SPIDER = """
    class Plain(scrapy.Spider):
        name = "plain"

        def __init__(self, url, number="1", **kwargs):
            super().__init__(**kwargs)
            self.start_urls = [f"{url}/{n}" for n in range(int(number))]

        def parse(self, response):
            self.logger.info("parsed %s", response.url)
            yield {"url": response.url}
"""
GIVEN = {"HACS_BUDGET": 4, "HACS_CONTROLS": 0.5}


class Sessions(LocalServer):
    """A server whose pages show links with a new session at every request, and a cookie of it."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, float, dict[str, str]]] = []
        self.answers: dict[int, tuple[int, dict[str, str]]] = {}
        """Status and headers of the n-th answer, from 0."""
        self.links = 1
        """How many links a page shows."""
        self._numbers = count(1)
        self._lock = Lock()
        super().__init__()

    def visits(self) -> list[tuple[str, float, dict[str, str]]]:
        return [one for one in self.asked if one[0] != "/robots.txt"]

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        with self._lock:
            place = len(self.visits())
            headers = {name.lower(): value for name, value in handler.headers.items()}
            self.asked.append((handler.path, time.monotonic(), headers))
        status, more = 200, {"Content-Type": "text/html", "Set-Cookie": "sid=1", "ETag": '"a"'}
        number = next(self._numbers)
        body = "".join(f'<a href="/{n}?sid={number}">x</a>' for n in range(self.links))
        if handler.path == "/robots.txt":
            body, more = "User-agent: *\nDisallow:\n", {"Content-Type": "text/plain"}
        elif place in self.answers:
            status, others = self.answers[place]
            more |= others
        self.send(handler, status, more, body.encode())


@pytest.fixture
def sessions() -> Iterator[Sessions]:
    with Sessions() as site:
        yield site


class Runs(AnySpider):
    """A spider, and pages of which it knows that they are suspicious."""

    def __init__(self, folder: Path, site: Sessions, write: Callable[..., None]) -> None:
        super().__init__(folder, site)
        self._write = write

    def known(self, number: int = 1) -> None:
        """Four daily visits of each page, each of which showed a new link."""
        start = int(time.time()) - 5 * DAY
        for page in range(number):
            url = f"{self._site.url}/{page}"
            self._write(
                *(Visit(url, start + n * DAY, marks=frozenset({9_000 + n})) for n in range(5))
            )

    def crawl(self, number: int = 1, **settings: Any) -> Crawl:
        return self.run(SPIDER, f"number={number}", **{**GIVEN, **settings})


@pytest.fixture
def runs(tmp_path: Path, sessions: Sessions, write_state: Callable[..., None]) -> Runs:
    return Runs(tmp_path, sessions, write_state)


def parsed(crawl: Crawl) -> int:
    return crawl.log.count("parsed http")


def test_a_page_that_always_shows_something_new_is_asked_twice_and_the_spider_sees_one_answer(
    runs: Runs, sessions: Sessions, project: Project
) -> None:
    runs.known()
    cache = {"HTTPCACHE_ENABLED": True}
    crawl = runs.crawl(**cache, HTTPCACHE_POLICY="scrapy.extensions.httpcache.DummyPolicy")
    first, second = sessions.visits()
    assert first[0] == second[0] == "/0", "no cache answers"
    assert second[1] - first[1] >= 1.0
    assert not {"cookie", "if-none-match", "if-modified-since"} & second[2].keys()
    assert second[2]["user-agent"] == first[2]["user-agent"]
    assert (parsed(crawl), crawl.stat("item_scraped_count")) == (1, 1)
    assert crawl.stat("hacs/controls") == 1
    assert crawl.stat("hacs/controls/differed") == 1
    assert crawl.stat("hacs/controls/failed") == 0
    assert "'finish_reason': 'finished'" in crawl.log
    page = project.page(f"{sessions.url}/0")
    assert len(page.visits) == 7
    assert page.visits[-1] - page.visits[-2] < 60
    assert page.churning > 0.95
    assert page.churn > 0.7


def test_requests_keep_the_sites_delay(runs: Runs, sessions: Sessions) -> None:
    runs.known(2)
    runs.crawl(2, DOWNLOAD_DELAY=2, RANDOMIZE_DOWNLOAD_DELAY=False)
    times = [at for _, at, _ in sessions.visits()]
    assert len(times) == 4
    # they are noted when they come, which on a busy machine is some time after they were sent
    assert all(later - earlier > 1.0 for earlier, later in pairwise(times))
    assert times[-1] - times[0] > 3 * 2 - 0.8


def test_a_host_that_asked_for_a_pause_is_not_asked_twice(runs: Runs, sessions: Sessions) -> None:
    runs.known(2)
    sessions.answers[1] = (429, {"Retry-After": "3"})
    crawl = runs.crawl(2, HACS_RETRY_AFTER=True, RETRY_ENABLED=False)
    times = [at for _, at, _ in sessions.visits()]
    assert all(later - times[1] > 2.9 for later in times[2:])
    assert crawl.stat("hacs/controls/failed") == 1


def test_a_control_visit_that_is_answered_with_an_error_is_counted_and_tells_nothing(
    runs: Runs, sessions: Sessions, project: Project
) -> None:
    runs.known()
    sessions.answers[1] = (500, {})
    crawl = runs.crawl(RETRY_ENABLED=False)
    assert crawl.stat("hacs/controls/failed") == 1
    assert crawl.stat("hacs/controls") == 0
    page = project.page(f"{sessions.url}/0")
    assert (len(page.visits), page.failures) == (6, 0)


def test_a_redirected_page_is_asked_for_where_it_was_asked_for_first(
    runs: Runs, sessions: Sessions
) -> None:
    runs.known()
    sessions.answers[0] = sessions.answers[2] = (302, {"Location": "/other"})
    crawl = runs.crawl()
    assert [path for path, _, _ in sessions.visits()] == ["/0", "/other", "/0", "/other"]
    assert crawl.stat("hacs/controls") == 1


def test_a_signal_ends_the_crawl_though_a_control_is_under_way(
    runs: Runs, sessions: Sessions
) -> None:
    runs.known()
    process = runs.start(SPIDER, **GIVEN)
    log = read_until(process, "parsed http")
    process.send_signal(signal.SIGINT)
    assert re.search(r"'hacs/visits': 1\b", finish(process, log).log)


def test_what_changes_with_every_request_is_learned_and_the_pages_are_quiet_from_then_on(
    runs: Runs, sessions: Sessions
) -> None:
    sessions.links = 3
    runs.known()
    assert "?sid=* is left out of them" in runs.crawl().log
    for runs.days in (10, 20):  # a baseline, and a quiet visit
        later = runs.crawl(HACS_CONTROLS=0)
        assert later.stat("hacs/visits") == 1
        assert later.stat("hacs/updates") == 0

"""`scrapy crawl wayback` against an archive that is overloaded, odd, not there or not believed."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import pytest

from integration_support import Crawl, Project
from servers import Site
from wayback_machine import CUT, RESET, page
from wayback_support import PAUSE_SECONDS, Bootstrap, known, months, recorded_directly, visit

URL = "http://foo.edu/~bar/"
TO_429 = {"Location": "/429.html"}
IN_FLIGHT_SECONDS = 2.0
"""Of a pause of three: until then comes what was on its way, also on a busy machine."""
FOR_EVER = math.inf


def fill(bootstrap: Bootstrap, number: int = 12, url: str = URL) -> list[str]:
    """Archive a page with a new link every month; return what is to be known of it."""
    times = list(months(number))
    for at, links in history(times):
        bootstrap.archive.capture(url, at, *links)
    return times


def history(times: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    others = ["http://b.org/x?y=1", "https://www.c.org/", "mailto:a@b.org", "#top", "../~eve/"]
    for number, at in enumerate(times):
        yield at, [*others, *(f"/{one}" for one in times[: number + 1])]


def assert_complete(bootstrap: Bootstrap, times: Sequence[str], *urls: str) -> None:
    """Nothing of the archive is missing in the state, and nothing else is in it."""
    visits = [visit(url, at, *links) for url in urls or [URL] for at, links in history(times)]
    assert bootstrap.state() == known(recorded_directly(bootstrap.project.folder, visits))


def assert_one_clear_error(crawl: Crawl, *texts: str) -> None:
    (error,) = crawl.errors
    for text in texts:
        assert text in error


@dataclass
class Paused:
    """What a run left that was told to pause in one way after the other."""

    bootstrap: Bootstrap
    times: list[str]
    crawl: Crawl

    @property
    def cdx_gaps(self) -> list[float]:
        """The seconds from each CDX query to the next one."""
        asked = self.bootstrap.archive.asks("cdx")
        return [later.at - one.at for one, later in pairwise(asked)]

    @property
    def memento_gap(self) -> float:
        """The seconds from the first to the second request for the earliest memento."""
        mementos = self.bootstrap.archive.asks("memento")
        first, second = (one.at for one in mementos if self.times[0] in one.path)
        return second - first


@pytest.fixture(scope="module")
def paused(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Paused]:
    folder = tmp_path_factory.mktemp("paused")
    with Bootstrap(Project(folder, f"sqlite:///{folder}/state.db")) as bootstrap:
        times, archive = fill(bootstrap), bootstrap.archive
        archive.fail("cdx", 429)
        archive.fail("cdx", 302, headers=TO_429)
        archive.fail("cdx", 429, headers={"Retry-After": "3"})
        archive.fail(
            "memento", 429, headers={"Retry-After": "0"}, only_if=lambda one: times[0] in one.path
        )
        archive.fail("memento", 302, headers=TO_429, only_if=lambda one: times[-1] in one.path)
        yield Paused(bootstrap, times, bootstrap.run([URL]))


def test_nothing_is_lost_by_pausing(paused: Paused) -> None:
    assert "has had too many requests: left alone for" in paused.crawl.log
    assert_complete(paused.bootstrap, paused.times)


def test_a_pause_is_twice_as_long_as_the_one_before_even_after_an_answer(paused: Paused) -> None:
    first, second, _ = paused.cdx_gaps
    assert first > PAUSE_SECONDS - 0.05
    assert second > 2 * PAUSE_SECONDS - 0.05
    assert paused.memento_gap > 8 * PAUSE_SECONDS - 0.05


def test_retry_after_makes_a_pause_longer_and_never_shorter(paused: Paused) -> None:
    assert paused.cdx_gaps[2] > 3 - 0.05
    assert paused.memento_gap > PAUSE_SECONDS - 0.05


def test_a_redirect_to_the_page_about_too_many_requests_is_a_429(paused: Paused) -> None:
    assert paused.crawl.stat("hacs/archive/pauses") == 5
    assert "/429.html" not in [one.path for one in paused.bootstrap.archive.asked]


def test_nothing_at_all_is_asked_for_during_a_pause(bootstrap: Bootstrap) -> None:
    others = [f"http://other.edu/{number}/" for number in range(40)]
    times = fill(bootstrap)
    archive = bootstrap.archive
    archive.fail(
        "memento", 429, headers={"Retry-After": "3"}, only_if=lambda one: times[3] in one.path
    )
    archive.fail("memento", 429, only_if=lambda one: times[0] in one.path)
    bootstrap.run([URL, *others], archive_pause_seconds=0.2)
    first = archive.asks("memento")[0].at
    assert not [one for one in archive.asked if IN_FLIGHT_SECONDS < one.at - first < 2.95]
    assert_complete(bootstrap, times)


def test_refused_connections_are_waited_for(bootstrap: Bootstrap) -> None:
    times = fill(bootstrap)
    bootstrap.archive.fail("memento", 429, refuse_for=PAUSE_SECONDS + 0.4)
    crawl = bootstrap.run([URL])
    assert "refuses connections: left alone for" in crawl.log
    assert crawl.stat("hacs/archive/pauses") >= 2
    assert_complete(bootstrap, times)


def test_answers_cut_off_or_in_html_and_connections_cut_are_asked_for_again(
    bootstrap: Bootstrap,
) -> None:
    times = fill(bootstrap)
    for status in (CUT, RESET, 503):
        bootstrap.archive.fail("cdx", status)
    html = b"<!DOCTYPE html>\n<script> var x:1 a b c d e f g h\n</html>"
    bootstrap.archive.fail("cdx", 200, body=html, headers={"Content-Type": "text/html"})
    bootstrap.archive.fail("memento", RESET, times=2)
    bootstrap.archive.fail("memento", 503)
    bootstrap.run([URL])
    assert_complete(bootstrap, times)


def test_robots_txt_of_the_archive_is_obeyed(bootstrap: Bootstrap) -> None:
    fill(bootstrap)
    rules = b"User-agent: *\nDisallow: /web/\n"
    bootstrap.archive.fail(
        "other", 200, body=rules, headers={"Content-Type": "text/plain"}, times=FOR_EVER
    )
    crawl = bootstrap.run([URL], status=1)
    assert_one_clear_error(crawl, bootstrap.archive.memento_url, "robots.txt")
    assert bootstrap.asked() == ["cdx"]


def test_an_address_that_is_no_cdx_servers_is_named(bootstrap: Bootstrap, site: Site) -> None:
    site.pages["/"] = (200, {}, b"<html>\n<body>Welcome: it works</body>\n\n</html>")
    seeds = [f"http://foo.edu/{one}/" for one in range(20)]
    site_url = f"{site.url}/"
    crawl = bootstrap.run(seeds, cdx_url=site_url, memento_url=site_url, status=1)
    assert_one_clear_error(crawl, site_url, "HACS_ARCHIVES")


def test_seeds_that_share_pages_ask_for_each_memento_once(bootstrap: Bootstrap) -> None:
    fill(bootstrap)
    bootstrap.run([URL, "http://foo.edu/"], "level=website")
    mementos = [one.path for one in bootstrap.archive.asks("memento")]
    assert len(mementos) == len(set(mementos))


def test_pauses_for_which_503_asks_grow_and_come_to_an_end(bootstrap: Bootstrap) -> None:
    fill(bootstrap)
    wait = {"Retry-After": "1"}
    bootstrap.archive.fail("cdx", 503, times=FOR_EVER, headers=wait)
    crawl = bootstrap.run([URL], archive_pause_seconds=0.05, status=1)
    assert_one_clear_error(crawl, "answered 503, also after 7 pauses")
    assert crawl.stat("hacs/archive/pauses") == 7
    asked = [one.at for one in bootstrap.archive.asks("cdx")]
    assert asked[-1] - asked[-2] > 0.05 * 2**6 - 0.05


def test_an_archive_that_names_no_times_is_believed_where_the_digest_is_right(
    bootstrap: Bootstrap,
) -> None:
    times = fill(bootstrap)
    bootstrap.archive.names_times = False
    other = page("/other")
    bootstrap.archive.fail("memento", 200, body=other, only_if=lambda one: times[0] in one.path)
    bootstrap.run([URL])
    assert len(bootstrap.pages()[URL].visits) == len(times) - 1
    bootstrap.run([URL])
    assert_complete(bootstrap, times)

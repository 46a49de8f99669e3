"""`scrapy crawl wayback` against Common Crawl, of which `common_crawl` is a double."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from common_crawl import GATEWAY_TIMEOUT, SLOW_DOWN, CommonCrawl
from integration_support import Crawl, Project
from pywb_archive import Archived

pytest.importorskip("warcio")

URL = "http://foo.edu/~bar/"
DAY = 86_400
T = 1_700_000_000
FIRST, SECOND = ("http://a.org/1",), ("http://a.org/1", "http://a.org/2")


@pytest.fixture
def crawls(tmp_path: Path) -> Iterator[CommonCrawl]:
    """Three crawls, of which the second did not see the page."""
    with CommonCrawl(tmp_path) as running:
        running.crawl(
            "CC-MAIN-2023-50",
            [
                Archived("http://other.org/", T - DAY, FIRST),
                Archived(URL, T, FIRST),
                Archived(URL, T + DAY, FIRST),
                Archived(URL, T + 2 * DAY, status=404),
                Archived(f"{URL}more.html", T + DAY, FIRST),
            ],
        )
        running.crawl("CC-MAIN-2024-10", [Archived("http://other.org/", T + 30 * DAY, FIRST)])
        running.crawl(
            "CC-MAIN-2024-18",
            [
                Archived(URL, T + 60 * DAY, SECOND),
                Archived(URL, T + 62 * DAY, SECOND, headers=(("X-Kind", "again"),)),
            ],
        )
        yield running


def run(
    project: Project,
    crawls: CommonCrawl,
    *arguments: str,
    urls: tuple[str, ...] = (URL,),
    status: int = 0,
    **more: object,
) -> Crawl:
    settings = {"HACS_ARCHIVES": json.dumps({"commoncrawl": {**crawls.settings, **more}})}
    return project.crawl([*urls], *arguments, spider="wayback", status=status, **settings)


def test_captures_of_every_crawl_become_visits(project: Project, crawls: CommonCrawl) -> None:
    crawl = run(project, crawls)
    assert crawl.errors == []
    page = project.page(URL)
    assert list(page.visits) == [T, T + DAY, T + 60 * DAY, T + 62 * DAY]
    assert list(page.update_times) == [T + 60 * DAY]
    assert [item["archive"] for item in crawl.items] == ["commoncrawl"]
    assert "1 have a history" in crawl.log
    # of each content only the part of the file with one record
    assert len(crawls.ranges_asked()) == crawl.stat("hacs/archive/mementos") == 2
    assert crawl.stat("hacs/archive/mementos_saved") == 2


def test_the_list_of_crawls_is_asked_for_once(project: Project, crawls: CommonCrawl) -> None:
    crawl = run(project, crawls, urls=tuple(f"http://foo{number}.edu/" for number in range(20)))
    assert [one.path for one in crawls.asked].count("/collinfo.json") == 1
    assert crawl.stat("hacs/archive/seeds/none") == 20


def test_only_crawls_of_the_time_asked_for_are_asked(project: Project, crawls: CommonCrawl) -> None:
    run(project, crawls, "since=2023-12-01", "until=2023-12-31")
    assert crawls.indexes_asked() == ["CC-MAIN-2024-10"]


def test_a_second_run_asks_for_no_record_again(project: Project, crawls: CommonCrawl) -> None:
    run(project, crawls)
    before = project.page(URL)
    crawls.asked.clear()
    run(project, crawls)
    assert crawls.ranges_asked() == []
    assert crawls.indexes_asked() == ["CC-MAIN-2024-18"]  # newer than the latest capture, or as new
    assert project.page(URL).visits == before.visits


def test_robots_txt_is_obeyed_and_named_unless_the_user_says_otherwise(
    project: Project, crawls: CommonCrawl
) -> None:
    (error,) = run(project, crawls, robotstxt_obey=True, status=1).errors
    assert "robots.txt" in error
    assert "CC-MAIN-2023-50-index" in error
    assert crawls.indexes_asked() == []


def test_slow_down_and_time_outs_are_waited_for_and_pages_below_a_homepage_found_too(
    project: Project, crawls: CommonCrawl
) -> None:
    crawls.faults = {"data": [(503, SLOW_DOWN)], "index": [(504, GATEWAY_TIMEOUT)] * 2}
    crawl = run(project, crawls, "level=website")
    assert crawl.stat("hacs/archive/pauses") == 1
    assert (crawl.stat("hacs/archive/mementos"), crawl.errors) == (3, [])
    pages = [project.page(url) for url in (URL, f"{URL}more.html")]
    assert [len(page.visits) for page in pages if page is not None] == [4, 1]


def test_a_server_that_sends_whole_files_is_not_believed(
    project: Project, crawls: CommonCrawl
) -> None:
    crawls.ignores_range = True
    crawl = run(project, crawls)
    assert "0 have a history" in crawl.log
    assert crawl.items[0]["status"] == "unread"
    assert project.page(URL) is None


def test_what_is_no_list_of_crawls_is_named(project: Project, crawls: CommonCrawl) -> None:
    crawls.faults["index"] = [(200, b"<html>It works</html>")] * 3
    (error,) = run(project, crawls, status=1).errors
    assert "HACS_ARCHIVES, 'commoncrawl'" in error
    assert "collinfo.json" in error

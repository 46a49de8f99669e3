"""`scrapy crawl wayback` by TimeMaps and TimeGates: a real pywb's, and those of an aggregator.

The archives that the aggregator names are pywb and the local Wayback Machine; only the aggregator itself
is a double (`memgator`).
"""

import json
from collections.abc import Iterator, Mapping

import pytest

from hacs_crawler.harvest.query import timestamp
from integration_support import Crawl, Project
from memgator import MemGator
from pywb_archive import Archived, PywbArchive, PywbServer, pywb_archive, write_warc
from wayback_machine import WaybackMachine
from wayback_support import QUICK

pytest.importorskip("warcio")

URL = "http://foo.edu/~bar/"
DAY = 86_400
T = 1_300_000_000
ONE, TWO = ("http://a.org/1",), ("http://a.org/1", "http://a.org/2")
THREE = (*TWO, "http://a.org/3")
PYWB_DAYS, WAYBACK_DAYS = (0, 2, 4), (1, 3, 5)
ALL = [0, 1, 2, 3, 4, 5]


@pytest.fixture(scope="module")
def real(pywb: PywbServer, tmp_path_factory: pytest.TempPathFactory) -> PywbArchive:
    """The page on the first, third and fifth day: a link more on the fifth."""
    folder = tmp_path_factory.mktemp("memento")
    captures = [Archived(URL, T + day * DAY, TWO if day == 4 else ONE) for day in PYWB_DAYS]
    warc = write_warc(folder / "pages.warc.gz", [*captures, Archived(f"{URL}x", T, ONE)])
    return pywb_archive(pywb, warc)


@pytest.fixture
def wayback() -> Iterator[WaybackMachine]:
    """The page on the second, fourth and sixth day: two links more on the sixth."""
    with WaybackMachine() as running:
        for day in WAYBACK_DAYS:
            running.capture(URL, timestamp(T + day * DAY), *(THREE if day == 5 else ONE))
        yield running


@pytest.fixture
def memgator(real: PywbArchive, wayback: WaybackMachine) -> Iterator[MemGator]:
    """Knows the mementos of both."""
    with MemGator() as running:
        running.know(URL, [*mementos_of(real, PYWB_DAYS), *mementos_of(wayback, WAYBACK_DAYS)])
        yield running


def mementos_of(
    archive: PywbArchive | WaybackMachine, numbers: tuple[int, ...]
) -> list[tuple[int, str]]:
    return [(at, f"{archive.memento_url}/{timestamp(at)}/{URL}") for at in days(numbers)]


def by_timemap(memgator: MemGator) -> dict[str, dict[str, object]]:
    return {"all": {"timemap_url": memgator.timemap_url, **QUICK}}


def days(numbers: tuple[int, ...]) -> list[int]:
    return [T + number * DAY for number in numbers]


def run(
    project: Project, archives: Mapping[str, object], *arguments: str, **settings: object
) -> Crawl:
    settings = {"HACS_ARCHIVES": json.dumps(archives), **settings}
    return project.crawl([URL], *arguments, spider="wayback", **settings)


def known_of(project: Project) -> tuple[list[int], list[int]]:
    """The days of the visits, and of the updates."""
    page = project.page(URL)
    if page is None:
        return [], []
    visits, updates = page.visits, page.update_times
    return [(at - T) // DAY for at in visits], [(at - T) // DAY for at in updates]


@pytest.mark.parametrize("path", ["timemap/link/", ""])
def test_a_real_archives_timemap_and_timegate_tell_of_its_captures(
    path: str, project: Project, real: PywbArchive
) -> None:
    key = "timemap_url" if path else "timegate_url"
    crawl = run(project, {"mine": {key: f"{real.memento_url}/{path}", **QUICK}})
    assert crawl.errors == []
    assert known_of(project) == ([0, 2, 4], [4])
    assert crawl.stat("hacs/archive/mementos") == 3  # no digests: each is fetched


def test_mementos_of_several_archives_make_one_history(
    project: Project, memgator: MemGator
) -> None:
    crawl = run(project, by_timemap(memgator))
    assert crawl.errors == []
    assert known_of(project) == (ALL, [4, 5])
    assert crawl.items[0]["status"] == "history"


def test_an_aggregators_timegate_leads_to_its_timemap(project: Project, memgator: MemGator) -> None:
    run(project, {"all": {"timegate_url": memgator.timegate_url, **QUICK}})
    assert known_of(project)[0] == ALL
    assert memgator.site.visited() == [f"/timegate/{URL}", f"/timemap/link/{URL}"]


def test_a_timegate_without_a_timemap_tells_of_the_mementos_it_names(
    project: Project, memgator: MemGator, wayback: WaybackMachine
) -> None:
    ((_, first), *_) = mementos_of(wayback, WAYBACK_DAYS)
    date = 'datetime="Mon, 14 Mar 2011 07:06:40 GMT"'
    link = f'<{URL}>; rel="original", <{first}>; rel="first memento"; {date}'
    memgator.site.pages[f"/timegate/{URL}"] = (302, {"Location": first, "Link": link}, b"")
    run(project, {"all": {"timegate_url": memgator.timegate_url, **QUICK}})
    assert known_of(project)[0] == [1]


def test_a_timemap_in_parts_is_read_to_its_end(
    project: Project, memgator: MemGator, real: PywbArchive, wayback: WaybackMachine
) -> None:
    first, later = mementos_of(real, PYWB_DAYS), mementos_of(wayback, WAYBACK_DAYS)
    memgator.know_in_parts(URL, first, later[:2], later[2:])
    run(project, by_timemap(memgator))
    assert known_of(project)[0] == ALL


def test_mementos_that_are_not_on_the_web_are_not_asked_for(
    project: Project, memgator: MemGator, real: PywbArchive
) -> None:
    memgator.know(
        URL,
        [
            *mementos_of(real, PYWB_DAYS),
            (T + DAY, f"file:///etc/2011/{URL}"),
            (T + 3 * DAY, "data:,x"),
        ],
    )
    crawl = run(project, by_timemap(memgator))
    assert crawl.stat("hacs/archive/dropped/not_http") == 2
    assert known_of(project)[0] == [0, 2, 4]
    assert crawl.stat("downloader/request_count") < 9


def test_a_page_that_no_archive_has_is_none(project: Project, memgator: MemGator) -> None:
    memgator.site.pages.clear()
    crawl = run(project, by_timemap(memgator))
    assert (crawl.items[0]["status"], crawl.errors) == ("none", [])


def test_an_archive_whose_robots_txt_forbids_it_is_left_out_and_named(
    project: Project, memgator: MemGator, wayback: WaybackMachine
) -> None:
    wayback.fail("other", 200, body=b"User-agent: *\nDisallow: /web/\n", times=9)
    crawl = run(project, by_timemap(memgator))
    assert wayback.asks("memento") == []
    assert known_of(project)[0] == [0, 2, 4]
    assert crawl.log.count("its mementos are left out") == 1


def test_each_archive_of_an_aggregator_has_a_pace_of_its_own(
    project: Project, memgator: MemGator, wayback: WaybackMachine
) -> None:
    wayback.fail("other", 200, body=b"User-agent: *\nCrawl-delay: 0.7\n", times=9)
    crawl = run(project, by_timemap(memgator))
    assert "asks in robots.txt for 0.7 s between requests" in crawl.log
    times = [one.at for one in wayback.asks("memento")]
    # by all of them: a busy machine lets one come late, and the next sooner after it
    assert times[-1] - times[0] > 0.6 * (len(times) - 1)
    assert len(times) > 2
    assert known_of(project)[0] == ALL


def test_an_archive_that_is_overloaded_keeps_no_other_waiting(
    project: Project, memgator: MemGator, wayback: WaybackMachine
) -> None:
    wayback.fail("memento", 429, headers={"Retry-After": "99999999"}, times=9)
    crawl = run(project, by_timemap(memgator))
    assert known_of(project)[0] == [0, 2, 4]
    assert crawl.items[0]["status"] == "unanswered"
    assert any("asks to be left alone" in line for line in crawl.errors)
    wayback.forgive()
    run(project, by_timemap(memgator))
    assert known_of(project)[0] == ALL


def both(real: PywbArchive, wayback: WaybackMachine) -> dict[str, dict[str, object]]:
    return {
        "real": {"cdx_url": real.cdx_url, "memento_url": real.memento_url, **QUICK},
        "wayback": {"cdx_url": wayback.cdx_url, "memento_url": wayback.memento_url, **QUICK},
    }


def test_two_archives_make_one_history_and_are_told_apart(
    project: Project, real: PywbArchive, wayback: WaybackMachine
) -> None:
    crawl = run(project, both(real, wayback))
    assert known_of(project) == (ALL, [4, 5])
    assert sorted(item["archive"] for item in crawl.items) == ["real", "wayback"]
    assert "real: 1 seeds have a history" in crawl.log
    assert "HACS asked 2 archives about 2 seeds" in crawl.log


def test_digests_of_two_archives_are_not_compared(
    project: Project, real: PywbArchive, wayback: WaybackMachine
) -> None:
    (error,) = run(project, both(real, wayback), "mode=digest", status=1).errors
    assert "mode = 'digest'" in error

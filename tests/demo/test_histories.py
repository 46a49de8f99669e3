"""Generated histories, and those of files."""

from __future__ import annotations

import csv
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from hacs_crawler.archive.timelines import TimelineError
from hacs_crawler.demo.histories import BEGIN, END, START, from_timelines, generated
from hacs_crawler.demo.web import Web, WebPage, read_web
from hacs_crawler.exceptions import HacsError
from hacs_crawler.utils.times import DAY


@pytest.fixture(scope="module")
def webs() -> list[Web]:
    return [generated(seed, 100) for seed in range(5)]


def test_the_same_seed_gives_the_same_web(webs: list[Web]) -> None:
    assert generated(3, 100) == webs[3]
    assert webs[3] != webs[4]


def test_a_web_has_the_authors_asked_for_and_some_three_pages_of_each(webs: list[Web]) -> None:
    for web in webs:
        assert len(web.homepages()) == 100
        assert 250 < len(web.pages) < 380
        assert len({page.path for page in web.pages}) == len(web.pages)


def test_updates_and_captures_are_in_order_and_within_the_history(webs: list[Web]) -> None:
    for page in webs[0].pages:
        assert all(earlier < later for earlier, later in pairwise(page.updates))
        assert all(earlier < later for earlier, later in pairwise(page.captures))
        assert all(BEGIN <= at < END for at in page.updates)
        assert all(BEGIN <= at < START for at in page.captures)
        assert len(page.updates) == len(page.new_links)


def test_rates_of_authors_are_spread_as_those_of_scholarly_sites(webs: list[Web]) -> None:
    rates = [_sessions(web, homepage) for web in webs for homepage in web.homepages()]
    often = np.array([rate for rate in rates if rate >= 10]) / ((END - BEGIN) / DAY)
    # median and spread of what is left of a log-normal with 74 days and 1.25, cut at ten sessions
    assert 35 < 1 / np.median(often) < 90
    assert 0.5 < np.std(np.log(often)) < 1.0


def _sessions(web: Web, homepage: str) -> int:
    pages = [page for page in web.pages if page.homepage == homepage]
    return len({at // DAY for page in pages for at in page.updates})


def test_most_updates_come_within_a_day_of_one_on_another_page_of_the_author(
    webs: list[Web],
) -> None:
    shares = [_accompanied(web) for web in webs]
    assert 0.5 < np.mean(shares) < 0.7  # 0.58 to 0.64 in the project's timelines


def _accompanied(web: Web) -> float:
    near = total = 0
    for homepage in web.homepages():
        pages = [page for page in web.pages if page.homepage == homepage]
        for page in pages:
            others = np.array([0, *(at for one in pages if one is not page for at in one.updates)])
            near += sum(int(np.abs(others - at).min() < DAY) for at in page.updates)
            total += len(page.updates)
    return near / total


def test_some_pages_never_change_and_a_few_go_away(webs: list[Web]) -> None:
    for web in webs:
        assert 0.1 < np.mean([not page.updates for page in web.pages]) < 0.4
        assert 0 < sum(page.gone_at > 0 for page in web.pages) < 0.1 * len(web.pages)


@pytest.mark.parametrize("authors", [1, 577])
def test_a_number_of_authors_that_cannot_be_is_named(authors: int) -> None:
    with pytest.raises(HacsError, match=f"authors = {authors}: allowed is a whole number from 2"):
        generated(0, authors)


def test_a_web_can_be_read_from_its_file(tmp_path: Path, webs: list[Web]) -> None:
    webs[0].write(tmp_path / "web.json")
    assert read_web(tmp_path / "web.json") == webs[0]


@pytest.mark.parametrize("content", ["", "[]", '{"pages": [{"path": 1}], "start": 1, "end": 2}'])
def test_a_file_that_is_no_web_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "web.json").write_text(content)
    with pytest.raises(HacsError, match=r"web\.json: no web of a demonstration"):
        read_web(tmp_path / "web.json")


def test_updates_are_counted_after_one_time_up_to_another_and_before_the_page_is_gone() -> None:
    page = WebPage("/~a/", 1, [10, 20, 30, 40], [1, 1, 1, 1], [], gone_at=40)
    assert page.updates_between(10, 20) == 1
    assert page.updates_between(0, 100) == 3


YEAR = 365 * DAY
SITES = {"one": "http://x.example/~ada/", "two": "http://y.example/~ada/"}


def _write(folder: Path, name: str, columns: str, *rows: str) -> None:
    with (folder / f"{name}.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns.split())
        writer.writerows(row.split() for row in rows)


@pytest.fixture
def timelines(tmp_path: Path) -> Path:
    one, two = SITES.values()
    _write(
        tmp_path,
        "pages",
        "url site level first_seen",
        f"{one} {one} homepage 2020-01-01",
        f"{one}p.html {one} subpage 2020-01-01",
        f"{two} {two} homepage 2020-01-01",
        f"{two}late.html {two} subpage 2023-06-01",
    )
    _write(
        tmp_path,
        "updates",
        "url updated_at new_links",
        f"{one} 2021-05-01 3",
        f"{one}p.html 2024-01-01 2",
    )
    captures = [f"{one} 2020-02-01", f"{one} 2023-12-01", f"{two} 2021-01-01"]
    _write(tmp_path, "captures", "url captured_at", *captures)
    return tmp_path


def test_true_histories_keep_their_updates_under_paths_of_this_machine(timelines: Path) -> None:
    web = from_timelines(timelines)
    assert [page.path for page in web.pages] == ["/~ada/", "/~ada/p.html", "/~ada-1/"]
    homepage, below, _ = web.pages
    assert list(homepage.new_links) == [3]
    assert list(below.updates) == [1_704_067_200]


def test_the_last_two_years_of_true_histories_are_for_the_crawls(timelines: Path) -> None:
    web = from_timelines(timelines)
    assert web.end - web.start == 2 * YEAR
    assert web.end == 1_704_067_200
    assert [len(page.captures) for page in web.pages] == [1, 0, 1]


def test_a_folder_without_timelines_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        TimelineError, match=r"no folder of timelines: there is no pages\.csv in it"
    ):
        from_timelines(tmp_path)


def test_a_wrong_line_of_timelines_is_named(timelines: Path) -> None:
    with (timelines / "updates.csv").open("a") as file:
        file.write("http://nowhere.example/,2021-05-01,3\n")
    with pytest.raises(TimelineError, match=r"updates\.csv, line 4: .*not among the pages"):
        from_timelines(timelines)

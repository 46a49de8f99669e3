"""Windows of views, what speaks against them, and pages judged by them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from hacs_crawler.interest import (
    Rules,
    TableReader,
    Views,
    ViewsError,
    day_of,
    gathered,
    hours_by,
    hub_of,
    hub_rows,
    hubs_of,
    judge,
    rows_json,
    seed_line,
    sign_of_cut,
    signs_of_window,
    views_csv,
    window_of,
    zone_named,
)
from hacs_crawler.model import CLASSES, STEADY

FIRST = day_of("2026-09-01")


def views_of(table: dict[str, list[float]], bins_a_day: int = 1) -> Views:
    """Views by bin, from the first of September on."""
    rows = [
        (page, FIRST * bins_a_day + place, number)
        for page, values in enumerate(table.values())
        for place, number in enumerate(values)
    ]
    page, bins, numbers = (np.array(column) for column in zip(*rows, strict=True))
    return gathered(list(table), page, bins, numbers.astype(np.float64), bins_a_day)[0]


def web(news: int = 3, others: int = 6) -> Views:
    """Sites of which the first are news: a story a day, and a page about them."""
    random = np.random.default_rng(0)
    table: dict[str, list[float]] = {}
    for site in range(news + others):
        for page in range(12):
            day = 3 + 4 * page
            story = [400 * 0.4 ** (one - day) if one >= day else 0 for one in range(60)]
            steady = random.poisson(10, 60).tolist()
            is_story = site < news and page < 10
            folder = "news" if is_story else "about"
            table[f"https://s{site}.example/{folder}/2026/{page}.html"] = (
                story if is_story else steady
            )
    return views_of(table)


def test_a_window_is_the_last_days_on_record_of_pages_with_enough_views() -> None:
    views = views_of({"/a": [50.0] * 10, "/b": [1.0] * 10, "/c": [0.0] * 10})
    window = window_of(views, days=4, until=None, least_views=60)
    assert window.pages == ["/a"]
    assert window.left_out == 1
    assert (window.first_day, window.days) == (FIRST + 6, 4)
    assert window.views.tolist() == [[50.0] * 4]


def test_a_window_does_not_begin_before_the_record() -> None:
    window = window_of(views_of({"/a": [50.0] * 10}), days=60, until=None, least_views=1)
    assert (window.first_day, window.days) == (FIRST, 10)


def test_a_window_may_end_earlier_and_says_so_where_nothing_is_in_it() -> None:
    views = views_of({"/a": [50.0] * 10})
    assert window_of(views, 5, FIRST + 5, 1).first_day == FIRST + 1
    with pytest.raises(
        ViewsError, match=r"no views between .* they are of 2026-09-01 to 2026-09-10"
    ):
        window_of(views, 5, FIRST - 100, 1)


@pytest.mark.parametrize("bins_a_day", [1, 24])
def test_what_is_written_is_read_again(tmp_path: Path, bins_a_day: int) -> None:
    views = views_of(
        {"https://a.example/x,y": [5.0, 0.0, 2.5], "https://a.example/ü": [1e7] * 3}, bins_a_day
    )
    path = tmp_path / "views.csv"
    path.write_bytes(b"".join(views_csv(views)))
    reader = TableReader(None, hours_by(zone_named("UTC")), 10**6)
    reader.read(str(path))
    again = reader.views(hourly=True)
    assert again.bins_a_day == bins_a_day
    assert again.bin.tolist() == views.bin.tolist()
    assert again.views.tolist() == views.views.tolist()


def test_each_page_has_a_row_of_its_curve_its_class_and_its_shape() -> None:
    judged = judge(window_of(web(), 60, None, 60), Rules())
    rows = json.loads(b"".join(rows_json(judged)))
    assert len(rows) == 9 * 12
    assert {"page", "mu", "sigma", "b", "scale", "sse", "phi", "class"} <= set(rows[0])
    for row in rows:
        assert row["class"] == ("temporal" if "/news/" in row["page"] else "steady")
        assert (row["phi"] > 0.7) == (row["class"] == "temporal")


def test_the_papers_rule_is_its_own() -> None:
    window = window_of(web(), 60, None, 60)
    rows = list(judge(window, Rules("paper")).rows())
    assert {row["class"] for row in rows} == {"temporal", "steady"}
    assert all((row["class"] == "temporal") == (row["phi"] > 0.7) for row in rows)
    none = judge(window, Rules("paper", share=1.0))
    assert (none.classes == STEADY).all()


def test_hours_are_judged_by_days_and_fitted_by_hours() -> None:
    story = [
        100.0 * 0.7 ** (one - 24 * 20 - 9) if one >= 24 * 20 + 9 else 0.0 for one in range(24 * 60)
    ]
    judged = judge(window_of(views_of({"/a": story}, 24), 60, None, 60), Rules())
    assert CLASSES[judged.classes[0]] == "temporal"
    assert judged.curves.b[0] == pytest.approx(20 + 9 / 24, abs=0.1)
    assert judged.curves.phi(0.5)[0] > 0.9


@pytest.mark.parametrize(
    ("page", "site", "folder"),
    [
        ("https://a.example/", "https://a.example/", "https://a.example/"),
        ("https://a.example/x.html", "https://a.example/", "https://a.example/"),
        ("https://a.example/news/x", "https://a.example/", "https://a.example/news/"),
        ("https://a.example/news/2026/09/x", "https://a.example/", "https://a.example/news/"),
        ("https://a.example/news/2026-09-01/x", "https://a.example/", "https://a.example/news/"),
        ("https://a.example/2026/x", "https://a.example/", "https://a.example/"),
        ("http://a.example:81/b/c/?q=1", "http://a.example:81/", "http://a.example:81/b/c/"),
        ("/wiki/Cat", "/", "/wiki/"),
    ],
)
def test_a_page_lies_in_a_site_and_in_a_folder_without_dates(
    page: str, site: str, folder: str
) -> None:
    assert hub_of(page, "site") == site
    assert hub_of(page, "folder") == folder


def test_news_sites_and_news_folders_are_listed_as_seeds() -> None:
    judged = judge(window_of(web(), 60, None, 60), Rules())
    sites, folders = hubs_of(judged, "site"), hubs_of(judged, "folder")
    lines = [seed_line(row) for row in hub_rows(sites, sites.listed(100, None))]
    assert sorted(line.split(" #")[0] for line in lines) == [
        f"https://s{k}.example/" for k in range(3)
    ]
    lines = [seed_line(row) for row in hub_rows(folders, folders.listed(None, 25))]
    assert [": 10 of 10 pages temporal; mu=" in line for line in lines] == [True, True]
    assert all(line.split(" #")[0].endswith("/news/") for line in lines)


def test_pages_that_are_paths_give_no_seeds() -> None:
    judged = judge(
        window_of(views_of({"/a": [0.0] * 30 + [500, 100, 20] + [0.0] * 27}), 60, None, 60), Rules()
    )
    hubs = hubs_of(judged, "site")
    assert hubs.listed(10, None).size == 1
    assert list(hub_rows(hubs, hubs.listed(10, None))) == []


def signs(table: dict[str, list[float]]) -> str:
    window = window_of(views_of(table), 60, None, 1)
    return " ".join(signs_of_window(window, judge(window, Rules()).classes))


def test_short_windows_and_robots_are_warned_of_and_people_are_not() -> None:
    random = np.random.default_rng(0)
    people = {f"/{k}": random.poisson(30, 60).tolist() for k in range(40)}
    assert signs(people) == ""
    assert "the window has 30 days" in signs({page: values[:30] for page, values in people.items()})
    robots = {page: list(values) for page, values in people.items()}
    for k, values in enumerate(robots.values()):
        values[5 + k] += 150
    assert "robots" in signs(robots)


def test_a_list_cut_at_a_rank_is_warned_of() -> None:
    random = np.random.default_rng(0)
    table = {f"/{k}": [0.0] * 30 for k in range(60)}
    whole = views_of({page: [5.0] * 30 for page in table})
    assert sign_of_cut(whole) is None
    rows = [(page, FIRST + day) for day in range(30) for page in random.permutation(60)[:25]]
    page, day = (np.array(column) for column in zip(*rows, strict=True))
    cut = gathered(list(table), page, day, np.full(page.size, 9.0), 1)[0]
    assert "25 pages, of 60 in all" in str(sign_of_cut(cut))

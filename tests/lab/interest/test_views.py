"""Windows of views, what speaks against them, and pages judged by them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hacs_crawler.archive import ArchiveError
from hacs_crawler.exceptions import HacsError
from hacs_crawler.lab.interest.hubs import JudgedWindow, hub_lines, hub_of, judge
from hacs_crawler.lab.interest.views import Views, gathered, read_views, views_csv, window_of
from hacs_crawler.utils.times import DAY, day_text

FIRST = 20_697
"""2026-09-01, in days since 1970."""


def views_of(table: dict[str, list[float]], bins_a_day: int = 1) -> Views:
    """Views by bin, from the first of September on."""
    rows = [
        (page, FIRST * bins_a_day + place, number)
        for page, values in enumerate(table.values())
        for place, number in enumerate(values)
    ]
    page, bins, numbers = (np.array(column) for column in zip(*rows, strict=True))
    return gathered(list(table), page, bins, numbers.astype(np.float64), bins_a_day)


def web() -> Views:
    """Nine sites of which the first three are news: a story a day, and a page about them."""
    random = np.random.default_rng(0)
    table: dict[str, list[float]] = {}
    for site in range(9):
        for page in range(12):
            day = 3 + 4 * page
            story = [400 * 0.4 ** (one - day) if one >= day else 0 for one in range(60)]
            steady = random.poisson(10, 60).tolist()
            is_story = site < 3 and page < 10
            folder = "news" if is_story else "about"
            table[f"https://s{site}.example/{folder}/2026/{page}.html"] = (
                story if is_story else steady
            )
    return views_of(table)


def read(folder: Path, text: str | bytes) -> Views:
    path = folder / "views.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_views(str(path))


def rows(views: Views) -> list[tuple[str, str, float]]:
    return [
        (views.pages[page], day_text(DAY * (place // views.bins_a_day)), number)
        for page, place, number in zip(
            views.page.tolist(), views.bin.tolist(), views.views.tolist(), strict=True
        )
    ]


def test_a_window_is_the_last_days_on_record_of_pages_with_enough_views() -> None:
    views = views_of({"/a": [50.0] * 10, "/b": [1.0] * 10, "/c": [0.0] * 10})
    window = window_of(views, days=4, least_views=60)
    assert (window.pages, window.left_out) == (["/a"], 1)
    assert (window.first_day, window.days) == (FIRST + 6, 4)
    assert window.views.tolist() == [[50.0] * 4]


def test_a_window_does_not_begin_before_the_record() -> None:
    window = window_of(views_of({"/a": [50.0] * 10}), days=60, least_views=1)
    assert (window.first_day, window.days) == (FIRST, 10)


def test_a_window_without_views_is_an_error() -> None:
    with pytest.raises(HacsError, match="no views since 2026-09-07"):
        window_of(views_of({"/a": [50.0] + [0.0] * 9}), 4, 1)


@pytest.mark.parametrize("bins_a_day", [1, 24])
def test_what_is_written_is_read_again(tmp_path: Path, bins_a_day: int) -> None:
    views = views_of(
        {"https://a.example/x,y": [5.0, 0.0, 2.5], "https://a.example/%C3%BC": [1e7] * 3},
        bins_a_day,
    )
    again = read(tmp_path, b"".join(views_csv(views)))
    assert (again.bins_a_day, again.pages) == (bins_a_day, views.pages)
    assert again.bin.tolist() == views.bin.tolist()
    assert again.views.tolist() == views.views.tolist()


def test_columns_are_known_by_their_names_and_rows_may_come_in_any_order(tmp_path: Path) -> None:
    text = (
        "\ufeffViews,note,Date,Page\n1,x,2026-09-11,/a\n\n2,,2026-09-10,/a\n4,,2026-09-11,/a\n"
        '3,,2026-09-10,"https://b.example/c, d?utm_source=x"\n'
    )
    assert rows(read(tmp_path, text)) == [
        ("/a", "2026-09-10", 2),
        ("/a", "2026-09-11", 5),
        ("https://b.example/c,%20d", "2026-09-10", 3),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 0: .* CSV with the columns page, date"),
        ("page,day,views\n/a,2026-09-10,5\n", "line 1: "),
        ("page,date,views\n/a,2026-09-10,5\n/b,yesterday,5\n", "line 3: .*yesterday"),
        ("page,date,views\n/a,2026-02-30,5\n", "line 2: "),
        ("page,date,views\n/a,1926-02-03,5\n", "line 2: .*no date of 1970 to 2070"),
        ("page,date,views\n/a,2026-09-10,many\n", "line 2: .*many"),
        ("page,date,views\n/a,2026-09-10,-5\n", "line 2: .*no number of views"),
        ("page,date,views\n/a,2026-09-10,nan\n", "line 2: .*no number of views"),
        ("page,date,views\n/a,2026-09-10\n", "line 2: "),
        ("page,date,views\n/a,2026-09-10,1\n/a,2026-09-10T13,1\n", "others have none"),
        ("page,date,views\n", "there are no views in it"),
        ('page,date,views\n"' + "x" * 200_000, "line 2: "),
        (b"\x00\xff" * 5000, "line"),
    ],
)
def test_what_is_wrong_in_a_file_is_named_with_its_line(
    tmp_path: Path, text: str | bytes, message: str
) -> None:
    with pytest.raises(HacsError, match=rf"views\.csv.*{message}"):
        read(tmp_path, text)


def test_a_damaged_file_and_a_missing_one_are_named(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="damaged"):
        read(tmp_path, b"\x1f\x8b damaged")
    with pytest.raises(ArchiveError, match="cannot read"):
        read_views(str(tmp_path / "missing.csv"))


def rows_of(judged: JudgedWindow) -> list[dict[str, Any]]:
    columns = judged.columns()
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def test_each_page_has_a_row_of_its_curve_and_its_concentration() -> None:
    found = rows_of(judge(window_of(web(), 60, 60)))
    assert len(found) == 9 * 12
    for row in found:
        assert set(row) == {
            "page", "mu", "sigma", "b", "scale", "phi", "views", "concentration", "temporal",
        }  # fmt: skip
        assert row["temporal"] == ("/news/" in row["page"]) == (row["phi"] > 0.7)


def test_hours_are_judged_by_days_and_fitted_by_hours() -> None:
    story = [
        100.0 * 0.7 ** (hour - 24 * 20 - 9) if hour >= 24 * 20 + 9 else 0.0
        for hour in range(24 * 60)
    ]
    judged = judge(window_of(views_of({"/a": story}, 24), 60, 60))
    assert judged.is_temporal.tolist() == [True]
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
    judged = judge(window_of(web(), 60, 60))
    lines = hub_lines(judged, "site", 100)
    assert sorted(line.split(" #")[0] for line in lines) == [
        f"https://s{k}.example/" for k in range(3)
    ]
    lines = hub_lines(judged, "folder", 2)
    assert [": 10 of 10 pages temporal; mu=" in line for line in lines] == [True, True]
    assert all(line.split(" #")[0].endswith("/news/") for line in lines)


def test_pages_that_are_paths_give_no_seeds() -> None:
    story = [0.0] * 30 + [500, 100, 20] + [0.0] * 27
    judged = judge(window_of(views_of({"/a": story}), 60, 60))
    assert judged.is_temporal.tolist() == [True]
    assert hub_lines(judged, "site", 10) == []

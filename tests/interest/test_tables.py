"""Tables of page views as Matomo, Plausible, Google Analytics and Wikimedia export them."""

from __future__ import annotations

import codecs
from pathlib import Path

import pytest

from hacs_crawler.archive import ArchiveError
from hacs_crawler.interest import TableReader, Views, ViewsError, day_text, hours_by, zone_named

PLAUSIBLE = """\
"date","hostname","page","visits","visitors","pageviews"
2026-09-10,blog.example,/a,7,6,10
2026-09-10,blog.example,"/with, comma",1,1,1
2026-09-11,blog.example,/a,2,2,3
"""
MATOMO = """\
date,label,nb_visits,nb_uniq_visitors,nb_hits,metadata_url
2026-09-10,/a,7,6,10,https://blog.example/a
2026-09-10,Others,50,40,60,
2026-09-11,/a,2,2,3,https://blog.example/a
"""
GA = """\
# ----------------------------------------
# Pages and screens: Page path and screen class
# Start date: 20260901
# ----------------------------------------

Date,Hostname,Page path and screen class,Views,Active users
20260910,blog.example,/a,10,6
20260911,blog.example,/a,3,2
20260911,blog.example,(not set),5,5
,,,18,13
"""
GA_HOURS = """\
Date + hour (YYYYMMDDHH),Page location,Views
2026091013,https://blog.example/a,6
2026091101,https://blog.example/a,2
"""
WIKIMEDIA_API = """\
project,article,granularity,timestamp,access,agent,views
en.wikipedia,Cat,daily,2026091000,all-access,user,6
en.wikipedia,Cat,daily,2026091000,all-access,spider,900
en.wikipedia,Cat,daily,2026091100,all-access,user,2
"""
WIKIMEDIA_TOOL = '''\
Date,Cat,"Dog, the ""best"""
2026-09-10,6,1
2026-09-11,2,
'''


def read(folder: Path, text: str | bytes, **options: object) -> TableReader:
    path = folder / "views.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    hour_of = hours_by(zone_named("UTC"))
    latest = hour_of(1_800_000_000)
    reader = TableReader(**({"site": None, "hour_of": hour_of, "latest_hour": latest} | options))  # type: ignore[arg-type]
    reader.read(str(path))
    return reader


def rows(views: Views) -> dict[tuple[str, str], float]:
    day = [day_text(place // views.bins_a_day) for place in views.bin.tolist()]
    pages = [views.pages[place] for place in views.page.tolist()]
    return dict(zip(zip(pages, day, strict=True), views.views.tolist(), strict=True))


@pytest.mark.parametrize(
    "text", [PLAUSIBLE, MATOMO, GA, GA_HOURS], ids=["plausible", "matomo", "ga", "ga-hours"]
)
def test_an_export_gives_visitors_of_pages_by_day(tmp_path: Path, text: str) -> None:
    found = rows(read(tmp_path, text).views())
    assert found["https://blog.example/a", "2026-09-10"] == 6
    assert found["https://blog.example/a", "2026-09-11"] == 2


def test_matomo_writes_utf_16_and_a_row_of_what_it_cut(tmp_path: Path) -> None:
    reader = read(tmp_path, codecs.BOM_UTF16_LE + MATOMO.encode("utf-16-le"))
    assert rows(reader.views())["https://blog.example/a", "2026-09-10"] == 6
    assert reader.ranks_cut == 1
    assert reader.views_column == "nb_uniq_visitors"


def test_of_wikimedia_people_count_and_spiders_do_not(tmp_path: Path) -> None:
    reader = read(tmp_path, WIKIMEDIA_API, site="https://en.wikipedia.org/wiki")
    assert rows(reader.views()) == {
        ("https://en.wikipedia.org/wiki/Cat", "2026-09-10"): 6,
        ("https://en.wikipedia.org/wiki/Cat", "2026-09-11"): 2,
    }
    assert reader.problems.counts == {"views by robots": 1}


def test_wikimedias_tool_has_a_column_a_page(tmp_path: Path) -> None:
    found = rows(read(tmp_path, WIKIMEDIA_TOOL).views())
    assert found == {
        ("Cat", "2026-09-10"): 6,
        ("Cat", "2026-09-11"): 2,
        ('Dog, the "best"', "2026-09-10"): 1,
    }


def test_hours_are_kept_where_they_are_asked_for_and_there(tmp_path: Path) -> None:
    assert (read(tmp_path, GA_HOURS).views(hourly=True).bin % 24).tolist() == [13, 1]
    assert read(tmp_path, PLAUSIBLE).views(hourly=True).bins_a_day == 1


def test_columns_may_be_named_and_semicolons_separate_too(tmp_path: Path) -> None:
    text = "Tag;Seite;Besucher\n2026-09-10;https://blog.example/a;6\n"
    names = {"page": "Seite", "date": "Tag", "views": "Besucher"}
    assert rows(read(tmp_path, text, names=names).views()) == {
        ("https://blog.example/a", "2026-09-10"): 6
    }


def test_a_table_of_one_day_takes_its_date_from_outside(tmp_path: Path) -> None:
    text = "label,nb_visits\n/a,5\n"
    found = rows(read(tmp_path, text, day="2026-09-10", site="https://blog.example").views())
    assert found == {("https://blog.example/a", "2026-09-10"): 5}
    with pytest.raises(ViewsError, match="line 1: there is no column of dates"):
        read(tmp_path, text)


def test_times_that_name_their_offset_are_of_the_zones_day(tmp_path: Path) -> None:
    text = "page,date,views\n/a,2026-09-10T23:30:00+00:00,5\n/a,2026-09-10T23:30:00,2\n"
    found = rows(read(tmp_path, text, hour_of=hours_by(zone_named("Europe/Berlin"))).views())
    assert found == {("/a", "2026-09-11"): 5, ("/a", "2026-09-10"): 2}


def test_rows_out_of_order_and_twice_are_put_in_order_and_added_up(tmp_path: Path) -> None:
    text = "page,date,views\n/a,2026-09-11,1\n/a,2026-09-10,2\n/a,2026-09-11,4\n"
    reader = read(tmp_path, text)
    views = reader.views()
    assert views.views.tolist() == [2, 5]
    assert reader.added_to_others == 1


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("/a,yesterday,5", "no date such as"),
        ("/a,2026-02-30,5", "no date such as"),
        ("/a,31/12/2026,5", "no date such as"),
        ("/a,2036-09-10,5", "a date in the future"),
        ("/a,1936-09-10,5", "a date before 1995"),
        ("/a,2026-09-10,many", "no number of views"),
        ("/a,2026-09-10,-5", "no number of views"),
        ("/a,2026-09-10,nan", "no number of views"),
        ("/a,2026-09-10,inf", "no number of views"),
        ("/a", "too few columns"),
        ('"/a,2026-09-10,5', "too few columns"),
        ("/a\rb,2026-09-10,5", "no line of a table"),
        ("Total,2026-09-10,5", "a total, or no page"),
    ],
)
def test_a_bad_line_is_counted_with_its_number_and_the_rest_is_read(
    tmp_path: Path, bad: str, reason: str
) -> None:
    reader = read(tmp_path, f"page,date,views\n/a,2026-09-10,5\n{bad}\n/b,2026-09-10,6\n")
    assert sorted(rows(reader.views()).values()) == [5, 6]
    (line,) = reader.problems.lines()
    assert line.startswith(f"lines left out, {reason}")
    assert line.endswith("1 (first: line 3)")


def test_rows_without_views_say_how_far_the_record_goes(tmp_path: Path) -> None:
    text = "page,date,views\n/a,2026-09-01,0\n/a,2026-09-10,5\n/a,2026-09-30,0\n"
    first, last = read(tmp_path, text).views().days
    assert (day_text(first), day_text(last)) == ("2026-09-01", "2026-09-30")


@pytest.mark.parametrize(
    "text",
    [b"\x00\x01\x02\xff" * 3000, b"just a text\n", b"date\n2026-09-10\n", b"\xff\xfe", b"\n\n\n"],
)
def test_what_is_no_table_is_an_error_that_says_what_one_is(tmp_path: Path, text: bytes) -> None:
    with pytest.raises(ViewsError, match="no header of a table"):
        read(tmp_path, text)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    hour_of = hours_by(zone_named("UTC"))
    with pytest.raises(ArchiveError, match=r"missing\.csv: cannot read"):
        TableReader(None, hour_of, 10**6).read(str(tmp_path / "missing.csv"))


def test_grouped_numbers_are_numbers(tmp_path: Path) -> None:
    text = 'page,date,views\n/a,2026-09-10,"1,234"\n/b,2026-09-10,"12,34"\n'
    assert list(rows(read(tmp_path, text).views()).values()) == [1234]

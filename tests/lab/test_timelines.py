"""Reading true histories: what is read, and that whatever is wrong is named with file and line."""

from pathlib import Path

import pytest

from hacs_crawler.exceptions import HacsError
from hacs_crawler.lab.timelines import TimelineError, parse_day, read_timelines

HOME, SUB = "http://example.edu/~ada/", "http://example.edu/~ada/papers.html"
FILES = {
    "pages.csv": (
        "url,site,level,first_seen,remark\n"
        f"{HOME},{HOME},homepage,2020-01-01T00:00:00Z,\n"
        f"{SUB},{HOME},subpage,2020-02-01T12:00:00+02:00,x\n"
    ),
    "updates.csv": (
        f"url,updated_at,new_links\n{SUB},2020-03-02T00:00:00Z,1\n{SUB},2020-03-01,7\n"
    ),
    "captures.csv": f"url,captured_at\n{HOME},2020-05-01T00:00:00\n",
}


def read(folder: Path, **changes: str):
    """Read the three files, some with other content."""
    for name, text in FILES.items():
        content = changes.get(name.removesuffix(".csv"), text)
        (folder / name).write_text(content, encoding="utf-8")
    return read_timelines(*(folder / name for name in FILES))


def test_pages_and_their_events_in_time_order(tmp_path: Path) -> None:
    timelines = read(tmp_path)
    assert timelines.urls == [HOME, SUB]
    assert timelines.sites == [HOME, HOME]
    assert timelines.is_homepage.tolist() == [True, False]
    assert timelines.first_seen.tolist()[1] == parse_day("2020-02-01", "day") + 10 * 3600
    assert timelines.updates.of(0).tolist() == []
    assert timelines.updates.of(1).tolist() == [
        parse_day(day, "day") for day in ("2020-03-01", "2020-03-02")
    ]
    assert timelines.updates.new_links_of(1).tolist() == [7, 1]
    assert timelines.captures.of(0).tolist() == [parse_day("2020-05-01", "day")]
    uncaptured = read_timelines(tmp_path / "pages.csv", tmp_path / "updates.csv", None)
    assert len(uncaptured.captures.at) == 0


def test_a_spreadsheet_s_mark_and_line_ends_are_no_harm(tmp_path: Path) -> None:
    timelines = read(tmp_path, pages="\ufeff" + FILES["pages.csv"].replace("\n", "\r\n"))
    assert timelines.urls == [HOME, SUB]


PAGE = f"url,site,level,first_seen\n{HOME},{HOME},homepage,2020-01-01\n"


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("pages", "", "pages.csv, line 1: there is no column url, site, level, first_seen"),
        ("pages", "url,site,level\n", "pages.csv, line 1: there is no column first_seen"),
        ("pages", "url,site,level,first_seen\n", "pages.csv: there is no page in it"),
        ("pages", PAGE.replace(HOME, "ftp://x/", 1), "pages.csv, line 2: url = 'ftp://x/'"),
        (
            "pages",
            PAGE.replace("homepage", "blog"),
            "line 2: level = 'blog': must be one of homepage",
        ),
        ("pages", PAGE.replace("2020-01-01", "soon"), "line 2: first_seen = 'soon': not a time"),
        ("pages", PAGE.replace("2020-01-01", ""), "line 2: first_seen = '': a value is missing"),
        ("pages", PAGE.replace("2020-01-01", "1960-01-01"), "line 2: .*from 1970 to 2106"),
        ("pages", PAGE + PAGE.split("\n")[1], "line 3: url = .*the same page as .* above"),
        ("pages", PAGE + PAGE.split("\n")[1].replace("http:", "https:", 1), "line 3: .*same page"),
        ("pages", PAGE + f"{SUB},{HOME}\n", "line 3: level = None: a value is missing"),
        (
            "pages",
            PAGE + f"{SUB},{HOME},subpage,2020-01-01,1\n",
            "line 3: more values than columns",
        ),
        ("pages", PAGE + '"' + SUB, r"line \d+: not CSV"),
        ("updates", f"url,updated_at\n{SUB},2020-03-01\n", "line 1: there is no column new_links"),
        ("updates", f"url,updated_at,new_links\n{SUB},2020,1\n", "updated_at = '2020': not a time"),
        ("updates", f"url,updated_at,new_links\n{SUB},2020-01-31,1\n", "line 2: .*first seen"),
        ("updates", f"url,updated_at,new_links\n{SUB},2020-03-01,-1\n", "new_links = '-1'"),
        ("updates", f"url,updated_at,new_links\n{SUB},2020-03-01,0\n", "new_links = '0'"),
        ("updates", f"url,updated_at,new_links\n{SUB},2020-03-01,1.5\n", "new_links = '1.5'"),
        ("updates", f"url,updated_at,new_links\n{SUB}x,2020-03-01,1\n", "line 2: .*not among"),
        ("captures", "url,at\n", "captures.csv, line 1: there is no column captured_at"),
        (
            "captures",
            f"url,captured_at\n{HOME},2019-12-31\n",
            "line 2: .*before the page was first",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_line(
    file: str, content: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(TimelineError, match=message) as caught:
        read(tmp_path, **{file: content})
    assert f"{file}.csv" in str(caught.value)


def test_a_file_that_is_not_there_or_no_text_is_named(tmp_path: Path) -> None:
    read(tmp_path)
    with pytest.raises(TimelineError, match=r"no\.csv: cannot read: No such file"):
        read_timelines(tmp_path / "no.csv", tmp_path / "updates.csv", None)
    (tmp_path / "pages.csv").write_bytes(b"url,site,level,first_seen\n\xff\xfe,,,\n")
    with pytest.raises(TimelineError, match=r"pages\.csv: cannot read: .*utf-8"):
        read_timelines(tmp_path / "pages.csv", tmp_path / "updates.csv", None)


@pytest.mark.parametrize("text", ["", "2022", "2022-13-01", "2022-01-01T05:00", "soon"])
def test_a_day_is_a_day(text: str) -> None:
    with pytest.raises(HacsError, match=r"start = .*: must be a day such as 2022-01-01"):
        parse_day(text, "start")

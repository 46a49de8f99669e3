"""Access logs, as servers write them and as they are damaged."""

import sys
from collections.abc import Iterable

import pytest

from hacs_crawler.exceptions import HacsError
from hacs_crawler.lab.interest.logs import LogReader, check_site
from hacs_crawler.lab.interest.views import HOURS, Views
from hacs_crawler.utils.times import DAY, day_text

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"
CHROME = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) "
    "Chrome/126.0.0.0 Safari/537.36"
)
GOOGLEBOT = "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"
LATEST = 1_800_000_000.0


def line(
    target: str = "/news/a.html",
    host: str = "192.0.2.1",
    agent: str = FIREFOX,
    at: str = "10/Sep/2026:13:55:36 +0000",
    status: int = 200,
    method: str = "GET",
) -> str:
    return f'{host} - - [{at}] "{method} {target} HTTP/1.1" {status} 2326 "-" "{agent}"'


def read(
    lines: Iterable[str | bytes],
    site: str | None = "https://news.example",
    format_: str = "combined",
    *,
    bad: int = 0,
) -> LogReader:
    reader = LogReader(site, format_, LATEST)
    encoded = (text if isinstance(text, bytes) else f"{text}\n".encode() for text in lines)
    assert reader.read(encoded) == bad
    return reader


def rows(views: Views) -> dict[tuple[str, str], float]:
    day = [day_text(DAY * (place // views.bins_a_day)) for place in views.bin.tolist()]
    pages = [views.pages[place] for place in views.page.tolist()]
    return dict(zip(zip(pages, day, strict=True), views.views.tolist(), strict=True))


def test_a_visitor_counts_once_a_page_and_day() -> None:
    reader = read(
        [
            line(),
            line(at="10/Sep/2026:23:59:59 +0000"),
            line(at="11/Sep/2026:01:30:00 +0200"),  # days end at midnight UTC
            line(host="192.0.2.2"),
            line(agent=CHROME),
            line(at="11/Sep/2026:00:00:01 +0000"),
            line(target="/news/b.html"),
        ]
    )
    assert rows(reader.views()) == {
        ("https://news.example/news/a.html", "2026-09-10"): 3,
        ("https://news.example/news/a.html", "2026-09-11"): 1,
        ("https://news.example/news/b.html", "2026-09-10"): 1,
    }


def test_order_of_lines_does_not_matter() -> None:
    lines = [
        line(host=f"192.0.2.{k % 3}", at=f"{k % 9 + 1:02}/Sep/2026:1{k % 5}:00:00 +0000")
        for k in range(40)
    ]
    assert rows(read(lines).views()) == rows(read(reversed(lines)).views())


def test_robots_are_left_out_by_their_names_and_by_their_manners() -> None:
    reader = read(
        [
            line(),
            line(agent=GOOGLEBOT, host="192.0.2.9"),
            line(agent="python-requests/2.32.0", host="192.0.2.8"),
            line(agent="-", host="192.0.2.7"),
            line(host="192.0.2.6", agent=CHROME),
            line(target="/robots.txt", host="192.0.2.6", agent=CHROME),
        ]
    )
    assert list(rows(reader.views()).values()) == [1]
    assert (reader.requests, reader.robots) == (5, 4)


def test_assets_failures_and_other_methods_are_no_views() -> None:
    reader = read(
        [
            line("/style.css?v=3"),
            line("/logo.PNG"),
            line("/feed.xml"),
            line("/gone.html", status=404),
            line("/moved.html", status=301),
            line("/form", method="POST"),
            line("/form", method="HEAD"),
            line("/again.html", status=304),
        ]
    )
    assert list(rows(reader.views())) == [("https://news.example/again.html", "2026-09-10")]


def test_addresses_are_the_canonical_ones_a_crawl_knows() -> None:
    reader = read(
        [
            line("/a/../b?utm_source=x&id=2", host="192.0.2.1"),
            line("/b?id=2", host="192.0.2.2"),
            line("https://news.example/b?id=2#top", host="192.0.2.3"),
        ]
    )
    assert rows(reader.views()) == {("https://news.example/b?id=2", "2026-09-10"): 3}
    assert read([line()], site=None).views().pages == ["/news/a.html"]


def test_a_log_of_several_virtual_hosts_names_their_sites() -> None:
    lines = [f"blog.example:443 {line()}", f"old.example:80 {line()}"]
    assert sorted(read(lines, None, "vhost").views().pages) == [
        "http://old.example/news/a.html",
        "https://blog.example/news/a.html",
    ]


def test_the_common_format_names_no_robots() -> None:
    common = '192.0.2.1 - frank [10/Sep/2026:13:55:36 -0700] "GET /a.html HTTP/1.0" 200 2326'
    assert list(rows(read([common, common], format_="common").views()).values()) == [1]


def test_any_format_of_apache_is_read_that_has_what_is_needed() -> None:
    own = '[10/Sep/2026:13:55:36 +0000] 200 192.0.2.1 "GET /a HTTP/1.1"'
    assert read([own], format_='%t %>s %h "%r"').views().pages == ["https://news.example/a"]
    for wrong in ("nonsense", "%h %t %>s", '%h %t "%r" %>s %Q'):
        with pytest.raises(HacsError, match="--format"):
            read([], format_=wrong)


def test_by_the_hour_a_visitor_counts_in_the_hour_of_the_first_request_of_the_day() -> None:
    views = read(
        [line(at=f"10/Sep/2026:{hour:02}:05:00 +0000") for hour in (17, 9, 12)]
        + [line(at="11/Sep/2026:00:05:00 +0000")]
    ).views(hourly=True)
    assert views.bins_a_day == HOURS
    assert (views.bin % HOURS).tolist() == [9, 0]


@pytest.mark.parametrize(
    "bad",
    [
        "rubbish",
        b"\x16\x03\x01\x00\xff\xfe\n",
        b"\0" * 5000 + b"\n",
        line(at="31/Feb/2026:13:55:36 +0000"),
        line(at="10/Sep/2026:13:55"),
        line()[:60],
        line(at="10/Sep/2036:13:55:36 +0000"),
        line(at="01/Jan/1970:00:00:00 +0000"),
    ],
)
def test_a_bad_line_is_counted_and_the_rest_is_read(bad: str | bytes) -> None:
    reader = read([line(), bad, line(host="192.0.2.2")], bad=1)
    assert list(rows(reader.views()).values()) == [2]


@pytest.mark.parametrize("request_line", ["-", "\\x16\\x03\\x01", "", "GET"])
def test_a_line_without_a_request_is_no_view(request_line: str) -> None:
    text = f'192.0.2.1 - - [10/Sep/2026:13:55:36 +0000] "{request_line}" 408 - "-" "-"'
    reader = read([line(), text])
    assert (list(rows(reader.views()).values()), reader.requests) == ([1], 1)


@pytest.mark.parametrize(
    "site", ["", "ftp://a.example", "https://", "https://a.example/?q=1", "a b"]
)
def test_a_site_that_is_none_is_named(site: str) -> None:
    with pytest.raises(HacsError, match="--site"):
        check_site(site)


def test_without_its_library_a_log_is_an_error_that_names_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "apachelogs", None)
    with pytest.raises(HacsError, match=r"pip install 'hacs-crawler\[interest\]'"):
        read([line()])


def test_a_site_may_be_named_by_its_host() -> None:
    assert check_site("News.Example/") == "https://news.example"

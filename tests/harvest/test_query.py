"""What a CDX server is asked, and how its answers are read."""

import json
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given, strategies as st

from hacs_crawler.archive import ArchiveError, Capture, original_of, timestamp_of
from hacs_crawler.archive.capture import REVISIT, Cleaning
from hacs_crawler.harvest.query import (
    BLOCKED,
    Site,
    Span,
    memento_url,
    query_url,
    read_answer,
    timestamp,
)
from hacs_crawler.links import page_key

SERVER = "http://archive.example/cdx"
WEB = "http://archive.example/web"
ALWAYS = Span(0, 2**32 - 1)
PAGE = Site("http://foo.edu/~bar/", has_subpages=False)
SITE = Site("http://foo.edu/~bar/", has_subpages=True)
HEADER = ["urlkey", "timestamp", "original", "mimetype", "statuscode", "digest", "length"]
SECONDS = st.integers(1, 2**32 - 1)


def asked(site: Site, span: Span, server: str = SERVER) -> dict[str, str]:
    query = parse_qs(urlsplit(query_url(server, site, span, 50)).query, strict_parsing=True)
    return {name: value for name, (value,) in query.items()}


def row(at: str, url: str = "http://foo.edu/~bar/", digest: str = "B" * 32) -> list[str]:
    return ["edu,foo)/~bar", at, url, "text/html", "200", digest, "9"]


def answer(*rows: list[str], lines: bool = False) -> bytes:
    separator = ",\n" if lines else ","
    return f"[{separator.join(map(json.dumps, rows))}]".encode()


def captures(body: bytes) -> list[str]:
    pages = read_answer(body, "answer", PAGE, ALWAYS).pages
    return [timestamp(one.at) for _, found in pages for one in found]


def test_a_page_is_asked_for_exactly_and_always_with_a_limit_and_whole_timestamps() -> None:
    assert asked(PAGE, Span(0, 86_400)) == {
        "url": "http://foo.edu/~bar/",
        "matchType": "exact",
        "output": "json",
        "from": "19700101000000",
        "to": "19700102000000",
        "limit": "50",
        "showResumeKey": "true",
    }


def test_a_site_is_asked_for_by_prefix_beside_a_servers_own_parameters() -> None:
    query = asked(SITE, Span(0, 1), f"{SERVER}?collection=a")
    assert (query["url"], query["matchType"]) == ("http://foo.edu/~bar", "prefix")
    assert query["collection"] == "a"


@pytest.mark.parametrize("key", ["edu%2Cfoo%29%2F%7Ebar+2001041400593%3A", "a%2520b+1", "x y&z"])
def test_a_resume_key_is_passed_on_as_any_other_value(key: str) -> None:
    assert asked(PAGE, Span(0, 1, key))["resumeKey"] == key


@given(SECONDS, SECONDS)
def test_the_halves_of_a_span_are_the_span(one: int, other: int) -> None:
    since, until = sorted((one, other))
    halves = Span(since, until, "key").halves()
    if since == until:
        assert halves == [Span(since, until, "key")]
    else:
        first, second = halves
        assert (first.since, second.until) == (since, until)
        assert first.since <= first.until == second.since - 1 <= second.until
        assert first.resume_key == second.resume_key == "key"


@pytest.mark.parametrize("lines", [False, True])
@pytest.mark.parametrize("rows", [0, 1, 3])
def test_a_resume_key_is_told_from_the_rows(rows: int, lines: bool) -> None:
    times = [f"201{number}0101000000" for number in range(rows)]
    body = answer(HEADER, *map(row, times), [], ["edu%2Cfoo%29%2F+201%3A"], lines=lines)
    found = read_answer(body, "answer", PAGE, ALWAYS)
    assert (found.rows, found.resume_key) == (rows, "edu%2Cfoo%29%2F+201%3A")
    assert not found.dropped
    assert captures(body) == times


@pytest.mark.parametrize(
    ("body", "key"),
    [*((one, "") for one in (b"[]\n", b"", b"\n", b"[[]]", answer(HEADER))),
     (b'[[],\n["key"]]\n', "key")],
)  # fmt: skip
def test_nothing_found_is_an_answer_which_may_have_a_resume_key(body: bytes, key: str) -> None:
    found = read_answer(body, "answer", PAGE, ALWAYS)
    assert (list(found.pages), found.rows, found.resume_key) == ([], 0, key)


def test_text_with_and_without_a_resume_key_is_read() -> None:
    lines = (
        b"edu,foo)/~bar 20100101000000 http://foo.edu/~bar/ text/html 200 " + b"B" * 32 + b" 9\n"
    )
    assert captures(lines) == ["20100101000000"]
    found = read_answer(lines + b"\nedu%2Cfoo%29%2F+2010%3A\n", "answer", PAGE, ALWAYS)
    assert (found.rows, found.resume_key) == (1, "edu%2Cfoo%29%2F+2010%3A")


def test_objects_line_by_line_are_read() -> None:
    times = ["20100101000000", "20110101000000"]
    names = ["urlkey", "timestamp", "url", "mime", "status", "digest"]
    rows = (dict(zip(names, row(at), strict=False)) for at in times)
    assert captures("\n".join(map(json.dumps, rows)).encode()) == times


def test_rows_counts_all_rows_also_those_that_are_no_captures() -> None:
    elsewhere = row("20110101000000", "http://foo.edu/other")
    damaged = row("20000008241731")
    body = answer(HEADER, row("20100101000000"), row("20100101000000"), elsewhere, damaged)
    found = read_answer(body, "answer", PAGE, ALWAYS)
    assert found.rows == 4
    assert found.dropped == {"duplicate": 1, "outside": 1, "invalid_date": 1}


@pytest.mark.parametrize(
    "body", [b"<html><body>Bad gateway</body></html>", b"url parameter is required\n", b"{}\n"]
)
def test_what_is_no_index_is_an_error_that_names_the_source(body: bytes) -> None:
    with pytest.raises(ArchiveError, match="http://a"):
        read_answer(body, "http://a", PAGE, ALWAYS)


@given(st.binary(max_size=300))
def test_any_answer_is_read_or_refused(body: bytes) -> None:
    try:
        found = read_answer(body, "answer", PAGE, ALWAYS)
    except ArchiveError:
        return
    assert isinstance(found.resume_key, str)


@pytest.mark.parametrize(
    ("text", "is_blocked"),
    [
        (b"org.archive.wayback.exception.AdministrativeAccessControlException: Blocked", True),
        (b"RobotAccessControlException: Blocked By Robots", True),
        (b"This URL has been excluded from the Wayback Machine.", True),
        (b"org.apache.commons.httpclient.ConnectTimeoutException: The host did not accept", False),
    ],
)
def test_what_is_permanent_is_told_from_what_passes(text: bytes, is_blocked: bool) -> None:
    assert (BLOCKED.search(text) is not None) is is_blocked


def capture(url: str, at: int = 1_000_000_000, mime: str = "text/html") -> Capture:
    return Capture(page_key(url), url, at, 200, mime, "A" * 32)


@pytest.mark.parametrize(
    ("url", "sent"),
    [
        ("http://a.org/x?a=b&c=http://d/", "http://a.org/x?a=b&c=http://d/"),
        ("http://a.org/a b#c", "http://a.org/a%20b%23c"),
        ("http://a.org/%7Ea/\xe9", "http://a.org/%7Ea/%C3%A9"),
    ],
)
@pytest.mark.parametrize("template", [WEB, f"{WEB}/", WEB + "/{timestamp}id_/{url}"])
def test_a_mementos_url_holds_the_pages_as_it_is(url: str, sent: str, template: str) -> None:
    assert memento_url(template, capture(url)) == f"{WEB}/20010909014640id_/{sent}"


@given(SECONDS)
def test_a_mementos_url_tells_its_time_and_its_page(at: int) -> None:
    uri = memento_url(WEB, capture("http://a.org/?x=1", at))
    assert (timestamp_of(uri), original_of(uri)) == (at, "http://a.org/?x=1")


# Which rows of an index are about the pages of an author's site

HOME = "http://foo.edu/~bar/"


def problem(url: str, home: str = HOME, *, has_subpages: bool = True) -> str:
    return Site(home, has_subpages=has_subpages).problem(page_key(url))


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://foo.edu/~bar/", ""),
        ("https://www.foo.edu:443/~bar", ""),
        ("http://foo.edu/~Bar/", "outside"),
        ("http://foo.edu/~bar/baz", ""),
        ("http://foo.edu/~bar/baz/", ""),
        ("http://foo.edu/~bar/baz/pubs.html", ""),
        ("http://foo.edu/~bar/baz?id=1", ""),
        ("http://foo.edu/~bar/a/b/c", "too_deep"),
        ("http://foo.edu/~bar/index.html", ""),
        ("http://foo.edu/~bar/home.html", "second_homepage"),
        ("http://foo.edu/~bar/index.php?lang=de", "second_homepage"),
        ("http://foo.edu/~bar?lang=de", "second_homepage"),
        ("http://foo.edu/~barbara/", "outside"),
        ("http://foo.edu/~bar.html", "outside"),
        ("http://foo.edu/", "outside"),
        ("http://lab.foo.edu/~bar/", "outside"),
    ],
)
def test_a_site_is_its_homepage_and_what_lies_up_to_two_levels_below(
    url: str, expected: str
) -> None:
    assert problem(url) == expected


def test_at_homepage_level_nothing_else_belongs_to_it() -> None:
    assert problem("http://foo.edu/~bar/", has_subpages=False) == ""
    assert problem("http://foo.edu/~bar/baz", has_subpages=False) == "too_deep"


@pytest.mark.parametrize(
    ("url", "is_homepage"),
    [
        ("https://foo.edu/~bar", True),
        ("http://www.foo.edu/~bar/", True),
        ("http://foo.edu:80/~bar/", True),
        ("http://foo.edu/~bar/index.html", True),
        ("http://foo.edu/%7Ebar/default.htm", True),
        ("http://foo.edu/~barb/", False),
        ("http://foo.edu/~bar/?id=1", False),
    ],
)
def test_all_spellings_of_a_homepage_and_no_other_pages_have_its_key(
    url: str, *, is_homepage: bool
) -> None:
    homes = [Site(one, has_subpages=False).key for one in (url, HOME)]
    assert (homes[0] == homes[1]) is is_homepage


@pytest.mark.parametrize(
    ("home", "prefix"),
    [
        ("http://foo.edu/~bar/", "http://foo.edu/~bar"),
        ("http://foo.edu/~bar/index.html?x=1", "http://foo.edu/~bar"),
        ("http://foo.edu", "http://foo.edu"),
        ("http://foo.edu/cv.html", "http://foo.edu/cv.html"),
    ],
)
def test_the_prefix_covers_the_homepage_and_its_folder(home: str, prefix: str) -> None:
    assert Site(home, has_subpages=True).prefix == prefix


def test_a_url_without_a_key_is_no_site() -> None:
    with pytest.raises(ValueError, match="SURT"):
        Site("", has_subpages=False)


@pytest.mark.parametrize(
    ("url", "recorded"),
    [
        ("http://www.foo.edu:80/~bar", HOME),
        ("http://foo.edu:80/~bar/x", "http://foo.edu/~bar/x"),
        ("https://foo.edu:443/~bar/x", "https://foo.edu/~bar/x"),
        ("http://foo.edu:8080/~bar/x:80/", "http://foo.edu:8080/~bar/x:80/"),
    ],
)
def test_the_homepage_is_recorded_as_the_seed_spells_it_and_others_without_their_port(
    url: str, recorded: str
) -> None:
    assert Site(HOME, has_subpages=True).url_of(capture(url)) == recorded


def test_rows_are_sorted_by_page_and_time_and_what_is_left_out_is_counted() -> None:
    rows = [
        capture(HOME, 30),
        capture("http://foo.edu/~bar/x", 10),
        capture(HOME, 20),
        capture("http://foo.edu/~bar/x", 10),
        capture("http://foo.edu/~barbara/", 10),
        capture("http://foo.edu/~bar/cv.pdf", 10, REVISIT),
    ]
    dropped = Cleaning()
    pages = dict(Site(HOME, has_subpages=True).pages(rows, dropped))
    assert {surt: [one.at for one in found] for surt, found in pages.items()} == {
        "edu,foo)/~bar": [20, 30],
        "edu,foo)/~bar/x": [10],
    }
    assert dropped == {"duplicate": 1, "outside": 1, "not_html": 1}


def test_of_one_second_the_capture_with_content_of_its_own_counts() -> None:
    rows = [capture(HOME, 10, REVISIT), capture(HOME, 10)]
    ((_, found),) = Site(HOME, has_subpages=False).pages(rows, Cleaning())
    assert [one.mime for one in found] == ["text/html"]

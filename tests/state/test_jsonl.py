"""Pages as lines of JSON: nothing is lost, and what is no page is refused in plain words."""

import contextlib
import json
import re
from typing import Any

import pytest
from hypothesis import given, strategies as st
from xxhash import xxh3_64_hexdigest

from hacs_crawler.links import fingerprints
from hacs_crawler.state import Harvest, News, Page, Visit, is_export, read_export
from hacs_crawler.state.codec import encode_page
from hacs_crawler.state.jsonl import ExportError, from_hex, from_line, to_hex, to_line
from hacs_crawler.state.merging import merge, thinned
from state_support import URL, page_after

LINE_OF_CDXJ = (
    '{"urlkey": "edu,example)/", "timestamp": "20200101000000", "url": "http://example.edu/"}'
)

numbers = st.integers(-(2**63), 2**63 - 1)
histories = st.lists(
    st.builds(
        Visit,
        url=st.sampled_from([URL, "https://www.example.edu/~a", "http://example.edu/%7Ea/"]),
        at=st.integers(1, 9) | st.integers(1, 2**32 - 1),
        news=st.sampled_from(News),
        marks=st.none() | st.frozensets(st.integers(1, 5) | numbers, max_size=5),
        rules=st.integers(0, 2**32 - 1),
        digest=st.integers(0, 3) | st.integers(0, 2**31 - 1),
        repeats=st.booleans(),
        etag=st.text(max_size=9),
        last_modified=st.text(max_size=9),
        harvest=st.none()
        | st.builds(Harvest, st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), numbers),
    ),
    max_size=9,
)


def example() -> Page:
    page = page_after(
        Visit(URL, 1_769_860_800, marks=frozenset({1, -2}), harvest=Harvest(9, 1_769_860_800, -1)),
        Visit(URL, 1_769_947_200, marks=frozenset({1, 5, 7}), etag='"x"'),
        Visit(URL, 1_770_033_600),
        Visit(URL, 1_770_120_000),
        Visit(URL, 1_770_206_400, News.GONE),
        Visit(URL, 1_770_292_800, News.FAILED),
        rate=0.25,
    )
    merge(page, Visit(URL, 1_769_860_800, digest=5))
    merge(page, Visit(URL, 1_770_033_600, digest=9))
    page.version = 3
    return page


def test_the_layout() -> None:
    assert json.loads(to_line(example())) == {
        "hacs": 4,
        "url": URL,
        "surt": "edu,example)/~a",
        "rate_per_day": 0.25,
        "churn": 0.0,
        "last_visit": "2026-02-03T12:00:00Z",
        "last_update": "2026-02-02T12:00:00Z",
        "updates": "page",
        "gone": True,
        "gone_in_a_row": 1,
        "failures": 1,
        "last_news": "2026-02-05T12:00:00Z",
        "not_before": "2026-02-11T12:00:00Z",
        "etag": '"x"',
        "last_modified": "",
        "visits": [
            {"at": "2026-01-31T12:00:00Z", "updated": False, "new_marks": 0},
            {"at": "2026-02-01T12:00:00Z", "updated": True, "new_marks": 2},
            {"at": "2026-02-02T12:00:00Z", "updated": True, "new_marks": 0},
            {"at": "2026-02-03T12:00:00Z", "updated": False, "new_marks": 0},
        ],
        "digests": [
            {"at": "2026-01-31T12:00:00Z", "number": 5, "repeats": False},
            {"at": "2026-02-02T12:00:00Z", "number": 9, "repeats": False},
        ],
        "contents": [5, 9],
        "echoes": [],
        "unread": [],
        "rules": [
            {"since": "2026-01-31T12:00:00Z", "fingerprint": 2},
            {"since": "2026-02-02T12:00:00Z", "fingerprint": 0},
        ],
        "marks": [
            {"first_seen": first, "last_seen": last, "fingerprints": fingerprints}
            for first, last, fingerprints in (
                ("2026-01-31T12:00:00Z", None, ["0100000000000000"]),
                ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00Z", ["feffffffffffffff"]),
                ("2026-02-01T12:00:00Z", None, ["0500000000000000", "0700000000000000"]),
            )
        ],
        "harvests": [{"source": 9, "until": "2026-01-31T12:00:00Z", "digest": "f" * 16}],
    }


def test_echoes_come_back_and_need_not_be_there() -> None:
    page = example()
    page.echoes = thinned([*page.echoes, 1_769_947_200])
    line = to_line(page)
    assert json.loads(line)["echoes"] == ["2026-02-01T12:00:00Z"]
    assert from_line(line).echoes == page.echoes
    fields = json.loads(line)
    del fields["echoes"]
    assert not from_line(json.dumps(fields).encode()).echoes


def test_of_a_page_never_seen_times_are_null_and_a_damaged_time_is_mended() -> None:
    line = json.loads(to_line(page_after(Visit(URL, 50, News.FAILED))))
    assert (line["last_visit"], line["last_update"], line["visits"]) == (None, None, [])
    assert line["gone"] is False
    page = page_after(Visit(URL, 1_700_000_000, marks=frozenset({1})))
    page.last_news = 1_600_000_000
    assert from_line(to_line(page)).last_news == 1_700_000_000


@given(histories, st.floats(0, allow_infinity=False))
def test_a_page_comes_back_from_its_line_byte_for_byte(history: list[Visit], rate: float) -> None:
    page = page_after(*history, rate=rate)
    page.etag, page.last_modified = (
        text.encode("utf-8", "replace").decode() for text in (page.etag, page.last_modified)
    )
    line = to_line(page)
    assert line.count(b"\n") == 1
    assert is_export(line)
    assert encode_page(from_line(line)) == encode_page(page)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_fingerprints_are_the_hashes_in_hexadecimal_and_come_back(texts: list[str]) -> None:
    numbers = [next(iter(fingerprints([text.encode()]))) for text in texts]
    found = to_hex(numbers)
    assert found == [xxh3_64_hexdigest(text.encode()) for text in texts]
    assert list(from_hex(found)) == numbers


def test_the_order_of_keys_and_of_fingerprints_and_what_follows_from_the_rest_do_not_matter() -> (
    None
):
    fields = json.loads(to_line(example()))
    fields["marks"][2]["fingerprints"].reverse()
    for key in ("surt", "last_visit", "last_update", "gone"):
        del fields[key]
    fields["visits"] = [{"at": one["at"]} for one in fields["visits"]]
    fields["comment"] = "mine"
    line = json.dumps(fields, sort_keys=True).encode()
    assert is_export(line)
    page = example()
    page.version = 0
    assert from_line(line) == page


def test_more_visits_than_are_kept_are_thinned_as_recording_does() -> None:
    times = [86_400 * day for day in range(1, 400)]
    fields = json.loads(to_line(page_after(*(Visit(URL, at) for at in times[-1:]))))
    iso = [json.loads(to_line(page_after(Visit(URL, at))))["last_visit"] for at in times]
    fields["visits"] = [{"at": at} for at in iso]
    page = from_line(json.dumps(fields).encode())
    assert page.visits == page_after(*(Visit(URL, at) for at in times)).visits


def broken(path: str, value: object) -> bytes:
    """The example's line with another value at a path, or without the key where it is "missing"."""
    fields: Any = json.loads(to_line(example()))
    *parents, key = [int(part) if part.isdigit() else part for part in path.split("/")]
    inner = fields
    for parent in parents:
        inner = inner[parent]
    if value == "missing":
        del inner[key]
    else:
        inner[key] = value
    return json.dumps(fields).encode()


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("file:///etc/passwd", "scheme 'file' is not http or https: 'file:///etc/passwd'"),
        ("javascript:alert(1)", "scheme 'javascript' is not http or https"),
        ("ftp://example.edu/", "scheme 'ftp' is not http or https"),
        ("http://carla:s3cr3t@example.edu/", "a user or password in it"),
        ("http://example.edu/\nERROR: lost", "space or control character U+000A"),
    ],
)
def test_a_line_whose_page_no_crawl_could_visit_is_skipped_and_named(
    url: str, problem: str, caplog: pytest.LogCaptureFixture
) -> None:
    lines = [to_line(example()), broken("url", url), to_line(example())]
    assert len(list(read_export(lines, "pages.jsonl"))) == 2
    assert f"pages.jsonl, line 2: {problem}" in caplog.messages[0]
    assert "s3cr3t" not in caplog.text
    assert len(caplog.messages) == 1


def test_of_many_such_lines_some_are_named(caplog: pytest.LogCaptureFixture) -> None:
    assert not list(read_export([broken("url", "ftp://example.edu/")] * 30, "pages.jsonl"))
    assert caplog.messages[-1].startswith("pages.jsonl: 30 lines are skipped")
    assert len(caplog.messages) == 11


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("hacs", 5, "Expected `int` <= 4 - at `$.hacs`"),
        ("hacs", 3, "Expected `int` >= 4 - at `$.hacs`"),
        ("url", "missing", "Object missing required field `url`"),
        ("url", "", "'url' is not a URL: ''"),
        ("url", "example.edu", "'url' is not a URL: 'example.edu'"),
        ("url", "http://example.edu:99999/", "'url' is impossible"),
        ("url", "http://example.edu/\udc80", "JSON is malformed: invalid utf-16 surrogate pair"),
        ("url", "http://example.edu/" + "é" * 40_000, "'url' is longer than 65535 bytes"),
        ("rate_per_day", float("nan"), "JSON is malformed"),
        ("rate_per_day", -0.5, "Expected `float` >= 0.0 - at `$.rate_per_day`"),
        ("gone_in_a_row", 256, "Expected `int` <= 255 - at `$.gone_in_a_row`"),
        ("failures", -1, "Expected `int` >= 0 - at `$.failures`"),
        ("last_news", "soon", "Invalid RFC3339 encoded datetime - at `$.last_news`"),
        *(
            ("last_news", f"{day}T00:00:00Z", f"'last_news' is not a time in 1970-2106: {day}T")
            for day in ("1969-01-01", "2200-01-01")
        ),
        ("last_news", "2026-01-31T12:00:00Z", "'last_news' is before the last of 'visits'"),
        ("etag", "x" * 65_536, "'etag' is longer than 65535 bytes"),
        ("visits/0/at", "missing", "Object missing required field `at` - at `$.visits[0]`"),
        ("visits/0/at", "2026-02-01T12:00:00Z", "'visits' is not in ascending order of time"),
        ("echoes", ["2026-02-01T12:00:00Z"] * 2, "'echoes' is not in ascending order of time"),
        ("contents", [2**31], "Expected `int` <= 2147483647 - at `$.contents[0]`"),
        ("marks/1/first_seen", "2026-01-31T12:00:01Z", "begins or ends at no visit that showed"),
        ("marks/1/last_seen", "2026-01-31T12:00:01Z", "begins or ends at no visit that showed"),
        (
            "marks/2/first_seen",
            "2026-01-31T12:00:00Z",
            "'marks' are not in ascending order of time",
        ),
        ("marks/1/fingerprints", [], "Expected `array` of length >= 1 - at `$.marks[1].fingerpr"),
        ("marks/0/fingerprints", ["1"], "fingerprints have to be texts of 16 hexadecimal digits"),
        ("marks/0/fingerprints", ["00 00 00 00 00 0"], "16 hexadecimal digits"),
        ("harvests/0/source", 2**32, "Expected `int` <= 4294967295 - at `$.harvests[0].source`"),
        ("harvests/0/digest", "", "16 hexadecimal digits"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_line(path: str, value: object, message: str) -> None:
    pages = read_export([to_line(example()), b"\n", broken(path, value)], "x.jsonl")
    assert next(pages).url == URL
    with pytest.raises(ExportError, match=f"x.jsonl, line 3: .*{re.escape(message)}") as caught:
        next(pages)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("line", [b"{", b"[]", b"5", b'"x"', b"\xff", b"[" * 100_000, b"{}"])
def test_lines_that_are_no_pages(line: bytes) -> None:
    with pytest.raises(ExportError, match=r"x\.jsonl, line 1: "):
        list(read_export([line], "x.jsonl"))


@pytest.mark.parametrize("key", json.loads(to_line(example())))
@given(
    value=st.recursive(
        st.none() | st.booleans() | st.floats() | st.text() | st.integers(), st.lists, max_leaves=4
    )
)
def test_whatever_stands_there_is_a_page_or_refused(key: str, value: object) -> None:
    fields = json.loads(to_line(example())) | {key: value}
    with contextlib.suppress(ExportError):
        for page in read_export([json.dumps(fields).encode()], "x"):
            encode_page(page)


@pytest.mark.parametrize(
    ("beginning", "is_one"),
    [
        (b'{"hacs": 1, "url": "', True),
        (b'\xef\xbb\xbf{ "hacs":1}', True),
        (b'{"gone": false, "hacs": 1}', True),
        (LINE_OF_CDXJ.encode(), False),
        (LINE_OF_CDXJ.encode() + b'\n{"hacs": 1}', False),
        (b'{"url": "http://x/?\\"hacs\\":1"}', False),
        (b"", False),
        (b"{" * 65_536, False),
        (b", " * 32_768, False),
    ],
)
def test_an_export_is_told_by_its_beginning(beginning: bytes, is_one: bool) -> None:
    assert is_export(beginning) is is_one

"""Pages as lines of JSON: nothing is lost, and what is no page is refused in plain words."""

from __future__ import annotations

import contextlib
import json
from array import array
from dataclasses import replace
from hashlib import blake2b
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hacs_crawler.links.urls import fingerprint
from hacs_crawler.state.codec import encode_page
from hacs_crawler.state.jsonl import (
    ExportError,
    from_hex,
    from_line,
    is_export,
    read_export,
    to_hex,
    to_line,
)
from hacs_crawler.state.page import Harvest, News, Page, Visit, bound_links, merge, note_echo

URL = "http://example.edu/~a/"
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
        links=st.none() | st.frozensets(st.integers(1, 5) | numbers, max_size=5),
        link_rules=st.integers(0, 2**32 - 1),
        digest=st.integers(0, 3) | st.integers(0, 2**31 - 1),
        repeats=st.booleans(),
        etag=st.text(max_size=9),
        last_modified=st.text(max_size=9),
        harvest=st.none()
        | st.builds(Harvest, st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), numbers),
    ),
    max_size=9,
)


def page_after(*visits: Visit, rate: float = 0.0) -> Page:
    page = Page(URL, rate=rate)
    for one in visits:
        merge(page, one)
    return page


def example() -> Page:
    page = page_after(
        Visit(URL, 1_769_860_800, links=frozenset({1, -2}), harvest=Harvest(9, 1_769_860_800, -1)),
        Visit(URL, 1_769_947_200, links=frozenset({1, 5, 7}), etag='"x"'),
        Visit(URL, 1_770_033_600),
        Visit(URL, 1_770_120_000),
        Visit(URL, 1_770_206_400, News.GONE),
        Visit(URL, 1_770_292_800, News.FAILED),
        rate=0.25,
    )
    page.content_changes = array("I", [1_770_033_600])
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
        "gone": True,
        "gone_in_a_row": 1,
        "failures": 1,
        "last_news": "2026-02-05T12:00:00Z",
        "not_before": "2026-02-11T12:00:00Z",
        "etag": '"x"',
        "last_modified": "",
        "visits": [
            {"at": "2026-01-31T12:00:00Z", "updated": False, "new_links": 0},
            {"at": "2026-02-01T12:00:00Z", "updated": True, "new_links": 2},
            {"at": "2026-02-02T12:00:00Z", "updated": True, "new_links": 0},
            {"at": "2026-02-03T12:00:00Z", "updated": False, "new_links": 0},
        ],
        "content_changes": ["2026-02-02T12:00:00Z"],
        "digests": [],
        "contents": [],
        "echoes": [],
        "links_since": "2026-01-31T12:00:00Z",
        "link_rules": [],
        "link_level": 0,
        "links": [
            {
                "first_seen": "2026-01-31T12:00:00Z",
                "fingerprints": ["feffffffffffffff", "0100000000000000"],
                "last_seen": ["2026-01-31T12:00:00Z", "2026-02-01T12:00:00Z"],
            },
            {
                "first_seen": "2026-02-01T12:00:00Z",
                "fingerprints": ["0500000000000000", "0700000000000000"],
                "last_seen": "2026-02-01T12:00:00Z",
            },
        ],
        "harvests": [{"source": 9, "until": "2026-01-31T12:00:00Z", "digest": "f" * 16}],
    }


def test_digests_and_contents_are_written_with_their_times() -> None:
    page = page_after(
        Visit(URL, 1_769_860_800, digest=5), Visit(URL, 1_769_860_801, repeats=True, digest=9)
    )
    fields = json.loads(to_line(page))
    assert fields["digests"] == [
        {"at": "2026-01-31T12:00:00Z", "number": 5, "repeats": False},
        {"at": "2026-01-31T12:00:01Z", "number": 9, "repeats": True},
    ]
    assert fields["contents"] == [5, 9]


def test_of_a_page_with_known_rules_the_layout_is_one_that_older_versions_refuse() -> None:
    page = page_after(
        Visit(URL, 1_769_860_800, links=frozenset({1}), link_rules=5),
        Visit(URL, 1_769_860_801, links=frozenset({2}), link_rules=9),
    )
    fields = json.loads(to_line(page))
    assert fields["hacs"] == 4
    assert fields["link_rules"] == [
        {"since": "2026-01-31T12:00:00Z", "fingerprint": 5},
        {"since": "2026-01-31T12:00:01Z", "fingerprint": 9},
    ]
    assert [one["updated"] for one in fields["visits"]] == [False, False]


def test_echoes_come_back_and_need_not_be_there() -> None:
    page = example()
    note_echo(page, 1_769_947_200)
    line = to_line(page)
    assert json.loads(line)["echoes"] == ["2026-02-01T12:00:00Z"]
    assert from_line(line).echoes == page.echoes
    fields = json.loads(line)
    del fields["echoes"]
    assert not from_line(json.dumps(fields).encode()).echoes


def test_of_a_page_never_seen_times_are_null() -> None:
    line = json.loads(to_line(page_after(Visit(URL, 50, News.FAILED))))
    assert (line["last_visit"], line["last_update"], line["visits"]) == (None, None, [])
    assert line["gone"] is False


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


@given(histories, st.sampled_from([2, 4, 8, 16]))
def test_so_does_a_page_that_keeps_less_of_its_links(history: list[Visit], most: int) -> None:
    page = page_after(*(replace(one, etag="", last_modified="") for one in history))
    bound_links(page, most)
    assert encode_page(from_line(to_line(page))) == encode_page(page)


def test_what_is_kept_of_links_is_the_beginning_of_their_fingerprints() -> None:
    found = []
    for most in (12 * 9, 4 * 9, 2 * 9):
        page = page_after(Visit(URL, 1, links=frozenset(map(fingerprint, "abcdefghi"))))
        bound_links(page, most)
        line = json.loads(to_line(page))
        found.append((line["link_level"], set(line["links"][0]["fingerprints"])))
    hashes = [blake2b(text.encode(), digest_size=8).hexdigest() for text in "abcdefghi"]
    assert found == [
        (0, set(hashes)),
        (1, {one[:8] for one in hashes}),
        (2, {one[:4] for one in hashes}),
    ]


@pytest.mark.parametrize(
    ("level", "fingerprint", "message"),
    [
        (1, "feffffffffffffff", "fingerprints have to be texts of 8 hexadecimal digits"),
        (3, "feff0000", "fingerprints have to be texts of 4 hexadecimal digits"),
        (3, "0100", "a fingerprint in 'links' is none that 'link_level' keeps"),
        (19, "0000", "'link_level' is no whole number from 0 to 18: 19"),
    ],
)
def test_links_that_a_level_does_not_keep_are_refused(
    level: int, fingerprint: str, message: str
) -> None:
    page = page_after(Visit(URL, 100, links=frozenset({0})))
    bound_links(page, 2)
    fields = json.loads(to_line(page))
    fields["link_level"] = level
    fields["links"][0]["fingerprints"] = [fingerprint]
    with pytest.raises(ValueError, match=message):
        from_line(json.dumps(fields).encode())


@pytest.mark.parametrize("layout", [1, 2, 3])
def test_exports_of_older_layouts_lack_what_these_did_not_have(layout: int) -> None:
    page = page_after(
        Visit(URL, 100, links=frozenset({1, 2})), Visit(URL, 200, links=frozenset({2, 3}))
    )
    if layout > 1:
        bound_links(page, 12)
    if layout == 3:
        merge(page, Visit(URL, 300, digest=5))
    fields = json.loads(to_line(page)) | {"hacs": layout}
    if layout < 3:
        del fields["digests"], fields["contents"]
    if layout == 1:
        del fields["link_level"]
    for run in fields["links"]:
        del run["last_seen"]
    page.last_seen = array("I", [0] * len(page.links))
    assert from_line(json.dumps(fields).encode()) == page


def test_last_sightings_that_are_not_known_are_null() -> None:
    page = page_after(
        Visit(URL, 100, links=frozenset({1, 2})), Visit(URL, 200, links=frozenset({3}))
    )
    page.last_seen = array("I", [0, 150, 0])
    found = [run["last_seen"] for run in json.loads(to_line(page))["links"]]
    assert found == [[None, "1970-01-01T00:02:30Z"], None]
    assert from_line(to_line(page)).last_seen == page.last_seen


def test_an_export_that_says_of_narrowed_links_when_they_were_last_seen_is_read_without() -> None:
    page = page_after(Visit(URL, 100, links=frozenset({1, 2})))
    bound_links(page, 8)
    fields = json.loads(to_line(page))
    fields["links"][0]["last_seen"] = "1970-01-01T00:02:30Z"
    assert from_line(json.dumps(fields).encode()) == page


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_fingerprints_are_the_hashes_in_hexadecimal_and_come_back(texts: list[str]) -> None:
    found = to_hex([fingerprint(text) for text in texts])
    assert found == [blake2b(text.encode(), digest_size=8).hexdigest() for text in texts]
    assert list(from_hex(found)) == [fingerprint(text) for text in texts]


def test_the_order_of_keys_and_of_fingerprints_and_what_follows_from_the_rest_do_not_matter() -> (
    None
):
    fields = json.loads(to_line(example()))
    fields["links"][0]["fingerprints"].reverse()
    fields["links"][0]["last_seen"].reverse()
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


def test_of_many_such_lines_some_are_named_and_all_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert not list(read_export([broken("url", "ftp://example.edu/")] * 30, "pages.jsonl"))
    assert caplog.messages[-1].startswith("pages.jsonl: 30 lines are skipped")
    assert len(caplog.messages) == 11


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("hacs", 5, "'hacs' is layout 5, this version of hacs-crawler knows 1 to 4"),
        ("hacs", True, "'hacs' is no whole number"),
        ("url", "missing", "no 'url'"),
        ("url", 5, "'url' is no text: 5"),
        ("url", "", "'url' is no URL: ''"),
        ("url", "example.edu", "'url' is no URL: 'example.edu'"),
        ("url", "http://example.edu:99999/", "'url' is impossible"),
        ("url", "http://example.edu/\udc80", "'url' is not Unicode"),
        ("rate_per_day", float("nan"), "'rate_per_day' is no number of at least 0: nan"),
        ("rate_per_day", float("inf"), "'rate_per_day' is no number of at least 0: inf"),
        ("rate_per_day", -0.5, "'rate_per_day' is no number of at least 0: -0.5"),
        ("rate_per_day", 10**400, "'rate_per_day' is no number of at least 0: 1000"),
        ("rate_per_day", "0.5", "'rate_per_day' is no number"),
        ("rate_per_day", False, "'rate_per_day' is no number"),
        ("rate_per_day", None, "'rate_per_day' is no number"),
        ("gone_in_a_row", 256, "'gone_in_a_row' is no whole number from 0 to 255: 256"),
        ("gone_in_a_row", True, "'gone_in_a_row' is no whole number"),
        ("failures", -1, "'failures' is no whole number"),
        ("failures", 1.0, "'failures' is no whole number"),
        ("last_news", "soon", "'last_news' is no ISO 8601 time in 1970-2106: 'soon'"),
        ("last_news", "1969-01-01T00:00:00Z", "'last_news' is no ISO 8601 time"),
        ("last_news", "2200-01-01T00:00:00Z", "'last_news' is no ISO 8601 time"),
        ("last_news", 1_769_860_800, "'last_news' is no ISO 8601 time"),
        ("last_news", "2026-01-31T12:00:00Z", "'last_news' is before the last of 'visits'"),
        ("etag", None, "'etag' is no text: None"),
        ("etag", "x" * 65_536, "'etag' is longer than 65535 bytes"),
        ("visits", {}, "'visits' is no list"),
        ("visits/0", "2026-01-31T12:00:00Z", "an entry of 'visits' is no JSON object"),
        ("visits/0/at", None, "'at' is no ISO 8601 time"),
        ("visits/0/at", "missing", "an entry of 'visits' has no 'at'"),
        ("visits/0/at", "2026-02-01T12:00:00Z", "'visits' is not in ascending order of time"),
        ("content_changes/0", -5, "'content_changes' is no ISO 8601 time in 1970-2106: '-5'"),
        ("echoes", ["soon"], "'echoes' is no ISO 8601 time in 1970-2106: 'soon'"),
        ("echoes", ["2026-02-01T12:00:00Z"] * 2, "'echoes' is not in ascending order of time"),
        ("links_since", None, "'links_since' is not at or before the first of 'links'"),
        ("links_since", "2026-02-01T00:00:00Z", "'links_since' is not at or before the first"),
        ("links/1/first_seen", "2026-01-31T12:00:00Z", "'links' is not in ascending order"),
        ("links/0/last_seen", [], "'last_seen' is no list of 2 times"),
        ("links/0/last_seen", ["2026-01-31T12:00:00Z"] * 3, "'last_seen' is no list of 2 times"),
        ("links/0/last_seen", ["2026-01-31T12:00:00Z", 5], "'last_seen' is no ISO 8601 time"),
        ("links/0/last_seen", "soon", "'last_seen' is no ISO 8601 time in 1970-2106: 'soon'"),
        (
            "links/0/last_seen",
            "2026-01-31T11:59:59Z",
            "in an entry of 'links' a time of 'last_seen' is before 'first_seen'",
        ),
        ("links/1/fingerprints", [], "an entry of 'links' has no fingerprints"),
        ("links/0/fingerprints", None, "'fingerprints' is no list"),
        ("links/0/fingerprints", ["1"], "fingerprints have to be texts of 16 hexadecimal digits"),
        ("links/0/fingerprints", [1], "fingerprints have to be texts of 16 hexadecimal digits"),
        ("links/0/fingerprints", ["x" * 16], "16 hexadecimal digits"),
        ("links/0/fingerprints", ["00 00 00 00 00 0"], "16 hexadecimal digits"),
        ("links/0/fingerprints", ["05" + "0" * 14, "1" * 16], "a fingerprint is twice in 'links'"),
        ("links/0/fingerprints", ["0" * 16, "0" * 16], "a fingerprint is twice in 'links'"),
        ("harvests/0/source", 2**32, "'source' is no whole number"),
        ("harvests/0/digest", "", "16 hexadecimal digits"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_line(path: str, value: object, message: str) -> None:
    pages = read_export([to_line(example()), b"\n", broken(path, value)], "x.jsonl")
    assert next(pages).url == URL
    with pytest.raises(ExportError, match=f"x.jsonl, line 3: .*{message}"):
        next(pages)


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

"""Pages survive being bytes, and damaged bytes are refused."""

from __future__ import annotations

import contextlib
import struct
from array import array
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hacs_crawler.exceptions import StateError
from hacs_crawler.links.sites import site_id
from hacs_crawler.state.codec import ROW, decode_page, encode_page, encode_row
from hacs_crawler.state.page import Harvest, News, Page, Visit, bound_links, copy_of, merge

seconds = st.integers(1, 2**32 - 1)
digests = st.integers(-(2**63), 2**63 - 1)
pages = st.builds(
    Page,
    url=st.text(max_size=50),
    visits=st.lists(seconds, unique=True, max_size=5).map(lambda x: array("I", sorted(x))),
    content_changes=st.lists(seconds, unique=True, max_size=3).map(lambda x: array("I", sorted(x))),
    links_since=seconds,
    last_news=seconds,
    gone=st.integers(0, 255),
    failures=st.integers(0, 255),
    not_before=seconds,
    rate=st.floats(0, 1e6),
    log_sd=st.floats(0, 4, width=32),
    churn=st.floats(0, 1, width=32),
    churning=st.floats(0, 1, width=32),
    version=st.integers(1, 2**32 - 2),  # the last one could not be followed by another write
    etag=st.text(max_size=20),
    last_modified=st.text(max_size=20),
    harvests=st.dictionaries(
        seconds, st.builds(Harvest, seconds, seconds, digests), max_size=3
    ).map(lambda found: {one.source: one for one in found.values()}),
)


def example_page() -> Page:
    page = Page("http://example.edu/~a/")
    merge(page, Visit(page.url, 100, links=frozenset({1, -2, 2**63 - 1}), etag='"x"'))
    merge(page, Visit(page.url, 200, links=frozenset({1, 5})))
    merge(page, Visit(page.url, 300, News.FAILED))
    page.rate, page.log_sd, page.version = 0.25, 0.5, 7
    page.churn, page.churning = 0.125, 0.75
    return page


OLDER_LAYOUTS = {
    1: "0100010007000000640000002c01000000000000000000000000d03f160000000000000002000000000000000200"
    "000004000000687474703a2f2f6578616d706c652e6564752f7e612f64000000c80000006400000003000000c8000000"
    "01000000feffffffffffffff0100000000000000ffffffffffffff7f0500000000000000",
    2: "0200010207000000640000002c01000000000000000000000000d03f160000000000000002000000000000000200"
    "000004000000687474703a2f2f6578616d706c652e6564752f7e612f64000000c80000006400000003000000c8000000"
    "010000000100feffffff0500",
    3: "0300000007000000640000009001000000000000000000000000d03f160000000000000003000000000000000200"
    "000004000000687474703a2f2f6578616d706c652e6564752f7e612f64000000c8000000900100006400000003000000"
    "c800000001000000feffffffffffffff0100000000000000ffffffffffffff7f05000000000000000100000090010000"
    "0a00000005000000",
    4: "0400000007000000640000009001000000000000000000000000d03f0000003f1600000000000000030000000000"
    "00000200000004000000687474703a2f2f6578616d706c652e6564752f7e612f64000000c80000009001000064000000"
    "03000000c800000001000000feffffffffffffff0100000000000000ffffffffffffff7f050000000000000001000000"
    "900100000a00000005000000",
}
"""The example page as versions before wrote it.

Plain, keeping less of its links, with digests, and with these and the spread of its rate.
"""


@given(pages)
def test_a_page_comes_back_from_its_bytes(page: Page) -> None:
    page.url, page.etag, page.last_modified = (
        text.encode("utf-8", "replace").decode()
        for text in (page.url, page.etag, page.last_modified)
    )
    assert decode_page(encode_page(page)) == page


def test_links_and_when_they_were_first_and_last_seen_come_back() -> None:
    page = decode_page(encode_page(example_page()))
    assert page.sightings() == {
        1: (100, 200),
        -2: (100, 100),
        2**63 - 1: (100, 100),
        5: (200, 200),
    }


@pytest.mark.parametrize("length", range(0, len(encode_page(example_page())), 7))
def test_truncated_bytes_are_refused(length: int) -> None:
    with pytest.raises(StateError, match="damaged"):
        decode_page(encode_page(example_page())[:length])


def test_a_layout_of_a_later_version_is_refused() -> None:
    body = bytearray(encode_page(example_page()))
    body[0] = 9
    with pytest.raises(StateError, match="layout 9"):
        decode_page(bytes(body))


def test_pages_of_older_layouts_are_read_and_lack_what_these_did_not_have() -> None:
    plain, narrowed, with_digests = example_page(), example_page(), example_page()
    bound_links(narrowed, 8)
    merge(with_digests, Visit(with_digests.url, 400, digest=5))
    with_spread = copy_of(with_digests)
    for layout, page in enumerate((plain, narrowed, with_digests, with_spread), start=1):
        page.log_sd = 0.5 if layout == 4 else 0.0
        page.churn = page.churning = 0.0
        page.last_seen = array("I", [0] * len(page.links))
        assert decode_page(bytes.fromhex(OLDER_LAYOUTS[layout])) == page
        assert encode_page(page)[0] == 5
        assert decode_page(encode_page(page)) == page


@pytest.mark.parametrize("name", ["churn", "churning"])
@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), float("inf")])
def test_churn_that_is_no_probability_is_refused(name: str, value: float) -> None:
    page = example_page()
    setattr(page, name, value)
    with pytest.raises(StateError, match=f"{name} "):
        decode_page(encode_page(page))


LATEST = -24
"""Where the bytes of the example page say when its links were seen last: 200, but for two of them."""


@pytest.mark.parametrize(
    "change",
    [
        lambda end: end[:-4],
        lambda end: end + bytes(4),
        lambda end: struct.pack("<II", 200, 1) + end[8:],
        lambda end: struct.pack("<II", 200, 2**32 - 1) + end[8:],
        lambda end: end[:8] + struct.pack("<I", 4) + end[12:],
        lambda end: end[:8] + struct.pack("<I", 2**32 - 1) + end[12:],
    ],
    ids=[
        "cut",
        "too long",
        "too few times",
        "more times than bytes",
        "a link too many",
        "a link far too many",
    ],
)
def test_last_sightings_that_cannot_be_are_refused(change: Callable[[bytes], bytes]) -> None:
    body = encode_page(example_page())
    start, end = body[:LATEST], body[LATEST:]
    assert struct.unpack_from("<II", end) == (200, 2)
    with pytest.raises(StateError, match="damaged"):
        decode_page(start + change(end))


@pytest.mark.parametrize("is_in_site", [True, False])
def test_echoes_and_whether_the_site_knows_the_links_come_back(is_in_site: bool) -> None:
    page = example_page()
    page.echoes, page.is_in_site = array("I", [150, 2**32 - 1]), is_in_site
    assert decode_page(encode_page(page)) == page


@pytest.mark.parametrize("echoes", [[200, 100], [100, 100]])
def test_echoes_in_disorder_are_refused(echoes: list[int]) -> None:
    page = example_page()
    page.echoes = array("I", echoes)
    with pytest.raises(StateError, match="damaged: its echoes are cut, or not in the order"):
        decode_page(encode_page(page))


def test_changes_of_link_rules_come_back() -> None:
    page = example_page()
    merge(page, Visit(page.url, 400, links=frozenset({1}), link_rules=2**32 - 1))
    merge(page, Visit(page.url, 500, digest=5))
    assert decode_page(encode_page(page)).rule_changes == array("I", [400, 2**32 - 1])
    assert decode_page(encode_page(page)) == page


@pytest.mark.parametrize("changes", [[200, 1, 100, 2], [100, 1, 100, 2]])
def test_changes_of_link_rules_in_disorder_are_refused(changes: list[int]) -> None:
    page = example_page()
    page.rule_changes = array("I", changes)
    with pytest.raises(StateError, match="damaged: its changes of link rules are cut, or not in"):
        decode_page(encode_page(page))


def test_the_row_says_whether_the_last_visit_is_a_baseline() -> None:
    page = example_page()
    merge(page, Visit(page.url, 400, links=frozenset({9}), link_rules=7))
    (row,) = np.frombuffer(encode_row(page), ROW)
    assert (row["is_baseline"], row["last_visit"], row["updates"]) == (1, 400, 1)
    assert row["last_update"] == 200
    merge(page, Visit(page.url, 500, links=frozenset({9}), link_rules=7))
    (row,) = np.frombuffer(encode_row(page), ROW)
    assert (row["is_baseline"], row["last_visit"], row["updates"]) == (0, 500, 1)


def test_a_page_without_updates_is_known_not_to_have_changed_since_the_last_baseline() -> None:
    page = Page("http://example.edu/~a/")
    for at, rules in ((100, 1), (200, 2), (300, 2)):
        merge(page, Visit(page.url, at, links=frozenset({rules}), link_rules=rules))
    (row,) = np.frombuffer(encode_row(page), ROW)
    assert (row["last_update"], row["updates"], row["is_baseline"]) == (200, 0, 0)


def test_a_page_that_keeps_less_of_its_links_and_has_digests_comes_back() -> None:
    page = example_page()
    merge(page, Visit(page.url, 400, digest=5))
    bound_links(page, 8)
    assert decode_page(encode_page(page)) == page


@pytest.mark.parametrize(
    "rest", [b"", b"1234", bytes(16), b"\2\0\0\0" + bytes(16), b"\1\0\0\0" + bytes(16)]
)
def test_digests_that_are_cut_or_in_disorder_are_refused(rest: bytes) -> None:
    body = bytearray.fromhex(OLDER_LAYOUTS[1])
    body[0] = 3
    with pytest.raises(StateError, match="damaged"):
        decode_page(bytes(body) + rest)


@pytest.mark.parametrize(
    ("layout", "level"), [(1, 1), (2, 0), (2, 19), (2, 255), (3, 19), (4, 19), (5, 19)]
)
def test_a_level_of_links_that_does_not_exist_is_refused(layout: int, level: int) -> None:
    older = OLDER_LAYOUTS.get(layout)
    body = bytearray(encode_page(example_page()) if older is None else bytes.fromhex(older))
    body[3] = level
    with pytest.raises(StateError, match=f"layout {layout} with level {level}"):
        decode_page(bytes(body))


@given(st.binary(max_size=200))
def test_rubbish_is_refused_or_is_a_page(body: bytes) -> None:
    with contextlib.suppress(StateError):
        assert isinstance(decode_page(body), Page)


def test_the_row_holds_what_ranking_needs() -> None:
    row = np.frombuffer(encode_row(example_page()), ROW)[0]
    rest = site_id("http://example.edu/~a/"), 0.5, 0.125, 0.75, 0
    assert row.tolist() == (0.25, 200, 200, 0, 2, 1, 1, 100, *rest)


def test_where_no_update_is_known_the_row_names_the_first_visit() -> None:
    page = Page("http://example.edu/")
    merge(page, Visit(page.url, 100, links=frozenset({1})))
    merge(page, Visit(page.url, 200, links=frozenset({1})))
    row = np.frombuffer(encode_row(page), ROW)[0]
    assert (row["last_update"], row["updates"]) == (100, 0)

"""Pages survive being bytes, and damaged bytes are refused."""

import contextlib
import struct
from array import array
from zlib import crc32

import msgspec
import numpy as np
import pytest
from hypothesis import given, strategies as st

from hacs_crawler.exceptions import StateError
from hacs_crawler.links.sites import site_id
from hacs_crawler.state.codec import decode_page, encode_page
from hacs_crawler.state.merging import merge
from hacs_crawler.state.page import Harvest, News, Page, Visit
from hacs_crawler.state.rows import ROW, encode_row
from hacs_crawler.state.spells import Spells

seconds = st.integers(1, 2**32 - 1)
times = st.lists(seconds, max_size=5).map(lambda numbers: array("I", numbers))
digests = st.integers(-(2**63), 2**63 - 1)
pages = st.builds(
    Page,
    url=st.text(max_size=50),
    visits=times,
    spells=st.builds(
        Spells, times, st.lists(digests, max_size=5).map(lambda numbers: array("q", numbers))
    ),
    rule_changes=st.dictionaries(seconds, seconds, max_size=5),
    digests=st.dictionaries(seconds, seconds, max_size=5),
    contents=st.lists(seconds, max_size=5),
    echoes=st.lists(seconds, max_size=5),
    unread=st.lists(seconds, max_size=5),
    is_in_site=st.booleans(),
    last_news=seconds,
    gone=st.integers(0, 255),
    failures=st.integers(0, 255),
    not_before=seconds,
    rate=st.floats(0, 1e6),
    share=st.floats(-1, 1, width=16),
    fast=st.floats(0, 1e6, width=32),
    slow=st.floats(0, 1e6, width=32),
    churn=st.floats(0, 1, width=32),
    churning=st.floats(0, 1, width=32),
    version=st.integers(1, 2**32 - 2),  # the last one could not be followed by another write
    etag=st.text(max_size=20),
    last_modified=st.text(max_size=20),
    hrefs=st.integers(0, 2**64 - 1),
    harvests=st.dictionaries(
        seconds, st.builds(Harvest, seconds, seconds, digests), max_size=3
    ).map(lambda found: {one.source: one for one in found.values()}),
)


def example_page() -> Page:
    page = Page("http://example.edu/~a/")
    merge(page, Visit(page.url, 100, marks=frozenset({1, -2, 2**63 - 1}), etag='"x"'))
    merge(page, Visit(page.url, 200, marks=frozenset({1, 5})))
    merge(page, Visit(page.url, 300, News.FAILED))
    page.rate, page.share, page.version = 0.25, 0.5, 7
    page.fast, page.slow, page.churn, page.churning = 3.0, 0.25, 0.125, 0.75
    return page


@given(pages)
def test_a_page_comes_back_from_its_bytes(page: Page) -> None:
    page.url, page.etag, page.last_modified = (
        text.encode("utf-8", "replace").decode()
        for text in (page.url, page.etag, page.last_modified)
    )
    assert decode_page(encode_page(page)) == page


WHOLE = encode_page(example_page())


@pytest.mark.parametrize(
    "body",
    [
        *(WHOLE[:length] for length in range(0, len(WHOLE), 7)),
        *(WHOLE + rest for rest in (b"1", bytes(4), bytes(10_000))),
    ],
)
def test_fewer_or_more_bytes_are_refused(body: bytes) -> None:
    with pytest.raises(StateError, match="damaged"):
        decode_page(body)


def test_a_layout_of_a_later_version_is_refused() -> None:
    body = bytearray(WHOLE)
    body[0] = 9
    with pytest.raises(StateError, match="layout 9"):
        decode_page(bytes(body))


@pytest.mark.parametrize("place", range(len(WHOLE)))
def test_whatever_byte_is_another_the_page_is_refused(place: int) -> None:
    body = bytearray(WHOLE)
    body[place] ^= 1
    with pytest.raises(StateError, match="damaged"):
        decode_page(bytes(body))


@pytest.mark.parametrize(
    ("visits", "since", "updates", "is_baseline"),
    [
        ([(1, 1), (2, 2), (2, 2)], 200, 0, 0),
        ([(1, 1), (1, 1), (1, 1)], 100, 0, 0),
        ([(1, 1), (1, 5), (7, 9)], 200, 1, 1),
        ([(1, 1), (1, 5), (7, 9), (7, 9)], 200, 1, 0),
    ],
    ids=["since a baseline", "since the first visit", "a baseline", "before a baseline"],
)
def test_the_row_says_since_when_a_page_is_unchanged_and_whether_the_last_visit_is_a_baseline(
    visits: list[tuple[int, int]], since: int, updates: int, is_baseline: int
) -> None:
    page = Page("http://example.edu/~a/")
    for number, (rules, mark) in enumerate(visits, 1):
        merge(page, Visit(page.url, 100 * number, marks=frozenset({mark}), rules=rules))
    (row,) = np.frombuffer(encode_row(page), ROW)
    found = row["last_visit"], row["last_update"], row["updates"], row["is_baseline"]
    assert found == (100 * len(visits), since, updates, is_baseline)


def test_the_gap_in_which_the_rules_changed_brings_no_update_if_that_visit_is_not_kept() -> None:
    page = Page("http://example.edu/~a/")
    for number, (rules, mark) in enumerate([(1, 1), (1, 5), (7, 9), (7, 10)], 1):
        merge(page, Visit(page.url, 100 * number, marks=frozenset({mark}), rules=rules))
    page.visits = array("I", [100, 200, 400])
    (row,) = np.frombuffer(encode_row(page), ROW)
    assert (row["updates"], row["is_baseline"]) == (1, 1)


@given(st.binary(max_size=200), st.lists(st.none() | st.text() | st.binary(), max_size=30))
def test_rubbish_is_refused_or_is_a_page_also_with_the_right_checksum(
    rubbish: bytes, values: list[object]
) -> None:
    for known in (rubbish, msgspec.msgpack.encode(values)):
        for body in (known, struct.pack("<BII", 1, 7, crc32(known, 7)) + known):
            with contextlib.suppress(StateError):
                assert isinstance(decode_page(body), Page)


def test_the_row_holds_what_ranking_needs() -> None:
    row = np.frombuffer(encode_row(example_page()), ROW)[0]
    rest = site_id("http://example.edu/~a/"), 0.5, 3.0, 0.25, 0.125, 0.75, 0
    assert row.tolist() == (0.25, 200, 200, 0, 2, 1, 1, 100, *rest)

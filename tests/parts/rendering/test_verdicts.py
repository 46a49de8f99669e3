"""Verdicts of pages and sites, how they come about, and what is kept of them."""

import pytest
from hypothesis import given, strategies as st
from msgspec import msgpack

from hacs_crawler.parts.rendering.verdicts import (
    CHECK_EVERY,
    Advice,
    PageRendering,
    SiteRendering,
    Verdict,
    advice,
    decoded,
    shows_more,
    visited,
)

links = st.frozensets(st.integers(0, 30))
numbers = st.integers(0, 300)
records = st.builds(PageRendering, st.sampled_from(Verdict), numbers) | st.builds(
    SiteRendering, numbers, numbers, numbers
)


@given(records)
def test_a_record_is_read_as_it_was_written(record: PageRendering | SiteRendering) -> None:
    assert decoded(type(record), msgpack.encode(record)) == record
    assert decoded(type(record), None) == type(record)()


@pytest.mark.parametrize("value", [b"\x01", b"\x92\x09\x00", bytes(40), b"\x91\xa1x"])
def test_a_damaged_record_counts_as_none(value: bytes) -> None:
    assert decoded(PageRendering, value) == PageRendering()


def test_an_unknown_page_is_visited_plainly_and_looked_at_if_it_is_suspicious() -> None:
    assert advice(PageRendering(), SiteRendering()) == Advice(False, True)


@pytest.mark.parametrize("verdict", [Verdict.PLAIN, Verdict.BROWSER])
def test_a_verdict_is_checked_at_every_twentieth_visit(verdict: Verdict) -> None:
    mark = PageRendering(verdict)
    checks = []
    for _ in range(2 * CHECK_EVERY):
        found = advice(mark, SiteRendering())
        assert found.rendered is (verdict is Verdict.BROWSER)
        checks.append(found.checked)
        mark = PageRendering(verdict) if found.checked else visited(mark)
    expected = [False] * (CHECK_EVERY - 1) + [True]
    assert checks == 2 * expected


def test_three_pages_that_agree_speak_for_their_site() -> None:
    site = SiteRendering()
    for number in range(3):
        assert site.verdict is Verdict.UNKNOWN, number
        site = site.judged(Verdict.UNKNOWN, Verdict.BROWSER)
    assert site.verdict is Verdict.BROWSER
    assert advice(PageRendering(), site) == Advice(True, False)
    assert advice(PageRendering(Verdict.PLAIN), site) == Advice(False, False)


def test_a_page_that_says_otherwise_takes_four_to_be_outvoted() -> None:
    assert SiteRendering(browser=3, plain=1).verdict is Verdict.UNKNOWN
    assert SiteRendering(browser=4, plain=1).verdict is Verdict.BROWSER
    assert SiteRendering(browser=1, plain=4).verdict is Verdict.PLAIN
    assert SiteRendering(browser=50, plain=50).verdict is Verdict.UNKNOWN


def test_a_page_that_changes_its_verdict_is_counted_once() -> None:
    site = SiteRendering(browser=3, plain=0, visits=7)
    changed = site.judged(Verdict.BROWSER, Verdict.PLAIN)
    assert changed == SiteRendering(browser=2, plain=1, visits=0)
    assert changed.judged(Verdict.PLAIN, Verdict.PLAIN) == SiteRendering(2, 1, 0)


def test_a_site_s_verdict_is_checked_at_every_twentieth_visit_that_goes_by_it() -> None:
    site = SiteRendering(browser=3)
    for _ in range(CHECK_EVERY - 1):
        assert not advice(PageRendering(), site).checked
        site = visited(site)
    assert advice(PageRendering(), site).checked


def test_after_three_failures_a_page_is_asked_for_plainly_again() -> None:
    mark = PageRendering(Verdict.BROWSER)
    assert mark.failed().verdict is Verdict.BROWSER
    assert mark.failed().failed().verdict is Verdict.BROWSER
    assert mark.failed().failed().failed() == PageRendering(Verdict.PLAIN)


@given(links, links)
def test_a_browser_that_shows_what_the_plain_answer_shows_shows_no_more(
    plain: frozenset[int], second: frozenset[int]
) -> None:
    assert not shows_more(plain, plain, second)


@given(links, st.frozensets(st.integers(31, 60), min_size=1))
def test_links_that_both_renderings_add_are_more(
    plain: frozenset[int], gained: frozenset[int]
) -> None:
    assert shows_more(plain, plain | gained, plain | gained)


@pytest.mark.parametrize(
    ("plain", "first", "second", "more"),
    [
        ({*range(5)}, {*range(10, 15)}, {*range(20, 25)}, False),  # drawn anew each time
        ({1, 2, 3, 4, 5}, {4, 5, 6, 7, 8}, {1, 6, 9, 10, 11}, False),  # from a small pool
        (set(), {*range(30), 100, 101}, {*range(30), 102, 103}, True),  # with a rotating box
    ],
)
def test_links_that_are_drawn_are_no_more_and_do_not_hide_what_an_application_adds(
    plain: set[int], first: set[int], second: set[int], more: bool
) -> None:
    assert shows_more(frozenset(plain), frozenset(first), frozenset(second)) is more

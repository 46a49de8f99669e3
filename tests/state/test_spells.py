"""Marks other than links: a page knows when it showed them, in whatever order its visits come."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace

from hacs_crawler.state.codec import decode_page, encode_page
from hacs_crawler.state.future import as_of
from hacs_crawler.state.jsonl import from_line, to_line
from hacs_crawler.state.merging import RECENT_VISITS, SLOT_SECONDS, merge, merge_pages
from hacs_crawler.state.page import Page, Updates, Visit
from hacs_crawler.state.recorded import merged
from hacs_crawler.utils.times import DAY

URL = "http://shop.example/kettle"
RULES = 7
"""An odd number: what is watched are no links."""
START = 1_700_000_000


def shows(at: int, *marks: int, rules: int = RULES) -> Visit:
    return Visit(URL, at, marks=frozenset(marks), rules=rules)


def unmodified(at: int) -> Visit:
    return Visit(URL, at)


def page_after(*visits: Visit) -> Page:
    page = Page(URL)
    for one in visits:
        merge(page, one)
    return page


def found(page: Page, updates: Updates) -> list[int]:
    return list(replace(page, updates=updates).sound.update_times)


A, B, C = 1, 2, 3


def test_links_of_before_are_followed_by_a_baseline() -> None:
    page = page_after(Visit(URL, 10, marks=frozenset({A, B}), rules=8), shows(20, C), shows(30, A))
    assert found(page, "any-change") == [30]


@pytest.mark.parametrize(
    ("updates", "news", "is_update"),
    [("change", {A}, True), ("page", set(), False), ("any-change", {A}, True)],
)
def test_what_a_visit_brought_is_told_as_updates_are_counted(
    updates: Updates, news: set[int], is_update: bool
) -> None:
    before = page_after(shows(10, A), shows(20, B))
    recorded = merged(before, shows(30, A), updates)
    assert (recorded.new_marks, recorded.updated, recorded.lost) == (news, is_update, 1)


def test_a_visit_that_only_lost_something_is_an_update_where_that_counts() -> None:
    before = page_after(shows(10, A, B))
    recorded = merged(before, shows(20, A), "any-change")
    assert (recorded.updated, recorded.new_marks, recorded.lost) == (True, frozenset(), 1)


visits_of_marks = st.lists(
    st.builds(
        lambda at, marks, rules, is_seen: (
            shows(START + at * DAY // 2, *marks, rules=rules)
            if is_seen
            else unmodified(START + at * DAY // 2)
        ),
        st.integers(0, 900),
        st.sets(st.integers(1, 4)),
        st.sampled_from([RULES, RULES, RULES, 9]),
        st.sampled_from([True, True, True, False]),
    ),
    max_size=20,
    unique_by=lambda visit: visit.at,
)
EVERY_UPDATE: tuple[Updates, ...] = ("page", "change", "any-change")


@given(visits_of_marks, st.randoms())
def test_the_order_in_which_visits_come_makes_no_difference(visits: list[Visit], random) -> None:  # type: ignore[no-untyped-def]
    in_order = page_after(*sorted(visits, key=lambda visit: visit.at))
    random.shuffle(visits)
    page = page_after(*visits)
    assert page == replace(in_order, url=page.url)


@given(visits_of_marks)
def test_updates_are_those_of_the_visits_one_by_one(visits: list[Visit]) -> None:
    visits.sort(key=lambda visit: visit.at)
    page = page_after(*visits)
    expected: dict[Updates, list[int]] = {updates: [] for updates in EVERY_UPDATE}
    shown = [visit for visit in visits if visit.marks is not None]
    known = set(shown[0].marks or ()) if shown else set()
    for before, visit in pairwise(shown):
        assert visit.marks is not None
        assert before.marks is not None
        if visit.rules == before.rules:
            if visit.marks - known:
                expected["page"].append(visit.at)
            if visit.marks - before.marks:
                expected["change"].append(visit.at)
            if visit.marks != before.marks:
                expected["any-change"].append(visit.at)
        known |= visit.marks
    assert {updates: found(page, updates) for updates in EVERY_UPDATE} == expected


many_visits = st.lists(
    st.builds(
        lambda at, marks: shows(START + at * DAY // 4, *marks),
        st.integers(0, 2_000),
        st.sets(st.integers(1, 3)),
    ),
    min_size=RECENT_VISITS - 5,
    max_size=RECENT_VISITS + 60,
    unique_by=lambda visit: visit.at,
)


@settings(max_examples=15)
@given(many_visits, st.randoms())
def test_thinned_pages_are_what_fewer_visits_would_have_shown(visits: list[Visit], random) -> None:  # type: ignore[no-untyped-def]
    page = page_after(*sorted(visits, key=lambda visit: visit.at))
    kept = [visit for visit in visits if visit.at in set(page.visits)]
    assert page == replace(page_after(*sorted(kept, key=lambda visit: visit.at)), url=page.url)
    random.shuffle(visits)
    assert page_after(*visits) == page
    half = len(visits) // 2
    joined = merge_pages(page_after(*visits[:half]), page_after(*visits[half:]))
    assert replace(joined, url=page.url) == page


@given(visits_of_marks)
def test_a_page_survives_its_bytes_and_an_export(visits: list[Visit]) -> None:
    page = page_after(*visits)
    assert decode_page(encode_page(page)) == page
    assert from_line(to_line(page)) == page


@pytest.mark.parametrize(("new", "most"), [(20, 18_200), (1, 3_000)])
def test_a_page_all_of_whose_marks_are_new_at_each_visit_takes_nine_bytes_for_each(
    new: int, most: int
) -> None:
    days = range(100)
    page = page_after(
        *(shows(START + day * DAY, *range(new * day, new * (day + 1))) for day in days)
    )
    body = encode_page(page)
    assert decode_page(body) == page
    assert len(body) <= most


def test_the_page_as_it_was_is_known_without_later_visits() -> None:
    visits = [
        shows(START, A),
        shows(START + DAY, B),
        unmodified(START + 2 * DAY),
        shows(START + 3 * DAY, B),
    ]
    past = as_of(page_after(*visits), START + 2.5 * DAY)
    assert found(past, "any-change") == [START + DAY]
    assert found(page_after(*visits), "any-change") == [START + DAY]


def test_what_only_old_visits_showed_is_forgotten() -> None:
    """A page with another mark at every visit does not grow for ever."""
    step = SLOT_SECONDS // 4
    page = page_after(*(shows(START + n * step, n) for n in range(1, 400)))
    assert len(page.spells.marks) == len(page.visits) < RECENT_VISITS + 80

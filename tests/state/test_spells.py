"""Marks other than links: a page knows when it showed them, in whatever order its visits come."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace

from hacs_crawler.state.codec import decode_page, encode_page
from hacs_crawler.state.merging import RECENT_VISITS, SLOT_SECONDS
from hacs_crawler.state.page import Page, Updates, Visit
from hacs_crawler.state.recorded import merged
from hacs_crawler.utils.times import DAY
from state_support import page_after

URL = "http://shop.example/kettle"
RULES = 7
"""An odd number: what is watched are no links."""
START = 1_700_000_000


def shows(at: int, *marks: int, rules: int = RULES) -> Visit:
    return Visit(URL, at, marks=frozenset(marks), rules=rules)


def unmodified(at: int) -> Visit:
    return Visit(URL, at)


def found(page: Page, updates: Updates) -> list[int]:
    return list(replace(page, updates=updates).sound.update_times)


A, B = 1, 2


@pytest.mark.parametrize(
    ("updates", "shown_last", "news", "is_update"),
    [
        ("change", {B}, {A}, True),
        ("page", {B}, set(), False),
        ("any-change", {B}, {A}, True),
        ("any-change", {A, B}, set(), True),
    ],
)
def test_what_a_visit_brought_is_told_as_updates_are_counted(
    updates: Updates, shown_last: set[int], news: set[int], is_update: bool
) -> None:
    before = page_after(shows(10, A), shows(20, *shown_last))
    recorded = merged(before, shows(30, A), updates)
    assert (recorded.new_marks, recorded.updated, recorded.lost) == (news, is_update, 1)


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
@given(many_visits)
def test_thinned_pages_are_what_fewer_visits_would_have_shown(visits: list[Visit]) -> None:
    page = page_after(*sorted(visits, key=lambda visit: visit.at))
    kept = [visit for visit in visits if visit.at in set(page.visits)]
    assert page == page_after(*sorted(kept, key=lambda visit: visit.at))


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


def test_what_only_old_visits_showed_is_forgotten() -> None:
    """A page with another mark at every visit does not grow for ever."""
    step = SLOT_SECONDS // 4
    page = page_after(*(shows(START + n * step, n) for n in range(1, 400)))
    assert len(page.spells.marks) == len(page.visits) < RECENT_VISITS + 80

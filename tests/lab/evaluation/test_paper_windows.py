"""Histories of homepages and websites, and what is known of them at a moment, by hand."""

from math import inf, log

import numpy as np
import pytest
from hypothesis import given, strategies as st

from hacs_crawler.harvest.query import Site
from hacs_crawler.lab.evaluation.histories import (
    Captures,
    History,
    estimated,
    from_pages,
    history,
    window,
)
from hacs_crawler.links import DEEPEST, group_by_website, page_surt, path_depth, website_of
from hacs_crawler.model import Visits, estimate
from hacs_crawler.state import Page
from hacs_crawler.utils.arrays import offsets_of
from state_support import page_after, visit

Timeline = list[tuple[float, bool]]


def seen(*pages: Timeline, updates: tuple[tuple[int, float], ...] = ()) -> Captures:
    flat = [capture for page in pages for capture in page]
    return Captures(
        np.array([day for day, _ in flat], np.float64),
        np.array([updated for _, updated in flat], np.bool_),
        offsets_of(np.array([len(page) for page in pages], np.int64)),
        np.array([day for _, day in updates], np.float64),
        np.array([page for page, _ in updates], np.int64),
    )


def alone(*pages: Timeline, updates: tuple[tuple[int, float], ...] = ()) -> History:
    return history(seen(*pages, updates=updates), np.arange(len(pages)), len(pages))


def together(*pages: Timeline, updates: tuple[tuple[int, float], ...] = ()) -> History:
    return history(seen(*pages, updates=updates), np.zeros(len(pages), np.int64), 1)


PAGE: Timeline = [(0, False), (10, True), (20, False), (30, False)]
"""Interpolated update at 5; 5 days that end in it, 15 + 10 that do not: 5 / (e^5l - 1) = 25."""
RATE = log(1.2) / 5


def test_rate_and_p_of_a_page_by_hand() -> None:
    known = window(alone(PAGE), 30, 30, horizon_days=7)
    assert known.p == pytest.approx([1 - np.exp(-RATE * (30 + 7 - 5))])
    assert known.last_capture.tolist() == [30]


def test_a_window_holds_captures_at_both_of_its_ends_and_no_others() -> None:
    page = alone([(0, False), (10, True), (17, False)])
    assert window(page, 17, 7, 7).p[0] > 0
    assert window(page, 17, 6, 7).p[0] == 0
    assert window(page, 16, 16, 7).last_capture.tolist() == [10]
    assert window(page, 17, 0, 7).units.tolist() == [0]
    assert window(page, 24, 6, 7).units.size == 0
    assert window(page, 24, 6, 7).p.size == 0


def test_a_capture_is_compared_with_the_one_before_the_window() -> None:
    page = alone([(0, False), (10, True), (17, False)])
    open_ = window(page, 12, 3, 7).p  # the capture at 10 alone: Eq. 4, and tau at 5
    assert open_ == pytest.approx([1 - np.exp(log(0.5 / 1.5) / 10 * (12 + 7 - 5))])


def test_captures_after_the_moment_are_not_known() -> None:
    early, late = alone(PAGE[:3]), alone([*PAGE[:3], (21, True), (25, True)])
    assert window(early, 20, 84, 7).p == window(late, 20, 84, 7).p


def test_a_website_by_hand() -> None:
    # page 0 has an update at 5, page 1 accesses without any at 8: 5 / (e^5l - 1) = 3
    site = together([(0, False), (10, True)], [(4, False), (8, False)])
    rates = estimated(site, np.arange(2))
    assert rates.per_day == pytest.approx([log(1 + 5 / 3) / 5])
    assert rates.tau.tolist() == [5]


def test_a_websites_pages_with_one_capture_tell_nothing_but_that_it_was_captured() -> None:
    one, more = together(PAGE), together(PAGE, [(1, False)], [(29.5, False)])
    assert window(one, 30, 30, 7).p == window(more, 30, 30, 7).p
    assert window(together([(1, False)]), 30, 30, 7).units.tolist() == [0]


def test_events_of_a_websites_pages_at_one_moment_are_one() -> None:
    same = together(PAGE, PAGE, [(0, False), (5, False), (30, False)])
    assert estimated(same, np.arange(8)).per_day == pytest.approx([RATE])


def test_two_captures_in_one_second_are_one() -> None:
    twice = alone([(0, False), (10, True), (10, False), (20, False), (30, False)])
    assert estimated(twice, np.arange(3)).per_day == pytest.approx([RATE])


def test_the_next_update_of_each_unit() -> None:
    updates = ((0, 3.0), (0, 9.0), (1, 5.0), (2, 7.0))
    pages = ([(0.0, False)],) * 3
    assert alone(*pages, updates=updates).next_updates(3).tolist() == [9, 5, 7]
    assert alone(*pages, updates=updates).next_updates(5).tolist() == [9, inf, 7]
    assert together(*pages, updates=updates).next_updates(3).tolist() == [5]
    assert together(*pages, updates=updates).next_updates(9).tolist() == [inf]


def test_pages_of_no_unit_are_left_out() -> None:
    some = history(seen(PAGE, PAGE, updates=((1, 2.0),)), np.array([0, -1]), 1)
    assert (some.capture_days.size, some.next_updates(0).tolist()) == (4, [inf])


days = st.lists(st.tuples(st.integers(1, 60), st.booleans()), max_size=12)


@given(st.lists(days, min_size=1, max_size=4))
def test_a_unit_of_one_page_has_the_rate_of_the_estimator(
    pages: list[list[tuple[int, bool]]],
) -> None:
    timelines: list[Timeline] = []
    for gaps in pages:
        ends = np.cumsum([0, *(gap for gap, _ in gaps)]).tolist()
        timelines.append(list(zip(ends, [False, *(found for _, found in gaps)], strict=True)))
    captures = seen(*timelines)
    visits = Visits(captures.days, captures.updated, captures.offsets)
    expected = estimate("mle-interpolated", visits).rate_per_day
    units = alone(*timelines)
    rates = estimated(units, np.arange(units.gap_unit.size))
    assert rates.per_day == pytest.approx(expected[rates.units])
    assert expected.sum() == pytest.approx(rates.per_day.sum())


def test_a_state_is_read_with_its_own_updates_as_the_truth() -> None:
    shown = (10, 1), (20, 1, 2), (30, 1, 2)
    home = page_after(*(visit("http://a.edu/~ada/", *links) for links in shown))
    cv = "https://www.a.edu/~ada/cv.html"
    below = page_after(visit(cv, 15, 1), visit(cv, 35, 1, 3))
    levels = from_pages([below, home, Page("http://a.edu/~ada/never.html")])
    assert levels["homepage"].units == levels["website"].units == 1
    assert levels["homepage"].gap_events.tolist() == [15, 30]
    assert levels["homepage"].next_updates(0).tolist() == [15]
    assert levels["website"].next_updates(15).tolist() == [25]
    assert levels["website"].capture_days.tolist() == [10, 15, 20, 30, 35]


IN_ORDER = """
http://a.edu/~ada/cv.html http://a.edu/~ada/ http://a.edu/~ada/papers/x https://a.edu/~adam/
http://b.edu/people/j.smith/ http://b.edu/people/j.smith/talks.html http://b.edu/other.html
"""
URLS = IN_ORDER.split()
NESTED = ["http://a.edu/", "http://a.edu/~ada/", "http://a.edu/~ada/cv.html", "http://a.edu/x.html"]
SEEDS = ["http://A.edu/~ada", "http://b.edu/people/j.smith/", "http://unknown.edu/"]


@pytest.mark.parametrize(
    ("urls", "seeds", "homepages", "sites"),
    [
        (URLS, None, [1, 3, 6], [0, 0, 0, 1, 2, 2, 2]),
        (URLS, SEEDS, [1, 4], [0, 0, 0, -1, 1, 1, -1]),
        (NESTED, NESTED[:2], [0, 1], [0, 1, 1, 0]),
    ],
    ids=["folders", "of seeds", "of the innermost seed"],
)
def test_websites_are_folders_or_those_of_the_seeds(
    urls: list[str], seeds: list[str] | None, homepages: list[int], sites: list[int]
) -> None:
    found, places = group_by_website(urls, seeds)
    assert (found.tolist(), list(places)) == (sites, homepages)


@given(st.lists(st.sampled_from(["a", "b.html", "C"]), max_size=5), st.booleans())
def test_a_crawl_and_an_archive_mean_the_same_by_two_levels(
    levels: list[str], is_folder: bool
) -> None:
    home = "http://a.edu/~ada/"
    url = home + "/".join(levels) + "/" * (is_folder and bool(levels))
    is_near = path_depth(url, website_of(home)) <= DEEPEST
    assert is_near == (len(levels) <= 2)
    assert (Site(home, has_subpages=True).problem(page_surt(url)) == "too_deep") == (not is_near)

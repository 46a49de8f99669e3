"""Visits become gaps, each with or without an update."""

import math

import numpy as np
import pytest

from model_support import gaps_between

QUIET, UPDATE = False, True


def visits(*pages):
    """Pages given as lists of (day, links appeared since the visit before)."""
    flat = [visit for page in pages for visit in page]
    days = np.array([day for day, _ in flat], dtype=float)
    updated = np.array([seen for _, seen in flat], dtype=bool)
    return days, updated, np.cumsum([0, *(len(page) for page in pages)])


@pytest.mark.parametrize(
    ("pages", "days", "updated", "offsets"),
    [
        (
            [[(0, QUIET), (2, UPDATE)], [(100, QUIET), (103, QUIET)]],
            [2, 3],
            [True, False],
            [0, 1, 2],
        ),
        ([[], [(5, QUIET)], [(0, QUIET), (1, UPDATE)], []], [1], [True], [0, 0, 0, 1, 1]),
        ([[(0, UPDATE), (1, QUIET)]], [1], [False], [0, 1]),  # the first visit finds nothing
    ],
)
def test_gaps_lie_between_the_visits_of_one_page(pages, days, updated, offsets):
    gaps = gaps_between(*visits(*pages))
    assert [x.tolist() for x in (gaps.days, gaps.updated, gaps.offsets)] == [days, updated, offsets]


@pytest.mark.parametrize("is_interpolated", [False, True])
def test_a_baseline_ends_no_gap_and_begins_the_next(is_interpolated):
    days, updated, offsets = visits(
        [(0, QUIET), (2, QUIET), (7, UPDATE), (10, QUIET)], [(0, QUIET), (4, QUIET)]
    )
    baselines = np.array([False, False, True, False, False, True])
    gaps = gaps_between(days, updated, offsets, 20.0, baselines, is_interpolated=is_interpolated)
    assert gaps.days.tolist() == [2, 3]
    assert gaps.updated.tolist() == [False, False]
    assert gaps.offsets.tolist() == [0, 2, 2]
    assert gaps.weight == pytest.approx([math.exp(-0.4), 1.0])


@pytest.mark.parametrize("is_interpolated", [False, True])
def test_an_empty_batch_has_no_pages(is_interpolated):
    assert len(gaps_between(*visits(), 30.0, is_interpolated=is_interpolated)) == 0


@pytest.mark.parametrize(
    ("pages", "fade_days", "weight"),
    [
        ([[(0, QUIET), (10, UPDATE), (20, QUIET), (50, QUIET)]], 20.0, np.exp([-2.0, -1.5, 0.0])),
        # the age counts from the page's own last visit
        ([[(0, QUIET), (1, QUIET)], [(500, QUIET), (501, QUIET)]], 1.0, [1, 1]),
        ([[(0, QUIET), (1, QUIET), (9999, UPDATE)]], math.inf, [1, 1]),
    ],
)
def test_weight_falls_by_e_for_each_fade_days_before_the_last_visit(pages, fade_days, weight):
    assert gaps_between(*visits(*pages), fade_days=fade_days).weight == pytest.approx(weight)


@pytest.mark.parametrize(
    ("page", "ends_in_update", "ends_in_access"),
    [
        # t_0 = 0; update in (0, 10] at 5; the 5 days to the last visit belong to nothing
        ([(0, QUIET), (10, UPDATE)], [5], []),
        # access at 10; update in (10, 30] at 20
        ([(0, QUIET), (10, QUIET), (30, UPDATE)], [10], [10]),
        # update at 5; the quiet interval starts there, not at the visit on day 10
        ([(0, QUIET), (10, UPDATE), (30, QUIET)], [5], [25]),
        # updates at 5 and 20
        ([(0, QUIET), (10, UPDATE), (30, UPDATE)], [5, 15], []),
        # access 4, update 6, access 10, access 11, update 13
        (
            [(0, QUIET), (4, QUIET), (8, UPDATE), (10, QUIET), (11, QUIET), (15, UPDATE)],
            [2, 2],
            [4, 4, 1],
        ),
    ],
)
def test_interpolated_intervals_run_from_event_to_event(page, ends_in_update, ends_in_access):
    gaps = gaps_between(*visits(page), is_interpolated=True)
    assert gaps.days[gaps.updated].tolist() == ends_in_update
    assert gaps.days[~gaps.updated].tolist() == ends_in_access


def test_blocks_have_the_gaps_of_their_pages():
    gaps = gaps_between(*visits(*[[(0, QUIET), (day, UPDATE), (9, QUIET)] for day in (1, 2, 3)]))
    blocks = list(gaps.in_blocks(6))
    assert [(pages.start, pages.stop) for pages, _, _ in blocks] == [(0, 2), (2, 3)]
    assert [some.days.tolist() for _, _, some in blocks] == [[1, 8, 2, 7], [3, 6]]
    assert [some.offsets.tolist() for _, _, some in blocks] == [[0, 2, 4], [0, 2]]


def test_an_interpolated_interval_ages_from_its_own_end():
    gaps = gaps_between(*visits([(0, QUIET), (10, UPDATE)]), fade_days=5.0, is_interpolated=True)
    assert gaps.weight == pytest.approx([math.exp(-1.0)])


@pytest.mark.parametrize("days", [[0.0, 0.0], [1.0, 0.0], [0.0, math.nan], [0.0, math.inf]])
def test_visits_must_increase_and_be_finite(days):
    with pytest.raises(ValueError, match="longer than 0 days, and finite"):
        gaps_between(np.array(days), np.zeros(2, dtype=bool), np.array([0, 2]))

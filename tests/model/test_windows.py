"""Update points, and the consistent windows that they are cut into."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from hacs_crawler.model import MIN_POINTS, Kind, Visits, consistent_windows

quick = settings(deadline=None, max_examples=80, derandomize=True)
gaps_of_a_page = st.lists(st.sampled_from([0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 8.0, 30.0]), max_size=40)


def cut(*gaps, **options):
    """Windows of one page that was first visited at day 0, its updates that many days apart."""
    days = np.cumsum(np.array(gaps, float))
    return consistent_windows(days, np.array([0, len(days)]), np.zeros(1), **options)


def forward(*gaps, **options):
    """Sizes and kinds of windows as they would be cut forward: those of the mirrored page."""
    windows = cut(*([1.0, *gaps[:0:-1]] if gaps else []), **options)
    kinds = [kind if kind == Kind.REMAINS else -kind for kind in windows.kind.tolist()]
    return windows.counts.tolist()[::-1], kinds[::-1]


# Update points


@pytest.mark.parametrize(
    ("days", "updated", "offsets", "points", "ends"),
    [
        ([0, 2, 6, 10], [False, True, False, True], [0, 4], [1, 8], [0, 2]),
        # a page's first visit finds no update
        ([0, 1, 5, 6], [True] * 4, [0, 2, 2, 4], [0.5, 5.5], [0, 1, 1, 2]),
        ([3], [True], [0, 1], [], [0, 0]),
        ([], [], [0, 0], [], [0, 0]),
    ],
)
def test_an_update_lies_in_the_middle_of_the_gap_in_which_it_was_seen(
    days, updated, offsets, points, ends
):
    visits = Visits(np.array(days, float), np.array(updated, bool), np.array(offsets))
    assert [found.tolist() for found in visits.update_points()] == [points, ends]


# Windows of hand-made sequences: the first gap is that from the first visit


@pytest.mark.parametrize(
    ("gaps", "kind"),
    [
        ([2, 2, 2, 2, 2, 2], Kind.CONSTANT),
        ([9, 8, 6, 5, 3, 1], Kind.SHRINKING),
        ([1, 2, 4, 5, 7, 9], Kind.GROWING),
    ],
)
def test_gaps_that_keep_their_state_are_one_window(gaps, kind):
    windows = cut(*gaps, threshold_days=0)
    assert (windows.counts.tolist(), windows.kind.tolist()) == ([6], [kind])


def test_a_window_counts_its_days_from_the_update_before_it():
    windows = cut(1, 1, 1, 1, 1, 20, 20, 20, 20)
    assert windows.counts.tolist() == [4, 5]
    assert windows.origin_days.tolist() == [0.0, 4.0]
    assert windows.days.tolist() == [1, 2, 3, 4, 1, 21, 41, 61, 81]
    assert windows.is_last.tolist() == [False, True]
    assert windows.last_days.tolist() == [4, 81]


def test_backward_windows_begin_with_the_last_three_points():
    # from the end: 1, 1, 1, 1 are constant; from the beginning the fourth point is let in
    gaps = 9, 6, 3, 1, 1, 1, 1
    assert cut(*gaps, threshold_days=0).kind.tolist()[-1] == Kind.CONSTANT
    assert forward(*gaps, threshold_days=0)[1][0] == Kind.SHRINKING


def test_the_half_that_goes_on_can_make_a_window_of_a_small_one():
    gaps = 1, 1, 1, 1, 1, 9, 5, 7, 2, 30, 40  # five, three and three
    assert forward(*gaps, threshold_days=0) == ([7, 4], [Kind.CONSTANT, Kind.GROWING])


# Properties


def by_hand(gaps, threshold):
    """The windows of one page, forward, in plain Python: their sizes."""
    found, days = [], np.cumsum(gaps)
    start = 0
    while start < len(days):
        state, used, before, end = None, 0.0, 0.0, start + 1
        while end < len(days):
            gap = days[end] - days[end - 1]
            if end - start == 2:
                state = np.sign(gap - before)
            elif end - start > 2 and np.sign(gap - before) != state:
                off = abs(gap - before)
                if used + off > threshold:
                    break
                used += off
            before = gap
            end += 1
        found.append(end - start)
        start = end
    kept, carried = [], 0
    for size in found:
        whole, carried = size + carried, 0
        if whole >= MIN_POINTS:
            kept.append(whole)
        elif kept:
            kept[-1] += (whole + 1) // 2
            carried = whole // 2
        else:
            carried = whole
    return [*kept[:-1], kept[-1] + carried] if kept else [carried] * bool(carried)


@given(gaps=gaps_of_a_page, threshold=st.sampled_from([0.0, 1.0, 3.0]))
@quick
def test_windows_are_those_cut_by_hand(gaps, threshold):
    assert forward(*gaps, threshold_days=threshold)[0] == by_hand(gaps, threshold)


@given(pages=st.lists(gaps_of_a_page, max_size=6))
@quick
def test_a_batch_is_cut_as_its_pages_are_one_by_one(pages):
    days = [np.cumsum(np.array(gaps, float)) for gaps in pages]
    offsets = np.cumsum([0, *map(len, days)])
    flat = np.concatenate([np.zeros(0), *days])
    together = consistent_windows(flat, offsets, np.zeros(len(pages)))
    alone = [cut(*gaps) for gaps in pages]
    assert together.counts.tolist() == [n for one in alone for n in one.counts]
    assert together.kind.tolist() == [n for one in alone for n in one.kind]
    assert together.days.tolist() == [n for one in alone for n in one.days]
    assert together.page.tolist() == [k for k, one in enumerate(alone) for _ in one.counts]


@given(gaps=gaps_of_a_page)
@quick
def test_windows_hold_every_point_once_and_no_few(gaps):
    windows = cut(*gaps)
    origins = np.repeat(windows.origin_days, windows.counts)
    assert (windows.days + origins).tolist() == pytest.approx(np.cumsum(gaps).tolist())
    assert (windows.counts >= min(MIN_POINTS, len(gaps))).all()
    ends = windows.origin_days + windows.last_days if len(windows) else []
    for end, origin in itertools.pairwise(range(len(windows))):
        assert windows.origin_days[origin] == pytest.approx(ends[end])


@given(gaps=gaps_of_a_page, scale=st.sampled_from([0.5, 2.0, 7.0]))
@quick
def test_windows_scale_with_time_and_threshold(gaps, scale):
    longer = cut(*(gap * scale for gap in gaps), threshold_days=3 * scale)
    assert cut(*gaps, threshold_days=3).counts.tolist() == longer.counts.tolist()

"""The descriptive figures' numbers, by hand."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest

from hacs_crawler.lab.evaluation.descriptive import describe
from hacs_crawler.lab.evaluation.histories import Captures, History, history
from hacs_crawler.utils.arrays import offsets_of

DAY_2020 = datetime(2020, 1, 1, tzinfo=UTC).timestamp() / 86_400


def units(*pages: list[tuple[float, bool]]) -> History:
    flat = [capture for page in pages for capture in page]
    captures = Captures(
        DAY_2020 + np.array([day for day, _ in flat], np.float64),
        np.array([updated for _, updated in flat], np.bool_),
        offsets_of(np.array([len(page) for page in pages], np.int64)),
        np.zeros(0),
        np.zeros(0, np.int64),
    )
    return history(captures, np.arange(len(pages)), len(pages))


def every_ten_days(updates: set[int], captures: int) -> list[tuple[float, bool]]:
    return [(10.0 * number, number in updates) for number in range(captures)]


def test_medians_and_pages_without_updates() -> None:
    # interpolated at 5, 25 and 75 days: intervals of 20 and 50
    found = describe(units(every_ten_days({1, 3, 8}, 12), every_ten_days(set(), 4), [(3, False)]))
    assert found.median_days.tolist() == [35]
    assert found.quiet == 2
    assert found.median_of_mean_days == pytest.approx(found.mean_days[0])


def test_the_median_of_an_odd_and_of_no_number_of_intervals() -> None:
    three = every_ten_days({1, 3, 8, 9}, 12)  # 20, 50 and 10
    found = describe(units(three, every_ten_days({2}, 5)))
    assert found.median_days[0] == 20
    assert np.isnan(found.median_days[1])


def test_captures_by_month_with_the_empty_months_between() -> None:
    found = describe(units([(0, False), (1, False), (65, False)], [(30, False)]))
    assert found.months == ["2020-01", "2020-02", "2020-03"]
    assert found.captures.tolist() == [3, 0, 1]
    assert found.captured.tolist() == [2, 0, 1]


def test_the_poisson_check_counts_intervals_of_the_bin_and_expects_an_exponential() -> None:
    page = every_ten_days({1, 3, 8}, 12)
    mean = float(describe(units(page)).mean_days[0])
    (check,) = describe(units(page, every_ten_days({1}, 100)), [(mean - 1, mean + 1)]).checks
    assert (check.units, check.intervals) == (1, 2)
    width = check.edges[1]
    assert np.flatnonzero(check.observed).tolist() == [int(20 // width), int(50 // width)]
    assert check.observed.sum() == pytest.approx(1)
    assert check.expected.sum() == pytest.approx(1)
    assert check.expected[0] == pytest.approx(1 - np.exp(-width / mean))


def test_intervals_of_a_real_poisson_process_look_like_one() -> None:
    rng = np.random.default_rng(7)
    pages = []
    for _ in range(60):
        at = np.cumsum(rng.exponential(60, 60))
        days = np.arange(0, at[-1], 0.5)  # captured so often that interpolation hides nothing
        found = np.diff(np.searchsorted(at, days), prepend=0) > 0
        pages.append(list(zip(days.tolist(), [False, *found[1:].tolist()], strict=True)))
    (check,) = describe(units(*pages), [(30, 120)]).checks
    assert check.units == 60
    assert np.abs(check.observed - check.expected).max() < 0.02


def test_nothing_known_is_described_as_nothing() -> None:
    found = describe(units([(0, False)]))
    assert found.median_of_mean_days is None
    assert found.quiet == 1
    assert all(check.intervals == 0 and check.observed.sum() == 0 for check in found.checks)

"""The evaluation of localized rates: the data's shape, the errors, and the visits."""

from dataclasses import replace
from datetime import datetime

import numpy as np
import pytest

from hacs_crawler.lab.evaluation.localized import (
    CONTESTANTS,
    LocalizedErrors,
    LocalizedEvaluation,
    LocalizedVisits,
    evaluate_localized,
    localized_parts,
    localized_tables,
)
from hacs_crawler.lab.evaluation.update_points import (
    CHUNK_PAGES,
    Points,
    of_timelines,
    synthetic_chunks,
)
from hacs_crawler.lab.timelines import Events, Timelines
from hacs_crawler.utils.terminal import laid_out
from made_timelines import timelines_of


def points_of(*pages: list[float], until: float = 100.0) -> Points:
    """Pages first visited at day 0, with updates at those days."""
    counts = [len(page) for page in pages]
    return Points(
        np.concatenate([np.zeros(0), *map(np.array, pages)]).astype(float),
        np.cumsum([0, *counts]).astype(np.int64),
        np.zeros(len(pages)),
        np.full(len(pages), until),
    )


@pytest.fixture(scope="module")
def result() -> LocalizedEvaluation:
    return evaluate_localized(synthetic_chunks(4_000, 1), "synthetic")


# The data


def test_synthetic_pages_have_the_paper_s_shape() -> None:
    updates = np.concatenate(
        [np.diff(points.offsets) + 1 for points in synthetic_chunks(60_000, 0)]
    )
    assert updates.min() >= 4
    assert updates.max() <= 201
    assert updates.mean() == pytest.approx(103, abs=1)
    assert updates.std() == pytest.approx(45.9, abs=0.5)


def test_a_seed_begins_with_the_same_chunk_for_more_pages_and_another_with_another() -> None:
    given = (CHUNK_PAGES, 3), (CHUNK_PAGES + 1, 3), (CHUNK_PAGES, 4)
    few, many, other = (next(synthetic_chunks(*one)).days.tolist() for one in given)
    assert few == many
    assert few != other
    assert [len(points) for points in synthetic_chunks(CHUNK_PAGES + 7, 3)] == [CHUNK_PAGES, 7]


@pytest.mark.parametrize("is_dated", [False, True])
def test_synthetic_pages_have_one_update_a_day_at_most(is_dated: bool) -> None:
    points = next(synthetic_chunks(300, 2, is_dated=is_dated))
    day = np.ceil(points.days)
    page = np.repeat(np.arange(300), np.diff(points.offsets))
    assert len(np.unique(page * 1000 + day)) == len(day)
    assert points.days.min() > 0
    assert points.days.max() <= 200
    assert (points.days % 1 == 0.5).all() != is_dated


def moments(*texts: str) -> list[int]:
    return [int(datetime.fromisoformat(f"{text}+00:00").timestamp()) for text in texts]


@pytest.fixture
def timelines() -> Timelines:
    """Three pages: one updated twice on a day and captured, one on the day it was first seen."""
    daily = moments("2020-01-03T05:00", "2020-01-03T09:00", "2020-01-08T00:00")
    first, *_ = once = moments("2020-01-01T00:00", "2020-01-03T05:00")
    captured = moments("2020-01-02T00:00", "2020-01-06T00:00", "2020-01-10T00:00")
    updates = [[(at, 1) for at in page] for page in (daily, once, [])]
    return timelines_of(updates, [captured, [], []], [first] * 3)


def test_updates_of_one_day_are_one_point_where_pages_are_accessed_daily(
    timelines: Timelines,
) -> None:
    points = of_timelines(timelines, by_captures=False)
    first = np.datetime64("2020-01-01").astype(float)
    assert points.first_days.tolist() == [first] * 3
    # an update at the first sight is part of it; two of a day are seen at its end, in its middle
    assert (points.days - first).tolist() == [2.5, 6.5, 2.5]
    assert points.offsets.tolist() == [0, 2, 3, 3]


def test_captures_show_updates_in_the_middle_between_them(timelines: Timelines) -> None:
    points = of_timelines(timelines, by_captures=True)
    second = np.datetime64("2020-01-02").astype(float)
    assert points.first_days[0] == second
    assert (points.days - second).tolist() == [2.0, 6.0]
    assert points.offsets.tolist() == [0, 2, 2, 2]


def test_timelines_without_any_event_have_no_point(timelines: Timelines) -> None:
    none = Events(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(4, np.int64))
    empty = replace(timelines, updates=none, captures=none)
    for by_captures in (False, True):
        points = [of_timelines(empty, by_captures=by_captures)]
        found = localized_tables(evaluate_localized(points, ""))["table1"]
        assert (found["pages"], found["windows"]) == (3, 0)


# The tables


def test_the_error_of_a_constant_rate_is_what_it_is_by_hand() -> None:
    errors = LocalizedErrors()
    # a window of five updates two days apart; backward, the last four gaps of 10 are a window
    errors.add(points_of([2, 4, 6, 8, 10, 20, 30, 40, 50]))
    found = localized_tables(LocalizedEvaluation("", errors, LocalizedVisits()))
    assert (found["table1"]["windows"], found["table1"]["updates_mean"]) == (2, 10)
    # naive: 1/rate = 2 in the first window (four updates in eight days), and the next gap is 2
    assert found["table2"]["naive"]["all"] == pytest.approx(0.0)
    assert found["table2"]["naive"]["constant"] == pytest.approx(0.0)
    assert found["table2"]["naive"]["growing"] is None
    # cho: k = 8 days, X = 4
    rate = -np.log(4.5 / 8.5)
    assert found["table2"]["cho"]["all"] == pytest.approx((1 / rate - 2) ** 2)
    assert found["figure1"]["cho"]["4"] == pytest.approx((1 / rate - 2) ** 2)
    assert found["figure1"]["cho"]["5"] is None
    assert found["table3"]["naive"]["cho"] == 100.0
    assert found["table3"]["cho"]["naive"] == 0.0


def test_equal_errors_are_half_a_win() -> None:
    errors = LocalizedErrors()
    errors.add(next(synthetic_chunks(200, 5)))
    total = errors.numbers.sum()
    assert errors.beaten + errors.beaten.T == pytest.approx(np.full((7, 7), total))


def test_pages_add_up_chunk_by_chunk(result: LocalizedEvaluation) -> None:
    whole = next(synthetic_chunks(4_000, 1))
    parts = []
    for pages in (slice(0, 1_500), slice(1_500, 4_000)):
        cut = whole.offsets[pages.start : pages.stop + 1]
        ends = whole.first_days[pages], whole.until_days[pages]
        parts.append(Points(whole.days[cut[0] : cut[-1]], cut - cut[0], *ends))
    again = localized_tables(evaluate_localized(parts, "synthetic"))
    known = localized_tables(result)
    assert (again["table1"], again["table4"]) == (known["table1"], known["table4"])
    assert again["table2"]["weibull"]["all"] == pytest.approx(known["table2"]["weibull"]["all"])


@pytest.mark.parametrize(
    ("updates", "until", "observed"),
    [([57.0, 61.0, 61.5], 100.0, 2), ([57.0, 100.8], 101.0, 1)],  # the last visit is at 100.5
)
def test_visits_come_at_the_rate_of_the_last_window_and_find_what_was_before_the_last(
    updates: list[float], until: float, observed: int
) -> None:
    visits = LocalizedVisits()
    # an update every two days in the first half
    visits.add(points_of([*map(float, range(2, 51, 2)), *updates], until=until))
    assert visits.pages == 1
    assert visits.visits["naive"] == 25  # 50 days at 0.5 a day
    assert visits.observed["naive"] == observed


def test_pages_of_few_updates_are_not_visited() -> None:
    visits = LocalizedVisits()
    visits.add(points_of([], [5.0], [5.0, 10.0, 20.0, 60.0]))
    assert (visits.pages, set(visits.visits.values())) == (0, {0})


def test_the_order_of_the_paper_s_table_4_comes_out(result: LocalizedEvaluation) -> None:
    table = localized_tables(result)["table4"]
    paper = ("weibull", "duane", "cho", "matloff")
    assert sorted(paper, key=lambda name: -table[name]["precision"]) == list(paper)
    assert table["weibull"]["visits"] == 1.0
    assert all(table[name]["visits"] > 1.0 for name in paper[1:])
    assert 1.6 < table["cho"]["visits"] < 2.1


def test_with_both_corrections_weibull_is_worst_at_the_next_update(
    result: LocalizedEvaluation,
) -> None:
    errors = {name: row["all"] for name, row in localized_tables(result)["table2"].items()}
    assert max(errors, key=lambda name: errors[name]) == "weibull"


def test_pages_without_any_update_have_tables_without_numbers() -> None:
    found = localized_tables(evaluate_localized([points_of([], [])], "none"))
    assert (found["table1"]["pages"], found["table1"]["updates_max"]) == (2, 1)
    assert found["table2"]["weibull"]["all"] is None
    none = {"observed": 0, "premature": 0, "precision": None, "visits": None}
    assert found["table4"]["weibull"] == none
    parts = localized_parts(evaluate_localized([points_of([], [])], "none"))
    assert "-" in laid_out(*parts)


def test_all_estimators_stand_in_every_table(result: LocalizedEvaluation) -> None:
    found = localized_tables(result)
    for name in ("table2", "table3", "table4", "figure1"):
        assert list(found[name]) == list(CONTESTANTS)
    text = laid_out(*localized_parts(result))
    assert all(f"Table {number}" in text for number in (1, 2, 3, 4))
    assert "Figure 1" in text

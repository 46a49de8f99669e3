"""What users ask of pages beside updates: weights, and how far apart visits are to be."""

import math
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from hacs_crawler.exceptions import ConfigError
from hacs_crawler.ranking.demands import (
    Demands,
    Interval,
    demands_of,
    intervals_of,
    nothing_asked,
    weights_of,
)
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.policies import POLICIES
from hacs_crawler.ranking.selection import Chosen, Dropped, Selection
from hacs_crawler.state import ROW, Estimation
from hacs_crawler.utils.settings import NotAllowedError
from hacs_crawler.utils.times import DAY

NOW = 1000 * DAY
ANY = (0.0, math.inf)


def selected(
    days: list[float],
    *,
    every: list[tuple[float, float]] | None = None,
    weight: list[float] | None = None,
    never_seen: int = 0,
    failures: int = 0,
    policy: str = "hacs",
    **options: Any,
) -> tuple[Dropped[int], Chosen[int], Selection[int]]:
    """Choose among pages by the days since their visits; those never seen come last."""
    number = len(days) + never_seen
    rows = np.zeros(number, ROW)
    rows["visits"][: len(days)] = 5
    rows["last_visit"][: len(days)] = [NOW - day * DAY for day in days]
    rows["failures"] = failures
    rows["rate"] = rows["fast"] = rows["slow"] = 0.01
    rows["share"] = 1.0
    least, most = zip(*(every or [ANY] * number), strict=True)
    demands = Demands(np.array(weight or [1.0] * number), np.array(least), np.array(most))
    selection: Selection[int] = Selection(RankingOptions(POLICIES[policy], **options))
    places = np.arange(number)
    dropped = selection.offer(places.tolist(), places, rows, NOW, Estimation(), demands=demands)
    return dropped, selection.take()[0], selection


def test_a_weight_multiplies_what_a_visit_is_worth() -> None:
    _, chosen, _ = selected([10, 10, 10], weight=[1.0, 3.0, 2.0])
    assert chosen.entries == [1, 2, 0]
    p = chosen.pages.p[0]
    assert chosen.score.tolist() == pytest.approx([3 * p, 2 * p, p])


@pytest.mark.parametrize("settings", [{}, {"budget": 2}, {"threshold": 0.001}])
def test_a_page_is_not_visited_before_its_shortest_interval(settings: dict[str, Any]) -> None:
    dropped, chosen, _ = selected([2, 3, 4], every=[(3.0, math.inf)] * 3, **settings)
    assert (dropped.early, sorted(chosen.entries)) == ([0], [1, 2])


@pytest.mark.parametrize("policy", ["hacs", "balanced", "last-obs", "random", "brute-force"])
def test_overdue_pages_come_first_the_longest_overdue_before_others(policy: str) -> None:
    every = [ANY, (0.0, 10.0), (0.0, 5.0), (0.0, 60.0)]
    _, chosen, _ = selected([900, 20, 20, 50], every=every, policy=policy, budget=2)
    assert chosen.entries == [2, 1]


@pytest.mark.parametrize(
    ("days", "every", "never_seen", "settings", "chosen"),
    [
        ([50], [(0.0, 10.0), ANY], 1, {"policy": "last-obs", "budget": 1}, [0]),
        ([5, 5], [ANY, (0.0, 4.0)], 0, {"threshold": 0.9}, [1]),
        ([5] * 4, [(0.0, 2.0)] * 4 + [ANY] * 4, 4, {"budget": 4, "discover": 0.5}, [0, 1, 2, 3]),
    ],
    ids=["whatever the score", "no threshold", "before the share of pages never seen"],
)
def test_an_overdue_page_comes_before_others(
    days: list[float],
    every: list[tuple[float, float]],
    never_seen: int,
    settings: dict[str, Any],
    chosen: list[int],
) -> None:
    _, found, _ = selected(days, every=every, never_seen=never_seen, **settings)
    assert sorted(found.entries) == chosen


def test_a_page_never_seen_is_overdue_for_a_year_until_attempts_fail() -> None:
    every = [ANY, (0.0, 100.0)]
    assert selected([5], every=every, never_seen=1, budget=1)[2].chosen_overdue == 1
    assert selected([5], every=every, never_seen=1, failures=2, budget=1)[2].chosen_overdue == 0


def test_the_overdue_pages_that_a_budget_leaves_out_are_counted() -> None:
    _, _, selection = selected([9] * 5, every=[(0.0, 3.0)] * 5, budget=2)
    assert (selection.chosen_overdue, selection.demanded.overdue) == (2, 3)
    assert selection.demanded.visits_a_day == pytest.approx(5 / 3)
    assert selection.demanded.shortest_days == 3


@given(st.lists(st.tuples(st.floats(0.1, 50), st.floats(0, 20), st.floats(0.1, 40)), min_size=1))
def test_what_is_early_is_never_chosen_and_what_is_overdue_never_behind_others(
    pages: list[tuple[float, float, float]],
) -> None:
    days = [round(day, 3) for day, _, _ in pages]
    every = [(least, least + more) for _, least, more in pages]
    dropped, chosen, _ = selected(days, every=every, budget=len(pages))
    since = dict(zip(range(len(pages)), chosen.pages.days_since_visit, strict=False))
    assert set(chosen.entries) | set(dropped.early) == set(range(len(pages)))
    is_overdue = [since[i] >= every[page][1] for i, page in enumerate(chosen.entries)]
    assert is_overdue == sorted(is_overdue, reverse=True)
    assert all(since[i] >= every[page][0] for i, page in enumerate(chosen.entries))


def test_the_first_pattern_that_finds_a_url_counts_and_a_request_goes_before() -> None:
    weights = weights_of({"/a/": 2, "a": 3, "nowhere": 4})
    every = intervals_of('{"/b/": [null, 30]}')
    urls = ["http://h/a/", "http://a.b/", "http://h/b/", "http://h/"]
    found, matched = demands_of(
        urls, weights, every, [{}, {"hacs_weight": 0.5}, {}, {"hacs_every": (1, 1)}]
    )
    assert found.weight.tolist() == [2, 0.5, 1, 1]
    assert found.least_days.tolist() == [0, 0, 0, 1]
    assert found.most_days.tolist() == [math.inf, math.inf, 30, 1]
    assert matched == {"/a/", "a", "/b/"}


def test_nothing_is_asked_of_pages_without_patterns() -> None:
    ((_, interval),) = intervals_of({"a": (None, None)})
    assert interval == Interval(0.0, math.inf)
    found, matched = demands_of(["http://h/"] * 2, (), ())
    np.testing.assert_array_equal(found, nothing_asked(2))
    assert matched == set()


@pytest.mark.parametrize(
    "given", [5, [1], [1, 2, 3], [3, 1], [0, 0], [-1, 2], ["1", 2], [True, 2], [math.nan, 2]]
)
def test_what_is_no_interval_is_refused(given: object) -> None:
    with pytest.raises(NotAllowedError, match="for 'a' the least and the most days"):
        intervals_of({"a": given})
    with pytest.raises(ConfigError, match=re.escape("meta['hacs_every'] = ")):
        demands_of(["http://h/"], (), (), [{"hacs_every": given}])


@pytest.mark.parametrize("given", [0, -1, "3", True, None, math.inf, math.nan])
def test_what_is_no_weight_is_refused(given: object) -> None:
    with pytest.raises(NotAllowedError, match="for 'a' a number above 0"):
        weights_of({"a": given})
    with pytest.raises(ConfigError, match=re.escape("of http://h/: must be a number above 0")):
        demands_of(["http://h/"], (), (), [{"hacs_weight": given}])


@pytest.mark.parametrize("given", ["x", 3, ["a"], {"": 1}, {3: 1}, {"(": 1}, '{"a"'])
def test_what_are_no_patterns_is_refused(given: object) -> None:
    with pytest.raises(NotAllowedError):
        weights_of(given)

"""From ranking rows to an order of visits."""

import math
import re
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import numpy as np
import pytest
from hypothesis import given, strategies as st

from hacs_crawler.exceptions import ConfigError
from hacs_crawler.model import USUAL_SIBLING_CORRELATION
from hacs_crawler.ranking.candidates import candidates_from
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.policies import POLICIES, Candidates, Policy
from hacs_crawler.ranking.selection import Selection
from hacs_crawler.state import ROW, Estimation, Prediction, Rows
from hacs_crawler.utils.times import DAY

NOW = 1000 * DAY
T = TypeVar("T")


def rows(*pages: dict[str, float]) -> Rows:
    table = np.zeros(len(pages), ROW)
    for row, page in zip(table, pages, strict=True):
        for name, value in {"visits": 5, "last_visit": 999 * DAY, "rate": 0.1, **page}.items():
            row[name] = value
    table["share"], table["fast"], table["slow"] = 1.0, table["rate"], table["rate"]
    return table


def options(policy: Policy | str = "hacs", **settings: object) -> RankingOptions:
    chosen = POLICIES[policy] if isinstance(policy, str) else policy
    return RankingOptions(chosen, **settings)


def order(table: Rows, policy: Policy | str = "hacs", **settings: object) -> list[int]:
    """The places of the pages in the order in which they would be visited."""
    return entries(offered(table, policy, **settings))


def offered(table: Rows, policy: Policy | str = "hacs", **settings: object) -> Selection[int]:
    selection: Selection[int] = Selection(options(policy, **settings))
    selection.offer(range(len(table)), np.arange(len(table)), table, NOW, Estimation())
    return selection


def entries(selection: Selection[T]) -> list[T]:
    chosen, _ = selection.take()
    return chosen.entries


def test_a_page_never_visited_is_sure_to_be_new() -> None:
    table = rows({"rate": 5.0}, {"visits": 0, "last_visit": 0, "rate": 0})
    chosen, _ = offered(table).take()
    assert chosen.entries == [1, 0]
    predicted = chosen.predictor(7, 8)
    rate = float(Estimation().expected().rate_per_day[0])
    assert predicted(0) == Prediction(7, 8, 1.0, rate, days_since_visit=math.inf, churn=0.0)
    assert predicted(1).p < 1.0


def test_elapsed_time_runs_from_the_last_visit_unless_told_otherwise() -> None:
    table = rows(
        {"last_visit": 999 * DAY, "last_update": 900 * DAY, "updates": 1},
        {"last_visit": 990 * DAY, "last_update": 990 * DAY, "updates": 1},
    )
    assert order(table) == [1, 0]
    assert order(table, elapsed_from="update") == [0, 1]


def test_a_first_visit_of_siblings_or_a_baseline_does_not_make_an_update_less_likely() -> None:
    old = {"site": 1, "last_visit": 970 * DAY}
    new = {"site": 1, "visits": 1, "last_visit": 999 * DAY, "last_update": 999 * DAY}
    quiet = {**new, "visits": 2, "last_update": 970 * DAY}
    lately = {**quiet, "last_update": 998 * DAY}
    baseline = {**quiet, "is_baseline": 1}
    alone, among_new, among_baselines, among_lately_quiet, among_quiet = (
        candidates_from(np.arange(len(table)), table, NOW, Estimation(), options()).p[0]
        for table in (rows(old), *(rows(old, *[one] * 7) for one in (new, baseline, lately, quiet)))
    )
    assert among_new == among_baselines == pytest.approx(alone)
    assert among_quiet < alone / 2 < among_lately_quiet < alone


def test_siblings_tell_as_much_as_the_state_has_learned() -> None:
    seen = {"site": 1, "last_visit": 970 * DAY}
    updated = {"site": 1, "updates": 1, **dict.fromkeys(("last_visit", "last_update"), 999 * DAY)}
    table = rows(seen, updated | {"before_update": 970 * DAY})
    alone, little, usual = (
        candidates_from(np.arange(2), table, NOW, Estimation(sibling_correlation=one), options()).p[
            0
        ]
        for one in (0.0, 0.1, USUAL_SIBLING_CORRELATION)
    )
    assert alone < little < usual


def test_p_is_for_the_hours_since_a_visit() -> None:
    lately = rows({"last_visit": NOW - DAY // 24})
    found = candidates_from(np.arange(1), lately, NOW, Estimation(), options())
    assert found.p[0] == pytest.approx(-math.expm1(-0.1 / 24))


def test_pages_below_the_threshold_are_left_out_except_by_brute_force() -> None:
    table = rows({"rate": 5.0}, {"rate": 0.001})
    assert order(table, threshold=0.5) == [0]
    assert order(table, "brute-force", threshold=0.5) == [0, 1]


@pytest.mark.parametrize(
    ("settings", "true"),
    [
        ({}, "counts_siblings ranks_by_p"),
        ({"siblings": False}, "ranks_by_p"),
        ({"elapsed_from": "update"}, "ranks_by_p"),
        ({"budget": 0}, "counts_siblings leaves_out ranks_by_p"),
        ({"threshold": 0.5}, "counts_siblings leaves_out least_p ranks_by_p"),
        ({"threshold": 0.5, "policy": "brute-force"}, "counts_siblings"),
        ({"stale_days": 9.0}, "counts_siblings"),
        ({"weights": ((re.compile("x"), 2.0),)}, "counts_siblings demands"),
        ({"every": ((re.compile("x"), 1.0, 2.0),)}, "counts_siblings demands"),
    ],
    ids=str,
)
def test_what_follows_from_options(settings: dict[str, Any], true: str) -> None:
    names = "counts_siblings", "demands", "leaves_out", "least_p", "ranks_by_p"
    assert [name for name in names if getattr(options(**settings), name)] == true.split()


@pytest.mark.parametrize(
    ("policy", "pages", "expected"),
    [
        ("hacs", [{"rate": 0.1}, {"rate": 0.3}, {"rate": 0.2}], [1, 2, 0]),
        ("last-obs", [{"last_visit": 5 * DAY}, {"last_visit": 3 * DAY}, {"visits": 0}], [2, 1, 0]),
        ("brute-force", [{"rate": 0.1}, {"rate": 0.9}], [0, 1]),
    ],
)
def test_a_policy_says_which_page_comes_first(
    policy: str, pages: list[dict[str, float]], expected: list[int]
) -> None:
    assert order(rows(*pages), policy) == expected


def test_random_depends_on_the_seed_and_on_nothing_else() -> None:
    table = rows(*({"rate": number} for number in range(100)))
    assert order(table, "random", random_seed=1) == order(table, "random", random_seed=1)
    assert order(table, "random", random_seed=1) != order(table, "random", random_seed=2)
    assert sorted(order(table, "random", random_seed=1)) == list(range(100))


def test_a_gone_page_waits_where_pages_are_left_out() -> None:
    table = rows({"not_before": NOW + DAY}, {"not_before": NOW})
    assert order(table, budget=2) == [1]
    assert order(table, threshold=1e-9) == [1]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_gone_page_comes_last_where_none_is_left_out(policy: str) -> None:
    table = rows({"not_before": NOW + DAY, "rate": 5.0}, {"rate": 0.01})
    assert order(table, policy) == [1, 0]


def test_every_entry_is_either_taken_or_dropped_for_a_reason() -> None:
    table = rows({"not_before": NOW + 1}, {"rate": 0.0001}, {"rate": 1.0}, {"rate": 2.0}, {})
    selection: Selection[str] = Selection(options(threshold=0.01, budget=1))
    dropped = selection.offer(list("abcde"), np.array([1, 2, 3, 4, 4]), table, NOW, Estimation())
    taken, others = selection.take()
    assert (dropped.gone, dropped.threshold) == (["a"], ["b"])
    assert sorted(dropped.budget + others) == ["c", "e"]
    assert taken.entries == ["d"]


@given(st.lists(st.floats(0, 10), min_size=1, max_size=60), st.integers(1, 20), st.integers(1, 60))
def test_offering_in_chunks_chooses_what_offering_at_once_does(
    rates: list[float], budget: int, size: int
) -> None:
    table = rows(*({"rate": rate, "visits": 1 + place % 4} for place, rate in enumerate(rates)))

    def chosen(size: int) -> list[int]:
        selection: Selection[int] = Selection(options(budget=budget))
        for start in range(0, len(table), size):
            ids = np.arange(start, min(start + size, len(table)))
            selection.offer(ids.tolist(), ids, table[ids], NOW, Estimation())
            assert len(selection._entries) <= budget
        return entries(selection)

    assert chosen(size) == chosen(len(rates))


def fails(candidates: Candidates) -> NoReturn:
    raise RuntimeError(f"{len(candidates.p)} pages")


@pytest.mark.parametrize(
    ("score", "message"),
    [
        (lambda candidates: candidates.p[:1], "policy .*broken.* must be one number a page"),
        (fails, "policy 'broken' failed: RuntimeError: 2 pages"),
    ],
)
def test_a_policy_that_fails_is_named(score: Callable[..., Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        order(rows({}, {}), Policy("broken", score))


def kinds(seen: int, unseen: int) -> Rows:
    """Pages that were visited, the best last, and behind them such as never were."""
    visited = ({"rate": 0.01 * (one + 1)} for one in range(seen))
    return rows(*visited, *[{"visits": 0, "last_visit": 0, "rate": 0}] * unseen)


def test_pages_never_seen_have_a_share_of_the_budget_and_known_ones_the_rest() -> None:
    selection = offered(kinds(20, 20), budget=10, discover=0.2)
    chosen, others = selection.take(is_last=False)
    assert sorted(chosen.entries) == [*range(12, 20), 20, 21]
    assert len(others) == 10, "the best ten of each kind were kept until then"
    assert not selection.waits


@pytest.mark.parametrize(("seen", "unseen"), [(20, 0), (0, 20), (20, 1), (3, 20)])
def test_what_one_kind_leaves_unused_the_other_gets_in_the_end(seen: int, unseen: int) -> None:
    selection = offered(kinds(seen, unseen), budget=10, discover=0.2)
    first, _ = selection.take(is_last=False)
    assert len(first.entries) == min(seen, 8) + min(unseen, 2)
    assert selection.waits
    rest = list[int]()
    while selection.waits:
        rest += selection.take(is_last=True)[0].entries
    assert len(first.entries) + len(rest) == 10
    assert not {*first.entries} & {*rest}


def test_half_of_an_unused_share_stays_for_pages_that_the_last_ones_lead_to() -> None:
    selection = offered(kinds(20, 0), budget=20, discover=0.4)
    numbers = [len(selection.take(is_last=is_last)[0].entries) for is_last in (False, True)]
    assert numbers == [12, 4]
    selection.offer(range(20, 23), np.arange(20, 23), kinds(0, 3), NOW, Estimation())
    assert selection.take(is_last=False)[0].entries == [20, 21, 22]
    assert len(selection.take(is_last=True)[0].entries) == 1


def test_what_a_budget_drops_is_counted_if_never_seen_or_better_than_what_it_chose() -> None:
    selection = offered(kinds(5, 3), budget=6, discover=0.5)
    assert len(selection.take()[0].entries) == 6
    selection.offer(range(22), np.arange(22), kinds(20, 2), NOW, Estimation())
    assert (selection.dropped_new, selection.dropped_better) == (2, 3)


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12), st.booleans()), max_size=8),
    st.integers(1, 15),
    st.none() | st.floats(0.0, 1.0),
)
def test_whatever_comes_when_no_budget_is_passed_and_none_is_left_over(
    offers: list[tuple[int, int, bool]], budget: int, discover: float | None
) -> None:
    selection: Selection[tuple[int, int]] = Selection(options(budget=budget, discover=discover))
    chosen: list[tuple[int, int]] = []
    for number, (seen, unseen, is_last) in enumerate(offers):
        table = kinds(seen, unseen)
        names = [(number, place) for place in range(len(table))]
        if names:
            selection.offer(names, np.arange(len(table)), table, NOW, Estimation())
        chosen += selection.take(is_last=is_last)[0].entries
    while selection.waits:
        chosen += selection.take(is_last=True)[0].entries
    assert len(chosen) == len(set(chosen))
    assert len(chosen) == min(budget, sum(seen + unseen for seen, unseen, _ in offers))


def test_what_is_exempt_no_threshold_leaves_out() -> None:
    selection: Selection[int] = Selection(options(threshold=0.9))
    table = rows({"rate": 0.01}, {"rate": 0.01})
    exempt = np.array([False, True])
    dropped = selection.offer([0, 1], np.arange(2), table, NOW, Estimation(), exempt)
    assert (dropped.threshold, entries(selection)) == ([0], [1])

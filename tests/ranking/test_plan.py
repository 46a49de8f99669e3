"""What would be crawled now, from the whole state."""

import math
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from hacs_crawler.links import page_id_of
from hacs_crawler.model import chance_of_update
from hacs_crawler.ranking import finalists as finalists_module, plan as plan_module
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.plan import Plan, forecast_of, make_plan, plan_of
from hacs_crawler.ranking.policies import POLICIES, Candidates, Floats
from hacs_crawler.ranking.selection import Selection
from hacs_crawler.state import Estimation, Ids, MemoryStore, News, Rows, State, Visit
from hacs_crawler.utils.times import DAY
from row_states import NOW, options, rows_of


def state_of(*visits: Visit) -> State:
    state = State(MemoryStore(), Estimation())
    state.record(visits)
    return state


def pages(number: int) -> tuple[Ids, Rows]:
    """Pages of all kinds, many of which are alike."""
    ids, rows = rows_of(number, 0.2, seed=1, sites=number // 3)
    rng, is_seen = np.random.default_rng(1), rows["visits"] > 0
    rows["rate"] = rows["fast"] = rows["slow"] = rng.choice([0.01, 0.1, 1.0], number) * is_seen
    rows["last_visit"] = rows["last_visit"] // DAY * DAY
    rows["last_update"] = (rows["last_visit"] - 3 * DAY) * is_seen
    rows["before_update"] = (rows["last_update"] - DAY) * is_seen
    return ids, rows


def ranked_by_the_scheduler(ids: Ids, rows: Rows, chosen: RankingOptions) -> list[int]:
    """The page ids in the order of `Selection`."""
    selection: Selection[int] = Selection(chosen.seeded(0))
    selection.offer(ids.tolist(), ids, rows, NOW, Estimation())
    best, _ = selection.take()
    return best.entries


def plan(ids: Ids, rows: Rows, chosen: RankingOptions, limit: int | None = None) -> Plan:
    return plan_of(ids, rows, state_of(), chosen, NOW, limit)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("budget", [None, 40])
def test_the_order_is_that_of_the_scheduler(policy: str, budget: int | None) -> None:
    ids, rows = pages(200)
    chosen = replace(options(policy=policy, budget=budget, threshold=0.05), random_seed=7)
    last = [] if chosen.leaves_out else ids[rows["not_before"] > NOW].tolist()
    in_order = [*plan(ids, rows, chosen).page_ids.tolist(), *last]
    assert in_order == ranked_by_the_scheduler(ids, rows, chosen)


def share_below(candidates: Candidates) -> Floats:
    return np.argsort(np.argsort(candidates.p, kind="stable")) / len(candidates.p)


@pytest.mark.parametrize("policy", [*POLICIES, share_below])
def test_the_plan_is_the_same_however_many_pages_are_looked_at_at_a_time(
    policy: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids, rows = pages(300)
    chosen = replace(options(policy=policy, budget=90, threshold=0.05), random_seed=3)
    together = plan(ids, rows, chosen)
    monkeypatch.setattr(finalists_module, "BLOCK_PAGES", 7)
    apart = plan(ids, rows, chosen)
    for field in fields(Plan):
        np.testing.assert_array_equal(getattr(apart, field.name), getattr(together, field.name))


def test_every_page_known_is_in_the_plan_or_left_out_for_a_reason() -> None:
    ids, rows = pages(150)
    found = plan(ids, rows, options(threshold=0.1, budget=20), limit=15)
    assert found.known == 150
    assert found.waiting == np.sum(rows["not_before"] > NOW) > 0
    assert found.below_threshold > 0
    assert len(found) == 15
    assert found.waiting + found.below_threshold + found.left_out + len(found) == 150


def test_a_page_is_shown_with_what_ranked_it() -> None:
    url = "http://example.edu/~ada/"
    links = [frozenset({1}), frozenset({1, 2}), frozenset({1, 2})]
    days = (970, 980, 990)
    visits = [Visit(url, day * DAY, marks=shown) for day, shown in zip(days, links, strict=True)]
    state = state_of(*visits, Visit(url, 995 * DAY, News.FAILED))
    found = make_plan(state, options(), NOW)
    assert found.visits.tolist() == [3]
    assert (found.updates.tolist(), found.failures.tolist()) == ([1], [1])
    assert found.days_since_visit.tolist() == [10.0]
    assert found.days_since_update.tolist() == [20.0]
    page = next(state.pages())
    assert found.p[0] == pytest.approx(
        float(chance_of_update(page.share, page.fast, page.slow, 10.0)), rel=2e-3
    )


def test_an_empty_state_has_an_empty_plan() -> None:
    found = make_plan(state_of(), options(), NOW)
    assert (len(found), found.known, found.left_out) == (0, 0, 0)


@pytest.mark.parametrize(
    ("given", "reasons", "to_pass"),
    [
        ({}, "nothing nothing nothing", None),
        ({"budget": 3}, "nothing nothing nothing", None),
        ({"budget": 2}, "nothing nothing budget", 1),
        ({"budget": 1}, "nothing budget budget", 0),
        ({"threshold": 0.99}, "threshold threshold threshold", 0.99),
        ({"budget": 1, "policy": "random"}, "nothing budget budget", None),
    ],
)
def test_a_forecast_says_why_a_page_waits_and_until_when(
    given: dict[str, Any], reasons: str, to_pass: float | None
) -> None:
    urls, now = [f"http://{host}.example/" for host in "abc"], 1000 * DAY
    visits = [
        Visit(url, day * DAY, marks=frozenset(range(day // (10 * 3**number))))
        for number, url in enumerate(urls)
        for day in range(10, 1000, 10)
    ]
    state, chosen = state_of(*visits), options(**given)
    pages = {page_id_of(page.url): page for page in state.pages() if page}
    whole = make_plan(state, replace(chosen, budget=None), now)
    order = whole.page_ids.tolist() or [*map(page_id_of, urls)]
    for rank, (page_id, reason) in enumerate(zip(order, reasons.split(), strict=True), 1):
        alone = np.array([page_id], np.int64)
        found = forecast_of(page_id, (alone, state.rows(alone)), state, chosen, now, whole)
        assert (found.reason.value, found.ranked) == (reason, len(whole))
        assert found.rank == (rank if len(whole) else None)
        if reason == "nothing":
            assert (found.at, found.p_to_pass) == (now, None)
        elif to_pass is None:
            assert (found.at, found.p_to_pass) == (None, None)
        else:
            p, page = whole.p[to_pass] if to_pass in {0, 1} else to_pass, pages[page_id]
            days = found.at / DAY - 990
            assert found.p_to_pass == pytest.approx(p)
            assert chance_of_update(page.share, page.fast, page.slow, days) == pytest.approx(
                p, rel=5e-3
            )


@pytest.mark.parametrize(
    ("days", "found"), [(0.3, 0.3), (1.5, 1.5), (36_000.0, 36_000.0), (37_000.0, math.inf)]
)
def test_the_first_day_of_a_visit_is_found_by_bisection(days: float, found: float) -> None:
    assert plan_module._first_days(lambda later: later >= days) == pytest.approx(found)

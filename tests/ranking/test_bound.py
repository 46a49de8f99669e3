"""Pages that cannot be among the best are left out before they are ranked."""

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from hacs_crawler.model import POINTS
from hacs_crawler.ranking import bound, finalists
from hacs_crawler.ranking.bound import Bounds, bounds_of, may_be_bounded, reach_of
from hacs_crawler.ranking.finalists import groups_of
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.plan import Plan, plan_of
from hacs_crawler.state import Estimation, Ids, MemoryStore, Rows, State, signals as known_signals
from hacs_crawler.utils.times import DAY
from row_states import NOW, options, rows_of


def state(sibling_correlation: float = 0.6) -> State:
    return State(MemoryStore(), Estimation(sibling_correlation=sibling_correlation))


def pages(
    number: int, seed: int, sites: int, new: float = 0.02, growing: float = 0.0
) -> tuple[Ids, Rows]:
    """Pages of all kinds, most of them seldom updated."""
    given = {"seed": seed, "sites": sites, "mixed": 0.7, "growing": growing}
    return rows_of(number, new, log_rate=(-5.0, 2.0), **given)


def exhaustive(
    ids: Ids, rows: Rows, known: State, chosen: RankingOptions, limit: int | None
) -> Plan:
    """The plan for which every page is ranked."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(finalists, "may_be_bounded", lambda *_: False)
        return plan_of(ids, rows, known, chosen, NOW, limit)


def assert_same_plan(
    ids: Ids, rows: Rows, known: State, chosen: RankingOptions, limit: int | None = None
) -> None:
    found = plan_of(ids, rows, known, chosen, NOW, limit)
    whole = exhaustive(ids, rows, known, chosen, limit)
    for field in fields(Plan):
        if field.name == "seed":
            continue  # drawn for each plan
        ours, theirs = getattr(found, field.name), getattr(whole, field.name)
        np.testing.assert_array_equal(ours, theirs, field.name)
        assert type(ours) is type(theirs)


@settings(deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 400),
    st.integers(1, 40),
    st.tuples(*[st.booleans()] * 4),
)
def test_the_plan_is_that_of_ranking_every_page(
    seed: int, sites: int, budget: int, switches: tuple[bool, ...]
) -> None:
    siblings, is_little, has_new, has_trends = switches
    ids, rows = pages(500, seed, sites, new=0.3 * has_new, growing=0.1 * has_trends)
    chosen = replace(options(budget=budget, siblings=siblings), random_seed=1)
    known = state(0.2 if is_little else 0.6)
    for limit in (None, 7):
        assert_same_plan(ids, rows, known, chosen, limit)


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.sampled_from([0.0, 0.7, 30.0]))
def test_the_plan_is_the_same_however_bounds_were_guessed_and_sites_put_together(
    seed: int, budget: int, guess: float
) -> None:
    ids, rows = pages(500, seed, 150, new=0.1, growing=0.05)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Bounds, "of_some", lambda *_: guess)
        patch.setattr(bound, "PIECE_ROWS", 64)
        patch.setattr(finalists, "ROWS_A_SEARCH", 64)
        patch.setattr(finalists, "SITES_A_GROUP", 3)
        assert_same_plan(ids, rows, state(), options(budget=budget))


@pytest.mark.parametrize("column", ["visits", "failures", "not_before"])
def test_pages_that_are_all_alike_keep_the_order_of_the_store(column: str) -> None:
    ids, rows = pages(400, 6, 50, new=0.0)
    rows[:] = rows[0]
    rows["site"] = np.arange(400) % 50 + 1
    rows["not_before"] = 0
    if column == "visits":
        rows["visits"] = rows["last_visit"] = rows["rate"] = 0
    else:
        rows[column][::3] = 3 if column == "failures" else NOW + DAY
    assert_same_plan(ids, rows, state(), options(budget=30))


def test_where_every_page_waits_nothing_is_planned() -> None:
    ids, rows = pages(400, 7, 50)
    rows["not_before"] = NOW + DAY
    assert_same_plan(ids, rows, state(), options(budget=30))


def bounds_on(rows: Rows) -> Bounds:
    return bounds_of(rows, state(), options(), NOW)


def test_most_pages_are_left_out_before_they_are_ranked(monkeypatch: pytest.MonkeyPatch) -> None:
    ids, rows = pages(20_000, 3, 3_000, new=0.0)
    ranked = []
    real = finalists.candidates_from
    monkeypatch.setattr(
        finalists,
        "candidates_from",
        lambda ids, *given, **named: ranked.append(len(ids)) or real(ids, *given, **named),
    )
    plan_of(ids, rows, state(), options(budget=20), NOW)
    assert 20 <= sum(ranked) < 200


def test_all_pages_are_looked_through_once_even_where_many_have_one_score(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ids, rows = pages(20_000, 3, 30_000, new=0.0)
    rows["rate"][::10], rows["visits"][::10] = (5.0, 8)  # p is 1 to the last digit
    passes, real = [], Bounds.reaching
    monkeypatch.setattr(Bounds, "reaching", lambda *given: passes.append(given) or real(*given))
    plan_of(ids, rows, state(), options(budget=20), NOW)
    assert len(passes) == 1


def test_pages_that_reach_a_bound_come_with_all_pages_of_their_sites() -> None:
    _, rows = pages(5_000, 4, 900)
    bounds = bounds_on(rows)
    found = bounds.reaching(reach_of(0.5))  # which pages visited once reach, too
    groups = list(groups_of(found, rows, 5_000))
    unseen, seen = groups[0], groups[1:]
    assert rows["visits"][unseen.wanted].tolist() == [0] * len(unseen.wanted)
    assert len(seen) > 0
    for group in seen:
        sites = np.unique(rows["site"][group.wanted])
        assert group.members.tolist() == np.flatnonzero(np.isin(rows["site"], sites)).tolist()
        assert rows["visits"][group.wanted].all()
    wanted = np.concatenate([group.wanted for group in groups])
    assert np.sort(wanted).tolist() == found.places.tolist()


def test_sites_are_ranked_from_high_bounds_to_low(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finalists, "SITES_A_GROUP", 20)
    _, rows = pages(5_000, 4, 900, new=0.0)
    bounds = bounds_on(rows)
    highest = [
        group.bound.max() for group in groups_of(bounds.reaching(reach_of(0.9)), rows, 5_000)
    ]
    assert len(highest) > 5
    assert highest == sorted(highest, reverse=True)


def test_each_page_that_reaches_a_bound_is_found_once() -> None:
    _, rows = pages(5_000, 4, 900)
    bounds = bounds_on(rows)
    above, below = bounds.reaching(2.0), bounds.reaching(0.5, 2.0)
    both = np.sort(np.concatenate([above.places, below.places]))
    assert both.tolist() == bounds.reaching(0.5).places.tolist()
    assert both.tolist() == np.flatnonzero(bounds.of(rows) >= 0.5).tolist()
    assert above.waiting == int((rows["not_before"] > NOW).sum())


@pytest.mark.parametrize(
    "chosen", [{"threshold": 0.1}, {"stale_days": 100}, {"elapsed_from": "update"}]
)
def test_what_no_bound_of_p_bounds_is_ranked_whole(chosen: dict[str, object]) -> None:
    assert not may_be_bounded(options(**chosen), state(), 500, 10)


def test_where_signals_were_heard_every_page_is_ranked() -> None:
    known = state()
    assert may_be_bounded(options(), known, 500, 10)
    known.store.write_meta({known_signals.NOTE: {"priors": {"sitemap": [1.0] * POINTS}}})
    assert not may_be_bounded(options(), known, 500, 10)

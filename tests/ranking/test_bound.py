"""Pages that cannot be among the best are left out before they are ranked."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scrapy.settings import Settings

from hacs_crawler.config import Config
from hacs_crawler.model import POINTS
from hacs_crawler.ranking import finalists
from hacs_crawler.ranking.bound import Bounds, bounds_of
from hacs_crawler.ranking.calibration import Correction, write_correction
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.plan import Plan, plan_of
from hacs_crawler.state import signals as heard
from hacs_crawler.state.codec import ROW
from hacs_crawler.state.database import State
from hacs_crawler.state.estimation import Estimation
from hacs_crawler.state.memory import MemoryStore
from hacs_crawler.state.store import Ids, Rows
from hacs_crawler.utils.times import DAY

NOW = 1000 * DAY


def options(**chosen: object) -> RankingOptions:
    found = Settings({f"HACS_{name.upper()}": value for name, value in chosen.items()})
    return Config.from_settings(found).ranking


def state(corrected: bool = False) -> State:
    found = State(MemoryStore(), Estimation())
    if corrected:
        steps = Correction(np.array([0.0, 0.4, 1.0]), np.array([0.05, 0.5, 0.6]))
        write_correction(found, options().model(found.estimation), steps)
    return found


def rows_of(number: int, seed: int, sites: int, new: float = 0.02) -> tuple[Ids, Rows]:
    """Pages of all kinds, most of them seldom updated."""
    rng = np.random.default_rng(seed)
    rows = np.zeros(number, ROW)
    is_seen = rng.random(number) >= new
    rows["visits"] = rng.integers(1, 9, number) * is_seen
    rows["rate"] = rng.lognormal(-5.0, 2.0, number) * is_seen
    rows["log_sd"] = rng.random(number) * 1.5 * is_seen
    rows["last_visit"] = (NOW - rng.integers(0, 30 * DAY, number)) * is_seen
    rows["updates"] = (rng.random(number) < 0.4) * is_seen
    rows["last_update"] = (rows["last_visit"] - rng.integers(0, 9 * DAY, number)) * is_seen
    rows["before_update"] = (rows["last_update"] - rng.integers(1, 9 * DAY, number)) * is_seen
    rows["failures"] = rng.choice([0, 0, 0, 1, 5], number)
    rows["not_before"] = np.where(rng.random(number) < 0.1, NOW + DAY, 0)
    rows["site"] = rng.integers(1, 1 + sites, number)
    rows["is_baseline"] = rng.random(number) < 0.1
    return rng.permutation(number), rows


def exhaustive(
    ids: Ids, rows: Rows, known: State, chosen: RankingOptions, limit: int | None
) -> Plan:
    """The plan for which every page is ranked."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(finalists, "bounds_of", lambda *_: None)
        return plan_of(ids, rows, known, chosen, NOW, limit)


@settings(deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 400),
    st.integers(1, 40),
    st.tuples(*[st.booleans()] * 4),
)
def test_the_plan_is_that_of_ranking_every_page(
    seed: int,
    sites: int,
    budget: int,
    switches: tuple[bool, bool, bool, bool],
) -> None:
    siblings, corrected, has_new, is_ahead = switches
    ids, rows = rows_of(500, seed, sites, new=0.3 * has_new)
    chosen = options(budget=budget, siblings=siblings, horizon_days=2.0 * is_ahead, random_seed=1)
    known = state(corrected)
    for limit in (None, 7):
        found = plan_of(ids, rows, known, chosen, NOW, limit)
        whole = exhaustive(ids, rows, known, chosen, limit)
        for field in fields(Plan):
            ours, theirs = getattr(found, field.name), getattr(whole, field.name)
            np.testing.assert_array_equal(ours, theirs, field.name)
            assert type(ours) is type(theirs)


def bounds_on(rows: Rows) -> Bounds:
    found = bounds_of(rows, state(), options(), NOW, None, 20)
    assert found is not None
    return found


def test_most_pages_are_left_out_before_they_are_ranked(monkeypatch: pytest.MonkeyPatch) -> None:
    ids, rows = rows_of(20_000, 3, 3_000, new=0.0)
    ranked = []
    real = finalists.candidates_from
    monkeypatch.setattr(
        finalists,
        "candidates_from",
        lambda ids, *given, **named: ranked.append(len(ids)) or real(ids, *given, **named),
    )
    plan_of(ids, rows, state(), options(budget=20), NOW)
    assert sum(ranked) < 8_000


def test_whole_sites_are_left_out_or_ranked() -> None:
    _, rows = rows_of(5_000, 4, 900)
    bounds = bounds_on(rows)
    for is_meant in (bounds.of_highest(20), bounds.reaching(0.99)):
        places = bounds.places(is_meant)
        sites = np.unique(rows["site"][places])
        assert 0 < len(places) < len(rows)
        assert places.tolist() == np.flatnonzero(np.isin(rows["site"], sites)).tolist()


@pytest.mark.parametrize(
    "chosen",
    [
        {"threshold": 0.1},
        {"explore": 0.5, "budget": 10},
        {"policy": "staleness"},
        {"experiment": {"hacs": 0.5, "last-obs": 0.5}},
        {"elapsed_from": "update"},
    ],
)
def test_what_no_bound_of_p_bounds_is_ranked_whole(chosen: dict[str, object]) -> None:
    _, rows = rows_of(500, 5, 90)
    assert bounds_of(rows, state(), options(**chosen), NOW, None, 10) is None


def test_where_signals_were_heard_every_page_is_ranked() -> None:
    _, rows = rows_of(500, 5, 90)
    known = state()
    assert bounds_of(rows, known, options(), NOW, None, 10) is not None
    known.store.write_meta(heard.NOTE, {"priors": {"sitemap": [1.0] * POINTS}})
    assert bounds_of(rows, known, options(), NOW, None, 10) is None

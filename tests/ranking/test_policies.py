"""The index policies: the formulas, their limits, and what they say of pages never seen or failing."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.integrate import quad

from hacs_crawler.ranking.policies import (
    POLICIES,
    Candidates,
    freshness_index,
    staleness_index,
    unseen_links_index,
)

INDICES = {
    "freshness": freshness_index,
    "staleness": staleness_index,
    "unseen-links": unseen_links_index,
}
COST_PER_DAY = {
    # what a page costs a day, x days after its last visit: 1 while stale, 1 + 1/2 + ... + 1/N, N
    "freshness": lambda rate, x: -math.expm1(-rate * x),
    "staleness": lambda rate, x: quad(lambda u: -math.expm1(-rate * u) / u if u else rate, 0, x)[0],
    "unseen-links": lambda rate, x: rate * x,
}


def candidates(**columns: object) -> Candidates:
    pages = {
        "rate_per_day": [0.1],
        "days_since_visit": [10.0],
        "visits": [5],
        "failures": [0],
        **columns,
    }
    size = max(len(column) for column in pages.values())  # type: ignore[arg-type]
    given = {
        name: np.resize(np.array(column, np.float64 if "day" in name else np.int64), size)
        for name, column in pages.items()
    }
    return Candidates(
        page_ids=np.arange(size),
        fast_share=np.zeros(size),
        fast_per_day=np.zeros(size),
        slow_per_day=given["rate_per_day"],
        days_since_update=given["days_since_visit"],
        p=np.full(size, 0.5),
        updates=np.zeros(size, np.int64),
        churn=np.zeros(size),
        churning=np.zeros(size),
        seed=0,
        **given,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("name", INDICES)
@pytest.mark.parametrize(("rate", "days"), [(0.01, 3.0), (0.1, 30.0), (2.0, 40.0)])
def test_an_index_is_what_a_visit_now_saves(name: str, rate: float, days: float) -> None:
    """The optimal cycle x of cost c(x) a day under a price a visit solves x c(x) - C(x) = price."""
    cost = COST_PER_DAY[name]
    saved = days * cost(rate, days) - quad(lambda x: cost(rate, x), 0, days)[0]
    assert INDICES[name](rate, days) == pytest.approx(saved, rel=1e-6)
    assert INDICES[name](rate, days, importance=3.0) == pytest.approx(3 * saved, rel=1e-6)


@pytest.mark.parametrize("name", INDICES)
@pytest.mark.parametrize("rate", [1e-12, 1e-9, 1e-6, 1e-3])
def test_slow_pages_lose_no_digits(name: str, rate: float) -> None:
    days = 20.0
    assert INDICES[name](rate, days) == pytest.approx(rate * days**2 / 2, rel=rate * days)


@pytest.mark.parametrize("name", INDICES)
def test_a_page_that_never_changes_is_worth_nothing(name: str) -> None:
    assert INDICES[name](0.0, 1e6).tolist() == 0.0


def test_balanced_is_between_hits_and_freshness() -> None:
    """Of a page of p near 1 that changes all the time, and one that is slower: each wants another."""
    pages = candidates(rate_per_day=[20.0, 0.05], days_since_visit=[1.0, 20.0])
    fast_and_slow = replace(pages, p=np.array([1.0, 0.63]))
    hits, fresh, both = (
        POLICIES[name](fast_and_slow) for name in ("hacs", "freshness", "balanced")
    )
    assert hits[0] > hits[1]
    assert fresh[0] < fresh[1]
    assert both == pytest.approx(hits**0.8 * fresh**0.2)


def test_a_page_that_changes_all_the_time_is_not_worth_keeping_fresh() -> None:
    assert freshness_index(1000.0, 5.0) < freshness_index(0.1, 5.0)
    assert staleness_index(1000.0, 5.0) > staleness_index(0.1, 5.0)


@pytest.mark.parametrize("name", INDICES)
@given(rate=st.floats(0, 1e4), days=st.floats(0, 1e5), more=st.floats(0, 1e4))
def test_waiting_never_makes_a_visit_worth_less(
    name: str, rate: float, days: float, more: float
) -> None:
    now, later = INDICES[name](rate, np.array([days, days + more]))
    assert 0 <= now <= later * (1 + 1e-12)
    assert math.isfinite(later)


@pytest.mark.parametrize("name", [*INDICES, "balanced"])
def test_pages_never_visited_come_first_until_they_fail(name: str) -> None:
    pages = candidates(
        days_since_visit=[math.inf, math.inf, 300.0, 5.0],
        failures=[0, 30, 0, 0],
        visits=[0, 0, 5, 5],
    )
    score = POLICIES[name](pages)
    assert np.argsort(-score).tolist() == [0, 2, 3, 1]
    assert score[1] > 0


@pytest.mark.parametrize("name", [*INDICES, "balanced"])
def test_every_failure_halves_the_score(name: str) -> None:
    page = candidates()
    failed = replace(page, failures=np.array([2]))
    assert POLICIES[name](failed) == pytest.approx(POLICIES[name](page) / 4)

"""What a visit is worth: p, and the days that a page has been out of date."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad

from hacs_crawler.ranking.policies import BALANCED_DAYS, POLICIES, UNSEEN_DAYS, Candidates, scramble
from row_states import candidates_of


def candidates(**columns: list[float]) -> Candidates:
    """Pages of one known rate each, visited ten days ago unless it is said otherwise."""
    known = {"rate_per_day": [0.1], "days_since_visit": [10.0], "visits": [5], **columns}
    rate, days = known["rate_per_day"], known["days_since_visit"]
    known |= {"fast_share": [1.0], "fast_per_day": rate, "slow_per_day": rate, "p": [0.5]}
    return candidates_of(max(map(len, known.values())), days_since_update=days, **known)


@pytest.mark.parametrize(("rate", "days"), [(0.01, 3.0), (0.1, 30.0), (2.0, 40.0)])
def test_days_out_of_date_are_what_a_visit_now_saves(rate: float, days: float) -> None:
    """The optimal cycle x of cost c(x) a day under a price a visit solves x c(x) - C(x) = price."""
    page = alone(rate_per_day=[rate], days_since_visit=[days])
    saved = days * page.p[0] - quad(lambda x: -math.expm1(-rate * x), 0, days)[0]
    assert page.days_out_of_date[0] == pytest.approx(saved, rel=1e-6)


def alone(**columns: object) -> Candidates:
    """Pages whose p is that of their own rates."""
    found = candidates(**columns)
    return replace(found, p=-np.expm1(-found.rate_per_day * found.days_since_visit))


def test_what_siblings_say_counts_for_days_as_for_p() -> None:
    page = alone(rate_per_day=[0.01], days_since_visit=[10.0])
    twice = replace(page, p=2 * page.p)
    assert twice.days_out_of_date == pytest.approx(2 * page.days_out_of_date)


@pytest.mark.parametrize("stale_days", [1.0, 365.0])
def test_a_page_out_of_date_for_that_many_days_is_worth_one_find(stale_days: float) -> None:
    page = alone(rate_per_day=[1e-3, 0.2], days_since_visit=[900.0, 2.0])
    score = POLICIES["hacs"](replace(page, stale_days=stale_days))
    assert score == pytest.approx(page.p + page.days_out_of_date / stale_days)
    assert POLICIES["hacs"](page) == pytest.approx(page.p)


def test_few_visits_find_less_but_give_up_no_slow_page() -> None:
    """One that changes daily is always likelier to have changed than one of every three years."""
    pages = alone(rate_per_day=[1.0, 1 / 1000], days_since_visit=[3.0, 900.0])
    by_p, by_value = (
        POLICIES["hacs"](replace(pages, stale_days=days)) for days in (math.inf, 365.0)
    )
    assert by_p[0] > by_p[1]
    assert by_value[0] < by_value[1]


def test_balanced_is_hacs_with_100_days() -> None:
    pages = alone(rate_per_day=[20.0, 0.05], days_since_visit=[1.0, 20.0])
    assert BALANCED_DAYS == 100.0
    expected = POLICIES["hacs"](replace(pages, stale_days=100.0))
    assert POLICIES["balanced"](pages).tolist() == expected.tolist()


def test_a_page_never_seen_counts_as_out_of_date_for_a_year() -> None:
    page = replace(candidates(days_since_visit=[math.inf], visits=[0]), p=np.ones(1))
    assert page.days_out_of_date == [UNSEEN_DAYS]
    assert POLICIES["balanced"](page) == pytest.approx(1 + UNSEEN_DAYS / BALANCED_DAYS)


@pytest.mark.parametrize("name", ["hacs", "balanced", "interest"])
def test_each_further_failure_halves_the_score_which_is_multiplied_by_the_weight(name: str) -> None:
    page = candidates()
    failed = replace(page, failures=np.array([3]), weight=np.array([3.0]))
    assert POLICIES[name](failed) == pytest.approx(POLICIES[name](page) * 3 / 4)


def test_numbers_are_mixed_as_by_splitmix64() -> None:
    assert scramble(np.array([0x9E3779B97F4A7C15], np.uint64)).tolist() == [0xE220A8397B1DCDAF]

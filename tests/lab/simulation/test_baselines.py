"""Other crawlers' schedules against their own code's numbers; allocations against published ones."""

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.optimize import minimize

from hacs_crawler.exceptions import HacsError
from hacs_crawler.lab.simulation.baselines import (
    BASELINES,
    MINUTE,
    Allocation,
    AtRandomTimes,
    Demand,
    EvenlySpaced,
    Nutch,
    StormCrawler,
    binary_demand,
    find_baseline,
    freshness_demand,
    harmonic_demand,
)
from hacs_crawler.lab.simulation.simulation import Scenario, World
from hacs_crawler.ranking.policies import POLICIES, Candidates
from hacs_crawler.state.estimation import Estimation
from hacs_crawler.utils.times import DAY
from made_timelines import timelines_of
from row_states import candidates_of

FIRST = 20_000 * DAY
START = FIRST + DAY


def world(captures: list[int], updates: list[int], budget: int = 1) -> World:
    """One page with captures and updates at so many days before the start."""
    found = [[(START - day * DAY, 1) for day in updates]]
    timelines = timelines_of(found, [[START - day * DAY for day in captures]], [START - 1000 * DAY])
    return World(Scenario(timelines, START, START + DAY, budget, Estimation()))


def candidates(rates: list[float], days: list[float], seed: int = 0) -> Candidates:
    known = {"rate_per_day": rates, "slow_per_day": rates, "visits": 3, "updates": 1}
    known |= {"days_since_visit": days, "days_since_update": days}
    ids = np.arange(1, len(rates) + 1) * 7919
    return candidates_of(len(rates), seed, page_ids=ids, **known)


def days_ahead(schedule: Nutch | StormCrawler, at: float, *, changed: bool) -> float:
    """Days from a visit, so many days after the first one, to the next."""
    return (schedule.next_visit(0, FIRST + round(at * DAY), changed=changed) - FIRST) / DAY - at


@pytest.mark.parametrize(
    "fetches",
    [
        # (day of a fetch, whether the page had changed, days to the next)
        [(30, True, 24), (54, True, 19.2)],
        # towards the time of change: 30 * 1.4 days, then 42 * 1.4, less 0.3 of those without a change
        [(30, False, 42 - 9), (63, False, 63 - 18.9)],
        # above 90 days it starts again at 81, and the signature is forgotten: nothing to compare with
        [(100, False, 100 - 30), (170, True, 81), (251, True, 0.8 * 81)],
        # 0.3 of 1,300 days is more than a year: its whole-number division gives up the shift
        [(1300, False, 365)],
    ],
)
def test_nutch_waits_30_days_then_less_after_changes_and_more_without(
    fetches: list[tuple[int, bool, float]],
) -> None:
    schedule = Nutch(world([1], []))  # a page's first fetch is neither
    assert schedule.due(FIRST)[0] == FIRST + 30 * DAY
    for day, changed, ahead in fetches:
        assert days_ahead(schedule, day, changed=changed) == pytest.approx(ahead)


def test_nutch_fetches_at_once_what_is_due_in_more_than_90_days() -> None:
    schedule = Nutch(world([1], []))
    schedule.note(np.array([0]), FIRST + 200 * DAY, np.array([0]))
    assert schedule.due(FIRST + 200 * DAY)[0] == FIRST + 200 * DAY
    assert schedule.due(FIRST + 300 * DAY)[0] == FIRST + 340 * DAY


@pytest.mark.parametrize(
    ("kind", "ahead"), [(Nutch, 24 * DAY), (StormCrawler, 750 * MINUTE)], ids=["nutch", "storm"]
)
def test_other_crawlers_have_seen_the_history(kind: type[Nutch | StormCrawler], ahead: int) -> None:
    assert kind(world([60, 30], [40])).due(START)[0] == START - 30 * DAY + ahead


def test_stormcrawler_waits_a_day_then_half_as_long_again_or_half_towards_an_hour() -> None:
    schedule = StormCrawler(world([1], []))
    assert schedule.due(FIRST)[0] == FIRST + 1440 * MINUTE
    minutes = [
        round(days_ahead(schedule, at, changed=changed) * 1440)
        for at, changed in ((1, False), (3, False), (6, True), (7, True))
    ]
    assert minutes == [2160, 3240, 1650, 855]


def test_stormcrawler_waits_two_weeks_at_most_and_counts_in_whole_minutes() -> None:
    schedule = StormCrawler(world([1], []))
    for at in range(1, 20):
        last = days_ahead(schedule, at, changed=False)
    assert last == 14
    minutes = [round(days_ahead(schedule, at, changed=True) * 1440) for at in range(20, 28)]
    assert minutes == [10110, 5085, 2572, 1316, 688, 374, 217, 138]


def test_the_page_due_for_longest_comes_first() -> None:
    schedule = StormCrawler(world([3], []))
    assert schedule.score(candidates([1.0], [3.0])) == pytest.approx(2.0)


def test_cho_and_garcia_molina_s_own_example() -> None:
    """Pages that change 1 to 5 times a day, five visits a day: their table of frequencies."""
    optimal = Allocation(freshness_demand, 5).frequencies(np.arange(1.0, 6.0))
    assert optimal == pytest.approx([1.15, 1.36, 1.35, 1.14, 0.0], abs=0.006)


@pytest.mark.filterwarnings("ignore:Values in x were outside bounds")  # SciPy before 1.15
@pytest.mark.parametrize(
    ("demand", "cost"),
    [
        (freshness_demand, lambda rate, f: np.sum(np.expm1(-rate / f) * f / rate)),
        (harmonic_demand, lambda rate, f: np.sum(np.log1p(rate / f))),
        (binary_demand, lambda rate, f: np.sum(rate / (rate + f))),
    ],
)
def test_an_allocation_is_the_optimum_of_its_objective(demand: Demand, cost) -> None:
    rate = np.array([0.01, 0.05, 0.2, 0.4])
    found = Allocation(demand, 0.5).frequencies(rate)
    best = minimize(
        lambda f: cost(rate, f),
        np.full(4, 0.125),
        bounds=[(1e-9, 1)] * 4,
        constraints={"type": "eq", "fun": lambda f: np.sum(f) - 0.5},
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    assert np.sum(found) == pytest.approx(0.5)
    assert cost(rate, np.maximum(found, 1e-9)) <= best.fun + 1e-7


@given(
    st.lists(st.floats(1e-6, 10) | st.just(0.0), min_size=1, max_size=30),
    st.floats(0.1, 50.0),
    st.sampled_from([freshness_demand, harmonic_demand, binary_demand]),
)
def test_an_allocation_spends_its_budget(
    rates: list[float], visits_an_update: float, demand: Demand
) -> None:
    rate = np.array(rates)
    budget = visits_an_update * (sum(rates) or 1.0)
    found = Allocation(demand, budget).frequencies(rate)
    assert np.all(found >= 0)
    assert np.all(found[rate == 0] == 0)
    # pages whose price is that of no visit may get none instead of rate / 36, see `freshness_demand`
    least = rate.sum() / 30 if demand is freshness_demand else 0.0
    assert np.sum(found) == pytest.approx(budget if rate.any() else 0.0, rel=1e-4, abs=least)


def test_a_budget_too_small_for_the_pages_that_change_most_goes_to_the_others() -> None:
    found = Allocation(freshness_demand, 0.625).frequencies(np.array([1.0, 2.0, 2.0]))
    assert found.tolist() == pytest.approx([0.6, 0.0, 0.0], abs=0.03)


def test_evenly_spaced_visits_go_to_the_page_most_overdue() -> None:
    contender = EvenlySpaced(world([1], []), harmonic_demand)
    score = contender.score(candidates([0.1, 0.1, 0.1, 0.0], [5.0, 9.0, 7.0, 99.0]))
    assert np.argsort(-score).tolist() == [1, 2, 0, 3]


def test_visits_at_random_times_are_drawn_by_frequency() -> None:
    contender = AtRandomTimes(world([1], []), harmonic_demand)
    rates, days = [0.001, 0.1, 0.0], [1.0, 1.0, 1.0]
    frequency = Allocation(harmonic_demand, 1).frequencies(np.array(rates))
    first = [int(np.argmax(contender.score(candidates(rates, days, seed)))) for seed in range(4000)]
    drawn = np.bincount(first, minlength=3) / 4000
    assert drawn == pytest.approx(frequency / frequency.sum(), abs=0.03)


def test_every_policy_of_a_crawl_can_be_simulated() -> None:
    assert set(POLICIES) <= set(BASELINES)


@pytest.mark.parametrize(
    "name", ["last_obs", "", "no.such.function", "hacs_crawler.links.urls", "os.sep"]
)
def test_an_unknown_policy_is_named_with_those_that_there_are(name: str) -> None:
    with pytest.raises(HacsError, match=r"policy .*: must be one of hacs, .*oracle"):
        find_baseline(name)

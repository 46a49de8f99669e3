"""Simulated crawls: hand-made histories whose outcome can be computed by hand, and properties."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from hacs_crawler.exceptions import HacsError
from hacs_crawler.lab.simulation.baselines import BASELINES, compete
from hacs_crawler.lab.simulation.simulation import Scenario, World
from hacs_crawler.lab.simulation.tournament import compare
from hacs_crawler.lab.timelines import parse_day, read_timelines
from hacs_crawler.state.estimation import Estimation
from hacs_crawler.utils.times import DAY
from made_timelines import timelines_of

DATA = Path(__file__).parents[1] / "evaluation" / "data"
START = parse_day("2022-01-11", "start")
SEEN = START - 10 * DAY


def second(day: float) -> int:
    return START + round(day * DAY)


def scenario(
    updates: list[list[tuple[float, int]]],
    captures: list[list[float]] | None = None,
    *,
    days: int = 10,
    budget: int = 1,
    first_seen: list[int] | None = None,
) -> Scenario:
    """Pages first seen ten days before the start, with updates at so many days after it."""
    timelines = timelines_of(
        [[(second(day), links) for day, links in page] for page in updates],
        [[second(day) for day in page] for page in captures or [[]] * len(updates)],
        first_seen or [SEEN] * len(updates),
    )
    return Scenario(timelines, START, START + days * DAY, budget, Estimation())


@pytest.fixture(scope="module")
def extract() -> Scenario:
    timelines = read_timelines(*(DATA / f"{name}.csv" for name in ("pages", "updates", "captures")))
    end = parse_day("2021-04-01", "end")
    return Scenario(timelines, parse_day("2021-01-01", "start"), end, 2, Estimation())


TWO_PAGES = [[(1.5, 2), (3.0, 1)], []]


@pytest.mark.parametrize(
    ("known", "policy", "wanted"),
    [
        # the first of two pages is visited on days 0, 2 and 4: it waits for half a day and a day
        (scenario(TWO_PAGES), "last-obs", {
            "policy": "last-obs", "visits": 10, "hits": 2, "precision": 0.2, "updates_found": 2,
            "updates_total": 2, "new_links_found": 3, "mean_delay_days": 0.75,
            "mean_freshness": 1 - 1.5 / 20}),
        # the oracle finds an update at the next tick, and one at a tick at once
        (scenario(TWO_PAGES), "oracle", {
            "hits": 2, "mean_delay_days": 0.25, "mean_freshness": 1 - 0.5 / 20}),
        # it serves the page that waits longest, and else the one seen longest ago
        # day 0: the first page; day 1: the second, waiting since 0.2; day 2: the first; day 3: the third
        (scenario([[(0.7, 1)], [(0.2, 1)], []], days=4), "oracle", {
            "hits": 2, "mean_delay_days": (0.8 + 1.3) / 2}),
        # every page is visited every day, whatever the budget
        (scenario(TWO_PAGES), "brute-force", {"visits": 20, "hits": 2, "mean_delay_days": 0.25}),
        # updates that one visit finds are one hit
        (scenario([[(0.1, 1), (0.2, 2), (0.3, 3)]]), "last-obs", {
            "hits": 1, "updates_found": 3, "new_links_found": 6, "mean_freshness": 1 - 0.9 / 10}),
        # an update before the start that no capture showed is found at the start
        (scenario([[(-2.0, 1)]]), "last-obs", {
            "updates_total": 1, "updates_found": 1, "mean_delay_days": 2.0, "mean_freshness": 1.0}),
        # one that a capture showed is history
        (scenario([[(-2.0, 1)]], [[-5.0, -1.0]]), "last-obs", {
            "updates_total": 0, "updates_found": 0, "mean_delay_days": None}),
        # what happens at the end or later does not count
        (scenario([[(9.5, 1), (10.0, 1), (11.0, 1)]]), "last-obs", {
            "updates_total": 1, "updates_found": 0, "mean_freshness": 1 - 0.5 / 10}),
        # pages first seen at the start or later are left out
        (scenario([[(1.5, 1)], [(1.5, 1)]], first_seen=[SEEN, START]), "brute-force", {
            "visits": 10, "updates_total": 1}),
    ],
)  # fmt: skip
def test_scores_are_what_they_are_by_hand(
    known: Scenario, policy: str, wanted: dict[str, object]
) -> None:
    score = compete(known, policy)
    assert {name: getattr(score, name) for name in wanted} == pytest.approx(wanted)


def test_the_first_capture_is_the_baseline() -> None:
    """What was there at the first capture is no update, and captures after the start are not seen."""
    world = World(scenario([[(-9.0, 1), (-3.0, 1)]], [[-8.0, -2.0, 3.0]]))
    assert [(sight.at, sight.found) for sight in world.past] == [
        (START - 8 * DAY, 0),
        (START - 2 * DAY, 1),
    ]
    assert [visit.at for visit in world.history] == [sight.at for sight in world.past]


def test_a_page_without_a_gap_is_known_by_the_prior() -> None:
    """All pages look alike to hacs: it visits them in turn, as last-obs does."""
    pages = [[(1.5, 1)], [], []]
    hacs, last_obs = (compete(scenario(pages, days=6), name) for name in ("hacs", "last-obs"))
    assert replace(hacs, policy="") == replace(last_obs, policy="")


def test_hacs_learns_which_page_changes() -> None:
    lively = [(day + 0.5, 1) for day in range(-9, 60)]
    pages = [lively, [], []]
    captures = [[float(day) for day in range(-9, 0)]] * 3
    score = compete(scenario(pages, captures, days=60), "hacs")
    assert score.hits > 40 > compete(scenario(pages, captures, days=60), "last-obs").hits


def test_the_paper_s_rule_has_its_own_estimator() -> None:
    """By Eq. 5 a page without any update has lambda = 0, and e does not shrink by visits."""
    lively = [(-4.5, 1), (-2.5, 1)]
    captures = [[-6.0, -5.0, -4.0, -3.0, -2.0, -1.0]] * 2
    world_with_update_on_quiet_page = [lively, [(2.5, 1)]]
    score = compete(scenario(world_with_update_on_quiet_page, captures), "hacs-paper")
    assert score.hits == 0
    assert compete(scenario(world_with_update_on_quiet_page, captures), "hacs").hits == 1


@pytest.mark.parametrize("name", BASELINES)
def test_every_contender_spends_its_budget_and_repeats_itself(name: str, extract: Scenario) -> None:
    score = compete(extract, name)
    days, pages = len(extract.days()), len(extract.places())
    assert score.visits == days * (pages if name == "brute-force" else 2)
    assert 0 < score.hits <= score.updates_found <= score.updates_total
    assert 0 < score.mean_freshness < 1
    assert compete(extract, name) == score


@pytest.mark.parametrize(
    ("name", "change"),
    [("random", {"seed": 1}), ("lambda-crawl", {"seed": 1}), ("hacs", {"has_siblings": False})],
)
def test_another_seed_or_no_siblings_give_other_visits(
    name: str, change: dict[str, int], extract: Scenario
) -> None:
    assert compete(extract, name) != compete(replace(extract, **change), name)


def test_a_history_found_costs_no_visit_and_is_the_same_for_all(extract: Scenario) -> None:
    totals = {compete(extract, name).updates_total for name in ("last-obs", "oracle", "random")}
    assert len(totals) == 1


@pytest.mark.slow
def test_the_number_of_processes_changes_nothing(extract: Scenario) -> None:
    names = ["hacs", "random", "brute-force"]
    short = replace(extract, end=extract.start + 20 * DAY)
    alone, together = (compare(short, names, [1, 3], processes) for processes in (1, 2))
    assert alone == together
    assert [(one.budget, one.score.policy) for one in alone] == [
        (budget, name) for budget in (1, 3) for name in names
    ]


def test_hits_are_compared_with_those_of_last_obs_and_of_the_oracle() -> None:
    (hacs,) = compare(scenario([[(1.5, 1)], []]), ["hacs"], [1], 1)
    assert (hacs.hits_vs_last_obs, hacs.hits_vs_oracle) == (1.0, 1.0)
    (nothing,) = compare(scenario([[]]), ["hacs"], [1], 1)
    assert (nothing.hits_vs_last_obs, nothing.hits_vs_oracle) == (None, None)


HISTORIES = st.lists(
    st.lists(st.tuples(st.floats(-9.9, 12), st.integers(1, 3)), max_size=8), min_size=1, max_size=4
)


@settings(max_examples=40, deadline=None)
@given(updates=HISTORIES, name=st.sampled_from(list(BASELINES)), budget=st.integers(1, 3))
def test_no_contender_finds_more_or_earlier_than_brute_force(
    updates: list[list[tuple[float, int]]], name: str, budget: int
) -> None:
    known = scenario(updates, budget=budget)
    best, score = compete(known, "brute-force"), compete(known, name)
    assert score.hits <= best.hits
    assert score.updates_found <= best.updates_found
    assert score.mean_freshness <= best.mean_freshness + 1e-12
    last_tick = START + 9 * DAY
    late = sum(last_tick < at < known.end for at in known.timelines.updates.at.tolist())
    assert best.updates_found == best.updates_total - late


@settings(max_examples=25, deadline=None)
@given(updates=HISTORIES)
def test_an_oracle_with_a_visit_for_every_page_is_brute_force(
    updates: list[list[tuple[float, int]]],
) -> None:
    known = scenario(updates, budget=len(updates))
    oracle, best = compete(known, "oracle"), compete(known, "brute-force")
    assert replace(oracle, policy="") == replace(best, policy="")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"end": START}, "the start must be before the end"),
        ({"start": 0}, "the start must be before the end"),
        ({"budget": 0}, "budget = 0"),
        ({"start": SEEN}, "no page was first seen before the start"),
    ],
)
def test_a_scenario_in_which_nothing_can_happen_is_refused(
    changes: dict[str, int], message: str
) -> None:
    with pytest.raises(HacsError, match=message):
        replace(scenario(TWO_PAGES), **changes)


def test_a_run_every_few_days_spends_the_budget_of_them_all() -> None:
    daily = scenario([[(1.5, 1)], [(2.5, 1)], [(20.0, 1)]], days=28, budget=3)
    weekly = replace(daily, every=7, budget=1)
    assert (weekly.run_budget, len(weekly.days())) == (7, 4)
    found = compete(weekly, "brute-force")
    assert (found.hits, found.visits) == (3, 12)
    assert found.mean_delay_days == pytest.approx((5.5 + 4.5 + 1.0) / 3)
    assert compete(weekly, "hacs").visits == 12, "each page once a run"
    with pytest.raises(HacsError, match="every = 0"):
        replace(daily, every=0)

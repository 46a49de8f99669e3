"""What is concluded from outcome records."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy.integrate import quad

from hacs_crawler.cli.experiment import answer_parts
from hacs_crawler.experiment.answer import ExperimentAnswer, KnownPages, answer_of, delays_days
from hacs_crawler.experiment.comparison import MIN_UPDATED_SITES, Comparison
from hacs_crawler.experiment.data import (
    NO_BASELINE,
    PriorRate,
    baseline_of,
    record_of,
    sites_of,
)
from hacs_crawler.experiment.text import UNEQUAL, sentences
from hacs_crawler.links.sites import site_id
from hacs_crawler.ranking.arms import Arm, Experiment
from hacs_crawler.ranking.policies import POLICIES
from hacs_crawler.state.database import State
from hacs_crawler.state.estimation import Estimation
from hacs_crawler.state.memory import MemoryStore
from hacs_crawler.state.outcome_log import OUTCOME, SEEN, UPDATED, Label, Outcomes
from hacs_crawler.state.page import Visit
from hacs_crawler.utils.terminal import laid_out
from hacs_crawler.utils.times import DAY

START = 1_700_000_000 // DAY * DAY
HALVES = Experiment(tuple(Arm(name, POLICIES[name], 0.5) for name in ("hacs", "last-obs")))
THIRDS = Experiment(
    tuple(Arm(name, POLICIES[name], 1 / 3) for name in ("random", "hacs", "last-obs"))
)
NO_PAGES = KnownPages(np.zeros(0, np.int64), np.zeros(0))


def label(experiment: Experiment, arm: str) -> Label:
    return Label(experiment.number, arm, arm, "bayes", 365.0, "visit", True)


def labels(experiment: Experiment) -> dict[int, Label]:
    return {one.number: one for one in (label(experiment, arm.name) for arm in experiment.arms)}


def outcomes(experiment: Experiment, p: dict[str, Any], days: int = 60, seed: int = 0) -> Outcomes:
    """Daily visits of two pages a site; p[arm] are the probabilities of an update, one a site."""
    random = np.random.default_rng(seed)
    parts = []
    for place, (arm, probabilities) in enumerate(p.items()):
        sites = np.repeat(np.arange(len(probabilities)) + 1000 * (place + 1), 2 * days)
        part = np.zeros(len(sites), OUTCOME)
        part["site"] = sites
        part["page_id"] = sites * 10 + np.arange(len(sites)) % 2
        part["at"] = START + np.arange(len(sites)) // 2 % days * DAY + sites % 1000
        part["run"] = part["at"] // DAY * DAY
        part["label"] = label(experiment, arm).number
        part["p"] = 0.25
        part["days_since_visit"] = 2.0
        part["bytes"] = 1_000
        updated = random.random(len(sites)) < np.repeat(probabilities, 2 * days)
        part["flags"] = SEEN | UPDATED * updated
        part["new_links"] = 3 * updated
        parts.append(part)
    joined = np.concatenate(parts)
    return joined[np.argsort(joined["at"], kind="stable")]


def answered(
    found: Outcomes, experiment: Experiment = HALVES, baseline: PriorRate = NO_BASELINE
) -> ExperimentAnswer:
    return answer_of(
        experiment, record_of(experiment, found, labels(experiment)), NO_PAGES, baseline
    )


def compared(
    arm: float, control: float, sites: int = 100, days: int = 60
) -> tuple[Comparison, str]:
    found = outcomes(HALVES, {"hacs": [arm] * sites, "last-obs": [control] * sites}, days)
    one = answered(found)
    return one.comparisons[0], laid_out(*answer_parts(one))


def test_an_arm_is_summed_up_by_its_own_visits() -> None:
    found = outcomes(HALVES, {"hacs": [0.5] * 20, "last-obs": [0.0] * 30}, days=10)
    hacs, last_obs = answered(found).arms
    assert (hacs.sites, hacs.visits, hacs.answered, hacs.first_visits) == (20, 400, 400, 0)
    assert hacs.updates_per_100_visits == pytest.approx(hacs.updates / 4)
    assert hacs.new_links_per_visit == pytest.approx(3 * hacs.updates / 400)
    assert hacs.bytes_per_update == pytest.approx(400_000 / hacs.updates)
    assert hacs.mean_days_since_visit == 2.0
    assert (last_obs.updates, last_obs.bytes_per_update, last_obs.delay_days) == (0, None, None)


def test_first_visits_are_counted_and_left_out_of_the_rates() -> None:
    found = outcomes(HALVES, {"hacs": [1.0] * 4, "last-obs": [0.5] * 4}, days=10)
    first = found["at"] < START + DAY
    found["days_since_visit"][first] = np.inf
    found["new_links"][first] = 1_000
    hacs = answered(found).arms[0]
    assert (hacs.visits, hacs.first_visits, hacs.updates) == (80, 8, 72)
    assert hacs.updates_per_100_visits == pytest.approx(100)
    assert hacs.new_links_per_visit == pytest.approx(3)


def test_a_visit_without_an_answer_counts_for_it_cost_budget() -> None:
    found = outcomes(HALVES, {"hacs": [1.0] * 4, "last-obs": [0.5] * 4}, days=10)
    failed = (found["at"] < START + 2 * DAY) & (found["site"] < 2000)
    found["flags"][failed] = 0
    hacs = answered(found).arms[0]
    assert (hacs.visits, hacs.answered) == (80, 64)
    assert hacs.updates_per_100_visits == pytest.approx(80)


def test_visits_of_another_experiment_or_of_none_do_not_count() -> None:
    found = outcomes(HALVES, {"hacs": [0.5] * 4, "last-obs": [0.5] * 4}, days=5)
    before, other = found.copy(), found.copy()
    none = replace(label(HALVES, "hacs"), experiment=0, arm="")
    salted = replace(label(HALVES, "hacs"), experiment=replace(HALVES, salt="x").number)
    before["label"], other["label"] = none.number, salted.number
    known = {**labels(HALVES), none.number: none, salted.number: salted}
    record = record_of(HALVES, np.concatenate([before, found, other]), known)
    assert len(record.outcomes) == len(found)


def test_a_difference_is_reported_with_the_day_since_when_it_could_be() -> None:
    comparison, text = compared(0.3, 0.1)
    assert comparison.verdict == "more"
    assert comparison.ratio_anytime[0] > 1
    assert comparison.difference_anytime[0] > 0
    assert comparison.decided_at is not None
    assert START < comparison.decided_at < START + 30 * DAY
    assert "hacs does find more than last-obs" in text
    assert "the experiment may end" in text


def test_the_other_way_round_it_is_fewer() -> None:
    comparison, text = compared(0.1, 0.3)
    assert comparison.verdict == "fewer"
    assert comparison.ratio_anytime[1] < 1
    assert "hacs does find fewer than last-obs" in text


def test_without_a_difference_it_says_that_this_is_no_proof_of_equality() -> None:
    comparison, text = compared(0.2, 0.2, sites=15)
    assert comparison.verdict == "undecided"
    assert comparison.decided_at is None
    assert comparison.ratio_anytime[0] < 1 < comparison.ratio_anytime[1]
    assert "it cannot be said which of the two finds more, nor that they are equal." in text


def test_a_ratio_of_which_nothing_is_known_has_no_bound_of_zero() -> None:
    comparison, _ = compared(0.2, 0.2, sites=15)
    unknown = replace(comparison, ratio_anytime=(0.0004, math.inf))
    told = " ".join(sentences(unknown))
    assert "however often one looks, nothing can be said of the ratio yet. So it cannot be" in told


def test_with_much_evidence_it_says_how_small_a_difference_is() -> None:
    comparison, text = compared(0.5, 0.5, sites=60)
    assert comparison.verdict == "undecided"
    assert "but a difference of 10 % or more can be ruled out" in text


def test_too_few_sites_with_an_update_are_too_few_whatever_the_number_of_visits() -> None:
    found = outcomes(
        HALVES, {"hacs": [0.9] * (MIN_UPDATED_SITES - 1), "last-obs": [0.1] * 50}, days=60
    )
    one = answered(found)
    assert one.comparisons[0].verdict == "too early"
    assert not one.comparisons[0].looks
    assert "Too early to compare hacs with last-obs" in laid_out(*answer_parts(one))
    assert "update on 9 of them" in laid_out(*answer_parts(one))


def test_two_giants_tell_nothing_of_the_error_between_sites() -> None:
    """Each arm has a site with nearly all of its pages: no error can be estimated."""
    found = outcomes(HALVES, {"hacs": [0.5] * 12, "last-obs": [0.5] * 12}, days=60)
    giant = found["site"] % 1000 == 0
    found["page_id"][giant] = 10_000_000 + np.arange(giant.sum()) % 100_000
    comparison = answered(found).comparisons[0]
    assert comparison.verdict == "too early"
    assert comparison.needed is None
    assert "tell no more than those to 1.4 sites of equal size would" in " ".join(
        sentences(comparison)
    )


def test_sites_that_are_visited_as_often_as_they_are_updated_still_differ() -> None:
    """A greedy policy finds as much by each visit on all of its sites: by visits they look alike."""
    p = {"hacs": [0.5] * 40, "last-obs": [0.5] * 40}
    even = outcomes(HALVES, p, days=40)
    site = even["site"] % 1000
    often = even[(site < 10) | (even["at"] % (8 * DAY) < DAY)]
    assert answered(often).comparisons[0].relative_error > 2 * (
        answered(even).comparisons[0].relative_error
    )


def test_a_split_of_the_users_own_is_said_to_compare_no_equals() -> None:
    found = outcomes(HALVES, {"hacs": [0.5] * 20, "last-obs": [0.5] * 20})
    unequal = replace(HALVES, budget_shares=(0.7, 0.3))
    assert UNEQUAL in " ".join(sentences(answered(found, unequal).comparisons[0]))
    assert UNEQUAL not in " ".join(sentences(answered(found).comparisons[0]))


def test_the_same_visits_to_fewer_sites_tell_less() -> None:
    many, _ = compared(0.3, 0.2, sites=60, days=20)
    few = answered(
        outcomes(
            HALVES,
            {"hacs": [0.9] * 10 + [0.05] * 10, "last-obs": [0.6] * 10 + [0.05] * 10},
            days=60,
        )
    ).comparisons[0]
    assert few.relative_error > 2 * many.relative_error


def test_the_bootstrap_is_narrower_than_what_holds_at_every_look() -> None:
    comparison, _ = compared(0.3, 0.25)
    low, high = comparison.ratio_bootstrap
    assert comparison.ratio_anytime[0] < low < comparison.ratio < high
    assert high < comparison.ratio_anytime[1]


def test_more_visits_are_asked_for_where_sites_are_alike() -> None:
    comparison, text = compared(0.2, 0.2, sites=50, days=20)
    needed = comparison.needed
    assert needed is not None
    assert needed.more_visits is not None
    assert needed.more_visits > 4_000
    assert "more visits are needed" in text


def test_more_sites_are_asked_for_where_they_differ() -> None:
    random = np.random.default_rng(4)
    found = outcomes(
        HALVES,
        {arm: np.minimum(random.lognormal(-2, 1, 50), 1) for arm in ("hacs", "last-obs")},
        days=60,
    )
    one = answered(found)
    needed = one.comparisons[0].needed
    assert needed is not None
    assert needed.more_visits is None
    assert needed.times_sites > 10
    assert "no number of visits to these sites is enough" in laid_out(*answer_parts(one))


def test_every_arm_is_compared_with_last_obs_and_they_share_the_false_alarms() -> None:
    found = outcomes(THIRDS, {arm.name: [0.2] * 20 for arm in THIRDS.arms}, days=20)
    one = answered(found, THIRDS)
    assert one.control == "last-obs"
    assert [comparison.arm for comparison in one.comparisons] == ["random", "hacs"]
    assert {comparison.alpha for comparison in one.comparisons} == {0.025}


def test_without_last_obs_the_first_arm_is_the_control() -> None:
    two = Experiment(HALVES.arms[:1] + THIRDS.arms[:1])
    assert answered(outcomes(two, {"hacs": [0.2], "random": [0.2]}), two).control == "hacs"


def unequal(giant_pages: int, random: np.random.Generator) -> tuple[Outcomes, PriorRate]:
    """Twenty rounds of visits to 160 sites, two giants in one arm; no difference but by chance.

    All pages of a site are updated together. How often was estimated before, to 20 % or so.
    """
    known, rounds = np.arange(1, 161), 20
    arms = HALVES.assign(known)
    pages = np.full(160, 2)
    pages[np.flatnonzero(arms == 0)[:2]] = giant_pages
    p = np.minimum(random.lognormal(-2.5, 1.5, 160), 0.95)
    site = np.tile(np.repeat(np.arange(160), pages), rounds)
    day = np.repeat(np.arange(rounds), pages.sum())
    part = np.zeros(len(site), OUTCOME)
    part["site"] = known[site]
    part["at"] = START + day * DAY
    numbers = np.array([label(HALVES, arm.name).number for arm in HALVES.arms])
    part["label"] = numbers[arms[site]]
    part["p"] = 0.25
    part["days_since_visit"] = 10.0
    part["flags"] = SEEN | UPDATED * (random.random((rounds, 160)) < p)[day, site]
    expected = pages * p * random.lognormal(0.0, 0.2, 160)
    return part, PriorRate(known, pages.astype(np.float64), expected, 10.0)


def test_at_no_look_are_a_few_large_sites_often_taken_for_a_difference() -> None:
    random = np.random.default_rng(6)
    alarms = 0
    for _ in range(60):
        found, past = unequal(200, random)
        looks = answered(found, baseline=past).comparisons[0].looks
        alarms += any(look.low > 1 or look.high < 1 for look in looks)
    assert alarms <= 3


def test_where_few_sites_carry_an_arm_it_says_so_and_does_not_lean_on_their_past() -> None:
    found, past = unequal(300, np.random.default_rng(1))
    one = answered(found, baseline=past)
    comparison, text = one.comparisons[0], laid_out(*answer_parts(one))
    assert comparison.effective_sites[0] < 4
    assert comparison.largest_share[0] > 0.7
    assert comparison.carried_by_few == (True, False)
    assert not comparison.is_adjusted
    assert "Few sites carry this: hacs's visits to" in text
    assert "what was known of them before is not allowed for" in text


def test_sites_that_are_alike_are_not_said_to_be_few() -> None:
    found, past = unequal(2, np.random.default_rng(1))
    one = answered(found, baseline=past)
    assert one.comparisons[0].is_adjusted
    assert one.comparisons[0].carried_by_few == (False, False)
    assert "Few sites" not in laid_out(*answer_parts(one))


def test_what_was_known_of_the_sites_before_makes_the_answer_sharper() -> None:
    random = np.random.default_rng(5)
    known = np.arange(1, 201)
    p = np.minimum(random.lognormal(-2, 1, 200), 0.6)
    arms = HALVES.assign(known)
    found = np.concatenate(
        [
            outcomes(HALVES, {"hacs": p[arms == 0] * 1.4}, 30, seed=1),
            outcomes(HALVES, {"last-obs": p[arms == 1]}, 30, seed=2),
        ]
    )
    for arm, name in enumerate(("hacs", "last-obs")):
        mine = found["label"] == label(HALVES, name).number
        found["site"][mine] = known[arms == arm][found["site"][mine] - 1000]
    found = found[np.argsort(found["at"], kind="stable")]
    baseline = PriorRate(known, np.full(200, 2.0), 2.0 * p, 1.0)
    plain, sharp = (answered(found, baseline=one).comparisons[0] for one in (NO_BASELINE, baseline))
    assert (plain.is_adjusted, sharp.is_adjusted) == (False, True)
    assert sharp.relative_error < plain.relative_error / 2
    assert sharp.ratio == pytest.approx(1.4, abs=0.2)
    assert sharp.verdict == "more"


def test_what_was_known_before_is_that_before_the_first_visit_of_the_experiment() -> None:
    state = State(MemoryStore(), Estimation())
    often, never = "https://uni.example/~often/", "https://uni.example/~never/"
    late = "https://uni.example/~late/"

    def visits(until: int) -> list[Visit]:
        return [
            Visit(
                url,
                START + day * DAY + 3600,
                marks=frozenset(range(day + 50)) if url == often else frozenset({1}),
            )
            for day in range(-40, until, 4)
            for url in (often, never)
        ]

    found = outcomes(HALVES, {"hacs": [0.2], "last-obs": [0.2]})
    record = record_of(HALVES, found, labels(HALVES))
    state.record(visits(0))
    before = baseline_of(state, record)
    assert before.sites.tolist() == sorted([site_id(often), site_id(never)])
    by_site = dict(zip(before.sites.tolist(), before.expected.tolist(), strict=True))
    assert by_site[site_id(often)] > 5 * by_site[site_id(never)]
    state.record([*visits(60), Visit(late, START + DAY, marks=frozenset({1}))])
    after = baseline_of(state, record)
    assert after.sites.tolist() == before.sites.tolist()
    assert after.expected.tolist() == pytest.approx(before.expected.tolist())


def test_sites_known_before_belong_to_the_arm_that_would_visit_them() -> None:
    known = np.arange(1, 101)
    record = record_of(HALVES, outcomes(HALVES, {"hacs": [0.1], "last-obs": [0.1]}), labels(HALVES))
    sites = sites_of(HALVES, record, PriorRate(known, np.ones(100), known / 100, 1.0))
    assert len(sites.sites) == 102
    unvisited = sites.sites <= 100
    assert (sites.arms[unvisited] == HALVES.assign(sites.sites[unvisited])).all()
    assert sites.excess.sum() == pytest.approx(0)


def test_freshness_is_what_is_left_of_the_arms_pages() -> None:
    pages = KnownPages(np.array([0, 0, 1]), np.array([0.5, 0.1, 0.9]))
    found = outcomes(HALVES, {"hacs": [0.1], "last-obs": [0.1]})
    one = answer_of(HALVES, record_of(HALVES, found, labels(HALVES)), pages, NO_BASELINE)
    assert [arm.pages for arm in one.arms] == [2, 1]
    assert [arm.freshness for arm in one.arms] == pytest.approx([0.7, 0.1])


@settings(max_examples=30)
@given(st.floats(1e-4, 25.0), st.floats(0.01, 1000.0))
def test_the_delay_is_the_mean_age_of_a_first_update_that_did_happen(r: float, days: float) -> None:
    density, _ = quad(lambda at: at * r * math.exp(-r * (1 - at)), 0, 1, epsabs=1e-13)
    expected = days * density / -math.expm1(-r)
    found = delays_days(np.array([days]), np.array([-math.expm1(-r)]))
    assert found[0] == pytest.approx(expected, rel=1e-3)


def test_the_delay_is_half_the_time_where_updates_are_rare_and_all_of_it_where_they_abound() -> (
    None
):
    found = delays_days(np.array([10.0, 10.0, 10.0]), np.array([0.0, 1e-7, 1.0]))
    assert found.tolist() == pytest.approx([5.0, 5.0, 10.0], rel=0.05)


def test_a_round_that_is_not_over_is_said_to_be_no_long_run() -> None:
    assert "a longer run may tell otherwise" in compared(0.5, 0.1, sites=40, days=1)[1]
    assert "a longer run may tell otherwise" not in compared(0.5, 0.1, sites=40, days=2)[1]


def test_a_trimmed_number_of_looks_is_kept_of_a_long_experiment() -> None:
    comparison, _ = compared(0.2, 0.2, sites=12, days=400)
    assert 150 < len(comparison.looks) <= 200
    assert comparison.looks[-1].visits == 2 * 2 * 12 * 400


def test_json_has_no_number_that_json_does_not_know() -> None:
    for found in (np.zeros(0, OUTCOME), outcomes(HALVES, {"hacs": [0.5], "last-obs": [0.0]})):
        body = json.loads(json.dumps(answered(found).as_json(), allow_nan=False))
        assert body["comparisons"][0]["verdict"] == "too early"

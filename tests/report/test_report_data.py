"""What a report is made of: overviews, runs, courses of λ, and the document as a whole."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, strategies as st

from hacs_crawler.model import DEFAULT_PRIOR, bayes, estimate, gaps_between
from hacs_crawler.model.bayes import bayes_quantiles
from hacs_crawler.ranking.plan import make_plan, read_rows
from hacs_crawler.report.html import embedded, html
from hacs_crawler.report.overview import (
    INTERVAL_EDGES_DAYS,
    UPDATE_CLASSES,
    VISIT_CLASSES,
    interval_counts,
    overview,
)
from hacs_crawler.report.pages import MOST_ESTIMATES, chances, course, gaps_between_updates
from hacs_crawler.report.runs import UNKNOWN, yields
from hacs_crawler.state import describe
from hacs_crawler.state.codec import ROW
from hacs_crawler.state.estimation import Estimation, histories
from hacs_crawler.state.merging import merge
from hacs_crawler.state.outcome_log import OUTCOME, SEEN, UPDATED, Label, Outcomes
from hacs_crawler.state.page import News, Page, Visit
from hacs_crawler.state.store import Rows
from hacs_crawler.utils.times import DAY
from report_support import ARMS, NOW, busy_state, config_of, data_of, empty_state

IDS = np.arange(100, 106)


def rows(**columns: list[float]) -> Rows:
    made = np.zeros(len(next(iter(columns.values()))), ROW)
    for name, values in columns.items():
        made[name] = values
    return made


def page(*found: bool, days: float = 10.0) -> Page:
    """A page visited every so many days; each element says whether that visit found an update."""
    made = Page("http://example.edu/")
    links = {0}
    for number, is_update in enumerate(found):
        if is_update:
            links.add(number)
        at = NOW + round(number * days * DAY)
        merge(made, Visit(made.url, at, links=frozenset(links)))
    return made


def test_an_overview_counts_pages_by_what_was_seen_of_them() -> None:
    last = [0, NOW, NOW, NOW, NOW, NOW]
    made = rows(
        visits=[0, 1, 2, 9, 9, 2],
        updates=[0, 0, 0, 3, 2, 0],
        rate=[0, 0.1, 0.1, 1.0, 0.02, 0.0],
        failures=[1, 0, 0, 0, 2, 0],
        last_visit=last,
        last_update=[0, NOW, NOW - DAY, NOW - 3 * DAY, NOW - 31 * DAY, NOW - DAY],
        not_before=[0, 0, NOW + 1, NOW, 0, 0],
    )
    seen = overview(IDS, made, NOW, 10)
    assert (seen.known, seen.visited, seen.evident) == (6, 5, 4)
    assert (seen.waiting, seen.failing, seen.updated_lately, seen.unmoved) == (1, 2, 1, 1)
    assert seen.intervals.sum() == 3
    assert seen.evidence.sum() == 5
    eight, two = np.searchsorted(VISIT_CLASSES, 9, "right") - 1, list(UPDATE_CLASSES).index(3)
    assert seen.evidence[eight, two] == 1
    assert seen.gone.tolist() == [102]
    assert seen.slowest.tolist() == [105, 104, 103]
    assert seen.quietest.tolist() == [104, 103, 105]


def test_lists_are_as_long_as_asked_for() -> None:
    made = rows(visits=[3] * 6, rate=[0.6, 0.5, 0.4, 0.3, 0.2, 0.1], last_visit=[NOW] * 6)
    seen = overview(IDS, made, NOW, 2)
    assert seen.slowest.tolist() == [105, 104]
    assert len(seen.quietest) == 2


def test_of_pages_alike_that_with_more_evidence_is_the_slowest() -> None:
    made = rows(visits=[3, 9, 4], rate=[0.0] * 3, last_visit=[NOW] * 3)
    assert overview(IDS[:3], made, NOW, 3).slowest.tolist() == [101, 102, 100]


def test_intervals_of_minutes_and_of_hours_are_in_classes_of_their_own() -> None:
    counts = interval_counts(np.array([5 / 1440, 50 / 1440, 5 / 24]))
    assert sorted(counts[counts > 0]) == [1, 1, 1]


def test_intervals_beyond_the_classes_are_in_the_outer_ones() -> None:
    counts = interval_counts(np.array([1e-6, 1.1, 1e9]))
    assert counts.sum() == 3
    assert counts[0] == counts[-1] == 1
    assert counts[np.searchsorted(INTERVAL_EDGES_DAYS, 1.1) - 1] == 1


LABELS = {
    1: Label(7, "hacs", "hacs", "bayes", 365.0, "visit", siblings=True),
    2: Label(7, "last-obs", "last-obs", "bayes", 365.0, "visit", siblings=True),
    3: Label(0, "", "freshness", "bayes", 365.0, "visit", siblings=True),
}


def outcomes(*records: tuple[int, int, float, float, int]) -> Outcomes:
    """Records of (run, label, p, days since the visit before, flags), with a new link an update."""
    made = np.zeros(len(records), OUTCOME)
    for place, (run, label, p, days, flags) in enumerate(records):
        found = int(flags == SEEN | UPDATED)
        made[place] = (place, run + 1, run, 1, label, p, days, found, 1 + found, 100, flags)
    return made


def test_yields_are_sums_over_each_run_and_arm() -> None:
    found = SEEN | UPDATED
    told = yields(
        outcomes(
            (10, 1, 0.5, 3.0, found),
            (10, 1, 0.25, 3.0, SEEN),
            (10, 1, 0.25, 3.0, 0),
            (10, 1, 1.0, np.inf, SEEN),
            (10, 2, 0.5, 3.0, SEEN),
            (20, 1, 0.5, 3.0, found),
        ),
        LABELS.get,
        9,
    )
    assert [told.names[series] for series in told.series] == ["hacs", "last-obs", "hacs"]
    assert told.run.tolist() == [10, 10, 20]
    assert told.visits.tolist() == [4, 1, 1]
    assert told.firsts.tolist() == [1, 0, 0]
    assert told.unseen.tolist() == [1, 0, 0]
    assert told.updates.tolist() == told.new_links.tolist() == [1, 0, 1]
    assert told.site_updates.tolist() == [1, 0, 1]
    assert told.predicted.tolist() == [0.75, 0.5, 0.5]
    assert told.bytes.tolist() == [400, 100, 100]


def test_without_an_experiment_visits_count_for_their_policy() -> None:
    told = yields(outcomes((10, 3, 0.5, 3.0, SEEN), (10, 4, 0.5, 3.0, SEEN)), LABELS.get, 9)
    assert told.names == ("freshness", UNKNOWN)


def test_of_many_runs_the_latest_are_told() -> None:
    told = yields(outcomes(*((run, 1, 0.5, 3.0, SEEN) for run in (30, 10, 20))), LABELS.get, 2)
    assert told.run.tolist() == [20, 30]


def test_no_outcomes_yield_nothing() -> None:
    told = yields(outcomes(), LABELS.get, 9)
    assert told.names == ()
    assert len(told.run) == len(told.visits) == 0


@given(st.lists(st.lists(st.booleans(), max_size=12), max_size=4))
def test_a_course_is_what_the_estimator_says_of_each_beginning_of_a_history(
    found: list[list[bool]],
) -> None:
    pages = [page(*some) for some in found]
    estimation = Estimation()
    went = course(pages, estimation)
    assert went.low is not None
    assert went.high is not None
    for place, one in enumerate(pages):
        mine = slice(*went.offsets[place : place + 2])
        assert went.visit[mine].tolist() == list(range(1, len(one.visits)))
        days, updated, _ = histories([one])
        for number, rate, low, high in zip(
            went.visit[mine], went.rate_per_day[mine], went.low[mine], went.high[mine], strict=True
        ):
            count = number + 1
            gaps = gaps_between(days[:count], updated[:count], np.array([0, count]), 365.0)
            if count < len(one.visits):
                assert rate == pytest.approx(bayes(gaps, DEFAULT_PRIOR)[0], rel=1e-5)
            expected = bayes_quantiles(gaps, DEFAULT_PRIOR, (0.05, 0.95))[0]
            assert [low, high] == pytest.approx(expected.tolist(), rel=2e-3)
        if len(one.visits) > 1:
            assert went.rate_per_day[mine][-1] == pytest.approx(estimation.rate_per_day(one))


def test_of_a_long_history_some_beginnings_are_estimated_and_always_the_whole() -> None:
    long = page(*([False, True] * 60))
    went = course([long], Estimation("mle"))
    assert len(went.visit) == MOST_ESTIMATES
    assert went.visit[[0, -1]].tolist() == [1, 119]
    assert went.low is went.high is None
    assert went.rate_per_day[-1] == pytest.approx(estimate("mle", *histories([long]))[0])


def test_gaps_between_updates_do_not_reach_from_page_to_page() -> None:
    pages = [page(False, True, False, True, days=2.0), page(False, True), page(False, False, True)]
    assert gaps_between_updates(pages).tolist() == [4.0]


def test_chances_are_those_of_the_plan_and_of_pages_that_it_leaves_out() -> None:
    config = config_of(experiment=ARMS)
    state = busy_state(config, sites=6)
    known = read_rows(state)
    plan = make_plan(state, config.ranking, NOW)
    gone = np.setdiff1d(known[0], plan.page_ids)
    assert len(gone)
    wanted = np.concatenate([plan.page_ids[:5], gone])
    chance = chances(state, config.ranking, wanted, known, NOW)
    assert [chance[key] for key in plan.page_ids[:5].tolist()] == pytest.approx(plan.p[:5])
    assert all(0.0 < chance[key] <= 1.0 for key in gone.tolist())


def test_a_page_in_the_document_has_its_visits_updates_and_new_links() -> None:
    state = empty_state()
    days = [40, 30, 20, 10]
    for day, links in zip(days, [{1}, {1, 2, 3}, {1}, {1, 4}], strict=True):
        state.record([Visit("http://a.example/", NOW - day * DAY, links=frozenset(links))])
    state.record([Visit("http://a.example/", NOW - DAY, News.GONE)])
    pages = data_of(state, config_of())["pages"]
    history = pages["history"][0]
    assert np.cumsum(history["at"]).tolist() == [NOW - day * DAY for day in days]
    assert history["updates"] == [1, 3]
    assert history["links"] == [2, 1]
    assert history["estimates"] == [1, 2, 3]
    assert history["rate"][-1] == pytest.approx(pages["rate"][0], rel=1e-3)
    assert pages["gone"] == [1]
    assert pages["rank"] == [None]


def test_the_document_has_how_often_pages_of_a_site_are_updated_together() -> None:
    state = empty_state()
    state.store.write_meta("siblings", {"togetherness": 0.5})
    state.read_prior()
    assert data_of(state, config_of())["together"] == 0.5
    assert data_of(state, config_of(siblings=False))["together"] is None


def test_the_document_lists_as_many_pages_and_runs_as_asked_for() -> None:
    config = config_of(experiment=ARMS)
    data = data_of(busy_state(config, sites=12), config, limit=3)
    assert data["counts"]["known"] == 48
    assert len(data["plan"]["pages"]) == 3
    assert data["plan"]["size"] > 40
    assert max(len(pages) for pages in data["lists"].values()) == 3
    assert len(set(data["runs"]["run"])) == 3
    assert data["runs"]["total"] == 25
    assert len(data["pages"]["id"]) <= 12


def test_first_visits_are_expected_to_find_nothing() -> None:
    state = empty_state()
    state.record([Visit("http://a.example/", NOW - DAY, News.FAILED)])
    plan = data_of(state, config_of())["plan"]
    assert (plan["size"], plan["firsts"], plan["expected"]) == (1, 1, 0)


def test_the_curve_adds_up_the_chances_of_the_plan() -> None:
    config = config_of()
    state = busy_state(config, sites=8)
    plan = data_of(state, config)["plan"]
    assert plan["curve"]["visits"][0] == plan["curve"]["expected"][0] == 0
    assert plan["curve"]["visits"][-1] == plan["size"]
    assert plan["curve"]["expected"][-1] == pytest.approx(plan["expected"], abs=0.01)
    assert all(one <= other for one, other in pairwise(plan["curve"]["expected"]))


def test_the_experiment_is_told_in_the_words_of_its_command() -> None:
    config = config_of(experiment=ARMS)
    told = data_of(busy_state(config, sites=6), config)["experiment"]
    assert [arm["arm"] for arm in told["arms"]] == ["hacs", "last-obs"]
    assert told["words"][0][0].startswith("Too early to compare hacs with last-obs")


@given(st.recursive(st.text() | st.floats(allow_nan=False, allow_infinity=False), st.lists))
def test_what_is_embedded_is_json_without_anything_that_html_takes_for_its_own(
    value: object,
) -> None:
    text = embedded({"value": value})
    assert json.loads(text) == {"value": value}
    assert not set(text) & set("<>&")
    assert text.isascii()


def test_the_page_loads_nothing_and_runs_no_script_but_its_own() -> None:
    page = html(data_of(empty_state(), config_of()))
    assert page.count("<script") == 2
    assert "default-src 'none'; style-src 'sha256-" in page
    assert "unsafe-" not in page
    assert " src=" not in page
    assert "{{" not in page


@pytest.mark.parametrize(
    ("state", "shown"),
    [
        ("redis://me:secret@host:6379/0?password=secret", "redis://host:6379/0"),
        ("rediss://:secret@host/1", "rediss://host/1"),
        ("sqlite:///.hacs/state.db", "sqlite:///.hacs/state.db"),
    ],
)
def test_the_states_address_is_shown_without_secrets(state: str, shown: str) -> None:
    assert describe(state) == shown

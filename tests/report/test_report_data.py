"""What a report is made of: overviews, runs, tables, and the document as a whole."""

import json
import re
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from calibration_support import drawn, keep
from hacs_crawler import report
from hacs_crawler.ranking.plan import make_plan, read_rows
from hacs_crawler.report.html import SCRIPTS, embedded, html
from hacs_crawler.report.numbers import (
    INTERVAL_EDGES_DAYS,
    REMARKABLE,
    UNKNOWN,
    chances,
    overview,
    yields,
)
from hacs_crawler.report.tables import newest_table
from hacs_crawler.report.words import of_delay, of_runs
from hacs_crawler.state import describe
from hacs_crawler.state.outcome_log import OUTCOME, SEEN, UPDATED, Label, Outcomes
from hacs_crawler.state.page import News, Page, Visit
from hacs_crawler.state.recorded import merged
from hacs_crawler.state.rows import ROW
from hacs_crawler.state.store import Rows
from hacs_crawler.utils.times import DAY
from report_support import NOW, busy_state, config_of, data_of, empty_state, first_run


def rows(**columns: list[float]) -> Rows:
    made = np.zeros(len(next(iter(columns.values()))), ROW)
    for name, values in columns.items():
        made[name] = values
    return made


def column(table: list[dict[str, Any]], title: str) -> list[Any]:
    return next(one["values"] for one in table if one["title"] == title)


def test_an_overview_counts_pages_by_what_was_seen_of_them() -> None:
    made = rows(
        visits=[0, 1, 2, 9, 9, 2],
        updates=[0, 0, 0, 3, 2, 0],
        rate=[0, 0.1, 0.1, 1.0, 0.02, 0.0],
        failures=[1, 0, 0, 0, 2, 0],
        last_visit=[0, NOW, NOW, NOW, NOW, NOW],
        last_update=[0, NOW, NOW - DAY, NOW - 3 * DAY, NOW - 31 * DAY, NOW - DAY],
        not_before=[0, 0, NOW + 1, NOW, 0, 0],
    )
    seen = overview(np.arange(100, 106), made, NOW)
    assert (seen.known, seen.visited, seen.evident) == (6, 5, 4)
    assert seen.intervals.sum() == 3
    assert seen.remarkable.tolist() == [102, 103, 104, 105]


def test_of_many_pages_the_slowest_and_those_gone_are_listed() -> None:
    number = 3 * REMARKABLE
    made = rows(
        visits=[3] * number,
        rate=np.arange(number, 0, -1).tolist(),
        last_visit=[NOW] * number,
        last_update=(NOW - np.arange(number)).tolist(),
        not_before=[NOW + DAY, *[0] * (number - 1)],
    )
    listed = overview(np.arange(number), made, NOW).remarkable.tolist()
    assert listed == [0, *range(number - REMARKABLE, number)]


def test_intervals_beyond_the_classes_are_in_the_outer_ones() -> None:
    made = rows(visits=[2] * 3, rate=[1e6, 1 / 1.1, 1e-9])
    counts = overview(np.arange(3), made, NOW).intervals
    assert counts.sum() == 3
    assert counts[0] == counts[-1] == 1
    assert counts[np.searchsorted(INTERVAL_EDGES_DAYS, 1.1) - 1] == 1


LABELS = {
    number: Label(policy, "bayes", 365.0, "visit", siblings=True)
    for number, policy in enumerate(("hacs", "last-obs", "freshness"), 1)
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
    ranked = [(10, 1, 0.5, 3.0, found), (10, 1, 0.25, 3.0, SEEN), (10, 1, 0.25, 3.0, 0)]
    ranked += [(10, 1, 1.0, np.inf, SEEN), (10, 2, 0.5, 3.0, SEEN), (20, 1, 0.5, 3.0, found)]
    records = outcomes(*ranked)
    records["page_id"][-1] = 0
    table = yields(records, LABELS.get, 9)
    assert table["name"] == ["hacs", "last-obs", "hacs"]
    assert table["at"] == [10, 10, 20]
    assert table["visits"] == [3, 1, 1]
    assert table["firsts"] == table["unseen"] == [1, 0, 0]
    assert table["pages"] == [4, 1, 0]
    assert table["updates"] == table["links"] == [1, 0, 1]
    assert table["predicted"] == [0.75, 0.5, 0.5]
    assert table["bytes"] == [400, 100, 100]


@pytest.mark.parametrize(
    ("runs", "labels", "names", "at"),
    [
        ([10, 10], [3, 4], ["freshness", UNKNOWN], [10, 10]),  # visits count for their policy
        ([30, 10, 20], [1, 1, 1], ["hacs", "hacs"], [20, 30]),  # the latest runs are shown
        ([], [], [], []),
    ],
)
def test_yields_are_told_of_the_latest_runs_by_the_names_of_policies(
    runs: list[int], labels: list[int], names: list[str], at: list[int]
) -> None:
    ranked = [(run, label, 0.5, 3.0, SEEN) for run, label in zip(runs, labels, strict=True)]
    table = yields(outcomes(*ranked), LABELS.get, 2)
    assert (table["name"], table["at"]) == (names, at)
    assert set(map(len, table.values())) == {len(at)}


def test_chances_are_those_of_the_plan_and_of_pages_that_it_leaves_out() -> None:
    config = config_of()
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
        state.record([Visit("http://a.example/", NOW - day * DAY, marks=frozenset(links))])
    state.record([Visit("http://a.example/", NOW - DAY, News.GONE)])
    data = data_of(state, config_of())
    history, pages = data["histories"][0], data["tables"]["pages"]
    assert np.cumsum(history["at"]).tolist() == [NOW - day * DAY for day in days]
    assert history["updates"] == [1, 3]
    assert history["links"] == [2, 1]
    assert column(pages, "Status")[0].startswith("gone, left alone until ")
    assert column(pages, "Next") == [None]
    assert column(data["tables"]["newest"], "What") == [["1 link"]]


def test_an_update_that_brought_nothing_says_how_much_has_gone() -> None:
    page = Page("http://a.example/")
    for day, marks in enumerate(({1, 2}, {1}), 1):
        page = merged(page, Visit(page.url, day * DAY, marks=frozenset(marks)), "any-change").after
    assert newest_table({1: page}, {}, "text")[1].values == [["1 text gone"]]


def test_pages_stand_in_the_order_of_the_plan_and_updates_found_last_come_first() -> None:
    config = config_of(budget=20)
    tables = data_of(busy_state(config, sites=12), config)["tables"]
    pages, found = tables["pages"], column(tables["newest"], "Found")
    assert found == sorted(found, reverse=True)
    assert len(found) > 20
    assert column(pages, "Next")[:20] == list(range(1, 21))
    assert set(column(pages, "Next")[20:]) == {None}
    assert len(column(pages, "Page")) == 48


def test_the_curve_adds_up_the_chances_of_the_plan() -> None:
    config = config_of()
    state = busy_state(config, sites=8)
    curve = data_of(state, config)["charts"]["plan"]
    plan = make_plan(state, config.ranking, NOW)
    assert curve["visits"][0] == curve["expected"][0] == 0
    assert curve["visits"][-1] == len(plan)
    assert curve["expected"][-1] == pytest.approx(plan.p[plan.visits > 0].sum(), rel=0.01)
    assert all(one <= other for one, other in pairwise(curve["expected"]))


def test_the_first_sentence_says_how_far_things_are() -> None:
    said = "Every visit so far was a page's first: ", "In the last 30 days "
    for state, beginning in zip((first_run(), busy_state(config_of(), 6)), said, strict=True):
        (headline,) = data_of(state, config_of())["words"]["headline"]
        assert headline.startswith(beginning)


def test_what_the_runs_saved_and_what_an_update_cost_is_said() -> None:
    """Of 24 pages all were visited twice, and then a half."""
    runs = {"at": [1, 2, 3], "visits": [24, 24, 12], "pages": [24, 0, 0]}
    runs |= {"updates": [0, 10, 10], "bytes": [9_000, 9_000, 6_000]}
    saved, cost = of_runs(runs)
    assert saved.startswith("3 runs made 60 visits to ranked pages. ")
    assert saved.endswith("all these pages in every run, 72 visits would have been needed.")
    assert cost == "An update cost 3.0 ranked visits and 1.2 kB, first visits included."
    assert of_runs({name: values[:1] for name, values in runs.items()}) == []


def test_a_sentence_replaces_charts_of_runs_if_few_of_the_visited_pages_were_ranked() -> None:
    few, all_ranked = (data_of(first_run(more), config_of(watch="items")) for more in (30, 0))
    (sentence,) = few["words"]["runs"]
    assert sentence.startswith("Of 42 pages visited since the latest run began, only 12 had been ")
    assert few["words"]["headline"][1:] == [sentence]
    assert (few["hasRunCharts"], all_ranked["hasRunCharts"]) == (False, True)
    titles = {one["title"] for one in few["tables"]["runs"]}
    assert "New items and list entries" in titles
    assert "New to the site" not in titles


def test_how_much_sooner_updates_were_found_than_in_turn_is_said() -> None:
    """Two of ten pages are visited each day, the one that changes every second day."""
    found = np.zeros(8, OUTCOME)
    found["run"] = np.repeat(np.arange(4) * DAY, 2)
    found["days_since_visit"] = [2.0, 9.0] * 4
    found["flags"] = [SEEN | UPDATED, SEEN] * 4
    (sentence,) = of_delay(found, number=10)
    assert sentence.startswith("On average, an update was found 1.0 days after it happened. ")
    assert sentence.endswith("it would have been found after 2.5 days.")
    assert of_delay(found, number=3) == of_delay(found[:2], number=10) == []


@given(st.recursive(st.text() | st.floats(allow_nan=False, allow_infinity=False), st.lists))
def test_what_is_embedded_is_json_without_anything_that_html_takes(value: object) -> None:
    text = embedded({"value": value})
    assert json.loads(text) == {"value": value}
    assert not set(text) & set("<>&")
    assert text.isascii()


def test_the_page_loads_nothing_and_runs_no_script_but_its_own() -> None:
    page = html(data_of(empty_state(), config_of()))
    assert len(re.findall("^<script", page, re.M)) == 2
    policy = page[page.index("default-src") : page.index("base-uri")]
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-")
    assert " src=" not in page
    assert not re.search(r"\{\{ \w+ \}\}", page)


def test_the_states_address_is_shown_without_secrets() -> None:
    shown = {
        "redis://me:secret@host:6379/0?password=secret": "redis://host:6379/0",
        "rediss://:secret@host/1": "rediss://host/1",
        "sqlite:///.hacs/state.db": "sqlite:///.hacs/state.db",
    }
    assert {state: describe(state) for state in shown} == shown


def test_predictions_worse_than_a_constant_are_named_with_what_helps() -> None:
    state = empty_state()
    keep(state, drawn(3_000, lambda p: 0.1 * p))
    (_, advice) = data_of(state, config_of())["words"]["calibration"]
    assert advice.startswith("The skill of hacs is negative: 2.")
    assert "do not use `HACS_THRESHOLD`" in advice
    assert '; `HACS_UPDATES = "site"`, if new entries of a list move others' in advice
    state = empty_state()
    keep(state, drawn(3_000, lambda p: p))
    assert len(data_of(state, config_of())["words"]["calibration"]) == 1


# What the report is drawn with is what others published, and is as small as it is said to be

FOLDER = Path(report.__file__).parent
VENDOR = FOLDER / "vendor"
VENDORED = re.compile(r"`[^`]*/([^`/]+)` \| \[\w+\]\(([^)]+)\) \| `(\w{64})`")


def test_files_of_others_are_unchanged_and_have_their_licences() -> None:
    rows = VENDORED.findall((VENDOR / "README.md").read_text("utf-8"))
    assert {name for name, _, _ in rows} == {path.name for path in VENDOR.glob("*.js")}
    assert {name for name, _, _ in rows} == set(SCRIPTS)
    for name, licence, digest in rows:
        assert sha256((VENDOR / name).read_bytes()).hexdigest() == digest
        assert "Permission" in (VENDOR / licence).read_text("utf-8")


def test_the_report_is_at_most_a_thousand_lines_of_ours() -> None:
    ours = [path for path in FOLDER.iterdir() if path.suffix in {".py", ".js", ".css", ".html"}]
    assert sum(len(path.read_text("utf-8").splitlines()) for path in ours) <= 1_000

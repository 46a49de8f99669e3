"""`hacs show`, and what would make a page be visited next."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import msgpack
from typer.testing import Result

from cli_support import NOW, hacs, opened, record, visits
from hacs_crawler.links import menu_id, page_id_of, site_id
from hacs_crawler.parts.rendering.verdicts import PageRendering, SiteRendering, Verdict, visit_text
from hacs_crawler.ranking.plan import BlockReason, Forecast, forecast_of, make_plan, read_rows
from hacs_crawler.ranking.policies import POLICIES
from hacs_crawler.state import ROW, Annotation, Estimation, Harvest, MemoryStore, News, State, Visit
from hacs_crawler.state.store import Change
from hacs_crawler.utils.times import DAY
from hacs_crawler.watch.settings import mark_rules
from row_states import options

ADA = "http://example.edu/~ada/"


def url(number: int) -> str:
    return f"http://example.edu/~a{number}/"


def often(address: str, updates: int, number: int = 12) -> list[Visit]:
    """Visits of which so many, spread over all of them, found an update."""
    shown = [set(range(place * updates // (number - 1) + 1)) for place in range(number)]
    return visits(address, shown)


HISTORY = [visit for number in range(10) for visit in often(url(number), number)]


def state_of(*history: Visit, estimator: str = "bayes") -> State:
    state = State(MemoryStore(), Estimation(estimator))
    state.record(history)
    return state


def forecast(state: State, address: str, now: float = NOW, **settings: object) -> Forecast:
    chosen = options(**settings)
    whole = make_plan(state, replace(chosen, budget=None), now)
    page_ids, rows = read_rows(state)
    siblings = page_ids[own := rows["site"] == site_id(address)], rows[own]
    return forecast_of(page_id_of(address), siblings, state, chosen, now, whole)


def test_a_gone_page_waits_until_its_time_is_over() -> None:
    gone = Visit(url(3), NOW - DAY, News.GONE)
    found = forecast(state_of(*HISTORY, gone), url(3), budget=3)
    assert (found.reason, found.at, found.rank) == (BlockReason.GONE, NOW + 6 * DAY, None)


@pytest.mark.parametrize("policy", ["hacs", "balanced"])
def test_a_page_behind_the_budget_passes_its_last_page_at_the_time_foretold(policy: str) -> None:
    state = state_of(*HISTORY)
    found = forecast(state, url(5), budget=3, policy=policy)
    assert (found.reason, found.rank) == (BlockReason.BUDGET, 5)
    assert found.at is not None

    score = POLICIES[policy]
    least = score(make_plan(state, options(policy=policy, budget=3), NOW)).min()

    def passes(at: float) -> bool:
        (then,) = score(make_plan(alone, options(policy=policy), at))
        return bool(then > least)

    alone = state_of(*(visit for visit in HISTORY if visit.url == url(5)))
    assert passes(found.at + 60)
    assert not passes(found.at - 60)


def test_with_last_obs_the_oldest_visit_in_the_budget_is_to_be_passed() -> None:
    older = visits(url(10), [{1}, {1}])
    older = [Visit(one.url, one.at - 5 * DAY, marks=one.marks) for one in older]
    found = forecast(state_of(*HISTORY, *older), url(3), policy="last-obs", budget=1)
    assert found.at == pytest.approx(NOW + 5 * DAY, abs=1)


@pytest.mark.parametrize("policy", ["random", "hacs"])
def test_where_time_alone_changes_nothing_no_time_is_foretold(policy: str) -> None:
    state = state_of(*HISTORY, estimator="mle")
    held = [forecast(state, url(number), policy=policy, budget=1) for number in range(10)]
    behind = next(one for one in held if one.reason is BlockReason.BUDGET)
    assert behind.at is None
    assert behind.ranked == 10


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    ada = visits(ADA, [{1}, {1, 2, 3}, {1, 2, 3}])
    captured = Visit(ADA, 15_000 * DAY, marks=frozenset({1}), harvest=Harvest(255, 15_000 * DAY))
    failed = (Visit(ADA, NOW - days * DAY, News.FAILED) for days in (3, 2))
    record(tmp_path, [*HISTORY, captured, *ada, *failed])
    return tmp_path


def hacs_show(folder: Path, *arguments: str) -> Result:
    return hacs(folder, "show", *arguments)


def facts_of(folder: Path, address: str, *arguments: str) -> dict[str, Any]:
    return json.loads(hacs_show(folder, address, "--json", *arguments).stdout)


@pytest.mark.parametrize("text", ["www.example.edu/~ada", "example.edu/~ada/", ADA])
def test_a_page_is_known_by_its_url_without_scheme(folder: Path, text: str) -> None:
    assert hacs_show(folder, text).stdout.splitlines()[0] == ADA


def test_a_pages_history_is_shown_latest_visit_first(folder: Path) -> None:
    lines = hacs_show(folder, "https://www.example.edu/~ada").stdout.splitlines()
    assert lines[0] == ADA
    facts = {line[2:13].strip(): line[14:] for line in lines[1 : lines.index("")]}
    assert facts["seen"].startswith(
        "4 visits kept since 2011-01-26 00:00, 1 with an update; last 10 d"
    )
    assert facts["failures"].startswith("2 attempts since then failed, the last one 2024-10-02")
    p, halved = facts["p now"].split(", ranked as ")
    assert halved == f"{float(p) / 2:.4f}: failed attempts halve it"
    assert facts["archive"] == "captures of source 000000ff are recorded until 2011-01-26 00:00"
    assert "80 % of the posterior" in facts["rate"]
    assert facts["rank"].endswith(" of 11 pages")
    assert facts["next visit"] == "in the next crawl that requests it"
    outcomes = [line.split(maxsplit=2)[2] for line in lines[lines.index("") + 1 :]]
    assert outcomes == ["nothing new", "update, 2 new links", "nothing new", "first visit"]


def test_an_update_is_named_by_what_was_watched_then(tmp_path: Path) -> None:
    texts = mark_rules("css:p").fingerprint
    with opened(tmp_path) as state:
        for day, rules in ((6, 4), (5, 4), (4, 7), (3, 7), (2, texts), (1, texts)):
            state.record([Visit(ADA, NOW - day * DAY, marks=frozenset({day, 9}), rules=rules)])
        state.record([Visit(ADA, NOW - DAY // 2, marks=frozenset({1}), rules=texts)])
    any_change = ("-s", "HACS_WATCH=css:p", "-s", "HACS_UPDATES=any-change")
    hacs(tmp_path, "estimate", *any_change)
    lines = hacs_show(tmp_path, ADA, *any_change).stdout.splitlines()
    assert lines.pop(-7).endswith("   update, 1 text gone")
    baseline = "a baseline: what is watched had changed"
    updates = [f"update, 1 new {noun}" for noun in ("text", "or changed item", "link")]
    named = [updates[0], baseline, updates[1], baseline, updates[2]]
    assert all(map(str.endswith, lines[-6:-1], (f"   {text}" for text in named)))
    assert lines[1].endswith("; 7 marks so far")


def test_how_often_pages_of_a_site_are_updated_together_is_shown(folder: Path) -> None:
    with opened(folder) as state:
        cv = [Visit(f"{ADA}cv.html", NOW - day * DAY, marks=frozenset({1})) for day in (30, 1)]
        state.record(cv)
        state.store.write_meta({"siblings": {"sibling_correlation": 0.5}})
    shown = hacs_show(folder, ADA).stdout
    effect = r"together: 0\.50; their history makes an update [12]\.\d+ times less likely\n"
    assert re.search(f"1 other page of its site; pages of a site are updated {effect}", shown)
    shown = hacs_show(folder, url(1)).stdout
    assert "siblings    no other page of its site is known" in shown
    assert "siblings" not in hacs_show(folder, ADA, "-s", "HACS_SIBLINGS=False").stdout
    facts = facts_of(folder, ADA)
    assert (facts["siblings"], facts["sibling_correlation"]) == (1, 0.5)
    assert facts["p"] < facts["p_without_siblings"]


@pytest.mark.parametrize(("ago", "times"), [(600, "more than 100"), (DAY, "20.3")])
def test_a_large_effect_of_siblings_is_not_given_as_a_number(
    tmp_path: Path, ago: int, times: str
) -> None:
    record(tmp_path, [Visit(ADA, NOW - ago, marks=frozenset({1}))])
    quiet = [NOW - ago - 1 - 40 * DAY * number for number in range(9, -1, -1)]
    marks_at = {**dict.fromkeys(quiet, frozenset({1})), NOW - 1: frozenset({2})}
    for page in "abc":
        record(tmp_path, (Visit(f"{ADA}{page}", at, marks=marks) for at, marks in marks_at.items()))
    with opened(tmp_path) as state:
        state.store.write_meta({"siblings": {"sibling_correlation": 0.99}})
    shown = hacs_show(tmp_path, ADA).stdout
    assert f"their history makes an update {times} times likelier" in shown


def test_what_keeps_it_from_being_visited_is_said_in_words(folder: Path) -> None:
    record(folder, [Visit(ADA, NOW - DAY, News.GONE)])
    gone = "not before 2024-10-10 00:00: it is gone"
    for page, setting, said in (
        (url(1), "BUDGET=2", "when it passes the last page within the budget (p = "),
        (url(1), "BUDGET=2", "if no other page changes"),
        (url(1), "THRESHOLD=0.6", "when it passes the threshold of 0.6"),
        (url(1), "PAGES=all", "in the next crawl that requests it (with HACS_REVISIT, any does)\n"),
        (ADA, "BUDGET=2", f"  next visit  {gone}\n"),
        (ADA, "THRESHOLD=0.6", f"  next visit  {gone}\n"),
        (ADA, "PAGES=all", f"  next visit  when a crawl requests it; with a budget {gone}\n"),
    ):
        assert said in hacs_show(folder, page, "-s", f"HACS_{setting}").stdout


def test_json_has_every_visit_and_what_the_text_says(folder: Path) -> None:
    shown = facts_of(folder, ADA)
    assert [one["new_links"] for one in shown["visits"]] == [0, 0, 2, 0]
    assert [one["is_update"] for one in shown["visits"]] == [False, False, True, False]
    assert shown["visits"][-1]["at"] == "2024-09-24T00:00:00Z"
    low, high = shown["rate_interval"]
    assert low < shown["rate_per_day"] < high
    assert (shown["failures"], shown["gone"], shown["reason"]) == (2, 0, "nothing")
    assert shown["harvests"] == [{"source": "000000ff", "until": "2011-01-26T00:00:00Z"}]
    shown = json.loads(hacs_show(folder, ADA, "--json", "-s", "HACS_ESTIMATOR=mle").stdout)
    assert shown["rate_interval"] is None, "it has no posterior"


def test_an_estimate_from_the_prior_alone_is_shown_as_such(folder: Path) -> None:
    once = f"{ADA}once"
    record(folder, [Visit(once, NOW - DAY, marks=frozenset())])
    assert "the prior: a rate of its own takes 2 visits" in hacs_show(folder, once).stdout
    assert facts_of(folder, once)["rate_is_prior"] is True
    assert facts_of(folder, ADA)["rate_is_prior"] is False


def test_a_doubtful_visit_is_told_from_one_that_did_not_show_the_page(tmp_path: Path) -> None:
    page, blocked = frozenset(range(10)), frozenset({99})
    record(tmp_path, [Visit(ADA, NOW - (9 - n) * DAY, marks=page) for n in range(3)])
    record(tmp_path, [Visit(ADA, NOW - 3 * DAY, marks=blocked)])
    assert "doubtful    1 visit that lacked a quarter or more" in hacs_show(tmp_path, ADA).stdout
    record(tmp_path, [Visit(ADA, NOW - 2 * DAY, marks=page)])
    facts = facts_of(tmp_path, ADA)
    assert (facts["visits_doubtful"], facts["visits_unread"]) == (0, 1)
    assert "1 visit that did not show the page, or a change" in hacs_show(tmp_path, ADA).stdout


@pytest.mark.parametrize("command", ["show", "forget", "new"])
def test_a_host_that_the_state_does_not_know_is_named(
    command: str, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    if command != "show":
        hacs(folder, command, *["--site"] * (command == "new"), "http://example.edu/a")
        assert "http://example.edu/a; a host alone is example.edu" in caplog.text
    for host, is_known in (("nowhere.example", False), ("example.edu", True)):
        caplog.clear()
        option = ["--site"] * (command == "new")
        ended = hacs(folder, command, *option, host)
        assert ended.exit_code == (not is_known), ended.output
        assert (f"knows no page of the host {host}" in caplog.text) is not is_known


def test_visits_later_than_now_are_set_aside_and_counted(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = facts_of(folder, ADA)
    assert before["visits_set_aside"] == 0
    days = (400, 401, 402)
    record(folder, (Visit(ADA, NOW + day * DAY, marks=frozenset({day})) for day in days))
    after = facts_of(folder, ADA)
    assert after.pop("visits_set_aside") == 3
    assert "1 page has visits later than now, the latest at 2025-11-10 00:00 UTC" in caplog.text
    for key in ("visits", "p", "rank", "rate_per_day", "reason", "links"):
        assert after[key] == before[key]
    assert "set aside   3 visits later than now" in hacs_show(folder, ADA).stdout


def test_an_unknown_page_is_named_with_known_ones_of_its_site(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert hacs_show(folder, ADA + "cv.html").exit_code == 1
    (said,) = (record.message for record in caplog.records)
    assert said.startswith(f"the state does not know {ADA}cv.html (of 11 pages); of the same site")
    assert said.endswith(ADA)


def test_a_damaged_page_is_named(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    damaged = Change(page_id_of(f"{ADA}cv"), 0, b"\x01rubbish", bytes(ROW.itemsize))
    with opened(folder) as state:
        state.store.write([damaged])
    assert hacs_show(folder, f"{ADA}cv").exit_code == 1
    assert caplog.records[-1].message == f"the record of {ADA}cv in the state is damaged"


# Localized rates

BOB = "http://example.edu/~bob/"


def test_a_localized_rate_is_named(folder: Path) -> None:
    record(folder, often(BOB, 11))
    by_weibull = (BOB, "-s", "HACS_ESTIMATOR=weibull")
    assert "by weibull" in hacs_show(folder, *by_weibull).stdout
    facts = facts_of(folder, *by_weibull)
    assert (facts["rate_estimator"], facts["rate_interval"]) == ("weibull", None)


def test_a_page_of_few_updates_falls_back_to_bayes_and_says_so(folder: Path) -> None:
    shown = hacs_show(folder, ADA, "-s", "HACS_ESTIMATOR=duane").stdout
    assert "80 % of the posterior" in shown
    assert "by bayes: duane takes 4 updates" in shown
    by = [facts_of(folder, ADA, "-s", f"HACS_ESTIMATOR={name}") for name in ("duane", "bayes")]
    assert [facts["rate_estimator"] for facts in by] == ["bayes"] * 2
    assert by[0]["rate_per_day"] == by[1]["rate_per_day"]


def test_whether_a_visit_needs_a_browser_is_shown(folder: Path) -> None:
    assert "a visit" not in hacs_show(folder, ADA).stdout
    marks = ((page_id_of(ADA), PageRendering()), (menu_id(ADA), SiteRendering(browser=3)))
    with opened(folder) as state:
        for key, mark in marks:
            state.store.annotate(mark.KIND, [Annotation(key, b"", msgpack.encode(mark))])
    shown = hacs_show(folder, ADA).stdout
    assert "a visit     the site's other pages need a browser" in shown
    assert facts_of(folder, ADA)["rendered"]


@pytest.mark.parametrize(
    ("page", "site", "text"),
    [
        (PageRendering(), SiteRendering(), ""),
        (PageRendering(Verdict.BROWSER), SiteRendering(), "a browser shows links that the plain"),
        (PageRendering(Verdict.PLAIN), SiteRendering(browser=3), "a browser shows no more links"),
        (PageRendering(), SiteRendering(browser=3), "the site's other pages need a browser"),
    ],
)
def test_what_is_known_of_rendering_is_said_in_words(
    page: PageRendering, site: SiteRendering, text: str
) -> None:
    assert visit_text(page, site).startswith(text)
    assert bool(visit_text(page, site)) is bool(text)


def test_of_a_page_that_may_churn_no_interval_is_claimed_that_takes_its_updates_for_time_s(
    folder: Path,
) -> None:
    url = "http://trap.example/"
    with opened(folder) as state:
        for day in range(1, 11):
            state.record([Visit(url, NOW - (11 - day) * DAY, marks=frozenset({0, day}))])
    found = facts_of(folder, url)
    assert found["churning"] > 0.9
    assert found["rate_interval"] is None
    assert "of the posterior" not in hacs_show(folder, url).stdout

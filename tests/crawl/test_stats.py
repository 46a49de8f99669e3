"""What a crawl counts, and the sentence that sums it up."""

import logging
import math
import re

import pytest
from msgspec import structs
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.test import get_crawler

from hacs_crawler.crawl.stats import _REMARKS, CrawlStats
from hacs_crawler.ranking.demands import Demanded
from hacs_crawler.state import Page, Prediction, Recorded, Visit, merged
from hacs_crawler.state.rule_changes import ITEMS
from hacs_crawler.watch import ONLY_REQUESTS


@pytest.fixture
def stats(caplog):
    caplog.set_level(logging.INFO)
    return CrawlStats(MemoryStatsCollector(get_crawler()))


def summary(stats, caplog, counts=()):
    """The lines at the end of a run in which that was counted, too."""
    for name, number in dict(counts).items():
        stats.count(name, number)
    caplog.clear()
    stats.log_summary()
    return caplog.messages


def recorded(p: float, is_update: bool, *, days: float = 1.0, seconds: int = 31) -> Recorded:
    """A second visit of a page, with what was predicted of it."""
    url = "http://a.example/"
    before = merged(Page(url), Visit(url, 1, marks=frozenset({1}))).after
    prediction = Prediction(1, 1, p, 0.1, days, 0.0)
    shown = frozenset({1, 2} if is_update else {1})
    visit = Visit(url, 1 + seconds, marks=shown, prediction=prediction)
    return merged(before, visit)


def test_the_end_of_a_run_says_how_many_updates_were_predicted_and_found(stats, caplog):
    p, found = [0.5, 0.25, 1.0, 0.125], [True, False, True, False]
    made = [*map(recorded, p, found)]
    for some in (made[:1], made[1:]):
        stats.count_recorded(some, "page")
    assert stats.found_updates == sum(found)
    assert stats.expected_updates == pytest.approx(sum(p))
    assert stats.predicted == 4
    assert stats.collector.get_value("hacs/expected_updates") == sum(p)
    assert stats.collector.get_value("hacs/found_updates") == 2
    said = "HACS visited 4 pages: 2 new links on 2 pages (1.9 expected)."
    assert summary(stats, caplog) == [said]


def test_of_a_page_that_was_not_known_when_it_was_ranked_nothing_is_expected(stats, caplog):
    stats.count_recorded([recorded(0.5, True), recorded(0.5, True, days=math.inf)], "page")
    assert (stats.predicted, stats.found_updates) == (1, 1)
    assert summary(stats, caplog) == ["HACS visited 2 pages: 2 new links on 2 pages."]


@pytest.mark.parametrize(
    ("rules", "own", "said"),
    [(0, 0, ["2 pages were"]), (0, 1, ["1 page was"]), (0, 2, []), (ITEMS, 0, [])],
)
def test_visits_soon_after_others_are_said_unless_hacs_made_them(stats, caplog, rules, own, said):
    visits = [recorded(0.5, False, seconds=seconds) for seconds in (1, 30, 31)]
    for some in visits:
        some.after.rule_changes = {1: rules}
    stats.count_recorded(visits, "page")
    again, lines = " visited again within 30 s: ", summary(stats, caplog, {"controls": own})
    assert [line.split(again)[0] for line in lines if again in line] == said


@pytest.mark.parametrize(
    ("counts", "sentence"),
    [
        ({}, "0 pages."),
        ({"visits": 1, "first_visits": 1}, "1 page, for the first time."),
        ({"visits": 2, "first_visits": 2}, "2 pages, all for the first time."),
        ({"visits": 2, "first_visits": 1}, "2 pages, 1 for the first time: nothing new."),
        ({"visits": 2, "updates": 1, "new_links": 1}, "2 pages: 1 new link on 1 page."),
        (
            {"visits": 51, "updates": 21, "new_links": 24, "gone": 3, "dropped/budget": 158},
            "51 of 212 requested pages: 24 new links on 21 pages. 3 pages answered 404 or "
            "410. Requests left for next time: 158.",
        ),
        ({"visits": 2, "updates": 2}, "2 pages: 2 pages changed."),
        (
            {"visits": 30, "updates": 14, "losses": 3, "new_links": 12},
            "30 pages: 12 new links on 11 pages, and links gone from 3.",
        ),
        (
            {"visits": 2, "not_observed": 3, "not_observed/nothing_shown": 2},
            "2 of 5 requested pages: nothing new. 3 were not seen.",
        ),
        (
            {"not_observed": 1, "dropped/threshold": 1, "dropped/budget": 2, "dropped/gone": 9},
            "0 of 4 requested pages. 1 request failed. Requests left for next time: 3. 9 "
            "pages are gone and wait.",
        ),
        ({"dropped/gone": 1}, "0 pages. 1 page is gone and waits."),
        (
            {"gone": 1, "not_observed": 2, "not_observed/nothing_shown": 1},
            "0 of 3 requested pages. 3 were not seen.\nNot seen: 1 page "
            "showed no links, 1 page answered 404 or 410, 1 request failed",
        ),
        (
            {"not_observed": 7, "not_observed/other_type": 4, "not_observed/rejected": 3},
            "0 of 7 requested pages. 4 answers had another type.",
        ),
        (
            {"visits": 2, "doubtful": 2},
            "2 of 4 requested pages: nothing new.\n1 visit lacked a quarter or more of "
            "what the page had shown before, as a block page does: if the next visit confirms the "
            "change, that one counts; one is of http://a.example/1",
        ),
    ],
)
def test_the_sentence_leaves_zeros_out_and_unseen_pages_get_a_line(stats, caplog, counts, sentence):
    for number in range(counts.get("doubtful", 0)):
        stats.count_not_observed("doubtful", f"http://a.example/{number}")
    stats.doubtful.pop("http://a.example/0", None)
    assert "\n".join(summary(stats, caplog, counts)).startswith(f"HACS visited {sentence}")
    assert len(re.findall(r"\d+", caplog.messages[0].replace("404 or 410", ""))) <= 7


def test_a_page_that_only_lost_links_has_no_new_ones(stats, caplog):
    before = merged(Page("a"), Visit("a", 1, marks=frozenset(range(10)))).after
    lost = merged(before, Visit("a", 99, marks=frozenset(range(9))), "any-change")
    stats.count_recorded([lost], "any-change")
    assert summary(stats, caplog) == ["HACS visited 1 page: links gone from 1 page."]


@pytest.mark.parametrize(("baselines", "level"), [(2, logging.INFO), (3, logging.WARNING)])
def test_it_is_a_warning_that_most_visits_are_baselines(stats, caplog, baselines, level):
    summary(stats, caplog, {"visits": 4, "baselines": baselines})
    said = f"{baselines} visits {_REMARKS['baselines']}"
    assert caplog.record_tuples[-1][1:] == (level, said)


def test_the_sentence_has_the_words_of_what_is_watched(stats, caplog):
    stats.watched = "item"
    found = summary(stats, caplog, {"visits": 9, "updates": 2, "new_links": 3})
    assert found == ["HACS visited 9 pages: 3 new or changed items on 2 pages."]
    stats.count_churning("http://a.example/", is_update=True)
    found, churning = summary(stats, caplog, {"list_updates": 1})
    assert found == "HACS visited 9 pages: 3 new or changed items on 1 page, and 1 changed list."
    assert churning.startswith("1 page seems to show something else at every request")
    assert churning.endswith("HACS_WATCH_IGNORE leaves such things out")


def test_the_sentence_counts_what_is_new_to_the_site_if_that_makes_an_update(stats, caplog):
    seen = recorded(0.5, True)
    for rules, new_to_site in ((0, {2}), (0, set()), (ONLY_REQUESTS.fingerprint, set())):
        visit = structs.replace(seen.visit, rules=rules)
        some = structs.replace(seen, visit=visit, new_to_site=frozenset(new_to_site))
        stats.count_recorded([some], "site")
    said = "HACS visited 3 pages: 1 new link on 1 page (1.5 expected)."
    assert summary(stats, caplog)[0] == said


def test_what_a_run_did_beside_its_list_is_a_line_of_its_own(stats, caplog):
    for _ in range(3):
        stats.count_extra("controls", "control visit")
    stats.count_extra("render/pages", "rendered page")
    stats.count_not_observed("nothing_shown", "http://a.example/")
    (first, *_) = summary(stats, caplog, {"visits": 5})
    assert "nothing new. 1 page showed no links, such as http://a.example/." in first
    for reason, cause in (("empty", ""), ("status", "status 403"), ("status", "status 403")):
        stats.count_not_observed(reason, "", cause=cause)
    lines = summary(stats, caplog)
    failed = "3 requests failed (2 x status 403, 1 x empty)"
    shown = "1 page showed no links, such as http://a.example/"
    assert lines[-2] == f"Not seen: {shown}, {failed}"
    assert "Not counted as visits: 3 control visits, 1 rendered page" in lines
    stats.begin_round()
    assert len(summary(stats, caplog)) == 1


def test_pages_of_which_a_crawl_visits_none_again_are_counted(stats, caplog):
    stats.count("visits", 30)
    stats.count("first_visits", 30)
    stats.count_not_observed("status", "")
    stats.count("gone")
    assert stats.saw_only_new_pages
    stats.log_pages_known_before(32, "sqlite:///state.db")
    assert caplog.messages[-1].startswith("sqlite:///state.db is a new state. If ")
    stats.log_pages_known_before(44, "")
    assert caplog.messages[-1].startswith(
        "None of the 12 pages that the state knew before was visited"
    )
    stats.count("dropped/budget", 12)
    caplog.clear()
    stats.log_pages_known_before(44, "")
    assert not caplog.messages
    stats.count_not_observed("doubtful", "")
    assert not stats.saw_only_new_pages


@pytest.mark.parametrize(("pages", "is_said"), [("all", False), ("start", True), ((), True)])
def test_a_crawl_none_of_whose_answers_is_a_page_says_why(stats, caplog, pages, is_said):
    stats.not_a_page, stats.readable_answers = "http://a.example/1", 1
    stats.log_if_few_were_pages(pages, None)
    assert ("HACS_PAGES" in caplog.text) is is_said
    stats.count("dropped/budget")
    caplog.clear()
    stats.log_if_few_were_pages((), None)
    assert caplog.messages == []


@pytest.mark.parametrize(("answers", "readable", "is_said"), [(1, 23, 1), (1, 2, 0), (20, 23, 0)])
def test_a_crawl_with_few_answers_of_pages_says_how_many(stats, caplog, answers, readable, is_said):
    stats.count("visits", answers)
    stats.answers, stats.readable_answers = answers, readable
    for budget, and_ in ((None, ""), (9, ", and HACS_BUDGET = 9 does not limit the others")):
        stats.log_if_few_were_pages("start", budget)
        said = [f"recorded, {answers} of {readable} requests{and_}: set" in caplog.text]
        assert said == [is_said]
    caplog.clear()
    stats.log_if_few_were_pages("all", 9)
    assert caplog.messages == []


@pytest.mark.parametrize(("budget", "days"), [(1, "0.5"), (8, "1")])
def test_runs_are_to_come_no_later_than_the_shortest_interval_ends(stats, caplog, budget, days):
    stats.known = Demanded(5, visits_a_day=2, shortest_days=1)
    stats.gauge_overdue(Demanded(1, visits_a_day=1, shortest_days=3), 2, budget)
    assert "5 pages are overdue, and this run visits 2. " in caplog.text
    assert caplog.text.endswith(f"if a run comes at least every {days} days\n")

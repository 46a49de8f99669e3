"""What a crawl counts, and the sentence that sums it up."""

import logging
import math
from array import array

import pytest
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.test import get_crawler

from hacs_crawler.crawl.stats import CrawlStats
from hacs_crawler.state import Estimation, Page, Prediction, Recorded, Visit, copy_of, merged


@pytest.fixture
def stats():
    return CrawlStats(MemoryStatsCollector(get_crawler()))


def recorded(p: float, is_update: bool, *, days: float = 1.0) -> Recorded:
    """A second visit of a page, with what was predicted of it."""
    url = "http://a.example/"
    before = merged(Page(url), Page(url), Visit(url, 1, marks=frozenset({1}))).after
    prediction = Prediction(1, 1, p, 0.1, days, 0.0)
    shown = frozenset({1, 2} if is_update else {1})
    visit = Visit(url, 2, marks=shown, prediction=prediction)
    return merged(before, copy_of(before), visit)


def test_the_end_of_a_run_says_how_many_updates_were_predicted_and_found(stats, caplog):
    p, found = [0.5, 0.25, 1.0, 0.125], [True, False, True, False]
    pairs = list(zip(p, found, strict=True))
    for some in (pairs[:1], pairs[1:]):
        stats.count_recorded([recorded(*pair) for pair in some], "page")
    assert stats.found_updates == sum(found)
    assert stats.expected_updates == pytest.approx(sum(p))
    assert stats.predicted == 4
    assert stats.collector.get_value("hacs/expected_updates") == sum(p)
    assert stats.collector.get_value("hacs/found_updates") == 2
    with caplog.at_level(logging.INFO):
        stats.log_summary()
    assert "of 4 ranked pages known before, 2 had an update and 1.9 were predicted" in caplog.text


def test_predictions_may_come_after_they_were_compared(stats):
    stats.count_recorded([recorded(0.5, True)], "page")
    assert stats.found_updates == 1
    stats.count_recorded([recorded(0.5, True)], "page")
    assert stats.found_updates == 2


def test_of_a_page_that_was_not_known_when_it_was_ranked_nothing_is_compared(stats):
    stats.count_recorded([recorded(0.5, True, days=math.inf)], "page")
    assert stats.predicted == 0


def test_a_run_without_predictions_is_summed_up_too(stats, caplog):
    with caplog.at_level(logging.INFO):
        stats.log_summary()
    assert "of 0 ranked pages known before, 0 had an update and 0.0 were predicted" in caplog.text


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (
            0,
            "visited 0 pages (0 for the first time) and found 0 updates with 0 new links; of",
        ),
        (
            1,
            "visited 1 page (1 for the first time) and found 1 update with 1 new link; of",
        ),
        (
            2,
            "visited 2 pages (2 for the first time) and found 2 updates with 2 new links; of",
        ),
    ],
)
def test_what_was_found_is_said_in_the_right_number(stats, caplog, number, expected):
    for name in ("visits", "first_visits", "updates", "new_links"):
        stats.count(name, number)
    with caplog.at_level(logging.INFO):
        stats.log_summary()
    assert expected in caplog.text


def test_what_was_skipped_is_said_by_its_reason(stats, caplog):
    for number, reason in enumerate(("threshold", "budget", "gone"), start=1):
        stats.count(f"dropped/{reason}", number)
    stats.count("not_observed")
    with caplog.at_level(logging.INFO):
        stats.log_summary()
    assert "skipped: 1 below threshold, 2 over budget, 3 gone; 1 request failed" in caplog.text


def test_what_a_run_did_beside_its_list_is_in_its_sentence(stats, caplog):
    for _ in range(3):
        stats.count_beside("controls", "control visit")
    stats.count_beside("render/pages", "rendered page")
    with caplog.at_level(logging.INFO):
        stats.log_summary()
    assert "failed; beside these 3 control visits, 1 rendered page" in caplog.text
    caplog.clear()
    stats.begin_round()
    with caplog.at_level(logging.INFO):
        stats.log_summary()
    assert "beside" not in caplog.text


@pytest.mark.parametrize(("firsts", "is_said"), [(0, False), (29, False), (30, True)])
def test_a_first_crawl_says_what_comes_next(stats, caplog, firsts, is_said):
    stats.count("visits", 30)
    stats.count("first_visits", firsts)
    with caplog.at_level(logging.INFO):
        stats.log_first_crawl(Estimation())
    expected = 30 * (
        1 - math.exp(-Estimation().rate_per_day(Page("http://a.example/", array("I", [0]))))
    )
    assert (f"; about {expected:.1f} updates are expected by tomorrow" in caplog.text) is is_said

"""What a crawl counts, and the sentence that sums it up."""

import logging

import pytest
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.test import get_crawler

from hacs_crawler.crawl.stats import CrawlStats
from hacs_crawler.statistics.scoring import summary


@pytest.fixture
def stats():
    return CrawlStats(MemoryStatsCollector(get_crawler()))


def test_the_end_of_a_run_compares_predictions_as_calibration_does(stats, caplog):
    p, found = [0.5, 0.25, 1.0, 0.125], [True, False, True, False]
    for pair in zip(p, found, strict=True):
        stats.count_prediction(*pair)
    assert stats.expectation() == summary(p, found)
    assert stats.predicted == 4
    assert stats.collector.get_value("hacs/expected_updates") == sum(p)
    assert stats.collector.get_value("hacs/found_updates") == 2
    with caplog.at_level(logging.INFO):
        stats.log_summary()
    assert "of 4 ranked pages known before, 2 had an update and 1.9 were predicted" in caplog.text


def test_predictions_may_come_after_they_were_compared(stats):
    stats.count_prediction(0.5, True)
    assert stats.expectation().found_updates == 1
    stats.count_prediction(0.5, True)
    assert stats.expectation().found_updates == 2


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

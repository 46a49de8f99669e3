"""Stats as Prometheus reads them."""

import pytest
from prometheus_client.core import CollectorRegistry
from prometheus_client.exposition import generate_latest

from hacs_crawler.parts.metrics import Metrics, metrics_of


def text_of(**stats: object) -> list[str]:
    class Source:
        def collect(self):
            return metrics_of(stats, "scholar")

        def describe(self) -> list[object]:
            return []

    registry = CollectorRegistry()
    registry.register(Source())
    lines = generate_latest(registry).decode().splitlines()
    return [line for line in lines if not line.startswith("#")]


@pytest.mark.parametrize(
    ("stats", "metrics"),
    [
        ({"hacs/visits": 3}, ['hacs_visits{spider="scholar"} 3.0']),
        (
            {"downloader/request_bytes": 7, "elapsed_time_seconds": 0.5},
            [
                'scrapy_downloader_request_bytes{spider="scholar"} 7.0',
                'scrapy_elapsed_time_seconds{spider="scholar"} 0.5',
            ],
        ),
        (
            {"hacs/not_observed": 4, "hacs/not_observed/status": 4},
            [
                'hacs_not_observed_by_reason{reason="status",spider="scholar"} 4.0',
                'hacs_not_observed{spider="scholar"} 4.0',
            ],
        ),
        (
            {"downloader/response_status_count/404": 3},
            ['scrapy_downloader_response_status_count{spider="scholar",value="404"} 3.0'],
        ),
        ({"finish_reason": "finished", "start_time": object(), "x": True}, []),
        (
            {'hacs/dropped/a "b"\\': 1},
            ['hacs_dropped_by_reason{reason="a \\"b\\"\\\\",spider="scholar"} 1.0'],
        ),
    ],
    ids=["of HACS", "of Scrapy", "by reason", "by status", "no numbers", "any label"],
)
def test_a_stat_is_a_metric_with_the_spiders_name(
    stats: dict[str, object], metrics: list[str]
) -> None:
    assert sorted(text_of(**stats)) == metrics


def test_nothing_is_promised_before_it_is_counted() -> None:
    assert list(Metrics.describe(object())) == []

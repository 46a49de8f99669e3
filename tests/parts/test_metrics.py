"""Stats as Prometheus reads them."""

import threading
from pathlib import Path
from urllib.request import urlopen

import pytest
from prometheus_client.core import CollectorRegistry
from prometheus_client.exposition import generate_latest
from scrapy.exceptions import NotConfigured

from crawl_support import new_crawler, open_crawl
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


def test_without_an_address_nothing_is_served() -> None:
    with pytest.raises(NotConfigured):
        Metrics.from_crawler(new_crawler())
    Metrics.from_crawler(new_crawler(HACS_METRICS="127.0.0.1:9"))


async def test_stats_are_served_until_the_crawl_ends(tmp_path: Path) -> None:
    async with open_crawl(tmp_path) as crawl:
        metrics = Metrics(crawl.crawler, ("127.0.0.1", 0))
        assert list(metrics.describe()) == [], "nothing is promised before it is counted"
        metrics.open(crawl.crawler.spider)
        (thread,) = [one for one in threading.enumerate() if "serve_forever" in one.name]
        url = f"http://127.0.0.1:{metrics._server.server_port}/metrics"
        with urlopen(url) as answer:
            assert (
                f'hacs_waiting_visits{{spider="{crawl.crawler.spider.name}"}} 0.0'
                in answer.read().decode()
            )
    thread.join(9)
    assert not thread.is_alive()
    with pytest.raises(OSError, match="refused"):
        urlopen(url)

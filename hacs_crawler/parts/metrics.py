"""A crawl's stats for Prometheus, over HTTP or in a file, if HACS_METRICS says so."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from scrapy import Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.utils.text import safe_logger

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

logger = safe_logger(__name__)

# Families of stats that become one metric: pattern, name of the metric, its label.
LABELS: Final = (
    (re.compile(r"hacs/(dropped|not_observed)/(?P<label>.+)"), "hacs_{}_by_reason", "reason"),
    (re.compile(r"hacs/archive/dropped/(?P<label>.+)"), "hacs_archive_dropped", "kind"),
    (
        re.compile(
            r"downloader/((?:response_status|request_method|exception_type)_count)/(?P<label>.+)"
        ),
        "scrapy_downloader_{}",
        "value",
    ),
)
_NOT_IN_NAMES: Final = re.compile(r"\W+", re.ASCII)


class Metrics:
    """Serves all numeric stats at `http://HOST:PORT/metrics` during the crawl.

    If `address` is a file, writes them to it at the end of the crawl.
    """

    def __init__(self, crawler: Crawler, address: tuple[str, int] | Path) -> None:
        self._crawler = crawler
        self._address = address
        self._server: Any = None
        if isinstance(address, Path):
            crawler.signals.connect(self.write, signals.engine_stopped)
            return
        crawler.signals.connect(self.open, signals.spider_opened)
        crawler.signals.connect(self.close, signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Serve at the address in HACS_METRICS; raises NotConfigured if it is empty."""
        address = Crawl.of(crawler).config.metrics
        if address is None:
            raise NotConfigured
        return cls(crawler, address)

    def open(self, spider: Spider) -> None:
        """Start the server; if that fails, the crawl does not start."""
        assert isinstance(self._address, tuple)  # noqa: S101 - else there is nothing to open
        host, port = self._address
        try:
            from prometheus_client import CollectorRegistry, start_http_server  # noqa: PLC0415

            registry = CollectorRegistry()
            registry.register(self)
            self._server, _ = start_http_server(port, host, registry)
        except ImportError as error:
            message = f"HACS_METRICS needs pip install 'hacs-crawler[metrics]' ({error})"
            Crawl.of(self._crawler).fail(message)
        except (OSError, OverflowError) as error:
            message = f"HACS_METRICS = '{host}:{port}': cannot listen there: {error}"
            Crawl.of(self._crawler).fail(message)

    def close(self, spider: Spider) -> None:
        """Stop serving."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def write(self) -> None:
        """Write the stats to the file atomically; errors are logged."""
        try:
            from prometheus_client import CollectorRegistry, write_to_textfile  # noqa: PLC0415

            registry = CollectorRegistry()
            registry.register(self)
            write_to_textfile(str(self._address), registry)
        except (ImportError, OSError) as error:
            logger.error("HACS_METRICS = '%s': cannot write it: %s", self._address, error)

    def collect(self) -> Iterator["Metric"]:
        """Yield the stats as metrics; called from the server's threads."""
        spider = self._crawler.spider
        stats = dict(self._crawler.stats.get_stats())
        waiting = Crawl.of(self._crawler).waiting_visits
        return metrics_of(stats | {"hacs/waiting_visits": waiting}, spider.name if spider else "")

    def describe(self) -> Iterable["Metric"]:
        """Return nothing: the set of metrics changes during the crawl."""
        return ()


def metrics_of(stats: Mapping[str, Any], spider: str) -> Iterator["Metric"]:
    """Yield numeric stats as Prometheus metrics, labelled with the spider's name."""
    from prometheus_client.core import GaugeMetricFamily  # noqa: PLC0415 - an extra

    families: dict[str, GaugeMetricFamily] = {}
    for stat, value in sorted(stats.items()):
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        name, labels = _named(stat)
        family = families.get(name)
        if family is None:
            text = f"Scrapy stat {stat}"
            family = GaugeMetricFamily(name, text, labels=["spider", *labels])
            families[name] = family
        family.add_metric([spider, *labels.values()], value)
    yield from families.values()


def _named(stat: str) -> tuple[str, dict[str, str]]:
    """Return the name of a stat's metric, and its labels except the spider's."""
    for pattern, name, label in LABELS:
        match = pattern.fullmatch(stat)
        if match is not None:
            group = pattern.groupindex["label"] - 1
            parts = [part for at, part in enumerate(match.groups()) if at != group]
            return name.format(*parts), {label: match["label"]}
    name = _NOT_IN_NAMES.sub("_", stat)
    return (name if name.startswith("hacs_") else f"scrapy_{name}"), {}

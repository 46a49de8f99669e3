"""A Scrapy extension that counts in stats what a crawl sends to Redis, and has to wait for."""

from typing import Any, Self

from redis.connection import AbstractConnection
from scrapy import signals
from scrapy.crawler import Crawler

SETTINGS = {"EXTENSIONS": '{"tests.round_trips.RoundTrips": 1}'}


class RoundTrips:
    """`round_trips/opening` are those before the first request, `/closing` those after the last one."""

    def __init__(self, crawler: Crawler) -> None:
        send, stats = AbstractConnection.send_packed_command, crawler.stats

        def counted(connection: AbstractConnection, *arguments: Any, **more: Any) -> None:
            stats.inc_value(f"round_trips/{self.phase}")
            send(connection, *arguments, **more)

        self.phase = "opening"
        AbstractConnection.send_packed_command = counted
        crawler.signals.connect(self.begin, signals.request_reached_downloader)
        crawler.signals.connect(self.end, signals.spider_closed)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def begin(self) -> None:
        self.phase = "under_way"

    def end(self) -> None:
        self.phase = "closing"

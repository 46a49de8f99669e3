"""An extension that tells what a crawl did: a line of JSON at its end, in the file JUDGED_FILE names."""

import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from scrapy import Spider, signals
from scrapy.crawler import Crawler

COUNTED = (
    *("item_dropped", "item_error", "spider_error", "response_downloaded", "response_received"),
    *(
        f"request_{what}"
        for what in ("dropped", "scheduled", "reached_downloader", "left_downloader")
    ),
)
"""Signals that others listen to: how often each was sent."""


class Probe:
    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._items: list[Any] = []
        self._reason: str | None = None
        self._name: str | None = None
        self._sent: Counter[str] = Counter()
        self._listeners = [self._listen(name) for name in COUNTED]
        for handler, signal in (
            (self._note_item, signals.item_scraped),
            (self._note_end, signals.spider_closed),
            (self._write, signals.engine_stopped),
        ):
            crawler.signals.connect(handler, signal)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def _listen(self, name: str) -> Callable[[], None]:
        def note() -> None:
            self._sent[name] += 1

        self._crawler.signals.connect(note, getattr(signals, name))
        return note

    def _note_item(self, item: Any) -> None:
        self._items.append(item)

    def _note_end(self, spider: Spider, reason: str) -> None:
        self._name, self._reason = spider.name, reason

    def _write(self) -> None:
        found = {
            "spider": self._name,
            "items": self._items,
            "reason": self._reason,
            "stats": {
                **self._crawler.stats.get_stats(),
                **{f"signals/{name}": times for name, times in self._sent.items()},
            },
        }
        with Path(os.environ["JUDGED_FILE"]).open("a") as file:
            file.write(json.dumps(found, default=repr) + "\n")

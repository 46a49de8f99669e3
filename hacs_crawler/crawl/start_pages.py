"""What a spider's `start()` yields, read in a process of its own, in which nothing is asked for.

Run as a module it is given a `StartReading` as JSON on standard input, and writes into its file, for
each page that a start request is for, its id, its site, and the number of its shard. All of it goes
through the project's own spider middlewares, as in a crawl.
"""

from __future__ import annotations

import os
import sys
from array import array
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from scrapy import Request, Spider
from scrapy.core.scheduler import BaseScheduler
from scrapy.crawler import Crawler, CrawlerProcess
from scrapy.settings import BaseSettings
from scrapy.utils.project import get_project_settings

from hacs_crawler.config import Config
from hacs_crawler.crawl.care import Care
from hacs_crawler.crawl.loop import call_later
from hacs_crawler.crawl.meta import seed_key, seed_url
from hacs_crawler.links import site_id
from hacs_crawler.state import shard_of_page
from hacs_crawler.utils.files import replacing

START: Final = np.dtype([("page_id", "<i8"), ("site", "<u4"), ("shard", "<u4")])
MOST_PAGES: Final = 10_000_000
MOST_SECONDS: Final = 60.0
_COMPONENTS: Final = ("ADDONS", "SPIDER_MIDDLEWARES", "DOWNLOADER_MIDDLEWARES", "EXTENSIONS")
_OFF: Final[dict[str, Any]] = {
    "FEEDS": {},
    "ITEM_PIPELINES": {},
    "JOBDIR": None,
    "LOG_LEVEL": "ERROR",
    "TELNETCONSOLE_ENABLED": False,
}


class StartReading(msgspec.Struct, frozen=True):
    """Whose `start()` is read, for how many shards, and into which file."""

    spider: str
    arguments: dict[str, str]
    settings: dict[str, str]
    shards: int
    file: str
    most_pages: int = MOST_PAGES
    most_seconds: float = MOST_SECONDS


class StartPages:
    """Pages that start requests are for: 16 bytes each."""

    def __init__(self, shards: int) -> None:
        self._shards = shards
        self._columns = array("q"), array("I"), array("I")

    def __len__(self) -> int:
        return len(self._columns[0])

    def add(self, page_id: int, url: str) -> None:
        """Add a page."""
        for column, value in zip(
            self._columns, (page_id, site_id(url), shard_of_page(url, self._shards)), strict=True
        ):
            column.append(value)

    def taken(self) -> np.ndarray[Any, Any]:
        """Return them, dtype `START`, each once, in the order in which they came."""
        found = np.zeros(len(self), START)
        for name, column in zip(START.names or (), self._columns, strict=True):
            found[name] = column
        _, first = np.unique(found["page_id"], return_index=True)
        return found[np.sort(first)]


class NotingScheduler(BaseScheduler):
    """Notes the pages of start requests, and has nothing sent."""

    def __init__(self, reading: StartReading, care: Care) -> None:
        self._reading, self._care = reading, care
        self._pages = StartPages(reading.shards)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> NotingScheduler:
        """Make the scheduler of a crawl that `main` began."""
        config = Config.from_settings(crawler.settings)
        return cls(crawler.hacs_reading, Care(config.pages))  # type: ignore[attr-defined]

    def open(self, spider: Spider) -> None:
        """Begin to note."""
        self._spider = spider
        call_later(self._reading.most_seconds, self._end_early)

    def close(self, reason: str) -> None:
        """Write what was noted."""
        del reason
        self._write(is_whole=True)

    def enqueue_request(self, request: Request) -> bool:
        """Note a request."""
        self._care.note(request, self._spider)
        if (page_id := seed_key(request)) is not None:
            self._pages.add(page_id, seed_url(request))
        if len(self._pages) >= self._reading.most_pages:
            self._end_early()
        return True

    def next_request(self) -> None:
        """Return nothing."""

    def has_pending_requests(self) -> bool:
        """Nothing is to be sent."""
        return False

    def _end_early(self) -> None:
        """End the process, whatever `start()` or what it waits for would still do."""
        self._write(is_whole=False)
        os._exit(0)

    def _write(self, *, is_whole: bool) -> None:
        with replacing(Path(self._reading.file)) as file:
            file.write(bytes([is_whole]) + self._pages.taken().tobytes())


def main() -> int:
    """Read what `start()` yields; return the exit status."""
    reading = msgspec.json.decode(sys.stdin.buffer.readline(), type=StartReading)
    settings = get_project_settings()
    settings.setdict(reading.settings, priority="cmdline")
    _switch_off(settings)
    process = CrawlerProcess(settings)
    crawler = process.create_crawler(reading.spider)
    crawler.hacs_reading = reading  # type: ignore[attr-defined]
    process.crawl(crawler, **reading.arguments)
    process.start()
    stats: Any = crawler.stats  # None where it could not be begun
    return int(stats is None or bool(stats.get_value("spider_exceptions/count")))


def _switch_off(settings: BaseSettings) -> None:
    """Leave out what writes or serves, and all of this package but the scheduler here."""
    for name in _COMPONENTS:
        kept = {key: value for key, value in settings.getdict(name).items() if not _is_ours(key)}
        settings.set(name, kept, "cmdline")
    settings.setdict({**_OFF, "SCHEDULER": NotingScheduler}, priority="cmdline")


def _is_ours(key: object) -> bool:
    name = key if isinstance(key, str) else getattr(key, "__module__", "")
    return name.startswith("hacs_crawler.")


if __name__ == "__main__":
    sys.exit(main())

"""What a spider's `start()` yields, read in a process of its own, in which nothing is asked for.

Run as a module it is given a `StartReading` as JSON on standard input, and writes into its file, for
each page that a start request is for, its id, its site, and the number of its shard, as dtype `START`.
All of it goes through the project's own spider middlewares, as in a crawl.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from scrapy import Request, Spider, version_info
from scrapy.core.scheduler import BaseScheduler
from scrapy.crawler import Crawler, CrawlerProcess
from scrapy.settings import BaseSettings
from scrapy.utils.project import get_project_settings

from hacs_crawler.config import Config, Pages
from hacs_crawler.crawl.meta import seed_key, seed_url
from hacs_crawler.crawl.page_filter import PageFilter
from hacs_crawler.links import site_id
from hacs_crawler.state import shard_of_page
from hacs_crawler.utils.loop import call_later

START: Final = np.dtype([("page_id", "<i8"), ("site", "<u4"), ("shard", "<u4")])
MOST_SECONDS: Final = 60.0
CUT_SHORT: Final = 3
"""The exit status where `start()` had not ended by then."""
# Scrapy 2.13 counts no exception of start()
_ERRORS: Final = "spider_exceptions/count" if version_info >= (2, 14) else "log_count/ERROR"
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
    most_seconds: float = MOST_SECONDS


def start_of(page_id: int, url: str, shards: int) -> tuple[int, int, int]:
    """Return a page as a row of dtype `START`."""
    return page_id, site_id(url), shard_of_page(url, shards)


class StartPageScheduler(BaseScheduler):
    """Notes the pages of start requests, and has nothing sent."""

    def __init__(self, reading: StartReading, pages: Pages) -> None:
        self._reading, self._pages = reading, pages
        self._file = Path(reading.file).open("wb")  # noqa: SIM115 - `close` ends it

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> StartPageScheduler:
        """Make the scheduler of a crawl that `main` began."""
        config = Config.from_settings(crawler.settings)
        return cls(crawler.hacs_reading, config.pages)  # type: ignore[attr-defined]

    def open(self, spider: Spider) -> None:
        """Begin to note."""
        self._page_filter = PageFilter(self._pages, spider)
        call_later(self._reading.most_seconds, self._end_early)

    def close(self, reason: str) -> None:
        """End the file."""
        del reason
        self._file.close()

    def enqueue_request(self, request: Request) -> bool:
        """Write down the page of a request."""
        self._page_filter.mark(request)
        if (page_id := seed_key(request)) is not None:
            row = start_of(page_id, seed_url(request), self._reading.shards)
            self._file.write(np.array(row, START).tobytes())
        return True

    def next_request(self) -> None:
        """Return nothing."""

    def has_pending_requests(self) -> bool:
        """Nothing is to be sent."""
        return False

    def _end_early(self) -> None:
        """End the process, whatever `start()` or what it waits for would still do."""
        self._file.close()
        os._exit(CUT_SHORT)


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
    return int(stats is None or bool(stats.get_value(_ERRORS)))


def _switch_off(settings: BaseSettings) -> None:
    """Leave out what writes or serves, and all of this package but the scheduler here."""
    for name in _COMPONENTS:
        kept = {key: value for key, value in settings.getdict(name).items() if not _is_ours(key)}
        settings.set(name, kept, "cmdline")
    settings.setdict({**_OFF, "SCHEDULER": StartPageScheduler}, priority="cmdline")


def _is_ours(key: object) -> bool:
    name = key if isinstance(key, str) else getattr(key, "__module__", "")
    return name.startswith("hacs_crawler.")


if __name__ == "__main__":
    sys.exit(main())

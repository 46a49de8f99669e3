"""The crawl of one shard as a process of its own, which ends with the one that started it.

Run as a module it is given a `ShardCrawl` as JSON in the first line of its standard input, which stays
open: where it ends, the crawl is asked to end, and a while later ends. It writes its stats into a file,
whole each time, every few seconds and at its end.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, Final

import msgspec
from scrapy.crawler import Crawler, CrawlerProcess
from scrapy.utils.project import get_project_settings

from hacs_crawler.utils.files import replacing
from hacs_crawler.utils.loop import call_later

STATS_SECONDS: Final = 2.0
PATIENCE_SECONDS: Final = 30.0
"""How long a crawl may take to end in order when nobody waits for it any more."""


class ShardCrawl(msgspec.Struct, frozen=True):
    """Which spider crawls which shard, in the round of a plan that began at that second."""

    spider: str
    arguments: dict[str, str]
    settings: dict[str, str]
    began: int
    stats: str


def main() -> int:
    """Crawl; return the exit status."""
    order = msgspec.json.decode(sys.stdin.buffer.readline(), type=ShardCrawl)
    threading.Thread(target=_end_with_starter, daemon=True).start()
    settings = get_project_settings()
    settings.setdict(order.settings, priority="cmdline")
    process = CrawlerProcess(settings)
    crawler = process.create_crawler(order.spider)
    crawler.hacs_round = order.began  # type: ignore[attr-defined]
    # for names of files, such as FEEDS = {"items-%(hacs_shard)s.jsonl": …}
    crawler.spidercls.hacs_shard = order.settings["HACS_SHARD"].replace("/", "-")  # type: ignore[attr-defined]
    process.crawl(crawler, **order.arguments)
    file = Path(order.stats)
    _write_now_and_then(crawler, file)
    process.start()
    _write(crawler, file)
    return int(process.bootstrap_failed or crawler.spider is None)


def _end_with_starter() -> None:
    while os.read(0, 4096):  # not sys.stdin, whose lock would be held when the process ends
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(PATIENCE_SECONDS)
    os._exit(1)


def _write_now_and_then(crawler: Crawler, file: Path) -> None:
    _write(crawler, file)
    call_later(STATS_SECONDS, lambda: _write_now_and_then(crawler, file))


def _write(crawler: Crawler, file: Path) -> None:
    stats: Any = crawler.stats  # None where the crawl could not be begun
    found = stats.get_stats() if stats is not None else {}
    with replacing(file) as out:
        out.write(msgspec.json.encode(found, enc_hook=str))


if __name__ == "__main__":
    sys.exit(main())

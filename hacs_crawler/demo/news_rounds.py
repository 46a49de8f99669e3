"""`hacs demo --news`, step by step: the list from the access log, then a crawl that goes on."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import numpy as np

from hacs_crawler.demo import clock
from hacs_crawler.demo.news import BLOG, NEWS, NewsWeb, make_news
from hacs_crawler.demo.news_server import LOG_FILE
from hacs_crawler.demo.processes import HACS, SCRAPY, Processes
from hacs_crawler.demo.project import CONFIGURATION
from hacs_crawler.demo.server import CLOCK_FILE
from hacs_crawler.exceptions import HacsError

SPEED: Final = 900.0
"""So many seconds of demo time pass in one."""
TIER_MINUTES: Final = 5.0
ROUND_MINUTES: Final = 60.0
"""Of demo time."""
BUDGET: Final = 24
"""Visits a round, half of them for the tier."""
LIST: Final = "instant.txt"
READS: Final = "reads.csv"
PAGES: Final = "pages.txt"
STATE: Final = "state.db"
HOUR: Final = 3600
STARTED: Final = "Spider opened"
"""What Scrapy logs when a crawl begins: before that, time stands still."""
_CRAWLER: Final = re.compile(r'^127\.0\.0\.1 .*?\[(.*?)\] "GET (\S+) .*?" 200 ')
_SETTINGS: Final = '''"""The Scrapy project of a demonstration; `hacs demo --news` wrote it."""

import os
from pathlib import Path

BOT_NAME = "hacs-demo"
ADDONS = {{"hacs_crawler.addon.HacsAddon": 500}}

HACS_STATE = "sqlite:///{state}"
HACS_POLICY = "interest"
HACS_BUDGET = {budget}
HACS_CONTROLS = 0
HACS_CALIBRATION = False

# The clock is fast: a second is {speed:g} seconds of demo time, and these are real minutes
os.environ.setdefault("{variable}", str(Path(__file__).with_name("{clock}")))
HACS_CLOCK = "hacs_crawler.demo.clock.now"
HACS_ROUND_MINUTES = {round_minutes}
HACS_INSTANT = {{"list": "{list}", "minutes": {tier_minutes}, "share": 0.5}}

ROBOTSTXT_OBEY = True
CONCURRENT_REQUESTS_PER_DOMAIN = 8
DOWNLOAD_DELAY = 0
HTTPPROXY_ENABLED = False
LOG_LEVEL = "INFO"
TELNETCONSOLE_ENABLED = False
COOKIES_ENABLED = False
'''


@dataclass(frozen=True, slots=True)
class Standing:
    """How far the crawl is at second `at`.

    `visits` of the news site, the blog, and homepages; `appeared` stories since the beginning, of which
    `found` have been on a front page that was visited, on average `delay_minutes` later (None: none).
    """

    at: float
    visits: tuple[int, int, int]
    appeared: int
    found: int
    delay_minutes: float | None


def serve_news(processes: Processes, folder: Path, seed: int, authors: int) -> tuple[NewsWeb, str]:
    """Start the server and write the project that crawls its web; return that, and its address."""
    web = make_news(seed, authors)
    clock.set_to(folder / CLOCK_FILE, web.start, speed=0.0)
    server = ("-m", "hacs_crawler.demo.news_server", str(folder), str(seed), str(authors))
    address = f"http://127.0.0.1:{int(processes.serve('server', *server))}"
    settings = _SETTINGS.format(
        state=STATE,
        budget=BUDGET,
        speed=SPEED,
        variable=clock.VARIABLE,
        clock=CLOCK_FILE,
        round_minutes=round(ROUND_MINUTES / SPEED, 5),
        tier_minutes=round(TIER_MINUTES / SPEED, 5),
        list=LIST,
    )
    for name, text in (
        ("scrapy.cfg", CONFIGURATION),
        ("demo_settings.py", settings),
        (PAGES, "".join(f"{address}{path}\n" for path in web.seeds())),
    ):
        (folder / name).write_text(text, encoding="utf-8")
    return web, address


def find_hubs(processes: Processes, folder: Path, address: str) -> str:
    """Have `hacs interest` make the list of hubs from the access log; return it."""
    imported = ("interest", "import", LOG_FILE, "-o", READS, "--site", address, "--hourly")
    processes.run("import", *HACS, *imported)
    processes.run("seeds", *HACS, "interest", "seeds", READS, "--by", "folder", "-o", LIST)
    return (folder / LIST).read_text(encoding="utf-8")


def crawl_news(
    processes: Processes, folder: Path, web: NewsWeb, address: str, hours: int
) -> Iterator[Standing]:
    """Crawl so many hours of demo time; yield the standing after each.

    In the middle the list is made anew from the log, which has grown. Raises HacsError, Interruption.
    """
    crawl = (*SCRAPY, "crawl", "scholar", "-a", f"seeds={PAGES}", "-a", "level=homepage")
    processes.begin("crawl", *crawl, "-a", "forever=1", "-s", "AUTOTHROTTLE_ENABLED=False")
    processes.wait_for("crawl", STARTED)
    clock.set_to(folder / CLOCK_FILE, web.start, speed=SPEED)
    began = time.monotonic()
    for hour in range(1, hours + 1):
        if hour == hours // 2 + 1:
            find_hubs(processes, folder, address)
        processes.wait_until(began + hour * HOUR / SPEED)
        standing = _standing(folder / LOG_FILE, web, web.start + hour * HOUR)
        yield standing
    processes.end("crawl")
    file = folder / CLOCK_FILE
    clock.set_to(file, clock.read(file), speed=0.0)  # what is looked at now is as the crawl left it
    if not sum(standing.visits):
        msg = f"the crawl visited nothing; the end of its log:\n{processes.last_lines('crawl')}"
        raise HacsError(msg)


def _standing(log: Path, web: NewsWeb, now: float) -> Standing:
    visits = [(path, at) for path, at in _crawled(log) if at <= now]
    news = np.array(sorted(at for path, at in visits if path == NEWS))
    births = np.array([born for born in web.stories.values() if web.start < born <= now])
    later = np.searchsorted(news, births)
    found = later < len(news)
    delays = news[later[found]] - births[found]
    blog = sum(path == BLOG for path, _ in visits)
    homes = sum(path.startswith("/~") for path, _ in visits)
    return Standing(
        now,
        (len(news), blog, homes),
        len(births),
        int(found.sum()),
        float(delays.mean()) / 60.0 if found.any() else None,
    )


def _crawled(log: Path) -> Iterator[tuple[str, float]]:
    """Yield path and second of what the crawl asked for."""
    for line in log.read_text(encoding="utf-8").splitlines():
        if line.startswith("127.") and (found := _CRAWLER.match(line)):
            moment = datetime.strptime(found[1], "%d/%b/%Y:%H:%M:%S %z")
            yield found[2], moment.astimezone(UTC).timestamp()

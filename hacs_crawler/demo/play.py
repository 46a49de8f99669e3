"""`scrapy crawl scholar -a seeds=demo`: half a year of a small web in seconds, without a network.

Spider, ranking and state are real. The web is made up: a downloader middleware answers for it, and its
past is imported. Two weeks pass between rounds, and no time during a round.
"""

import logging
import sys
import time
from collections.abc import Iterable
from contextlib import closing
from textwrap import fill
from typing import Final

from msgspec.structs import replace
from scrapy import Request, Spider
from scrapy.http import Response
from scrapy.settings import BaseSettings

from hacs_crawler.config import Config
from hacs_crawler.crawl.observation import observe
from hacs_crawler.crawl.stats import CrawlStats
from hacs_crawler.demo.web import HOST, START, Web, generated
from hacs_crawler.state import Visit, follow_prior, open_state
from hacs_crawler.utils.times import DAY

SEEDS: Final = "demo"
ROUNDS: Final = 13
DAYS: Final = 14
# A round visits one page in this many.
PAGES_A_VISIT: Final = 7.5
STATE: Final = "sqlite:///.hacs/demo.db"
HITS_A_CHARACTER: Final = 10
WIDTH: Final = 100


class Play:
    """The web of one crawl, its time, and the updates found so far."""

    current: "Play"

    def __init__(self, web: Web, rounds: int) -> None:
        self.web = web
        self.moment: float = START
        self._end = START + (rounds - 1) * DAYS * DAY
        # Seconds by which the crawl's clock is ahead of the web's, so that the last round is today.
        self._later = int(time.time()) - self._end
        # How many pages a round visits.
        self.budget = round(len(web.pages) / PAGES_A_VISIT)
        self._others = LastObs(web)
        self._seen = 0

    def now(self) -> float:
        """Return the time of the crawl's clock."""
        return self.moment + self._later

    def urls(self) -> list[str]:
        """Return the URLs of all pages, the seeds of the crawl."""
        return [f"{HOST}{page.path}" for page in self.web.pages]

    def captures(self, config: Config) -> Iterable[Visit]:
        """Yield the visits before the crawl, as if imported from an archive."""
        for page in self.web.pages:
            url = f"{HOST}{page.path}"
            for at in page.captures:
                response = self.web.answer(url, at)
                visit = observe(response, url, at, config.link_rules).visit
                if response.status == 200 and visit is not None:
                    yield replace(visit, at=at + self._later)

    def turn(self, stats: CrawlStats) -> bool:
        """Print the updates found so far, and let time pass; return whether there is another round."""
        visits = stats.get("visits") + stats.get("gone")
        self._others.visit(visits - self._seen, self.moment)
        self._seen = visits
        if self.moment == START:
            _say(BEGINNING.format(pages=len(self.web.pages), budget=self.budget))
        hits, others = stats.get("updates"), self._others.hits
        bars = [f"{'█' * (number // HITS_A_CHARACTER)} {number}" for number in (hits, others)]
        _say(f"{(self.moment - START) // DAY:5.0f}{visits:8}  {bars[0]:<34}{bars[1]}")
        if self.moment >= self._end:
            result = (
                f"HACS found an update in {hits} of {visits} visits; Last-Obs, which visits the page "
                f"not seen for longest, in {others} of {visits}."
            )
            if min(hits, others):
                ahead = "HACS" if hits >= others else "Last-Obs"
                more = 100 * (max(hits, others) / min(hits, others) - 1)
                result += f" {ahead} found {more:.0f} % more."
            _say(f"\n{fill(result, WIDTH)}\n\n{ENDING}")
            return False
        self.moment += DAYS * DAY
        return True


BEGINNING: Final = (
    "A made-up scholarly web of {pages} pages, {budget} of which are visited every 14 days.\n"
    "A made-up past of three years was imported first.\n\nVisits that found an update, so far\n"
    f"  day  visits  {'HACS':<34}Last-Obs"
)
ENDING: Final = f"Its report: hacs report --open -s HACS_STATE={STATE}"


class LastObs:
    """Simulates the policy Last-Obs, which visits the pages not seen for longest."""

    def __init__(self, web: Web) -> None:
        self.hits = 0
        self._pages = {page.path: page for page in web.pages}
        self._last = {page.path: max(page.captures, default=0) for page in web.pages}

    def visit(self, number: int, now: float) -> None:
        """Visit a number of pages; a page that is gone is not visited again."""
        for path in sorted(self._last, key=lambda candidate: self._last[candidate])[:number]:
            page, before = self._pages[path], self._last[path]
            if page.is_gone(now):
                del self._last[path]
                continue
            self.hits += bool(before) and page.links_at(now) > page.links_at(before)
            self._last[path] = int(now)


class DemoWeb:
    """Downloader middleware, nearest to the network: the current play's web answers instead."""

    def process_request(self, request: Request, spider: Spider | None = None) -> Response:
        """Return the page as it is now."""
        return Play.current.web.answer(request.url, Play.current.moment)


def now() -> float:
    """Return the current play's time for crawls: its HACS_CLOCK."""
    return Play.current.now()


def begin(settings: BaseSettings) -> Play:
    """Make a web with its past, and the settings for a crawl of it."""
    play = Play.current = Play(generated(), ROUNDS)
    middlewares = settings.getdict("DOWNLOADER_MIDDLEWARES") | {DemoWeb: 10_000}
    values = {
        "HACS_STATE": STATE,
        "HACS_CLOCK": f"{__name__}.now",
        "HACS_BUDGET": play.budget,
        "HACS_CONTROLS": 0,
        "HACS_SIGNALS": 0,
        "HACS_RENDER": "never",
        "DOWNLOADER_MIDDLEWARES": middlewares,
        "LOG_LEVEL": "ERROR",
        "AUTOTHROTTLE_ENABLED": False,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
        "DOWNLOAD_DELAY": 0,
    }
    settings.setdict(values, priority="spider")
    # silence what Scrapy logs before it reads LOG_LEVEL
    logging.getLogger("scrapy").setLevel(logging.ERROR)
    config = Config.from_settings(settings)
    for left in (config.base / ".hacs").glob("demo.db*"):
        left.unlink()
    with closing(open_state(*config.state_arguments)) as state:
        state.record(list(play.captures(config)))
        follow_prior(state, lambda *_: None)
    return play


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()

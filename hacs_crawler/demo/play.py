"""`scrapy crawl scholar -a seeds=demo`: half a year of a small web in seconds, without a network.

Spider, ranking and state are real. Simulated are the web, which a downloader
middleware answers for, its past, and the time: between two rounds pass two weeks, within one none.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterable
from contextlib import closing
from textwrap import fill
from typing import Final

from msgspec.structs import replace
from scrapy import Request, Spider
from scrapy.http import HtmlResponse, Response
from scrapy.settings import BaseSettings

from hacs_crawler.config import Config
from hacs_crawler.crawl.observation import observe
from hacs_crawler.crawl.stats import CrawlStats
from hacs_crawler.demo.histories import generated
from hacs_crawler.demo.server import LiveWeb
from hacs_crawler.demo.web import Web
from hacs_crawler.state import Visit, follow_prior, open_state
from hacs_crawler.utils.times import DAY

SEEDS: Final = "demo"
HOST: Final = "http://scholars.example"
AUTHORS: Final = 100
SEED: Final = 1
"""Of ten webs neither the best nor the worst for HACS."""
ROUNDS: Final = 13
DAYS: Final = 14
PAGES_A_VISIT: Final = 7.5
"""A round visits one page in this many."""
STATE: Final = "sqlite:///.hacs/demo.db"
HITS_A_CHARACTER: Final = 10
WIDTH: Final = 100


class Play:
    """A web, what time it is there, and what was found in it; made anew for each crawl."""

    current: Play

    def __init__(self, web: Web, rounds: int) -> None:
        self.web = web
        self.live = LiveWeb(web, lambda: self.moment)
        self.moment: float = web.start
        self._end = web.start + (rounds - 1) * DAYS * DAY
        self._later = int(time.time()) - self._end
        """How much later the crawl takes place than the web's history, so that it ends today."""
        self._others = LastObs(web)
        self._seen = self._hits = 0

    def now(self) -> float:
        """Return the time that crawls are told."""
        return self.moment + self._later

    def urls(self) -> list[str]:
        """Return the list that is crawled."""
        return [f"{HOST}{page.path}" for page in self.web.pages]

    def captures(self, config: Config) -> Iterable[Visit]:
        """Yield what the pages were like before the crawl, as an import from an archive does."""
        for page in self.web.pages:
            url = f"{HOST}{page.path}"
            for at in page.captures:
                if not page.is_gone(at):
                    response = HtmlResponse(url, body=self.live.show(page, at), encoding="utf-8")
                    visit = observe(response, url, at, config.link_rules).visit
                    if visit is not None:
                        yield replace(visit, at=at + self._later)

    def turn(self, stats: CrawlStats) -> bool:
        """Say what was found so far, and let time pass; return whether another round follows."""
        visits = stats.get("visits") + stats.get("gone")
        self._others.visit(visits - self._seen, self.moment)
        self._seen, self._hits = visits, stats.get("updates")
        if self.moment == self.web.start:
            _say(BEGINNING.format(pages=len(self.web.pages)))
        bars = [f"{'█' * (hits // HITS_A_CHARACTER)} {hits}" for hits in self.hits]
        day = (self.moment - self.web.start) // DAY
        _say(f"{day:5.0f}{visits:8}  {bars[0]:<34}{bars[1]}")
        if self.moment >= self._end:
            _say(f"\n{self.sentence()}\n\n{ENDING}")
            return False
        self.moment += DAYS * DAY
        return True

    @property
    def hits(self) -> tuple[int, int]:
        """How many visits found an update: of this crawl, and of as many by Last-Obs."""
        return self._hits, self._others.hits

    def sentence(self) -> str:
        """Return what was found."""
        found, others = self.hits
        ahead = "HACS" if found >= others else "Last-Obs"
        more = (
            f" {ahead} finds {100 * (max(self.hits) / min(self.hits) - 1):.0f} % more."
            if min(self.hits)
            else ""
        )
        return fill(
            f"HACS found an update in {found} of {self._seen} visits. Last-Obs, which visits the page "
            f"not seen for longest, finds one in {others} of as many.{more}",
            WIDTH,
        )


BEGINNING: Final = (
    "A made-up scholarly web of {pages} pages. Every 14 days one page in 7.5 may be "
    "visited.\n\nVisits that found an update, so far\n"
    f"  day  visits  {'HACS':<34}Last-Obs, as many visits"
)
ENDING: Final = f"Its report: hacs report --open -s HACS_STATE={STATE}"


class LastObs:
    """Visits the pages not seen for longest, by their histories: no crawl, but what one would find."""

    def __init__(self, web: Web) -> None:
        self.hits = 0
        self._pages = {page.path: page for page in web.pages}
        self._last = {page.path: max(page.captures, default=0) for page in web.pages}

    def visit(self, number: int, now: float) -> None:
        """Visit a number of pages at a second; one that is gone is not visited again."""
        for path in sorted(self._last, key=lambda one: self._last[one])[:number]:
            page, before = self._pages[path], self._last[path]
            if page.is_gone(now):
                del self._last[path]
                continue
            self.hits += bool(before) and page.links_at(now) > page.links_at(before)
            self._last[path] = int(now)


class PlayedWeb:
    """Downloader middleware, the nearest to the network: the web answers in its place."""

    def process_request(self, request: Request, spider: Spider | None = None) -> Response:
        """Return the page as it is now."""
        del spider
        body = Play.current.live.answer(request.url.removeprefix(HOST))
        if body is None:
            return Response(request.url, 404)
        return HtmlResponse(request.url, body=body, encoding="utf-8")


def now() -> float:
    """Return the time in the web that is played: the setting HACS_CLOCK."""
    return Play.current.now()


def begin(settings: BaseSettings) -> Play:
    """Make a web with its past, and set the settings for a crawl of it."""
    play = Play.current = Play(generated(SEED, AUTHORS), ROUNDS)
    middlewares = settings.getdict("DOWNLOADER_MIDDLEWARES") | {PlayedWeb: 10_000}
    values = {
        "HACS_STATE": STATE,
        "HACS_CLOCK": f"{__name__}.now",
        "HACS_BUDGET": round(len(play.web.pages) / PAGES_A_VISIT),
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
    logging.getLogger("scrapy").setLevel(
        logging.ERROR
    )  # what Scrapy says before it reads LOG_LEVEL
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

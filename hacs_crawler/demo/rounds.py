"""The crawls of a demonstration, round by round, each some days of demo time after the one before."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from scrapy.crawler import CrawlerProcess
from scrapy.http import HtmlResponse
from scrapy.settings import Settings
from twisted.internet.defer import Deferred
from twisted.internet.error import ReactorNotRunning
from twisted.python.failure import Failure

from hacs_crawler.config import Config
from hacs_crawler.crawl.observation import observe
from hacs_crawler.demo import clock
from hacs_crawler.demo.server import LiveWeb, Server
from hacs_crawler.demo.web import Web
from hacs_crawler.exceptions import HacsError
from hacs_crawler.experiment.data import record_of
from hacs_crawler.spiders.scholar import ScholarSpider
from hacs_crawler.state import Visit, follow_prior, open_state
from hacs_crawler.utils.times import DAY

ROUNDS: Final = 13
DAYS: Final = 14
"""Of demo time, from one round to the next."""
PAGES_A_VISIT: Final = 7.5
"""A round visits one of so many pages."""
CLOCK_FILE: Final = "clock"
ARMS: Final = ("hacs", "last-obs")


@dataclass(frozen=True, slots=True)
class RoundScore:
    """How far the arms are after a round at second `at`: visits, and those that found an update."""

    at: int
    visits: tuple[int, ...]
    hits: tuple[int, ...]


def budget_of(web: Web) -> int:
    """Return how many pages a round visits."""
    return round(len(web.pages) / PAGES_A_VISIT)


def settings_of(web: Web, folder: Path) -> Settings:
    """Return the settings of the crawls; their state, pages and clock are in the folder."""
    values = {
        "ADDONS": {"hacs_crawler.addon.HacsAddon": 500},
        "HACS_STATE": f"sqlite:///{folder}/state.db",
        "HACS_EXPERIMENT": dict.fromkeys(ARMS, 0.5),
        "HACS_BUDGET": budget_of(web),
        "HACS_CLOCK": "hacs_crawler.demo.clock.now",
        "LOG_ENABLED": False,
        "HTTPPROXY_ENABLED": False,
        "TELNETCONSOLE_ENABLED": False,
        # everything is on this machine: nobody needs to be spared
        "AUTOTHROTTLE_ENABLED": False,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
        "DOWNLOAD_DELAY": 0,
    }
    return Settings(values, priority="cmdline")


def play(web: Web, folder: Path, rounds: int, on_round: Callable[[RoundScore], None]) -> bool:
    """Crawl a web round by round; return whether it came to its end, and was not stopped by a signal.

    `on_round` is told how far the arms are after each. Raises HacsError where a crawl fails.
    """
    file, seeds = folder / CLOCK_FILE, folder / "pages.txt"
    os.environ[clock.VARIABLE] = str(file)
    clock.set_to(file, web.start)
    settings = settings_of(web, folder)
    config = Config.from_settings(settings)
    live = LiveWeb(web, clock.now)
    with Server(live) as server:
        _record_captures(web, live, server.address, config)
        seeds.write_text("".join(f"{server.address}{page.path}\n" for page in web.pages))
        process = CrawlerProcess(settings)

        async def crawls() -> str:
            for number in range(rounds):
                at = web.start + number * DAYS * DAY
                clock.set_to(file, at)
                crawler = process.create_crawler(ScholarSpider)
                await process.crawl(crawler, seeds=str(seeds), level="homepage")
                reason = str(crawler.stats.get_value("finish_reason"))
                if reason != "finished":
                    return reason
                on_round(_score(config, at))
            return "finished"

        reason = _run(process, crawls())
    if reason not in ("finished", "shutdown"):
        raise HacsError(f"a crawl of the demonstration ended with {reason!r}")
    return reason == "finished"


def _record_captures(web: Web, live: LiveWeb, address: str, config: Config) -> None:
    """Record what the pages were like before the crawls, as an import from an archive does."""
    visits: list[Visit] = []
    for page in web.pages:
        url = f"{address}{page.path}"
        shown: dict[int, Visit] = {}
        for at in page.captures:
            links = page.links_at(at)
            if page.is_gone(at):
                continue
            if links not in shown:
                response = HtmlResponse(url, body=live.show(page, at), encoding="utf-8")
                visit = observe(response, url, at, config.link_rules).visit
                assert visit is not None  # noqa: S101 - it is none from a cache only
                shown[links] = visit
            visits.append(replace(shown[links], at=at))
    with closing(open_state(*config.state_arguments)) as state:
        state.record(visits)
        follow_prior(state, lambda *_: None)


def _run(process: CrawlerProcess, crawls: Coroutine[Any, Any, str]) -> str:
    """Run crawls until they end; return why they did."""
    ended: list[str] = []

    def end(result: str | Failure) -> None:
        from twisted.internet import reactor  # noqa: PLC0415 - the first crawl chooses which

        ended.append(result if isinstance(result, str) else result.getErrorMessage())
        with suppress(ReactorNotRunning):
            reactor.stop()  # type: ignore[misc]

    Deferred.fromCoroutine(crawls).addBoth(end)
    process.start(stop_after_crawl=False)
    return ended[0] if ended else "shutdown"


def _score(config: Config, at: int) -> RoundScore:
    with closing(open_state(*config.state_arguments)) as state:
        outcomes = state.outcomes()
        record = record_of(config.ranking.experiment, outcomes, state.labels_of(outcomes))
    visits = np.bincount(record.arms, minlength=len(ARMS))
    hits = np.bincount(record.arms[record.is_updated], minlength=len(ARMS))
    return RoundScore(at, tuple(visits.tolist()), tuple(hits.tolist()))

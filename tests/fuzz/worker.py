"""Plays a scenario in a process of its own (`fuzz.forked`), and writes what was seen into a file."""

import asyncio
import gc
import json
import logging
import os
import traceback
import warnings
from pathlib import Path
from typing import Any

from scrapy.crawler import CrawlerRunner
from scrapy.settings import Settings
from scrapy.utils.defer import maybe_deferred_to_future
from scrapy.utils.log import configure_logging
from twisted.internet.asyncioreactor import AsyncioSelectorReactor
from twisted.internet.main import installReactor

from fuzz import clock, fake_browser
from fuzz.exported import exported
from fuzz.scenario import Scenario
from fuzz.site import FuzzedSite
from fuzz.spiders import KINDS
from fuzz.witness import Witness, WitnessHandler
from hacs_crawler.addon import HacsAddon

SETTINGS = {
    "DOWNLOAD_HANDLERS": {"http": WitnessHandler},
    "DOWNLOADER_MIDDLEWARES": {Witness: 10_000},
    "DOWNLOAD_TIMEOUT": 100_000,  # this process's clock runs fast
    "HACS_CLOCK": "fuzz.clock.now",
    "LOG_LEVEL": "INFO",
    "SPIDER_MIDDLEWARES": {Witness: 999},
    "TELNETCONSOLE_ENABLED": False,
    "WARN_ON_GENERATOR_RETURN_VALUE": False,
}
LOG = Path("log")


def play(scenario: Scenario, folder: str, redis: str, addon: bool) -> bool:
    """Crawl on each of the scenario's days; where it cannot, the log says why, and True is returned."""
    os.chdir(folder)
    _write_log()
    loop = clock.fast_loop()
    reactor: Any = AsyncioSelectorReactor(loop)
    installReactor(reactor)  # type: ignore[no-untyped-call]

    async def crawl() -> None:
        try:
            seen = await _Crawls(scenario, redis, addon=addon).all()
            Path("seen").write_text(json.dumps(seen, default=repr))
        except Exception:
            logging.exception("the judge's own fault")
        finally:
            reactor.stop()

    crawling: list[Any] = []
    reactor.callWhenRunning(lambda: crawling.append(loop.create_task(crawl())))
    reactor.run()
    return not Path("seen").exists()


def _write_log() -> None:
    """Write a line for each record into a file, where they are if the process does not end."""
    handler = logging.FileHandler(LOG)
    handler.terminator = "\0"  # records have lines
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Scrapy 2.13 knows no other way
        configure_logging({"LOG_LEVEL": "INFO"}, install_root_handler=False)


class _Crawls:
    def __init__(self, scenario: Scenario, redis: str, *, addon: bool) -> None:
        self._scenario = scenario
        self._kind = KINDS[scenario.spider]
        self._shards = ("0/2", "1/2") if addon and scenario.has_shards else (None,)
        self._name = Path.cwd().name
        self._addon: dict[str, Any] = {}
        if addon:
            is_redis = scenario.state == "redis" and redis
            state = redis if is_redis else f"sqlite:///{Path.cwd()}/state.db"
            self._addon = {"ADDONS": {HacsAddon: 500}, "HACS_STATE": state}
            self._addon["HACS_NAMESPACE"] = self._name
        self._site = FuzzedSite()

    async def all(self) -> list[dict[str, Any]]:
        await self._site.listen()
        fake_browser.install(self._site)
        return [await self._of_day(day) for day in self._scenario.days]

    async def _of_day(self, day: int) -> dict[str, Any]:
        clock.day = day
        self._site.begin(self._scenario, day)
        Path("instant.txt").write_text(self._site.url(0) + "\n")
        parts: list[dict[str, Any]] = []
        states: list[dict[str, Any]] = []
        for shard in self._shards:
            given: dict[str, Any] = {**SETTINGS, **self._scenario.settings, **self._addon}
            if shard:
                given["HACS_SHARD"] = shard
            if self._kind.stop:
                given["JOBDIR"] = f"job{len(parts)}.{day}"
                parts.append(await self._crawl(given | self._kind.stop, f"{day}.{len(parts)}"))
            if not self._kind.stop or parts[-1]["reason"] != "finished":
                parts.append(await self._crawl(given, f"{day}.{len(parts)}"))
            if self._addon:
                namespace = self._name + (f".{shard.replace('/', '-')}" if shard else "")
                states.append(exported(self._addon["HACS_STATE"], namespace))
        return {"parts": parts, "states": states, "at": int(clock.now())}

    async def _crawl(self, given: dict[str, Any], part: str) -> dict[str, Any]:
        first, already = len(_log()), len(self._site.log)
        runner = CrawlerRunner(Settings(given))
        crawler = runner.create_crawler(self._kind)
        witness = Witness(crawler, part)
        urls = [self._site.url(number) for number in range(len(self._scenario.pages))]
        failure = []
        try:
            starts = list(self._scenario.starts)
            crawling = runner.crawl(crawler, urls=urls, start_numbers=starts)
            await maybe_deferred_to_future(crawling)
        except Exception:  # noqa: BLE001 - `scrapy crawl` would show it
            failure = traceback.format_exc().splitlines()
        gc.collect()  # an error that nobody looked at is logged now
        await asyncio.sleep(0)
        stats: dict[str, Any] = getattr(crawler.stats, "get_stats", dict)()
        return {
            "events": witness.events,
            "items": witness.items,
            "asked_in_pause": witness.asked_in_pause,
            "reason": stats.get("finish_reason", ""),
            "stats": stats,
            "log": _log()[first:] + failure,
            "site": self._site.log[already:],
        }


def _log() -> list[str]:
    return LOG.read_text().split("\0")[:-1]

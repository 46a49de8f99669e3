"""Plays scenarios, each in a process that is forked from this one, and writes what was seen into a file.

    python -m fuzz.worker

reads a line of JSON for each, and answers with how the process ended.
"""

from __future__ import annotations

from fuzz import clock

clock.run_fast()

import asyncio  # noqa: E402
import gc  # noqa: E402
import json  # noqa: E402
import logging  # noqa: E402
import os  # noqa: E402
import signal  # noqa: E402
import sys  # noqa: E402
import traceback  # noqa: E402
import warnings  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import msgspec  # noqa: E402
from scrapy.crawler import AsyncCrawlerRunner  # noqa: E402
from scrapy.settings import Settings  # noqa: E402
from scrapy.utils.log import configure_logging  # noqa: E402
from scrapy.utils.misc import load_object  # noqa: E402
from twisted.internet.asyncioreactor import AsyncioSelectorReactor  # noqa: E402
from twisted.internet.main import installReactor  # noqa: E402

from fuzz import fake_browser  # noqa: E402
from fuzz.exported import exported  # noqa: E402
from fuzz.scenario import Scenario  # noqa: E402
from fuzz.site import FuzzedSite  # noqa: E402
from fuzz.spiders import KINDS  # noqa: E402
from fuzz.witness import Witness, WitnessHandler, WitnessMiddleware  # noqa: E402
from hacs_crawler.addon import HacsAddon  # noqa: E402

SETTINGS = {
    "DOWNLOAD_HANDLERS": {"http": WitnessHandler},
    "DOWNLOADER_MIDDLEWARES": {WitnessMiddleware: 10_000},
    "DOWNLOAD_TIMEOUT": 100_000,  # this process's clock runs fast
    "EXTENSIONS": {Witness: -100},
    "HACS_CLOCK": "fuzz.clock.now",
    "LOG_LEVEL": "INFO",
    "SPIDER_MIDDLEWARES": {WitnessMiddleware: 999},
    "TELNETCONSOLE_ENABLED": False,
    "WARN_ON_GENERATOR_RETURN_VALUE": False,
}
LOG = Path("log")
COMPONENTS = ("EXTENSIONS_BASE", "DOWNLOADER_MIDDLEWARES_BASE", "SPIDER_MIDDLEWARES_BASE")
for name in COMPONENTS:  # what each process would import anew
    list(map(load_object, Settings()[name]))
gc.freeze()


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a spider prints is no answer
    for line in sys.stdin:
        process = os.fork()
        if not process:
            scenario, folder, redis, addon, seconds = json.loads(line)
            signal.alarm(seconds)
            os.chdir(folder)
            _play(msgspec.convert(scenario, Scenario), redis, addon=addon)
            return
        print(os.waitpid(process, 0)[1], file=answers, flush=True)


def _play(scenario: Scenario, redis: str, *, addon: bool) -> None:
    """Crawl on each of the scenario's days; where it cannot, the log says why, and the process fails."""
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
    sys.exit(not Path("seen").exists())


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
        """Return what was seen on each day."""
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
        runner = AsyncCrawlerRunner(Settings({**given, "FUZZ_PART": part}))
        crawler = runner.create_crawler(self._kind)
        urls = [self._site.url(number) for number in range(len(self._scenario.pages))]
        failure = []
        try:
            await runner.crawl(crawler, urls=urls, start_numbers=list(self._scenario.starts))
        except Exception:  # noqa: BLE001 - `scrapy crawl` would show it
            failure = traceback.format_exc().splitlines()
        gc.collect()  # an error that nobody looked at is logged now
        await asyncio.sleep(0)
        witness = getattr(crawler, "witness", None)
        stats: dict[str, Any] = getattr(crawler.stats, "get_stats", dict)()
        return {
            "events": witness.events if witness else [],
            "items": witness.items if witness else [],
            "asked_in_pause": witness.asked_in_pause if witness else [],
            "reason": stats.get("finish_reason", ""),
            "stats": stats,
            "log": _log()[first:] + failure,
            "site": self._site.log[already:],
        }


def _log() -> list[str]:
    return LOG.read_text().split("\0")[:-1]


if __name__ == "__main__":
    main()

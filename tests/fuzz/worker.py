"""Plays scenarios in one process, a line of JSON each; what is seen of it goes back as another line.

    python -m fuzz.worker

A line has the scenario, whether the add-on is on, a folder, and the address of a Redis server.
"""

from __future__ import annotations

from fuzz import fast_clock  # isort: skip - before anything that looks at the time

import asyncio
import gc
import json
import logging
import os
import sys
import traceback
import warnings
from pathlib import Path
from typing import Any

from twisted.internet.asyncioreactor import AsyncioSelectorReactor
from twisted.internet.main import installReactor

LOOP = fast_clock.new_loop()
REACTOR: Any = AsyncioSelectorReactor(LOOP)
installReactor(REACTOR)  # type: ignore[no-untyped-call]

import msgspec  # noqa: E402
from scrapy.crawler import AsyncCrawlerRunner  # noqa: E402
from scrapy.settings import Settings  # noqa: E402
from scrapy.utils.log import configure_logging  # noqa: E402

from fuzz import clock, fake_browser  # noqa: E402
from fuzz.exported import exported  # noqa: E402
from fuzz.scenario import Scenario  # noqa: E402
from fuzz.site import FuzzedSite  # noqa: E402
from fuzz.spiders import KINDS  # noqa: E402
from fuzz.witness import NOTHING_SEEN, Witness, WitnessHandler, WitnessMiddleware  # noqa: E402

PAGES_BEFORE_THE_STOP = 2
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
ADDON = {"hacs_crawler.addon.HacsAddon": 500}


class _Log(logging.Handler):
    """Keeps lines, and writes them to a file, where they are if the process does not come to its end."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
        self.lines: list[str] = []
        self.file: Any = None

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))
        print(self.lines[-1], file=self.file, flush=True)


async def play(job: dict[str, Any], site: FuzzedSite, log: _Log) -> list[dict[str, Any]]:
    """Crawl on each of the scenario's days; returns what was seen on each."""
    scenario = msgspec.convert(job["scenario"], Scenario)
    folder = Path(job["folder"])
    os.chdir(folder)
    has_shards = job["addon"] and scenario.has_shards
    runs = []
    for number, day in enumerate(scenario.days):
        clock.day = day
        site.begin(scenario, day)
        Path("instant.txt").write_text(site.url(0) + "\n")
        parts: list[dict[str, Any]] = []
        states: list[dict[str, Any]] = []
        for shard in ("0/2", "1/2") if has_shards else (None,):
            given: dict[str, Any] = {**SETTINGS, **scenario.settings}
            if job["addon"]:
                state = {"HACS_STATE": _state(job), "HACS_NAMESPACE": folder.name}
                given |= {"ADDONS": ADDON, **state, **({"HACS_SHARD": shard} if shard else {})}
            if is_resumed := KINDS[scenario.spider].is_resumed:
                given["JOBDIR"] = f"{folder}/job{len(parts)}.{number}"
                given["CLOSESPIDER_PAGECOUNT"] = PAGES_BEFORE_THE_STOP
            parts.append(await _crawl(scenario, given, f"{number}.{len(parts)}", site, log))
            if is_resumed and parts[-1]["reason"] != "finished":
                del given["CLOSESPIDER_PAGECOUNT"]
                parts.append(await _crawl(scenario, given, f"{number}.{len(parts)}", site, log))
            if job["addon"]:
                namespace = folder.name + (f".{shard.replace('/', '-')}" if shard else "")
                states.append(exported(_state(job), namespace))
        runs.append({"parts": parts, "states": states, "at": int(clock.now())})
    return runs


async def _crawl(
    scenario: Scenario, given: dict[str, Any], part: str, site: FuzzedSite, log: _Log
) -> dict[str, Any]:
    first, already = len(log.lines), len(site.log)
    runner = AsyncCrawlerRunner(Settings({**given, "FUZZ_PART": part}))
    crawler = runner.create_crawler(KINDS[scenario.spider])
    urls = [site.url(number) for number in range(len(scenario.pages))]
    failure = ""
    try:
        await runner.crawl(crawler, urls=urls, start_numbers=list(scenario.starts))
    except Exception:  # noqa: BLE001 - `scrapy crawl` would show it
        failure = traceback.format_exc()
    gc.collect()  # an error that nobody looked at is logged now
    await asyncio.sleep(0)
    witness: Witness | None = getattr(crawler, "witness", None)
    return {
        **(witness.seen if witness else NOTHING_SEEN),
        "log": [*log.lines[first:], *failure.splitlines()],
        "site": site.log[already:],
    }


def _state(job: dict[str, Any]) -> str:
    if job["scenario"].get("state") == "redis" and job["redis"]:
        return str(job["redis"])
    return f"sqlite:///{job['folder']}/state.db"


async def _serve(answers: Any) -> None:
    gc.freeze()
    site, log = FuzzedSite(), _Log()
    await site.listen()
    fake_browser.install(site)
    logging.getLogger().addHandler(log)
    while line := await LOOP.run_in_executor(None, sys.stdin.readline):
        job = json.loads(line)
        log.lines.clear()
        with (Path(job["folder"]) / "log").open("w") as log.file:
            try:
                answer: dict[str, Any] = {"runs": await play(job, site, log)}
            except Exception:  # noqa: BLE001 - the judge's own fault
                answer = {"error": traceback.format_exc()}
        print(json.dumps(answer, default=repr), file=answers, flush=True)


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a spider prints is no answer
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Scrapy 2.13 knows no other way
        configure_logging({"LOG_LEVEL": "INFO"}, install_root_handler=False)
    logging.getLogger().setLevel(logging.INFO)

    async def serve() -> None:
        try:
            await _serve(answers)
        finally:
            REACTOR.stop()

    serving: list[Any] = []
    REACTOR.callWhenRunning(lambda: serving.append(LOOP.create_task(serve())))
    REACTOR.run()


if __name__ == "__main__":
    main()

"""A crawl of a drawn scenario, in a process of its own."""

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any

from scrapy.crawler import CrawlerProcess
from twisted.internet.asyncioreactor import AsyncioSelectorReactor
from twisted.internet.main import installReactor

from fuzz import clock, fake_browser
from fuzz.forked import Forks
from fuzz.scenario import Scenario
from fuzz.site import FuzzedSite
from fuzz.spiders import KINDS
from fuzz.witness import Witness
from fuzz.worker import SETTINGS
from hacs_crawler.addon import HacsAddon
from killing import write_acknowledged


class Crawls(Forks):
    """Starts crawls, one at a time, which leave their files in `folder`."""

    longest_seconds = 120.0
    """After which a crawl hangs, as docs/reliability.md says."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.log, self._acknowledged, self._job = (
            folder / name for name in ("log", "acknowledged", "job")
        )
        self.log.touch()  # a crawl may be killed before it makes it
        super().__init__("endurance.crawling", folder)

    def clear(self) -> None:
        self._acknowledged.unlink(missing_ok=True)
        shutil.rmtree(self._job, ignore_errors=True)

    def said(self) -> set[str]:
        """Return URL and second of each visit that the state has acknowledged."""
        return set(
            self._acknowledged.read_text().splitlines() if self._acknowledged.exists() else ()
        )


def play(scenario: Scenario, day: int, port: int, state: str, settings: dict[str, object]) -> bool:
    log = os.open("log", os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
    os.dup2(log, 1)
    os.dup2(log, 2)
    write_acknowledged(Path("acknowledged"))
    clock.day = day
    site = FuzzedSite()
    site.port = port
    site.begin(scenario, day)
    fake_browser.install(site)
    Path("instant.txt").write_text(site.url(0) + "\n")
    asyncio.set_event_loop(loop := clock.fast_loop())
    reactor: Any = AsyncioSelectorReactor(loop)
    installReactor(reactor)
    addon = {"ADDONS": {HacsAddon: 500}, "HACS_STATE": state}
    process = CrawlerProcess({**SETTINGS, **scenario.settings, **addon, **settings})
    crawler = process.create_crawler(KINDS[scenario.spider])
    Witness(crawler, "")
    urls = [site.url(number) for number in range(len(scenario.pages))]
    process.crawl(crawler, urls=urls, start_numbers=list(scenario.starts))
    process.start()
    return process.bootstrap_failed

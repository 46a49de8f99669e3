"""A crawl of a drawn scenario, in a process that is forked from one that has imported everything."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

from scrapy.crawler import CrawlerProcess
from twisted.internet.asyncioreactor import AsyncioSelectorReactor
from twisted.internet.main import installReactor

from fuzz import clock, fake_browser
from fuzz.scenario import Scenario
from fuzz.site import FuzzedSite
from fuzz.spiders import KINDS
from fuzz.witness import Witness
from fuzz.worker import SETTINGS
from hacs_crawler.addon import HacsAddon
from killing import write_acknowledged

LONGEST_SECONDS = 120.0
"""After which a crawl hangs: most take less than a second."""
SERVER = (
    "from fuzz import clock; clock.run_fast(); from endurance import crawling; crawling.serve({})"
)


class Crawls:
    """Starts crawls, one at a time, which leave their files in `folder`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.log, self._acknowledged, self._job = (
            folder / name for name in ("log", "acknowledged", "job")
        )
        self.log.touch()  # a crawl may be killed before it makes it
        self.pid = 0
        self._orders, theirs = Pipe()
        with theirs:
            self._server = subprocess.Popen(
                [sys.executable, "-c", SERVER.format(theirs.fileno())],
                env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
                pass_fds=[theirs.fileno()],
                cwd=folder,
            )

    def clear(self) -> None:
        self._acknowledged.unlink(missing_ok=True)
        shutil.rmtree(self._job, ignore_errors=True)

    def said(self) -> set[str]:
        """Return URL and second of each visit that the state has acknowledged."""
        return set(
            self._acknowledged.read_text().splitlines() if self._acknowledged.exists() else ()
        )

    def begin(self, *order: object) -> None:
        """Start one; the order is what `_crawl` is called with."""
        self._orders.send(order)
        self.pid = self._orders.recv()

    def is_running(self) -> bool:
        return not self._orders.poll()

    def signal(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def end(self) -> int | None:
        """Wait for the crawl's end and return its status, None where it had to be killed."""
        if not (has_ended := self._orders.poll(LONGEST_SECONDS)):
            self.signal(signal.SIGKILL)
        status: int = self._orders.recv()
        return status if has_ended else None

    def close(self) -> None:
        self._orders.close()
        self._server.wait()


def serve(connection: int) -> None:
    """Fork a crawl at each order; tell its pid, and its status when it has ended."""
    orders = Connection(connection)
    with suppress(EOFError):
        while True:
            order = orders.recv()
            if not (pid := os.fork()):
                orders.close()
                _crawl(*order)
            orders.send(pid)
            orders.send(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


def _crawl(
    scenario: Scenario, day: int, port: int, state: str, settings: dict[str, object]
) -> None:
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
    sys.exit(process.bootstrap_failed)

"""A Scrapy project that tests run as a user would."""

import json
import os
import re
import shutil
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import forks
from hacs_crawler.links.keys import page_id_of
from hacs_crawler.state.page import Page
from servers import LocalServer
from state_support import opened

ROOT = Path(__file__).parents[1]
ADDONS = '{"hacs_crawler.addon.HacsAddon": 500}'
DAYS = 86_400
QUICK = (
    "AUTOTHROTTLE_ENABLED=False",
    "DOWNLOAD_DELAY=0.001",  # with none, Scrapy 2.19 sends two at once, although one is allowed
    "CONCURRENT_REQUESTS_PER_DOMAIN=1",
    "HACS_SIGNALS=0",
    *os.environ.get("HACS_TESTS_SETTINGS", "").split(),  # `tox -e no-reactor` sets it
)


@dataclass
class Crawl:
    """A finished `scrapy` process."""

    exit_status: int
    log: str
    output: str

    @property
    def items(self) -> list[dict[str, Any]]:
        return json.loads(self.output) if self.output.strip() else []

    def stat(self, name: str) -> int:
        """A stat from the dump at the end of the log, 0 where there is none."""
        found = re.search(rf"'{re.escape(name)}': ([\d.]+)", self.log)
        return int(float(found[1])) if found else 0


@dataclass
class Project:
    """The repository's own Scrapy project, with a state of its own."""

    folder: Path
    state: str
    runs: int = 0
    longest_seconds: float = forks.HANG_SECONDS

    def run(self, *arguments: str, stdin: str | None = None, **settings: object) -> Crawl:
        """Run `scrapy ARGUMENTS -s SETTING=…` and wait for it."""
        options = [*QUICK, f"HACS_STATE={self.state}"]
        # two crawls within one second would be one visit
        settings.setdefault("HACS_CLOCK", "tests.clocks.later")
        later = {"HACS_TESTS_LATER": str(2 * self.runs)}
        self.runs += 1
        options += [f"{name}={value}" for name, value in settings.items()]
        arguments += tuple(part for one in options for part in ("-s", one))
        given, environment = (stdin or "").encode(), {**os.environ, **later}
        done = forks.run(
            "scrapy", arguments, ROOT, given, environment, timeout=self.longest_seconds
        )
        return Crawl(done.returncode, done.stderr.decode(), done.stdout.decode())

    def crawl(
        self, seeds: str | list[str], *arguments: str, spider: str = "scholar", **settings: object
    ) -> Crawl:
        """Run `scrapy crawl SPIDER` on a seed source, or on a file made of these URLs."""
        if not isinstance(seeds, str):
            file = self.folder / "seeds.txt"
            file.write_text("\n".join(seeds) + "\n")
            seeds = str(file)
        arguments = ("-a", f"seeds={seeds}", "-O", "-:json", *arguments)
        return self.run("crawl", spider, *arguments, **settings)

    def page(self, url: str) -> Page | None:
        with opened(self.state) as state:
            return state.load([page_id_of(url)]).get(page_id_of(url))


class AnySpider:
    """A spider of somebody else's, run with the one line that switches HACS on."""

    def __init__(self, folder: Path, site: LocalServer) -> None:
        self.folder = folder
        self._site = site
        self.days = 0

    def run(self, code: str, *arguments: str, **settings: object) -> Crawl:
        """Run a spider, `days` from now."""
        command = self._command(code, arguments, settings)
        done = forks.run("scrapy", command, ROOT, environment=self._environment())
        return Crawl(done.returncode, done.stderr.decode(), done.stdout.decode())

    def start(self, code: str, *arguments: str, **settings: object) -> forks.Started:
        command = self._command(code, arguments, {"LOG_LEVEL": "DEBUG", **settings})
        return forks.start("scrapy", command, ROOT, self._environment())

    def _command(
        self, code: str, arguments: tuple[str, ...], settings: dict[str, object]
    ) -> list[str]:
        file = self.folder / "any_spider.py"
        file.write_text(textwrap.dedent(code))
        # Python tells a changed file by its size and the second: a fast machine ran the spider of before
        shutil.rmtree(self.folder / "__pycache__", ignore_errors=True)
        options = {
            "ADDONS": ADDONS,
            "HACS_STATE": f"sqlite:///{self.folder}/state.db",
            "HACS_CLOCK": "tests.clocks.later",
            "HACS_CONTROLS": 0,
            **settings,
        }
        named = [*QUICK, *(f"{name}={value}" for name, value in options.items())]
        parts = [part for one in named for part in ("-s", one)]
        command = ("runspider", str(file), "-a", f"url={self._site.url}", "-O", "-:json")
        return [*command, *arguments, *parts]

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "HACS_TESTS_LATER": str(self.days * DAYS)}


def begin_rounds(
    project: Project, seeds: str, *arguments: str, minutes: float = 60, **settings: object
) -> forks.Started:
    """Start `scrapy crawl scholar -a forever=…`, which goes on until it gets a signal."""
    options = [*QUICK, f"HACS_STATE={project.state}", "LOG_LEVEL=DEBUG"]
    options += [f"{name}={value}" for name, value in settings.items()]
    command = ["crawl", "scholar", "-a", f"seeds={seeds}", "-a", f"forever={minutes}m", *arguments]
    command += [part for one in options for part in ("-s", one)]
    return forks.start("scrapy", command, ROOT)


def read_until(process: forks.Started, text: str, times: int = 1) -> str:
    """Read the log until a text has come so many times."""
    log = ""
    for line in process.stderr:
        log += line
        times -= text in line
        if times <= 0:
            return log
    pytest.fail(f"{text!r} never came:\n{log}")


def finish(process: forks.Started, log: str = "") -> Crawl:
    log += process.communicate()
    return Crawl(process.returncode, log, "")

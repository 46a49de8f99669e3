"""A Scrapy project that tests run as a user would."""

import json
import os
import re
import shutil
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import InitVar, dataclass
from pathlib import Path
from typing import Any

import pytest

import forks
from hacs_crawler.links.keys import page_id_of
from hacs_crawler.state import Finding, Page, all_findings
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
    """A finished `scrapy` process; one that did not end as expected fails its test."""

    exit_status: int
    log: str
    output: str = ""
    status: InitVar[int | None] = 0
    """The exit status that is expected, None if any is."""
    tracebacks: InitVar[bool] = False
    """Whether a traceback may be in the log."""

    def __post_init__(self, status: int | None, tracebacks: bool) -> None:
        assert status in (self.exit_status, None), self.log[-3_000:]
        assert tracebacks or "Traceback" not in self.log, self.log

    @property
    def errors(self) -> list[str]:
        """The log's lines at level ERROR or worse, without the last, which repeats another."""
        found = re.findall("^.* (?:ERROR|CRITICAL): .*$", self.log, re.MULTILINE)
        return [line for line in found if " ERROR: Exit status 1: " not in line]

    @property
    def items(self) -> list[dict[str, Any]]:
        return json.loads(self.output) if self.output.strip() else []

    def stat(self, name: str) -> int:
        """A stat from the dump at the end of the log, 0 where there is none."""
        found = re.search(rf"'{re.escape(name)}': ([\d.]+)", self.log)
        return int(float(found[1])) if found else 0


def _arguments(*given: str) -> list[str]:
    return [part for one in given for part in ("-a", one)]


def _options(settings: Mapping[str, object]) -> list[str]:
    named = [*QUICK, *(f"{name}={value}" for name, value in settings.items())]
    return [part for one in named for part in ("-s", one)]


@dataclass
class Project:
    """The repository's own Scrapy project, with a state of its own."""

    folder: Path
    state: str
    runs: int = 0
    longest_seconds: float = forks.HANG_SECONDS

    def run(
        self,
        *command: str,
        stdin: str = "",
        status: int | None = 0,
        tracebacks: bool = False,
        **settings: object,
    ) -> Crawl:
        """Run `scrapy COMMAND -s SETTING=…` and wait for it; see `Crawl` for its end."""
        # two crawls within one second would be one visit
        settings = {"HACS_STATE": self.state, "HACS_CLOCK": "tests.clocks.later", **settings}
        later = {**os.environ, "HACS_TESTS_LATER": str(2 * self.runs)}
        self.runs += 1
        command = (*command, *_options(settings))
        done = forks.run("scrapy", command, ROOT, stdin.encode(), later, self.longest_seconds)
        log, output = done.stderr.decode(), done.stdout.decode()
        return Crawl(done.returncode, log, output, status, tracebacks)

    def crawl(
        self, seeds: str | list[str], *arguments: str, spider: str = "scholar", **settings: Any
    ) -> Crawl:
        """Run `scrapy crawl SPIDER` on a seed source, or on a file made of these URLs."""
        return self.run(*self._command(seeds, spider, arguments), **settings)

    def start(
        self, seeds: str | list[str], *arguments: str, spider: str = "scholar", **settings: object
    ) -> forks.Started:
        """Begin such a crawl, for a test that talks to it while it runs."""
        command = self._command(seeds, spider, arguments)
        settings = {"HACS_STATE": self.state, "LOG_LEVEL": "DEBUG", **settings}
        return forks.start("scrapy", [*command, *_options(settings)], ROOT)

    def _command(self, seeds: str | list[str], spider: str, arguments: Sequence[str]) -> list[str]:
        if not isinstance(seeds, str):
            file = self.folder / "seeds.txt"
            file.write_text("\n".join(seeds) + "\n")
            seeds = str(file)
        return ["crawl", spider, "-O", "-:json", *_arguments(f"seeds={seeds}", *arguments)]

    def page(self, url: str) -> Page | None:
        with opened(self.state) as state:
            return state.load([page_id_of(url)]).get(page_id_of(url))


class AnySpider:
    """A spider of somebody else's, run with the one line that switches HACS on."""

    def __init__(self, folder: Path, site: LocalServer) -> None:
        self.folder = folder
        self._site = site
        self.days = 0

    def run(
        self,
        code: str,
        *arguments: str,
        status: int | None = 0,
        tracebacks: bool = False,
        **settings: object,
    ) -> Crawl:
        """Run a spider, `days` from now, and the next time a day later; see `Crawl` for its end."""
        command = self._command(code, arguments, settings)
        done = forks.run("scrapy", command, ROOT, environment=self._environment())
        self.days += 1
        log, output = done.stderr.decode(), done.stdout.decode()
        return Crawl(done.returncode, log, output, status, tracebacks)

    def start(self, code: str, *arguments: str, **settings: object) -> forks.Started:
        command = self._command(code, arguments, {"LOG_LEVEL": "DEBUG", **settings})
        return forks.start("scrapy", command, ROOT, self._environment())

    def things(self) -> list[Finding]:
        """What is kept of new things, of the one page that has any."""
        with opened(f"sqlite:///{self.folder}/state.db") as state:
            ((_, found),) = all_findings(state.store)
        return list(found.things)

    def _command(
        self, code: str, arguments: Sequence[str], settings: Mapping[str, object]
    ) -> list[str]:
        file = self.folder / "any_spider.py"
        file.write_text("import scrapy\n" + textwrap.dedent(code))
        # Python tells a changed file by its size and the second: a fast machine ran the spider of before
        shutil.rmtree(self.folder / "__pycache__", ignore_errors=True)
        settings = {
            "ADDONS": ADDONS,
            "HACS_STATE": f"sqlite:///{self.folder}/state.db",
            "HACS_CLOCK": "tests.clocks.later",
            "HACS_CONTROLS": 0,
            **settings,
        }
        given = _arguments(f"url={self._site.url}", *arguments)
        return ["runspider", str(file), "-O", "-:json", *given, *_options(settings)]

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "HACS_TESTS_LATER": str(self.days * DAYS)}


def read_until(process: forks.Started, text: str, times: int = 1) -> str:
    """Read the log until a text has come so many times."""
    log = ""
    for line in process.stderr:
        log += line
        times -= text in line
        if times <= 0:
            return log
    pytest.fail(f"{text!r} never came:\n{log}")


def finish(process: forks.Started, log: str = "", status: int = 0) -> Crawl:
    log += process.communicate()
    return Crawl(process.returncode, log, status=status)

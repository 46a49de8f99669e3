"""Crawls of drawn scenarios: something happens to one of them, and the next one is left alone."""

import random
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

from scrapy.settings import Settings

from endurance.crawling import Crawls
from endurance.states import State, send_signal
from fuzz.clock import DAY, NOON
from fuzz.exported import exported
from fuzz.invariants import is_comparable, updates_are_what_time_brought
from fuzz.scenario import Scenario, drawn
from fuzz.seen import Run
from fuzz.site import FuzzedSite
from fuzz.spiders import KINDS
from hacs_crawler.config import Config
from hacs_crawler.exceptions import ConfigError, StateError
from servers import in_background

MORE_DAYS = (40, 41, 42)
"""Days on which nothing changes, for crawls that ended before anything happened to them."""
OUR_ERROR = re.compile(r"^\S+ \S+ \[hacs_crawler\S*\] (?:ERROR|CRITICAL): .*", re.MULTILINE)
RAISED = re.compile(
    r"(?:Traceback \(most recent call last\):\n(?:[ \n].*\n|\n)*\S.*"
    r"(?:\n\n(?:During handling|The above exception).*\n\n)?)+"
)
WHERE = re.compile(r'File "[^"]*?/(hacs_crawler|middlewares|scrapy|fuzz)/')


class Fault(NamedTuple):
    kind: Literal["lost", "false", "hung", "else"]
    text: str


class Judge:
    """Has `happens` done to a state and its crawls, one of each shard, and looks at what is kept."""

    def __init__(
        self,
        folder: Path,
        state: State,
        happens: Callable[..., object] = send_signal,
        shards: int = 1,
    ) -> None:
        self._state, self._happens = state, happens
        self._crawls = [Crawls(folder / str(number)) for number in range(shards)]
        self._site = FuzzedSite()
        in_background(self._site.listen())

    def attempt(self, rng: random.Random) -> tuple[int, list[Fault]]:
        """Return how often it happened, once or not at all, and what was wrong then."""
        scenario = _scenario(rng)
        self._clear()
        has_happened = False
        requests = len(scenario.pages)
        for day in (*scenario.days, *MORE_DAYS):
            is_last = has_happened
            self._begin(scenario, day)
            if not is_last and (has_happened := self._is_at_a_moment(rng, requests)):
                for crawls in self._crawls[: rng.randint(1, len(self._crawls))]:
                    self._happens(self._state, crawls, rng)
            is_alone = is_last or not has_happened
            faults = self._ended(scenario, day, is_alone=is_alone)
            if is_last or faults:
                break
            requests = len(self._site.log)
        return has_happened, faults

    def _clear(self) -> None:
        self._state.clear()
        for crawls in self._crawls:
            crawls.clear()

    def _begin(self, scenario: Scenario, day: int, **settings: object) -> None:
        self._site.begin(scenario, day)
        for number, crawls in enumerate(self._crawls):
            if len(self._crawls) > 1:
                settings["HACS_SHARD"] = f"{number}/{len(self._crawls)}"
            crawls.begin(scenario, day, self._site.port, self._state.address, settings)

    def _ended(self, scenario: Scenario, day: int, *, is_alone: bool) -> list[Fault]:
        """Wait until the crawls have ended, and say what is wrong."""
        statuses = [crawls.end() for crawls in self._crawls]
        self._state.mend()
        logged = [
            fault
            for crawls, status in zip(self._crawls, statuses, strict=True)
            for fault in self._logged(crawls, status, is_alone)
        ]
        return [*logged, *self._kept(scenario, day, is_alone)]

    def _is_at_a_moment(self, rng: random.Random, requests: int) -> bool:
        """Wait until a moment between a crawl's start and its end; returns whether it still runs."""
        moment = rng.randint(-requests // 5, requests)
        while len(self._site.log) < moment and self._crawls[0].is_running():
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.3 if moment < 0 else 0.1))
        return self._crawls[0].is_running()

    def _logged(self, crawls: Crawls, status: int | None, is_alone: bool) -> Iterator[Fault]:
        log = crawls.log.read_text(errors="replace")
        if status is None:
            yield Fault("hung", log[-2000:])
        for raised in RAISED.findall(log):
            # the innermost of these raised it: fuzz is the spider, whose faults are drawn
            by_others = WHERE.findall(raised)[-1:] in (["fuzz"], ["scrapy"])
            if not by_others and "Interrupt" not in raised:
                yield Fault("else", raised[-2000:])
        if is_alone and not self._state.is_damaged:
            yield from (Fault("else", line) for line in OUR_ERROR.findall(log))
            if status:
                yield Fault("else", f"status {status}: {log[-2000:]}")

    def _kept(self, scenario: Scenario, day: int, is_alone: bool) -> Iterator[Fault]:
        shards = len(self._crawls)
        names = [f"hacs.{number}-{shards}" for number in range(shards)] if shards > 1 else ["hacs"]
        states = [self._exported(name, is_alone) for name in names]
        if not self._state.is_damaged:
            for crawls, found in zip(self._crawls, states, strict=True):
                kept = {f"{url} {at}" for url, times in found["visits"].items() for at in times}
                yield from (Fault("lost", visit) for visit in sorted(crawls.said() - kept))
                yield from (Fault("else", text) for text in found["faults"])
        part = {"reason": "", "events": []}
        run = Run(scenario, {"parts": [part], "states": states, "at": NOON + DAY * day})
        for text in updates_are_what_time_brought(run):
            yield Fault("false" if text.startswith("an update") else "else", text)

    def _exported(self, name: str, is_alone: bool) -> dict[str, Any]:
        try:
            return exported(self._state.address, name)
        except StateError as error:  # killed before it was made, or damaged beyond reading
            return {"visits": {}, "updates": {}, "faults": [str(error)] if is_alone else []}

    def close(self) -> None:
        for crawls in self._crawls:
            crawls.close()


class Jobs(Judge):
    """A job is stopped, resumed and killed, and resumed again: no start request is lost."""

    def attempt(self, rng: random.Random) -> tuple[int, list[Fault]]:
        scenario = _scenario(rng, _asks_for_its_starts)
        self._clear()
        asked: set[str] = set()
        has_happened = False
        for number in (signal.SIGTERM, signal.SIGKILL, None):
            self._begin(scenario, 0, JOBDIR="job")
            if number is not None and self._is_at_a_moment(rng, len(scenario.pages)):
                self._crawls[0].signal(number)
                has_happened = number == signal.SIGKILL
            faults = self._ended(scenario, 0, is_alone=number is None)
            asked |= {one["url"] for one in self._site.log}
            if faults:
                return has_happened, faults
        starts = {self._site.url(number) for number in scenario.starts}
        return has_happened, [Fault("lost", f"{url} was not asked for") for url in starts - asked]


def _asks_for_its_starts(run: Run) -> bool:
    return is_comparable(run) and run.scenario.spider not in {"Maps", "Feeds"}


def _scenario(rng: random.Random, fits: Callable[[Run], bool] = lambda _: True) -> Scenario:
    """Draw one whose settings are not refused."""
    while True:
        scenario = drawn(rng.randrange(2**32), [*KINDS])
        try:
            Config.from_settings(Settings(scenario.settings))
        except ConfigError:
            continue
        if fits(Run(scenario, {"parts": [{"reason": "", "events": []}], "states": [], "at": 0})):
            return scenario

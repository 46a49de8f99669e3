"""Crawls of drawn scenarios: something happens to one of them, and the next one is left alone."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

from scrapy.settings import Settings

from endurance.crawling import Crawls
from endurance.states import State
from fuzz.clock import DAY, NOON
from fuzz.exported import exported
from fuzz.invariants import updates_are_what_time_brought
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
RAISED = re.compile(r"Traceback \(most recent call last\):\n(?:[ \n].*\n|\n)*\S.*")
WHERE = re.compile(r'File "[^"]*?/(hacs_crawler|middlewares|scrapy|fuzz)/')


class Fault(NamedTuple):
    kind: Literal["lost", "false", "hung", "else"]
    text: str


class Judge:
    """Has `happens` done to a state and its crawls, and looks at what they say and at what is kept."""

    def __init__(self, folder: Path, state: State, happens: Callable[..., object]) -> None:
        self._state, self._happens = state, happens
        self._crawls = Crawls(folder)
        self._site = FuzzedSite()
        in_background(self._site.listen())

    def attempt(self, rng: random.Random) -> tuple[int, list[Fault]]:
        """Return how often it happened, once or not at all, and what was wrong then."""
        scenario = _scenario(rng)
        self._state.clear()
        self._crawls.acknowledged.unlink(missing_ok=True)
        has_happened = False
        requests = len(scenario.pages)
        for day in (*scenario.days, *MORE_DAYS):
            is_last = has_happened
            self._site.begin(scenario, day)
            self._crawls.begin(scenario, day, self._site.port, self._state.address)
            if not is_last and (has_happened := self._is_at_a_moment(rng, requests)):
                self._happens(self._state, self._crawls, rng)
            status = self._crawls.end()
            self._state.mend()
            is_alone = is_last or not has_happened
            faults = [*self._logged(status, is_alone), *self._kept(scenario, day, is_alone)]
            if is_last or faults:
                break
            requests = len(self._site.log)
        return has_happened, faults

    def _is_at_a_moment(self, rng: random.Random, requests: int) -> bool:
        """Wait until a moment between a crawl's start and its end; returns whether it still runs."""
        moment = rng.randint(-requests // 5, requests)
        while len(self._site.log) < moment and self._crawls.is_running():
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.3 if moment < 0 else 0.1))
        return self._crawls.is_running()

    def _logged(self, status: int | None, is_alone: bool) -> Iterator[Fault]:
        log = self._crawls.log.read_text(errors="replace")
        if status is None:
            yield Fault("hung", log[-2000:])
        for raised in RAISED.findall(log):
            # the innermost of these raised it: fuzz is the spider, whose faults are drawn
            if (
                WHERE.findall(raised)[-1:] not in (["fuzz"], ["scrapy"])
                and "Interrupt" not in raised
            ):
                yield Fault("else", raised[-2000:])
        if is_alone and not self._state.is_damaged:
            yield from (Fault("else", line) for line in OUR_ERROR.findall(log))
            if status:
                yield Fault("else", f"status {status}: {log[-2000:]}")

    def _kept(self, scenario: Scenario, day: int, is_alone: bool) -> Iterator[Fault]:
        try:
            found = exported(self._state.address, "hacs")
        except StateError as error:  # killed before it was made, or damaged beyond reading
            found = {"visits": {}, "updates": {}, "faults": [str(error)] if is_alone else []}
        if not self._state.is_damaged:
            kept = {f"{url} {at}" for url, times in found["visits"].items() for at in times}
            file = self._crawls.acknowledged
            said = set(file.read_text().splitlines()) if file.exists() else set()
            yield from (Fault("lost", visit) for visit in sorted(said - kept))
            yield from (Fault("else", text) for text in found["faults"])
        part = {"reason": "", "events": []}
        run = Run(scenario, {"parts": [part], "states": [found], "at": NOON + DAY * day})
        for text in updates_are_what_time_brought(run):
            yield Fault("false" if text.startswith("an update") else "else", text)

    def close(self) -> None:
        self._crawls.close()


def _scenario(rng: random.Random) -> Scenario:
    """Draw one whose settings are not refused."""
    while True:
        scenario = drawn(rng.randrange(2**32), [*KINDS])
        try:
            Config.from_settings(Settings(scenario.settings))
        except ConfigError:
            continue
        return scenario

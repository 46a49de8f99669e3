"""Plays a scenario and says what does not hold of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from scrapy.settings import Settings

from fuzz.invariants import COMPARED, INVARIANTS, is_comparable
from fuzz.player import play
from fuzz.scenario import Scenario
from fuzz.seen import Run
from hacs_crawler.config import Config
from hacs_crawler.exceptions import ConfigError


def faults(scenario: Scenario, redis: str = "") -> list[str]:
    """Return what does not hold, each with the invariant's name and the run; empty where all is well.

    `redis` is the address of a server. What the add-on refuses, settings that contradict each other,
    is not played.
    """
    try:
        Config.from_settings(Settings(scenario.settings))
    except ConfigError:
        return []
    seen = play(scenario, redis, addon=True)
    if isinstance(seen, str):
        return [f"the_crawl_ends: {seen}"]
    runs = [Run(scenario, one) for one in seen]
    found = _broken(INVARIANTS, ((run,) for run in runs))
    has_traceback = any("Traceback" in line for run in runs for line in run.log())
    if found or not (has_traceback or is_comparable(runs[0])):
        return found
    seen = play(scenario, redis, addon=False)
    if isinstance(seen, str):
        return [f"without the add-on: {seen}"]
    return _broken(COMPARED, zip(runs, (Run(scenario, one) for one in seen), strict=True))


def _broken(
    invariants: Iterable[Callable[..., Iterator[str]]], runs: Iterable[tuple[Any, ...]]
) -> list[str]:
    return [
        f"{holds.__name__}: run {number}: {fault}"
        for number, given in enumerate(runs, 1)
        for holds in invariants
        for fault in holds(*given)
    ]

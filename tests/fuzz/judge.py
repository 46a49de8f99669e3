"""Plays a scenario and says what does not hold of it; makes one that fails smaller."""

from __future__ import annotations

from scrapy.settings import Settings

from fuzz.client import Player
from fuzz.invariants import COMPARED, INVARIANTS, is_comparable
from fuzz.scenario import Scenario
from fuzz.seen import Run
from hacs_crawler.config import Config
from hacs_crawler.exceptions import ConfigError


def faults(scenario: Scenario, player: Player) -> list[str]:
    """Return what does not hold, each with the invariant's name and the run; empty where all is well."""
    if refusal(scenario):
        return []
    seen = player.play(scenario, addon=True)
    if isinstance(seen, str):
        return [f"the_crawl_ends: {seen}"]
    runs = [Run(scenario, one) for one in seen]
    found = [
        f"{holds.__name__}: run {number}: {fault}"
        for number, run in enumerate(runs, 1)
        for holds in INVARIANTS
        for fault in holds(run)
    ]
    has_traceback = any("Traceback" in line for run in runs for line in run.log())
    if found or not (has_traceback or is_comparable(runs[0])):
        return found
    seen = player.play(scenario, addon=False)
    if isinstance(seen, str):
        return [f"without the add-on: {seen}"]
    return [
        f"{holds.__name__}: run {number}: {fault}"
        for number, (run, plain) in enumerate(zip(runs, seen, strict=True), 1)
        for holds in COMPARED
        for fault in holds(run, Run(scenario, plain))
    ]


def refusal(scenario: Scenario) -> str:
    """Why the add-on refuses the settings, which contradict each other; "" where it does not."""
    try:
        Config.from_settings(Settings(scenario.settings))
    except ConfigError as error:
        return str(error)
    return ""

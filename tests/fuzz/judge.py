"""Plays a scenario, says what does not hold of it, and makes it smaller."""

import json
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from scrapy.settings import Settings

from fuzz.forked import Forks
from fuzz.invariants import COMPARED, INVARIANTS, is_comparable
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
    seen = _played(scenario, redis, addon=True)
    if isinstance(seen, str):
        return [f"the_crawl_ends: {seen}"]
    runs = [Run(scenario, one) for one in seen]
    found = _broken(INVARIANTS, ((run,) for run in runs))
    has_traceback = any("Traceback" in line for run in runs for line in run.log())
    if found or not (has_traceback or is_comparable(runs[0])):
        return found
    seen = _played(scenario, redis, addon=False)
    if isinstance(seen, str):
        return [f"without the add-on: {seen}"]
    return _broken(COMPARED, zip(runs, (Run(scenario, one) for one in seen), strict=True))


def _played(scenario: Scenario, redis: str, *, addon: bool) -> list[dict[str, Any]] | str:
    """Return what was seen on each day, or the log where the process did not come to its end."""
    forks = _forks()
    with TemporaryDirectory(prefix="hacs-fuzz-", ignore_cleanup_errors=True) as folder:
        forks.begin(scenario, folder, redis, addon)
        if forks.end() == 0:
            runs: list[dict[str, Any]] = json.loads(Path(folder, "seen").read_text())
            return runs
        log = Path(folder, "log").read_text().replace("\0", "\n")
        return f"it did not end within {forks.longest_seconds:g} s:\n{log[-3000:]}"


@cache
def _forks() -> Forks:
    return Forks("fuzz.worker")


def _broken(
    invariants: Iterable[Callable[..., Iterator[str]]], runs: Iterable[tuple[Any, ...]]
) -> list[str]:
    return [
        f"{holds.__name__}: run {number}: {fault}"
        for number, given in enumerate(runs, 1)
        for holds in invariants
        for fault in holds(*given)
    ]


def shrunk(scenario: Scenario, fails: Callable[[Scenario], bool], most: int = 300) -> Scenario:
    """Return the smallest scenario that was found; `fails` is asked at most so many times."""
    while True:
        for smaller in _smaller(scenario):
            most -= 1
            if most < 0:
                return scenario
            if fails(smaller):
                scenario = smaller
                break
        else:
            return scenario


def _smaller(scenario: Scenario) -> Iterator[Scenario]:
    for fields in _without_one_thing(msgspec.to_builtins(scenario)):
        try:
            smaller = msgspec.convert(fields, Scenario)
        except msgspec.ValidationError:
            continue
        # a link to a page that was left out leads to the next one now
        if smaller.days and smaller.starts and max(smaller.numbers()) < len(smaller.pages):
            yield smaller


def _without_one_thing(value: Any) -> Iterator[Any]:
    entries = value if isinstance(value, dict) else dict(enumerate(value))
    whole = dict if isinstance(value, dict) else lambda entries: [*entries.values()]
    for key in entries:
        yield whole({other: entries[other] for other in entries if other != key})
    for key, entry in entries.items():
        if isinstance(entry, dict | list | tuple):
            for smaller in _without_one_thing(entry):
                yield whole({**entries, key: smaller})

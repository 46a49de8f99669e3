"""Makes a scenario that fails smaller, as long as the same invariant does not hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from fuzz.scenario import Scenario


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
    """Yield a value without one of its entries, then with an entry without one of its entries…"""
    entries = value if isinstance(value, dict) else dict(enumerate(value))
    whole = dict if isinstance(value, dict) else lambda entries: [*entries.values()]
    for key in entries:
        yield whole({other: entries[other] for other in entries if other != key})
    for key, entry in entries.items():
        if isinstance(entry, dict | list | tuple):
            for smaller in _without_one_thing(entry):
                yield whole({**entries, key: smaller})

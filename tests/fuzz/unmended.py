"""Faults of the product that are known and not mended: what shows them is not drawn.

Each has a scenario in `scenarios/unmended/`, which has to go on failing. Whoever mends one moves that
file to `scenarios/`, and removes the line here.
"""

from __future__ import annotations

from collections.abc import Callable

from fuzz.scenario import Scenario

UNMENDED: dict[str, Callable[[Scenario], bool]] = {
    "a start request that is to be recorded": lambda one: (
        "HACS_BUDGET" in one.settings and one.spider == "OptsOut"
    ),
}


def shows_unmended(scenario: Scenario) -> bool:
    """Whether a scenario would fail for a reason that is known."""
    return any(shows(scenario) for shows in UNMENDED.values())

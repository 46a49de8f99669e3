"""Whole crawls, drawn at random: any site, spider and settings. What holds of all is in `invariants`.

`tox -e fuzz` draws others each time, for HACS_FUZZ_SECONDS. A scenario that fails is made smaller and
printed: put it into a file in `scenarios/`, where it is played for ever.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fuzz.client import Player
from fuzz.judge import faults
from fuzz.scenario import Scenario, drawn
from fuzz.settings_drawn import SET_BY_THE_JUDGE, VALUES
from fuzz.shrink import shrunk
from fuzz.spiders import KINDS
from hacs_crawler.config import SETTINGS

SCENARIOS = Path(__file__).parent / "scenarios"
KEPT = sorted(SCENARIOS.glob("*.json"))
SECONDS = float(os.environ.get("HACS_FUZZ_SECONDS", "0"))
SHARES = 4
SEEDS_A_SHARE = 30
"""All shares together take a minute."""


@pytest.fixture(scope="module")
def player(redis_port: int) -> Iterator[Player]:
    with Player(f"redis://127.0.0.1:{redis_port}/0") as player:
        yield player


@pytest.mark.skipif(SECONDS > 0, reason="others are drawn")
@pytest.mark.parametrize("share", range(SHARES))
def test_what_was_drawn_once_holds(share: int, player: Player) -> None:
    for seed in range(share * SEEDS_A_SHARE, (share + 1) * SEEDS_A_SHARE):
        _judge(seed, player)


@pytest.mark.skipif(SECONDS == 0, reason="tox -e fuzz draws as long as one likes")
@pytest.mark.parametrize("share", range(2))
def test_what_is_drawn_now_holds(share: int, player: Player) -> None:
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        _judge(random.SystemRandom().randrange(2**32), player)


def _judge(seed: int, player: Player) -> None:
    scenario = drawn(seed, list(KINDS))
    found = faults(scenario, player)
    if found:
        smaller, found = _smaller(scenario, found, player)
        pytest.fail(f"seed {seed}:\n" + "\n".join(found) + f"\n{smaller.to_json()}", pytrace=False)


def _smaller(scenario: Scenario, found: list[str], player: Player) -> tuple[Scenario, list[str]]:
    name = found[0].partition(":")[0]

    def fails(smaller: Scenario) -> bool:
        nonlocal found
        now = [one for one in faults(smaller, player) if one.startswith(name)]
        found = now or found
        return bool(now)

    return shrunk(scenario, fails), found


@pytest.mark.parametrize("file", KEPT, ids=lambda file: file.stem)
def test_a_scenario_that_failed_once_holds(file: Path, player: Player) -> None:
    assert faults(Scenario.from_json(file.read_bytes()), player) == []


def test_each_setting_is_drawn_or_set_by_the_judge() -> None:
    assert SETTINGS.keys() == SET_BY_THE_JUDGE | VALUES.keys()

"""Whole crawls, drawn at random: any site, spider and settings. What holds of all is in `invariants`.

`tox -e fuzz` draws others each time, for HACS_FUZZ_SECONDS. A scenario that fails is made smaller and
printed: put it into a file in `scenarios/`, where it is played for ever.
"""

import os
import random
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from fuzz.judge import faults, shrunk
from fuzz.scenario import Scenario, drawn
from fuzz.settings_drawn import SET_BY_THE_JUDGE, VALUES
from fuzz.spiders import KINDS
from hacs_crawler.config import SETTINGS

KEPT = sorted((Path(__file__).parent / "scenarios").glob("*.json"))
SECONDS = float(os.environ.get("HACS_FUZZ_SECONDS", "0"))
SHARES = 4
SEEDS_A_SHARE = 30
"""All shares together take a minute."""


@pytest.fixture
def redis(redis_port: int) -> str:
    return f"redis://127.0.0.1:{redis_port}/0"


@pytest.mark.skipif(SECONDS > 0, reason="others are drawn")
@pytest.mark.parametrize("share", range(SHARES))
def test_what_was_drawn_once_holds(share: int, redis: str) -> None:
    for seed in range(share * SEEDS_A_SHARE, (share + 1) * SEEDS_A_SHARE):
        _judge(seed, redis)


@pytest.mark.skipif(SECONDS == 0, reason="tox -e fuzz draws as long as one likes")
@pytest.mark.parametrize("share", range(2))
def test_what_is_drawn_now_holds(
    share: int, redis: str, record_property: Callable[[str, int], None]
) -> None:
    until = time.monotonic() + SECONDS
    for played in count(1):
        _judge(random.SystemRandom().randrange(2**32), redis)
        if time.monotonic() > until:
            record_property("scenarios", played)
            break


def _judge(seed: int, redis: str) -> None:
    scenario = drawn(seed, [*KINDS])
    found = faults(scenario, redis)
    if not found:
        return
    name = found[0].partition(":")[0]

    def fails(smaller: Scenario) -> bool:
        return any(fault.startswith(name) for fault in faults(smaller, redis))

    smaller = shrunk(scenario, fails).to_json()
    pytest.fail("\n".join([f"seed {seed}:", *found, smaller]), pytrace=False)


@pytest.mark.parametrize("file", KEPT, ids=lambda file: file.stem)
def test_a_scenario_that_failed_once_holds(file: Path, redis: str) -> None:
    assert faults(Scenario.from_json(file.read_bytes()), redis) == []


def test_each_setting_is_drawn_or_set_by_the_judge() -> None:
    assert SETTINGS.keys() == SET_BY_THE_JUDGE | VALUES.keys()

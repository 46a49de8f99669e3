"""Signals of a simulated web, and what they are worth there."""

import importlib
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from hacs_crawler.lab.simulation.baselines import find_baseline
from hacs_crawler.lab.simulation.simulation import Scenario, World, simulate
from hacs_crawler.lab.timelines import parse_day
from hacs_crawler.links import page_id_of
from hacs_crawler.state import Estimation
from hacs_crawler.utils.times import DAY
from made_timelines import timelines_of

START = parse_day("2022-01-01", "start")
DAYS = 120
BEFORE = 400
Range = tuple[float, float]


def scenario(seed: int) -> Scenario:
    """120 pages of 12 hosts, updated every 150 days or so, of which two can be visited a day."""
    rng = np.random.default_rng(seed)
    number = 120
    urls = [f"http://h{page % 12}.example/p{page}.html" for page in range(number)]
    first = START - BEFORE * DAY
    counts = rng.poisson((BEFORE + DAYS) / 150, number)
    at = [rng.integers(first + 1, START + DAYS * DAY, count).tolist() for count in counts]
    updates = [[(one, 1) for one in page] for page in at]
    seen = [range(first + 1, START, 40 * DAY)] * number
    ids = np.array([page_id_of(url) for url in urls])
    timelines = timelines_of(updates, seen, [first] * number)
    timelines = replace(timelines, urls=urls, page_ids=ids, sites=urls)
    return Scenario(timelines, START, START + DAYS * DAY, 2, Estimation(), seed)


@pytest.fixture
def signals(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    return importlib.import_module("signals")


def hits(module: ModuleType, policy: str, habits: tuple[Range, ...] | None, seeds: int) -> int:
    """Sum the hits of simulations with signals of these habits."""

    def make_world(scenario: Scenario) -> World:
        if habits is None:
            return World(scenario)
        return module.SignallingWorld(scenario, module.Habits(*habits))

    make = find_baseline(policy).make
    scores = [simulate(scenario(n), policy, make, make_world=make_world) for n in range(seeds)]
    return sum(score.hits for score in scores)


def test_honest_signals_close_half_of_the_way_to_the_oracle(signals: ModuleType) -> None:
    none, oracle = (hits(signals, policy, None, 4) for policy in ("hacs", "oracle"))
    honest = hits(signals, "hacs", ((0.9, 0.9), (0.0, 0.01), (0.0, 1.0)), 4)
    assert honest - none >= (oracle - none) / 2 > 0


@pytest.mark.parametrize("false_per_day", [0.0, 0.05, 1.0])
def test_signals_that_all_lie_cost_little(signals: ModuleType, false_per_day: float) -> None:
    none = hits(signals, "hacs", None, 3)
    lying = hits(signals, "hacs", ((0.0, 0.0), (false_per_day, false_per_day), (0.0, 0.0)), 3)
    assert lying >= none - 3 * np.sqrt(none)


def test_the_same_seed_gives_the_same_result(signals: ModuleType) -> None:
    habits = ((0.2, 0.9), (0.0, 0.1), (0.0, 3.0))
    assert hits(signals, "hacs", habits, 1) == hits(signals, "hacs", habits, 1)

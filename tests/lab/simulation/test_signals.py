"""Signals of a simulated web, and what they are worth there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hacs_crawler.exceptions import HacsError
from hacs_crawler.lab.simulation.baselines import compete
from hacs_crawler.lab.simulation.signals import SignalHabits
from hacs_crawler.lab.simulation.simulation import Scenario
from hacs_crawler.lab.timelines import Events, Timelines, parse_day
from hacs_crawler.links import page_id_of
from hacs_crawler.state import Estimation
from hacs_crawler.utils.times import DAY

START = parse_day("2022-01-01", "start")
DAYS = 120
BEFORE = 400


def scenario(signals: str | None, seed: int = 3) -> Scenario:
    """120 pages of 12 hosts, updated every 150 days or so, of which two can be visited a day."""
    rng = np.random.default_rng(seed)
    number = 120
    urls = [f"http://h{page % 12}.example/p{page}.html" for page in range(number)]
    first = START - BEFORE * DAY
    counts = rng.poisson((BEFORE + DAYS) / 150, number)
    at = [np.sort(rng.integers(first + 1, START + DAYS * DAY, count)) for count in counts]
    offsets = np.concatenate([[0], np.cumsum(counts)])
    seen = np.arange(first + 1, START, 40 * DAY)
    captures = Events(
        np.tile(seen, number),
        np.zeros(number * len(seen), np.int64),
        len(seen) * np.arange(number + 1),
    )
    timelines = Timelines(
        urls=urls,
        page_ids=np.array([page_id_of(url) for url in urls]),
        sites=urls,
        is_homepage=np.ones(number, np.bool_),
        first_seen=np.full(number, first),
        updates=Events(np.concatenate(at), np.ones(offsets[-1], np.int64), offsets),
        captures=captures,
    )
    habits = None if signals is None else SignalHabits.parse(signals)
    return Scenario(timelines, START, START + DAYS * DAY, 2, Estimation(), signals=habits)


def test_honest_signals_close_half_of_the_way_to_the_oracle() -> None:
    def hits(policy: str, signals: str | None) -> int:
        return sum(compete(replace(scenario(signals), seed=seed), policy).hits for seed in range(4))

    none, oracle = hits("hacs", None), hits("oracle", None)
    honest = hits("hacs", "r=0.9,phi=0..0.01,delay=0..1")
    assert honest - none >= (oracle - none) / 2 > 0


@pytest.mark.parametrize("signals", ["r=0,phi=0", "r=0,phi=0.05", "r=0,phi=1"])
def test_signals_that_all_lie_cost_little(signals: str) -> None:
    seeds = range(3)
    none = sum(compete(scenario(None, seed), "hacs").hits for seed in seeds)
    lying = sum(compete(scenario(signals, seed), "hacs").hits for seed in seeds)
    assert lying >= none - 3 * np.sqrt(none)


def test_who_does_not_hear_signals_is_as_without() -> None:
    with_signals = scenario("r=0.9,phi=0,delay=0")
    without = replace(with_signals, signals=None)
    name = "hacs-without-signals"
    assert compete(with_signals, name) == compete(without, name)
    assert compete(with_signals, "last-obs") == compete(without, "last-obs")


def test_the_same_seed_gives_the_same_result() -> None:
    one = scenario("r=0.2..0.9,phi=0..0.1,delay=0..3")
    assert compete(one, "hacs") == compete(one, "hacs")


def test_habits_are_numbers_or_ranges() -> None:
    found = SignalHabits.parse("r=0.3..0.9, phi=0.01")
    assert found == SignalHabits((0.3, 0.9), (0.01, 0.01), (0.0, 0.0))


@pytest.mark.parametrize(
    "text", ["", "r", "r=2", "r=0.9..0.1", "x=1", "phi=-1", "delay=soon", "r=nan"]
)
def test_wrong_habits_are_named(text: str) -> None:
    with pytest.raises(HacsError, match="--signals"):
        SignalHabits.parse(text)

"""The paper's two evaluations on known histories (Jayawardana et al. 2020).

Each week t the rates are estimated from the captures of the w weeks before, and compared with the
updates after t.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from hacs_crawler.exceptions import HacsError
from hacs_crawler.lab.evaluation.histories import History, window
from hacs_crawler.lab.evaluation.measures import Tally, random_precision, weighted_precision
from hacs_crawler.utils.arrays import FloatArray

WEEK: Final = 7.0
WINDOW_WEEKS: Final = tuple(range(1, 13))
HORIZON_DAYS: Final = WEEK
ORDERS: Final = ("HACS", "Last-Obs", "Random")


@dataclass(frozen=True, slots=True)
class Period:
    """The moments t: weekly from `since` to `until`, both included, in days since 1970 UTC."""

    since: float
    until: float

    @property
    def moments(self) -> FloatArray:
        """The moments in order."""
        return np.arange(self.since, self.until + 1e-9, WEEK)


@dataclass(slots=True)
class Ordering:
    """Weighted P@K of each order at each moment at which there is an order to find."""

    values: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in ORDERS})

    def add(self, p: FloatArray, last_capture: FloatArray, next_update: FloatArray) -> None:
        """Add a moment: HACS has the highest p first, Last-Obs the page captured longest ago."""
        by_p = weighted_precision(p, next_update)
        by_age = weighted_precision(-last_capture, next_update)
        at_random = random_precision(next_update)
        for name, value in zip(ORDERS, (by_p, by_age, at_random), strict=True):
            if value is not None:
                self.values[name].append(value)

    @property
    def moments(self) -> int:
        """Number of moments with an order to find."""
        return len(self.values[ORDERS[0]])

    def mean(self, name: str) -> float | None:
        """Return the mean of an order over the moments, None without moments."""
        values = self.values[name]
        return math.fsum(values) / len(values) if values else None


@dataclass(frozen=True, slots=True)
class LevelResult:
    """What was found at one level; tallies and orderings by weeks of the window."""

    units: int
    tallies: dict[int, Tally]
    orderings: dict[int, Ordering]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The result at each level."""

    period: Period
    levels: dict[str, LevelResult]


def evaluate(
    levels: Mapping[str, History],
    period: Period,
    on_moment: Callable[[int, int], None] = lambda _done, _total: None,
) -> Evaluation:
    """Run both evaluations at every level; `on_moment` gets the numbers of finished and of all moments.

    Raises HacsError if no window of any moment holds a capture.
    """
    moments = period.moments.tolist()
    for history in levels.values():
        _check_captures(history, period)
    results: dict[str, LevelResult] = {}
    for name, history in levels.items():
        result = LevelResult(
            units=int(np.unique(history.capture_unit).size),
            tallies={weeks: Tally() for weeks in WINDOW_WEEKS},
            orderings={weeks: Ordering() for weeks in WINDOW_WEEKS},
        )
        before = len(results) * len(moments)
        for done, day in enumerate(moments, start=before + 1):
            _evaluate_at(day, history, result)
            on_moment(done, len(levels) * len(moments))
        results[name] = result
    return Evaluation(period, results)


def _evaluate_at(day: float, history: History, result: LevelResult) -> None:
    """Add the results of one moment."""
    next_updates = history.next_updates(day)
    for weeks in WINDOW_WEEKS:
        past = window(history, day, weeks * WEEK, HORIZON_DAYS)
        following = next_updates[past.units]
        result.tallies[weeks].add(past.p, following <= day + HORIZON_DAYS)
        result.orderings[weeks].add(past.p, past.last_capture, following)


def choose_period(
    levels: Mapping[str, History],
    since: float | None,
    until: float | None,
) -> tuple[Period, float]:
    """Return the moments to evaluate, and the last one after which the truth is known.

    `since` is by default the longest window after the first capture, `until` the last moment whose
    horizon ends before the last capture or update; a later one is moved there. Raises HacsError if
    no moment is left.
    """
    times = [
        days
        for history in levels.values()
        for days in (history.capture_days, history.update_days)
        if days.size
    ]
    captures = [history.capture_days for history in levels.values() if history.capture_days.size]
    if not captures:
        raise HacsError("there is no capture of any page")
    latest = math.floor(max(float(days.max()) for days in times) - HORIZON_DAYS)
    earliest = math.ceil(min(float(days[0]) for days in captures))
    end = latest if until is None else min(until, latest)
    start = min(earliest + max(WINDOW_WEEKS) * WEEK, end) if since is None else since
    if start > end or end < earliest:
        raise HacsError(
            f"no week to evaluate: captures begin on {day_name(earliest)}, and what happened in the "
            f"week that follows is known up to {day_name(latest)}"
            + ("" if since is None else f"; since = {day_name(since)}")
            + ("" if until is None else f"; until = {day_name(until)}")
        )
    return Period(start, end), latest


def _check_captures(history: History, period: Period) -> None:
    first = np.searchsorted(history.capture_days, period.since - max(WINDOW_WEEKS) * WEEK)
    last = np.searchsorted(history.capture_days, period.until, side="right")
    if first == last:
        raise HacsError(
            f"no captures between {day_name(period.since - max(WINDOW_WEEKS) * WEEK)} (the longest "
            f"window before the first week) and {day_name(period.until)}"
        )


def day_name(day: float) -> str:
    """Return the date of a day since 1970."""
    return str(np.datetime64(math.floor(day), "D"))

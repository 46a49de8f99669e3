"""How often homepages and websites are updated, and whether as a Poisson process would have it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import numpy as np

from hacs_crawler.lab.evaluation.histories import History, UnitRates, Units, estimated
from hacs_crawler.utils.arrays import FloatArray, IndexArray, offsets_of

# Bins of 1 / lambda in days for the Poisson check.
POISSON_BINS: Final = ((20.0, 50.0), (50.0, 100.0), (100.0, 200.0))
BARS: Final = 15
MONTHS_A_YEAR: Final = 12


@dataclass(frozen=True, slots=True)
class Intervals:
    """Days between a unit's successive interpolated updates; the unit's place among the rates."""

    days: FloatArray
    place: Units


@dataclass(frozen=True, slots=True)
class PoissonCheck:
    """Lengths of the intervals of units whose 1 / lambda lies in a bin, against the expected lengths.

    `edges` are the bars' ends in days, `observed` the shares of the intervals, `expected` those of
    exponential intervals with each unit's own lambda. The last bar holds all longer ones too.
    """

    low_days: float
    high_days: float
    units: int
    intervals: int
    edges: FloatArray
    observed: FloatArray
    expected: FloatArray


@dataclass(frozen=True, slots=True)
class Description:
    """The descriptive figures of one level (Jayawardana et al. 2020, Figures 3 to 6).

    `mean_days` is 1 / lambda of each unit with an update, `quiet` the number of units without.
    `median_days` is the median of a unit's intervals, nan without any.
    """

    months: list[str]
    captures: IndexArray
    captured: IndexArray
    mean_days: FloatArray
    quiet: int
    median_days: FloatArray
    checks: list[PoissonCheck]

    @property
    def median_of_mean_days(self) -> float | None:
        """The median of 1 / lambda over the units with an update."""
        return float(np.median(self.mean_days)) if self.mean_days.size else None


def describe(history: History, bins: Sequence[tuple[float, float]] = POISSON_BINS) -> Description:
    """Return the figures of one level, from all of its history."""
    rates = estimated(history, np.arange(history.gap_unit.size))
    moving = rates.per_day > 0
    mean_days = 1 / rates.per_day[moving]
    intervals = _intervals(history, rates)
    months, captures, captured = _by_month(history)
    return Description(
        months=months,
        captures=captures,
        captured=captured,
        mean_days=mean_days,
        quiet=int(np.unique(history.capture_unit).size - mean_days.size),
        median_days=_medians(intervals, rates.units.size)[moving],
        checks=[_check(intervals, rates, low, high) for low, high in bins],
    )


def _intervals(history: History, rates: UnitRates) -> Intervals:
    updates = np.flatnonzero(history.gap_updated)
    unit = np.searchsorted(rates.units, history.gap_unit[updates])
    days = history.gap_events[updates]
    order = np.lexsort((days, unit))
    days, unit = days[order], unit[order]
    lengths = np.diff(days)
    # updates of two pages at one moment are one
    is_one = (np.diff(unit) == 0) & (lengths > 0)
    return Intervals(lengths[is_one], unit[1:][is_one])


def _medians(intervals: Intervals, units: int) -> FloatArray:
    """Return the median interval of each unit."""
    days = intervals.days[np.lexsort((intervals.days, intervals.place))]
    counts = np.bincount(intervals.place, minlength=units)
    starts = offsets_of(counts)[:-1]
    out = np.full(units, np.nan)
    has = counts > 0
    low, high = (starts + (counts - 1) // 2)[has], (starts + counts // 2)[has]
    out[has] = (days[low] + days[high]) / 2
    return out


def _check(intervals: Intervals, rates: UnitRates, low: float, high: float) -> PoissonCheck:
    mean_days = np.full(rates.units.size, np.inf)
    np.divide(1.0, rates.per_day, out=mean_days, where=rates.per_day > 0)
    chosen = (mean_days >= low) & (mean_days < high)
    mine = chosen[intervals.place]
    days, mean = intervals.days[mine], mean_days[intervals.place[mine]]
    edges = np.linspace(0.0, 3 * high, BARS + 1)
    observed = np.bincount(
        np.minimum(np.digitize(days, edges) - 1, BARS - 1), minlength=BARS
    ).astype(np.float64)
    survival = np.exp(-edges / mean.reshape(-1, 1)).sum(axis=0)
    survival[-1] = 0.0
    total = max(days.size, 1)
    return PoissonCheck(
        low_days=low,
        high_days=high,
        units=int(np.count_nonzero(chosen)),
        intervals=days.size,
        edges=edges,
        observed=observed / total,
        expected=-np.diff(survival) / total,
    )


def _by_month(history: History) -> tuple[list[str], IndexArray, IndexArray]:
    """Return the months in order, their captures, and how many units were captured in each."""
    days = history.capture_days.astype(np.int64).astype("datetime64[D]")
    month = days.astype("datetime64[M]").astype(np.int64)
    if not month.size:
        return [], np.zeros(0, np.int64), np.zeros(0, np.int64)
    first, number = int(month[0]), int(month[-1] - month[0]) + 1
    captures = np.bincount(month - first, minlength=number)
    pairs = np.unique((month - first) * history.units + history.capture_unit)
    captured = np.bincount(pairs // history.units, minlength=number)
    names = [
        datetime(1970 + m // MONTHS_A_YEAR, m % MONTHS_A_YEAR + 1, 1, tzinfo=UTC).strftime("%Y-%m")
        for m in range(first, first + number)
    ]
    return names, captures, captured

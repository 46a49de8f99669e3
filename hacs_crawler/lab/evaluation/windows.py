"""What is known at a moment from the captures of the weeks before it: rates, and probabilities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hacs_crawler.lab.evaluation.histories import History, Units
from hacs_crawler.model import Gaps, elapsed_days, mle, update_probability
from hacs_crawler.utils.arrays import BoolArray, FloatArray, offsets_of


@dataclass(frozen=True, slots=True)
class PaperWindow:
    """The units with a capture in a window, one element each.

    `p` is the probability of an update between tau, the last interpolated update, and the moment
    predicted for; 0 where the window holds no update. `last_capture` is in days since 1970.
    """

    units: Units
    p: FloatArray
    last_capture: FloatArray


@dataclass(frozen=True, slots=True)
class UnitRates:
    """Of units with a gap: lambda in 1/day (0 without update), and tau (nan without update)."""

    units: Units
    per_day: FloatArray
    tau: FloatArray


def window(history: History, day: float, days: float, horizon_days: float) -> PaperWindow:
    """Return what captures within [day - days, day], both included, tell of day + horizon_days.

    Each tells whether it found an update since its page's capture before, which may lie before the
    window.
    p = 1 - exp(-lambda e), e = day + horizon_days - tau (Jayawardana et al. 2020, Eq. 1).
    """
    first = np.searchsorted(history.capture_days, day - days)
    last = np.searchsorted(history.capture_days, day, side="right")
    captured = history.capture_unit[first:last][::-1]
    units, latest = np.unique(captured, return_index=True)
    ended = slice(
        np.searchsorted(history.gap_ends, day - days),
        np.searchsorted(history.gap_ends, day, side="right"),
    )
    rates = estimated(history, np.arange(ended.start, ended.stop))
    p = np.zeros(units.size)
    moving = rates.per_day > 0
    p[np.searchsorted(units, rates.units[moving])] = update_probability(
        rates.per_day[moving], elapsed_days(day + horizon_days, rates.tau[moving])
    )
    return PaperWindow(units, p, history.capture_days[first:last][::-1][latest])


def estimated(history: History, gaps: Units) -> UnitRates:
    """Estimate lambda of each unit from these of its gaps: Eq. 5 on interpolated updates.

    Where every interval ends in an update Eq. 5 has no root, and Eq. 4 is used on the accesses. For a
    unit of one page it is the estimator `mle-interpolated`. A website is watched from the start of
    its first gap on, and an access or update of any page ends an interval.
    """
    unit, updated = history.gap_unit[gaps], history.gap_updated[gaps]
    starts = history.gap_starts[gaps]
    units, unit = np.unique(unit, return_inverse=True)
    since = np.full(units.size, np.inf)
    np.minimum.at(since, unit, starts)
    tau = np.full(units.size, -np.inf)
    np.maximum.at(tau, unit[updated], history.gap_events[gaps][updated])
    intervals = _intervals(unit, since, history.gap_events[gaps], updated)
    accesses = _intervals(unit, since, history.gap_ends[gaps], updated)
    return UnitRates(units, mle(intervals, accesses), np.where(np.isinf(tau), np.nan, tau))


def _intervals(unit: Units, since: FloatArray, events: FloatArray, updated: BoolArray) -> Gaps:
    """Return the intervals from `since` to a unit's first event, and from one event to the next.

    Of events at one moment one is left, an update if there is one.
    """
    order = np.lexsort((~updated, events, unit))
    unit, events, updated = unit[order], events[order], updated[order]
    is_first = np.diff(unit, prepend=-1) > 0
    is_other = is_first | (np.diff(events, prepend=-np.inf) > 0)
    events = events[is_other]
    before = np.concatenate([[0.0], events[:-1]])[: events.size]
    before[is_first[is_other]] = since
    offsets = offsets_of(np.bincount(unit[is_other], minlength=since.size))
    return Gaps(events - before, updated[is_other], np.ones(events.size), offsets)

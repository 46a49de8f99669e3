"""An arm against the control: difference, intervals, verdict, and what it would take to know more."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.experiment.data import ArmVisits, Sites
from hacs_crawler.ranking.arms import Experiment
from hacs_crawler.statistics import (
    Difference,
    Rate,
    anytime_multiplier,
    bootstrap,
    detecting_error,
    difference_of,
    effective_clusters,
    interval_of,
    rate_of,
    ratio_interval,
    within_variance,
)
from hacs_crawler.utils.arrays import FloatArray
from hacs_crawler.utils.times import DAY

ALPHA: Final = 0.05
"""How probable it is at most, without any difference, that one is ever reported."""
MIN_UPDATED_SITES: Final = 10
"""Each arm must have found updates on this many sites before anything is concluded. From fewer
the error between sites is too rough an estimate, and they say little of others.
"""
MIN_EFFECTIVE_SITES: Final = 10
"""With fewer sites in an arm, counted as if all were of one size, what was known before is not allowed
for: a line through a few large sites follows them wherever they are, and hides their error.
"""
FEW_LARGE_SHARE: Final = 0.2
"""Few sites carry a result if they are fewer than `MIN_EFFECTIVE_SITES` or than this share of all."""
MIN_FREEDOM: Final = 2.0
"""With fewer degrees of freedom an estimated error has no variance: it says nothing."""
LARGEST: Final = 3
SOUGHT_RATIO: Final = 1.1
REPLICATES: Final = 2_000
FEWEST_REPLICATES: Final = 500
MOST_CELLS: Final = 20_000_000
"""Samples of the bootstrap, fewer where an arm has more than 10,000 sites: they take a second or two."""
MOST_LOOKS: Final = 200

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class SampleSize:
    """What it would take to tell a 10 % difference, with a probability of 80 %.

    `more_visits` is None where no number of visits to these sites is enough; `times_sites` says how many
    times as many sites would then be needed, each visited as often as now.
    """

    more_visits: int | None
    times_sites: float


@dataclass(frozen=True, slots=True)
class InterimLook:
    """What could have been seen at the end of a day: `at` is its last visit, in seconds since 1970 UTC.

    `ratio` is arm / control, `low` and `high` its anytime-valid interval.
    """

    at: int
    visits: int
    ratio: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """An arm against the control, in updates that time brought a visit that is not a page's first.

    `verdict` is "more", "fewer", "undecided" or "too early". It `is_of_equals` where the arms have the
    budgets that belong to their pages. With `is_adjusted` the two rates are
    adjusted for how often the sites were updated before; differences and ratios are of these rates.
    `effective_sites` says how many sites of equal size would carry as much, in each of both,
    `largest_share` what share of the visits the three largest have. The
    anytime-valid intervals hold at all looks together, with probability 1 - `alpha`; those of the
    bootstrap, of 95 %, at one. `decided_at` is the first look, in seconds since 1970 UTC, since when the
    verdict has been what it is, None where it is open. `looks` are the ends of days, at most
    `MOST_LOOKS` of them, evenly spaced, from the first that was not too early.
    """

    arm: str
    control: str
    alpha: float
    verdict: str
    is_adjusted: bool
    is_of_equals: bool
    rate: float
    control_rate: float
    difference: float
    difference_bootstrap: Interval
    difference_anytime: Interval
    ratio: float
    ratio_bootstrap: Interval
    ratio_anytime: Interval
    relative_error: float
    visited_sites: tuple[int, int]
    updated_sites: tuple[int, int]
    effective_sites: tuple[float, float]
    largest_share: tuple[float, float]
    needed: SampleSize | None
    decided_at: int | None
    looks: tuple[InterimLook, ...]

    @property
    def carried_by_few(self) -> tuple[bool, bool]:
        """Whether few sites carry the rate of the arm, and that of the control."""
        arm, control = (
            effective < max(MIN_EFFECTIVE_SITES, FEW_LARGE_SHARE * visited)
            for effective, visited in zip(self.effective_sites, self.visited_sites, strict=True)
        )
        return arm, control


@dataclass(frozen=True, slots=True)
class _Side:
    """The sites of an arm: sums over what is looked at, and what was known of them before."""

    updates: FloatArray
    visits: FloatArray
    known: FloatArray
    excess: FloatArray
    pages: FloatArray

    def rate(self, *, is_adjusted: bool) -> Rate:
        return rate_of(self.updates, self.due, self.excess if is_adjusted else None)

    @property
    def due(self) -> FloatArray:
        """The arm's visits by its sites' pages.

        A policy that visits sites the more the more often they are updated finds about the same by each
        visit everywhere: by the visits made, its sites would look alike, whatever they are.
        """
        pages = self.pages.sum()
        return self.pages * (self.visits.sum() / pages) if pages else self.visits

    @property
    def effective(self) -> float:
        return float(effective_clusters(self.due))

    @property
    def largest_share(self) -> float:
        visits = self.visits.sum()
        return float(np.sort(self.visits)[-LARGEST:].sum() / visits) if visits else math.nan

    @property
    def is_adjustable(self) -> bool:
        known = float(effective_clusters(self.known))
        return min(self.effective, known) >= MIN_EFFECTIVE_SITES

    @property
    def is_enough(self) -> bool:
        return self.updated >= MIN_UPDATED_SITES

    @property
    def visited(self) -> int:
        return int(np.count_nonzero(self.visits))

    @property
    def updated(self) -> int:
        return int(np.count_nonzero(self.updates))


@dataclass(frozen=True, slots=True)
class _Pair:
    """An arm and the control at one look."""

    arm: _Side
    control: _Side

    @property
    def is_adjusted(self) -> bool:
        is_known = bool(self.arm.excess.any() or self.control.excess.any())
        return is_known and self.arm.is_adjustable and self.control.is_adjustable

    @property
    def rates(self) -> tuple[Rate, Rate]:
        is_adjusted = self.is_adjusted
        return self.arm.rate(is_adjusted=is_adjusted), self.control.rate(is_adjusted=is_adjusted)

    @property
    def difference(self) -> Difference:
        updates = self.arm.updates.sum() + self.control.updates.sum()
        visits = self.arm.visits.sum() + self.control.visits.sum()
        scale = np.asarray(updates / visits if visits else math.nan)
        return difference_of(*self.rates, scale)

    @property
    def is_enough(self) -> bool:
        sides = self.arm, self.control
        return all(side.is_enough for side in sides) and bool(
            self.difference.freedom >= MIN_FREEDOM
        )

    def verdict(self, alpha: float) -> str:
        if not self.is_enough:
            return "too early"
        difference = self.difference
        low, high = interval_of(difference, anytime_multiplier(difference, alpha))
        return "more" if low > 0 else "fewer" if high < 0 else "undecided"


def compare(
    experiment: Experiment, arms: tuple[int, int], record: ArmVisits, sites: Sites, alpha: float
) -> Comparison:
    """Compare an arm with the control, given by their places in the experiment.

    `alpha` is this comparison's share of the probability of a false alarm.
    """
    again = record.taken(~record.is_first & np.isin(record.arms, arms))
    pair, looks, decided_at = _looked(arms, again, sites, alpha)
    (arm, control), difference = pair.rates, pair.difference
    errors = anytime_multiplier(difference, alpha)
    low, high = interval_of(difference, errors)
    replicates = _replicates(pair)
    return Comparison(
        arm=experiment.arms[arms[0]].name,
        control=experiment.arms[arms[1]].name,
        alpha=alpha,
        verdict=pair.verdict(alpha),
        is_adjusted=pair.is_adjusted,
        is_of_equals=experiment.budget_shares is None,
        rate=float(arm.value),
        control_rate=float(control.value),
        difference=float(difference.value),
        difference_bootstrap=_percentiles(replicates[0] - replicates[1]),
        difference_anytime=(float(low), float(high)),
        ratio=_ratio(arm, control),
        ratio_bootstrap=_percentiles(_ratios(replicates[0], replicates[1])),
        ratio_anytime=_ends(*ratio_interval(arm, control, errors)),
        relative_error=float(difference.relative_error),
        visited_sites=(pair.arm.visited, pair.control.visited),
        updated_sites=(pair.arm.updated, pair.control.updated),
        effective_sites=(pair.arm.effective, pair.control.effective),
        largest_share=(pair.arm.largest_share, pair.control.largest_share),
        needed=_needed(arms, again, pair, alpha) if pair.is_enough else None,
        decided_at=decided_at,
        looks=looks,
    )


def _looked(
    arms: tuple[int, int], record: ArmVisits, sites: Sites, alpha: float
) -> tuple[_Pair, tuple[InterimLook, ...], int | None]:
    """Return what is seen now, what each day showed, and since which day the verdict stands."""
    places, found = sites.places(record), record.updates_by_time
    seconds = record.outcomes["at"]
    halves = [np.flatnonzero(sites.arms == arm) for arm in arms]
    updates, visits = np.zeros(len(sites.sites)), np.zeros(len(sites.sites))
    looks: list[InterimLook] = []
    decided_at, standing, start = None, "", 0
    pair = _pair(halves, updates, visits, sites)
    for end in _ends_of_days(seconds):
        updates += np.bincount(places[start:end], found[start:end], len(updates))
        visits += np.bincount(places[start:end], minlength=len(visits))
        start = end
        pair = _pair(halves, updates, visits, sites)
        verdict, at = pair.verdict(alpha), int(seconds[end - 1])
        if verdict not in {"more", "fewer"}:
            decided_at = None
        elif decided_at is None or verdict != standing:
            decided_at = at
        standing = verdict
        if pair.is_enough:
            looks.append(_look(at, end, pair, alpha))
    return pair, tuple(looks), decided_at


def _ends_of_days(seconds: NDArray[np.uint32]) -> list[int]:
    """Return after how many visits days end, of at most `MOST_LOOKS` days, the last among them."""
    days = seconds.astype(np.int64) // DAY
    ends = np.flatnonzero(np.diff(days, append=-1)) + 1
    if len(ends) > MOST_LOOKS:
        ends = ends[np.linspace(0, len(ends) - 1, MOST_LOOKS).round().astype(np.int64)]
    return [int(end) for end in ends]


def _pair(
    halves: list[NDArray[np.int64]], updates: FloatArray, visits: FloatArray, sites: Sites
) -> _Pair:
    arm, control = (
        _Side(updates[mine], visits[mine], sites.known[mine], sites.excess[mine], sites.pages[mine])
        for mine in halves
    )
    return _Pair(arm, control)


def _look(at: int, visits: int, pair: _Pair, alpha: float) -> InterimLook:
    arm, control = pair.rates
    low, high = ratio_interval(arm, control, anytime_multiplier(pair.difference, alpha))
    return InterimLook(at, visits, _ratio(arm, control), float(low), float(high))


def _needed(arms: tuple[int, int], record: ArmVisits, pair: _Pair, alpha: float) -> SampleSize:
    """Split the variance into what more visits would reduce and what only more sites would."""
    difference = pair.difference
    sought = detecting_error(SOUGHT_RATIO, alpha, float(difference.freedom)) ** 2
    within = 0.0
    for arm in arms:
        mine = record.taken(record.arms == arm)
        blocks = mine.outcomes["site"].astype(np.int64) << 32 | mine.outcomes["at"] // DAY
        keys, place = np.unique(blocks, return_inverse=True)
        updates, visits = np.bincount(place, mine.updates_by_time), np.bincount(place)
        within += within_variance(keys >> 32, updates.astype(np.float64), visits.astype(np.float64))
    total = float(difference.relative_error) ** 2
    within = min(within / float(difference.scale) ** 2, total) if within >= 0 else total
    between = total - within
    times_sites = max(1.0, total / sought)
    if total <= sought:
        return SampleSize(0, 1.0)
    if between >= sought:
        return SampleSize(None, times_sites)
    visits_now = float(pair.arm.visits.sum() + pair.control.visits.sum())
    return SampleSize(math.ceil(visits_now * (within / (sought - between) - 1.0)), times_sites)


def _replicates(pair: _Pair) -> tuple[FloatArray, FloatArray]:
    """Return the rates of arm and control in samples of their sites."""
    most_sites = max(len(pair.arm.visits), len(pair.control.visits), 1)
    number = min(REPLICATES, max(FEWEST_REPLICATES, MOST_CELLS // most_sites))
    arm, control = (
        bootstrap(
            side.updates,
            side.due,
            side.excess if pair.is_adjusted else None,
            number,
            np.random.default_rng(seed),
        )
        for seed, side in enumerate((pair.arm, pair.control))
    )
    return arm, control


def _ratios(arm: FloatArray, control: FloatArray) -> FloatArray:
    ratios: FloatArray = np.divide(arm, control, out=np.full(len(arm), np.inf), where=control > 0)
    return ratios


def _percentiles(values: NDArray[np.float64]) -> Interval:
    known = values[~np.isnan(values)]
    if not len(known):
        return math.nan, math.nan
    low, high = np.quantile(known, [ALPHA / 2, 1 - ALPHA / 2], method="inverted_cdf")
    return float(low), float(high)


def _ratio(arm: Rate, control: Rate) -> float:
    return float(arm.value / control.value) if control.value > 0 else math.nan


def _ends(low: FloatArray, high: FloatArray) -> Interval:
    return float(low), float(high)

"""The outcome records of one experiment, and what its sites were like before it began."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.links import site_id
from hacs_crawler.model import estimate, update_probability
from hacs_crawler.ranking.arms import Experiment
from hacs_crawler.state import (
    SEEN,
    UPDATED,
    Label,
    Outcomes,
    Page,
    State,
    baselines_of,
    has_new_links,
    histories,
    is_new_to_site,
    share_of_time,
)
from hacs_crawler.statistics import excess_of
from hacs_crawler.utils.arrays import FloatArray
from hacs_crawler.utils.progress import Progress
from hacs_crawler.utils.times import DAY

Counts = NDArray[np.int64]
Bools = NDArray[np.bool_]

_BATCH: Final = 2_000


@dataclass(frozen=True, slots=True)
class ArmVisits:
    """What was recorded of an experiment by its arms; arrays with one element a visit, by time.

    `arms` are places in the experiment's arms. `is_first` are visits to pages never seen before, which
    cannot find an update: they count as visits, and for nothing else.
    """

    outcomes: Outcomes
    arms: Counts

    @property
    def is_first(self) -> Bools:
        """Whether the page had never been seen."""
        return np.asarray(np.isinf(self.outcomes["days_since_visit"]))

    @property
    def is_seen(self) -> Bools:
        """Whether the visit showed the page."""
        return np.asarray((self.outcomes["flags"] & SEEN) > 0)

    @property
    def is_updated(self) -> Bools:
        """Whether the visit found what HACS_UPDATES counts on a page seen before."""
        return np.asarray((self.outcomes["flags"] & UPDATED) > 0) & ~self.is_first

    @property
    def has_new_links(self) -> Bools:
        """Whether the visit found new links on a page seen before."""
        return has_new_links(self.outcomes) & ~self.is_first

    @property
    def is_new_to_site(self) -> Bools:
        """Whether it found links that were new to the site."""
        return is_new_to_site(self.outcomes) & ~self.is_first

    @property
    def updates_by_time(self) -> FloatArray:
        """The chance that a visit found what time brought: not 1 where the page churns."""
        return self.is_updated * share_of_time(self.outcomes)

    def taken(self, places: NDArray[np.bool_] | slice) -> ArmVisits:
        """Return a part of the record."""
        return ArmVisits(self.outcomes[places], self.arms[places])


def record_of(experiment: Experiment, outcomes: Outcomes, labels: dict[int, Label]) -> ArmVisits:
    """Return what of the outcome records belongs to this experiment."""
    place_of = {arm.name: place for place, arm in enumerate(experiment.arms)}
    arms = np.full(len(outcomes), -1)
    for number, label in labels.items():
        if label.experiment == experiment.number and label.arm in place_of:
            arms[outcomes["label"] == number] = place_of[label.arm]
    return ArmVisits(outcomes, arms).taken(arms >= 0)


@dataclass(frozen=True, slots=True)
class PriorRate:
    """What was known of sites before the first visit of an experiment, one element a site.

    `pages` counts a site's pages known then, `expected` the updates that a visit to each of them is
    expected to find, `days` after the one before.
    """

    sites: Counts
    pages: FloatArray
    expected: FloatArray
    days: float


NO_BASELINE: Final = PriorRate(np.zeros(0, np.int64), np.zeros(0), np.zeros(0), 0.0)


def baseline_of(state: State, record: ArmVisits) -> PriorRate:
    """Return what the state's pages tell of the time before the first visit of the record.

    Only visits before it count, so that nothing depends on an arm. Loads every page known: some seconds
    for a hundred thousand.
    """
    again = ~record.is_first
    if not again.any():
        return NO_BASELINE
    start_day = int(record.outcomes["at"][0]) / DAY
    days = float(np.median(record.outcomes["days_since_visit"][again]))
    sites, expected = [np.zeros(0, np.int64)], [np.zeros(0)]
    batch: list[Page] = []
    with Progress("experiment: history before") as progress:
        total = state.store.count()
        for done, page in enumerate(state.pages(), start=1):
            if page is not None and page.visits and page.visits[0] < start_day * DAY:
                batch.append(page)
            if len(batch) == _BATCH:
                _add(batch, state, start_day, days, sites, expected)
                batch = []
                progress.update(f"{done} pages", done, total)
    _add(batch, state, start_day, days, sites, expected)
    numbers, place = np.unique(np.concatenate(sites), return_inverse=True)
    return PriorRate(
        numbers,
        np.bincount(place, minlength=len(numbers)).astype(np.float64),
        np.bincount(place, np.concatenate(expected), len(numbers)).astype(np.float64),
        days,
    )


def _add(
    pages: list[Page],
    state: State,
    start_day: float,
    days: float,
    sites: list[Counts],
    expected: list[FloatArray],
) -> None:
    visit_days, updated, offsets = histories(pages, state.estimation.updates)
    is_before = visit_days < start_day
    counts = np.concatenate([[0], np.cumsum(is_before)])
    baselines = baselines_of(pages)
    rates = estimate(
        "bayes",
        visit_days[is_before],
        updated[is_before],
        counts[offsets],
        prior=state.estimation.prior,
        fade_days=state.estimation.fade_days,
        baselines=None if baselines is None else baselines[is_before],
    )
    sites.append(np.array([site_id(page.url) for page in pages], np.int64))
    expected.append(update_probability(rates, days))


@dataclass(frozen=True, slots=True)
class Sites:
    """The sites of each arm: pages known before the experiment, excess (see `statistics.excess_of`).

    `pages` are all that the arm may visit, those found since among them.
    """

    arms: Counts
    sites: Counts
    known: FloatArray
    excess: FloatArray
    pages: FloatArray

    def places(self, record: ArmVisits) -> Counts:
        """Return the place of each visit's site."""
        visited = _keys(record.arms, record.outcomes["site"])
        return np.searchsorted(_keys(self.arms, self.sites), visited)


def sites_of(experiment: Experiment, record: ArmVisits, baseline: PriorRate) -> Sites:
    """Return the sites visited by each arm, and those known before that it might have visited."""
    visited = np.unique(_keys(record.arms, record.outcomes["site"]))
    known = _keys(experiment.assign(baseline.sites), baseline.sites)
    keys = np.union1d(visited, known)
    before, expected = np.zeros(len(keys)), np.zeros(len(keys))
    place = np.searchsorted(keys, known)
    before[place], expected[place] = baseline.pages, baseline.expected
    pages = np.maximum(before + _pages(record.taken(record.is_first), keys), _pages(record, keys))
    return Sites(keys >> 32, keys & 0xFFFF_FFFF, before, excess_of(before, expected), pages)


def _pages(record: ArmVisits, keys: Counts) -> FloatArray:
    """Return how many pages of each site, in the arm of its key, were visited."""
    _, first = np.unique(record.outcomes["page_id"], return_index=True)
    visited = _keys(record.arms, record.outcomes["site"])[first]
    return np.bincount(np.searchsorted(keys, visited), minlength=len(keys)).astype(np.float64)


def _keys(arms: Counts, sites: NDArray[np.integer]) -> Counts:
    """Return a number of each site in each arm: one that moved is another site in its new arm."""
    return (arms.astype(np.int64) << 32) | sites.astype(np.int64)

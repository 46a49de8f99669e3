"""What an experiment tells: each arm in numbers, and each compared with the control."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import numpy as np

from hacs_crawler.config import Config
from hacs_crawler.experiment.comparison import ALPHA, Comparison, compare
from hacs_crawler.experiment.data import (
    ArmVisits,
    Counts,
    PriorRate,
    baseline_of,
    record_of,
    sites_of,
)
from hacs_crawler.ranking.arms import Experiment
from hacs_crawler.ranking.candidates import candidates_from
from hacs_crawler.ranking.plan import read_rows
from hacs_crawler.state import State
from hacs_crawler.utils.arrays import FloatArray

CONTROL: Final = "last-obs"


@dataclass(frozen=True, slots=True)
class ArmSummary:
    """One arm in numbers; None where there is nothing to divide by.

    `pages` are those of its sites that the state has seen, `pages_visited` and `sites` those that were
    visited in the experiment.
    `visits` are all attempts, `answered` those that showed the page, `first_visits` those to pages
    never seen before. All that follows leaves first visits out, for they cannot find an update.
    `updates` counts visits that found new links, `site_updates` those that found links new to the site,
    too. `updates_by_time` weights each that HACS_UPDATES counts with the chance that time brought it and
    not the request; what is said per visit and per update is of the latter.
    `freshness` is the estimated share of its pages without an update that was not seen yet,
    `delay_days` the estimated mean time from the first of a page's updates to the visit that found it.
    """

    arm: str
    share: float
    pages: int
    pages_visited: int
    sites: int
    visits: int
    answered: int
    first_visits: int
    updates: int
    site_updates: int
    updates_by_time: float
    updates_per_100_visits: float | None
    new_links_per_visit: float | None
    bytes_per_update: float | None
    mean_days_since_visit: float | None
    freshness: float | None
    delay_days: float | None


@dataclass(frozen=True, slots=True)
class ExperimentAnswer:
    """What can be said of an experiment; times in seconds since 1970 UTC, None without visits."""

    experiment: int
    control: str
    first_visit: int | None
    last_visit: int | None
    arms: tuple[ArmSummary, ...]
    comparisons: tuple[Comparison, ...]

    def as_json(self) -> dict[str, Any]:
        """Return all numbers, ready for JSON: null where one is undefined or infinite."""
        fields: dict[str, Any] = _finite(asdict(self))
        return fields


@dataclass(frozen=True, slots=True)
class KnownPages:
    """The pages that the state has seen, by arm, each with the probability of an update not seen yet."""

    arms: Counts
    p: FloatArray


def answer(config: Config, state: State, now: float) -> ExperimentAnswer:
    """Return what the state tells of the experiment that is on; `now` is in seconds since 1970 UTC.

    Loads every page known, for what the sites were like before. Raises StateError.
    """
    outcomes = state.outcomes()
    record = record_of(config.ranking.experiment, outcomes, state.labels_of(outcomes))
    return answer_of(
        config.ranking.experiment,
        record,
        known_pages(config, state, now),
        baseline_of(state, record),
    )


def known_pages(config: Config, state: State, now: float) -> KnownPages:
    """Return the pages seen, with p as it is now, whatever HACS_ELAPSED_FROM."""
    options = replace(config.ranking, elapsed_from="visit")
    ids, rows = read_rows(state, now=now)
    is_seen = rows["visits"] > 0
    ids, rows = ids[is_seen], rows[is_seen]
    candidates = candidates_from(
        ids,
        rows,
        now,
        state.estimation,
        options,
    )
    return KnownPages(config.ranking.experiment.assign(rows["site"]), candidates.p)


def answer_of(
    experiment: Experiment, record: ArmVisits, pages: KnownPages, baseline: PriorRate
) -> ExperimentAnswer:
    """Return the answer from what was read."""
    names = [arm.name for arm in experiment.arms]
    control = names.index(CONTROL) if CONTROL in names else 0
    others = [place for place in range(len(names)) if place != control]
    sites = sites_of(experiment, record, baseline)
    seconds = record.outcomes["at"]
    return ExperimentAnswer(
        experiment=experiment.number,
        control=names[control],
        first_visit=int(seconds[0]) if len(seconds) else None,
        last_visit=int(seconds[-1]) if len(seconds) else None,
        arms=tuple(
            _summary(
                arm.name,
                arm.share,
                record.taken(record.arms == place),
                pages.p[pages.arms == place],
            )
            for place, arm in enumerate(experiment.arms)
        ),
        comparisons=tuple(
            compare(
                experiment,
                (place, control),
                record,
                sites,
                ALPHA / len(others),
            )
            for place in others
        ),
    )


def delays_days(days_since_visit: FloatArray, p: FloatArray) -> FloatArray:
    """Return the expected time from a page's first update to the visit that found it, in days.

    Of a Poisson process with r = -log(1 - p) expected updates in x days, given that there was one at
    least, the first is x (1 - 1/r + 1 / (e^r - 1)) before their end: x/2 where r is small, x where it is
    large.
    """
    r = -np.log1p(-np.minimum(p, 1.0 - 1e-12))
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        share = 1.0 - 1.0 / r + 1.0 / np.expm1(r)
    return days_since_visit * np.where(r < 1e-3, 0.5 + r / 12.0, share)


def _summary(name: str, share: float, record: ArmVisits, p: FloatArray) -> ArmSummary:
    again = record.taken(~record.is_first)
    found = again.taken(again.is_updated)
    visits, updates = len(again.outcomes), float(again.updates_by_time.sum())
    size = int(again.outcomes["bytes"].sum(dtype=np.int64))
    delays = delays_days(*(found.outcomes[key].astype(float) for key in ("days_since_visit", "p")))
    return ArmSummary(
        arm=name,
        share=share,
        pages=len(p),
        pages_visited=len(np.unique(record.outcomes["page_id"])),
        sites=len(np.unique(record.outcomes["site"])),
        visits=len(record.outcomes),
        answered=int(record.is_seen.sum()),
        first_visits=int(record.is_first.sum()),
        updates=int(again.has_new_links.sum()),
        site_updates=int(again.is_new_to_site.sum()),
        updates_by_time=round(updates, 2),
        updates_per_100_visits=_per(100.0 * updates, visits),
        new_links_per_visit=_per(int(again.outcomes["new_links"].sum(dtype=np.int64)), visits),
        bytes_per_update=_per(size, updates),
        mean_days_since_visit=_per(
            float(again.outcomes["days_since_visit"].sum(dtype=np.float64)), visits
        ),
        freshness=_per(float((1.0 - p).sum()), len(p)),
        delay_days=_per(float(delays.sum()), len(found.outcomes)),
    )


def _per(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

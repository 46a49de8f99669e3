"""What each run's ranked visits found, by arm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.state import SEEN, UPDATED, Label, Outcomes, is_new_to_site
from hacs_crawler.utils.arrays import FloatArray, IndexArray

UNKNOWN = "unknown"
"""What ranked a visit whose label is not in the state."""


@dataclass(frozen=True, slots=True)
class RunResults:
    """What runs found: arrays with one element for each run and series, in the order of the runs.

    `names` are those of the series: arms of an experiment, else policies. `run` is the start of the
    run in seconds since 1970 UTC, `series` a place in `names`. `firsts` of the `visits` saw a page for
    the first time, `unseen` did not see it. `predicted` is the sum of p over the visits that saw a
    page known before, `updates` how many of these found an update,
    `site_updates` one that was new to the site.
    """

    names: tuple[str, ...]
    run: IndexArray
    series: IndexArray
    visits: IndexArray
    firsts: IndexArray
    unseen: IndexArray
    updates: IndexArray
    site_updates: IndexArray
    predicted: FloatArray
    new_links: IndexArray
    bytes: IndexArray


def yields(outcomes: Outcomes, label_of: Callable[[int], Label | None], limit: int) -> RunResults:
    """Return what each of the latest `limit` runs found; `outcomes` are in any order."""
    starts = np.unique(outcomes["run"])[-limit:]
    outcomes = outcomes[np.isin(outcomes["run"], starts)]
    numbers, label = np.unique(outcomes["label"], return_inverse=True)
    series_of = [series_name(label_of(number)) for number in numbers.tolist()]
    names = tuple(sorted(set(series_of)))
    place = np.array([names.index(name) for name in series_of], np.int64)[label]
    key = np.searchsorted(starts, outcomes["run"]) * max(len(names), 1) + place
    groups, group = np.unique(key, return_inverse=True)
    is_seen = (outcomes["flags"] & SEEN) > 0
    is_first = is_seen & np.isinf(outcomes["days_since_visit"])

    def total(values: NDArray[np.generic]) -> FloatArray:
        return np.bincount(group, values.astype(np.float64), len(groups)).astype(np.float64)

    def count(values: NDArray[np.generic]) -> IndexArray:
        return total(values).round().astype(np.int64)

    return RunResults(
        names=names,
        run=starts[groups // max(len(names), 1)].astype(np.int64),
        series=groups % max(len(names), 1),
        visits=np.bincount(group, minlength=len(groups)),
        firsts=count(is_first),
        unseen=count(~is_seen),
        updates=count((outcomes["flags"] & UPDATED) > 0),
        site_updates=count(is_new_to_site(outcomes)),
        predicted=total(outcomes["p"] * (is_seen & ~is_first)),
        new_links=count(outcomes["new_links"]),
        bytes=count(outcomes["bytes"]),
    )


def series_name(label: Label | None) -> str:
    """Return what visits of a label are counted under: the arm of an experiment, else the policy."""
    return UNKNOWN if label is None else label.arm or label.policy

"""What each run's ranked visits found, by arm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.state import SEEN, UPDATED, Label, Outcomes, is_new_to_site

UNKNOWN = "unknown"
"""What ranked a visit whose label is not in the state."""


def yields(
    outcomes: Outcomes, label_of: Callable[[int], Label | None], limit: int
) -> dict[str, list[Any]]:
    """Return what each of the latest `limit` runs found: columns, a row for each run and series.

    `at` is the run's start in seconds since 1970 UTC, `name` that of the series: an arm of an
    experiment, else a policy. `firsts` of the `visits` saw a page for the first time, `unseen` did not
    see it. `predicted` is the sum of p of the others, `updates` how many of these found an update.
    """
    outcomes = outcomes[np.isin(outcomes["run"], np.unique(outcomes["run"])[-limit:])]
    numbers, number = np.unique(outcomes["label"], return_inverse=True)
    labels = map(label_of, numbers.tolist())
    series_of = [UNKNOWN if label is None else label.arm or label.policy for label in labels]
    names, series = np.unique(np.array(series_of, dtype=object), return_inverse=True)
    key = outcomes["run"].astype(np.int64) * max(len(names), 1) + series.astype(np.int64)[number]
    groups, group = np.unique(key, return_inverse=True)
    is_seen = (outcomes["flags"] & SEEN) > 0
    is_first = is_seen & np.isinf(outcomes["days_since_visit"])

    def total(values: NDArray[Any], kind: type = np.int64) -> list[Any]:
        sums = np.bincount(group, values.astype(np.float64), len(groups))
        return list(sums.round(2).astype(kind).tolist())

    return {
        "at": (groups // max(len(names), 1)).tolist(),
        "name": [names[place] for place in (groups % max(len(names), 1)).tolist()],
        "visits": total(np.ones(len(outcomes))),
        "firsts": total(is_first),
        "unseen": total(~is_seen),
        "updates": total((outcomes["flags"] & UPDATED) > 0),
        "siteUpdates": total(is_new_to_site(outcomes)),
        "predicted": total(outcomes["p"] * (is_seen & ~is_first), np.float64),
        "links": total(outcomes["new_links"]),
        "bytes": total(outcomes["bytes"]),
    }

"""What visits of pages take, and the policies that the state tells something of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.ranking.instant import with_hubs
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.policies import Candidates, hacs, per_cost
from hacs_crawler.state import Ids, State

KIND: Final = "rendering"
"""Of the annotations of the state that tell what visits of a page take, by page id."""
VERSION: Final = 1
DTYPE: Final = np.dtype(
    [
        ("version", "u1"),
        ("verdict", "u1"),
        ("visits", "u1"),
        ("rendered", "u1"),
        ("seconds", "<f4"),
    ]
)
"""Their bytes; the part of a crawl that writes them says what is in the other fields."""
PLAIN_SECONDS: Final = 0.5
"""What a visit is taken to cost while nothing is known: about what a plain answer takes."""
LEAST_SECONDS: Final = 0.1
"""What a visit costs at least: its place in the queue, and its record."""
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds that a visit takes of late, by page: ids ascending, and one element for each."""

    page_ids: Ids
    seconds: Floats

    def of(self, page_ids: Ids) -> Floats:
        """Return the seconds of pages, `PLAIN_SECONDS` where they are not known."""
        seconds = np.full(len(page_ids), PLAIN_SECONDS)
        if len(self.page_ids):
            places = np.searchsorted(self.page_ids, page_ids).clip(max=len(self.page_ids) - 1)
            is_known = self.page_ids[places] == page_ids
            seconds[is_known] = self.seconds[places[is_known]]
        return seconds

    def score(self, candidates: Candidates) -> Floats:
        """Scorer by p for each second: a page that needs a browser costs many others."""
        return hacs(candidates) / self.of(candidates.page_ids)


def read_costs(state: State) -> Costs:
    """Return what is known of all pages; raises StateError."""
    ids, seconds = [np.zeros(0, np.int64)], [np.zeros(0)]
    for batch in state.store.all_annotations(KIND):
        whole = {
            key: value
            for key, value in batch.items()
            if len(value) == DTYPE.itemsize and value[0] == VERSION
        }
        fields = np.frombuffer(b"".join(whole.values()), DTYPE)
        ids.append(np.fromiter(whole, np.int64, len(whole)))
        seconds.append(fields["seconds"].astype(np.float64))
    page_ids, costs = np.concatenate(ids), np.concatenate(seconds)
    is_known = costs > 0.0
    page_ids, costs = page_ids[is_known], costs[is_known]
    order = np.argsort(page_ids)
    return Costs(page_ids[order], np.maximum(costs[order], LEAST_SECONDS))


def informed(options: RankingOptions, state: State, now: float) -> RankingOptions:
    """Return the options with what the state knows for the policies that use it: hubs, and costs.

    `now` is in seconds since 1970 UTC. Raises ConfigError, StateError.
    """
    options = with_hubs(options, state, now)
    return options.with_scorer(per_cost, lambda: read_costs(state).score)

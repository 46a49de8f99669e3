"""What visits of pages take, joined to many pages at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.rendering.marks import PageMark
from hacs_crawler.state import Ids, State

PLAIN_SECONDS: Final = 0.5
"""What a visit is taken to cost of which nothing is known: about what a plain answer takes."""
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
        found = np.full(len(page_ids), PLAIN_SECONDS)
        if len(self.page_ids):
            places = np.searchsorted(self.page_ids, page_ids).clip(max=len(self.page_ids) - 1)
            is_known = self.page_ids[places] == page_ids
            found[is_known] = self.seconds[places[is_known]]
        return found


def read_costs(state: State) -> Costs:
    """Return what is known of all pages; raises StateError."""
    ids, seconds = [np.zeros(0, np.int64)], [np.zeros(0)]
    for batch in state.store.all_annotations(PageMark.KIND):
        whole = {key: value for key, value in batch.items() if PageMark.is_whole(value)}
        fields = np.frombuffer(b"".join(whole.values()), PageMark.DTYPE)
        ids.append(np.fromiter(whole, np.int64, len(whole)))
        seconds.append(fields["seconds"].astype(np.float64))
    page_ids, costs = np.concatenate(ids), np.concatenate(seconds)
    is_known = costs > 0.0
    page_ids, costs = page_ids[is_known], costs[is_known]
    order = np.argsort(page_ids)
    return Costs(page_ids[order], np.maximum(costs[order], LEAST_SECONDS))

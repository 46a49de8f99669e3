"""Start requests that wait to be ranked, and those ranked that wait for the rest of the budget."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from scrapy import Request

from hacs_crawler.crawl.meta import KEY, is_start, tag_of, take_added_mark
from hacs_crawler.ranking.selection import Chosen, Selection

LEAST_CHUNK: Final = 1_000
"""With a budget, seeds are ranked in chunks of at least this many, so that memory stays O(budget)."""
MOST_AHEAD: Final = 2_000
"""How many requests of a `start()` that may never end are read ahead of sending: it may count until a
callback stops it, and each request that was read is sent."""


class UnrankedSeeds:
    """Holds seeds until they are ranked.

    `selection` chooses among the seeds of one round; None if no seed was ranked in it.
    """

    def __init__(self, budget: int | None) -> None:
        self._budget = budget
        self._held: list[Request] = []
        self._page_ids: list[int] = []
        self.ranking: list[Request] = []
        """What is being ranked."""
        self._has_tagged = False
        self._added: set[int] = set()
        self.selection: Selection[Request] | None = None
        self.ends_surely = False
        """Whether the held seeds come from a list, which can be ranked whole."""

    def __len__(self) -> int:
        return len(self._held)

    @property
    def is_chunk(self) -> bool:
        """Whether enough seeds are held to be ranked before more are read."""
        if self._budget:
            return len(self._held) >= max(self._budget, LEAST_CHUNK)
        return not self.ends_surely and len(self._held) >= MOST_AHEAD

    @property
    def most_ahead(self) -> int | None:
        """How many ranked seeds may wait before more are read; None for any number."""
        return None if self._budget or self.ends_surely else MOST_AHEAD

    @property
    def is_kept(self) -> bool:
        """Whether the ranked seeds are kept for the rest of the budget at the end."""
        return self.selection is not None and self.selection.waits

    def add(self, seed: Request, page_id: int) -> None:
        """Hold a seed, whose page has that id."""
        self._held.append(seed)
        self._page_ids.append(page_id)
        self._has_tagged = self._has_tagged or KEY in seed.meta

    def passes_filter(self, seed: Request, page_id: int) -> bool:
        """Whether a seed for the page of that id bypasses the duplicate filter.

        A seed that HACS added meets the filter when it is ranked: the spider may have requested the page
        by then. If the spider does so later, the filter has seen only HACS's seed.
        """
        is_first = page_id in self._added and is_start(seed)
        if is_first:
            self._added.remove(page_id)
        return is_first or (KEY in seed.meta and tag_of(seed).added)

    def all(self) -> list[Request]:
        """Return all seeds that are kept, being ranked, or held."""
        ranked = [] if self.selection is None else self.selection.entries
        return [*ranked, *self.ranking, *self._held]

    def begin_ranking(self) -> tuple[list[Request], list[int]]:
        """Return the seeds held, which are being ranked until `end_ranking`, and their pages' ids."""
        self.ranking, self._held = self._held, []
        page_ids, self._page_ids = self._page_ids, []
        return self.ranking, page_ids

    def end_ranking(self, unranked: list[Request], page_ids: list[int]) -> None:
        """Hold again what could not be ranked."""
        self.ranking = []
        self._held[:0], self._page_ids[:0] = unranked, page_ids

    def without_twins(
        self, held: list[Request], page_ids: list[int], is_filtered: Callable[[Request], bool]
    ) -> tuple[list[Request], list[int]]:
        """Leave out what HACS added of the pages that the spider asks for itself, or was filtered."""
        if not self._has_tagged:
            return held, page_ids
        own = {
            page_id for seed, page_id in zip(held, page_ids, strict=True) if not tag_of(seed).added
        }
        single = [
            (seed, page_id)
            for seed, page_id in zip(held, page_ids, strict=True)
            # whatever the request says of the filter: HACS asks for a page once
            if not take_added_mark(seed)
            or not (page_id in own or is_filtered(seed.replace(dont_filter=False)))
        ]
        self._added |= {page_id for _, page_id in single} - own
        return [seed for seed, _ in single], [page_id for _, page_id in single]

    def begin_round(self) -> None:
        """Renew the budget."""
        self.selection = None
        self._added.clear()

    def take(self, *, is_last: bool) -> tuple[Chosen[Request] | None, list[Request]]:
        """Return the chosen seeds, and the seeds that the budget drops; see `Selection`."""
        return (None, []) if self.selection is None else self.selection.take(is_last=is_last)

"""Ranking by arms: each arm ranks the pages of its own sites and has its own part of the budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.config import Config
from hacs_crawler.links import site_id
from hacs_crawler.ranking.ranking import Correct, Dropped, Ranked, Ranking
from hacs_crawler.state import Ids, Rows

T = TypeVar("T")


class ArmRanking(Generic[T]):
    """The `Ranking` of each arm; without an experiment that is one, of all pages.

    `url_of` returns the URL of an entry's page.
    """

    def __init__(
        self, config: Config, url_of: Callable[[T], str], correct: Correct | None, seed: int
    ) -> None:
        self._experiment = config.experiment
        self._url_of = url_of
        self._rankings: list[Ranking[T]] = [
            Ranking(
                arm.policy,
                threshold=config.threshold,
                budget=budget,
                explore=config.explore,
                elapsed_from=config.elapsed_from,
                horizon_days=config.horizon_days,
                has_siblings=config.siblings,
                correct=correct,
                seed=seed,
            )
            for arm, budget in zip(
                self._experiment.arms, self._experiment.budgets(config.budget), strict=True
            )
        ]

    def offer(
        self,
        entries: Sequence[T],
        page_ids: Ids,
        rows: Rows,
        now: float,
        prior_rate_per_day: float,
        may_repeat: NDArray[np.bool_],
    ) -> Dropped[T]:
        """Offer each entry to its arm; see `Ranking.offer`."""
        if not self._experiment.is_on:
            (ranking,) = self._rankings
            return ranking.offer(entries, page_ids, rows, now, prior_rate_per_day, may_repeat)
        arms = self._experiment.assign(self._sites(entries, rows))
        dropped: Dropped[T] = Dropped([], [], [], [])
        for number, ranking in enumerate(self._rankings):
            places = np.flatnonzero(arms == number)
            own = [entries[place] for place in places.tolist()]
            parts = ranking.offer(
                own, page_ids[places], rows[places], now, prior_rate_per_day, may_repeat[places]
            )
            for field in fields(dropped):
                getattr(dropped, field.name).extend(getattr(parts, field.name))
        return dropped

    def take(self) -> tuple[list[list[Ranked[T]]], list[T]]:
        """Return each arm's chosen entries, best first, and the others of all arms."""
        chosen: list[list[Ranked[T]]] = []
        others: list[T] = []
        for ranking in self._rankings:
            ranked, dropped = ranking.take()
            chosen.append(ranked)
            others += dropped
        return chosen, others

    def _sites(self, entries: Sequence[T], rows: Rows) -> NDArray[np.int64]:
        """Return each entry's `site_id`: as its page's row has it, else that of its URL."""
        sites = rows["site"].astype(np.int64)
        for place in np.flatnonzero(sites == 0).tolist():
            sites[place] = site_id(self._url_of(entries[place]))
        return sites

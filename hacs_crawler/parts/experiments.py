"""HACS_EXPERIMENT: what belongs to each arm of the budget, and what its seeds have brought."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scrapy import Request

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.meta import tag_of
from hacs_crawler.crawl.part import Observed, Part
from hacs_crawler.links import site_id
from hacs_crawler.ranking.arm_pages import counted, keep_start_pages, start_pages
from hacs_crawler.ranking.arms import Experiment
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.plan import read_rows
from hacs_crawler.state import Visit


class Experiments(Part):
    """Splits budgets by the arms' start pages, marks seeds with their arm, and counts its visits."""

    inherited = ("hacs.arm",)

    def __init__(self, crawl: Crawl, arms: dict[int, str]) -> None:
        self._crawl = crawl
        self._arms = arms
        self._pages: tuple[int, ...] | None = None
        self._offered: NDArray[np.int64] = np.zeros(len(arms), np.int64)

    @classmethod
    def from_crawl(cls, crawl: Crawl) -> Experiments:
        """Return the part of a crawl."""
        labels = crawl.config.ranking.labels(crawl.config.estimation)
        return cls(crawl, {label.number: label.arm for label in labels})

    async def opened(self) -> None:
        """Read how many pages each arm began with, if the experiment has begun."""
        self._pages = await self._crawl.state.once(start_pages, self._experiment)

    def options(self, ranking: RankingOptions) -> RankingOptions:
        """Have the budget split by these pages."""
        return replace(ranking, start_pages=self._pages)

    async def before_rank(self, urls: Sequence[str]) -> None:
        """Count the seeds with which the experiment begins."""
        if self._pages is None:
            sites = np.array([site_id(url) for url in urls], np.int64)
            self._offered += counted(self._experiment, sites)

    async def before_plan(self, sites: Collection[int] | None) -> None:
        """Count the pages of the state, if the experiment begins with a plan of them."""
        if self._pages is None and sites is None:
            _, rows = await self._crawl.state.patiently(read_rows)
            self._offered = counted(self._experiment, rows["site"])
            await self._keep()

    async def round_ended(self, is_asked_to_end: Callable[[], bool]) -> None:
        """Keep what the experiment began with."""
        del is_asked_to_end
        if self._pages is None and self._offered.any():
            await self._keep()

    async def _keep(self) -> None:
        state, experiment = self._crawl.state, self._experiment
        await state.patiently(keep_start_pages, experiment, tuple(self._offered.tolist()))
        self._pages = await state.patiently(start_pages, experiment)

    @property
    def _experiment(self) -> Experiment:
        return self._crawl.config.ranking.experiment

    def before_request(self, request: Request, page_url: str | None) -> None:
        """Mark a seed with the arm by whose label it was predicted."""
        del page_url
        prediction = tag_of(request).prediction
        if prediction is not None and prediction.label in self._arms:
            request.meta["hacs.arm"] = self._arms[prediction.label]

    def observed(self, observed: Observed) -> Iterable[Visit]:
        """Count a visit, of a seed or of what follows from it, for its arm, if it has one."""
        stats, recorded = self._crawl.stats, observed.recorded
        arm = observed.request.meta.get("hacs.arm")
        if not arm or observed.reason:
            return ()
        stats.count(f"experiment/{arm}/visits")
        if recorded.updated_site and recorded.new_to_site is not None:
            stats.count(f"experiment/{arm}/site_updates")
        if recorded.updated:
            stats.count(f"experiment/{arm}/updates")
            stats.count(f"experiment/{arm}/new_links", len(recorded.new_marks))
        return ()

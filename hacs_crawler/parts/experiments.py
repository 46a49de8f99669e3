"""HACS_EXPERIMENT: what each arm's seeds, and the pages that they lead to, have brought."""

from __future__ import annotations

from collections.abc import Iterable

from scrapy import Request

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.meta import prediction_of
from hacs_crawler.crawl.part import Observed, Part
from hacs_crawler.state import Visit


class Experiments(Part):
    """Marks seeds with the arm that chose them, and counts visits for it."""

    inherited = ("hacs.arm",)

    def __init__(self, crawl: Crawl, arms: dict[int, str]) -> None:
        self._crawl = crawl
        self._arms = arms

    @classmethod
    def from_crawl(cls, crawl: Crawl) -> Experiments | None:
        """Return None unless HACS_EXPERIMENT is on."""
        assert crawl.config is not None  # noqa: S101 - parts are made of a crawl with settings
        if not crawl.config.ranking.experiment.is_on:
            return None
        labels = crawl.config.ranking.labels(crawl.config.estimation)
        return cls(crawl, {label.number: label.arm for label in labels})

    def before_request(self, request: Request, page_url: str | None) -> None:
        """Mark a seed with the arm by whose label it was predicted."""
        del page_url
        prediction = prediction_of(request)
        if prediction is not None and prediction["label"] in self._arms:
            request.meta["hacs.arm"] = self._arms[prediction["label"]]

    def observed(self, observed: Observed) -> Iterable[Visit]:
        """Count a visit, of a seed or of what follows from it, for its arm, if it has one."""
        arm = observed.request.meta.get("hacs.arm")
        if arm and not observed.reason:
            self._count(arm, observed)
        return ()

    def _count(self, arm: str, observed: Observed) -> None:
        stats, recorded = self._crawl.stats, observed.recorded
        stats.count(f"experiment/{arm}/visits")
        if recorded.updated_site:
            stats.count(f"experiment/{arm}/site_updates")
        if recorded.updated:
            stats.count(f"experiment/{arm}/updates")
            stats.count(f"experiment/{arm}/new_links", len(recorded.new_links))

"""At the end of a round or a crawl the state learns from the recorded visits: prior, signals, drift."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from hacs_crawler.crawl.for_parts import CrawlPart
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.state import Run, State, follow_prior, refit_signals
from hacs_crawler.utils.text import counted, safe_logger

logger = safe_logger(__name__)

PROGRESS_SECONDS: Final = 10.0
# Estimating this many pages again takes some seconds.
MANY_PAGES: Final = 10_000


class Refit(CrawlPart):
    """Has the pages follow their prior, and bounds and judges the record of outcomes."""

    async def round_ended(self, is_asked_to_end: Callable[[], bool]) -> None:
        """Fit prior and signals again if anything was recorded, and judge the predictions."""
        crawl = self._crawl
        if crawl.stats.recorded:
            visited, shards = crawl.stats.recorded, crawl.quota.shards
            await crawl.state.once(_follow_prior, is_asked_to_end, visited=visited, shards=shards)
            # whoever brought them
            await crawl.state.once(lambda state: refit_signals(state.store))
        if crawl.stats.recorded and crawl.stats.predicted:
            await crawl.state.once(_bound_and_judge, crawl.ranking)


def _follow_prior(
    state: State, is_asked_to_end: Callable[[], bool], *, visited: int, shards: int
) -> None:
    progress = _log_progress(state)
    run = follow_prior(state, progress, is_asked_to_end, visited=visited, shards=shards)
    if run is not None and (run.changed or is_asked_to_end()):
        is_cut = is_asked_to_end()
        why = (
            "; the next crawl goes on from there"
            if is_cut
            else ": the prior or its use has changed"
        )
        logger.info("%s estimated again%s", counted(run.pages, "page"), why)


def _bound_and_judge(state: State, options: RankingOptions) -> None:
    """Bound the record of outcomes, and log whether p has drifted."""
    from hacs_crawler.ranking.calibration import drift_of  # noqa: PLC0415 - if there is anything to judge

    outcomes, model = state.bound_outcomes(), options.label(state.estimation).model
    drift = drift_of(state, model, outcomes)
    if drift is not None:
        logger.warning("p is off: %s", drift)


def _log_progress(state: State) -> Callable[[Run], None]:
    """Return a function that logs from time to time how many pages have been estimated again."""
    next_at = 0.0

    def log(run: Run) -> None:
        nonlocal next_at
        if run.pages < MANY_PAGES or time.monotonic() < next_at:
            return
        next_at = time.monotonic() + PROGRESS_SECONDS
        logger.info(
            "Estimating pages anew with the prior fitted to them: %d of %d (Ctrl-C ends it; the next "
            "crawl goes on from there)",
            run.pages,
            state.store.count(),
        )

    return log

"""At the end of a round or crawl, fits the prior and signals to the visits, and checks p for drift."""

import time
from collections.abc import Callable
from typing import Final

from hacs_crawler.crawl.for_parts import CrawlPart
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.state import Run, State, follow_prior, refit_signals
from hacs_crawler.utils.text import counted, safe_logger

logger = safe_logger(__name__)

PROGRESS_SECONDS: Final = 10.0
# From this many pages on, which take some seconds, the log shows the progress.
MANY_PAGES: Final = 10_000


class Refit(CrawlPart):
    """Refits the prior, re-estimates pages by it, and trims and checks the record of outcomes."""

    async def round_ended(self, is_asked_to_end: Callable[[], bool]) -> None:
        """Refit the prior and signals if anything was recorded, and check the predictions."""
        crawl = self._crawl
        if crawl.stats.recorded:
            visited, shards = crawl.stats.recorded, crawl.quota.shards
            await crawl.state.once(_follow_prior, is_asked_to_end, visited=visited, shards=shards)
            # even if this crawl read none: users may report them
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
    """Trim the record of outcomes, and warn if p has drifted."""
    from hacs_crawler.ranking.calibration import drift_of  # noqa: PLC0415 - rarely needed

    outcomes, model = state.bound_outcomes(), options.label(state.estimation).model
    drift = drift_of(state, model, outcomes)
    if drift is not None:
        logger.warning("p is off: %s", drift)


def _log_progress(state: State) -> Callable[[Run], None]:
    """Return a function that logs, from time to time, how many pages have been re-estimated."""
    next_at = 0.0

    def log(run: Run) -> None:
        nonlocal next_at
        if run.pages < MANY_PAGES or time.monotonic() < next_at:
            return
        next_at = time.monotonic() + PROGRESS_SECONDS
        logger.info(
            "Estimating pages again with the refitted prior: %d of %d (Ctrl-C ends it; the next crawl "
            "goes on from there)",
            run.pages,
            state.store.count(),
        )

    return log

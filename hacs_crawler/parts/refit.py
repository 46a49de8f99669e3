"""At the end of a round or crawl: corrects outcomes, fits the prior and signals, checks p for drift."""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from hacs_crawler.crawl.crawl import Crawl
from hacs_crawler.crawl.for_parts import CrawlPart
from hacs_crawler.links import page_id_of
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.state import (
    OUTCOME,
    SEEN,
    UPDATED,
    Recorded,
    Run,
    State,
    follow_prior,
    refit_signals,
    visits_of,
    withdrawn,
)
from hacs_crawler.utils.text import counted, safe_logger

logger = safe_logger(__name__)

PROGRESS_SECONDS: Final = 10.0
# From this many pages on, which take some seconds, the log shows the progress.
MANY_PAGES: Final = 10_000


class Refit(CrawlPart):
    """Refits the prior, re-estimates pages by it, and corrects, trims and checks outcome records."""

    def __init__(self, crawl: Crawl) -> None:
        super().__init__(crawl)
        # Earlier visits, by page id and second, that did not show their page after all.
        self._undone: list[tuple[int, int]] = []

    def recorded(self, batch: Sequence[Recorded]) -> None:
        """Note the updates of earlier visits that these visits undo (see `state.judging`)."""
        for visited in batch:
            before, after = visited.before, visited.after
            if after.spells != before.spells and after.updates == before.updates:
                kept = {*before.sound.update_times} & {*after.visits}
                page_id, undone = page_id_of(after.url), kept - {*after.sound.update_times}
                self._undone += [(page_id, at) for at in undone]

    async def round_ended(self, is_asked_to_end: Callable[[], bool]) -> None:
        """Refit the prior and signals if anything was recorded, and check the predictions."""
        crawl = self._crawl
        undone, self._undone = self._undone, []
        if undone:
            await crawl.state.once(_withdraw, undone)
        if crawl.stats.recorded:
            visited, shards = crawl.stats.recorded, crawl.quota.shards
            await crawl.state.once(_follow_prior, is_asked_to_end, visited=visited, shards=shards)
            # even if this crawl read none: users may report them
            await crawl.state.once(lambda state: refit_signals(state.store))
        if crawl.stats.recorded and crawl.stats.predicted:
            await crawl.state.once(_bound_and_judge, crawl.ranking)


def _withdraw(state: State, undone: Sequence[tuple[int, int]]) -> None:
    """Let the outcome records of visits say that these did not show their page."""
    visits = np.zeros(len(undone), OUTCOME)
    visits["page_id"], visits["at"] = zip(*undone, strict=True)
    outcomes = state.outcomes()
    theirs = outcomes[np.isin(visits_of(outcomes), visits_of(visits))]
    state.store.add_outcomes(withdrawn(theirs, SEEN | UPDATED))


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
        level = logging.INFO if is_cut or run.pages >= MANY_PAGES else logging.DEBUG
        logger.log(level, "%s estimated again%s", counted(run.pages, "page"), why)


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

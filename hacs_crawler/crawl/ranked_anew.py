"""Pages of some sites ranked anew in a run, by what a visit of the same run told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hacs_crawler.crawl.session import Session
from hacs_crawler.exceptions import StateError
from hacs_crawler.ranking.candidates import candidates_from
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.policies import Candidates, Floats
from hacs_crawler.ranking.selection import scored
from hacs_crawler.state import Ids, Prediction, predictions
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)


class Ranked(NamedTuple):
    """A page that was ranked anew. `may_come` says whether it is to be visited if it was left out."""

    page_id: int
    score: float
    prediction: Prediction
    may_come: bool


async def ranked_anew(session: Session, options: RankingOptions, page_ids: Ids) -> Sequence[Ranked]:
    """Rank pages of whole sites by what the state knows now; none where it cannot be asked."""
    now = session.clock()
    try:
        rows, _ = await session.pages.rows(page_ids.tolist(), now)
        signals = await session.pages.signals(rows, options.experiment)
    except StateError as error:  # the order that there is does, too
        logger.debug("Siblings were not ranked anew: %s", error)
        return []
    if not session.is_open:
        return []
    candidates = candidates_from(
        page_ids,
        rows,
        now,
        session.state.estimation,
        session.ranking,
        session.correct,
        signals=signals,
        costs=session.costs,
    )
    may_come = (rows["not_before"] <= now) & (candidates.p >= options.thresholds()[0])
    score = scored(options.experiment.arms[0].policy, candidates)
    return _ranked(session, candidates, score, may_come.tolist())


def _ranked(
    session: Session, candidates: Candidates, score: Floats, may_come: Sequence[bool]
) -> list[Ranked]:
    numbers = predictions(
        session.labels[0].number,
        session.run,
        p=candidates.p,
        raw_p=candidates.raw_p,
        rate_per_day=candidates.rate_per_day,
        days_since_visit=candidates.days_since_visit,
        churn=candidates.churn,
    )
    ids = candidates.page_ids.tolist()
    return [Ranked(*one) for one in zip(ids, score.tolist(), numbers, may_come, strict=True)]

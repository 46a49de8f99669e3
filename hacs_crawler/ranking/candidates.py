"""From ranking rows to the input of policies: e, λ and p of each page."""

import math
from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Final

import numpy as np

from hacs_crawler.model import SiblingVisits, elapsed_days, sibling_evidence
from hacs_crawler.ranking.demands import Demands, nothing_asked
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.policies import Candidates, Floats
from hacs_crawler.ranking.signals import Signals, with_signals
from hacs_crawler.state import Estimation, Ids, Rows, rates_of
from hacs_crawler.utils.arrays import BoolArray, IndexArray
from hacs_crawler.utils.times import DAY

Places = IndexArray
# The result of `sibling_evidence`.
Evidence = tuple[Floats, Floats]
# The arrays of integers.
_WHOLE: Final = {"page_ids", "visits", "updates", "failures"}
# The fields with one element a page.
_COLUMNS: Final = [
    field.name for field in fields(Candidates) if field.name not in {"seed", "stale_days"}
]


def candidates_from(
    page_ids: Ids,
    rows: Rows,
    now: float,
    estimation: Estimation,
    options: RankingOptions,
    *,
    signals: Sequence[Signals] = (),
    evidence: Evidence | None = None,
    demands: Demands | None = None,
) -> Candidates:
    """Return the candidates for a policy, from ranking rows (dtype `state.ROW`) of whole sites.

    `now` is in seconds since 1970 UTC. `signals` count if e starts at the last visit. `evidence` is the
    result of `evidence_of` for these pages; it is required if `rows` are not of whole sites. `demands`
    are the users' demands on the pages.
    """
    # not the rate in the row: for a page seen once it may be of an older prior
    rates = rates_of(rows, estimation)
    last_visit, last_update = _days_seen(rows)
    now_day = now / DAY
    is_since_visit = options.elapsed_from == "visit"
    since_update = elapsed_days(now_day, last_update)
    elapsed = elapsed_days(now_day, last_visit if is_since_visit else last_update)
    has_update = rows["updates"] > 0
    if evidence is None:
        evidence = evidence_of(rows, estimation, options)
    quiet_days, shared = evidence
    alone = rates.probability(np.maximum(elapsed - quiet_days, 0.0))
    if signals and is_since_visit:
        alone = with_signals(
            alone, signals, page_ids, rows, now, estimation=estimation, quiet_days=quiet_days
        )
    return Candidates(
        page_ids=page_ids,
        rate_per_day=rates.rate_per_day,
        fast_share=rates.fast_share,
        fast_per_day=rates.fast_per_day,
        slow_per_day=rates.slow_per_day,
        days_since_visit=elapsed_days(now_day, last_visit),
        days_since_update=np.where(has_update, since_update, np.inf),
        p=1.0 - (1.0 - alone) * (1.0 - shared),
        visits=rows["visits"].astype(np.int64),
        updates=rows["updates"].astype(np.int64),
        failures=rows["failures"].astype(np.int64),
        churn=rows["churn"].astype(np.float64),
        churning=rows["churning"].astype(np.float64),
        **(nothing_asked(len(rows)) if demands is None else demands)._asdict(),
        seed=options.random_seed or 0,
        stale_days=options.stale_days or math.inf,
    )


def evidence_of(
    rows: Rows, estimation: Estimation, options: RankingOptions, wanted: Places | None = None
) -> Evidence:
    """Return the evidence of siblings for pages of whole sites, or for the `wanted` places only."""
    if not options.counts_siblings:
        number = len(rows) if wanted is None else len(wanted)
        return np.zeros(number), np.zeros(number)
    has_update = rows["updates"] > 0
    last_visit, last_update = _days_seen(rows)
    sightings = SiblingVisits(
        rows["site"].astype(np.int64),
        rates_of(rows, estimation).rate_per_day,
        last_visit,
        np.where(has_update, last_update, np.nan),
        np.where(has_update, rows["before_update"] / DAY, np.nan),
        np.where(rows["is_baseline"] > 0, last_visit, last_update),
    )
    return sibling_evidence(sightings, estimation.sibling_correlation, wanted)


def _days_seen(rows: Rows) -> tuple[Floats, Floats]:
    """Return the last visit and the last update of pages, in days, nan for pages never visited."""
    is_visited = rows["visits"] > 0
    last_visit = np.where(is_visited, rows["last_visit"] / DAY, np.nan)
    return last_visit, np.where(is_visited, rows["last_update"] / DAY, np.nan)


def nobody() -> Candidates:
    """Return empty candidates."""
    columns: dict[str, Any] = {
        name: np.zeros(0, np.int64 if name in _WHOLE else np.float64) for name in _COLUMNS
    }
    return Candidates(**columns, seed=0)


def joined(parts: Sequence[Candidates]) -> Candidates:
    """Return the concatenation of at least one part."""
    columns = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS}
    return Candidates(**columns, seed=parts[-1].seed, stale_days=parts[-1].stale_days)


def taken(candidates: Candidates, places: Places | BoolArray) -> Candidates:
    """Return some of the candidates."""
    columns = {name: getattr(candidates, name)[places] for name in _COLUMNS}
    return Candidates(**columns, seed=candidates.seed, stale_days=candidates.stale_days)

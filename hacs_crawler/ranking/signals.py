"""The effect of signals on the probabilities of updates, for ranking."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.model import Beliefs, Trust, beliefs_of, log_quiet_factor, trust_of
from hacs_crawler.ranking.policies import Floats, Policy
from hacs_crawler.state import (
    Estimation,
    Ids,
    Records,
    Rows,
    Store,
    rates_of,
    read_known_signals,
    records_in_days,
    settled,
)
from hacs_crawler.utils.arrays import IndexArray
from hacs_crawler.utils.times import DAY


@dataclass(frozen=True, slots=True)
class Signals:
    """The signals of one kind: records by ascending page id, and the beliefs about their sources.

    `source` are places in `beliefs`, one for each record.
    """

    kind: str
    records: Records
    source: IndexArray
    beliefs: Beliefs


def read_signals(store: Store, sites: NDArray[np.integer], policy: Policy) -> list[Signals]:
    """Return the signals of the pages of these sites, if the policy uses signals; raises StateError."""
    if not policy.uses_signals:
        return []
    return [
        Signals(known.kind, known.records, known.source, beliefs_of(known.weights, known.prior))
        for known in read_known_signals(store, sites)
        if len(known.records)
    ]


def with_signals(
    p: Floats,
    signals: Sequence[Signals],
    page_ids: Ids,
    rows: Rows,
    now: float,
    *,
    estimation: Estimation,
    quiet_days: Floats,
) -> Floats:
    """Return p, the probabilities of an update since the last visit, given the signals.

    `rows` are the pages' ranking rows. `quiet_days` are the days since a page's last visit that are
    already taken to be quiet because of siblings: the absence of signals in them must not count again.
    Nor do days count again that another kind of signals has shown to be quiet.
    """
    with_all = p.copy()
    elapsed = np.maximum(now - rows["last_visit"], 1.0) / DAY
    left = np.clip(1.0 - quiet_days / elapsed, 0.0, 1.0)
    for more in signals:
        places, mine = _join(more.records, page_ids)
        is_visited = rows["last_visit"][places] > 0
        places, source = places[is_visited], more.source[mine[is_visited]]
        records = settled(more.records[mine[is_visited]], rows[places], estimation)
        in_days, rates = records_in_days(records), rates_of(rows[places], estimation)
        factor = np.exp(log_quiet_factor(in_days, more.beliefs, source, rates, left[places]))
        with_all[places] = np.clip(1.0 - (1.0 - with_all[places]) * factor, 0.0, 1.0)
        watched = in_days.watched / elapsed[places]
        left[places] *= 1.0 - more.beliefs.recall[source] * np.minimum(watched, 1.0)
    return with_all


def _join(records: Records, page_ids: Ids) -> tuple[IndexArray, IndexArray]:
    """Return the places of the pages that have records, and the places of these records."""
    at = np.searchsorted(records["page_id"], page_ids)
    ends = np.append(records["page_id"], 0)
    places = np.flatnonzero((at < len(records)) & (ends[at] == page_ids))
    return places, at[places]


@dataclass(frozen=True, slots=True)
class PageSignals:
    """The signals of one kind for a page, and how far their source is trusted.

    Times in seconds since 1970 UTC: the latest signal (0: none) and when the source was read. Since the
    last visit, `count` signals came in `watched_days` days of watching. `likelier` is the factor by
    which they change the probability of no update; below 1, they make an update more likely.
    """

    kind: str
    latest: int
    read: int
    count: int
    watched_days: float
    likelier: float
    trust: Trust


def signals_of_page(
    store: Store, page_id: int, row: Rows, estimation: Estimation
) -> list[PageSignals]:
    """Return the signals of one page, by kind; `row` is an array with its ranking row."""
    signals = []
    for of_kind in read_known_signals(store, row["site"]):
        _, mine = _join(of_kind.records, np.array([page_id], np.int64))
        if not len(mine):
            continue
        records = settled(of_kind.records[mine], row, estimation)
        source, record = of_kind.source[mine], records[0]
        in_days, beliefs = records_in_days(records), beliefs_of(of_kind.weights, of_kind.prior)
        factor = log_quiet_factor(in_days, beliefs, source, rates_of(row, estimation), np.ones(1))
        page = PageSignals(
            of_kind.kind,
            int(min(record["latest"], record["read"])),
            int(record["read"]),
            int(record["count"]),
            float(record["watched"]),
            float(np.exp(factor[0])) if row["last_visit"][0] else 1.0,
            trust_of(of_kind.weights[source[0]]),
        )
        signals.append(page)
    return signals

"""Signals of pages since their last visits: one record for each page, changed by each reading.

A source of signals (a site's sitemap, a feed, a user's pings) is read now and then, and gives the time
of the last signal for each page that it lists. If there were several signals between two readings, only
the last is seen. The evidence on a source (`EVIDENCE`) grows as its pages are visited.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.model import POINTS, Rates, SignalRecords, gap_log_likelihood, open_log_likelihood
from hacs_crawler.state.estimation import Estimation
from hacs_crawler.state.store import Ids, Rows
from hacs_crawler.utils.arrays import FloatArray, IndexArray
from hacs_crawler.utils.times import DAY

Seconds = NDArray[np.int64]
# Cap on the evidence from gaps: sites change, and their pages differ.
MOST_GAPS: Final = 400.0
# Cap on the evidence from the number of signals: many of them come together, and exact numbers would
# make r compensate for a phi that is between two points.
MOST_SIGNALS: Final = 30.0
# The signals of a page; see `model.SignalRecords`. Times in seconds since 1970 UTC, 0 for none.
#
# The last four are those of the page's row at its last `visit`. `latest` is the time that the source
# gave for the page when it was last `read`; it may be before `visit`, or, if it is a whole day, after
# `read`.
RECORD: Final = np.dtype(
    [
        ("page_id", "<i8"),
        ("visit", "<u4"),
        ("update", "<u4"),
        ("before", "<u4"),
        ("first", "<u4"),
        ("latest", "<u4"),
        ("read", "<u4"),
        ("count", "<u2"),
        ("watched", "<f4"),
        ("quiet_count", "<f4"),
        ("quiet_days", "<f4"),
        ("rate", "<f4"),
        ("share", "<f4"),
        ("fast", "<f4"),
        ("slow", "<f4"),
    ]
)
Records = NDArray[np.void]
# With fewer visits a page has no rate of its own: it is the prior's mean.
VISITS_OF_A_RATE: Final = 2
# The scale on which the evidence of a page's own gaps without update fades.
QUIET_FADE_DAYS: Final = 365.0
_MOST_COUNT: Final = 60_000
_RATES: Final = {
    "rate": "rate_per_day",
    "share": "fast_share",
    "fast": "fast_per_day",
    "slow": "slow_per_day",
}


def records_in_days(records: Records) -> SignalRecords:
    """Return the signals since the last visit in the model's form, in days."""
    has_signal = records["count"] > 0
    is_found = (records["update"] > 0) & (records["before"] > 0)
    nan = np.nan
    return SignalRecords(
        visit=records["visit"] / DAY,
        update=np.where(is_found, records["update"] / DAY, nan),
        before=np.where(is_found, records["before"] / DAY, nan),
        first=np.where(has_signal, records["first"] / DAY, nan),
        latest=np.where(has_signal, np.minimum(records["latest"], records["read"]) / DAY, nan),
        count=records["count"].astype(np.float64),
        watched=records["watched"].astype(np.float64),
        quiet_count=records["quiet_count"].astype(np.float64),
        quiet_days=records["quiet_days"].astype(np.float64),
    )


def _ended_gaps(records: Records, rows: Rows) -> tuple[IndexArray, FloatArray, NDArray[np.bool_]]:
    """Return the places of records whose gaps have ended, not by a baseline, their days, and updates."""
    is_over = rows["last_visit"] > records["visit"]
    is_gap = is_over & (records["visit"] > 0) & (rows["visits"] > 1) & (rows["is_baseline"] == 0)
    places = np.flatnonzero(is_gap)
    some, their = records[places], rows[places]
    updated = (their["updates"] > 0) & (their["last_update"] > some["visit"])
    return places, (their["last_visit"] - some["visit"]) / DAY, updated


def gap_evidence(records: Records, rows: Rows) -> tuple[IndexArray, FloatArray]:
    """Return the places of records whose gap has ended, and their log-likelihoods, (n, points).

    `rows` are the pages' ranking rows.
    """
    places, days, updated = _ended_gaps(records, rows)
    # with the rates from before the gap: with later ones, its outcome would count twice
    some = records[places]
    return places, gap_log_likelihood(records_in_days(some), _rates_in(some), days, updated)


def settled(records: Records, rows: Rows, estimation: Estimation) -> Records:
    """Return the records restarted at their pages' last visits; `rows` are the pages' ranking rows."""
    is_over = rows["last_visit"] > records["visit"]
    places, days, updated = _ended_gaps(records, rows)
    after = records.copy()
    quiet = places[~updated]
    fade = np.exp(-days[~updated] / QUIET_FADE_DAYS)
    for name, more in (("quiet_count", "count"), ("quiet_days", "watched")):
        after[name][quiet] = records[name][quiet] * fade + records[more][quiet]
    visit = rows["last_visit"].astype(np.int64)
    # the visit has seen any signal that was read before it, even one dated with a whole day
    is_new = is_over & (records["latest"] > visit) & (records["read"] > visit)
    after["visit"][is_over] = visit[is_over]
    after["update"] = np.where(rows["updates"] > 0, rows["last_update"], 0)
    after["before"] = np.where(rows["updates"] > 0, rows["before_update"], 0)
    after["first"][is_over] = np.where(is_new, records["latest"], 0)[is_over]
    after["count"][is_over] = is_new[is_over]
    rates = rates_of(rows[is_over], estimation)
    for column, name in _RATES.items():
        after[column][is_over] = getattr(rates, name)
    begin = np.where(is_new, records["latest"], visit)
    watched = np.maximum(records["read"] - begin, 0) / DAY
    after["watched"][is_over] = np.where(visit > 0, watched, 0.0)[is_over]
    return after


def read_before_visits(records: Records, rows: Rows, times: Seconds) -> Records:
    """Return records with the signals, read now, that came before the latest visits.

    `times` as for `read_again`. A signal before such a visit is the last one before it, as a later one
    would have replaced it.
    """
    visit = rows["last_visit"].astype(np.int64)
    is_told = (visit > records["visit"]) & (visit > records["read"]) & (times <= visit)
    after = records.copy()
    after[is_told] = read_again(records[is_told], times[is_told], visit[is_told])
    return after


def read_again(records: Records, times: Seconds, at: int | Seconds) -> Records:
    """Return records after a source was read at second `at`, which is not before the last reading.

    `times` are the pages' latest signals, 0 for none. The records must be `settled`.
    """
    after = records.copy()
    shown = np.minimum(times, at)
    visit = records["visit"].astype(np.int64)
    is_visited = visit > 0
    is_new = is_visited & (shown > visit) & (times > records["latest"])
    begin = np.maximum(visit, records["read"])
    watched = (at - np.maximum(begin, np.where(is_new, shown, 0))) / DAY
    after["watched"] += np.where(is_visited, np.maximum(watched, 0.0), 0.0).astype(np.float32)
    is_first = is_new & (records["count"] == 0)
    after["first"][is_first] = shown[is_first]
    after["count"] = np.minimum(records["count"].astype(np.int64) + is_new, _MOST_COUNT)
    after["latest"] = np.maximum(records["latest"], times)
    after["read"] = at
    return after


def joined_ids(records: Records, page_ids: Ids) -> Records:
    """Return the records of these pages (ascending ids), empty records for pages without any."""
    after = np.zeros(len(page_ids), RECORD)
    after["page_id"] = page_ids
    if len(records):
        index = np.minimum(np.searchsorted(records["page_id"], page_ids), len(records) - 1)
        is_known = records["page_id"][index] == page_ids
        after[is_known] = records[index[is_known]]
    return after


def open_evidence(
    records: Records, rows: Rows, estimation: Estimation
) -> tuple[FloatArray, FloatArray]:
    """Return the log-likelihoods of the signals since the last visits, (n_pages, points), and numbers.

    A page's number is that of its signals, or of the expected updates if that is more.
    """
    places = np.flatnonzero((records["visit"] > 0) & (records["watched"] > 0))
    likelihood = np.zeros((len(records), POINTS))
    some = rates_of(rows[places], estimation)
    likelihood[places] = open_log_likelihood(records_in_days(records[places]), some)
    expected = rates_of(rows, estimation).rate_per_day * records["watched"]
    looked_for = np.maximum(records["count"], expected)
    return likelihood, np.where(records["visit"] > 0, looked_for, 0.0)


def rates_of(rows: Rows, estimation: Estimation) -> Rates:
    """Return the pages' rates; a page seen once has the rates of an unknown page."""
    rates, expected = _rates_in(rows), estimation.expected()
    is_unknown = rows["visits"] < VISITS_OF_A_RATE
    for name in _RATES.values():
        getattr(rates, name)[is_unknown] = getattr(expected, name)[0]
    return rates


def _rates_in(rows: Rows | Records) -> Rates:
    columns = {name: rows[column].astype(np.float64) for column, name in _RATES.items()}
    return Rates(**columns, churn=np.zeros(len(rows)), churning=np.zeros(len(rows)))


# The evidence on a source: log-likelihoods at the points of `model.signals`. `closed` is from `gaps`
# gaps between visits, `open` from the signals of `pages` pages since their last visits. `signals` is the
# number of the latter, or of the expected updates if that is more.
EVIDENCE: Final = np.dtype(
    [
        ("version", "u1"),
        ("gaps", "<f4"),
        ("pages", "<f4"),
        ("signals", "<f4"),
        ("closed", "<f4", POINTS),
        ("open", "<f4", POINTS),
    ]
)
Evidence = NDArray[np.void]


def add_gaps(evidence: Evidence, source: IndexArray, log_likelihood: FloatArray) -> None:
    """Add ended gaps, by the place of their source; above `MOST_GAPS` old evidence fades."""
    np.add.at(evidence["closed"], source, log_likelihood)
    evidence["gaps"] += np.bincount(source, minlength=len(evidence))
    share = np.minimum(1.0, MOST_GAPS / np.maximum(evidence["gaps"], 1.0))
    evidence["closed"] *= share[:, None]
    evidence["gaps"] *= share


def evidence_likelihood(evidence: Evidence) -> FloatArray:
    """Return the log-likelihood of all evidence at each point, (n_sources, points)."""
    share = np.minimum(1.0, MOST_SIGNALS / np.maximum(evidence["signals"], 1.0))
    likelihood: FloatArray = evidence["closed"] + evidence["open"] * share[:, None].astype(float)
    return likelihood

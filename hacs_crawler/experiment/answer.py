"""Compares twin crawls: which finds more updates in the same number of visits, with confidence."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.exceptions import HacsError
from hacs_crawler.links import page_id_of, site_id
from hacs_crawler.model import update_index, update_probability
from hacs_crawler.state import UPDATED, Label, Outcomes, State, as_of, share_of_time
from hacs_crawler.statistics.twins import SiteTally, contrast, effective_sites
from hacs_crawler.utils.arrays import FloatArray
from hacs_crawler.utils.terminal import Progress
from hacs_crawler.utils.times import DAY, SKEW_SECONDS, day_text

# Upper bound on the probability of ever reporting a difference between equal crawls.
ALPHA: Final = 0.05
# Conclusions need updates on at least this many sites, for each crawl.
LEAST_SITES: Final = 10
# With a lower effective number of sites, their differences cannot be estimated.
LEAST_EFFECTIVE: Final = 4.0
# Tolerated relative difference of the numbers of visits: a killed crawl may have lost a few.
MOST_APART: Final = 0.05
# Tolerated share of days on which either crawl made no visit.
MOST_DAYS_APART: Final = 0.1
# Tolerated share of a crawl's visits to pages that the other does not know.
MOST_UNKNOWN: Final = 0.2
MOST_LOOKS: Final = 200
_BATCH: Final = 2_000


@dataclass(frozen=True, slots=True)
class Side:
    """One crawl in numbers, since the experiment began.

    `visits` excludes pages' first visits, which cannot find an update. `updates` is weighted by the
    probability that an update is not churn.
    """

    name: str
    visits: int
    updates: float
    pages: int
    first_visits: int


@dataclass(frozen=True, slots=True)
class Answer:
    """The comparison of two crawls; times in seconds since 1970 UTC.

    `verdict` is "more", "fewer", "undecided" or "too early". `ratio` is the ratio of updates per
    visit, `low` to `high` its interval, which holds at all looks with probability 1 - `alpha`.
    `since` is the first look of those with the final verdict, None if undecided or too early. The
    first crawl found the updates that `both` found `sooner_days` sooner, on average.
    """

    one: Side
    other: Side
    sites: int
    pages: int
    first: int
    last: int
    has_past: bool
    alpha: float
    verdict: str
    updated_sites: tuple[int, int]
    ratio: float
    low: float
    high: float
    since: int | None
    both: int
    sooner_days: float
    only_one: int
    only_other: int


@dataclass(frozen=True, slots=True)
class TwinRecord:
    """One twin's ranked visits since the start; `again` excludes pages' first visits."""

    name: str
    all: Outcomes
    again: Outcomes

    @property
    def updates(self) -> FloatArray:
        """For each visit in `again`, the probability that it found an update that is not churn."""
        is_updated = (self.again["flags"] & UPDATED) > 0
        updates: FloatArray = is_updated * share_of_time(self.again)
        return updates

    @property
    def days(self) -> set[int]:
        """The days with visits."""
        return {*(self.all["at"].astype(np.int64) // DAY).tolist()}


def records_of(states: Sequence[State], places: Sequence[str], began: int) -> list[TwinRecord]:
    """Read the twins' records since they began; raises HacsError if one changed its settings."""
    records, labels = [], []
    for state, address in zip(states, places, strict=True):
        outcomes = state.outcomes()
        outcomes = outcomes[outcomes["at"] >= began]
        own = list(state.labels_of(outcomes).values())
        if len(own) > 1:
            policies = {label.policy for label in own}
            used = sorted(policies if len(policies) > 1 else {label.model for label in own})
            raise HacsError(
                f"{address} was crawled with different settings ({' and '.join(used)}): an experiment "
                "compares crawls with constant settings; end it, and start again"
            )
        records.append(outcomes)
        labels.append(own[0] if own else None)
    names = _names(labels, places)
    return [
        TwinRecord(name, outcomes, outcomes[np.isfinite(outcomes["days_since_visit"])])
        for name, outcomes in zip(names, records, strict=True)
    ]


def _names(labels: Sequence[Label | None], places: Sequence[str]) -> list[str]:
    """Return names that distinguish the crawls: policies, models of p, or addresses."""
    for name in ("policy", "model"):
        names = [getattr(label, name) for label in labels if label is not None]
        if len({*names}) == len(labels):
            return names
    return list(places)


def compare(
    one: TwinRecord,
    other: TwinRecord,
    states: tuple[State, State],
    began: int,
    alpha: float = ALPHA,
) -> Answer:
    """Compare the records of two twins since second `began`.

    Loads all pages of the first state, for their earlier history. Raises HacsError if they cannot
    be compared, with the reason.
    """
    _refuse_unlike_visits(one, other)
    _refuse_other_pages(one, other, states[1])
    _refuse_other_pages(other, one, states[0])
    ids = np.concatenate([one.all["page_id"], other.all["page_id"]])
    ids, first = np.unique(ids, return_index=True)
    visited = np.concatenate([one.all["site"], other.all["site"]])[first]
    rate = min(len(one.again), len(other.again)) / len(one.days | other.days)
    page_sites, rates, has_past = _history_before(
        states[0], began, dict(zip(ids.tolist(), visited.tolist(), strict=True))
    )
    sites, places = np.unique(page_sites, return_inverse=True)
    pages = np.bincount(places).astype(np.float64)
    if effective_sites(pages) < LEAST_EFFECTIVE:
        few = int(np.searchsorted(np.cumsum(np.sort(pages)[::-1]), len(places) / 2)) + 1
        raise HacsError(
            f"too few sites to generalize from: most of the {len(places)} pages are on {few} of "
            f"{len(sites)} sites"
        )
    # expected updates by a visit to each page, after a day and after the time of a whole round
    elapsed = (1.0, len(places) / max(rate, 1e-9)) if has_past else ()
    expected = [np.bincount(places, update_probability(rates, days)) for days in elapsed]
    columns = np.array(expected, np.float64).reshape(len(elapsed), len(sites)).T
    days = np.array(sorted(one.days | other.days), np.int64)
    if len(days) > MOST_LOOKS:
        days = days[np.linspace(0, len(days) - 1, MOST_LOOKS).round().astype(np.int64)]
    ends = (days + 1) * DAY
    mine, theirs = (_tally(record, ends, sites) for record in (one, other))
    result = contrast(mine, theirs, pages, columns)
    # the verdict at the end of each day
    low, high = result.interval(alpha)
    both_found = np.min([(tally.updates > 0).sum(-1) for tally in (mine, theirs)], axis=0)
    verdict = np.where(low > 1.0, "more", np.where(high < 1.0, "fewer", "undecided"))
    verdicts = np.where(both_found < LEAST_SITES, "too early", verdict).tolist()
    both, sooner_days, only_one, only_other = _common_updates(one, other)
    updated = [int(np.count_nonzero(tally.updates[-1])) for tally in (mine, theirs)]
    sides = [
        Side(
            name=record.name,
            visits=len(record.again),
            updates=float(record.updates.sum()),
            pages=len(np.unique(record.all["page_id"])),
            first_visits=len(record.all) - len(record.again),
        )
        for record in (one, other)
    ]
    since = None
    if verdicts[-1] in {"more", "fewer"}:
        others = [look for look, verdict in enumerate(verdicts) if verdict != verdicts[-1]]
        since = int(ends[max(others, default=-1) + 1]) - 1
    return Answer(
        one=sides[0],
        other=sides[1],
        sites=len(sites),
        pages=len(places),
        first=int(min(one.all["at"][0], other.all["at"][0])),
        last=int(max(one.all["at"][-1], other.all["at"][-1])),
        has_past=has_past,
        alpha=alpha,
        verdict=verdicts[-1],
        updated_sites=(updated[0], updated[1]),
        ratio=float(np.exp(result.log_ratio[-1])),
        low=float(low[-1]),
        high=float(high[-1]),
        since=since,
        both=both,
        sooner_days=sooner_days,
        only_one=only_one,
        only_other=only_other,
    )


def _refuse_unlike_visits(one: TwinRecord, other: TwinRecord) -> None:
    """Raise HacsError unless twins made the same number of visits, different ones, on the same days."""
    for record in (one, other):
        if not len(record.again):
            raise HacsError(
                f"{record.name} has visited no page a second time yet: crawl with both twins"
            )
    mine, theirs = (
        {*zip(record.all["page_id"].tolist(), (record.all["at"] // DAY).tolist(), strict=True)}
        for record in (one, other)
    )
    if mine == theirs:
        is_whole = len({page for page, _ in mine}) * len(one.days) == len(mine)
        raise HacsError(
            "every page was visited by both: without HACS_BUDGET all policies find the same"
            if is_whole
            else "both made the same visits: their crawls have the same policy and settings"
        )
    days = one.days | other.days
    for record in (one, other):
        missing = sorted(days - record.days)
        if len(missing) > MOST_DAYS_APART * len(days):
            raise HacsError(
                f"{record.name} did not crawl on {len(missing)} of {len(days)} days, such as "
                f"{day_text(missing[0] * DAY)}: the twins' updates are not from the same time; end the "
                "experiment, and start again"
            )
    numbers = len(one.all), len(other.all)
    if min(numbers) < (1.0 - MOST_APART) * max(numbers):
        raise HacsError(
            f"{one.name} made {numbers[0]:,} visits and {other.name} {numbers[1]:,}: fewer visits find "
            "more per visit; give both crawls the same HACS_BUDGET, and start again"
        )


def _refuse_other_pages(mine: TwinRecord, theirs: TwinRecord, state: State) -> None:
    """Raise HacsError if one twin visited pages that the other's state does not know."""
    is_known = state.rows(mine.all["page_id"].astype(np.int64))["site"] > 0
    unknown = len(is_known) - int(np.count_nonzero(is_known))
    if unknown > MOST_UNKNOWN * len(is_known):
        raise HacsError(
            f"{unknown:,} of {len(is_known):,} visits of {mine.name} were to pages that {theirs.name} "
            "does not know: give both crawls the same seeds, and start again"
        )


def _history_before(
    state: State, began: int, visited: dict[int, int]
) -> tuple[NDArray[np.int64], FloatArray, bool]:
    """Return the pages' sites, their rates before second `began`, and whether there is a history.

    `visited` has the sites of the pages visited since, by id. Pages that were not visited before or
    since are left out. The rate of a page without earlier visits is the prior's mean.
    """
    sites: list[int] = []
    rates: list[FloatArray] = [np.zeros(0)]
    page_ids, has_gap = set[int](), 0
    pages, total, done = iter(state.pages()), state.store.count(), 0
    with Progress("experiment: history before") as progress:
        while batch := list(islice(pages, _BATCH)):
            known = [
                as_of(page, began - 1 - SKEW_SECONDS)
                for page in batch
                if page is not None and page.visits and page.visits[0] < began
            ]
            rates.append(state.estimation.rates(known).rate_per_day)
            has_gap += sum(len(page.visits) > 1 for page in known)
            sites += [site_id(page.url) for page in known]
            page_ids |= {page_id_of(page.url) for page in known}
            done += len(batch)
            progress.update(f"{done} pages", done, total)
    has_past = has_gap > len(sites) / 2
    new = [site for page_id, site in visited.items() if page_id not in page_ids]
    rates.append(np.repeat(state.estimation.expected().rate_per_day[:1], len(new)))
    return np.array(sites + new, np.int64), np.concatenate(rates), has_past


def _tally(record: TwinRecord, ends: NDArray[np.int64], sites: NDArray[np.int64]) -> SiteTally:
    """Return a crawl's updates up to the end of each day, by site."""
    again = record.again
    look = np.searchsorted(ends, again["at"].astype(np.int64), "right")
    index = look * len(sites) + np.searchsorted(sites, again["site"].astype(np.int64))

    def upto(values: FloatArray) -> FloatArray:
        by_look = np.bincount(index, values, len(ends) * len(sites)).reshape(len(ends), len(sites))
        return np.cumsum(by_look, axis=0).astype(np.float64)

    visits = upto(np.ones(len(again)))
    worth = upto(update_index(again["p"].astype(np.float64))).sum(-1)
    return SiteTally(upto(record.updates), visits, worth / np.maximum(visits.sum(-1), 1.0))


def _common_updates(one: TwinRecord, other: TwinRecord) -> tuple[int, float, int, int]:
    """Return the number of updates both found, the days that `one` was sooner, and the others of each.

    Two updates are the same if their gaps overlap; each is matched once.
    """
    first, second = (_gaps_with_update(record) for record in (one, other))
    numbers = [sum(map(len, spans.values())) for spans in (first, second)]
    both, sooner = 0, 0.0
    for page_id, spans in first.items():
        theirs = second.get(page_id, [])
        for begin, end in spans:
            match = next((span for span in theirs if span[0] < end and begin < span[1]), None)
            if match is not None:
                theirs.remove(match)
                both += 1
                sooner += (match[1] - end) / DAY
    return both, sooner / max(both, 1), numbers[0] - both, numbers[1] - both


def _gaps_with_update(record: TwinRecord) -> dict[int, list[tuple[float, float]]]:
    """Return the begin and end of the gaps with updates, by page."""
    updates = record.again[(record.again["flags"] & UPDATED) > 0]
    ends = updates["at"].astype(np.float64)
    begins = ends - updates["days_since_visit"].astype(np.float64) * DAY
    spans = defaultdict[int, list[tuple[float, float]]](list)
    for page_id, *span in zip(updates["page_id"].tolist(), begins, ends, strict=True):
        spans[page_id].append((span[0], span[1]))
    return spans

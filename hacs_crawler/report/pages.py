"""The pages that a report lists, as data for its script: what is known of each, and its history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import numpy as np

from hacs_crawler.model import bayes_quantiles, estimate, gaps_between
from hacs_crawler.ranking.candidates import candidates_from
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.plan import Plan
from hacs_crawler.state import (
    PAGES_A_CALL,
    Estimation,
    Ids,
    Page,
    Rows,
    State,
    as_of,
    baselines_of,
    histories,
)
from hacs_crawler.utils.arrays import FloatArray, IndexArray, offsets_of, page_of_value

MOST_ESTIMATES: Final = 32
"""At so many visits of a page at most, evenly spaced, its λ is estimated."""
QUANTILES: Final = (0.05, 0.95)


@dataclass(frozen=True, slots=True)
class Course:
    """How the λ of pages went, in 1/day: page i has estimates [offsets[i]:offsets[i+1]].

    Each is what the page's visits up to number `visit` (from 0) tell, under today's settings and prior.
    `low` and `high` hold the middle 90 % of the posterior; they are None for estimators without one.
    """

    offsets: IndexArray
    visit: IndexArray
    rate_per_day: FloatArray
    low: FloatArray | None
    high: FloatArray | None


def course(pages: Sequence[Page], estimation: Estimation) -> Course:
    """Estimate λ as it was after each of the pages' visits, from the second on, all at once."""
    days, updated, offsets = histories(pages, estimation.updates)
    lengths = [_lengths(count) for count in np.diff(offsets).tolist()]
    length = np.concatenate([np.zeros(0, np.int64), *lengths])
    number = np.array([len(some) for some in lengths], np.int64)
    first = np.repeat(offsets[:-1], number)
    starts = offsets_of(length)
    flat = np.arange(starts[-1]) + (first - starts[:-1])[page_of_value(starts)]
    prefixes = days[flat], updated[flat], starts
    known = baselines_of(pages)
    baselines = None if known is None else known[flat]
    low = high = None
    if estimation.has_posterior:
        gaps = gaps_between(*prefixes, estimation.fade_days, baselines)
        low, high = bayes_quantiles(gaps, estimation.prior, QUANTILES).T
    rates = estimate(
        estimation.estimator,
        *prefixes,
        prior=estimation.prior,
        fade_days=estimation.fade_days,
        baselines=baselines,
    )
    # what became of links, and so how much of a page's updates is churn, is known of today only
    last = np.cumsum(number)[number > 0] - 1
    rates[last] = estimation.rates(pages).rate_per_day[number > 0]
    return Course(offsets_of(number), length - 1, rates, low, high)


def gaps_between_updates(pages: Sequence[Page]) -> FloatArray:
    """Return the days between visits that found an update, one after the other, of all the pages."""
    days, updated, offsets = histories(pages)
    page = page_of_value(offsets)[updated]
    found = days[updated]
    gaps: FloatArray = np.diff(found)[np.diff(page) == 0]
    return gaps


def _lengths(visits: int) -> IndexArray:
    """Return how many of a page's first visits each estimate is made of: from 2 to all of them."""
    if visits < 2:
        return np.zeros(0, np.int64)
    evenly = np.linspace(2, visits, min(visits - 1, MOST_ESTIMATES))
    return np.unique(evenly.round()).astype(np.int64)


def load_pages(state: State, page_ids: Ids, now: float) -> dict[int, Page]:
    """Return those of the pages that can be read, in the order of the ids, as known at `now`."""
    pages: dict[int, Page] = {}
    for start in range(0, len(page_ids), PAGES_A_CALL):
        batch = page_ids[start : start + PAGES_A_CALL].tolist()
        known = state.load(batch)
        pages.update((page_id, as_of(known[page_id], now)) for page_id in batch if page_id in known)
    return pages


def chances(
    state: State, options: RankingOptions, page_ids: Ids, known: tuple[Ids, Rows], now: float
) -> dict[int, float]:
    """Return p of these pages, whether the plan has them or not.

    `known` are the ids and rows of every page: what was seen of a page's siblings counts.
    """
    ids, rows = known
    is_near = np.isin(rows["site"], rows["site"][np.isin(ids, page_ids)])
    near = candidates_from(ids[is_near], rows[is_near], now, state.estimation, options)
    return dict(zip(near.page_ids.tolist(), near.p.tolist(), strict=True))


def page_data(
    pages: Mapping[int, Page], plan: Plan, chance: Mapping[int, float], state: State
) -> dict[str, list[Any]]:
    """Return a column for each fact, with one element a page; times in seconds since 1970 UTC."""
    shown = list(pages.values())
    places = np.flatnonzero(np.isin(plan.page_ids, list(pages)))
    rank = dict(zip(plan.page_ids[places].tolist(), places.tolist(), strict=True))
    history = course(shown, state.estimation)
    updates = [_updates(page) for page in shown]
    return {
        "id": [str(page_id) for page_id in pages],  # beyond what numbers in JavaScript hold
        "url": [safe_url(page.url) for page in shown],
        "rate": rounded([page.rate for page in shown]),
        "churn": rounded([page.churn for page in shown]),
        "visits": [len(page.visits) for page in shown],
        "updates": [len(found) for found in updates],
        "failures": [page.failures for page in shown],
        "first": [page.visits[0] if page.visits else 0 for page in shown],
        "last": [page.last_visit or 0 for page in shown],
        "lastUpdate": [page.last_update or 0 for page in shown],
        "gone": [page.gone for page in shown],
        "notBefore": [page.not_before for page in shown],
        "p": rounded([chance.get(page_id) for page_id in pages]),
        "rank": [rank.get(page_id) for page_id in pages],
        "history": [
            _history(page, found, history, place)
            for place, (page, found) in enumerate(zip(shown, updates, strict=True))
        ],
    }


def safe_url(url: str) -> str:
    """Return a URL in which what would turn the direction of writing, or show nothing, is escaped."""
    if url.isprintable():
        return url
    return "".join(one if one.isprintable() else quote(one, errors="replace") for one in url)


def _updates(page: Page) -> dict[int, int]:
    """Return the numbers of the visits that found an update, from 0, with those of their new links."""
    places = np.searchsorted(page.visits, page.update_times)
    new_links = page.new_links_by_visit()
    return {place: new_links[place] for place in places.tolist() if 0 < place < len(new_links)}


def _history(page: Page, updates: Mapping[int, int], all_: Course, place: int) -> dict[str, Any]:
    """Return a page's visits, each in seconds after the one before, its updates and its estimates."""
    mine = slice(*all_.offsets[place : place + 2])
    estimates = {"rate": all_.rate_per_day, "low": all_.low, "high": all_.high}
    return {
        "at": np.diff(page.visits, prepend=0).tolist(),
        "updates": list(updates),
        "links": list(updates.values()),
        "echoes": np.flatnonzero(np.isin(page.visits, page.echoes)).tolist(),
        "estimates": all_.visit[mine].tolist(),
        **{
            name: rounded(values[mine].tolist())
            for name, values in estimates.items()
            if values is not None
        },
    }


def rounded(values: Sequence[float | None] | FloatArray, digits: int = 4) -> list[float | None]:
    """Return numbers with so many significant digits, None for what is not finite."""
    return [
        None if value is None or not np.isfinite(value) else float(f"{value:.{digits}g}")
        for value in values
    ]

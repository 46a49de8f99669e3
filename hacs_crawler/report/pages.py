"""The pages that a report lists: what is known of each, and its visits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from hacs_crawler.model import CHURNING
from hacs_crawler.ranking.candidates import candidates_from
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.plan import Plan
from hacs_crawler.report.tables import Column, Table, short
from hacs_crawler.state import PAGES_A_CALL, Findings, Ids, Page, Rows, State, as_of
from hacs_crawler.utils.text import counted, printable
from hacs_crawler.utils.times import day_text

NEWEST: Final = 100
"""How many of the updates found last are listed."""


def load_pages(state: State, page_ids: Ids, now: float) -> dict[int, Page]:
    """Return the pages that can be read, in the order of the ids, as known at `now`."""
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


def pages_table(
    pages: Mapping[int, Page], plan: Plan, chance: Mapping[int, float], now: float
) -> Table:
    """Return a row for each page, in their order."""
    shown = list(pages.values())
    places = np.flatnonzero(np.isin(plan.page_ids, list(pages)))
    rank = {plan.page_ids[place]: int(place) + 1 for place in places}
    arm = {plan.page_ids[place]: plan.arm_names[plan.arms[place]] for place in places}
    rates = [short(page.rate) if len(page.visits) > 1 else None for page in shown]
    found = [len(_updates(page)) for page in shown]
    table = [
        Column("Page", "page", list(range(len(shown))), "A click shows what is known of it"),
        Column("Next", "number", [*map(rank.get, pages)], "Its place in the plan"),
        Column("p", "p", [*map(short, map(chance.get, pages))], "The chance of an update"),
        Column("Updates", "every", rates, "As estimated, from the second visit on"),
        Column("Last visit", "ago", [page.last_visit for page in shown], "When it was last seen"),
        Column("Last update", "ago", [page.last_update for page in shown], "When it had new links"),
        Column("Visits", "number", [len(page.visits) for page in shown], "Visits that saw it"),
        Column("Found", "number", found, "Visits with an update"),
        Column("Status", "text", [_status(page, now) for page in shown], "What is wrong with it"),
    ]
    if len(plan.arm_names) > 1:
        table.append(Column("Arm", "text", [*map(arm.get, pages)], "Of the experiment"))
    return table


def _status(page: Page, now: float) -> str:
    if page.not_before > now:
        return f"gone, left alone until {day_text(page.not_before)}"
    if page.failures:
        return f"failed {counted(page.failures, 'time')}"
    if page.churn >= CHURNING:
        return "new links at every request"
    return "" if page.visits else "never seen"


def newest_table(pages: Mapping[int, Page], found: Mapping[int, Findings]) -> Table:
    """Return the updates that were found last, the newest first, and what is kept of them as text."""
    shown, ids = list(pages.values()), list(pages)
    updated = [place for place, page in enumerate(shown) if _updates(page)]
    latest = sorted(updated, key=lambda place: shown[place].last_update or 0, reverse=True)[:NEWEST]
    things = {place: _newest(shown[place], found.get(ids[place])) for place in latest}
    return [
        Column("Page", "page", latest, "A click shows what is known of it"),
        Column("What", "things", list(things.values()), "What was new"),
        Column(
            "Found", "ago", [shown[place].last_update for place in latest], "When a visit saw it"
        ),
    ]


def _newest(page: Page, found: Findings | None) -> list[str]:
    links = list(_updates(page).values())[-1]
    if found is None or found.at != page.last_update:
        return [counted(links, "link") if links else "its content"]
    more = links - len(found.things)
    return [*found.things, *([f"and {more:,} more"] if more > 0 else [])]


def history_of(page: Page) -> dict[str, Any]:
    """Return a page's URL, its visits in seconds after the one before, and those with new links."""
    updates = _updates(page)
    return {
        "url": printable(page.url),
        "at": np.diff(page.visits, prepend=0).tolist(),
        "updates": list(updates),
        "links": list(updates.values()),
    }


def _updates(page: Page) -> dict[int, int]:
    """Return the numbers of the visits that found an update, from 0, with those of their new links."""
    places = np.searchsorted(page.visits, page.update_times)
    new_links = page.new_marks_by_visit()
    return {place: new_links[place] for place in places.tolist() if 0 < place < len(new_links)}

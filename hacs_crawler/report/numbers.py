"""The numbers of a report: counts over all pages, the yield of each run, and data of charts."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.model import CHURNING
from hacs_crawler.ranking.calibration import Group
from hacs_crawler.ranking.candidates import candidates_from
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.plan import Plan
from hacs_crawler.state import SEEN, UPDATED, Ids, Label, Outcomes, Page, Rows, State, as_of
from hacs_crawler.statistics.scoring import reliability
from hacs_crawler.utils.arrays import IndexArray
from hacs_crawler.utils.text import printable
from hacs_crawler.utils.times import DAY

# Edges of the classes of update intervals: 84 seconds to 22 years, two classes per doubling; the outer
# classes include all shorter or longer intervals.
INTERVAL_EDGES_DAYS: Final = 2.0 ** np.arange(-10.0, 13.5, 0.5)
LATELY_DAYS: Final = 30
# How many pages of each remarkable kind are listed regardless of their rank.
REMARKABLE: Final = 100
CURVE_POINTS: Final = 200
# The series of visits without a label in the state.
UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True)
class Overview:
    """Counts over all pages.

    `evident` pages were visited at least twice, so there is evidence for their λ; `intervals` counts
    them by 1/λ, in the classes of `INTERVAL_EDGES_DAYS`. `remarkable` pages have the lowest λ, churn,
    are gone, or have the latest updates. `changed` pages had an update in the last `LATELY_DAYS` days.
    """

    known: int
    visited: int
    changed: int
    evident: int
    intervals: IndexArray
    remarkable: Ids


def overview(page_ids: Ids, rows: Rows, now: float) -> Overview:
    """Return the overview of ranking rows; `now` is in seconds since 1970 UTC."""
    is_waiting, late = rows["not_before"] > now, now - LATELY_DAYS * DAY
    is_evident = rows["visits"] > 1
    interval_days = 1.0 / rows["rate"][is_evident & (rows["rate"] > 0)]
    within = interval_days.clip(INTERVAL_EDGES_DAYS[0], INTERVAL_EDGES_DAYS[-1])

    def first(which: NDArray[np.bool_], key: NDArray[np.number]) -> Ids:
        """Return the pages with the lowest keys."""
        places = np.flatnonzero(which)
        return page_ids[places[np.argsort(key[places], kind="stable")[:REMARKABLE]]]

    remarkable = (
        first(is_evident & ~is_waiting, rows["rate"]),
        first(rows["churn"] >= CHURNING, -rows["visits"].astype(np.int64)),
        first(is_waiting, -rows["not_before"].astype(np.int64)),
        first(rows["updates"] > 0, -rows["last_update"].astype(np.int64)),
    )
    return Overview(
        known=len(page_ids),
        visited=int((rows["visits"] > 0).sum()),
        changed=int((rows["last_update"][rows["updates"] > 0] > late).sum()),
        evident=int(is_evident.sum()),
        intervals=np.histogram(within, INTERVAL_EDGES_DAYS)[0],
        remarkable=np.unique(np.concatenate(remarkable)),
    )


def yields(
    outcomes: Outcomes, label_of: Callable[[int], Label | None], limit: int
) -> dict[str, list[Any]]:
    """Return the yield of each of the latest `limit` runs: columns with a row for each run and series.

    `at` is the run's start in seconds since 1970 UTC, `name` the policy. Of the `visits`, `firsts`
    were a page's first; `unseen` requests did not show the page. `predicted` is the number of updates
    expected of other visits, `updates` of those found. `pages` counts those of no earlier run.
    """
    outcomes = outcomes[np.isin(outcomes["run"], np.unique(outcomes["run"])[-limit:])]
    numbers, number = np.unique(outcomes["label"], return_inverse=True)
    labels = map(label_of, numbers.tolist())
    series_of = [UNKNOWN if label is None else label.policy for label in labels]
    names, series = np.unique(np.array(series_of, dtype=object), return_inverse=True)
    key = outcomes["run"].astype(np.int64) * max(len(names), 1) + series.astype(np.int64)[number]
    groups, group = np.unique(key, return_inverse=True)
    is_seen = (outcomes["flags"] & SEEN) > 0
    is_first = is_seen & np.isinf(outcomes["days_since_visit"])
    is_new = np.isin(np.arange(len(outcomes)), np.unique(outcomes["page_id"], return_index=True)[1])

    def total(values: NDArray[Any], kind: type = np.int64) -> list[Any]:
        sums = np.bincount(group, values.astype(np.float64), len(groups))
        return list(sums.round(2).astype(kind).tolist())

    return {
        "at": (groups // max(len(names), 1)).tolist(),
        "name": [names[index] for index in (groups % max(len(names), 1)).tolist()],
        "visits": total(is_seen),
        "firsts": total(is_first),
        "pages": total(is_new),
        "unseen": total(~is_seen),
        "updates": total((outcomes["flags"] & UPDATED) > 0),
        "predicted": total(Group("", "", outcomes).p * (is_seen & ~is_first), np.float64),
        "links": total(outcomes["new_links"]),
        "bytes": total(outcomes["bytes"]),
    }


def load_pages(state: State, page_ids: Ids, now: float) -> dict[int, Page]:
    """Return the pages, in the order of the ids, without damaged ones and visits after `now`."""
    loaded = state.load(page_ids.tolist())
    return {
        page_id: as_of(loaded[page_id], now).sound
        for page_id in page_ids.tolist()
        if page_id in loaded
    }


def chances(
    state: State, options: RankingOptions, page_ids: Ids, ids_and_rows: tuple[Ids, Rows], now: float
) -> dict[int, float]:
    """Return p of pages, by id.

    `ids_and_rows` has all pages, because p depends on a page's siblings.
    """
    ids, rows = ids_and_rows
    is_near = np.isin(rows["site"], rows["site"][np.isin(ids, page_ids)])
    near = candidates_from(ids[is_near], rows[is_near], now, state.estimation, options)
    return dict(zip(near.page_ids.tolist(), near.p.tolist(), strict=True))


def curve(plan: Plan) -> dict[str, list[Any]]:
    """Return the expected updates as a function of the number of visits."""
    sums = np.concatenate([[0.0], np.cumsum(np.where(plan.visits > 0, plan.p, 0.0))])
    places = np.linspace(0, len(plan), min(len(plan), CURVE_POINTS) + 1)
    visits = np.unique(places.round().astype(int)).tolist()
    return {"visits": visits, "expected": [short(sums[number]) for number in visits]}


def reliability_chart(group: Group) -> dict[str, Any]:
    """Return the reliability diagram of the predictions of one policy and model."""
    bins = asdict(reliability(group.p, group.found, site=group.site))
    shown = ("mean_p", "found_share", "lower", "upper")
    return {
        "title": f"{group.policy}: predicted and found",
        "words": f"{len(group.outcomes):,} visits; {group.model}.",
        **{name: list(map(short, bins[name].tolist())) for name in shown},
    }


def history_of(page: Page) -> dict[str, Any]:
    """Return a page's URL, the seconds between its visits, and the visits with updates."""
    updates = updates_of(page)
    return {
        "url": printable(page.url),
        "at": np.diff(page.visits, prepend=0).tolist(),
        "updates": list(updates),
        "links": list(updates.values()),
    }


def updates_of(page: Page) -> dict[int, int]:
    """Return the number of new links of each visit with an update, by its index."""
    page = page.sound
    places = np.searchsorted(page.visits, page.update_times)
    new_links = page.new_marks_by_visit()
    return {index: new_links[index] for index in places.tolist() if 0 < index < len(new_links)}


def short(value: float | None) -> float | None:
    """Return a number rounded to three significant digits."""
    return None if value is None else float(f"{value:.3g}")

"""What would be crawled now, as a table."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.analysis.tables import Table, table
from hacs_crawler.ranking.plan import Plan, pages_of
from hacs_crawler.ranking.policies import Floats
from hacs_crawler.state import PAGES_A_CALL, VISITS_OF_A_RATE, State


def urls_of(plan: Plan, *states: State) -> Iterator[str | None]:
    """Yield the URLs of the pages in the plan, None for a damaged page (which is logged)."""
    for start in range(0, len(plan), PAGES_A_CALL):
        places = slice(start, start + PAGES_A_CALL)
        pages = pages_of(plan, places, states)
        ids = plan.page_ids[places].tolist()
        yield from (pages[page_id].url if page_id in pages else None for page_id in ids)


def plan_table(plan: Plan, *states: State) -> Table:
    """Return what ranked each page of the plan, best first; damaged pages are left out.

    `days_since_visit` and `days_since_update` are nan where there was none, `arm` is None without an
    experiment. `rate_is_prior` says that nothing was learned of the page's own rate yet.
    """
    urls = np.array(list(urls_of(plan, *states)), object)
    is_known = np.array([url is not None for url in urls], np.bool_)
    arms = np.array([name or None for name in plan.arm_names], object)
    whole = table(
        {
            "rank": np.arange(1, len(plan) + 1),
            "url": urls,
            "p": plan.p,
            "rate_per_day": plan.rate_per_day,
            "rate_is_prior": plan.visits < VISITS_OF_A_RATE,
            "days_since_visit": finite(plan.days_since_visit),
            "days_since_update": finite(plan.days_since_update),
            "visits": plan.visits.astype(np.int64),
            "updates": plan.updates.astype(np.int64),
            "failures": plan.failures.astype(np.int64),
            "arm": arms[plan.arms],
        },
        texts=("url", "arm"),
    )
    return Table({name: column[is_known] for name, column in whole.columns.items()})


def finite(days: NDArray[np.floating]) -> Floats:
    """Return days as 64-bit floats, nan for what is infinite."""
    return np.where(np.isfinite(days), days, np.nan).astype(np.float64)

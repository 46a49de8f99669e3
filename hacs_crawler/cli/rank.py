"""`hacs rank`: the pages that a crawl would visit now, as a table, JSON Lines or CSV."""

from __future__ import annotations

import json
import math
from typing import Annotated, Final

import numpy as np
import typer
from rich.table import Table as RichTable

from hacs_crawler.analysis import Table, plan_table
from hacs_crawler.cli.common import Set, Shards, opened, place_of
from hacs_crawler.cli.output import Records, chance_text, days_text, interval_text, shows_rows
from hacs_crawler.shards import JoinedState, plan_of_all, states_in
from hacs_crawler.utils.terminal import Progress, column_table
from hacs_crawler.utils.text import counted, safe_logger

logger = safe_logger(__name__)

# Number of pages shown if neither a limit nor a budget is set.
ROWS_SHOWN: Final = 20
NO_PAGES: Final = (
    "the state in %s knows no page yet: `scrapy crawl scholar -a seeds=FILE` visits a list of pages, "
    "`scrapy crawl wayback -a seeds=FILE` records what archives know of them (with HACS_SPIDERS = True)"
)


@shows_rows()
def rank(
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="number of pages to show  [default: the budget, else 20]"),
    ] = None,
    shards: Shards = None,
    settings: Set = None,
) -> Records | None:
    """Show the pages that a crawl of all known pages would visit now, and why.

    The order is that of `scrapy crawl scholar -a seeds=state`. With --json every page is a line of JSON.
    With several shards the pages of all shards are ranked together, and the last lines give the number
    of visits for each shard.
    """
    with opened(settings, shards) as (config, state):
        shown = limit or config.ranking.budget or ROWS_SHOWN
        with Progress("rank") as progress:
            plan = plan_of_all(state, config.ranking, config.clock(), shown, progress=progress)
        if not plan.known:
            logger.info(NO_PAGES, place_of(config))
            return None
        rows = plan_table(plan, *states_in(state))
        notes = [
            f"{len(plan)} of {counted(plan.known, 'page')} shown; skipped: {plan.waiting} gone, "
            + f"{plan.early} visited too recently for HACS_EVERY, " * bool(plan.early)
            + f"{plan.below_threshold} below the threshold, {plan.left_out} over budget or limit"
        ]
        if isinstance(state, JoinedState):
            visits = np.bincount(plan.shards, minlength=len(state.shards)).tolist()
            notes += [
                f"shard {shard}: " + (f"HACS_BUDGET = {number}" if number else "no visit")
                for shard, number in zip(state.shards, visits, strict=True)
            ]
        return Records(
            rows=lambda: rows,
            text=lambda: [_table(rows)],
            json=lambda: (
                f"{json.dumps(dict(zip(rows.columns, row, strict=True)))}\n" for row in rows.rows()
            ),
            notes=tuple(notes),
        )


def _table(rows: Table) -> RichTable:
    rates = zip(rows["rate_per_day"].tolist(), rows["rate_is_prior"].tolist(), strict=True)
    last_visit, last_update = (
        [days_text(days) if math.isfinite(days) else "-" for days in rows[name].tolist()]
        for name in ("days_since_visit", "days_since_update")
    )
    asked = {
        "weight": rows["weight"].tolist() if (rows["weight"] != 1).any() else None,
        "overdue": ["yes" * is_overdue for is_overdue in rows["is_overdue"].tolist()]
        if rows["is_overdue"].any()
        else None,
    }
    return column_table(
        {
            "rank": rows["rank"],
            "p": map(chance_text, rows["p"].tolist()),
            **{name: cells for name, cells in asked.items() if cells is not None},
            "update every": [interval_text(rate) + " (prior)" * prior for rate, prior in rates],
            "last visit": last_visit,
            "last update": last_update,
            "visits": rows["visits"],
            "updates": rows["updates"],
            "failed": rows["failures"],
            "URL": rows["url"],
        },
        page="URL",
    )

"""`hacs rank`: what would be crawled now, as a table, JSON Lines, CSV or Parquet."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Annotated

import numpy as np
import typer
from rich.table import Table as RichTable

from hacs_crawler.analysis import Table, plan_table
from hacs_crawler.cli.common import Set, Shards, opened, place_of
from hacs_crawler.cli.tables import Records, shows_rows
from hacs_crawler.cli.text import chance_text, days_text, interval_text
from hacs_crawler.ranking.plan import Plan
from hacs_crawler.ranking.shard_rounds import plan_of_all
from hacs_crawler.state import JoinedState, State, states_in
from hacs_crawler.utils.progress import Progress
from hacs_crawler.utils.terminal import column_table
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

ROWS_SHOWN = 20
"""How many pages are shown where neither a limit nor a budget is set."""


@shows_rows()
def rank(
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="how many pages to show  [default: the budget, else 20]"),
    ] = None,
    shards: Shards = None,
    settings: Set = None,
) -> Records | None:
    """Show what a crawl of all known pages would visit now, and why.

    It is the order of `scrapy crawl scholar -a seeds=state`. With --json every page is a line of JSON.
    Of several shards it is the order of all their pages, and the last lines say how many visits of
    them are each shard's.
    """
    with opened(settings, shards) as (config, state):
        shown = limit or config.ranking.budget or ROWS_SHOWN
        with Progress("rank") as progress:
            plan = plan_of_all(state, config.ranking, config.clock(), shown, progress=progress)
        if not plan.known:
            logger.info(NO_PAGES, place_of(config))
            return None
        rows = plan_table(plan, *states_in(state))
        return Records(
            rows=lambda: rows,
            text=lambda: [_table(rows)],
            json=lambda: _json_lines(rows),
            notes=(summary(plan), *_shares(plan, state)),
        )


def _shares(plan: Plan, state: State) -> Iterator[str]:
    """Yield for each shard how many visits of the plan are its own: the budget of its crawl."""
    if isinstance(state, JoinedState):
        visits = np.bincount(plan.shards, minlength=len(state.shards)).tolist()
        for shard, number in zip(state.shards, visits, strict=True):
            yield f"shard {shard}: " + (f"HACS_BUDGET = {number}" if number else "no visit")


NO_PAGES = (
    "the state in %s knows no page yet: `scrapy crawl scholar -a seeds=FILE` visits a list of pages, "
    "`scrapy crawl wayback -a seeds=FILE` records what archives know of them (with HACS_SPIDERS = True)"
)


def summary(plan: Plan) -> str:
    """Return in a line what became of all the pages that the state knows."""
    return (
        f"of {plan.known} pages known, {len(plan)} are shown; skipped: {plan.waiting} gone, "
        f"{plan.below_threshold} below the threshold, {plan.left_out} over budget or limit"
    )


def _table(rows: Table) -> RichTable:
    rates = zip(rows["rate_per_day"].tolist(), rows["rate_is_prior"].tolist(), strict=True)
    arms = {"arm": [arm or "" for arm in rows["arm"]]} if any(rows["arm"]) else {}
    return column_table(
        {
            "rank": rows["rank"],
            "p": map(chance_text, rows["p"].tolist()),
            "update every": [
                f"{interval_text(rate)} (prior)" if is_prior else interval_text(rate)
                for rate, is_prior in rates
            ],
            "last visit": map(_ago, rows["days_since_visit"].tolist()),
            "last update": map(_ago, rows["days_since_update"].tolist()),
            "visits": rows["visits"],
            "updates": rows["updates"],
            "failed": rows["failures"],
            **arms,
            "URL": rows["url"],
        },
        texts=("arm",),
        page="URL",
    )


def _ago(days: float) -> str:
    return days_text(days) if math.isfinite(days) else "-"


def _json_lines(rows: Table) -> Iterator[str]:
    return (f"{json.dumps(dict(zip(rows.columns, row, strict=True)))}\n" for row in rows.rows())

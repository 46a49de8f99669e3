"""`hacs rank`: what would be crawled now, as a table, JSON Lines, CSV or Parquet."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from typing import Annotated

import numpy as np
import typer
from rich.table import Table as Shown

from hacs_crawler.analysis import Table, plan_table
from hacs_crawler.cli.clusters import Dask, OpenedShard, Shards, opened_shards
from hacs_crawler.cli.common import Set, place_of
from hacs_crawler.cli.tables import Records, shows_rows
from hacs_crawler.cli.text import days_text, interval_text
from hacs_crawler.cluster import connected
from hacs_crawler.config import Config
from hacs_crawler.ranking.distributed import distributed_plan
from hacs_crawler.ranking.plan import Plan, make_plan
from hacs_crawler.utils.progress import Progress
from hacs_crawler.utils.terminal import column_table
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

ROWS_SHOWN = 20
"""How many pages are shown where neither a limit nor a budget is set."""


@shows_rows()
def rank(
    limit: Annotated[
        int | None, typer.Option(min=1, help="show so many pages; else the budget, else 20")
    ] = None,
    dask: Dask = None,
    shard: Shards = None,
    settings: Set = None,
) -> Records | None:
    """Show what a crawl of all known pages would visit now, and why.

    It is the order of `scrapy crawl scholar -a seeds=state`. With --json every page is a line of JSON.
    With several shards it is the order of all their pages, and the last lines say how many visits of
    them are each shard's.
    """
    with opened_shards(settings, shard, dask) as (config, shards):
        shown = limit or config.ranking.budget or ROWS_SHOWN
        states = [one.state for one in shards]
        if dask is None:
            with Progress("rank") as progress:
                plan = make_plan(states[0], config.ranking, config.clock(), shown, progress)
        else:
            plan = _distributed(dask, shards, config, shown)
        if not plan.known:
            logger.info(NO_PAGES, place_of(config))
            return None
        rows = plan_table(plan, *states)
        budgets = shares(plan, shards) if len(shards) > 1 else ()
        return Records(
            rows=lambda: rows,
            text=lambda: [_table(rows)],
            json=lambda: _json_lines(rows),
            notes=(summary(plan), *budgets),
        )


def _distributed(address: str, shards: Sequence[OpenedShard], config: Config, limit: int) -> Plan:
    with connected(address) as cluster:
        pairs = [(one.arguments, one.state) for one in shards]
        return distributed_plan(cluster, pairs, config.ranking, config.clock(), limit)


def shares(plan: Plan, shards: Sequence[OpenedShard]) -> Iterator[str]:
    """Yield for each shard how many visits of the plan are its own: the budget of its crawl."""
    visits = np.bincount(plan.shards, minlength=len(shards)).tolist()
    for one, number in zip(shards, visits, strict=True):
        yield f"{one.name}: HACS_BUDGET = {number}" if number else f"{one.name}: no visit"


NO_PAGES = (
    "the state in %s knows no page yet: `scrapy crawl scholar -a seeds=FILE` visits a list of pages, "
    "`scrapy crawl wayback -a seeds=FILE` records what archives know of them"
)


def summary(plan: Plan) -> str:
    """Return in a line what became of all the pages that the state knows."""
    return (
        f"of {plan.known} pages known, {len(plan)} are shown; skipped: {plan.waiting} gone, "
        f"{plan.below_threshold} below the threshold, {plan.left_out} over budget or limit"
    )


def _table(rows: Table) -> Shown:
    rates = zip(rows["rate_per_day"].tolist(), rows["rate_is_prior"].tolist(), strict=True)
    arms = {"arm": [arm or "" for arm in rows["arm"]]} if any(rows["arm"]) else {}
    return column_table(
        {
            "rank": rows["rank"],
            "p": [f"{p:.4f}" for p in rows["p"].tolist()],
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

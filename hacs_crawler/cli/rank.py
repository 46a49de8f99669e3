"""`hacs rank`: the pages that a crawl would visit now, as a table, JSON Lines or CSV."""

import math
from collections.abc import Iterable
from typing import Annotated, Final

import typer
from rich.table import Table as RichTable

from hacs_crawler.analysis import Table, plan_table
from hacs_crawler.cli.common import Set, Shards, opened, place_of
from hacs_crawler.cli.output import Csv, Json, chance_text, days_text, interval_text, show_rows
from hacs_crawler.ranking.policies import patience
from hacs_crawler.shards import plan_of_all
from hacs_crawler.utils.terminal import Progress, column_table
from hacs_crawler.utils.text import counted, safe_logger

logger = safe_logger(__name__)

# Number of pages shown if neither a limit nor a budget is set.
ROWS_SHOWN: Final = 20
NO_PAGES: Final = (
    "the state in %s knows no page yet: crawls of your spiders add them; with HACS_SPIDERS = True "
    "`scrapy crawl scholar -a seeds=FILE` visits a list of pages, and `scrapy crawl wayback -a "
    "seeds=FILE` records what archives know of them"
)


def rank(
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="number of pages to show", show_default="the budget, else 20"),
    ] = None,
    json: Json = False,
    csv: Csv = None,
    shards: Shards = None,
    settings: Set = None,
) -> None:
    """Show the pages that a crawl of all known pages would visit now, and why.

    With HACS_REVISIT a crawl begins with its spider's pages in this order. With --json, every page
    is a line of JSON. The pages of several shards are ranked together.
    """
    with opened(settings, shards) as (config, state):
        shown = limit or config.ranking.budget or ROWS_SHOWN
        with Progress("rank") as progress:
            plan = plan_of_all(state, config.ranking, config.clock(), shown, progress=progress)
        if not plan.known:
            logger.info(NO_PAGES, place_of(config))
            return
        rows = plan_table(plan, state)
        by_p = config.ranking.ranks_by_p
        show_rows(rows, lambda: [_table(rows, by_p=by_p)], csv, is_json=json)
        logger.info(
            "%d of %s shown; skipped: %d gone, %s%d below the threshold, %d over budget or limit",
            len(plan),
            counted(plan.known, "page"),
            plan.waiting,
            f"{plan.early} visited too recently for HACS_EVERY, " * bool(plan.early),
            plan.below_threshold,
            plan.left_out,
        )


def _table(rows: Table, *, by_p: bool) -> RichTable:
    rates = zip(rows["rate_per_day"].tolist(), rows["rate_is_prior"].tolist(), strict=True)
    last_visit, last_update = (
        [days_text(days) if math.isfinite(days) else "-" for days in rows[name].tolist()]
        for name in ("days_since_visit", "days_since_update")
    )
    columns: dict[str, Iterable[object]] = {
        "rank": rows["rank"],
        "p": map(chance_text, rows["p"].tolist()),
    }
    ranked_as = rows["p"] * patience(rows["failures"], rows["visits"])
    if by_p and (ranked_as < rows["p"]).any():
        columns["ranked as"] = map(chance_text, ranked_as.tolist())
    if (rows["weight"] != 1).any():
        columns["weight"] = rows["weight"].tolist()
    if rows["is_overdue"].any():
        columns["overdue"] = ["yes" * is_overdue for is_overdue in rows["is_overdue"].tolist()]
    columns |= {
        "update every": [interval_text(rate) + " (prior)" * prior for rate, prior in rates],
        "last visit": last_visit,
        "last update": last_update,
        "visits": rows["visits"],
        "updates": rows["updates"],
        "failed": rows["failures"],
        "URL": rows["url"],
    }
    return column_table(columns, page="URL")

"""`hacs rank`: what would be crawled now, as a table or as JSON Lines."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from hacs_crawler.cli.common import Set, opened, place_of, say, writing_to_stdout
from hacs_crawler.cli.text import days_text, interval_text
from hacs_crawler.ranking.plan import Plan, make_plan
from hacs_crawler.state import PAGES_A_CALL, VISITS_OF_A_RATE, State
from hacs_crawler.utils.progress import Progress
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

ROWS_SHOWN = 20
"""How many pages are shown where neither a limit nor a budget is set."""

Json = Annotated[bool, typer.Option("--json", help="print JSON instead of text")]


def rank(
    limit: Annotated[
        int | None, typer.Option(min=1, help="show so many pages; else the budget, else 20")
    ] = None,
    json_: Json = False,
    settings: Set = None,
) -> None:
    """Show what a crawl of all known pages would visit now, and why.

    It is the order of `scrapy crawl scholar -a seeds=state`. With --json every page is a line of JSON.
    """
    with opened(settings) as (config, state), writing_to_stdout():
        shown = limit or config.ranking.budget or ROWS_SHOWN
        with Progress("rank") as progress:
            plan = make_plan(state, config.ranking, config.clock(), shown, progress)
        if not plan.known:
            logger.info(NO_PAGES, place_of(config))
            return
        lines = _json_lines(plan, state) if json_ else _table(plan, state)
        for line in lines:
            say(line)
        logger.info("%s", summary(plan))


NO_PAGES = (
    "the state in %s knows no page yet: `scrapy crawl scholar -a seeds=FILE` visits a list of pages, "
    "`scrapy crawl wayback -a seeds=FILE` records what archives know of them"
)


def summary(plan: Plan) -> str:
    """Return in a line what became of all the pages that the state knows."""
    return (
        f"of {plan.known} pages known, {len(plan)} are shown; {plan.waiting} are gone and wait, "
        f"{plan.below_threshold} are below the threshold, {plan.left_out} are over budget or limit"
    )


def urls_of(plan: Plan, state: State) -> Iterator[str | None]:
    """Yield the URLs of the pages in the plan, None for a damaged page (which is logged)."""
    for start in range(0, len(plan), PAGES_A_CALL):
        ids = plan.page_ids[start : start + PAGES_A_CALL].tolist()
        pages = state.load(ids)
        yield from (pages[page_id].url if page_id in pages else None for page_id in ids)


def _table(plan: Plan, state: State) -> Iterator[str]:
    arms = [name for name in plan.arm_names if name]
    width = max((len(name) for name in arms), default=0)
    ranks = max(4, len(str(len(plan))))
    arm_title = f"{'arm':{width}}  " if arms else ""
    yield (
        f"{'rank':>{ranks}}  {'p':>6}  {'update every':>13}  {'last visit':>10}  "
        f"{'last update':>11}  {'visits':>6}  {'updates':>7}  {'failed':>6}  {arm_title}URL"
    )
    for place, url in enumerate(urls_of(plan, state)):
        if url is None:
            continue
        arm = f"{plan.arm_names[plan.arms[place]]:{width}}  " if arms else ""
        yield (
            f"{place + 1:>{ranks}}  {plan.p[place]:6.4f}  "
            f"{_interval(plan, place):>13}  "
            f"{_ago(plan.days_since_visit[place]):>10}  {_ago(plan.days_since_update[place]):>11}  "
            f"{plan.visits[place]:>6}  {plan.updates[place]:>7}  {plan.failures[place]:>6}  {arm}{url}"
        )


def _interval(plan: Plan, place: int) -> str:
    interval = interval_text(plan.rate_per_day[place])
    return f"{interval} (prior)" if _is_of_prior(plan, place) else interval


def _is_of_prior(plan: Plan, place: int) -> bool:
    """Whether nothing was learned of the page's own rate yet."""
    return bool(plan.visits[place] < VISITS_OF_A_RATE)


def _ago(days: float) -> str:
    return days_text(days) if math.isfinite(days) else "-"


def _json_lines(plan: Plan, state: State) -> Iterator[str]:
    for place, url in enumerate(urls_of(plan, state)):
        if url is not None:
            yield json.dumps({"rank": place + 1, "url": url, **facts(plan, place)})


def facts(plan: Plan, place: int) -> dict[str, Any]:
    """Return what ranked a page; None where there was no visit or no update."""
    return {
        "p": float(plan.p[place]),
        "raw_p": float(plan.raw_p[place]),
        "rate_per_day": float(plan.rate_per_day[place]),
        "rate_is_prior": _is_of_prior(plan, place),
        "days_since_visit": _finite(plan.days_since_visit[place]),
        "days_since_update": _finite(plan.days_since_update[place]),
        "visits": int(plan.visits[place]),
        "updates": int(plan.updates[place]),
        "failures": int(plan.failures[place]),
        "arm": plan.arm_names[plan.arms[place]] or None,
    }


def _finite(days: float) -> float | None:
    return float(days) if math.isfinite(days) else None

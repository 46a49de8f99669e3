"""`hacs simulate`: compares policies on known histories, day by day."""

import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from hacs_crawler.analysis import standings_table
from hacs_crawler.cli.common import CapturesFile, PagesFile, UpdatesFile
from hacs_crawler.cli.output import Csv, show_rows
from hacs_crawler.exceptions import HacsError
from hacs_crawler.lab.simulation.baselines import BASELINES
from hacs_crawler.lab.simulation.simulation import Scenario
from hacs_crawler.lab.simulation.tournament import (
    BUDGET,
    END,
    MADE_UP,
    POLICIES,
    START,
    compare,
    histories,
    standings_parts,
)
from hacs_crawler.lab.timelines import parse_day, read_given
from hacs_crawler.state import Estimation
from hacs_crawler.utils.terminal import Progress
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

DEFAULT: Final = Estimation()


def simulate(  # noqa: PLR0913, PLR0917 - an argument for each option
    pages: PagesFile = None,
    updates: UpdatesFile = None,
    start: Annotated[
        str | None, typer.Option(help="the first day, UTC; earlier updates are history")
    ] = None,
    end: Annotated[str | None, typer.Option(help="the day after the last, UTC")] = None,
    captures: CapturesFile = None,
    budget: Annotated[
        str | None,
        typer.Option("--budget", "--budgets", help="visits a day; several, such as 1,5,15"),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            help="names, or dotted paths of functions, separated by commas",
            show_default=f"all; for made-up pages {','.join(POLICIES)}",
        ),
    ] = None,
    estimator: Annotated[str, typer.Option(help="as HACS_ESTIMATOR")] = DEFAULT.estimator,
    fade_days: Annotated[float, typer.Option(help="as HACS_FADE_DAYS")] = DEFAULT.fade_days,
    siblings: Annotated[bool, typer.Option(help="as HACS_SIBLINGS")] = True,
    stale_days: Annotated[float | None, typer.Option(help="as HACS_STALE_DAYS")] = None,
    every: Annotated[
        int, typer.Option(help="days between runs; a run has the visits of these days")
    ] = 1,
    seed: Annotated[int, typer.Option(help="random seed")] = 0,
    csv: Csv = None,
) -> None:
    """Simulate recrawling pages whose updates are known, by one policy or several.

    Without files, it simulates 120 made-up pages in 2024, with 2 visits a day. Estimation, ranking
    and state work as in a crawl.
    """
    sys.path.append(str(Path.cwd()))  # for policies of the user
    needed = {"--start": start, "--end": end, "--budget": budget}
    timelines = read_given(pages, updates, captures, needed)
    of_all = BASELINES if timelines is not None else POLICIES
    names = list(of_all) if policy is None else [name.strip() for name in policy.split(",")]
    budgets = [BUDGET] if budget is None else _budgets(budget)
    if timelines is None:
        logger.info("made-up pages that come with the package; --pages and --updates take your own")
        timelines, first, last = histories(MADE_UP, start or START, end or END)
    else:
        first, last = parse_day(str(start), "start"), parse_day(str(end), "end")
    scenario = Scenario(
        timelines,
        first,
        last,
        min(budgets),
        Estimation(estimator, fade_days),
        seed,
        siblings,
        every=every,
        stale_days=stale_days,
    )
    with Progress("simulate") as progress:
        standings = compare(scenario, names, budgets, on_progress=progress.counts("simulations"))
    show_rows(standings_table(standings), lambda: standings_parts(standings), csv)


def _budgets(text: str) -> list[int]:
    numbers = [int(part) if part.strip().isdecimal() else 0 for part in text.split(",")]
    if min(numbers) < 1:
        raise HacsError(f"--budget = {text!r}: must be whole numbers of at least 1, such as 1,5,15")
    return list(dict.fromkeys(numbers))

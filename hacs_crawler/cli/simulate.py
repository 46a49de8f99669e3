"""`hacs simulate`: what policies would have found on known histories, day by day."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.table import Table as RichTable

from hacs_crawler.analysis import standings_table
from hacs_crawler.cli.common import CapturesFile, PagesFile, UpdatesFile
from hacs_crawler.cli.output import Records, check_target, shows_rows, write_file
from hacs_crawler.exceptions import HacsError
from hacs_crawler.lab.evaluation.figures import check_curves, draw_curves
from hacs_crawler.lab.simulation.baselines import BASELINES, find_baseline
from hacs_crawler.lab.simulation.signals import SignalHabits
from hacs_crawler.lab.simulation.simulation import Scenario
from hacs_crawler.lab.simulation.tournament import (
    BUDGET,
    END,
    MADE_UP,
    POLICIES,
    START,
    Standing,
    check_estimator,
    compare,
    histories,
)
from hacs_crawler.lab.timelines import Timelines, parse_day, read_timelines, read_versions
from hacs_crawler.state import Estimation
from hacs_crawler.utils.terminal import Progress, column_table
from hacs_crawler.utils.text import safe_logger, shown
from hacs_crawler.utils.times import DAY

logger = safe_logger(__name__)

DEFAULT: Final = Estimation()
DEFAULT_PLOT: Final = Path("curves.svg")


@shows_rows(json="file")
def simulate(  # noqa: PLR0913, PLR0917 - an argument for each option
    pages: PagesFile = None,
    updates: UpdatesFile = None,
    start: Annotated[
        str | None, typer.Option(help="the first day, UTC; before it all is history")
    ] = None,
    end: Annotated[str | None, typer.Option(help="the day after the last, UTC")] = None,
    captures: CapturesFile = None,
    versions: Annotated[
        Path | None, typer.Option(help="JSON lines: url, versions; which links are new to a site")
    ] = None,
    budget: Annotated[int | None, typer.Option(help="visits a day")] = None,
    budgets: Annotated[
        str | None, typer.Option(help="several, such as 1,5,15; draws curves")
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            help="names, or dotted paths of functions, separated by commas  [default: all; of "
            f"made-up pages {','.join(POLICIES)}]"
        ),
    ] = None,
    estimator: Annotated[str, typer.Option(help="as HACS_ESTIMATOR")] = DEFAULT.estimator,
    fade_days: Annotated[float, typer.Option(help="as HACS_FADE_DAYS")] = DEFAULT.fade_days,
    new_to: Annotated[str, typer.Option(help="page or site, as HACS_UPDATES")] = "page",
    siblings: Annotated[bool, typer.Option(help="as HACS_SIBLINGS")] = True,
    stale_days: Annotated[float | None, typer.Option(help="as HACS_STALE_DAYS")] = None,
    every: Annotated[
        int, typer.Option(help="days between runs; a run has the visits of all of them")
    ] = 1,
    signals: Annotated[
        str | None,
        typer.Option(help="signals of sites, drawn: r=0.3..0.9,phi=0.01,delay=0.5"),
    ] = None,
    seed: Annotated[int, typer.Option(help="of what is random")] = 0,
    plot: Annotated[
        Path | None,
        typer.Option(help=f"a file for the curves, .svg or .png  [default: {DEFAULT_PLOT}]"),
    ] = None,
) -> Records:
    """Simulate recrawling pages whose updates are known, by one policy or several.

    Without files it simulates 120 made-up pages in 2024, with 2 visits a day. The estimators, the
    ranking and the state's logic are those of a crawl.
    """
    sys.path.append(str(Path.cwd()))  # so that a policy of the user's own is found
    files = pages, updates, captures
    is_own = any(file is not None for file in (*files, versions))
    of_all = BASELINES if is_own else POLICIES
    names = _names(",".join(of_all) if policy is None else policy)
    if not is_own and budget is None and budgets is None:
        budget = BUDGET
    visits_a_day = _budgets(budget, budgets)
    target = _plot_target(plot, is_wanted=budgets is not None)
    estimation = _estimation(estimator, fade_days, new_to)
    if estimation.updates == "site" and versions is None:
        raise HacsError("--new-to site needs --versions: which links are new to a site")
    if stale_days is not None and not stale_days > 0:
        raise HacsError(f"--stale-days = {stale_days}: must be a number above 0")
    timelines, first, last = _histories(files, start, end, is_own=is_own)
    scenario = Scenario(
        timelines,
        first,
        last,
        min(visits_a_day),
        estimation,
        seed,
        siblings,
        links=None
        if versions is None
        else read_versions(versions, timelines.urls, timelines.updates),
        every=every,
        signals=None if signals is None else SignalHabits.parse(signals),
        stale_days=stale_days,
    )
    with Progress("simulate") as progress:
        standings = compare(
            scenario,
            names,
            visits_a_day,
            on_progress=lambda done, total: progress.update(f"{done} runs", done, total),
        )
    if target is not None:
        write_file(target, [draw_curves(standings, target.suffix[1:])])
    return Records(
        rows=lambda: standings_table(standings),
        text=lambda: [table(standings, has_budgets=budgets is not None)],
        json=lambda: [_as_json(scenario, standings, has_budgets=budgets is not None)],
    )


def _histories(
    files: tuple[Path | None, Path | None, Path | None],
    start: str | None,
    end: str | None,
    *,
    is_own: bool,
) -> tuple[Timelines, int, int]:
    if not is_own:
        logger.info("made-up pages that come with the package; --pages and --updates take your own")
        return histories(MADE_UP, START if start is None else start, END if end is None else end)
    pages, updates, captures = files
    given = {"--pages": pages, "--updates": updates, "--start": start, "--end": end}
    missing = [name for name, value in given.items() if value is None]
    if pages is None or updates is None or start is None or end is None:
        raise HacsError(f"histories of your own need {', '.join(missing)} too")
    period = parse_day(start, "start"), parse_day(end, "end")
    return read_timelines(pages, updates, captures), *period


COLUMNS: Final[Mapping[str, Callable[[Standing], str]]] = {
    "policy": lambda one: one.score.policy,
    "visits": lambda one: str(one.score.visits),
    "hits": lambda one: str(one.score.hits),
    "precision": lambda one: shown(one.score.precision, 4),
    "updates found": lambda one: str(one.score.updates_found),
    "of": lambda one: str(one.score.updates_total),
    "new links": lambda one: str(one.score.new_links_found),
    "mean delay, days": lambda one: shown(one.score.mean_delay_days, 1),
    "mean freshness": lambda one: shown(one.score.mean_freshness, 4),
    "wasted": lambda one: shown(one.score.wasted_share, 4),
    "hits / last-obs": lambda one: shown(one.hits_vs_last_obs, 3),
    "hits / oracle": lambda one: shown(one.hits_vs_oracle, 3),
}
# Where it is known which links are new to a site.
SITE_COLUMNS: Final[Mapping[str, Callable[[Standing], str]]] = {
    "site hits": lambda one: str(one.score.site_hits),
    "site updates found": lambda one: str(one.score.site_updates_found),
    "mean site delay, days": lambda one: shown(one.score.mean_site_delay_days, 1),
}


def table(standings: Sequence[Standing], *, has_budgets: bool) -> RichTable:
    """Return the standings as a table in Markdown."""
    has_sites = any(standing.score.site_hits is not None for standing in standings)
    cells_of = {**COLUMNS, **SITE_COLUMNS} if has_sites else dict(COLUMNS)
    if has_budgets:
        budget = {"visits a day": lambda standing: str(standing.budget)}
        cells_of = {"policy": COLUMNS["policy"], **budget, **cells_of}
    columns = {title: map(cell, standings) for title, cell in cells_of.items()}
    return column_table(columns, texts=("policy",), is_markdown=True)


def _names(policy: str) -> list[str]:
    names = [name.strip() for name in policy.split(",")]
    for name in names:
        find_baseline(name)
    return list(dict.fromkeys(names))


def _budgets(budget: int | None, budgets: str | None) -> list[int]:
    if (budget is None) == (budgets is None):
        raise HacsError("one of --budget and --budgets is needed, and not both")
    texts = [str(budget)] if budgets is None else budgets.split(",")
    numbers = [int(text) if text.strip().isdecimal() else 0 for text in texts]
    if min(numbers) < 1:
        option = "budget" if budgets is None else "budgets"
        given = budget if budgets is None else repr(budgets)
        raise HacsError(f"--{option} = {given}: must be whole numbers of at least 1")
    return list(dict.fromkeys(numbers))


def _estimation(estimator: str, fade_days: float, new_to: str) -> Estimation:
    check_estimator(estimator)
    if math.isnan(fade_days) or fade_days <= 0:
        raise HacsError(f"--fade-days = {fade_days}: must be a number above 0")
    if new_to not in {"page", "site"}:
        raise HacsError(f"--new-to {new_to!r}: must be one of page, site")
    return Estimation(estimator, fade_days, updates="site" if new_to == "site" else "page")


def _plot_target(plot: Path | None, *, is_wanted: bool) -> Path | None:
    """Return the file for the curves; without matplotlib only a requested file is an error."""
    if plot is None and not is_wanted:
        return None
    if not is_wanted:
        raise HacsError("--plot draws curves over several budgets: it needs --budgets")
    check_target(plot, "--plot")
    try:
        check_curves(plot or DEFAULT_PLOT)
    except HacsError as error:
        if plot is not None:
            raise
        logger.warning("no curves are drawn: %s", error)
        return None
    return plot or DEFAULT_PLOT


def _as_json(scenario: Scenario, standings: Sequence[Standing], *, has_budgets: bool) -> str:
    policies = [
        ({"budget": standing.budget} if has_budgets else {}) | standing.as_json()
        for standing in standings
    ]
    fade_days = scenario.estimation.fade_days
    body = {
        "days": (scenario.end - scenario.start) // DAY,
        "pages": len(scenario.places()),
        "estimator": scenario.estimation.estimator,
        "fade_days": fade_days if math.isfinite(fade_days) else None,
        "siblings": scenario.has_siblings,
        "stale_days": scenario.stale_days,
        "every": scenario.every,
        "new_to": scenario.estimation.updates,
        "seed": scenario.seed,
        "signals": None if scenario.signals is None else asdict(scenario.signals),
        "policies": policies,
    }
    return f"{json.dumps(body, indent=1, allow_nan=False)}\n"

"""Policies compared on known histories, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hacs_crawler.analysis.tables import Table, table_of_rows
from hacs_crawler.exceptions import HacsError
from hacs_crawler.lab.simulation import shipped
from hacs_crawler.lab.simulation.simulation import Scenario
from hacs_crawler.lab.simulation.tournament import Standing, compare
from hacs_crawler.lab.timelines import parse_day, read_timelines
from hacs_crawler.model import ESTIMATORS
from hacs_crawler.state import Estimation


def simulate(
    timelines: Path | str | None = None,
    *,
    policies: Sequence[str] = shipped.POLICIES,
    budgets: Sequence[int] = (shipped.BUDGET,),
    start: str | None = None,
    end: str | None = None,
    estimator: str = "bayes",
    seed: int = 0,
    processes: int | None = 1,
) -> Table:
    """Return the finds of policies on known histories, a row for each policy and budget.

    `timelines` is a folder with pages.csv, updates.csv and, if available, captures.csv; None takes
    the histories that come with the package. `start` and `end` are days such as "2024-01-01", the first
    and the one after the last; the package's own histories have theirs. `budgets` are visits a day.
    `processes` is how many simulate at a time, None for one per core. Columns are those of
    docs/evaluation.md. Raises HacsError.
    """
    for name, some in (("policy", policies), ("budget", budgets)):
        if not some:
            raise HacsError(f"name at least one {name}")
    if estimator not in ESTIMATORS:
        raise HacsError(f"estimator {estimator!r}: must be one of {', '.join(ESTIMATORS)}")
    if timelines is None:
        known = shipped.shipped_timelines()
        first, last = shipped.START, shipped.END
    elif start is None or end is None:
        raise HacsError("timelines of your own need start and end: days such as 2024-01-01")
    else:
        pages, updates, captures = (
            Path(timelines) / f"{name}.csv" for name in ("pages", "updates", "captures")
        )
        known = read_timelines(pages, updates, captures if captures.exists() else None)
        first = last = 0
    scenario = Scenario(
        known,
        first if start is None else parse_day(start, "start"),
        last if end is None else parse_day(end, "end"),
        min(budgets),
        Estimation(estimator),
        seed,
    )
    return standings_table(compare(scenario, list(policies), list(budgets), processes))


def standings_table(standings: Sequence[Standing]) -> Table:
    """Return a row for each standing: its budget, its score and its ratios; nan where undefined."""
    rows = [{"budget": standing.budget, **standing.as_json()} for standing in standings]
    return table_of_rows(rows, texts=("policy",))

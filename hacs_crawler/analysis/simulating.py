"""Compares policies on known histories, in a table."""

from collections.abc import Sequence
from pathlib import Path

from hacs_crawler.analysis.tables import Table, table_of_rows
from hacs_crawler.exceptions import HacsError
from hacs_crawler.lab.simulation.simulation import Scenario
from hacs_crawler.lab.simulation.tournament import (
    BUDGET,
    END,
    MADE_UP,
    POLICIES,
    START,
    Standing,
    compare,
    histories,
)
from hacs_crawler.state import Estimation


def simulate(
    timelines: Path | str | None = None,
    *,
    policies: Sequence[str] = POLICIES,
    budgets: Sequence[int] = (BUDGET,),
    start: str | None = None,
    end: str | None = None,
    estimator: str = "bayes",
    seed: int = 0,
    processes: int | None = 1,
) -> Table:
    """Simulate policies on known histories; return a row for each policy and budget.

    `timelines` is a folder with pages.csv, updates.csv and, if available, captures.csv; None means
    the histories in the package. `start` and `end` are the first day and the day after the last,
    such as "2024-01-01"; required for a folder. `budgets` are visits a day, `processes` the number
    of processes, None for one per core. For the columns, see docs/evaluation.md. Raises HacsError.
    """
    for name, some in (("policy", policies), ("budget", budgets)):
        if not some:
            raise HacsError(f"name at least one {name}")
    if timelines is None:
        timelines, start, end = MADE_UP, start or START, end or END
    elif start is None or end is None:
        raise HacsError("your own timelines need start and end: days such as 2024-01-01")
    history = histories(Path(timelines), start, end)
    scenario = Scenario(*history, min(budgets), Estimation(estimator), seed)
    return standings_table(compare(scenario, list(policies), list(budgets), processes))


def standings_table(standings: Sequence[Standing]) -> Table:
    """Return a row for each standing: its budget, score and ratios; nan if undefined."""
    return table_of_rows([standing.as_row() for standing in standings], texts=("policy",))

"""What a state holds, what would be crawled, and what simulations find, as tables of numpy arrays."""

from hacs_crawler.analysis.opened import Opened, open, open_existing, rank, visits_table  # noqa: A004 - hacs.open
from hacs_crawler.analysis.plan import plan_table, urls_of
from hacs_crawler.analysis.simulating import simulate, standings_table
from hacs_crawler.analysis.tables import Table, table, table_of_rows, times, write_whole

__all__ = [
    "Opened",
    "Table",
    "open",
    "open_existing",
    "plan_table",
    "rank",
    "simulate",
    "standings_table",
    "table",
    "table_of_rows",
    "times",
    "urls_of",
    "visits_table",
    "write_whole",
]

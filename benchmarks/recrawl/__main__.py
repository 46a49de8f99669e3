"""HACS against policies that others published, on known histories of pages: a table and a picture.

python benchmarks/recrawl FOLDER...     # each with pages.csv, updates.csv and captures.csv

Prints the table, and draws benchmarks/results/recrawl.svg: see README.md of this folder.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import numpy as np
from comparison import FORMS, History, Results, compared, described, timelines_of
from picture import picture

from hacs_crawler.exceptions import HacsError
from hacs_crawler.lab.timelines import parse_day
from hacs_crawler.utils.times import DAY, MAX_SECOND

USUAL = {
    "terms-changes": ("2024-01-01", (5, 10, 20)),
    "scholarly-timelines": ("2022-01-01", (2, 5, 15)),
}
"""When the crawls of these folders begin, and their visits a day, where nothing else is said."""
SHARES = (0.01, 0.02, 0.05)
"""The visits a day of other folders, as shares of the pages."""
PICTURE = Path(__file__).parents[1] / "results" / "recrawl.svg"


def history_of(folder: Path, given: argparse.Namespace) -> History:
    """Return how a folder is crawled: up to its last update at most, and a year after its first page."""
    usual_day, usual_budgets = USUAL.get(folder.resolve().name, (None, None))
    everything = timelines_of(folder, MAX_SECOND, 2**31)
    day = given.start or usual_day
    year_later = (int(everything.first_seen.min()) // DAY + 365) * DAY
    start = parse_day(day, "--start") if day else year_later
    pages = min(given.pages, np.count_nonzero(everything.first_seen < start))
    budgets = given.budgets or usual_budgets or [max(1, round(pages * one)) for one in SHARES]
    rest = (int(everything.updates.at.max(initial=0)) - start) // DAY
    return History(folder, start, max(1, min(given.days, rest)), tuple(budgets), given.pages)


def table(results: Results) -> str:
    """Return the table: a line for each history, budget and policy."""
    heads = ["history", "visits a day", "policy", *FORMS]
    lines = [f"| {' | '.join(heads)} |", f"|---|---:|---|{'---:|' * len(FORMS)}"]
    for (history, budget, policy), figures in results.items():
        cells = [
            f"{figures[name].value:{form}} ({figures[name].low:{form}} to {figures[name].high:{form}})"
            for name, form in FORMS.items()
        ]
        lines.append(f"| {' | '.join([history, str(budget), policy, *cells])} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", type=Path, nargs="+", metavar="FOLDER")
    parser.add_argument("--start", help="the day on which crawls begin")
    parser.add_argument("--budgets", type=int, nargs="+", help="visits a day")
    parser.add_argument("--days", type=int, default=730, help="at most (%(default)s)")
    parser.add_argument("--pages", type=int, default=1_000, help="at most (%(default)s)")
    parser.add_argument("--seeds", type=int, default=2, help="crawls of each kind (%(default)s)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--picture", type=Path, default=PICTURE)
    given = parser.parse_args()
    if min(given.days, given.pages, given.seeds, given.processes) < 1:
        parser.error("--days, --pages, --seeds and --processes are at least 1")
    if not given.picture.parent.is_dir():
        parser.error(f"--picture: there is no folder {given.picture.parent}")
    try:
        some = [history_of(folder, given) for folder in given.folders]
        results = compared(some, given.seeds, given.processes)
    except HacsError as error:
        sys.exit(str(error))
    print("\n".join(described(history) for history in some), table(results), sep="\n\n")
    given.picture.write_bytes(picture(results))


if __name__ == "__main__":
    main()

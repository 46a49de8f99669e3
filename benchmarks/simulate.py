"""What policies would have found on known histories: the tables of simulated crawls.

python benchmarks/simulate.py FOLDER     # with pages.csv, updates.csv, captures.csv; over 4 minutes

First `hacs simulate` of all that it knows, then the default without siblings, and variants of that.
Pages, years and budgets are those of the README's section.
"""

import argparse
import math
from pathlib import Path

from hacs_crawler.archive.timelines import parse_day, read_timelines
from hacs_crawler.cli.simulate import table
from hacs_crawler.simulation.baselines import BASELINES
from hacs_crawler.simulation.simulation import Scenario
from hacs_crawler.simulation.tournament import compare
from hacs_crawler.state.estimation import Estimation
from hacs_crawler.utils.progress import Progress
from hacs_crawler.utils.terminal import laid_out

START, END = (parse_day(day, "day") for day in ("2022-01-01", "2026-01-01"))
BUDGETS = (1, 5, 15)
VARIANTS = {
    "Eq. 5, e since the last visit": Estimation("mle"),
    "posterior mean, no fading": Estimation(fade_days=math.inf),
    "posterior mean, fading over a year": Estimation(),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--budgets", type=int, nargs="+", default=BUDGETS)
    arguments = parser.parse_args()
    folder, budgets = arguments.folder, arguments.budgets
    timelines = read_timelines(
        *(folder / f"{name}.csv" for name in ("pages", "updates", "captures"))
    )
    scenario = Scenario(timelines, START, END, 1, Estimation())
    with Progress("simulate") as progress:
        standings = compare(
            scenario,
            list(BASELINES),
            budgets,
            on_progress=lambda done, total: progress.update(f"{done} days", done, total),
        )
    print(laid_out(table(standings, has_budgets=True)))
    for title, estimation in VARIANTS.items():
        variant = Scenario(timelines, START, END, 1, estimation, has_siblings=False)
        print(f"\nWithout siblings: {title}\n")
        print(laid_out(table(compare(variant, ["hacs"], budgets), has_budgets=True)))


if __name__ == "__main__":
    main()

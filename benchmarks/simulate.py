"""What policies would have found on known histories: the tables of simulated crawls.

python benchmarks/simulate.py FOLDER     # with pages.csv, updates.csv, captures.csv; 7 minutes

First `hacs simulate` of all that it knows, then the default without siblings, and variants of that.
Hits are visits that found an update.
"""

import argparse
import math
from collections.abc import Callable, Sequence
from pathlib import Path

from hacs_crawler.lab.simulation.baselines import BASELINES
from hacs_crawler.lab.simulation.simulation import Scenario
from hacs_crawler.lab.simulation.tournament import Standing, compare
from hacs_crawler.lab.timelines import parse_day, read_timelines
from hacs_crawler.state.estimation import Estimation
from hacs_crawler.utils.terminal import Progress

START, END = (parse_day(day, "day") for day in ("2022-01-01", "2026-01-01"))
BUDGETS = (1, 5, 15)
VARIANTS = {
    "Eq. 5, e since the last visit": Estimation("mle"),
    "posterior mean, no fading": Estimation(fade_days=math.inf),
    "posterior mean, fading over a year": Estimation(),
}

SAME = {"interest", "hacs-without-signals"}
"""Policies that are `hacs` where there are neither page views nor signals."""
COLUMNS: dict[str, Callable[[Standing], str]] = {
    "hits": lambda one: f"{one.score.hits:,}",
    "of last-obs": lambda one: f"{one.hits_vs_last_obs:.2f}",
    "of the oracle": lambda one: f"{one.hits_vs_oracle:.3f}",
    "delay, days": lambda one: f"{one.score.mean_delay_days:.1f}",
    "freshness": lambda one: f"{one.score.mean_freshness:.3f}",
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
            [policy for policy in BASELINES if policy not in SAME],
            budgets,
            on_progress=lambda done, total: progress.update(f"{done} simulations", done, total),
        )
    print_standings("policy", {"": standings}, budgets)
    variants = {
        title: compare(
            Scenario(timelines, START, END, 1, estimation, has_siblings=False), ["hacs"], budgets
        )
        for title, estimation in VARIANTS.items()
    }
    print_standings("without siblings", variants, budgets)


def print_standings(
    title: str, standings: dict[str, list[Standing]], budgets: Sequence[int]
) -> None:
    """Print a line for each policy, or for each title that is not empty; by hits at the last budget."""
    scores: dict[str, dict[int, Standing]] = {}
    for name, some in standings.items():
        for one in some:
            scores.setdefault(name or one.score.policy, {})[one.budget] = one
    heads = [f"{what}, {a_day} a day" for what in COLUMNS for a_day in budgets]
    print(f"\n| {title} | {' | '.join(heads)} |\n|---|{'---:|' * len(heads)}")
    for name, by in sorted(scores.items(), key=lambda one: -one[1][budgets[-1]].score.hits):
        cells = [form(by[a_day]) for form in COLUMNS.values() for a_day in budgets]
        print(f"| {name} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()

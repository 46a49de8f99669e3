"""Which pages are given up with few visits, and what it costs to give up none: a table of crawls.

python benchmarks/slow_pages.py SCHOLARLY TERMS --budgets 1 5     # folders as for simulate.py

The crawls of `hacs simulate`, with and without HACS_STALE_DAYS, with `balanced` and `last-obs`. A page
is never visited if no visit was made to it from the start to the end. Other days than 365 are named
by `--only 365 550`; with `--later 0 1 2` crawls begin that many days later, and means are printed.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from hacs_crawler.lab.simulation.baselines import find_baseline
from hacs_crawler.lab.simulation.simulation import Counts, Places, Scenario, World, simulate
from hacs_crawler.lab.simulation.tournament import histories
from hacs_crawler.state import Estimation
from hacs_crawler.utils.times import DAY

PERIODS = {
    "scholarly-timelines": ("2022-01-01", "2026-01-01"),
    "terms-changes": ("2024-01-01", "2026-08-01"),
    # made as benchmarks/recrawl/others.md says
    "transit-feeds": ("2024-01-01", "2026-01-01"),
    "package-index": ("2024-01-01", "2026-01-01"),
    "link-lists": ("2022-01-01", "2024-01-01"),
}
CRAWLS: dict[str, tuple[str, float | None]] = {
    "none": ("hacs", None),
    "365": ("hacs", 365.0),
    "100 (balanced)": ("balanced", None),
    "last-obs": ("last-obs", None),
}


class WatchedWorld(World):
    """A world that counts the visits to each page."""

    def __init__(self, scenario: Scenario) -> None:
        super().__init__(scenario)
        self.visits_by_page = np.zeros(len(self.page_ids), np.int64)

    def visit(self, pages: Places, now: int) -> Counts:
        self.visits_by_page[pages] += 1
        return super().visit(pages, now)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--budgets", type=int, nargs="+", default=(1, 5))
    parser.add_argument("--only", nargs="+", default=list(CRAWLS))
    parser.add_argument("--later", type=int, nargs="+", default=(0,))
    arguments = parser.parse_args()
    print("| history | visits a day | stale days | hits | freshness | pages never visited |")
    print("|---|---:|---|---:|---:|---:|")
    for folder in arguments.folders:
        timelines, start, end = histories(folder, *PERIODS[folder.name])
        for budget in arguments.budgets:
            for title in arguments.only:
                policy, stale_days = CRAWLS.get(title) or ("hacs", float(title))
                scenario = Scenario(
                    timelines, start, end, budget, Estimation(), stale_days=stale_days
                )
                begun = [replace(scenario, start=start + days * DAY) for days in arguments.later]
                hits, freshness, never = np.mean([row_of(one, policy) for one in begun], axis=0)
                cells = f"{hits:,.0f} | {freshness:.3f} | {never:,.0f}"
                print(f"| {folder.name} | {budget} | {title} | {cells} |", flush=True)


def row_of(scenario: Scenario, policy: str) -> tuple[float, float, float]:
    """Return the hits, the freshness and the number of pages never visited, of one crawl."""
    worlds: list[WatchedWorld] = []

    def make_world(scenario: Scenario) -> World:
        worlds.append(WatchedWorld(scenario))
        return worlds[-1]

    score = simulate(scenario, policy, find_baseline(policy).make, make_world=make_world)
    never = np.count_nonzero(worlds[0].visits_by_page == 0)
    return score.hits, score.mean_freshness, never


if __name__ == "__main__":
    main()

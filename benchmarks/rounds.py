"""What a run learns while it runs, and what that is worth: simulated crawls whose runs are days apart.

python benchmarks/rounds.py FOLDER     # with pages.csv, updates.csv, captures.csv; about 40 minutes

`hacs simulate --every DAYS --rounds N`, with 3 % of noise on the scores (a single run has a standard
deviation of about 5 hits), and the ceiling of what the visits of a run can tell of one another. There
the policy is told the truth about each sibling of a page that it has visited in the same run: of pages
found updated, or of all.
"""

import argparse
from pathlib import Path

import numpy as np

from hacs_crawler.archive.timelines import parse_day, read_timelines
from hacs_crawler.links import site_id
from hacs_crawler.ranking.policies import hacs
from hacs_crawler.simulation.simulation import Scenario, simulate
from hacs_crawler.state.estimation import Estimation

START, END = (parse_day(day, "day") for day in ("2022-01-01", "2026-01-01"))
NOISE = 0.03
BUDGETS = (2, 5, 15)
EVERY = (1, 7, 14, 30)
MOST_ROUNDS = 5


class Noisy:
    """Policy `hacs` with noise, and, where it is told, with the truth about some pages."""

    is_unbounded = False
    uses_rate = True

    def __init__(self, world, seed, told):
        self.world, self.told = world, told
        self.random = np.random.default_rng(seed)
        urls = [world.scenario.timelines.urls[place] for place in world.scenario.places()]
        self.site = np.array([site_id(url) for url in urls])
        self.run, self.known = -1, set()

    def score(self, candidates):
        self.begin()
        score = hacs(candidates) * (1.0 + NOISE * self.random.standard_normal(len(candidates.p)))
        is_known = np.isin(self.site, list(self.known))
        is_due = self.world.first_unseen() <= self.world.now
        return np.where(is_known, np.where(is_due, 1.0 + score, 0.0), score)

    def note(self, places, now, found):
        del now
        self.begin()
        if self.told:
            seen = places if self.told == "visited" else places[found > 0]
            self.known |= set(self.site[seen].tolist())

    def begin(self):
        if self.world.now != self.run:
            self.run, self.known = self.world.now, set()


def cell(timelines, budget, every, rounds, seeds, told=""):
    """Hits, mean delay in days and mean freshness, with standard deviations."""
    runs = []
    for seed in range(1, seeds + 1):
        scenario = Scenario(
            timelines, START, END, budget, Estimation(), seed, rounds=rounds, every=every
        )
        score = simulate(scenario, "hacs", lambda world, seed=seed: Noisy(world, seed, told))
        runs.append((score.hits, score.mean_delay_days, score.mean_freshness))
    (hits, delay, fresh), (of_hits, of_delay, _) = np.mean(runs, 0), np.std(runs, 0)
    return f"{hits:.0f} ± {of_hits:.0f}; {delay:.1f} ± {of_delay:.1f}; {fresh:.4f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--every", type=int, nargs="*", default=EVERY)
    parser.add_argument("--budgets", type=int, nargs="*", default=BUDGETS)
    parser.add_argument("--ceiling", action="store_true", help="the ceiling, too")
    arguments = parser.parse_args()
    timelines = read_timelines(
        *(arguments.folder / f"{name}.csv" for name in ("pages", "updates", "captures"))
    )
    print("| a run every | rounds |", *(f"{one} visits a day |" for one in arguments.budgets))
    print("|---|---:|" + "---|" * len(arguments.budgets))
    for every in arguments.every:
        for rounds in (1, MOST_ROUNDS):
            print(f"| {every} d | {rounds} |", end="", flush=True)
            for budget in arguments.budgets:
                print(
                    f" {cell(timelines, budget, every, rounds, arguments.seeds)} |",
                    end="",
                    flush=True,
                )
            print()
    for told in ("updated", "visited") if arguments.ceiling else ():
        print(f"| 1 d, told of siblings of pages {told} | {MOST_ROUNDS} |", end="", flush=True)
        for budget in arguments.budgets:
            found = cell(timelines, budget, 1, MOST_ROUNDS, arguments.seeds, told)
            print(f" {found} |", end="", flush=True)
        print()


if __name__ == "__main__":
    main()

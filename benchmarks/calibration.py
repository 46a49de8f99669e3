"""How right p is in simulated crawls, and how often right predictions are called drifting.

python benchmarks/calibration.py FOLDER     # with pages.csv, updates.csv, captures.csv; about 4 minutes
"""

import argparse
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hacs_crawler.lab.simulation.simulation import REFIT_DAYS, Scenario, World
from hacs_crawler.lab.timelines import parse_day, read_timelines
from hacs_crawler.links.sites import site_id
from hacs_crawler.ranking.calibration import drift, predicted
from hacs_crawler.ranking.choice import Quota
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.policies import POLICIES
from hacs_crawler.ranking.selection import Selection
from hacs_crawler.state.database import State
from hacs_crawler.state.estimation import Estimation
from hacs_crawler.state.outcome_log import OUTCOME, SEEN, UPDATED
from hacs_crawler.state.reestimation import follow_prior
from hacs_crawler.state.sqlite import MemoryStore
from hacs_crawler.statistics.scoring import summary
from hacs_crawler.utils.terminal import Progress

START, END = (parse_day(day, "day") for day in ("2022-01-01", "2026-01-01"))
CROWDS = (
    ("hacs", 5, "bayes"),
    ("last-obs", 5, "bayes"),
    ("hacs", 15, "bayes"),
    ("last-obs", 15, "bayes"),
    ("hacs", 5, "mle"),
    ("last-obs", 5, "mle"),
)
DRIFT_REPEATS, DRIFT_DAYS, VISITS_A_DAY = 200, 365, 50


@dataclass
class Crawl:
    """Daily crawls of a scenario as `hacs simulate` runs them, and the outcomes of their visits."""

    scenario: Scenario
    policy: str
    records: list[np.ndarray] = field(default_factory=list)

    def run(self, progress: Progress) -> np.ndarray:
        scenario, store = self.scenario, MemoryStore()
        world = World(scenario)
        places = np.arange(len(world.page_ids))
        sites = np.array([site_id(scenario.timelines.urls[i]) for i in scenario.places()])
        state = State(store, scenario.estimation)
        state.record(world.history)
        for day, now in enumerate(scenario.days()):
            if day % REFIT_DAYS == 0:
                follow_prior(state, lambda *_: None)
                state = State(store, scenario.estimation)
                progress.update(f"{self.policy}, day {day}", day, len(scenario.days()))
            world.now = now
            options = RankingOptions(POLICIES[self.policy], budget=scenario.budget, random_seed=day)
            selection = Selection(options, Quota(scenario.budget))
            rows = state.rows(world.page_ids)
            selection.offer(places.tolist(), world.page_ids, rows, now, state.estimation)
            chosen, _ = selection.take()
            pages = np.array(chosen.entries, np.int64)
            found = world.visit(pages, now)
            state.record(world.shown(pages, now))
            made = np.zeros(len(pages), OUTCOME)
            made["page_id"], made["site"], made["at"], made["run"] = pages, sites[pages], now, now
            made["p"] = chosen.pages.p
            made["days_since_visit"] = chosen.pages.days_since_visit
            made["flags"] = SEEN + UPDATED * (found > 0)
            self.records.append(made)
        return np.concatenate(self.records)


def scores(crawls):
    print("| visits of | predicted | found | Brier | skill, % | log loss | skill, % |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name, outcomes in crawls.items():
        score = summary(outcomes["p"].astype(float), outcomes["flags"] > SEEN)
        print(
            f"| {name} | {score.expected_updates:.0f} | {score.found_updates} "
            f"| {score.brier:.5f} | {100 * score.brier_skill:.1f} "
            f"| {score.log_loss:.5f} | {100 * score.log_skill:.1f} |"
        )


def drifts(outcomes, progress):
    """Print in how many states a year of daily looks finds a drift."""
    rng = np.random.default_rng(0)
    print(
        "\n| true chance | spread between sites | drift found | median day |\n|---:|---:|---:|---:|"
    )
    for share, spread in ((1, 0), (1, 0.3), (1, 0.7), (0.7, 0.3), (0.5, 0.3), (1.4, 0.3), (2, 0.3)):
        firsts = []
        for repeat in range(DRIFT_REPEATS):
            progress.update(f"drift, {share:g} p", repeat, DRIFT_REPEATS)
            firsts.append(first_drift(outcomes, share, spread, rng))
        days = [day for day in firsts if day is not None]
        median = f"{np.median(days):.0f}" if days else "-"
        print(f"| {share:g} p | {spread:g} | {len(days) / len(firsts):.1%} | {median} |")


def first_drift(outcomes, share, spread, rng):
    some = outcomes[rng.integers(0, len(outcomes), DRIFT_DAYS * VISITS_A_DAY)]
    some["run"] = np.arange(len(some)) // VISITS_A_DAY
    _, site = np.unique(some["site"], return_inverse=True)
    factor = (
        rng.gamma(1 / spread**2, spread**2, site.max() + 1) if spread else np.ones(site.max() + 1)
    )
    is_found = rng.random(len(some)) < some["p"] * share * factor[site]
    some["flags"] = SEEN + UPDATED * is_found
    for day in range(DRIFT_DAYS):
        end = (day + 1) * VISITS_A_DAY
        if drift(some[max(end - 1_000, 0) : end]) is not None:
            return day
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    timelines = read_timelines(
        *(folder / f"{name}.csv" for name in ("pages", "updates", "captures"))
    )
    crawls = {}
    with Progress("calibration") as progress:
        for policy, budget, estimator in CROWDS:
            scenario = Scenario(timelines, START, END, budget, Estimation(estimator))
            outcomes = Crawl(scenario, policy).run(progress)
            crawls[f"`{policy}`, {budget} a day, `{estimator}`"] = predicted(outcomes)
        scores(crawls)
        drifts(crawls["`last-obs`, 5 a day, `bayes`"], progress)


if __name__ == "__main__":
    main()

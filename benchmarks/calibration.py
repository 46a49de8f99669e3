"""Do corrections help? Predictions of simulated crawls, corrected by their past and judged by what came.

python benchmarks/calibration.py FOLDER     # with pages.csv, updates.csv, captures.csv; about 4 minutes

First the scores: corrections are fitted to the first two years and judged on the other two, against
SciPy's isotonic regression of single visits and Platt's logistic regression. Then crawls with a
threshold and no budget, how much data a correction needs, and how often right predictions are called
drifting.
"""

import argparse
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from scipy.optimize import isotonic_regression, minimize
from scipy.special import expit, logit

from hacs_crawler.archive.timelines import parse_day, read_timelines
from hacs_crawler.links.sites import site_id
from hacs_crawler.ranking.arms import without_experiment
from hacs_crawler.ranking.calibration import drift, predicted
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.policies import POLICIES
from hacs_crawler.ranking.selection import Selection
from hacs_crawler.simulation.simulation import REFIT_DAYS, Scenario, World
from hacs_crawler.state.database import State
from hacs_crawler.state.estimation import Estimation
from hacs_crawler.state.memory import MemoryStore
from hacs_crawler.state.outcome_log import OUTCOME, SEEN, UPDATED
from hacs_crawler.state.reestimation import follow_prior
from hacs_crawler.statistics.isotonic import fit_isotonic
from hacs_crawler.statistics.scoring import LOG_FLOOR, reliability, summary
from hacs_crawler.utils.progress import Progress

START, MIDDLE, END = (parse_day(day, "day") for day in ("2022-01-01", "2024-01-01", "2026-01-01"))
CROWDS = (
    ("hacs", 5, "bayes"),
    ("last-obs", 5, "bayes"),
    ("hacs", 15, "bayes"),
    ("last-obs", 15, "bayes"),
    ("hacs", 5, "mle"),
    ("last-obs", 5, "mle"),
)
THRESHOLDS = (0.03, 0.1, 0.3)
SIZES = (50, 100, 200, 400, 1_000, 4_000)
REPEATS = 100
DRIFT_REPEATS, DRIFT_DAYS, VISITS_A_DAY = 200, 365, 50


@dataclass
class Crawl:
    """Daily crawls of a scenario as `hacs simulate` runs them, and the outcomes of their visits.

    From the second `corrected_from` on, p is corrected as the visits until then tell.
    """

    scenario: Scenario
    policy: str
    threshold: float | None = None
    corrected_from: int | None = None
    records: list[np.ndarray] = field(default_factory=list)

    def run(self, progress: Progress) -> np.ndarray:
        scenario, store, correct = self.scenario, MemoryStore(), None
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
            if now == self.corrected_from:
                past = predicted(np.concatenate(self.records))
                correct = fit_isotonic(past["raw_p"], past["flags"] > SEEN)
            world.now = now
            options = RankingOptions(
                without_experiment(POLICIES[self.policy]),
                threshold=self.threshold or 0.0,
                budget=scenario.budget if self.threshold is None else None,
                random_seed=day,
                correct=correct,
            )
            selection = Selection(options)
            rows = state.rows(world.page_ids)
            selection.offer(places.tolist(), world.page_ids, rows, now, state.estimation)
            ((chosen,), _) = selection.take()
            pages = np.array(chosen.entries, np.int64)
            found = world.visit(pages, now)
            state.record(world.shown(pages, now))
            made = np.zeros(len(pages), OUTCOME)
            made["page_id"], made["site"], made["at"], made["run"] = pages, sites[pages], now, now
            made["p"], made["raw_p"] = chosen.p, chosen.raw_p
            made["days_since_visit"] = chosen.days_since_visit
            made["flags"] = SEEN + UPDATED * (found > 0)
            self.records.append(made)
        return np.concatenate(self.records)


def plain(p, found):
    order = np.argsort(p, kind="stable")
    steps = isotonic_regression(found[order].astype(float)).x
    return lambda q: np.interp(q, p[order], steps)


def platt(p, found):
    """Platt 1999: logistic regression on the log-odds, with his targets."""
    odds = logit(np.clip(p, LOG_FLOOR, 1 - LOG_FLOOR))
    updates = found.sum()
    target = np.where(found, (updates + 1) / (updates + 2), 1 / (found.size - updates + 2))

    def loss(line):
        fitted = line[0] + line[1] * odds
        return np.mean(np.logaddexp(0, fitted) - target * fitted)

    low, slope = minimize(loss, [0.0, 1.0]).x
    return lambda q: expit(low + slope * logit(np.clip(q, LOG_FLOOR, 1 - LOG_FLOOR)))


WAYS = {
    "none": lambda _p, _found: lambda q: q,
    "`hacs calibrate`": fit_isotonic,
    "isotonic, visit by visit": plain,
    "Platt": platt,
}


def scores(crawls):
    print("| visits of | correction | predicted | found | Brier | skill, % | log loss | skill, % |")
    print("|---|---|---:|---:|---:|---:|---:|---:|")
    for name, outcomes in crawls.items():
        p, found = outcomes["raw_p"].astype(float), outcomes["flags"] > SEEN
        is_past = outcomes["at"] < MIDDLE
        for way, make in WAYS.items():
            corrected = make(p[is_past], found[is_past])(p[~is_past])
            score = summary(corrected, found[~is_past])
            print(
                f"| {name} | {way} | {score.expected_updates:.0f} | {score.found_updates} "
                f"| {score.brier:.5f} | {100 * score.brier_skill:.1f} "
                f"| {score.log_loss:.5f} | {100 * score.log_skill:.1f} |"
            )


def diagram(outcomes):
    """Print the shares predicted, corrected and found on the second half."""
    p, found = outcomes["raw_p"].astype(float), outcomes["flags"] > SEEN
    is_past = outcomes["at"] < MIDDLE
    corrected = fit_isotonic(p[is_past], found[is_past])(p[~is_past])
    bins = reliability(p[~is_past], found[~is_past], 10, outcomes["site"][~is_past])
    groups = np.split(np.sort(corrected), bins.visits.cumsum()[:-1])  # of the same order as p
    print(
        "\n| visits | predicted | corrected | found | 95 % interval |\n|---:|---:|---:|---:|---:|"
    )
    for place, group in enumerate(groups):
        print(
            f"| {bins.visits[place]} | {bins.mean_p[place]:.4f} | {group.mean():.4f} "
            f"| {bins.found_share[place]:.4f} "
            f"| {bins.lower[place]:.4f}-{bins.upper[place]:.4f} |"
        )


def with_threshold(scenario, progress):
    print("\n| threshold | correction | visits | predicted | found | found in 100 visits |")
    print("|---:|---|---:|---:|---:|---:|")
    for threshold in THRESHOLDS:
        for name, since in (("none", None), ("`hacs calibrate`", MIDDLE)):
            crawl = Crawl(scenario, "hacs", threshold, since)
            outcomes = crawl.run(progress)
            late = predicted(outcomes[outcomes["at"] >= MIDDLE])
            found = np.count_nonzero(late["flags"] > SEEN)
            print(
                f"| {threshold:g} | {name} | {len(late)} | {late['p'].sum():.0f} | {found} "
                f"| {100 * found / len(late):.1f} |"
            )


def expected_log_loss(p, truth):
    inside = np.clip(p, LOG_FLOOR, 1 - LOG_FLOOR)
    return -np.mean(truth * np.log(inside) + (1 - truth) * np.log1p(-inside))


def data_needed(p):
    """Print what corrections by few visits cost, for known true chances of visits with such p."""
    rng = np.random.default_rng(0)
    truths = {
        "p": lambda p: p,
        "p / 2": lambda p: p / 2,
        "p^1.3": lambda p: p**1.3,
        "odds * 1.5": lambda p: expit(logit(np.clip(p, 1e-9, 1 - 1e-9)) + np.log(1.5)),
    }
    titles = [f"{size} visits, {size * p.mean():.0f} expected" for size in SIZES]
    print(f"\n| true chance | {' | '.join(titles)} |\n|---|{'---:|' * len(SIZES)}")
    to_come = rng.choice(p, 50_000)
    for name, truth in truths.items():
        raw = expected_log_loss(to_come, truth(to_come))
        cells = []
        for size in SIZES:
            ratios = []
            for _ in range(REPEATS):
                seen = rng.choice(p, size)
                made = fit_isotonic(seen, rng.random(size) < truth(seen))
                ratios.append(expected_log_loss(made(to_come), truth(to_come)) / raw)
            cells.append(
                f"{100 * np.mean(ratios) - 100:+.1f} %, {np.mean(np.array(ratios) > 1):.0%}"
            )
        print(f"| {name} | {' | '.join(cells)} |")


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
    is_found = rng.random(len(some)) < some["raw_p"] * share * factor[site]
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
        diagram(crawls["`last-obs`, 5 a day, `bayes`"])
        diagram(crawls["`hacs`, 5 a day, `bayes`"])
        with_threshold(Scenario(timelines, START, END, 1, Estimation()), progress)
        data_needed(crawls["`last-obs`, 5 a day, `bayes`"]["raw_p"].astype(float))
        drifts(crawls["`last-obs`, 5 a day, `bayes`"], progress)


if __name__ == "__main__":
    main()

"""How often an experiment in which both arms crawl alike, by a budget, is said to show a difference.

python benchmarks/experiment_crawls.py      # 300 experiments a row, 2 minutes

60 days, 40 visits a day, looked at every second day. Both arms rank by the same policy: `last-obs`, or
by the true p, as `hacs` would that knows all rates. Rows differ in the sites, and in how the budget is
split and the error found: "halves" gives each arm half of the visits, "pages" what belongs to its pages;
"by visits" takes a site for as large as its visits, "by pages" as its pages, which is what is shipped.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from experiment import (
    LOG_SD,
    MEDIAN_INTERVAL_DAYS,
    UPDATED_TOGETHER,
    Arms,
    captured_probability,
    judged,
)
from hacs_crawler.ranking.arms import Arm, Experiment
from hacs_crawler.ranking.policies import POLICIES
from hacs_crawler.statistics.clusters import excess_of
from hacs_crawler.utils.progress import Progress

Floats = NDArray[np.float64]
DAYS, LOOK_DAYS, BUDGET, CHURN = 60, 2, 40, 0.9
METHODS = ("ours", "ours, history known")
EXPERIMENT = Experiment(tuple(Arm(name, POLICIES[name], 0.5) for name in ("hacs", "last-obs")))


@dataclass(frozen=True, slots=True)
class Sites:
    """How many sites, of how many pages; the first `giants` have `giant_share` of all pages each."""

    number: int
    pages: int
    giants: int = 0
    giant_share: float = 0.0
    churning: float = 0.0

    def sizes(self, experiments: int, random: np.random.Generator) -> NDArray[np.int64]:
        sizes = np.full((experiments, self.number), self.pages)
        small = (self.number - self.giants) * self.pages
        sizes[:, : self.giants] = round(
            small * self.giant_share / (1 - self.giants * self.giant_share)
        )
        return random.permuted(sizes, axis=1)


WORLDS = {
    "60 sites": Sites(60, 8),
    "30 sites": Sites(30, 16),
    "200 sites": Sites(200, 3),
    "60 sites, two giants of 40 %": Sites(60, 2, 2, 0.4),
    "60 sites, 20 % of the pages churn": Sites(60, 8, churning=0.2),
}


@dataclass(slots=True)
class Pages:
    """Pages of many experiments, (experiments, pages): whose they are, and what is unseen of them."""

    site: NDArray[np.int64]
    rate: Floats
    in_second: NDArray[np.bool_]
    churns: NDArray[np.bool_]
    is_stale: NDArray[np.bool_]
    last: Floats

    def found(
        self, at: tuple[NDArray[np.int64], ...], day: int, random: np.random.Generator
    ) -> Floats:
        """Visit pages: return the chance that time brought what each visit found, 0 of nothing."""
        quiet = np.exp(self.rate[at] * (self.last[at] - day))
        brought = self.is_stale[at] | (self.churns[at] & (random.random(len(at[0])) < CHURN))
        chance = np.where(self.churns[at], (1 - quiet) / (1 - (1 - CHURN) * quiet), 1.0)
        self.is_stale[at], self.last[at] = False, day
        return brought * chance


def crawled(
    experiments: int,
    sites: Sites,
    policy: str,
    split: str,
    ratio: float,
    random: np.random.Generator,
) -> Iterator[Arms]:
    """Yield the looks; in the second arm a visit finds an update `ratio` times less often."""
    sizes = sites.sizes(experiments, random)
    rate = np.exp(random.normal(-np.log(MEDIAN_INTERVAL_DAYS), LOG_SD, sizes.shape))
    is_second = random.random(sizes.shape) < 0.5
    site = np.stack([np.repeat(np.arange(sites.number), one) for one in sizes])
    of_page = UPDATED_TOGETHER * np.take_along_axis(rate, site, 1)
    last = -random.integers(0, 2 * site.shape[1] // BUDGET, site.shape).astype(np.float64)
    pages = Pages(
        site,
        of_page,
        np.take_along_axis(is_second, site, 1),
        random.random(site.shape) < sites.churning,
        random.random(site.shape) < -np.expm1(of_page * last),
        last,
    )
    seconds = pages.in_second.sum(1)
    budgets = np.array(
        [
            EXPERIMENT.budgets(BUDGET, (1, 1) if split == "halves" else (site.shape[1] - n, n))
            for n in seconds.tolist()
        ]
    )
    known = sizes.astype(np.float64)
    excess = excess_of(known, known * captured_probability(rate, UPDATED_TOGETHER, random))
    updates, visits = np.zeros(sizes.shape), np.zeros(sizes.shape)
    for day in range(1, DAYS + 1):
        is_updated = random.random(sizes.shape) < -np.expm1(-rate)
        is_hit = random.random(site.shape) < UPDATED_TOGETHER
        pages.is_stale |= np.take_along_axis(is_updated, site, 1) & is_hit
        score = (day - pages.last) * (of_page if policy == "hacs" else 1.0)
        score += 1e-9 * random.random(score.shape)
        for arm in (0, 1):
            mine = np.where(pages.in_second == bool(arm), score, -np.inf)
            best = np.argsort(-mine, axis=1)[:, : budgets[:, arm].max()]
            is_chosen = np.arange(best.shape[1]) < budgets[:, arm, None]
            is_chosen &= np.isfinite(np.take_along_axis(mine, best, 1))
            experiment, rank = np.nonzero(is_chosen)
            at = experiment, best[experiment, rank]
            found = pages.found(at, day, random)
            found *= random.random(len(found)) < (1.0 / ratio if arm else 1.0)
            np.add.at(updates, (experiment, site[at]), found)
            np.add.at(visits, (experiment, site[at]), 1.0)
        if day % LOOK_DAYS == 0:
            yield Arms(
                *(
                    (np.where(is_second, 0.0, one), np.where(is_second, one, 0.0))
                    for one in (updates, visits, known, excess)
                )
            )


def alarms(looks: Iterator[Arms], *, by_visits: bool) -> dict[str, float]:
    """Return in which share of the experiments a difference was reported at any look."""
    ever: dict[str, NDArray[np.bool_]] = {}
    for arms in looks:
        seen = replace(arms, sizes=arms.visits) if by_visits else arms
        for method, alarm in judged(seen, is_last=False).items():
            ever[method] = ever.get(method, False) | alarm
    return {method: float(ever[method].mean()) for method in METHODS}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--experiments", type=int, default=300)
    arguments = parser.parse_args()
    variants = (("halves", True), ("pages", True), ("pages", False))
    total, done = 4 * len(WORLDS) * len(variants), 0
    heads = " | ".join(f"{split}, by {'visits' if by else 'pages'}" for split, by in variants)
    with Progress("experiments") as progress:
        for ratio, title in ((1.0, "no difference"), (1.3, "a 1.3-fold difference")):
            print(f"\n| {title} | {heads} |\n|---|{'---:|' * len(variants)}", flush=True)
            for policy, (name, sites) in product(("last-obs", "hacs"), WORLDS.items()):
                cells = []
                for split, by_visits in variants:
                    looks = crawled(
                        arguments.experiments, sites, policy, split, ratio, np.random.default_rng(0)
                    )
                    found = alarms(looks, by_visits=by_visits)
                    cells.append(" / ".join(f"{100 * found[method]:.1f} %" for method in METHODS))
                    done += 1
                    progress.update(name, done, total)
                print(f"| `{policy}`, {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()

"""What siblings are worth where keys are wrong, or where few updates are shared: simulated crawls.

python benchmarks/siblings.py FOLDER     # with pages.csv, updates.csv, captures.csv; about 30 minutes

The shared timelines have a host for each author. Here they get URLs that put several of these sites,
chosen at random, under one key: 1 (right), 2, 4, 10, or all. Or that is done with half of the sites, and
the others keep their own (`--mixed`). Or updates are moved, each by itself, so that few are shared (as
on sites that are no authors'). Everything else is `hacs simulate`, with 3 % of noise on the scores: a
single run has a standard deviation of about 5 hits.
"""

import argparse
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np

from hacs_crawler.lab.simulation.baselines import Stateless
from hacs_crawler.lab.simulation.simulation import Scenario, simulate
from hacs_crawler.lab.timelines import Events, parse_day, read_timelines
from hacs_crawler.links import page_id_of
from hacs_crawler.ranking.policies import Policy
from hacs_crawler.state.estimation import Estimation
from hacs_crawler.utils.terminal import Progress
from hacs_crawler.utils.times import DAY

START, END = (parse_day(day, "day") for day in ("2022-01-01", "2026-01-01"))
SITES_A_KEY = (1, 2, 4, 10, 0)
NOISE = 0.03
MOVED_SHARE, MOVED_DAYS = 0.6, 90
WAYS = ("no siblings", "all tell as much", "learned")
TOGETHER_DAYS = 1


PATCHES = {
    "all tell as much": partial(
        mock.patch, "hacs_crawler.state.priors.refitted_sibling_correlation", lambda *_: {}
    )
}


def rekeyed(timelines, sites_a_key, seed, *, is_mixed=False):
    """The same pages, with so many random sites (0: all) on one host; of half of them if mixed."""
    names, site = np.unique(timelines.sites, return_inverse=True)
    order = np.random.default_rng(100 + seed).permutation(len(names))
    keys = order // (sites_a_key or len(names))
    if is_mixed:
        is_right = order % 2 == 0
        keys = np.where(is_right, len(names) + order, order // 2 // (sites_a_key or len(names)))
    urls = [f"http://k{key}.example.edu/~k/{page}" for page, key in enumerate(keys[site])]
    ids = np.array([page_id_of(url) for url in urls], np.int64)
    return replace(timelines, urls=urls, page_ids=ids)


def scattered(timelines, seed):
    """The same pages, with a share of their updates moved, each by up to so many days."""
    rng = np.random.default_rng(200 + seed)
    updates = timelines.updates
    page = np.repeat(np.arange(len(timelines.urls)), np.diff(updates.offsets))
    is_moved = rng.random(len(page)) < MOVED_SHARE
    by = rng.uniform(-MOVED_DAYS, MOVED_DAYS, len(page)) * DAY
    first = timelines.first_seen[page] + 1
    at = first + np.abs(updates.at + (is_moved * by).astype(np.int64) - first)
    order = np.lexsort((at, page))
    moved = Events(at[order], updates.new_links[order], updates.offsets)
    return replace(timelines, updates=moved)


def shared_share(timelines):
    """The share of updates that have one of another page of the site within a day."""
    updates = timelines.updates
    page = np.repeat(np.arange(len(timelines.urls)), np.diff(updates.offsets))
    site = np.unique(timelines.sites, return_inverse=True)[1][page]
    shared = 0
    for number in np.unique(site):
        mine = site == number
        apart = np.abs(np.subtract.outer(updates.at[mine], updates.at[mine])) <= TOGETHER_DAYS * DAY
        is_other = np.not_equal.outer(page[mine], page[mine])
        shared += np.count_nonzero((apart & is_other).any(axis=1))
    return shared / len(page)


def run(timelines, budget, way, seed):
    rng = np.random.default_rng(seed)

    def score(candidates):
        return candidates.p * np.exp(NOISE * rng.standard_normal(len(candidates.p)))

    scenario = Scenario(
        timelines, START, END, budget, Estimation(), seed, has_siblings=way != "no siblings"
    )
    with PATCHES.get(way, nullcontext)():
        return simulate(
            scenario, way, lambda _world: Stateless(Policy(way, score, uses_rate=False))
        )


def line(title, budget, way, scores):
    hits, delays, fresh = (
        np.array([getattr(score, name) for score in scores])
        for name in ("hits", "mean_delay_days", "mean_freshness")
    )
    print(
        f"| {title} | {budget} | {way} | {hits.mean():.0f} ± {hits.std():.0f} "
        f"| {delays.mean():.1f} ± {delays.std():.1f} | {fresh.mean():.4f} ± {fresh.std():.4f} |",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--budgets", type=int, nargs="+", default=[2, 5, 15])
    parser.add_argument("--ways", nargs="+", default=WAYS, choices=WAYS)
    parser.add_argument("--sites", type=int, nargs="+", default=SITES_A_KEY, help="a key; 0: all")
    parser.add_argument("--mixed", action="store_true", help="half of the sites have right keys")
    parser.add_argument("--scattered", action="store_true", help="few shared updates, right keys")
    args = parser.parse_args()
    timelines = read_timelines(
        *(args.folder / f"{name}.csv" for name in ("pages", "updates", "captures"))
    )
    cases = [
        (
            f"{'half: ' * args.mixed}{number or 'all'} sites a key",
            lambda seed, number=number: rekeyed(timelines, number, seed, is_mixed=args.mixed),
        )
        for number in args.sites
    ]
    if args.scattered:
        cases = [("few shared updates", lambda seed: scattered(timelines, seed))]
        share = np.mean([shared_share(make(seed)) for _, make in cases for seed in range(3)])
        print(f"{share:.0%} of updates are shared, {shared_share(timelines):.0%} before\n")
    print("| | a day | siblings | hits | delay, days | freshness |")
    print("|---|---:|---|---:|---:|---:|")
    with Progress("siblings") as progress:
        for budget in args.budgets:
            for way in args.ways:
                for title, make in cases[:1] if way == "no siblings" else cases:
                    progress.update(f"{title}, {budget} a day, {way}", 0, 0)
                    scores = [run(make(seed), budget, way, seed) for seed in range(args.seeds)]
                    line("any key" if way == "no siblings" else title, budget, way, scores)


if __name__ == "__main__":
    main()

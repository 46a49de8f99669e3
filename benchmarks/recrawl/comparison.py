"""A comparison of policies on histories: each crawl by itself, and figures with 95 % intervals."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache
from itertools import islice, product
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import histories
import numpy as np
from crawls import outcome
from policies import POLICIES

from hacs_crawler.lab.simulation.simulation import Scenario
from hacs_crawler.lab.timelines import Timelines
from hacs_crawler.ranking.policies import Floats
from hacs_crawler.state import Estimation
from hacs_crawler.utils.times import DAY, day_text

SAMPLES = 2_000
FORMS = {
    "hits": ",.0f",
    "freshness": ".3f",
    "delay, days": ".1f",
    "HACS finds, times": ".2f",
    "HACS is fresher by": "+.3f",
}


class History(NamedTuple):
    """A folder of timelines and how it is crawled: from a second, with so many visits a day."""

    folder: Path
    start: int
    days: int
    budgets: tuple[int, ...]
    most_pages: int


class Figure(NamedTuple):
    """A figure over all sites, the mean of all seeds, and its 95 % interval."""

    value: float
    low: float
    high: float


Results = dict[tuple[str, int, str], dict[str, Figure]]
"""The figures of each history, budget and policy."""


@lru_cache(maxsize=4)
def timelines_of(folder: Path, start: int, most_pages: int) -> Timelines:
    """Read a history, once a process."""
    return histories.read(folder, start, most_pages)


def played(history: History, budget: int, policy: str, seed: int) -> Floats:
    """Return what a policy found on each site, see `crawls.outcome`; each seed begins a day later."""
    start = history.start + seed * DAY
    end = start + history.days * DAY
    timelines = timelines_of(history.folder, history.start, history.most_pages)
    return outcome(POLICIES[policy](Scenario(timelines, start, end, budget, Estimation(), seed)))


def compared(some: Sequence[History], seeds: int, processes: int) -> Results:
    """Play every policy on every history, at each budget, with each seed; return the figures."""
    groups = [
        (history, budget, policy)
        for history in some
        for budget, policy in product(history.budgets, POLICIES)
    ]
    crawls = [(*group, seed) for group in groups for seed in range(seeds)]
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        found = iter((map if processes == 1 else pool.map)(played, *zip(*crawls, strict=True)))
        samples = {group: resampled(list(islice(found, seeds))) for group in groups}
    return {
        (history.folder.resolve().name, budget, policy): figures_of(
            mine, samples[history, budget, "HACS"], history.days
        )
        for (history, budget, policy), mine in samples.items()
    }


def resampled(outcomes: Sequence[Floats]) -> Floats:
    """Return the sums over sites of each seed's outcomes: as found, then of samples of sites and seeds.

    Of as many sites and seeds the samples are the same ones, so that policies are compared in pairs.
    """
    rng = np.random.default_rng(0)
    seeds, sites = len(outcomes), len(outcomes[0])
    site = np.vstack([np.ones(sites), rng.multinomial(sites, np.full(sites, 1 / sites), SAMPLES)])
    seed = np.vstack([np.ones(seeds), rng.multinomial(seeds, np.full(seeds, 1 / seeds), SAMPLES)])
    sums = np.stack([site @ one for one in outcomes], axis=1)
    total: Floats = np.einsum("bs,bsc->bc", seed / seeds, sums)
    return total


def figures_of(mine: Floats, hacs: Floats, days: int) -> dict[str, Figure]:
    """Return a policy's figures, in the order of `FORMS`, from its samples and those of HACS."""
    pages, hits, found, delay, _ = mine.T
    freshness, of_hacs = (1.0 - one[:, 4] / (pages * days) for one in (mine, hacs))
    values = (
        hits,
        freshness,
        delay / np.maximum(found, 1.0),
        hacs[:, 1] / np.maximum(hits, 1.0),
        of_hacs - freshness,
    )
    return {
        name: Figure(float(value[0]), *np.quantile(value[1:], (0.025, 0.975)).tolist())
        for name, value in zip(FORMS, values, strict=True)
    }


def described(history: History) -> str:
    """Return a sentence on a history."""
    timelines = timelines_of(history.folder, history.start, history.most_pages)
    places = np.flatnonzero(timelines.first_seen < history.start).tolist()
    end = history.start + history.days * DAY
    sites = len({timelines.sites[place] for place in places})
    at = np.concatenate([timelines.updates.of(place) for place in places])
    updates = np.count_nonzero((at >= history.start) & (at < end))
    what = f"{len(places):,} pages of {sites:,} sites, {updates:,} updates"
    when = f"{day_text(history.start)} to {day_text(end)} ({history.days:,} days)"
    return f"{history.folder.resolve().name}: {what}, {when}."

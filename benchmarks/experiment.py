"""How often twin crawls show a difference that is there, and one that is not.

    python benchmarks/experiment.py [FOLDER…]     # with pages.csv, updates.csv, captures.csv

A row simulates many experiments at once: made sites, two crawls of them with a state and half of the
visits each, and what the command would conclude each day. Pages of FOLDERs are crawled by the lab.
"""

import argparse
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from hacs_crawler.lab.simulation.simulation import Scenario, World as History
from hacs_crawler.lab.timelines import Timelines, parse_day, read_timelines
from hacs_crawler.links import site_id
from hacs_crawler.model import update_index, update_probability
from hacs_crawler.ranking.candidates import nobody
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.policies import POLICIES
from hacs_crawler.ranking.selection import Selection
from hacs_crawler.state import Estimation, MemoryStore, State, follow_prior, rates_of
from hacs_crawler.state.outcome_log import time_share
from hacs_crawler.statistics.twins import SiteTally, contrast
from hacs_crawler.utils.times import DAY

ALPHA, DAYS, LEAST_SITES = 0.05, 60, 10
SITES, PAGES, EACH = 60, 480, 20  # EACH is visits a day of each crawl
PAST_DAYS, PAST_GAP = 360, 15
SHAPE, RATE = 0.6, 12.0  # of the prior of rates that both crawls have: gamma
STARTS = ("2022-01-01", "2024-01-01", "2025-01-01", "2026-01-01")
LOOKS = (20, 30, 40, 60)
POLICY, FILES = ("hacs", "last-obs"), ("pages", "updates", "captures")


@dataclass(frozen=True)
class Row:
    """Pages whose log rates have a spread between sites; `alike` runs have the same sites."""

    name: str
    one: str = "hacs"
    other: str = "last-obs"
    between: float = 1.0
    days: float = 40.0
    error: float = 0.0
    size_spread: float = 0.0
    giants: int = 0
    churn: float = 0.0
    bursts: float = 0.0
    weight: float = 1.0
    has_past: bool = True
    alike: bool = False


class World:
    """Sites of many runs at once; pages stand in the last axis, one site after the other."""

    def __init__(self, row: Row, runs: int, seed: int) -> None:
        self.row, self.rng = row, np.random.default_rng(seed)
        drawn = self.rng.lognormal(0.0, row.size_spread, SITES)
        if row.giants:
            drawn = np.full(SITES, 0.2 / (SITES - row.giants))
            drawn[: row.giants] = 0.8 / row.giants
        self.sizes = np.maximum(1, np.rint(PAGES * drawn / drawn.sum())).astype(int)
        self.site = np.repeat(np.arange(SITES), self.sizes)
        self.shape = runs, len(self.site)
        spread = row.between * self.rng.normal(size=(runs, SITES))[:, self.site]
        self.rate = (
            np.exp(spread + 0.45 * row.between * self.rng.normal(size=self.shape)) / row.days
        )
        if row.alike:
            self.rate[:] = self.rate[0]
        self.churn = np.where(self.rng.random(self.shape) < row.churn, 0.3, 0.0)
        self.ago = self.rng.integers(1, PAST_GAP + 1, self.shape).astype(float)
        self.watched = np.full(self.shape, float(PAST_DAYS * row.has_past))
        hits = self.rng.binomial(PAST_DAYS // PAST_GAP, -np.expm1(-self.rate * PAST_GAP))
        self.count = -np.log1p(-hits / (PAST_DAYS / PAST_GAP + 0.5)) / PAST_GAP * self.watched

    def updates(self) -> np.ndarray:
        """Which pages are updated on a day; in a burst, pages of a site together."""
        often = self.row.bursts or 1.0
        is_burst = self.rng.random((self.shape[0], SITES))[:, self.site] < often
        return is_burst & (self.rng.random(self.shape) < -np.expm1(-self.rate / often))

    def past(self) -> np.ndarray:
        """The columns that the comparison knows of sites: updates expected of a visit to each page."""
        if not self.row.has_past:
            return np.zeros((self.shape[0], SITES, 0))
        starts = np.cumsum(self.sizes) - self.sizes
        chances = (chance(self.count, self.watched, one) for one in (1.0, self.shape[1] / EACH))
        return np.stack([np.add.reduceat(p, starts, axis=-1) for p in chances], -1)


def chance(count: np.ndarray, watched: np.ndarray, days: np.ndarray | float) -> np.ndarray:
    """p of an update within so many days, after so many in the days watched."""
    return 1.0 - ((watched + RATE) / (watched + RATE + days)) ** (count + SHAPE)


class Crawl:
    """One of the twins: what it knows of all pages, and what it has found on each site."""

    def __init__(self, world: World, policy: str, seed: int) -> None:
        self.world, self.policy, self.rng = world, policy, np.random.default_rng(seed)
        self.count, self.watched = world.count.copy(), world.watched.copy()
        self.days, self.pending = world.ago.copy(), np.zeros(world.shape, bool)
        self.mistake = np.exp(world.row.error * self.rng.normal(size=world.shape))
        is_few = world.site < SITES // 10
        self.weight = np.where(is_few, world.row.weight, 1.0) if policy == "skewed" else 1.0
        self.updates, self.visits = np.zeros((2, world.shape[0], SITES))
        self.worth = np.zeros(world.shape[0])

    def day(self, updated: np.ndarray) -> None:
        self.days += 1.0
        self.pending |= updated
        p = chance(self.count * self.mistake, self.watched, self.days)
        if self.policy in {"skewed", "random"}:  # by weights: Efraimidis and Spirakis' keys
            score = self.rng.random(p.shape) ** (1.0 / self.weight)
        else:
            known = replace(nobody(), p=p, days_since_visit=self.days, failures=np.zeros(1, int))
            score = POLICIES[self.policy](known) + 1e-9 * self.rng.random(p.shape)
        chosen = np.argpartition(-score, EACH - 1, axis=1)[:, :EACH]
        at = np.arange(len(chosen))[:, None], chosen
        chosen_p, churn = p[at], self.world.churn[at]
        found = self.pending[at] | (self.rng.random(chosen.shape) < churn)
        by_time = found * time_share(chosen_p.ravel(), churn.ravel()).reshape(chosen_p.shape)
        np.add.at(self.updates, (at[0], self.world.site[chosen]), by_time)
        np.add.at(self.visits, (at[0], self.world.site[chosen]), 1.0)
        self.worth += update_index(chosen_p).sum(1)
        self.count[at] += by_time * -np.log1p(-np.minimum(chosen_p, 1 - 1e-9)) / chosen_p
        self.watched[at] += self.days[at]
        self.pending[at], self.days[at] = False, 0.0

    def tally(self) -> SiteTally:
        return SiteTally(self.updates, self.visits, self.worth / self.visits.sum(1))


def simulated(row: Row, runs: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return of each day and run the ends of the interval, and of each run the updates of both."""
    world = World(row, runs, seed)
    twins = [Crawl(world, name, seed + n) for n, name in ((1, row.one), (2, row.other))]
    past, sizes = world.past(), np.broadcast_to(world.sizes.astype(float), (runs, SITES))
    ends = np.stack([np.zeros((DAYS, runs)), np.full((DAYS, runs), np.inf)])
    for day in range(DAYS):
        updated = world.updates()
        for twin in twins:
            twin.day(updated)
        found = contrast(twins[0].tally(), twins[1].tally(), sizes, past)
        is_enough = np.min([(twin.updates > 0).sum(1) for twin in twins], axis=0) >= LEAST_SITES
        ends[:, day] = np.where(is_enough, np.stack(found.interval(ALPHA)), ends[:, day])
    return *np.nan_to_num(ends, nan=1.0), np.stack([twin.updates.sum(1) for twin in twins])


def balanced(row: Row) -> Row:
    """The row with the weight by which a crawl wins on few sites what it loses on the many others."""
    low, high = 2.0, 400.0
    for _ in range(12):
        row = replace(row, weight=float(np.sqrt(low * high)))
        one, other = simulated(row, 100, 7)[2]
        low, high = (row.weight, high) if one.mean() > other.mean() else (low, row.weight)
    return row


ERRORS = Row("hacs twice, rates with other errors", "hacs", "hacs", error=0.5)
MIXED = replace(ERRORS, name="unequal sites, bursts, churn", size_spread=1.0, churn=0.1, bursts=0.1)
EQUALS = (
    ERRORS,
    replace(ERRORS, name="the same without a past", has_past=False),
    replace(ERRORS, name="sites of unequal size", size_spread=1.0),
    replace(ERRORS, name="a tenth of the pages churn", churn=0.1),
    replace(ERRORS, name="updates in bursts of a site", bursts=0.1),
    MIXED,
    replace(ERRORS, name="two giants of 40 %", giants=2),
    Row("random twice", "random", "random"),
    Row("wins on few sites, loses on many", "skewed", "random", between=1.5, days=15),
)
MIDDLE = Row("hacs, last-obs: middle", between=1.1)
DIFFERENT = (
    Row("hacs, last-obs: small", between=0.85),
    MIDDLE,
    Row("hacs, last-obs: large", between=1.4),
    replace(MIXED, name="unequal sites, bursts, churn", other="last-obs", error=0.0, between=2.0),
    replace(MIDDLE, name="middle without a past", has_past=False),
)


def real(timelines: Timelines, start: int) -> np.ndarray:
    """Return of each day the lower end of the interval, for twins crawling real histories."""
    scenario = Scenario(timelines, start, start + DAYS * DAY, EACH, Estimation())
    worlds = [History(scenario) for _ in range(2)]
    states = [State(MemoryStore(), scenario.estimation) for _ in range(2)]
    for state, world in zip(states, worlds, strict=True):
        state.record(world.history)
        follow_prior(state, lambda *_: None)
    ids = worlds[0].page_ids
    urls = [timelines.urls[place] for place in scenario.places()]
    names, site = np.unique([site_id(url) for url in urls], return_inverse=True)
    rates = rates_of(states[0].rows(ids), states[0].estimation).rate_per_day
    chances = (update_probability(rates, days) for days in (1.0, len(ids) / EACH))
    past = np.stack([np.bincount(site, p) for p in chances], -1)
    sums, worth, low = np.zeros((2, 2, len(names))), np.zeros(2), []
    for day, now in enumerate(scenario.days(), start=1):
        for twin, (policy, state, world) in enumerate(zip(POLICY, states, worlds, strict=True)):
            selection = Selection(RankingOptions(POLICIES[policy], budget=EACH, random_seed=now))
            selection.offer(range(len(ids)), ids, state.rows(ids), now, state.estimation)
            chosen, _ = selection.take()
            places = np.array(chosen.entries)
            found = world.visit(places, now) > 0
            state.record(world.shown(places, now))
            sums[twin] += [np.bincount(site[places], one, len(names)) for one in (found, None)]
            worth[twin] += update_index(chosen.pages.p).sum()
        tallies = (SiteTally(*sums[twin], worth[twin] / (day * EACH)) for twin in range(2))
        end, _ = contrast(*tallies, np.bincount(site).astype(float), past).interval(ALPHA)
        low.append(end if (sums[:, 0] > 0).sum(-1).min() >= LEAST_SITES else 0.0)
    return np.nan_to_num(np.array(low))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", type=Path, nargs="*", help="timelines of real pages")
    parser.add_argument("--runs", type=int, default=300)
    given = parser.parse_args()
    print(f"{given.runs} experiments a row: {DAYS} days, {SITES} sites, {2 * EACH} visits a day.\n")
    print("| worth the same | false alarms, % |\n|---|---:|")
    for number, row in enumerate(EQUALS):
        row = balanced(row) if row.one == "skewed" else row  # noqa: PLW2901
        low, high, _ = simulated(row, given.runs, 1000 * (number + 1))
        print(f"| {row.name} | {100 * ((low > 1) | (high < 1)).any(0).mean():.1f} |", flush=True)
    heads = " | ".join(f"found by day {day}, %" for day in LOOKS)
    print(f"\n| different | ratio | {heads} | interval holds it, % |\n|---|{'---:|' * 6}")
    for number, row in enumerate(DIFFERENT):
        low, _, updates = simulated(row, given.runs, 500_000 + 1000 * number)
        power = " | ".join(f"{100 * (low[:day] > 1).any(0).mean():.0f}" for day in LOOKS)
        ratio = updates[0].mean() / updates[1].mean()
        low, high, updates = simulated(replace(row, alike=True), given.runs, 900_000 + number)
        own = updates[0].mean() / updates[1].mean()
        holds = 100 * ((low[-1] <= own) & (high[-1] >= own)).mean()
        print(f"| {row.name} | {ratio:.2f} | {power} | {holds:.0f} |", flush=True)
    print("\n| real pages | begun | pages | found on day |\n|---|---|---:|---:|")
    for folder in given.folders:
        timelines = read_timelines(*(folder / f"{name}.csv" for name in FILES))
        for begun in STARTS:
            start = parse_day(begun, "day")
            if pages := np.count_nonzero(timelines.first_seen < start):
                is_found = real(timelines, start) > 1
                day = np.argmax(is_found) + 1 if is_found.any() else "none"
                print(f"| {folder.name} | {begun} | {pages} | {day} |", flush=True)


if __name__ == "__main__":
    main()

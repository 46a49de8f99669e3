"""What signals are worth, however honest they are: simulated crawls with and without them.

python benchmarks/signals.py FOLDER     # with pages.csv, updates.csv, captures.csv; about 40 minutes

Updates of the known histories are signalled with probability r, false signals come phi times a page-day,
and true ones are late by an exponential delay. 3 % of noise on the scores shows what chance does: every
figure is a mean over seeds, with its standard deviation.
"""

import argparse
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from hacs_crawler.lab.simulation.baselines import Oracle, Stateless
from hacs_crawler.lab.simulation.simulation import Scenario, World, simulate
from hacs_crawler.lab.timelines import Timelines, parse_day, read_timelines
from hacs_crawler.links import menu_of
from hacs_crawler.model import USUAL_SIGNALS, beliefs_of, fit_prior_of_signals, posterior
from hacs_crawler.ranking.policies import Policy
from hacs_crawler.ranking.signals import Signals
from hacs_crawler.state import Estimation, Ids, Rows, settled
from hacs_crawler.state.signal_records import (
    EVIDENCE,
    RECORD,
    add_gaps,
    evidence_likelihood,
    gap_evidence,
    joined_ids,
    open_evidence,
    read_again,
)
from hacs_crawler.utils.arrays import IndexArray
from hacs_crawler.utils.times import DAY

END = parse_day("2026-01-01", "end")
NOISE = 0.03
RECALLS = (0.0, 0.3, 0.6, 0.9)
FALSE_A_DAY = (0.0, 0.01, 0.1, 1.0)
KIND: Final = "simulated"
# How often the evidence of signals on their sources is computed again, to save time.
RELEARN_DAYS: Final = 7


@dataclass(frozen=True)
class Habits:
    """How sites signal their updates, each with numbers of its own from these ranges, ends included.

    `recall` is the share of updates that are signalled, `false_per_day` how many false signals a page
    has a day, `delay_days` the mean of the exponential delay of a true one.
    """

    recall: tuple[float, float]
    false_per_day: tuple[float, float]
    delay_days: tuple[float, float]


class SignallingWorld(World):
    """A web whose sites signal their updates; the signals are heard once a day, as by a crawl.

    Each site is a source of its own.
    """

    def __init__(self, scenario: Scenario, habits: Habits) -> None:
        super().__init__(scenario)
        timelines, places = scenario.timelines, scenario.places()
        self._order = np.argsort(timelines.page_ids[places])
        in_order = places[self._order]
        menus = [menu_of(timelines.urls[index]) for index in in_order.tolist()]
        names, self._source = np.unique(menus, return_inverse=True)
        self._records = joined_ids(np.zeros(0, RECORD), timelines.page_ids[in_order])
        self._evidence = np.zeros(len(names), EVIDENCE)
        rng = np.random.default_rng([scenario.seed, 16])
        drawn = _drawn(habits, timelines, in_order, self._source, scenario.end, rng)
        self._at, self._page = drawn
        self._read_until = self._days = 0
        self._prior = USUAL_SIGNALS
        self._latest = np.zeros(len(in_order), np.int64)

    def signals(self, rows: Rows, estimation: Estimation) -> Sequence[Signals]:
        """Read all sources, learn from the visits since the last time; return signals."""
        now, rows = self.now, rows[self._order]
        until = int(np.searchsorted(self._at, now, side="right"))
        new = slice(self._read_until, until)
        np.maximum.at(self._latest, self._page[new], self._at[new])
        self._read_until = until
        over, gaps = gap_evidence(self._records, rows)
        add_gaps(self._evidence, self._source[over], gaps)
        records = settled(self._records, rows, estimation)
        self._records = records = read_again(records, self._latest, now)
        if self._days % RELEARN_DAYS == 0:
            self._evidence["open"] = self._evidence["signals"] = 0.0
            now_open, looked_for = open_evidence(records, rows, estimation)
            np.add.at(self._evidence["open"], self._source, now_open)
            np.add.at(self._evidence["signals"], self._source, looked_for)
            self._prior = fit_prior_of_signals(evidence_likelihood(self._evidence))
        self._days += 1
        weights = posterior(evidence_likelihood(self._evidence), self._prior)
        return [Signals(KIND, records, self._source, beliefs_of(weights, self._prior))]


def _drawn(
    habits: Habits,
    timelines: Timelines,
    places: IndexArray,
    source: IndexArray,
    end: int,
    rng: np.random.Generator,
) -> tuple[Ids, IndexArray]:
    """Return the seconds of all signals up to the end, ascending, and each one's page."""
    number = int(source.max()) + 1
    recall, false, delay = (
        rng.uniform(*ends, number)
        for ends in (habits.recall, habits.false_per_day, habits.delay_days)
    )
    at, page = [], []
    for number, (index, own) in enumerate(zip(places.tolist(), source.tolist(), strict=True)):
        updates = timelines.updates.of(index)
        is_signalled = rng.random(len(updates)) < recall[own]
        late = rng.exponential(delay[own] * DAY, len(updates))
        true = (updates + late)[is_signalled]
        first = int(timelines.first_seen[index])
        span = max(end - first, 0)
        wrong = first + span * rng.random(rng.poisson(false[own] * span / DAY))
        both = np.concatenate([true, wrong]).astype(np.int64)
        at.append(both[both < end])
        page.append(np.full(len(at[-1]), number))
    times, pages = np.concatenate(at), np.concatenate(page)
    order = np.argsort(times, kind="stable")
    return times[order], pages[order]


def run(folder, start, budget, seed, habits, is_oracle=False):
    timelines = read_timelines(
        *(folder / f"{name}.csv" for name in ("pages", "updates", "captures"))
    )
    rng = np.random.default_rng(seed)

    def score(candidates):
        return candidates.p * np.exp(NOISE * rng.standard_normal(len(candidates.p)))

    def make_world(scenario):
        return World(scenario) if habits is None else SignallingWorld(scenario, habits)

    make = Oracle if is_oracle else lambda _world: Stateless(Policy("", score, uses_rate=False))
    scenario = Scenario(timelines, start, END, budget, Estimation(), seed)
    return simulate(scenario, "", make, make_world=make_world)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--budget", type=int, default=5)
    parser.add_argument(
        "--delay", type=float, nargs=2, default=(0.0, 1.0), help="of a site's mean delays, days"
    )
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--recall", type=float, nargs="+", default=RECALLS)
    parser.add_argument("--false", type=float, nargs="+", default=FALSE_A_DAY)
    parser.add_argument(
        "--start", default="2022-01-01", help="the first day of four years, or less"
    )
    args = parser.parse_args()
    start = parse_day(args.start, "start")
    cells = {(None, None): None} | {
        (r, false): Habits((r, r), (false, false), tuple(args.delay))
        for r in args.recall
        for false in args.false
    }
    print("| r | false a page-day | hits | delay, days | freshness | of the way to the oracle |")
    print("|---:|---:|---:|---:|---:|---:|")
    with ProcessPoolExecutor(args.processes) as pool:
        oracle = pool.submit(run, args.folder, start, args.budget, 0, None, is_oracle=True)
        scores = {
            cell: [
                pool.submit(run, args.folder, start, args.budget, seed, habits)
                for seed in range(args.seeds)
            ]
            for cell, habits in cells.items()
        }
        most, least = oracle.result().hits, 0.0
        for (r, false), futures in scores.items():
            done = [future.result() for future in futures]
            hits, delays, fresh = (
                np.array([getattr(score, name) for score in done])
                for name in ("hits", "mean_delay_days", "mean_freshness")
            )
            least = least or float(hits.mean())
            share = (hits.mean() - least) / (most - least)
            print(
                f"| {'none' if r is None else r} | {'' if r is None else false} "
                f"| {hits.mean():.0f} ± {hits.std():.0f} | {delays.mean():.1f} "
                f"| {fresh.mean():.4f} | {share:.2f} |",
                flush=True,
            )
        print(f"| oracle | | {most} | {oracle.result().mean_delay_days:.1f} | | 1 |")


if __name__ == "__main__":
    main()

"""What signals are worth, however honest they are: simulated crawls with and without them.

python benchmarks/signals.py FOLDER     # with pages.csv, updates.csv, captures.csv; about 40 minutes

Updates of the known histories are signalled with probability r, false signals come phi times a page-day,
and true ones are late by an exponential delay. 3 % of noise on the scores shows what chance does: every
figure is a mean over seeds, with its standard deviation.
"""

import argparse
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from hacs_crawler.lab.simulation.baselines import Oracle, Stateless
from hacs_crawler.lab.simulation.signals import SignalHabits
from hacs_crawler.lab.simulation.simulation import Scenario, simulate
from hacs_crawler.lab.timelines import parse_day, read_timelines
from hacs_crawler.state.estimation import Estimation

END = parse_day("2026-01-01", "end")
NOISE = 0.03
RECALLS = (0.0, 0.3, 0.6, 0.9)
FALSE_A_DAY = (0.0, 0.01, 0.1, 1.0)


def run(folder, start, budget, seed, text, is_oracle=False):
    timelines = read_timelines(
        *(folder / f"{name}.csv" for name in ("pages", "updates", "captures"))
    )
    rng = np.random.default_rng(seed)

    def score(candidates):
        return candidates.p * np.exp(NOISE * rng.standard_normal(len(candidates.p)))

    scenario = Scenario(
        timelines,
        start,
        END,
        budget,
        Estimation(),
        seed,
        signals=None if text is None else SignalHabits.parse(text),
    )
    return simulate(scenario, "", Oracle if is_oracle else lambda _world: Stateless(score))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--budget", type=int, default=5)
    parser.add_argument("--delay", default="0..1", help="mean delay of each site, days")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--recall", type=float, nargs="+", default=RECALLS)
    parser.add_argument("--false", type=float, nargs="+", default=FALSE_A_DAY)
    parser.add_argument(
        "--start", default="2022-01-01", help="the first day of four years, or less"
    )
    args = parser.parse_args()
    start = parse_day(args.start, "start")
    cells = [(None, None), *((r, false) for r in args.recall for false in args.false)]
    print("| r | false a page-day | hits | delay, days | freshness | of the way to the oracle |")
    print("|---:|---:|---:|---:|---:|---:|")
    with ProcessPoolExecutor(args.processes) as pool:
        oracle = pool.submit(run, args.folder, start, args.budget, 0, None, is_oracle=True)
        scores = {
            cell: [
                pool.submit(
                    run,
                    args.folder,
                    start,
                    args.budget,
                    seed,
                    None if cell[0] is None else f"r={cell[0]},phi={cell[1]},delay={args.delay}",
                )
                for seed in range(args.seeds)
            ]
            for cell in cells
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

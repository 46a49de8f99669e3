"""What `hacs demo` shows on other webs than its default: hits of each arm, by seed.

    python benchmarks/demo.py [--seeds 10] [--rounds 13]        # whole demonstrations, 40 s each
    python benchmarks/demo.py --in-memory [--seeds 100]         # the same rounds in one process

A whole demonstration has processes, servers and a state of its own; with `--rounds 0` it takes the time
that it takes by default. In memory the pages, the captures, the budget and the arms are the same, and
the ranking and the state's logic are those of a crawl, but nothing is served and fetched.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from statistics import median, quantiles

import numpy as np

from hacs_crawler.cli.demo import AUTHORS
from hacs_crawler.demo.histories import generated
from hacs_crawler.demo.rounds import ARMS, DAYS, EXPERIMENT, budget_of
from hacs_crawler.demo.web import Web
from hacs_crawler.links.keys import page_id_of
from hacs_crawler.links.sites import site_id
from hacs_crawler.ranking.arms import without_experiment
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.selection import Selection
from hacs_crawler.state.database import State
from hacs_crawler.state.estimation import Estimation
from hacs_crawler.state.memory import MemoryStore
from hacs_crawler.state.page import News, Visit
from hacs_crawler.state.reestimation import follow_prior
from hacs_crawler.utils.times import DAY

BASE = "http://127.0.0.1:8000"
DEMO = (sys.executable, "-c", "from hacs_crawler.cli.app import app; app()", "demo", "--no-open")
FOUND = re.compile(r"(?:HACS|Last-Obs) found updates in (\d+) of (\d+) visits")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=13)
    parser.add_argument("--in-memory", action="store_true")
    parser.add_argument("--days", type=int, default=DAYS, help="between two rounds, in memory")
    options = parser.parse_args()
    print("| seed | visits each | HACS | Last-Obs | ratio | seconds |\n|---|---|---|---|---|---|")
    found: list[tuple[int, int]] = []
    for seed in range(options.seeds):
        began = time.monotonic()
        visits, hacs, last_obs = (
            in_memory(generated(seed, AUTHORS), options.rounds, options.days)
            if options.in_memory
            else demonstrated(seed, options.rounds)
        )
        found.append((hacs, last_obs))
        seconds = time.monotonic() - began
        ratio = hacs / last_obs
        print(
            f"| {seed} | {visits} | {hacs} | {last_obs} | {ratio:.2f} | {seconds:.0f} |", flush=True
        )
    print(f"\n{summary(found)}")


def summary(found: Sequence[tuple[int, int]]) -> str:
    ratios = [hacs / last_obs for hacs, last_obs in found]
    tenths = quantiles(ratios, n=10)
    overall = sum(hacs for hacs, _ in found) / sum(last_obs for _, last_obs in found)
    return (
        f"HACS ahead in {sum(ratio > 1 for ratio in ratios)} of {len(ratios)}; ratio of all hits "
        f"{overall:.2f}, median {median(ratios):.2f}, tenth to ninetieth percentile {tenths[0]:.2f} to "
        f"{tenths[-1]:.2f}, least {min(ratios):.2f}, most {max(ratios):.2f}"
    )


def demonstrated(seed: int, rounds: int) -> tuple[int, int, int]:
    """Visits of an arm, and hits of both, as `hacs demo` says them."""
    length = ("--rounds", str(rounds)) if rounds else ()
    with tempfile.TemporaryDirectory() as folder:  # takes the report too
        done = subprocess.run(
            [*DEMO, "--seed", str(seed), *length],
            env={**os.environ, "TMPDIR": folder, "COLUMNS": "300"},
            capture_output=True,
            text=True,
            check=True,
        )
    (hacs, visits), (last_obs, _) = FOUND.findall(done.stdout)
    return int(visits), int(hacs), int(last_obs)


def in_memory(web: Web, rounds: int, days: int) -> tuple[int, int, int]:
    urls = [f"{BASE}{page.path}" for page in web.pages]
    ids = np.array([page_id_of(url) for url in urls])
    arms = EXPERIMENT.assign(np.array([site_id(url) for url in urls]))
    store = MemoryStore()
    state = State(store, Estimation())

    def visit(place: int, at: int) -> Visit:
        page = web.pages[place]
        if page.is_gone(at):
            return Visit(urls[place], at, news=News.GONE)
        first = 10_000 * place
        return Visit(urls[place], at, links=frozenset(range(first, first + page.links_at(at))))

    state.record(
        [
            visit(place, at)
            for place, page in enumerate(web.pages)
            for at in page.captures
            if not page.is_gone(at)
        ]
    )
    follow_prior(state, lambda *_: None)
    visits, hits = 0, [0] * len(ARMS)
    for number in range(rounds):
        now = web.start + number * days * DAY
        state = State(store, Estimation())  # the next crawl reads the prior
        rows = state.rows(ids)
        chosen: list[int] = []
        for arm, budget in enumerate(EXPERIMENT.budgets(budget_of(web))):
            own = np.flatnonzero(arms == arm)
            policy = EXPERIMENT.arms[arm].policy
            options = RankingOptions(without_experiment(policy), budget=budget)
            selection: Selection[int] = Selection(options)
            selection.offer(own.tolist(), ids[own], rows[own], now, state.estimation)
            chosen += selection.take()[0][0].entries
        for place, one in zip(
            chosen, state.record([visit(place, now) for place in chosen]), strict=True
        ):
            hits[arms[place]] += one.updated
        visits += len(chosen)
        follow_prior(state, lambda *_: None)
    return visits // len(ARMS), hits[0], hits[1]


if __name__ == "__main__":
    main()

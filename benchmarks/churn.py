"""What churning pages cost a crawl: hits, and the share of visits that they take.

python benchmarks/churn.py FOLDER     # with pages.csv, updates.csv, captures.csv; about 10 minutes

To the known histories of FOLDER pages are added that never gain a link of their own, each a site of its
own: `session` shows a new session parameter in its links at every request, `token` a random token in
some link's path at every second request, `box` five links of a pool of 60 at random. Two kinds are
time's own, and shown apart: `calendar` shows the links of the next 30 days, `weekly` five links that are
new each week. The default crawls with and without them, with control visits and without; Last-Obs crawls
too. Hits are visits that found an update of FOLDER's. What is learned of parts of links that change
(docs/updates.md) is not used here.
"""

import argparse
import csv
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.lab.simulation.simulation import Scenario, Score, World, simulate
from hacs_crawler.lab.timelines import Timelines, parse_day, read_timelines
from hacs_crawler.ranking.policies import Candidates, hacs, last_obs
from hacs_crawler.state.estimation import Estimation
from hacs_crawler.state.page import Visit
from hacs_crawler.utils.times import DAY

START = parse_day("2022-01-01", "day")
BUDGETS = (2, 5, 15)
KINDS = ("session", "token", "box", "calendar", "weekly")
NUMBERS = (3, 6, 15)
POOL = 60
SHOWN = 5


class Churning(World):
    """A world in which some pages show links that the request brought."""

    def __init__(self, scenario: Scenario) -> None:
        self._random = np.random.default_rng(scenario.seed + 1)
        self._tokens = -2
        self.trap_visits = 0
        super().__init__(scenario)

    def _shown(self, page: int, at: int) -> Visit:
        visit = super()._shown(page, at)
        kind = self._urls[page].split("//")[1].split("-")[0]
        if kind not in KINDS:
            return visit
        self.trap_visits += at >= self.scenario.start
        assert visit.marks is not None
        return Visit(visit.url, at, marks=visit.marks | self._brought(kind, at))

    def _brought(self, kind: str, at: int) -> frozenset[int]:
        if kind == "calendar":
            return frozenset(range(at // DAY, at // DAY + 30))
        if kind == "weekly":
            return frozenset(range(at // (7 * DAY) * SHOWN, at // (7 * DAY) * SHOWN + SHOWN))
        if kind == "box":
            pool = self._random.choice(np.arange(10_000, 10_000 + POOL), SHOWN, replace=False)
            return frozenset(pool.tolist())
        if kind == "token" and self._random.random() < 0.5:
            return frozenset()
        self._tokens -= 1
        return frozenset({self._tokens})


class Scorer:
    """A contender that ranks by one function."""

    is_unbounded = False

    def __init__(self, score: object) -> None:
        self._score = score
        self.uses_rate = score is hacs

    def score(self, candidates: Candidates) -> NDArray[np.float64]:
        return self._score(candidates)  # type: ignore[operator, no-any-return]

    def note(self, places: object, now: int, found: object) -> None:
        del places, now, found


def with_traps(folder: Path, kinds: Sequence[str]) -> Timelines:
    """Return the timelines of a folder, and a page of each kind, first seen before the start."""
    with tempfile.TemporaryDirectory() as name:
        for file in ("pages.csv", "updates.csv", "captures.csv"):
            shutil.copy(folder / file, name)
        with Path(name, "pages.csv").open(newline="") as stream:
            header = next(csv.reader(stream))
        with Path(name, "pages.csv").open("a", newline="") as stream:
            writer = csv.DictWriter(stream, header, restval="")
            for trap, kind in enumerate(kinds):
                url = f"http://{kind}-{trap}.example/"
                seen = "2021-12-01T00:00:00Z"
                row = {"url": url, "site": url, "level": "homepage", "first_seen": seen}
                writer.writerow({key: row.get(key, "") for key in header})
        return read_timelines(
            *(Path(name, f"{one}.csv") for one in ("pages", "updates", "captures"))
        )


def run(
    timelines: Timelines, budget: int, years: int, score: object, controls: float = 0.02
) -> tuple[Score, float]:
    end = START + years * 365 * DAY
    scenario = Scenario(timelines, START, end, budget, Estimation(), control_share=controls)
    worlds: list[Churning] = []

    def world(scenario: Scenario) -> World:
        worlds.append(Churning(scenario))
        return worlds[0]

    found = simulate(scenario, "x", lambda _: Scorer(score), make_world=world)
    return found, worlds[0].trap_visits / max(found.visits, 1)


def row(cells: Sequence[object]) -> None:
    print(f"| {' | '.join(str(cell) for cell in cells)} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--years", type=int, default=2)
    parser.add_argument("--budgets", type=int, nargs="+", default=BUDGETS)
    parser.add_argument("--kinds", nargs="+", default=KINDS)
    parser.add_argument("--numbers", type=int, nargs="+", default=NUMBERS)
    options = parser.parse_args()
    plain = with_traps(options.folder, [])
    row(["visits a day", "traps", "hits", "of those without traps", "visits to traps", "delay, days",
         "without control visits: hits", "visits to traps", "Last-Obs' hits"])  # fmt: skip
    row(["---:"] * 9)
    for budget in options.budgets:
        clean, _ = run(plain, budget, options.years, hacs)
        peer, _ = run(plain, budget, options.years, last_obs)
        alone, _ = run(plain, budget, options.years, hacs, 0.0)
        delay = f"{clean.mean_delay_days or 0:.1f}"
        row([budget, "none", clean.hits, "", "", delay, alone.hits, "", peer.hits])
        for kind in options.kinds:
            for number in options.numbers:
                timelines = with_traps(options.folder, [kind] * number)
                score, share = run(timelines, budget, options.years, hacs)
                alone, of_traps = run(timelines, budget, options.years, hacs, 0.0)
                cells = [score.hits, f"{score.hits / clean.hits:.1%}", f"{share:.1%}"]
                cells += [f"{score.mean_delay_days or 0:.1f}", alone.hits, f"{of_traps:.1%}", ""]
                row([budget, f"{number} {kind}", *cells])


if __name__ == "__main__":
    main()

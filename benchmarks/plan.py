"""A plan beside its floor: numpy.argpartition of the p's that it chooses by, in the same process.

python benchmarks/plan.py                        # a million pages, from SQLite and Redis: half a minute
python benchmarks/plan.py --pages 10000000 --only SQLite     # 3 minutes, 3 GB of memory

The best 10,000 of synthetic pages, states and settings as of benchmarks/scale.py. Each run is a process
of its own: it reads all ranking rows, looks for visits later than now, ranks, and makes Requests of the
best; "all" is these together, "CPU" that of the process, all threads. Then argpartition and ranking take
turns, `TURNS` of each; "ranking" and "floor" are the fastest ones. The run whose "all" takes the least
wall time counts. "Bytes a page" are what resident memory at its peak (VmHWM) has more than before the
first step, before the p's of the floor are loaded; of a million pages a part of them does not grow.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from scrapy import Request

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import scale

from hacs_crawler.ranking.candidates import candidates_from
from hacs_crawler.ranking.plan import plan_of, read_rows
from servers import redis_server

TURNS = 3
COLUMNS = ("pages", "from", "read, s", "ranking, s", "floor, s", "ranking / floor", "Requests, s")
TOTALS = ("all, s", "all, CPU s", "bytes a page")


class Clock:
    """Wall seconds of steps, and what all of them took."""

    def __init__(self) -> None:
        self.steps: dict[str, list[float]] = {}
        self._wall, self._cpu = time.perf_counter(), time.process_time()

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.steps.setdefault(name, []).append(time.perf_counter() - started)

    def so_far(self) -> dict[str, float]:
        wall, cpu = time.perf_counter() - self._wall, time.process_time() - self._cpu
        return {"all": wall, "cpu": cpu}


def measure(address: str, file_of_p: str) -> None:
    """Make the plan; then partition and rank in turns."""
    options = scale.config()
    with scale.knowing(address) as state:
        before, clock = scale.peak_mib(), Clock()
        with clock.step("read"):
            known = read_rows(state, now=scale.NOW)
        with clock.step("ranking"):
            plan = plan_of(*known, state, options, scale.NOW)
        with clock.step("requests"):
            pages = state.load(plan.page_ids.tolist())
            requests = [Request(pages[key].url) for key in plan.page_ids.tolist()]
        found = clock.so_far() | {"bytes": (scale.peak_mib() - before) * 2**20 / len(known[0])}
        if len(requests) != scale.CHOSEN:
            raise RuntimeError("another plan than was to be made")
        p = np.load(file_of_p)
        for _ in range(TURNS):
            with clock.step("floor"):
                np.argpartition(p, len(p) - scale.CHOSEN)
            with clock.step("ranking"):
                plan_of(*known, state, options, scale.NOW)
    print(json.dumps(found | {name: min(taken) for name, taken in clock.steps.items()}))


def fill(address: str, pages: int, file_of_p: Path) -> None:
    """Write the rows of that many pages, the pages that will be chosen, and the p's of all."""
    with scale.knowing(address) as state:
        scale.fill(address, *scale.synthetic(pages))
        known = read_rows(state)
        winners = plan_of(*known, state, scale.config(), scale.NOW).page_ids
        np.save(file_of_p, candidates_from(*known, scale.NOW, state.estimation, scale.config()).p)
    scale.fill_pages(address, *known, winners)


def in_a_process(address: str, file_of_p: Path) -> dict[str, float]:
    command = [sys.executable, "-W", "ignore", __file__, "--one", address, str(file_of_p)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"the plan from {address} failed")
    return dict(json.loads(done.stdout))


def line(pages: int, name: str, found: dict[str, float]) -> str:
    ratio = found["ranking"] / found["floor"]
    cells = [f"{pages:,}", name, f"{found['read']:.2f}", f"{found['ranking']:.3f}"]
    cells += [f"{found['floor']:.4f}", f"{ratio:.1f}", f"{found['requests']:.2f}"]
    cells += [f"{found['all']:.2f}", f"{found['cpu']:.2f}", f"{found['bytes']:.1f}"]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pages", type=int, default=1_000_000, help="known (%(default)s)")
    parser.add_argument("--only", choices=("SQLite", "Redis"), help="read from there alone")
    parser.add_argument("--repeat", type=int, default=3, help="runs; the best counts (%(default)s)")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        measure(*options.one)
        return
    columns = (*COLUMNS, *TOTALS)
    print(f"| {' | '.join(columns)} |\n|---:|---{'|---:' * (len(columns) - 2)}|", flush=True)
    with tempfile.TemporaryDirectory() as folder, redis_server(Path(folder)) as port:
        addresses = {
            "SQLite": f"sqlite:///{folder}/state.db",
            "Redis": f"redis://127.0.0.1:{port}/0",
        }
        for name, address in addresses.items():
            if options.only in (None, name):
                file_of_p = Path(folder, "p.npy")
                fill(address, options.pages, file_of_p)
                runs = [in_a_process(address, file_of_p) for _ in range(options.repeat)]
                best = min(runs, key=lambda run: run["all"])
                print(line(options.pages, name, best), flush=True)


if __name__ == "__main__":
    main()

"""The plan of a million pages by one process and by two workers of a Dask cluster.

python benchmarks/dask_plan.py                          # SQLite and Redis, a minute
python benchmarks/dask_plan.py --pages 10000000 --only SQLite

States as of benchmarks/scale.py: the best 10,000 of synthetic pages, ids, p and counts compared page by
page. Each way runs in a process of its own. "Plan" is wall time with the cluster there, "start" what it
takes to start it (two processes), "peak" the resident memory (VmHWM) of the process, of Dask that of its
largest worker, "client" that of the process that asks.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import scale

from hacs_crawler.cluster import Cluster
from hacs_crawler.ranking.distributed import distributed_plan
from hacs_crawler.ranking.plan import Plan, make_plan
from hacs_crawler.state import Estimation
from servers import redis_server

WORKERS = 2


def digest(plan: Plan) -> list[object]:
    """What two plans are compared by."""
    return [plan.page_ids.tolist(), plan.p.tolist(), plan.known, plan.waiting, plan.left_out]


def by_one(address: str) -> None:
    with scale.knowing(address) as state:
        started = time.perf_counter()
        plan = make_plan(state, scale.config(), scale.NOW)
        seconds = time.perf_counter() - started
    tell({"plan": seconds, "peak": scale.peak_mib(), "digest": digest(plan)})


def by_dask(address: str) -> None:
    from distributed import Client, LocalCluster

    started = time.perf_counter()
    with (
        LocalCluster(
            n_workers=WORKERS, threads_per_worker=1, dashboard_address=None, memory_limit="6GB"
        ) as local,
        Client(local) as client,
        scale.knowing(address) as state,
    ):
        start = time.perf_counter() - started
        arguments = address, "hacs", Path(), Estimation(), None
        started = time.perf_counter()
        plan = distributed_plan(Cluster(client), [(arguments, state)], scale.config(), scale.NOW)
        seconds = time.perf_counter() - started
        peaks = client.run(scale.peak_mib)
    found = {"plan": seconds, "start": start, "peak": max(peaks.values())}
    tell(found | {"client": scale.peak_mib(), "digest": digest(plan)})


def tell(found: dict[str, object]) -> None:
    print(json.dumps(found))


def in_a_process(way: str, address: str) -> dict[str, object]:
    command = [sys.executable, "-W", "ignore", __file__, "--one", way, address]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def line(name: str, way: str, number: int, found: dict[str, object]) -> str:
    cells = [f"{found[key]:,.1f}" if key in found else "" for key in ("plan", "start")]
    cells += [f"{found[key]:,.0f}" if key in found else "" for key in ("peak", "client")]
    return f"| {number:,} | {name} | {way} | " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pages", type=int, default=1_000_000, help="(%(default)s)")
    parser.add_argument("--only", choices=("SQLite", "Redis"), help="one store")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        way, address = options.one
        {"one": by_one, "dask": by_dask}[way](address)
        return
    print("| pages | from | by | plan, s | start, s | peak, MiB | client, MiB |")
    print("|---:|---|---|---:|---:|---:|---:|", flush=True)
    ids, rows = scale.synthetic(options.pages)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        addresses = {"SQLite": f"sqlite:///{folder}/state.db"}
        if options.only != "SQLite":
            port = stack.enter_context(redis_server(Path(folder)))
            addresses["Redis"] = f"redis://127.0.0.1:{port}/0"
        for name, address in addresses.items():
            if options.only not in (None, name):
                continue
            with scale.knowing(address) as state:
                winners = scale.plan_of(ids, rows, state, scale.config(), scale.NOW).page_ids
            scale.fill(address, ids, rows)
            scale.fill_pages(address, ids, rows, np.asarray(winners))
            scale.tell("")
            alone, there = (in_a_process(way, address) for way in ("one", "dask"))
            if alone["digest"] != there["digest"]:
                sys.exit(f"{name}: another plan")
            print("\r" + line(name, "one process", options.pages, alone))
            print(line(name, f"Dask, {WORKERS} workers", options.pages, there), flush=True)


if __name__ == "__main__":
    main()

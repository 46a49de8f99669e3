"""The plan of a million pages by one process and by two workers of a Dask cluster.

python benchmarks/dask_plan.py                          # SQLite and Redis, a minute
python benchmarks/dask_plan.py --pages 10000000 --only SQLite
python benchmarks/dask_plan.py --shards 1000000 10000000 100000000    # 20 minutes, 6 GB of disk
python benchmarks/dask_plan.py --shards 10000000 --kill               # a worker is killed meanwhile

States as of benchmarks/scale.py: the best 10,000 of synthetic pages, ids, p and counts compared page by
page. Each way runs in a process of its own. "Plan" is wall time with the cluster there, "start" what it
takes to start it (two processes), "peak" the resident memory (VmHWM) of the process, of Dask that of its
largest worker, "client" that of the process that asks.

With `--shards` each number of pages is in files of 10 million at most, rows alone, all copies of the
first: what they cost is that of others. One process ranks them one after the other, and keeps of each
what may be among the best.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Timer
from unittest.mock import patch

import numpy as np
from distributed import Client, LocalCluster

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
import scale

from hacs_crawler.cluster import Cluster
from hacs_crawler.ranking import distributed
from hacs_crawler.ranking.distributed import distributed_plan
from hacs_crawler.ranking.finalists import SHARD_BITS, finalists_of, merged
from hacs_crawler.ranking.plan import Plan, make_plan, plan_from, read_rows
from hacs_crawler.state import Estimation, State, StateArguments
from hacs_crawler.state.address import open_state
from servers import redis_server

WORKERS = 2
PAGES_A_SHARD = 10_000_000
KILLED_AFTER = 5.0
"""Seconds after the plan was asked for."""


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
    started = time.perf_counter()
    with two_workers() as client, scale.knowing(address) as state:
        start = time.perf_counter() - started
        arguments = address, "hacs", Path(), Estimation()
        started = time.perf_counter()
        plan = distributed_plan(Cluster(client), [(arguments, state)], scale.config(), scale.NOW)
        seconds = time.perf_counter() - started
        peaks = client.run(scale.peak_mib)
    found = {"plan": seconds, "start": start, "peak": max(peaks.values())}
    tell(found | {"client": scale.peak_mib(), "digest": digest(plan)})


def shards_of(folder: str) -> list[tuple[StateArguments, State]]:
    """Open the shards in a folder, in the order of their names."""
    found = []
    for file in sorted(Path(folder).glob("*.db")):
        arguments = f"sqlite:///{file}", "hacs", Path(), Estimation()
        found.append((arguments, open_state(*arguments)))
    return found


def of_shards_by_one(folder: str) -> None:
    options, parts = scale.config(), []
    started = time.perf_counter()
    for number, (_, state) in enumerate(shards_of(folder)):
        ids, rows = read_rows(state, now=scale.NOW)
        places = np.arange(number << SHARD_BITS, (number << SHARD_BITS) + len(ids))
        parts.append(finalists_of(ids, rows, state, options, scale.NOW, stand_at=places))
        del ids, rows, places
    plan = plan_from(merged(parts, options, None), options, None)
    seconds = time.perf_counter() - started
    tell({"plan": seconds, "peak": scale.peak_mib(), "digest": digest(plan)})


def of_shards_by_dask(folder: str, is_killing: bool = False) -> None:
    started = time.perf_counter()
    with two_workers() as client:
        start = time.perf_counter() - started
        started = time.perf_counter()
        shards = shards_of(folder)
        if is_killing:
            (pid, *_) = client.run(os.getpid).values()
            Timer(KILLED_AFTER, os.kill, (pid, signal.SIGKILL)).start()
        # copies have the same pages, which it would refuse
        with patch.object(distributed, "_check_apart"):
            plan = distributed_plan(Cluster(client), shards, scale.config(), scale.NOW)
        seconds = time.perf_counter() - started
        if is_killing and pid in client.run(os.getpid).values():
            sys.exit("the plan was there before its worker was killed")
        peaks = client.run(scale.peak_mib)
    found = {"plan": seconds, "start": start, "peak": max(peaks.values())}
    tell(found | {"client": scale.peak_mib(), "digest": digest(plan)})


def of_shards_by_dask_killed(folder: str) -> None:
    of_shards_by_dask(folder, is_killing=True)


def write_shards(folder: str, pages: int) -> None:
    """Write the first shard, and copy it."""
    size = min(pages, PAGES_A_SHARD)
    first = Path(folder, "000.db")
    with scale.knowing(f"sqlite:///{first}"):
        scale.fill_sqlite(first, *scale.synthetic(size))
    for number in range(1, pages // size):
        shutil.copy(first, Path(folder, f"{number:03}.db"))


@contextmanager
def two_workers() -> Iterator[Client]:
    with (
        LocalCluster(
            n_workers=WORKERS,
            threads_per_worker=1,
            dashboard_address="127.0.0.1:0",
            memory_limit="6GB",
            silence_logs=50,
        ) as local,
        Client(local) as client,
    ):
        yield client


def tell(found: dict[str, object]) -> None:
    print(json.dumps(found))


WAYS = {
    "one": by_one,
    "dask": by_dask,
    "shards by one": of_shards_by_one,
    "shards by dask": of_shards_by_dask,
    "shards by dask, killed": of_shards_by_dask_killed,
}


def in_a_process(way: str, address: str) -> dict[str, object]:
    command = [sys.executable, "-W", "ignore", __file__, "--one", way, address]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def line(name: str, way: str, number: int, found: dict[str, object]) -> str:
    cells = [f"{found[key]:,.1f}" if key in found else "" for key in ("plan", "start")]
    cells += [f"{found[key]:,.0f}" if key in found else "" for key in ("peak", "client")]
    return f"| {number:,} | {name} | {way} | " + " | ".join(cells) + " |"


def compare_shards(pages: int, *, is_killing: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-W", "ignore", __file__, "--write", folder, str(pages)]
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        scale.tell("")
        name = f"SQLite, {len(list(Path(folder).glob('*.db')))} shards"
        alone = in_a_process("shards by one", folder)
        print("\r" + line(name, "one process", pages, alone), flush=True)
        ways = {"shards by dask": f"Dask, {WORKERS} workers"}
        if is_killing:
            ways["shards by dask, killed"] = f"the same, one killed after {KILLED_AFTER:g} s"
        for way, title in ways.items():
            there = in_a_process(way, folder)
            if alone["digest"] != there["digest"]:
                sys.exit(f"{pages}, {way}: another plan")
            print(line(name, title, pages, there), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pages", type=int, default=1_000_000, help="(%(default)s)")
    parser.add_argument("--only", choices=("SQLite", "Redis"), help="one store")
    parser.add_argument("--shards", type=int, nargs="+", help="so many pages in all, in shards")
    parser.add_argument("--kill", action="store_true", help="with --shards, kill a worker, too")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--write", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        way, address = options.one
        WAYS[way](address)
        return
    if options.write:
        write_shards(options.write[0], int(options.write[1]))
        return
    print("| pages | from | by | plan, s | start, s | peak, MiB | client, MiB |")
    print("|---:|---|---|---:|---:|---:|---:|", flush=True)
    if options.shards:
        for pages in options.shards:
            compare_shards(pages, is_killing=options.kill)
        return
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

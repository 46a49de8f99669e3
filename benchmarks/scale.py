"""Choose the best 10,000 of 10^4 to 10^7 known pages, from SQLite and from Redis.

python benchmarks/scale.py                                        # to a million pages, 2 minutes
python benchmarks/scale.py --largest 10000000 --plot docs/scale.svg    # 8 minutes, 3 GB of memory

For every number of pages a state is written, row by row as the stores keep them, straight into the
tables or keys; the pages themselves only of the best 10,000. Then each step runs in a process of its
own, which makes the plan of a crawl as `scrapy crawl scholar -a seeds=state` with HACS_BUDGET = 10000
does: it reads all ranking rows, ranks them, and makes Requests of the best. Policy and settings are the
defaults, so that pages of one site tell of each other; sites have 12 pages on average, the largest a
thousandth of all.

The floor is numpy.argpartition of the same p, already in memory. The plain way is a list with one
scrapy.Request of each known page, before anything is ranked; it is left out above a million. Seconds are
wall time, "CPU" those of this process alone; of `--repeat` runs the one with the least CPU time counts.
Peaks are of resident memory (VmHWM); "added" is what came on top of interpreter and libraries.

python benchmarks/scale.py --fields     # half a minute

What a row costs in a Redis hash of many: bytes, and the server's CPU time to get one, to set one, and
to read all as the store does, by the number of fields and the setting hash-max-listpack-entries (in
Redis 6: hash-max-ziplist-entries) up to which a hash is kept compact.
"""

from __future__ import annotations

import argparse
import json
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import redis

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # servers: starts a redis-server
from scrapy.settings import Settings

from hacs_crawler.config import Config
from hacs_crawler.ranking.candidates import candidates_from
from hacs_crawler.ranking.options import RankingOptions
from hacs_crawler.ranking.plan import plan_of, read_rows
from hacs_crawler.state.address import open_store
from hacs_crawler.state.codec import encode_page
from hacs_crawler.state.database import State
from hacs_crawler.state.estimation import Estimation
from hacs_crawler.state.page import Page
from hacs_crawler.state.redis_buckets import BUCKETS, GATHER_ROWS_OF_ALL
from hacs_crawler.state.rows import ROW
from hacs_crawler.state.store import Change, Ids, Rows
from hacs_crawler.utils.times import DAY
from servers import redis_server

NOW = 1_790_000_000
CHOSEN = 10_000
PAGES_A_SITE = 12
SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
MOST_REQUESTS = 1_000_000
FIELDS = (
    (153, 512),
    (512, 512),
    (1_024, 512),
    (1_024, 1_024),
    (2_048, 2_048),
    (4_096, 512),
    (4_096, 4_096),
)


def tell(text: str) -> None:
    print(f"\r{text:<70}\r", end="", file=sys.stderr, flush=True)


def synthetic(number: int) -> tuple[Ids, Rows]:
    """Return ids and ranking rows of pages as a state has them after some years of visits."""
    rng = np.random.default_rng(number)
    rows = np.zeros(number, ROW)
    visits = np.minimum(rng.geometric(0.1, number), 200)
    updates = rng.binomial(np.maximum(visits - 1, 0), 0.2)
    last_visit = NOW - rng.integers(0, 90 * DAY, number)
    last_update = last_visit - (rng.random(number) > 0.2) * rng.integers(1, 300 * DAY, number)
    rows["rate"] = rate = rng.lognormal(-4.7, 1.5, number)
    rows["share"], rows["fast"], rows["slow"] = (
        rng.uniform(0.3, 1.0, number),
        1.5 * rate,
        0.5 * rate,
    )
    rows["visits"], rows["updates"] = visits, updates
    rows["last_visit"], rows["last_update"] = last_visit, last_update
    rows["before_update"] = (last_update - rng.integers(1, 60 * DAY, number)) * (updates > 0)
    rows["failures"] = rng.random(number) < 0.03
    rows["not_before"] = (rng.random(number) < 0.02) * (NOW + 7 * DAY)
    sites = max(1, number // PAGES_A_SITE)
    site = np.floor(sites * rng.random(number) ** 2).astype(np.uint64)
    rows["site"] = (site * np.uint64(2_654_435_761) + np.uint64(1)) & np.uint64(2**32 - 1)
    is_new = rng.random(number) < 0.0005
    for name in set(ROW.names or ()) - {"site"}:
        rows[name][is_new] = 0
    ids = np.unique(rng.integers(-(2**63), 2**63 - 1, number + number // 1000 + 8))
    return rng.permutation(ids)[:number], rows


def config() -> RankingOptions:
    chosen = Settings({"HACS_BUDGET": CHOSEN})
    return Config.from_settings(chosen).ranking


def url(place: int) -> str:
    return f"https://www.host{place % 997}.example.edu/~author{place // 12}/page{place}.html"


@contextmanager
def knowing(address: str) -> Iterator[State]:
    with closing(open_store(address, "hacs", Path())) as store:
        yield State(store, Estimation())


def fill_sqlite(file: Path, ids: Ids, rows: Rows) -> None:
    size, order = ROW.itemsize, np.argsort(ids)
    with closing(sqlite3.connect(file, isolation_level=None)) as database:
        database.execute("PRAGMA synchronous = OFF")
        for start in range(0, len(ids), 500_000):
            places = order[start : start + 500_000]
            packed = np.take(rows, places).tobytes()
            cut = (packed[at : at + size] for at in range(0, len(packed), size))
            database.execute("BEGIN")
            database.executemany(
                'INSERT INTO "hacs.rows" VALUES (?, ?)', zip(ids[places].tolist(), cut, strict=True)
            )
            database.execute("COMMIT")
            tell(f"SQLite: {start:,} rows written")


def fill_redis(address: str, ids: Ids, rows: Rows) -> None:
    size, buckets = ROW.itemsize, (ids % BUCKETS).astype(np.uint16)
    order = np.argsort(buckets, kind="stable")
    ends = np.cumsum(np.bincount(buckets, minlength=BUCKETS)).tolist()
    with closing(redis.Redis.from_url(address)) as client:
        start = 0
        for first in range(0, BUCKETS, 512):
            with client.pipeline(transaction=False) as pipe:
                for bucket in range(first, first + 512):
                    places = order[start : ends[bucket]]
                    start = ends[bucket]
                    fields, packed = ids[places].tobytes(), np.take(rows, places).tobytes()
                    cut = [
                        part
                        for place in range(len(places))
                        for part in (
                            fields[place * 8 : place * 8 + 8],
                            packed[place * size : place * size + size],
                        )
                    ]
                    if cut:
                        pipe.execute_command("HSET", f"hacs:{{{bucket:04x}}}:rows", *cut)
                pipe.execute()
            tell(f"Redis: {start:,} rows written")


def fill(address: str, ids: Ids, rows: Rows) -> None:
    """Write the rows alone."""
    if address.startswith("sqlite"):
        fill_sqlite(Path(address.removeprefix("sqlite:///")), ids, rows)
    else:
        fill_redis(address, ids, rows)


def fill_pages(address: str, ids: Ids, rows: Rows, chosen: Ids) -> None:
    """Write the pages that will be chosen."""
    (places,) = np.nonzero(np.isin(ids, chosen))
    changes = [
        Change(int(ids[place]), 0, encode_page(Page(url(place), version=1)), rows[place].tobytes())
        for place in places.tolist()
    ]
    with knowing(address) as state:
        state.store.write(changes)


def peak_mib() -> float:
    (line,) = (
        line for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line
    )
    return int(line.split()[1]) / 1024


class Timer:
    """Wall and CPU seconds of the steps of a process, and its memory before the first."""

    def __init__(self) -> None:
        self.before = peak_mib()
        self.found: dict[str, float] = {"cpu": 0.0}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        wall, cpu = time.perf_counter(), time.process_time()
        yield
        self.found[name] = time.perf_counter() - wall
        self.found["cpu"] += time.process_time() - cpu
        self.found |= {"peak": peak_mib(), "added": peak_mib() - self.before}

    def tell(self) -> None:
        print(json.dumps(self.found))


def measure_state(address: str) -> None:
    """Read, rank, make Requests of the best."""
    from scrapy import Request

    chosen = config()
    with knowing(address) as state:
        timer = Timer()
        with timer.step("read"):
            known = read_rows(state)
        with timer.step("rank"):
            plan = plan_of(*known, state, chosen, NOW)
        with timer.step("requests"):
            pages = state.load(plan.page_ids.tolist())
            requests = [Request(pages[key].url) for key in plan.page_ids.tolist()]
    if len(requests) != min(CHOSEN, len(plan)) or plan.known != len(known[0]):
        raise RuntimeError("another plan than was to be made")
    timer.tell()


def measure_floor(file: str) -> None:
    """Partition p alone."""
    timer = Timer()
    p = np.load(file)
    with timer.step("rank"):
        np.argpartition(p, max(len(p) - CHOSEN, 0))
    timer.tell()


def measure_plain(number: int) -> None:
    """Make a Request of every page."""
    from scrapy import Request

    timer = Timer()
    with timer.step("requests"):
        requests = [Request(url(place)) for place in range(number)]
    if len(requests) != number:
        raise RuntimeError
    timer.tell()


def in_a_process(step: str, argument: str, repeat: int) -> dict[str, float]:
    tell(f"{step} {argument}")
    runs = []
    for _ in range(repeat):
        command = [sys.executable, "-W", "ignore", __file__, "--one", step, argument]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            sys.exit(f"{step} failed")
        runs.append(dict(json.loads(done.stdout)))
    return min(runs, key=lambda run: run["cpu"])


def measured(number: int, folder: Path, repeat: int) -> dict[str, dict[str, float]]:
    """Return what each step took, and the bytes a page."""
    with redis_server(folder) as port:
        addresses = {
            "SQLite": f"sqlite:///{folder}/state.db",
            "Redis": f"redis://127.0.0.1:{port}/0",
        }
        size = _fill_all(number, addresses, folder)
        found = {
            name: in_a_process(name, address, repeat) | {"bytes": size[name]}
            for name, address in addresses.items()
        }
        found["floor"] = in_a_process("floor", f"{folder}/p.npy", repeat)
    if number <= MOST_REQUESTS:
        found["plain"] = in_a_process("plain", str(number), 1)
    return found


def _fill_all(number: int, addresses: dict[str, str], folder: Path) -> dict[str, float]:
    """Write the addresses; return the bytes that each takes for the row of a page."""
    ids, rows = synthetic(number)
    size = {}
    for name, address in addresses.items():
        with knowing(address) as state:
            before = state.store.size_bytes()
            if name == "SQLite":
                winners = plan_of(ids, rows, state, config(), NOW).page_ids
                p = candidates_from(ids, rows, NOW, state.estimation, config()).p
                np.save(folder / "p.npy", p)
        fill(address, ids, rows)
        with knowing(address) as state:
            size[name] = (state.store.size_bytes() - before) / number
        fill_pages(address, ids, rows, winners)
    return size


def row_of(name: str, number: int, found: dict[str, float], floor: float) -> str:
    """Return a line of the table."""
    total = sum(found.get(step, 0.0) for step in ("read", "rank", "requests"))
    seconds = [found.get(step) for step in ("read", "rank", "requests")]
    steps = ["" if one is None else f"{one:.{2 if one > 0.1 else 4}f}" for one in seconds]
    times = f"{found['rank'] / floor:.0f}" if "read" in found else ""
    size = f"{found['bytes']:.0f}" if "bytes" in found else ""
    cells = [f"{number:,}", name, *steps, f"{total:.2f}", f"{found['cpu']:.2f}", times]
    cells += [f"{found['peak']:,.0f}", f"{found['added']:,.0f}", size]
    return "| " + " | ".join(cells) + " |"


def plot(results: dict[int, dict[str, dict[str, float]]], file: Path) -> None:
    """Draw seconds and memory against the number of pages."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams |= {"svg.fonttype": "none", "svg.hashsalt": "hacs", "font.size": 9}
    from matplotlib import pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(8.4, 3.4), layout="constrained")
    names = {
        "SQLite": ("HACS, SQLite", "#1b6ca8", "o"),
        "Redis": ("HACS, Redis", "#c0392b", "s"),
        "plain": ("a Request of each page", "#7f8c8d", "^"),
        "floor": ("numpy.argpartition of p", "#2c3e50", "x"),
    }
    for step, (label, colour, marker) in names.items():
        numbers = [number for number, found in results.items() if step in found]
        taken = [results[number][step] for number in numbers]
        seconds = [sum(one.get(key, 0.0) for key in ("read", "rank", "requests")) for one in taken]
        for axes, values in ((left, seconds), (right, [one["added"] for one in taken])):
            axes.loglog(numbers, values, color=colour, marker=marker, label=label, lw=1.4, ms=4.5)
    left.set_title(f"seconds to choose {CHOSEN:,} pages", loc="left", fontsize=10)
    right.set_title("MiB on top of the libraries", loc="left", fontsize=10)
    for axes in (left, right):
        axes.minorticks_off()
        axes.set_xlabel("pages known")
        axes.grid(which="major", color="#dddddd", lw=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    figure.legend(
        *left.get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False
    )
    figure.savefig(file, metadata={"Date": None, "Creator": None})


def server_cpu(client: redis.Redis) -> float:
    used = client.info("cpu")
    return float(used["used_cpu_user"] + used["used_cpu_sys"])


def fields_line(client: redis.Redis, number: int, most: int) -> str:
    """Fill hashes with that number of fields each; return what a field costs."""
    rng, hashes = random.Random(number), max(1, 100_000 // number)
    client.flushall()
    client.config_set("hash-max-ziplist-entries", most)
    before = int(client.info("memory")["used_memory"])
    fields = [rng.randbytes(8) for _ in range(number)]
    keys = [f"hacs:{{{place:04x}}}:rows" for place in range(hashes)]
    for key in keys:
        row = {field: rng.randbytes(ROW.itemsize) for field in fields}
        client.hset(key, mapping=row)
    size = (int(client.info("memory")["used_memory"]) - before) / (hashes * number)
    micros = []
    for command, *value in (["HGET"], ["HSET", rng.randbytes(ROW.itemsize)]):
        started = server_cpu(client)
        for _ in range(20):
            with client.pipeline(transaction=False) as pipe:
                for _ in range(1_000):
                    pipe.execute_command(command, rng.choice(keys), rng.choice(fields), *value)
                pipe.execute()
        micros.append((server_cpu(client) - started) / 20_000 * 1e6)
    started, step = server_cpu(client), max(1, 10_000 // number)
    for first in range(0, hashes, step):
        some = keys[first : first + step]
        client.eval(GATHER_ROWS_OF_ALL, len(some), *some)
    micros.append((server_cpu(client) - started) / (hashes * number) * 1e6)
    cells = [f"{size:.0f}", *(f"{micro:.1f}" for micro in micros)]
    return f"| {number:,} | {most:,} | " + " | ".join(cells) + " |"


def fields_table() -> None:
    print(
        "| fields a hash | kept compact up to | bytes a row | get, µs | set, µs | read all, µs a row |"
        "\n|---:|---:|---:|---:|---:|---:|"
    )
    with (
        tempfile.TemporaryDirectory() as folder,
        redis_server(Path(folder)) as port,
        closing(redis.Redis(port=port)) as client,
    ):
        for number, most in FIELDS:
            print(fields_line(client, number, most), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--largest", type=int, default=1_000_000, help="pages (%(default)s)")
    parser.add_argument("--repeat", type=int, default=2, help="runs; the best counts (%(default)s)")
    parser.add_argument("--plot", type=Path, help="draw the growth into this SVG file")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--fields", action="store_true", help="what a row costs in a Redis hash")
    options = parser.parse_args()
    if options.fields:
        fields_table()
        return
    if options.one:
        step, argument = options.one
        measure = {"floor": measure_floor, "plain": lambda text: measure_plain(int(text))}
        measure.get(step, measure_state)(argument)
        return
    print(
        "| pages | from | read, s | rank, s | Requests, s | total, s | CPU, s | rank / floor "
        "| peak, MiB | added, MiB | bytes a row |\n|---:|---" + "|---:" * 9 + "|",
        flush=True,
    )
    results = {}
    for number in (size for size in SIZES if size <= options.largest):
        with tempfile.TemporaryDirectory() as folder:
            results[number] = measured(number, Path(folder), options.repeat)
        tell("")
        for step, found in results[number].items():
            line = row_of(step, number, found, results[number]["floor"]["rank"])
            print(line, flush=True)
    if options.plot:
        plot(results, options.plot)


if __name__ == "__main__":
    main()

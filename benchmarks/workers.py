"""Visits recorded by 1, 2 and 4 processes on one Redis, and scrapy-redis's requests in the same run.

python benchmarks/workers.py                  # 2 minutes

A visit: its page of 100 links and 50 visits is loaded, then the visit recorded, 100 pages a batch, as a
crawl does it; every fifth shows three new links. That is a merge, a new rate, and the page and its row
written if nobody else wrote the page meanwhile. Each process has pages of its own, as crawls of
shards have.

A request: `enqueue_request` and `next_request` of scrapy_redis.scheduler.Scheduler with its defaults
(pickle, priority queue, duplicate filter), one after the other in each process.

The processes are made ready, then start at once; a line's seconds are from the first one's start to the
last one's end, without start-up, and its visits are those of all. "CPU of Redis" is what the server says
it used (INFO cpu), and "Redis alone would do" what it would then bear on a core of its own. Redis keeps
nothing on disk here. Of `--repeat` runs the quickest counts.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import redis

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # servers: starts a redis-server
from store import FIRST, VISITS, fill, grown_page, url

from hacs_crawler.links.keys import page_id_of
from hacs_crawler.state.address import open_store
from hacs_crawler.state.database import State
from hacs_crawler.state.estimation import Estimation
from hacs_crawler.state.page import Visit
from hacs_crawler.utils.times import DAY
from servers import redis_server

PROCESSES = (1, 2, 4)
LINKS = 100
BATCH = 100


def visits_of(worker: int, workers: int, pages: int, count: int, turn: int) -> list[list[Visit]]:
    """Return batches of visits to the worker's own pages, later than those of the turns before."""
    rng = random.Random(1_000 * turn + worker)
    own = range(worker, pages, workers)
    now = FIRST + VISITS * 40 * DAY + turn * count
    batches = []
    for _ in range(count // BATCH):
        batch = []
        for index, number in enumerate(rng.sample(own, BATCH)):
            links = set(grown_page(number, LINKS).spells.marks)
            if index % 5 == 0:
                links.update(rng.getrandbits(63) for _ in range(3))
            batch.append(Visit(url(number), now, marks=frozenset(links)))
            now += 1
        batches.append(batch)
    return batches


def record(
    port: int, worker: int, workers: int, pages: int, count: int, turn: int
) -> Callable[[], None]:
    store = open_store(f"redis://127.0.0.1:{port}/0", "hacs", Path())
    state = State(store, Estimation())
    batches = visits_of(worker, workers, pages, count, turn)

    def run() -> None:
        for visits in batches:
            known = state.load([page_id_of(visit.url) for visit in visits])
            recorded = state.record(visits, known)
            if sum(one.updated for one in recorded) != BATCH // 5 or len(known) != BATCH:
                raise RuntimeError("something else was recorded")

    return run


def queue(
    port: int, worker: int, workers: int, _: int, count: int, turn: int
) -> Callable[[], None]:
    from scrapy import Request, Spider
    from scrapy.utils.test import get_crawler
    from scrapy_redis.scheduler import Scheduler

    settings = {
        "REDIS_URL": f"redis://127.0.0.1:{port}/1",
        "DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter",
        "SCHEDULER_PERSIST": True,
        "LOG_ENABLED": False,
    }
    crawler = get_crawler(settings_dict=settings)
    spider = Spider.from_crawler(crawler, name="benchmark")
    crawler.spider = spider
    scheduler = Scheduler.from_crawler(crawler)
    scheduler.open(spider)
    own = range(worker, workers * count, workers)
    requests = [Request(f"{url(number)}?{turn}") for number in own]

    def run() -> None:
        for request in requests:
            if not scheduler.enqueue_request(request) or scheduler.next_request() is None:
                raise RuntimeError("a request was lost")

    return run


KINDS = {"visits recorded": record, "requests through scrapy-redis": queue}


def run_one(kind: str, *numbers: int) -> None:
    """Make ready, wait for a line, run, tell when it was."""
    run = KINDS[kind](*numbers)
    print("ready", flush=True)
    sys.stdin.readline()
    started, cpu = time.monotonic(), time.process_time()
    run()
    found = {"from": started, "to": time.monotonic(), "cpu": time.process_time() - cpu}
    print(json.dumps(found), flush=True)


def used_of_redis(port: int) -> tuple[float, int]:
    """Return the server's CPU seconds, and the bytes that came and went."""
    with closing(redis.Redis(port=port)) as client:
        cpu, net = client.info("cpu"), client.info("stats")
        seconds = float(cpu["used_cpu_user"] + cpu["used_cpu_sys"])
        return seconds, int(net["total_net_input_bytes"] + net["total_net_output_bytes"])


def measure(
    kind: str, port: int, workers: int, pages: int, count: int, turn: int
) -> dict[str, float]:
    """Run so many processes at once; seconds, and CPU seconds of them and of Redis."""
    processes = []
    for worker in range(workers):
        numbers = [str(number) for number in (port, worker, workers, pages, count, turn)]
        command = [sys.executable, "-W", "ignore", __file__, "--one", kind, *numbers]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        processes.append(subprocess.Popen(command, text=True, **pipes))
    for process in processes:
        if process.stdout is None or process.stdout.readline() != "ready\n":
            sys.exit(f"{kind}: a process failed")
    before = used_of_redis(port)
    for process in processes:
        print("go", file=process.stdin, flush=True)
    answers = [process.communicate()[0] for process in processes]
    seconds, size = (now - then for now, then in zip(used_of_redis(port), before, strict=True))
    if any(process.returncode for process in processes):
        sys.exit(f"{kind}: a process failed")
    found = [json.loads(answer) for answer in answers]
    return {
        "seconds": max(one["to"] for one in found) - min(one["from"] for one in found),
        "cpu": sum(one["cpu"] for one in found),
        "redis": seconds,
        "bytes": size,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pages", type=int, default=20_000, help="known pages (%(default)s)")
    parser.add_argument("--visits", type=int, default=10_000, help="of a process (%(default)s)")
    parser.add_argument("--requests", type=int, default=5_000, help="of a process (%(default)s)")
    parser.add_argument("--repeat", type=int, default=2, help="runs; the best counts (%(default)s)")
    parser.add_argument("--one", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        run_one(options.one[0], *map(int, options.one[1:]))
        return
    counts = dict(zip(KINDS, (options.visits, options.requests), strict=True))
    best: dict[tuple[str, int], dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder, redis_server(Path(folder)) as port:
        with closing(open_store(f"redis://127.0.0.1:{port}/0", "hacs", Path())) as store:
            fill(store, options.pages, LINKS, "Redis", is_grown=False)
        turns = [workers for _ in range(options.repeat) for workers in PROCESSES]
        for turn, workers in enumerate(turns):
            for kind, count in counts.items():
                found = measure(kind, port, workers, options.pages, count, turn)
                key = kind, workers
                if key not in best or found["seconds"] < best[key]["seconds"]:
                    best[key] = found
    print(f"{os.cpu_count()} cores\n")
    print(
        "| | processes | a second, all | against one | CPU of a process, µs each "
        "| CPU of Redis, µs each | Redis alone would do, a second | bytes to and from it, each |\n|---|"
        + "---:|"
        * 7
    )
    for (kind, workers), found in sorted(best.items(), key=lambda item: item[0][::-1]):
        total = counts[kind] * workers
        rate, alone = total / found["seconds"], counts[kind] / best[kind, 1]["seconds"]
        print(
            f"| {kind} | {workers} | {rate:,.0f} | {rate / alone:.2f} "
            f"| {found['cpu'] / total * 1e6:.0f} | {found['redis'] / total * 1e6:.0f} "
            f"| {total / found['redis']:,.0f} | {found['bytes'] / total:,.0f} |"
        )


if __name__ == "__main__":
    main()

"""Time the way of start requests through four schedulers, in one run.

python benchmarks/ranking.py [-n 100000] [--hosts 1 1000] [--repeat 3]     # about 6 minutes

Scrapy's default scheduler, HacsScheduler with its state in SQLite and in Redis, and scrapy-redis's
scheduler with its defaults (pickle, priority queue) each take `n` start requests, rank them where they
rank, and give them all back. Each runs in a process of its own, with a real engine and downloader that
send nothing; of `--repeat` runs the one with the least total counts. The requests are made before the
clock starts, and every one of their pages is in the state, visited, with a rate of its own. Scrapy's
default queue looks at every host with waiting requests for each one it gives, hence two numbers of
hosts. Opening (imports, connections) is not timed. "RSS" is the process's peak; "of it added" is what
came on top of Scrapy, the package, and the requests themselves.
"""

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from array import array
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # servers: starts a redis-server
from hacs_crawler.links.keys import page_id_of
from hacs_crawler.state.address import open_store
from hacs_crawler.state.codec import encode_page
from hacs_crawler.state.page import Page
from hacs_crawler.state.rows import encode_row
from hacs_crawler.state.store import Change
from hacs_crawler.utils.times import DAY
from servers import redis_server

SCHEDULERS = {
    "Scrapy's default": "scrapy.core.scheduler.Scheduler",
    "HACS, SQLite": "hacs_crawler.crawl.scheduler.HacsScheduler",
    "HACS, Redis": "hacs_crawler.crawl.scheduler.HacsScheduler",
    "scrapy-redis": "scrapy_redis.scheduler.Scheduler",
}
NOW = int(time.time())


def url(number: int, hosts: int) -> str:
    return f"https://www.host{number % hosts}.example.edu/~author{number}/index.html"


def fill(state: str, number: int, hosts: int) -> None:
    """Write a visited page for every request, with a rate from a log-normal distribution."""
    rng = random.Random(number)
    store = open_store(state, "hacs", Path())
    changes = []
    for index in range(number):
        address = url(index, hosts)
        page = Page(address, version=1, rate=rng.lognormvariate(-4.7, 1.5))
        days_ago = rng.randrange(30, 60), rng.randrange(30)
        page.visits = array("I", (NOW - days * DAY for days in days_ago))
        changes.append(Change(page_id_of(address), 0, encode_page(page), encode_row(page)))
        if len(changes) == 5_000 or index == number - 1:
            store.write(changes)
            changes.clear()
    store.close()


def settings(name: str, state: str, redis_port: int) -> dict[str, Any]:
    return {
        "SCHEDULER": SCHEDULERS[name],
        "LOG_ENABLED": False,
        "HACS_STATE": state,
        "REDIS_URL": f"redis://127.0.0.1:{redis_port}/1",
        **({"DUPEFILTER_CLASS": "scrapy_redis.dupefilter.RFPDupeFilter"} if "-" in name else {}),
    }


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


async def measure(name: str, options: argparse.Namespace) -> dict[str, float]:
    """Drive one scheduler as the engine does; seconds of each step and MiB."""
    from scrapy import Request
    from scrapy.utils.misc import build_from_crawler, load_object
    from scrapy.utils.test import get_crawler

    from hacs_crawler.crawl.crawl import Crawl
    from hacs_crawler.crawl.ranker import Ranker

    crawler = get_crawler(settings_dict=settings(name, options.state, options.port))
    # as Crawler.crawl does
    crawler.spider = crawler._create_spider("benchmark")  # noqa: SLF001
    crawler.engine = crawler._create_engine()  # noqa: SLF001
    scheduler = build_from_crawler(load_object(SCHEDULERS[name]), crawler)
    scheduler.open(crawler.spider)
    is_hacs = name.startswith("HACS")
    if is_hacs:
        await Crawl.of(crawler).open()
    requests = [
        Request(url(number, options.hosts[0]), meta={"is_start_request": True})
        for number in reversed(range(options.n))
    ]
    before = peak_mib()
    started = time.perf_counter()
    while requests:
        scheduler.enqueue_request(requests.pop())
    enqueued = time.perf_counter()
    if is_hacs:
        ranker = Ranker.of(crawler)
        assert ranker is not None
        await ranker.rank(is_last=True)
    ranked = time.perf_counter()
    dequeued = 0
    while scheduler.next_request() is not None:
        dequeued += 1
    ended = time.perf_counter()
    if dequeued != options.n:
        msg = f"{name} gave {dequeued} of {options.n} requests back"
        raise RuntimeError(msg)
    peak = peak_mib()
    scheduler.close("finished")
    if is_hacs:
        await Crawl.of(crawler).close(crawler.spider, "finished")
    return {
        "enqueue": enqueued - started,
        "rank": ranked - enqueued,
        "dequeue": ended - ranked,
        "total": ended - started,
        "peak": peak,
        "added": peak - before,
    }


def run_one(options: argparse.Namespace) -> None:
    from scrapy.utils.defer import deferred_from_coro
    from scrapy.utils.reactor import install_reactor
    from twisted.internet.task import react

    install_reactor("twisted.internet.asyncioreactor.AsyncioSelectorReactor")

    async def main() -> None:
        print(json.dumps(await measure(options.one, options)))

    react(lambda _: deferred_from_coro(main()))


def in_a_process(
    name: str, options: argparse.Namespace, hosts: int, state: str, port: int
) -> dict[str, float]:
    command = [sys.executable, "-W", "ignore", __file__, "--one", name, "-n", str(options.n)]
    command += ["--hosts", str(hosts), "--state", state, "--port", str(port)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"{name} failed")
    return dict(json.loads(done.stdout))


def compare(options: argparse.Namespace, hosts: int, folder: Path) -> None:
    with redis_server(folder) as port:
        states = {
            "HACS, SQLite": f"sqlite:///{folder}/state.db",
            "HACS, Redis": f"redis://127.0.0.1:{port}/0",
        }
        for state in states.values():
            fill(state, options.n, hosts)
        best: dict[str, dict[str, float]] = {}
        for turn in range(options.repeat):
            for name in SCHEDULERS:
                print(f"{hosts} hosts, run {turn + 1}: {name}", file=sys.stderr, flush=True)
                found = in_a_process(name, options, hosts, states.get(name, "sqlite:///-"), port)
                if name not in best or found["total"] < best[name]["total"]:
                    best[name] = found
    print(f"\n{options.n:,} start requests to {hosts:,} host{'s' if hosts > 1 else ''}\n")
    print(
        "| scheduler | enqueue, µs | rank, µs | dequeue, µs | total, µs | total, s | ratio "
        "| peak RSS, MiB | of it added |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    for name, found in best.items():
        steps = " | ".join(
            f"{found[step] / options.n * 1e6:.1f}"
            for step in ("enqueue", "rank", "dequeue", "total")
        )
        ratio = found["total"] / best["Scrapy's default"]["total"]
        print(
            f"| {name} | {steps} | {found['total']:.2f} | {ratio:.2f} "
            f"| {found['peak']:.0f} | {found['added']:.0f} |",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("-n", type=int, default=100_000, help="start requests (%(default)s)")
    parser.add_argument(
        "--hosts", type=int, nargs="+", default=[1, 1_000], help="hosts they go to (%(default)s)"
    )
    parser.add_argument("--repeat", type=int, default=3, help="runs; the best counts (%(default)s)")
    for internal in ("--one", "--state", "--port"):
        parser.add_argument(internal, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        run_one(options)
        return
    for hosts in options.hosts:
        with tempfile.TemporaryDirectory() as folder:
            compare(options, hosts, Path(folder))


if __name__ == "__main__":
    main()

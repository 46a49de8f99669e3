"""Crawl while things go wrong, for minutes, and see that nothing acknowledged is lost.

python benchmarks/soak.py [--responses 10000] [--minutes 5] [--seed 1]     # about 15 minutes
python benchmarks/soak.py --only malformed

Real crawls of `scholar` against local servers; nothing leaves this machine, and every part ends
by itself:

- malformed: one crawl of so many malformed answers (see tests/malformed.py): fuzzed pages, links of a
  megabyte, a million links on a page, 300,000 attributes on a tag, wrong charsets, endless bodies,
  broken compression, no HTTP. It has to end with status 0 and no traceback, to count every answer, to
  leave a whole state, and never to keep the event loop from its work for 2 s.
- redis: rounds of crawls of a growing site, with Redis killed and restarted, paused for 30 s or without
  memory, at random, until the minutes are over.
- cluster: the same with a cluster of three nodes, one replica each, whose primaries are killed in turn.

After each crawl every page must have as many visits as crawls ended well, whatever happened meanwhile.
Exits with status 1 where anything is wrong.
"""

import argparse
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import redis

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # servers and malformed answers
from hacs_crawler.exceptions import StateError
from hacs_crawler.state.address import open_store
from hacs_crawler.state.codec import encode_row
from hacs_crawler.state.database import State
from hacs_crawler.state.estimation import Estimation
from malformed import MalformedSite, Sizes, malformed_site
from servers import RedisCluster, RedisProcess, Site, redis_cluster

ROOT = Path(__file__).parents[1]
DURABLE = ("--appendonly", "yes", "--appendfsync", "always")
LONGEST_CRAWL_SECONDS = 3_600
PAUSE_SECONDS = 30.0
PAGES = 200
MEGABYTE = 2**20
LONGEST_STALL_MS = 2_000


class Ended:
    """A crawl that has ended: its status, its log, how long it took and the most memory it had."""

    def __init__(self, state: str, seeds: list[str], folder: Path, **settings: object) -> None:
        file = folder / "seeds.txt"
        file.write_text("\n".join(seeds) + "\n")
        command = [sys.executable, "-m", "scrapy", "crawl", "scholar"]
        command += ["-a", f"seeds={file}", "-a", "level=homepage"]
        options = {"HACS_STATE": state, "AUTOTHROTTLE_ENABLED": False, **settings}
        for name, value in options.items():
            command += ["-s", f"{name}={value}"]
        started = time.monotonic()
        with (folder / "crawl.log").open("w+b") as log:
            process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=log)
            killer = threading.Timer(LONGEST_CRAWL_SECONDS, process.kill)
            killer.start()
            _, status, usage = os.wait4(process.pid, 0)
            killer.cancel()
            process.returncode = os.waitstatus_to_exitcode(status)
        self.seconds = time.monotonic() - started
        self.status = process.returncode
        self.log = (folder / "crawl.log").read_text(errors="replace")
        self.most_megabytes = usage.ru_maxrss * 1024 / MEGABYTE
        self.cpu_seconds = usage.ru_utime + usage.ru_stime

    def stat(self, name: str) -> int:
        found = re.search(rf"'{re.escape(name)}': (\d+)", self.log)
        return int(found[1]) if found else 0

    def faults(self) -> list[str]:
        faults = [] if self.status == 0 else [f"exit status {self.status}"]
        faults += ["a traceback in the log"] if "Traceback" in self.log else []
        lost = self.stat("hacs/state/lost")
        return faults + ([f"{lost} visits lost"] if lost else [])


def visits_in(state: str) -> tuple[Counter[int], list[str]]:
    """Return how many pages have how many visits, and what is wrong in the state."""
    faults = []
    with closing(open_store(state, "hacs", Path())) as store:
        rows = {
            key: row.tobytes()
            for ids, batch in store.all_rows()
            for key, row in zip(ids.tolist(), batch, strict=True)
        }
        pages = State(store, Estimation()).load(list(rows))
    if rows.keys() != pages.keys():
        faults.append(f"{len(rows) - len(pages)} pages cannot be read")
    wrong = sum(encode_row(page) != rows[key] for key, page in pages.items())
    faults += [f"{wrong} rows differ from their pages"] if wrong else []
    return Counter(len(page.visits) for page in pages.values()), faults


def malformed(responses: int, folder: Path) -> list[str]:
    """Crawl malformed answers once, and print what came of it."""
    state = f"sqlite:///{folder}/malformed.db"
    site: MalformedSite
    with malformed_site(Sizes(links=1_000_000)) as site:
        crawl = Ended(
            state,
            site.urls(responses),
            folder,
            DOWNLOAD_DELAY=0,
            CONCURRENT_REQUESTS_PER_DOMAIN=16,
            DOWNLOAD_TIMEOUT=5,
            REDIRECT_MAX_TIMES=5,
            RETRY_ENABLED=False,
            EXTENSIONS='{"tests.heartbeat.Heartbeat": 0}',
        )
    faults = crawl.faults()
    stall = crawl.stat("heartbeat/longest_ms")
    if not 0 < stall < LONGEST_STALL_MS:
        faults.append(f"the event loop stood still for {stall} ms")
    visits, unseen = crawl.stat("hacs/visits"), crawl.stat("hacs/not_observed")
    if visits + unseen != responses:
        faults.append(f"{visits} visits and {unseen} without observation are not {responses}")
    pages, wrong = visits_in(state)
    faults += wrong
    known = responses - crawl.stat("hacs/not_observed/not_html")  # a seed that is none is no page
    if pages.total() != known:
        faults.append(f"the state has {pages.total()} pages of {known}")
    reasons = re.findall(r"'hacs/not_observed/(\w+)': (\d+)", crawl.log)
    print("| malformed answers | |\n|---|---:|")
    rows = {
        "seeds": f"{responses:,}",
        "requests": f"{sum(site.asked.values()):,}",
        "seconds": f"{crawl.seconds:.0f}",
        "CPU, s": f"{crawl.cpu_seconds:.0f}",
        "peak memory, MB": f"{crawl.most_megabytes:.0f}",
        "the event loop stood still, ms": f"{stall:,}",
        "visits": f"{visits:,}",
        **{f"not observed: {reason}": number for reason, number in reasons},
        "faults": f"{len(faults)}",
    }
    print("\n".join(f"| {name} | {number} |" for name, number in rows.items()))
    return faults


def soak(
    name: str,
    state: str,
    events: dict[str, Callable[[], None]],
    options: argparse.Namespace,
    folder: Path,
) -> list[str]:
    """Crawl a site again and again while events happen at random, until the time is over."""
    rng = random.Random(options.seed)
    faults: list[str] = []
    happened: Counter[str] = Counter()
    crawls = early = waited = 0
    deadline = time.monotonic() + 60 * options.minutes
    is_over = threading.Event()

    def disturb() -> None:
        while not is_over.wait(rng.uniform(1, 4)):
            event = rng.choice(list(events))
            happened[event] += 1
            events[event]()

    with Site() as site:
        for number in range(PAGES):
            site.set(f"/{number}/", f"/{number}/0.pdf")
        urls = [f"{site.url}/{number}/" for number in range(PAGES)]
        while time.monotonic() < deadline:
            for number in range(PAGES):
                site.set(f"/{number}/", *(f"/{number}/{one}.pdf" for one in range(crawls + 2)))
            is_over.clear()
            disturber = threading.Thread(target=disturb)
            wait_until_open(state)
            disturber.start()
            crawl = Ended(
                state,
                urls,
                folder,
                DOWNLOAD_DELAY=0.05,
                HACS_FLUSH_VISITS=5,
            )
            is_over.set()
            disturber.join()
            wait_until_open(state)
            site.visited()
            if not crawl.stat("hacs/ranked"):
                early += 1  # the state was away at the start: it ends before its first request
                continue
            crawls += 1
            waited += crawl.stat("hacs/state/errors")
            faults += crawl.faults()
            visits, wrong = visits_in(state)
            faults += wrong
            if visits != Counter({crawls: PAGES}):
                faults.append(f"after {crawls} crawls pages have {dict(visits)} visits")
                break
    events_text = ", ".join(f"{number} x {event}" for event, number in sorted(happened.items()))
    print(f"{name}: {crawls} crawls of {PAGES} pages; {events_text}")
    print(f"  {waited} operations of the state failed and were tried again; ", end="")
    print(f"{early} further crawls ended at once, as the state was away")
    return faults


def wait_until_open(state: str) -> None:
    deadline = time.monotonic() + 120
    while True:
        with suppress(StateError):
            open_store(state, "hacs", Path()).close()
            return
        if time.monotonic() > deadline:
            raise SystemExit(f"{state} did not come back")
        time.sleep(0.2)


def server_events(server: RedisProcess) -> dict[str, Callable[[], None]]:
    def restart() -> None:
        server.kill()
        time.sleep(1)
        server.start()

    def pause() -> None:
        server.pause()
        time.sleep(PAUSE_SECONDS)
        server.go_on()

    def fill() -> None:
        with redis.Redis(port=server.port) as client:
            client.config_set("maxmemory", 1)
            time.sleep(2)
            client.config_set("maxmemory", 0)

    return {"killed and restarted": restart, "paused for 30 s": pause, "out of memory": fill}


def cluster_events(cluster: RedisCluster) -> dict[str, Callable[[], None]]:
    turn = iter(range(10**6))

    def kill() -> None:
        node = next(turn) % len(cluster.ports)
        cluster.kill(node)
        time.sleep(5)
        cluster.start(node)
        cluster.wait_until_ok()
        cluster.wait_until_replicated()

    return {"a node killed": kill}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--responses", type=int, default=10_000, help="malformed (%(default)s)")
    parser.add_argument(
        "--minutes", type=float, default=5.0, help="of each other part (%(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the events (%(default)s)")
    parser.add_argument("--only", choices=("malformed", "redis", "cluster"))
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faults: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if options.only in (None, "malformed"):
            faults += malformed(options.responses, folder)
        if options.only in (None, "redis"):
            with RedisProcess(folder, *DURABLE) as server:
                faults += soak("redis", server.url, server_events(server), options, folder)
        if options.only in (None, "cluster"):
            settings = (*DURABLE, "--cluster-node-timeout", "2000")
            (folder / "cluster").mkdir()
            with redis_cluster(folder / "cluster", *settings, replicas=3) as cluster:
                faults += soak("cluster", cluster.url, cluster_events(cluster), options, folder)
    for fault in faults:
        print(f"WRONG: {fault}", file=sys.stderr)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()

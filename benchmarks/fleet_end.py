"""How soon a real fleet notices that its round is over, by how far away Redis is.

python benchmarks/fleet_end.py                                   # all of it, about half an hour
python benchmarks/fleet_end.py --workers 3 --delays 0 100 --rounds 1

Real `scrapy crawl scholar -a level=homepage` processes visit 60 homepages of 20 hosts on a local site.
Their state, queue and board are on a real Redis behind a proxy (tests/slow_proxy.py) that keeps what
comes back for so long, each way. For each number of workers and each delay:

- the end: from the last request that the site got until the last worker closes its spider,
  and until its process has ended;
- with `forever`, how much later than HACS_ROUND_MINUTES after the round before each round was begun.
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import redis

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from servers import Site, redis_server
from slow_proxy import SlowProxy

ROOT = Path(__file__).parents[1]
HOSTS = 20
SEEDS = 60
ROUND_MINUTES = 0.75
QUICK = ("AUTOTHROTTLE_ENABLED=False", "DOWNLOAD_DELAY=0.5", "CONCURRENT_REQUESTS_PER_DOMAIN=1")
LINE = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)[.,](\d{3}) .*?: (.*)$", re.MULTILINE)
BOARD = "hacs:{fleet.end}:board"
LONGEST_SECONDS = 400.0


class Fleet:
    """Workers on one site and one Redis; their logs are read when they have ended."""

    def __init__(self, folder: Path, port: int, site: Site, lease_seconds: float) -> None:
        self.site = site
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        seeds = folder / "seeds.txt"
        seeds.write_text(
            "".join(
                f"{site.url_of(f'127.0.0.{1 + number % HOSTS}')}/~a{number // HOSTS}/\n"
                for number in range(SEEDS)
            )
        )
        settings = [*QUICK, f"HACS_STATE=redis://127.0.0.1:{port}/0", "HACS_FLEET=end"]
        settings += [f"HACS_LEASE_SECONDS={lease_seconds}", f"HACS_ROUND_MINUTES={ROUND_MINUTES}"]
        settings += ["LOG_FORMAT=%(asctime)s.%(msecs)03d %(name)s: %(message)s"]
        settings += ["LOG_DATEFORMAT=%Y-%m-%d %H:%M:%S"]
        self._command = [sys.executable, "-m", "scrapy", "crawl", "scholar"]
        self._command += ["-a", "level=homepage", "-a", f"seeds={seeds}"]
        self._command += [part for one in settings for part in ("-s", one)]

    def start(self, number: int, *arguments: str) -> None:
        for worker in range(number):
            with (self._folder / f"worker-{worker}.log").open("wb") as log:
                self._processes.append(
                    subprocess.Popen(
                        [*self._command, *arguments],
                        cwd=ROOT,
                        stderr=log,
                        env={**os.environ, "TZ": "UTC"},
                    )
                )

    def wait(self, seconds: float = LONGEST_SECONDS) -> float:
        """Return when the last process ended, by `time.time`; infinity where that took too long."""
        deadline = time.monotonic() + seconds
        for process in self._processes:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                return float("inf")
        return time.time()

    def stop(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.terminate()
        for process in self._processes:
            process.wait()

    def lines(self) -> Iterator[tuple[float, str]]:
        """When each line was logged, and its message."""
        for log in self._folder.glob("worker-*.log"):
            for at, thousandths, message in LINE.findall(log.read_text()):
                second = datetime.fromisoformat(at).replace(tzinfo=UTC).timestamp()
                yield second + int(thousandths) / 1_000, message


@contextmanager
def fleet_at(delay: float, lease_seconds: float) -> Iterator[tuple[Fleet, int]]:
    with (
        tempfile.TemporaryDirectory() as name,
        redis_server(Path(name)) as port,
        SlowProxy(port, delay) as proxy,
        Site("0.0.0.0") as site,
    ):
        for number in range(SEEDS // HOSTS):
            site.set(f"/~a{number}/", "x.pdf")
        fleet = Fleet(Path(name), proxy.port, site, lease_seconds)
        try:
            yield fleet, port
        finally:
            fleet.stop()


def measure_end(workers: int, delay: float, lease_seconds: float) -> tuple[float, float, int, int]:
    """Return seconds until the spiders closed and until the processes ended, visits, and the epoch."""
    with fleet_at(delay, lease_seconds) as (fleet, port):
        fleet.start(workers)
        ended = fleet.wait()
        visits = sum(path != "/robots.txt" for _, path, _ in fleet.site.requests)
        closed = max((at for at, line in fleet.lines() if line.startswith("Closing")), default=0.0)
        with redis.Redis(port=port) as client:
            epoch = int(client.hget(BOARD, "epoch") or 0)
        last = fleet.site.times[-1]
        if ended == float("inf"):
            closed = ended
        return closed - last, ended - last, visits, epoch


def measure_rounds(workers: int, delay: float, lease_seconds: float, rounds: int) -> list[float]:
    """Return by how many seconds too late each round but the first was begun, by the board."""
    with fleet_at(delay, lease_seconds) as (fleet, port), redis.Redis(port=port) as client:
        fleet.start(workers, "-a", "forever=1")
        deadline = time.monotonic() + LONGEST_SECONDS
        began: dict[int, float] = {}
        tick = threading.Event()
        while len(began) <= rounds and time.monotonic() < deadline:
            tick.wait(0.5)
            number, at = client.hmget(BOARD, "round", "began")
            if number:
                began[int(number)] = float(at)
        times = [began[number] for number in sorted(began)]
        return [after - before - 60 * ROUND_MINUTES for before, after in pairwise(times)]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, nargs="+", default=[3, 8])
    parser.add_argument(
        "--delays", type=int, nargs="+", default=[0, 25, 100, 300], help="ms each way"
    )
    parser.add_argument("--lease-seconds", type=float, default=60.0)
    parser.add_argument("--rounds", type=int, default=2, help="of the fleet that goes on")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # and not without the workers
    print(
        "| workers | ms each way | visits | spiders closed, s | processes ended, s | epochs | late, s |"
    )
    print("|---:|---:|---:|---:|---:|---:|---:|")
    for workers in given.workers:
        for delay in given.delays:
            closed, ended, visits, epoch = measure_end(workers, delay / 1_000, given.lease_seconds)
            late = (
                measure_rounds(workers, delay / 1_000, given.lease_seconds, given.rounds)
                if given.rounds
                else []
            )
            shown = ", ".join(f"{seconds:.1f}" for seconds in late)
            print(
                f"| {workers} | {delay} | {visits} | {closed:.1f} | {ended:.1f} | {epoch} | {shown} |",
                flush=True,
            )


if __name__ == "__main__":
    main()

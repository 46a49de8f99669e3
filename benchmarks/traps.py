"""What pages of session links take of a real crawl's budget, run after run.

python benchmarks/traps.py              # about 5 minutes; --runs 40 --pages 200 --traps 20 --budget 22

A local web of twenty hosts: ordinary pages, which gain links at rates drawn log-normally (median
20 days, log deviation 1.5), and traps, which gain none, but whose links carry a session id that is new
with each request. A Scrapy project with the add-on crawls it once a day, by a clock that is moved. Hits
are visits that found a link which the page had gained.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from uuid import uuid4

import numpy as np

HERE = Path(__file__).parent
DAY = 86_400
START = 1_700_000_000
HOSTS = 20
MEDIAN_DAYS, LOG_SD = 20.0, 1.5
SPIDER = """
import scrapy

class Pages(scrapy.Spider):
    name = "pages"

    async def start(self):
        for line in open({seeds!r}):
            yield scrapy.Request(line.strip())

    def parse(self, response):
        pass
"""


def clock() -> float:
    """Return the time of the simulated day."""
    return float(os.environ["TRAPS_NOW"]) + time.monotonic() - float(os.environ["TRAPS_BEGAN"])


class Web:
    """What the pages show, and which visits there were."""

    def __init__(self, pages: int, traps: int, days: int, seed: int) -> None:
        random = np.random.default_rng(seed)
        rates = np.exp(random.normal(-np.log(MEDIAN_DAYS), LOG_SD, pages))
        self.updates = [
            np.sort(random.uniform(0, days * DAY, random.poisson(rate * days))) for rate in rates
        ]
        self.traps = traps
        self.now = 0.0
        self.seen: dict[int, int] = {}
        self.hits = 0
        self.visits: Counter[str] = Counter()

    def body(self, path: str) -> bytes:
        kind, number = path.strip("/").split("/")[:2]
        self.visits[kind] += 1
        if kind == "t":
            session = uuid4().hex[:12]
            links = [f"/menu/{one}?s={session}" for one in range(20)]
        else:
            page = int(number)
            gained = int(np.searchsorted(self.updates[page], self.now))
            self.hits += gained > self.seen.get(page, gained)
            self.seen[page] = gained
            links = [f"/p/{page}/{one}" for one in range(10 + gained)]
        return "".join(f'<a href="{link}">x</a>' for link in links).encode()


def serve(web: Web) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            known = self.path.startswith(("/p/", "/t/"))
            body = web.body(self.path) if known else b""
            self.send_response(200 if known else 404)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("0.0.0.0", 0), Handler)  # 127.0.0.1 to .20
    Thread(target=server.serve_forever, daemon=True).start()
    return server


def crawl(folder: Path, budget: int, now: float, settings: list[str]) -> str:
    environment = {
        **os.environ,
        "TRAPS_NOW": str(now),
        "TRAPS_BEGAN": str(time.monotonic()),
        "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]),
    }
    options = {
        "ADDONS": '{"hacs_crawler.addon.HacsAddon": 500}',
        "HACS_STATE": f"sqlite:///{folder}/state.sqlite",
        "HACS_BUDGET": budget,
        "HACS_CLOCK": "traps.clock",
        "ROBOTSTXT_OBEY": False,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
        "DOWNLOAD_DELAY": 0,
        "AUTOTHROTTLE_ENABLED": False,
    }
    arguments = [f"{key}={value}" for key, value in options.items()] + settings
    command = [sys.executable, "-m", "scrapy", "runspider", str(folder / "spider.py")]
    for one in arguments:
        command += ["-s", one]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, cwd=folder, check=True
    )
    return done.stderr


def measure(options: argparse.Namespace, traps: int, settings: list[str]) -> None:
    web = Web(options.pages, traps, options.runs + 30, options.seed)
    server = serve(web)
    port = server.server_address[1]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        urls = [f"http://127.0.0.{one % HOSTS + 1}:{port}/p/{one}/" for one in range(options.pages)]
        urls += [f"http://127.0.0.{one % HOSTS + 1}:{port}/t/{one}/" for one in range(traps)]
        np.random.default_rng(options.seed).shuffle(urls)
        (folder / "seeds.txt").write_text("\n".join(urls))
        (folder / "spider.py").write_text(SPIDER.format(seeds=str(folder / "seeds.txt")))
        shares = []
        for run in range(-1, options.runs):  # the first run sees everything once
            web.now = max(run, 0) * DAY + 30 * DAY * (run >= 0)
            before = Counter(web.visits)
            log = crawl(
                folder, options.budget if run >= 0 else len(urls), START + web.now, settings
            )
            made = web.visits - before
            shares.append(made["t"] / max(made.total(), 1))
            if options.verbose:
                print(run, dict(made), web.hits)
                print(
                    "\n".join(
                        one for one in log.splitlines() if "HACS" in one or "change with" in one
                    )
                )
        cells = [
            traps,
            " ".join(settings) or "the default",
            web.hits,
            f"{np.mean(shares[1:]):.1%}",
            f"{np.mean(shares[-10:]):.1%}",
            f"{traps / len(urls):.1%}",
        ]
        print(f"| {' | '.join(map(str, cells))} |", flush=True)
    server.shutdown()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name, default in (("runs", 40), ("pages", 200), ("traps", 20), ("budget", 22), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    print("| traps | settings | hits | visits to traps | in the last 10 runs | share of pages |")
    print("|---:|---|---:|---:|---:|---:|")
    run = partial(measure, options)
    for traps, settings in (
        (0, []),
        (options.traps, []),
        (options.traps, ["HACS_CONTROLS=0"]),
        (options.traps, ["HACS_POLICY=last-obs"]),
    ):
        run(traps, [*settings, *options.set])


if __name__ == "__main__":
    main()

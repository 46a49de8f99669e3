"""Found updates and CPU with HACS_RENDER never, auto and always, on a local web of 200 pages.

python benchmarks/rendering.py          # about 20 minutes; --runs 3 --pages 200 --apps 40

Ten hosts. The pages of two show their links only to a browser, as those of applications do: a script
fetches them. Of the other pages half have so much script that they look as if a browser showed more;
it does not. Each page gains a link a day with probability 0.3. A Scrapy project with the add-on crawls
all of them once a day, by a clock that is moved; the first run is the baseline. CPU is that of the crawl
and of all processes that it started, the browser's included, which this process inherits.
"""

import argparse
import ctypes
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

import numpy as np

from hacs_crawler.parts.rendering.launch import CHROMIUMS

CHROMIUM = next(filter(None, map(shutil.which, CHROMIUMS)), None)
HERE = Path(__file__).parent
DAY = 86_400
START = 1_700_000_000
HOSTS = 10
GAIN = 0.3
LINKS = 12
INHERIT_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER
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
SHELL = """<!doctype html><title>App</title><div id="root"></div><script src="/app.js"></script>"""
APP = """
fetch("/data" + location.pathname).then(answer => answer.json()).then(links => {
  document.querySelector("#root").innerHTML = links.map(one => `<p><a href="${one}">x</a>`).join("");
});
"""
SCRIPT = f"<script>/* {'x' * 20_000} */</script>"


def clock() -> float:
    """Return the time of the simulated day."""
    return float(os.environ["RENDERING_NOW"])


class Web:
    """What the pages show on a day."""

    def __init__(self, pages: int, apps: int, runs: int, seed: int) -> None:
        random = np.random.default_rng(seed)
        gains = random.random((pages, runs)) < GAIN
        gains[:, 0] = False
        self.links = LINKS - 4 + np.cumsum(gains, 1)
        self.updates = int(gains.sum())
        self.apps, self.day = apps, 0

    def answer(self, path: str) -> tuple[str, str]:
        kind, _, number = path.removeprefix("/data").strip("/").partition("/")
        if path == "/app.js":
            return "text/javascript", APP
        if not number.isdecimal():
            return "text/plain", ""
        links = [f"/{kind}/{number}/{one}" for one in range(self.links[int(number), self.day])]
        if path.startswith("/data"):
            return "application/json", json.dumps(links)
        if kind == "app":
            return "text/html", SHELL
        anchors = "".join(f'<p><a href="{link}">x</a>' for link in links)
        return "text/html", anchors + (SCRIPT if int(number) % 2 else "")

    def urls(self, port: int) -> list[str]:
        found = []
        for number in range(len(self.links)):
            is_app = number < self.apps
            host = number % 2 if is_app else 2 + number % (HOSTS - 2)
            found.append(f"http://127.0.0.{1 + host}:{port}/{'app' if is_app else 'p'}/{number}")
        return found


def serve(web: Web) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            kind, text = web.answer(urlsplit(self.path).path)
            body = text.encode()
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("0.0.0.0", 0), Handler)
    server.daemon_threads = True
    Thread(target=server.serve_forever, daemon=True).start()
    return server


def crawl(folder: Path, mode: str, day: int) -> tuple[float, float, dict[str, float]]:
    """Return the CPU seconds of a crawl and of all its processes, its seconds, and its stats."""
    environment = {
        **os.environ,
        "RENDERING_NOW": str(START + day * DAY),
        "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]),
    }
    options = {
        "ADDONS": '{"hacs_crawler.addon.HacsAddon": 500}',
        "HACS_STATE": f"sqlite:///{folder}/{mode}.sqlite",
        "HACS_CLOCK": "rendering.clock",
        "HACS_RENDER": mode,
        "ROBOTSTXT_OBEY": False,
        "DOWNLOAD_DELAY": 0,
        "LOG_LEVEL": "INFO",
        "PLAYWRIGHT_LAUNCH_OPTIONS": json.dumps(
            {"executable_path": CHROMIUM, "args": ["--no-sandbox"]}
        ),
    }
    command = [sys.executable, "-m", "scrapy", "runspider", str(folder / "spider.py")]
    command += [part for key, value in options.items() for part in ("-s", f"{key}={value}")]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, env=environment, cwd=folder, stderr=subprocess.PIPE, check=True)
    seconds = time.monotonic() - began
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    found = re.findall(r"'hacs/([\w/]+)': ([\d.]+)", done.stderr.decode())
    return cpu, seconds, {name: float(value) for name, value in found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--pages", type=int, default=200)
    parser.add_argument("--apps", type=int, default=40)
    parser.add_argument("--modes", default="never,auto,always")
    arguments = parser.parse_args()
    ctypes.CDLL(None).prctl(INHERIT_ORPHANS, 1, 0, 0, 0)
    web = Web(arguments.pages, arguments.apps, arguments.runs, seed=1)
    server = serve(web)
    print(f"{web.updates} updates in {arguments.runs} runs\n")
    print(
        "| HACS_RENDER | updates found | pages rendered | looked at both ways | CPU, s | of it first run"
        " | each later run | time, s |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        seeds = folder / "seeds.txt"
        seeds.write_text("\n".join(web.urls(server.server_port)) + "\n")
        (folder / "spider.py").write_text(SPIDER.format(seeds=str(seeds)))
        for mode in arguments.modes.split(","):
            cpus, took, totals = (
                [],
                0.0,
                {"updates": 0.0, "render/pages": 0.0, "render/checks": 0.0},
            )
            for day in range(arguments.runs):
                web.day = day
                cpu, seconds, stats = crawl(folder, mode, day)
                cpus.append(cpu)
                took += seconds
                for key in totals:
                    totals[key] += stats.get(key, 0)
            counts = " | ".join(f"{value:.0f}" for value in totals.values())
            later = sum(cpus[1:]) / max(1, len(cpus) - 1)
            print(
                f"| {mode} | {counts} | {sum(cpus):.1f} | {cpus[0]:.1f} | {later:.1f} | {took:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()

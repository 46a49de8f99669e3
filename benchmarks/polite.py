"""Wall time of a polite crawl of several hosts, with and without HACS.

    python benchmarks/polite.py

Crawls 25 pages on each of 8 hosts of this machine with a delay of 0.2 s, in processes of their own and
in turns: Scrapy alone, with HACS on an empty state, and with HACS when every page is known, with
siblings and without. The start requests come host by host (the worst order for a queue that does not
look at hosts) or shuffled. Seconds are those between the first and the last request that the site saw.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # the tests' site

from servers import Site

HOSTS = 8
PAGES = 25
DELAY_SECONDS = 0.2
SPIDER = f"""
import random

import scrapy

class Polite(scrapy.Spider):
    name = "polite"

    async def start(self):
        urls = [
            f"http://127.0.0.{{host}}:{{self.port}}/{{page}}/"
            for host in range(1, {HOSTS + 1})
            for page in range({PAGES})
        ]
        if self.order == "shuffled":
            random.Random(1).shuffle(urls)
        for url in urls:
            yield scrapy.Request(url)

    def parse(self, response):
        return {{"url": response.url}}
"""


def crawl(folder: Path, site: Site, order: str, settings: list[str]) -> float:
    """Return the seconds from the first to the last request of one crawl."""
    file = folder / "polite.py"
    file.write_text(SPIDER)
    port = site.url.rpartition(":")[2]
    common = ["LOG_LEVEL=WARNING", "TELNETCONSOLE_ENABLED=0", f"DOWNLOAD_DELAY={DELAY_SECONDS}"]
    common += ["DOWNLOAD_DELAY_JITTER=0", "RANDOMIZE_DOWNLOAD_DELAY=0"]
    command = [sys.executable, "-W", "ignore", "-m", "scrapy", "runspider", str(file)]
    command += ["-a", f"order={order}", "-a", f"port={port}"]
    command += [part for one in (*common, *settings) for part in ("-s", one)]
    site.times.clear()
    subprocess.run(command, cwd=folder, check=True)
    times = list(site.times)
    if len(times) != HOSTS * PAGES:
        sys.exit(f"{len(times)} requests instead of {HOSTS * PAGES}")
    return times[-1] - times[0]


def contenders(folder: Path, turn: int, order: str) -> dict[str, list[str]]:
    addon = ['ADDONS={"hacs_crawler.addon.HacsAddon": 500}']
    addon += [f"HACS_STATE=sqlite:///{folder}/{turn}-{order}.db"]
    return {
        "Scrapy alone": [],
        "HACS, new pages": addon,
        "HACS, known pages": addon,
        "HACS, known pages, no siblings": [*addon, "HACS_SIBLINGS=False"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    found: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as name, Site("0.0.0.0") as site:
        folder = Path(name)
        for page in range(PAGES):
            site.set(f"/{page}/", *(f"/{page}/{link}" for link in range(10)))
        for turn in range(options.rounds):
            for order in ("grouped", "shuffled"):
                for contender, settings in contenders(folder, turn, order).items():
                    print(f"round {turn + 1}, {order}: {contender}", file=sys.stderr, flush=True)
                    seconds = crawl(folder, site, order, settings)
                    found.setdefault((order, contender), []).append(seconds)
    print("| start requests | crawl | seconds (median, range) | ratio |")
    print("|---|---|---:|---:|")
    for (order, contender), seconds in found.items():
        middle, alone = median(seconds), median(found[order, "Scrapy alone"])
        spread = f"{middle:.2f} ({min(seconds):.2f}-{max(seconds):.2f})"
        print(f"| {order} | {contender} | {spread} | {middle / alone:.2f} |")


if __name__ == "__main__":
    main()

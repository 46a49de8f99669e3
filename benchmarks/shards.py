"""`hacs crawl` over 4 and 16 shards beside one `scrapy crawl`, and workers of a Dask cluster.

python benchmarks/shards.py                              # 100,000 known pages, two minutes
python benchmarks/shards.py --pages 10000 1000000
python benchmarks/shards.py --workers 1 2                # with four idle cores
python benchmarks/shards.py --workers 1 2 --wait 0.15    # with two: workers wait for answers, too

So many pages are known; of these 1,000, five on each of 200 hosts, are on a local site, and the best by
far, so that a budget of 1,000 chooses them. Hosts have no delay. "scrapy crawl" has all pages in one
state, the others in shards in SQLite: "hacs crawl" in 4 or 16, "N workers" in 16. "hacs crawl" runs as
many crawls at a time as there are cores, "N workers" are processes of a Dask cluster on this machine
with one thread each. Seconds are from the start of the command to its end, "plan" of these to the first
request. CPU is of all processes of the command, user and system; of a cluster it would include Dask's
own. "Against one" is CPU divided by that of `scrapy crawl`. Of `--repeat` runs the one with the least
CPU counts.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import closing
from http.server import BaseHTTPRequestHandler
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from crawls_support import Shards, Web, dask, finish
from hacs_crawler.links import page_id_of, site_id
from hacs_crawler.state import Estimation, Page, open_state, shard_of_page, shards_of
from hacs_crawler.state.codec import encode_page
from hacs_crawler.state.store import Change
from hacs_crawler.utils.times import DAY
from row_states import rows_of
from servers import Site

CRAWLED, A_HOST = 1_000, 5
A_WRITE = 5_000
MOST_SECONDS = 3_600.0
SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of prctl(2): processes whose parent has ended become this one's."""


class SlowSite(Site):
    """A site that answers after a time."""

    seconds = 0.0

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        time.sleep(self.seconds)
        super().answer(handler)


def changes(pages: int, site: Site) -> dict[str, Change]:
    """Make known pages, by URL, of which those on the site are the best."""
    now, found = int(time.time()), dict[str, Change]()
    _, rows = rows_of(min(pages, 100_000), new=0.0)
    for number in range(pages):
        host = number // A_HOST
        if is_crawled := number < CRAWLED:
            url = f"{site.url_of(f'127.0.1.{1 + host}')}/{number}"
            site.set(f"/{number}", "/a", "/b")
        else:
            url = f"http://h{host}.example/{number}"
        row = rows[number % len(rows)].copy()
        row["site"], row["failures"], row["not_before"], row["updates"] = site_id(url), 0, 0, 0
        row["rate"] = 1.0 if is_crawled else 1e-3 * row["rate"]
        row["fast"] = row["slow"] = row["rate"]
        row["last_visit"] = row["last_update"] = now - (9 * DAY if is_crawled else DAY)
        row["visits"] = 5
        found[url] = Change(page_id_of(url), 0, encode_page(Page(url, version=1)), row.tobytes())
    return found


def fill(address: str, namespace: str, known: list[Change]) -> None:
    with closing(open_state(address, namespace, Path("/"), Estimation())) as state:
        for start in range(0, len(known), A_WRITE):
            state.store.write(known[start : start + A_WRITE])


def cpu_seconds() -> float:
    """Return the CPU time of all child processes that have ended, once all have."""
    try:
        while True:
            os.waitpid(-1, 0)
    except ChildProcessError:
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime


def crawl(folder: Path, address: str, site: Site, by: str, shards: int) -> list[float]:
    """Return the seconds of CPU, and those to the first request and to the end."""
    web = Web(site, 0, 0, len(site.requests))
    settings = {"HACS_BUDGET": CRAWLED, "AUTOTHROTTLE_ENABLED": False, "LOG_LEVEL": "WARNING"}
    settings |= {"ROBOTSTXT_OBEY": False, "DOWNLOAD_DELAY": 0}
    project = Shards(folder, web, address, settings)
    given = ("-a", "seeds=state", "-a", "level=homepage")
    before, began = cpu_seconds(), time.time()
    if by == "scrapy crawl":
        pairs = {"HACS_STATE": address, **settings}.items()
        options = [part for name, value in pairs for part in ("-s", f"{name}={value}")]
        command = [sys.executable, "-m", "scrapy", "crawl", "scholar", *given, *options]
        subprocess.run(command, cwd=folder, env=project.environment, check=True)
    elif by.startswith("hacs crawl"):
        finish(project.start("scholar", *given, shards=shards), seconds=MOST_SECONDS)
    else:
        with dask(project, int(by.split(maxsplit=1)[0])) as there:
            began = time.time()
            started = project.start("scholar", *given, "--dask", there.address, shards=shards)
            finish(started, seconds=MOST_SECONDS)
            ended = time.time()
    asked = web.asked()
    assert len(asked) == len(set(asked)) == CRAWLED, len(asked)
    first = min(site.times[web.seen :]) - began
    whole = (time.time() if "worker" not in by else ended) - began
    return [cpu_seconds() - before, first, whole]


def measured(known: dict[str, Change], site: Site, by: str) -> list[float]:
    """Make the states, crawl, and return what `crawl` does."""
    shards = 4 if by.endswith(", 4 shards") else 16
    with tempfile.TemporaryDirectory() as name:
        address = f"sqlite:///{name}/state.db"
        if by == "scrapy crawl":
            fill(address, "hacs", list(known.values()))
        else:
            by_shard = defaultdict[int, list[Change]](list)
            for url, change in known.items():
                by_shard[shard_of_page(url, shards)].append(change)
            for shard in shards_of(shards):
                fill(address, shard.namespace("hacs"), by_shard[shard.index])
        return crawl(Path(name), address, site, by, shards)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--pages", type=int, nargs="+", default=[100_000])
    parser.add_argument("--workers", type=int, nargs="*", default=[])
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--wait", type=float, default=0.0, help="seconds that each answer takes")
    chosen = parser.parse_args()
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    head = ("pages known", "by", "plan, s", "all, s", "CPU, s", "against one")
    print(f"| {' | '.join(head)} |\n|---:|---|---:|---:|---:|---:|", flush=True)
    kinds = ["scrapy crawl", "hacs crawl, 4 shards", "hacs crawl, 16 shards"]
    kinds += [f"{number} worker{'s' if number > 1 else ''}" for number in chosen.workers]
    for pages in chosen.pages:
        with SlowSite("0.0.0.0") as site:
            site.seconds = chosen.wait
            known, one = changes(pages, site), 0.0
            for by in kinds:
                cpu, plan, whole = min(measured(known, site, by) for _ in range(chosen.repeat))
                one = one or cpu
                shown = ["", ""] if "worker" in by else [f"{cpu:.1f}", f"{cpu / one:.2f}"]
                cells = [f"{pages:,}", by, f"{plan:.1f}", f"{whole:.1f}", *shown]
                print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()

"""`hacs crawl` over 16 shards: two workers against one, and what the plan takes beside one process's.

python benchmarks/shards.py                                   # 100,000 known pages, some minutes
python benchmarks/shards.py --pages 100000 1000000 10000000 --workers 1 2

So many pages are known, in shards on a Redis of their own; of these 1,000, 24 a host, are on a local
site, and the best by far, so that a budget of 1,000 chooses them. A host is asked every `--delay`
seconds, so that crawls wait for hosts as they do out there. "Plan" is from the start of the command to
the first request, "crawl" from there to the last one; "plan of one process" is that of all shards one
after the other in this process, which chooses the same pages.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import redis

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from crawls_support import Shards, Web, dask, finish
from hacs_crawler.links import page_id_of, site_id
from hacs_crawler.shards.plan import plan_of_shards
from hacs_crawler.state import (
    Estimation,
    Page,
    StateArguments,
    open_state,
    shard_of_page,
    shards_of,
)
from hacs_crawler.state.codec import encode_page
from hacs_crawler.state.store import Change
from hacs_crawler.utils.times import DAY
from row_states import options, rows_of
from servers import RedisProcess, Site

SHARDS, CRAWLED, A_HOST = 16, 1_000, 24
A_WRITE = 5_000
MOST_SECONDS = 3_600.0


def fill(arguments: list[StateArguments], pages: int, site: Site) -> None:
    """Have the states know so many pages, of which those on the site are the best."""
    now = int(time.time())
    urls = [
        f"{site.url_of(f'127.0.{1 + number // A_HOST // 250}.{1 + number // A_HOST % 250}')}/{number}"
        for number in range(CRAWLED)
    ]
    for url in urls:
        site.set(f"/{url.rpartition('/')[2]}", "/a", "/b")
    _, rows = rows_of(min(pages, 100_000), new=0.0)
    waiting: list[list[Change]] = [[] for _ in arguments]
    for number in range(pages):
        url = urls[number] if number < CRAWLED else f"http://h{number // A_HOST}.example/{number}"
        row = rows[number % len(rows)].copy()
        row["site"], row["failures"], row["not_before"], row["updates"] = site_id(url), 0, 0, 0
        row["rate"] = 1.0 if number < CRAWLED else 1e-3 * row["rate"]
        row["last_visit"] = row["last_update"] = now - (9 * DAY if number < CRAWLED else DAY)
        row["visits"] = 5
        shard = shard_of_page(url, len(arguments))
        body = encode_page(Page(url, version=1))
        waiting[shard].append(Change(page_id_of(url), 0, body, row.tobytes()))
        if len(waiting[shard]) >= A_WRITE or number == pages - 1:
            for place in [shard] if number < pages - 1 else range(len(arguments)):
                with closing(open_state(*arguments[place])) as state:
                    state.store.write(waiting[place])
                waiting[place] = []


def seconds_of_one_process(arguments: list[StateArguments]) -> float:
    """How long one process plans all shards."""
    began = time.perf_counter()
    states = [open_state(*one) for one in arguments]
    plan = plan_of_shards(states, options(budget=CRAWLED), time.time())
    for state in states:
        state.close()
    assert len(plan) == CRAWLED
    return time.perf_counter() - began


def crawl(folder: Path, url: str, site: Site, workers: int, delay: float) -> tuple[float, float]:
    """How long it takes to the first request, and from there to the last."""
    (folder / "project").mkdir(parents=True)
    web = Web(site, 0, 0, len(site.requests))
    project = Shards(
        folder / "project", web, url, {"DOWNLOAD_DELAY": delay, "HACS_BUDGET": CRAWLED}
    )
    settings = {"AUTOTHROTTLE_ENABLED": False, "ROBOTSTXT_OBEY": False, "LOG_LEVEL": "WARNING"}
    with dask(project, workers) as there:
        there.wait_for_workers(workers)
        began = time.time()
        given = ("-a", "seeds=state", "-a", "level=homepage", "--dask", there.address)
        done = finish(project.start("scholar", *given, shards=SHARDS, **settings), MOST_SECONDS)
    asked = web.asked()
    assert done.status == 0, done.log
    assert len(asked) == len(set(asked)) == CRAWLED, (len(asked), done.table)
    times = site.times[web.seen :]
    return min(times) - began, max(times) - min(times)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--pages", type=int, nargs="+", default=[100_000])
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--delay", type=float, default=0.25)
    chosen = parser.parse_args()
    print(
        "| pages known | by | plan, s | crawl, s | all, s |\n|---:|---|---:|---:|---:|", flush=True
    )
    for pages in chosen.pages:
        with tempfile.TemporaryDirectory() as name, Site("0.0.0.0") as site:
            folder = Path(name)
            with RedisProcess(folder) as server:
                namespaces = [shard.namespace("hacs") for shard in shards_of(SHARDS)]
                arguments = [(server.url, one, Path("/"), Estimation()) for one in namespaces]
                fill(arguments, pages, site)
                alone = seconds_of_one_process(arguments)
                with redis.Redis(port=server.port, socket_timeout=None) as client:  # minutes
                    client.save()
            print(f"| {pages:,} | plan of one process | {alone:.1f} |  |  |", flush=True)
            for workers in chosen.workers:
                own = folder / str(workers)
                own.mkdir()
                shutil.copy(folder / "dump.rdb", own)
                with RedisProcess(own) as server:
                    plan, rest = crawl(own, server.url, site, workers, chosen.delay)
                line = f"{workers} worker{'s' if workers > 1 else ''}"
                print(
                    f"| {pages:,} | {line} | {plan:.1f} | {rest:.1f} | {plan + rest:.1f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()

"""Kill a crawl at random moments and look at what it left in the state.

python benchmarks/kills.py [--kills 20] [--seed 1] [--pages 200]     # about two minutes

A real `scrapy crawl scholar` of a local site, with its state in SQLite and then in Redis, gets SIGKILL
after a random number of pages (one in ten while it still starts), and a crawl on the same state
follows; between two crawls a third of the pages gain a link. After every kill the state is opened and
read whole: every page decodes, its ranking row says the same as the page, each link was first seen
together with just those that the site gained then, no page has more visits than it was served, and every
visit has its outcome record. In the end a crawl that nobody kills visits every page. "Lost" visits were
served but are not in the state, among them those whose response was still on its way. Exits with 1 where
anything is inconsistent.
"""

import argparse
import os
import random
import signal
import socketserver
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from itertools import accumulate
from pathlib import Path
from types import TracebackType
from typing import Self

from parsel import Selector

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # servers: a redis-server, a web site
from hacs_crawler.exceptions import StateError
from hacs_crawler.links.extract import link_fingerprints
from hacs_crawler.links.keys import page_id_of
from hacs_crawler.state.address import open_store
from hacs_crawler.state.codec import ROW, decode_page, encode_row
from hacs_crawler.state.outcome_log import sorted_outcomes
from hacs_crawler.state.page import Page
from servers import Site, redis_server

ROOT = Path(__file__).parents[1]
SETTINGS = {
    "AUTOTHROTTLE_ENABLED": False,
    "DOWNLOAD_DELAY": 0,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 16,
    "HACS_FLUSH_VISITS": 5,
    "LOG_LEVEL": "WARNING",
}
LONGEST_START_SECONDS = 1.5
LONGEST_PAUSE_SECONDS = 0.05
LONGEST_CRAWL_SECONDS = 60


class GrowingSite:
    """A web site whose pages gain links, and which remembers every set of links it had."""

    def __init__(self, pages: int, folder: Path, rng: random.Random) -> None:
        self._site = Site()
        self._rng = rng
        self._links = [rng.randrange(2, 30) for _ in range(pages)]
        self.versions: dict[int, list[frozenset[int]]] = {}
        self.served: Counter[int] = Counter()
        self._ids = {
            f"/{index}/": page_id_of(f"{self._site.url}/{index}/") for index in range(pages)
        }
        for index in range(pages):
            self._publish(index)
        self.seeds = folder / "seeds.txt"
        self.seeds.write_text("".join(f"{self._site.url}{path}\n" for path in self._ids))

    def _publish(self, index: int) -> None:
        path = f"/{index}/"
        self._site.set(path, *(f"paper{number}.pdf" for number in range(self._links[index])))
        text = self._site.pages[path][2].decode()
        links = link_fingerprints(Selector(text).root, self._site.url + path)
        self.versions.setdefault(self._ids[path], []).append(links)

    def grow(self) -> None:
        for index in self._rng.sample(range(len(self._links)), len(self._links) // 3):
            self._links[index] += 1
            self._publish(index)

    def requests(self) -> int:
        """Return how many pages were asked for since `note_served`."""
        return sum(path in self._ids for path in self._site.asked)

    def note_served(self) -> None:
        self.served.update(self._ids[path] for path in self._site.visited() if path in self._ids)

    def __enter__(self) -> Self:
        self._site.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._site.__exit__(kind, error, trace)


def start(state: str, seeds: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "scrapy", "crawl", "scholar"]
    command += ["-a", f"seeds={seeds}", "-a", "level=homepage"]
    for name, value in {**SETTINGS, "HACS_STATE": state}.items():
        command += ["-s", f"{name}={value}"]
    return subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONUNBUFFERED": "1"})


def kill_at_random(process: subprocess.Popen[bytes], site: GrowingSite, rng: random.Random) -> bool:
    """Kill a crawl while it starts or after some pages; False where it ended before that."""
    pages = rng.randrange(-len(site.versions) // 10, len(site.versions))
    deadline = time.monotonic() + LONGEST_CRAWL_SECONDS
    if pages < 0:
        time.sleep(rng.uniform(0, LONGEST_START_SECONDS))
    else:
        while site.requests() <= pages and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.0005)
        time.sleep(rng.uniform(0, LONGEST_PAUSE_SECONDS))
    process.send_signal(signal.SIGKILL)
    return process.wait() == -signal.SIGKILL


def page_faults(page: Page, row: bytes, versions: list[frozenset[int]], served: int) -> list[str]:
    """Return what is wrong with one page."""
    faults = []
    if encode_row(page) != row:
        faults.append("row and page differ")
    if len(page.visits) > served:
        faults.append(f"{len(page.visits)} visits of {served} answers")
    # rates that follow the prior at the end of a crawl are a write, too
    if len(page.visits) > page.version or len(page.runs) // 2 > len(page.visits):
        faults.append(f"{len(page.visits)} visits in {page.version} writes")
    sizes = accumulate(page.runs[1::2])
    if not all(frozenset(page.links[:size]) in versions for size in sizes) or not page.links:
        faults.append("links that the site never had together")
    return faults


def look(state: str, site: GrowingSite) -> tuple[int, list[str]]:
    """Open and read the whole state; returns the number of visits in it and what is wrong."""
    faults = []
    visits = 0
    if state.startswith("sqlite"):
        with closing(sqlite3.connect(state.removeprefix("sqlite:///"))) as database:
            found = database.execute("PRAGMA integrity_check").fetchone()[0]
        faults += [] if found == "ok" else [f"integrity_check: {found}"]
    try:
        with closing(open_store(state, "hacs", Path())) as store:
            rows = {
                key: row.tobytes()
                for ids, batch in store.all_rows()
                for key, row in zip(ids.tolist(), batch.astype(ROW), strict=True)
            }
            bodies = store.load(list(site.versions))
            records = sorted_outcomes(store.outcomes())
    except StateError as error:
        return 0, [*faults, str(error)]
    if rows.keys() != bodies.keys():
        faults.append(f"{len(rows.keys() ^ bodies.keys())} rows without a page, or the reverse")
    recorded = set(zip(records["page_id"].tolist(), records["at"].tolist(), strict=True))
    for key in rows.keys() & bodies.keys():
        try:
            page = decode_page(bodies[key])
        except StateError as error:
            faults.append(str(error))
            continue
        visits += len(page.visits)
        recorded ^= {(key, at) for at in page.visits}
        wrong = page_faults(page, rows[key], site.versions[key], site.served[key])
        faults += [f"{page.url}: {one}" for one in wrong]
    if recorded:
        faults.append(f"{len(recorded)} visits without an outcome record, or the reverse")
    return visits, faults


def kill_crawls(name: str, state: str, options: argparse.Namespace) -> int:
    """Kill crawls on one state and print a line; returns the number of inconsistencies."""
    rng = random.Random(options.seed)
    kills = visits = most_lost = faulty = 0
    with (
        tempfile.TemporaryDirectory() as folder,
        GrowingSite(options.pages, Path(folder), rng) as site,
    ):
        while kills < options.kills:
            process = start(state, site.seeds)
            kills += kill_at_random(process, site, rng)
            answered = site.requests()
            site.note_served()
            seen, faults = look(state, site)
            most_lost = max(most_lost, answered - (seen - visits))
            visits = seen
            faulty += len(faults)
            for fault in faults:
                print(f"\n{name}, kill {kills}: {fault}", file=sys.stderr)
            print(f"\r{name}: {kills} of {options.kills} killed", end="", file=sys.stderr)
            site.grow()
        served = site.served.total()
        status = start(state, site.seeds).wait(LONGEST_CRAWL_SECONDS)
        last = site.requests()
        site.note_served()
        seen, faults = look(state, site)
        faults += [f"the last crawl ended with status {status}"] if status else []
        if not last == seen - visits == options.pages:
            faults.append(f"the last crawl asked for {last} pages and recorded {seen - visits}")
        for fault in faults:
            print(f"\n{name}, at the end: {fault}", file=sys.stderr)
        faulty += len(faults)
    print("\r", end="", file=sys.stderr, flush=True)
    print(
        f"| {name} | {kills} | {served:,} | {visits:,} | {served - visits} | {most_lost} | {faulty} |",
        flush=True,
    )
    return faulty


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=20, help="on each state (%(default)s)")
    parser.add_argument("--pages", type=int, default=200, help="pages of the site (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the moments (%(default)s)")
    options = parser.parse_args()
    # clients that are killed reset their connections: not worth a traceback each
    socketserver.BaseServer.handle_error = lambda *_: None  # type: ignore[method-assign]
    print("| state | kills | served | recorded | lost | most lost at a kill | inconsistencies |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        faulty = kill_crawls("SQLite", f"sqlite:///{folder}/state.db", options)
        with redis_server(Path(folder)) as port:
            faulty += kill_crawls("Redis", f"redis://127.0.0.1:{port}/0", options)
    sys.exit(1 if faulty else 0)


if __name__ == "__main__":
    main()

"""Harvest real histories from a real archive with `scrapy crawl wayback`, and see what it costs.

python benchmarks/wayback.py ../shared/data/scholarly-timelines     # about four minutes

The folder holds true link histories of pages and the times at which an archive captured them
(versions.jsonl.gz, captures.csv; its README says more). Of them WARC files are made, one a site: each
capture is a page of the links it had then, and what its URL showed before is a revisit record. pywb
indexes and serves them, and three read them in turn:

- the spider, website level, from pywb into an empty state;
- a bare client, which asks pywb for just what the spider asked, as many requests at once, and throws
  the answers away: as fast as the archive can be;
- `hacs import` of the WARC files into an empty state.

Both states are compared page by page with one into which the same visits were recorded directly, all
with their links. Exits with status 1 where anything differs. Then the spider's peak memory is measured
on sites of many pages and captures, served by a minimal server of the Wayback Machine's dialect.

pywb is installed on first use, into pytest's cache, from the package registry.
"""

import argparse
import csv
import gzip
import hashlib
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from base64 import b32encode
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psutil

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # pywb_archive: a real archive
from hacs_crawler.archive import payload_links
from hacs_crawler.state import follow_prior
from hacs_crawler.state.address import open_store
from hacs_crawler.state.codec import decode_page
from hacs_crawler.state.database import State
from hacs_crawler.state.estimation import Estimation
from hacs_crawler.state.page import Page, Visit
from hacs_crawler.utils.times import DAY
from pywb_archive import Archived, pywb_archive, pywb_python, write_warc
from wayback_machine import page

ROOT = Path(__file__).parents[1]
CACHE = ROOT / ".pytest_cache" / "d" / "pywb"
SETTINGS = {"AUTOTHROTTLE_ENABLED": False, "DOWNLOAD_DELAY": 0, "LOG_LEVEL": "INFO"}
QUICK = {"cdx_per_minute": 0, "mementos_per_minute": 0}
FILES = ("versions.jsonl.gz", "captures.csv")
BATCH = 1_000
TOLERANCE = 1e-3
"""Of λ: rates do not follow a prior that is nearly the same."""
MIB = 1 << 20

Histories = dict[str, list[Archived]]
"""By homepage: all captures of a site."""


def read_histories(folder: Path, sites: int) -> Histories:
    """Return the captures of so many sites, each with the links that its page had then."""
    times: dict[str, list[int]] = defaultdict(list)
    with (folder / "captures.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            times[row["url"]].append(second(row["captured_at"]))
    histories: Histories = {}
    with gzip.open(folder / "versions.jsonl.gz", "rt") as lines:
        for page in map(json.loads, lines):
            if page["site"] in histories or len(histories) < sites:
                captures = histories.setdefault(page["site"], [])
                captures += captures_of(page, sorted(times[page["url"]]))
    return histories


def captures_of(page: dict[str, Any], times: Iterable[int]) -> Iterator[Archived]:
    """Replay a page's versions up to each time."""
    links: set[str] = set()
    versions = [(second(version["at"]), version) for version in page["versions"]]
    for at in times:
        while versions and versions[0][0] <= at:
            _, version = versions.pop(0)
            links = links.difference(version["removed"]).union(version["added"])
        shown = tuple(f"http://links.example.org/{link}" for link in sorted(links))
        yield Archived(page["url"], at, shown)


def second(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


def write_warcs(histories: Histories, folder: Path) -> list[Path]:
    folder.mkdir()
    return [
        write_warc(folder / f"site{number:03}.warc.gz", captures)
        for number, captures in enumerate(histories.values())
    ]


def record_directly(histories: Histories, state: str) -> None:
    """Record every capture as a visit with its links, as a crawler of one's own would have."""
    visits = [
        Visit(one.url, one.at, marks=payload_links(one.payload, {}.get, one.url))
        for captures in histories.values()
        for one in captures
    ]
    with closing(open_store(state, "hacs", Path())) as store:
        state = State(store, Estimation())
        for start in range(0, len(visits), BATCH):
            state.record(visits[start : start + BATCH])
        follow_prior(state, lambda *_: None)  # as crawls and imports do at their end


def pages_in(state: str) -> dict[int, Page]:
    with closing(open_store(state, "hacs", Path())) as store:
        return {
            key: decode_page(body)
            for ids, _ in store.all_rows()
            for key, body in store.load(ids.tolist()).items()
        }


@dataclass
class Run:
    """What a process took; `busy` is all processes' CPU time meanwhile, `stats` are Scrapy's."""

    wall: float
    cpu: float
    busy: float
    peak: int
    stats: dict[str, float]


def run(command: Sequence[str], log: Path) -> Run:
    """Run a process to its end; its peak memory is looked up 20 times a second."""
    start, busy = time.perf_counter(), cpu_of_all()
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=ROOT, stdout=output, stderr=output)
    watch = threading.Event()
    peaks = [0]
    watcher = threading.Thread(target=watch_memory, args=(process.pid, watch, peaks))
    watcher.start()
    _, status, used = os.wait4(process.pid, 0)
    wall, busy = time.perf_counter() - start, cpu_of_all() - busy
    watch.set()
    watcher.join()
    process.returncode = os.waitstatus_to_exitcode(status)
    text = log.read_text(errors="replace")
    if process.returncode:
        sys.exit(f"{' '.join(command)} ended with {process.returncode}:\n{text[-3000:]}")
    stats = {
        name: float(value) for name, value in re.findall(r"'([\w/]+)': ([\d.]+)(?=[,}\n])", text)
    }
    return Run(wall, used.ru_utime + used.ru_stime, busy, peaks[-1], stats)


def watch_memory(pid: int, ended: threading.Event, peaks: list[int]) -> None:
    """Note the kernel's high-water mark (rusage would include the memory of who started it)."""
    while not ended.wait(0.05):
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            return
        if found := re.search(r"VmHWM:\s+(\d+) kB", status):
            peaks.append(int(found[1]) * 1024)


def crawl(state: str, seeds: Path, cdx: str, mementos: str, *arguments: str) -> Run:
    settings = {
        **SETTINGS,
        "HACS_STATE": state,
        "HACS_ARCHIVES": json.dumps({"cdx_url": cdx, "memento_url": mementos, **QUICK}),
    }
    command = [sys.executable, "-m", "scrapy", "crawl", "wayback", "-a", f"seeds={seeds}"]
    command += ["-a", "level=website", *(part for one in arguments for part in ("-a", one))]
    command += [part for item in settings.items() for part in ("-s", "{}={}".format(*item))]
    return run(command, seeds.with_suffix(".log"))


def import_warcs(state: str, warcs: Sequence[Path], log: Path) -> Run:
    command = [str(Path(sys.executable).with_name("hacs")), "import", "-s", f"HACS_STATE={state}"]
    return run([*command, *map(str, warcs)], log)


def fetch_again(url: str, paths: Sequence[str], at_once: int) -> Run:
    """Fetch paths by so many connections that are kept, and throw away what comes."""
    host = url.removeprefix("http://")
    local = threading.local()

    def fetch(path: str) -> None:
        if not hasattr(local, "connection"):
            local.connection = http.client.HTTPConnection(host, timeout=60)
        local.connection.request("GET", path)
        response = local.connection.getresponse()
        response.read()
        if response.status != 200:
            sys.exit(f"{path}: {response.status}")

    start, cpu, busy = time.perf_counter(), time.process_time(), cpu_of_all()
    with ThreadPoolExecutor(at_once) as pool:
        for _ in pool.map(fetch, paths):
            pass
    wall = time.perf_counter() - start
    return Run(wall, time.process_time() - cpu, cpu_of_all() - busy, 0, {})


def cpu_of(pid: int) -> float:
    """CPU seconds so far of a process and all below it."""
    process = psutil.Process(pid)
    family = [process, *process.children(recursive=True)]
    return sum(sum(one.cpu_times()[:2]) for one in family)


def cpu_of_all() -> float:
    """CPU seconds so far of all processes, and of those that share the hardware."""
    times = psutil.cpu_times()
    return sum(times) - times.idle - times.iowait - times.guest - times.guest_nice


def harvest(histories: Histories, folder: Path, at_once: int) -> int:
    """Fill the states and print what it took; returns the number of pages that differ."""
    start = time.perf_counter()
    warcs = write_warcs(histories, folder / "warcs")
    seeds = folder / "seeds.txt"
    seeds.write_text("".join(f"{site}\n" for site in histories))
    states = {name: f"sqlite:///{folder}/{name}.db" for name in ("direct", "spider", "import")}
    record_directly(histories, states["direct"])
    expected = pages_in(states["direct"])
    captures = sum(map(len, histories.values()))
    note(f"made {captures:,} captures of {len(expected):,} pages on {len(histories)} sites", start)
    with pywb_archive(pywb_python(CACHE), folder / "pywb", *warcs) as archive:
        note("indexed them and started pywb", start)
        before = cpu_of(archive.pid)
        spider = crawl(states["spider"], seeds, archive.cdx_url, archive.memento_url)
        between = cpu_of(archive.pid)
        asked = archive.requests()
        bare = fetch_again(archive.url, asked, at_once)
        after = cpu_of(archive.pid)
    imported = import_warcs(states["import"], warcs, folder / "import.log")
    print(
        "\n| reading | wall, s | captures/s | CPU of it, s | of pywb, s | of others, s | pywb busy |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|")
    crawling = spider.stats.get("elapsed_time_seconds", spider.wall)
    show("scrapy crawl wayback", spider, spider.wall, captures, between - before)
    show("the same, start and end of Scrapy left out", spider, crawling, captures, between - before)
    show("bare client, the same requests", bare, bare.wall, captures, after - between)
    show("hacs import of the WARC files", imported, imported.wall, captures, 0.0)
    show_requests(asked, captures, spider.stats)
    return compare(states, expected)


def show(name: str, one: Run, wall: float, captures: int, archive: float) -> None:
    others = max(0.0, one.busy - one.cpu - archive)
    figures = f"{one.cpu:.1f} | {archive:.1f} | {others:.1f} | {archive / wall:.0%}"
    print(f"| {name} | {wall:.1f} | {captures / wall:,.0f} | {figures} |", flush=True)


def show_requests(asked: Sequence[str], captures: int, stats: dict[str, float]) -> None:
    mementos = sum("id_/" in path for path in asked)
    saved = stats.get("hacs/archive/mementos_saved", 0.0)
    print("\n| captures | CDX requests | mementos fetched | not fetched | share saved |")
    print("|---:|---:|---:|---:|---:|")
    print(
        f"| {captures:,} | {len(asked) - mementos:,} | {mementos:,} | {captures - mementos:,} | "
        f"{1 - mementos / captures:.1%} |"
    )
    own = {name: int(value) for name, value in stats.items() if name.startswith("hacs/archive/")}
    print(f"\nThe spider's own stats: {own}; saved of captures: {saved / captures:.1%}\n")


def compare(states: dict[str, str], expected: dict[int, Page]) -> int:
    """Print how what each state knows differs from the direct computation."""
    print("| state | pages | missing | too many | visits | links | τ | λ | λ off by at most |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
    faults = 0
    for name, state in states.items():
        found = pages_in(state)
        both = [(expected[key], found[key]) for key in expected.keys() & found.keys()]
        wrong = [
            len(expected.keys() - found.keys()),
            len(found.keys() - expected.keys()),
            sum(one.visits != other.visits for one, other in both),
            sum(first_seen(one) != first_seen(other) for one, other in both),
            sum(one.last_update != other.last_update for one, other in both),
            sum(abs(other.rate / one.rate - 1) > TOLERANCE for one, other in both),
        ]
        error = max((abs(other.rate / one.rate - 1) for one, other in both), default=0.0)
        figures = " | ".join(f"{number:,}" for number in wrong)
        print(f"| {name} | {len(found):,} | {figures} | {error:.1e} |", flush=True)
        faults += sum(wrong)
    return faults


def first_seen(page: Page) -> dict[int, int]:
    """When each link was seen first; a repeat that no archive gives does not tell of links again."""
    return {link: first for first, _, links in page.spells.each() for link in links}


@dataclass
class Shape:
    """A site as archives have it: every 5th capture of a page shows something new."""

    pages: int
    captures: int
    homepage: str = "http://big.example.edu/~a/"
    key: str = "edu,example,big)/~a"
    start: int = second("2010-01-01T00:00:00Z")

    @property
    def size(self) -> int:
        return self.pages * self.captures

    def row(self, index: int) -> list[str]:
        """One row of the index, in its order."""
        page, capture = divmod(index, self.captures)
        name = f"/p{page:06}.html" if page else "/"
        digest = b32encode(hashlib.sha1(f"{page} {capture // 5}".encode()).digest()).decode()
        url = self.homepage.rstrip("/") + name
        return [
            self.key + name.rstrip("/"), stamp(self.time(index)), url, "text/html", "200", digest, "512"
        ]  # fmt: skip

    def time(self, index: int) -> int:
        return self.start + index % self.captures * DAY + index // self.captures % DAY


def stamp(at: int) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y%m%d%H%M%S}"


@contextmanager
def wayback_machine(shape: Shape) -> Iterator[str]:
    """Serve a site's index with resume keys, and its mementos; yields the server's URL."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            if self.path.startswith("/cdx"):
                query = {name: values[-1] for name, values in parse_qs(self.path[5:]).items()}
                self.answer(chunk(shape, query), "application/json")
            elif self.path.startswith("/web/"):
                at = datetime.strptime(self.path[5:19], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
                body = page(f"{urlsplit(self.path).path}/{at:%Y}")
                self.answer(
                    body, "text/html", ("Memento-Datetime", formatdate(at.timestamp(), usegmt=True))
                )
            else:
                self.send_error(404)

        def answer(self, body: bytes, kind: str, *headers: tuple[str, str]) -> None:
            self.send_response(200)
            for name, value in (
                ("Content-Type", kind),
                ("Content-Length", str(len(body))),
                *headers,
            ):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 1_024
        daemon_threads = True

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def chunk(shape: Shape, query: dict[str, str]) -> bytes:
    """Answer a query as the Wayback Machine does; the resume key is the number of the next row."""
    limit = int(query.get("limit", shape.size))
    since, until = query.get("from", ""), query.get("to", "9").ljust(14, "9")
    rows: list[list[str]] = [
        ["urlkey", "timestamp", "original", "mimetype", "statuscode", "digest", "length"]
    ]
    index = int(query.get("resumeKey", 0))
    while index < shape.size and len(rows) <= limit:
        row = shape.row(index)
        index += 1
        if since <= row[1] <= until:
            rows.append(row)
    if index < shape.size and query.get("showResumeKey") == "true":
        rows += [[], [str(index)]]
    return b"[" + b",\n".join(json.dumps(row).encode() for row in rows) + b"]\n"


def measure_memory(folder: Path, pages: int, rows: int) -> None:
    print(
        "\n| one site | CDX rows | CDX requests | mementos | wall, s | peak RSS, MiB | of it added |"
    )
    print("|---|---:|---:|---:|---:|---:|---:|")
    least = 0
    for number, (name, shape, mode) in enumerate(
        (
            ("1 page", Shape(1, 1), "links"),
            (f"{pages:,} pages, mode=links", Shape(pages, 2), "links"),
            (f"{rows // 100:,} pages, mode=digest", Shape(rows // 100, 100), "digest"),
        )
    ):
        state, seeds = folder / f"memory-{number}.db", folder / f"memory-{number}.txt"
        seeds.write_text(f"{shape.homepage}\n")
        with wayback_machine(shape) as url:
            done = crawl(f"sqlite:///{state}", seeds, f"{url}/cdx", f"{url}/web", f"mode={mode}")
        found = len(pages_in(f"sqlite:///{state}"))
        if found != shape.pages:
            sys.exit(f"{name}: {found:,} pages in the state")
        least = least or done.peak
        queries, mementos = (
            int(done.stats.get(f"hacs/archive/{kind}", 0)) for kind in ("cdx_requests", "mementos")
        )
        print(
            f"| {name} | {shape.size:,} | {queries:,} | {mementos:,} | {done.wall:.0f} | "
            f"{done.peak / MIB:.0f} | {(done.peak - least) / MIB:.0f} |",
            flush=True,
        )


def note(text: str, start: float) -> None:
    print(f"{time.perf_counter() - start:5.1f} s: {text}", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("timelines", type=Path, help=f"the folder with {' and '.join(FILES)}")
    parser.add_argument("--sites", type=int, default=85, help="of the data (%(default)s)")
    parser.add_argument("--at-once", type=int, default=8, help="of the bare client (%(default)s)")
    parser.add_argument("--pages", type=int, default=35_000, help="of the big site (%(default)s)")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of its index (%(default)s)")
    parser.add_argument("--skip", choices=["harvest", "memory"], help="leave out one half")
    options = parser.parse_args()
    missing = [name for name in FILES if not (options.timelines / name).is_file()]
    if missing and options.skip != "harvest":
        parser.error(f"there is no {' and no '.join(missing)} in {options.timelines}")
    CACHE.mkdir(parents=True, exist_ok=True)
    faults = 0
    with tempfile.TemporaryDirectory() as folder:
        if options.skip != "harvest":
            histories = read_histories(options.timelines, options.sites)
            faults = harvest(histories, Path(folder), options.at_once)
        if options.skip != "memory":
            measure_memory(Path(folder), options.pages, options.rows)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()

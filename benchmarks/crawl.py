"""CPU time a page of a crawl with and without HACS.

    python benchmarks/crawl.py

Crawls 5,000 local pages of 2 KB and 30 links in processes of their own, one after the other and in
turns: Scrapy alone, and with HACS on SQLite and on Redis, on an empty state and when every page is known
and its body is as before. "Other bodies" have the same links and another number each time, as pages that
show the time. The spider reads the links of each page with parsel in every case. Counts the CPU time of
the Scrapy process (user and system, start-up subtracted by crawling no page), and what of it Python's
full garbage collections take from `start()` on, and all threads but the event loop's. Crawls run on the
first core, the site and Redis on the last; with `--all-cores` a crawl's threads may run at once. In the
last row the add-on is on, and the start page's callback asks for all others, which are not under care.

    python benchmarks/crawl.py --memory

Peak memory of crawls that begin with 100,000 requests, and end after the first hundred answers.
`instructions.py` counts instructions instead of time.

    python benchmarks/crawl.py --profile here.prof

Profiles one crawl of known pages with HACS on SQLite instead, without collections, and prints what its
parts took of the CPU: the functions of HACS that others call, with all that they call in turn, be it
Scrapy's. The event loop's profile is written to the file, that of the state's thread to here.prof.state.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import pstats
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # the tests' servers

from servers import free_port, redis_server

ROOT = Path(__file__).resolve().parents[1]
OWN = ("hacs_crawler", "middlewares", "spiders")
LINKS = 30
# A large page has 100 KB.
LARGE_LINKS, LARGE_PARAGRAPHS = 300, 180
PARAGRAPH = f'<div class="entry"><p><em>Words</em> {"of a longer text, " * 22}</p></div>\n'
SPIDER = """
import cProfile, gc, resource, threading, time
from pathlib import Path
import scrapy

class Reader(scrapy.Spider):
    name = "reader"
    profile = full = items = ""
    seconds = began = 0.0

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.profiles = {}
        if self.profile:
            gc.disable()
            threading.setprofile(self.begin_profile)
            self.begin_profile()

    def begin_profile(self, *event):
        profile = cProfile.Profile(time.thread_time)  # a busy machine and the other thread add nothing
        self.profiles[threading.current_thread().name] = profile
        profile.enable()  # in the place of this function, for this thread

    async def start(self):
        gc.callbacks.append(self.note_collection)
        if not self.full:
            for number in range(int(self.pages)):
                yield scrapy.Request(f"{self.site}/{number}/")
        elif int(self.pages):
            yield scrapy.Request(f"{self.site}/0/", self.parse_first)

    def parse_first(self, response):
        for number in range(1, int(self.pages)):
            yield scrapy.Request(f"{self.site}/{number}/")

    def note_collection(self, phase, info):
        if phase == "start":
            self.began = time.thread_time()
        elif info["generation"] == 2:
            self.seconds += time.thread_time() - self.began

    def closed(self, reason):
        other_threads = time.process_time() - time.thread_time()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        Path("spent").write_text(f"{self.seconds} {other_threads} {peak}")
        for name, profile in self.profiles.items():
            profile.disable()
            if name == "MainThread" or name.startswith("hacs-state"):
                profile.dump_stats(self.profile + (".state" if name != "MainThread" else ""))

    def parse(self, response):
        if not self.items:
            return {"links": len(response.css("a::attr(href)").getall())}
        return [
            {"title": row.css("a::text").get(), "url": row.css("a::attr(href)").get(), "number": number}
            for number, row in enumerate(response.css("li")[:20])
        ]
"""


def page(number: int, answers: int = 0, *, is_large: bool = False) -> bytes:
    links = "".join(
        f'<li><a href="/{(number * 7 + link * 13) % 100_000}/paper-{link}.html">Paper {link}</a></li>\n'
        for link in range(LARGE_LINKS if is_large else LINKS)
    )
    head = f"<html><head><title>Page {number}</title></head>"
    text = PARAGRAPH * LARGE_PARAGRAPHS if is_large else ""
    body = f"{head}<body><ul>{links}</ul>{text}{answers}</body></html>"
    return body.ljust(2048).encode()


class Spent(NamedTuple):
    """CPU seconds of a crawl, or milliseconds a page; of all, full collections and other threads.

    And peak memory in MiB.
    """

    all: float
    collecting: float
    other_threads: float
    peak: float


class PageServer(asyncio.Protocol):
    """Answers every GET at once, so that the crawler is what is measured.

    Pages whose folder is named "changing" have another body each time, those of "large" 100 KB.
    """

    answers = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        for request in data.split(b"\r\n\r\n")[:-1]:
            folder, _, number = request.split(b" ", 2)[1].strip(b"/").rpartition(b"/")
            is_changing, is_large = b"changing" in folder, b"large" in folder
            PageServer.answers += is_changing
            body = page(
                int(number or 0), PageServer.answers if is_changing else 0, is_large=is_large
            )
            head = (
                f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            self._transport.write(head.encode() + body)  # type: ignore[attr-defined]


def serve(port: int) -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(PageServer, "127.0.0.1", port)
        await server.serve_forever()

    asyncio.run(run())


def command(
    file: Path,
    port: int,
    pages: int,
    state: str | None,
    *,
    profile: str = "",
    more: Sequence[str] = (),
    **kinds: bool,
) -> list[str]:
    """Return the command of a crawl, with `more` settings.

    Pages may be `large` and `changing`; a `full` crawl has them from the first page's callback, and
    `items` are yielded of them.
    """
    settings = ["LOG_LEVEL=WARNING", "TELNETCONSOLE_ENABLED=0", "CONCURRENT_REQUESTS=32"]
    settings += ["CONCURRENT_REQUESTS_PER_DOMAIN=32"]
    if state is not None:
        settings += ['ADDONS={"hacs_crawler.addon.HacsAddon": 500}', f"HACS_STATE={state}"]
    run = [sys.executable, "-m", "scrapy", "runspider", str(file)]
    on = [kind for kind, is_on in kinds.items() if is_on]
    folder = "".join(f"/{kind}" for kind in on if kind in {"changing", "large"})
    given = [f"site=http://127.0.0.1:{port}{folder}", f"pages={pages}", f"profile={profile}"]
    given += [f"{kind}=yes" for kind in on]
    run += [part for one in given for part in ("-a", one)]
    return run + [part for one in (*settings, *more) for part in ("-s", one)]


def crawl(folder: Path, port: int, pages: int, state: str | None, **how: Any) -> Spent:
    """Return the CPU seconds of one crawl, and its peak memory; see `command`."""
    file = folder / "reader.py"
    file.write_text(SPIDER)
    arguments = command(file, port, pages, state, **how)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(arguments, cwd=folder, check=True, env={**os.environ, "PYTHONHASHSEED": "0"})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Spent(spent, *map(float, (folder / "spent").read_text().split()))


def measure(arguments: argparse.Namespace, folder: Path, port: int, redis_port: int) -> None:
    rounds: dict[str, list[Spent]] = {}
    for turn in range(arguments.rounds):
        states = {
            "Scrapy alone, fed by start()": None,
            "Scrapy alone, full scheduler": None,
            "HACS, SQLite, new pages": f"sqlite:///{folder}/{turn}.db",
            "HACS, SQLite, known pages": f"sqlite:///{folder}/{turn}.db",
            "HACS, SQLite, known pages, other bodies": f"sqlite:///{folder}/{turn}-changing.db",
            "HACS, Redis, new pages": f"redis://127.0.0.1:{redis_port}/{turn}",
            "HACS, Redis, known pages": f"redis://127.0.0.1:{redis_port}/{turn}",
            "HACS, SQLite, followed pages": f"sqlite:///{folder}/{turn}-followed.db",
        }
        for name, state in states.items():
            print(f"round {turn + 1} of {arguments.rounds}: {name}", file=sys.stderr)
            full, changing = "full" in name or "followed" in name, "other" in name
            if changing:
                crawl(folder, port, arguments.pages, state, changing=True)
            idle = crawl(folder, port, 0, state, full=full, changing=changing)
            spent = crawl(folder, port, arguments.pages, state, full=full, changing=changing)
            a_page = (
                1000 * (one - before) / arguments.pages
                for one, before in zip(spent, idle, strict=True)
            )
            rounds.setdefault(name, []).append(Spent(*a_page))
    alone, full = (median(one.all for one in rounds[name]) for name in rounds if "alone" in name)
    print(
        "| crawl | CPU a page, ms (median, range) | of it full collections | other threads "
        "| against start() | against full scheduler |"
    )
    print("|---|---:|---:|---:|---:|---:|")
    for name, found in rounds.items():
        whole, collecting, other_threads, _ = zip(*found, strict=True)
        spread = f"{median(whole):.2f} ({min(whole):.2f}-{max(whole):.2f})"
        parts = f"{median(collecting):.2f} | {median(other_threads):.2f}"
        shares = (f"{100 * (median(whole) / base - 1):+.0f} %" for base in (alone, full))
        print(f"| {name} | {spread} | {parts} | {' | '.join(shares)} |")


def measure_memory(arguments: argparse.Namespace, folder: Path, port: int) -> None:
    print("| crawl of 100,000 requests | peak, MiB (median, range) |\n|---|---:|")
    for name in ("Scrapy alone, full scheduler", "HACS, SQLite, new pages"):
        peaks = []
        for turn in range(arguments.rounds):
            state = f"sqlite:///{folder}/{turn}.db" if "HACS" in name else None
            more = ["CLOSESPIDER_PAGECOUNT=100"]
            spent = crawl(folder, port, 100_000, state, full=state is None, more=more)
            peaks.append(spent.peak)
        print(f"| {name} | {median(peaks):.0f} ({min(peaks):.0f}-{max(peaks):.0f}) |")


def profile(arguments: argparse.Namespace, folder: Path, port: int) -> None:
    """Profile one crawl of known pages, and print what the parts of HACS took of it."""
    file, state = str(Path(arguments.profile).resolve()), f"sqlite:///{folder}/state.db"
    crawl(folder, port, arguments.pages, state)
    crawl(folder, port, arguments.pages, state, profile=file)
    print("| thread | part | calls a page | profiled µs a page |\n|---|---|---:|---:|")
    for thread, written in (("event loop", file), ("state", f"{file}.state")):
        for seconds, calls, name in parts(written)[:15]:
            a_page = calls / arguments.pages, 1e6 * seconds / arguments.pages
            print(f"| {thread} | {name} | {a_page[0]:.2f} | {a_page[1]:.0f} |")


def parts(file: str) -> list[tuple[float, int, str]]:
    """Return the seconds, calls and names of the functions of HACS that others call."""
    found = []
    for (path, _, name), (*_, callers) in pstats.Stats(file).stats.items():  # type: ignore[attr-defined]
        by_others = [one for caller, one in callers.items() if not is_own(caller[0])]
        if is_own(path) and by_others and name.isidentifier():
            seconds, calls = sum(one[3] for one in by_others), sum(one[1] for one in by_others)
            found.append((seconds, calls, f"{Path(path).stem}.{name}"))
    return sorted(found, reverse=True)


@cache
def is_own(path: str) -> bool:
    return any(Path(path).resolve().is_relative_to(ROOT / name) for name in OWN)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pages", type=int, default=5_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--all-cores", action="store_true", help="let crawls run on all cores")
    parser.add_argument("--memory", action="store_true", help="measure peak memory instead")
    parser.add_argument("--profile", help="write a profile of one crawl here, and print its parts")
    arguments = parser.parse_args()
    port = free_port()
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[-1:])
    server = multiprocessing.Process(target=serve, args=(port,), daemon=True)
    server.start()
    with tempfile.TemporaryDirectory() as name, redis_server(Path(name)) as redis_port:
        os.sched_setaffinity(0, cores if arguments.all_cores else cores[:1])
        folder = Path(name)
        if arguments.profile:
            profile(arguments, folder, port)
        elif arguments.memory:
            measure_memory(arguments, folder, port)
        else:
            measure(arguments, folder, port, redis_port)
    server.terminate()


if __name__ == "__main__":
    main()

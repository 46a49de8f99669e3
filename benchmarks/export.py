"""Moving a state: seconds, peak memory and bytes of `hacs export` and `hacs import`.

python benchmarks/export.py                    # 100,000 pages, about 5 minutes

Pages of 100 links and 20 visits, 4 of them with updates. Each step is a process of its own. The floor is
what JSON alone costs: json.dumps of the same dicts, and json.loads of the same lines. The peer is the
dump of SQLite's own shell as Python has it (`iterdump`, and `executescript` of that): the same pages as
hexadecimal text, which only SQLite can read and which merges with nothing.
"""

import argparse
import json
import os
import platform
import sqlite3
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # servers: starts a redis-server
from hacs_crawler.links.keys import page_id_of
from hacs_crawler.state.address import open_store
from hacs_crawler.state.codec import encode_page
from hacs_crawler.state.page import Page
from hacs_crawler.state.rows import encode_row
from hacs_crawler.state.spells import Spells
from hacs_crawler.state.store import Change
from hacs_crawler.utils.times import DAY
from servers import redis_server

LINKS, VISITS, UPDATES = 100, 20, 4
FIRST = 1_500_000_000


def page_of(number: int) -> Page:
    rng = np.random.default_rng(number)
    times = (FIRST + np.cumsum(rng.integers(DAY, 40 * DAY, VISITS))).tolist()
    links = rng.integers(-(2**63), 2**63 - 1, LINKS).tolist()
    page = Page(f"https://www.host{number % 1000}.example.edu/~author{number}/index.html")
    page.visits, page.rule_changes = array("I", times), {times[0]: 2}
    page.last_news, page.rate = times[-1], rng.random()
    sizes = [LINKS - 3 * UPDATES] + [3] * UPDATES
    periods, marks, start = array("I"), array("q"), 0
    for place, size in zip(range(0, VISITS, VISITS // (UPDATES + 1)), sizes, strict=False):
        periods.extend((times[place], 0, size))
        marks.extend(sorted(links[start : start + size]))
        start += size
    page.spells, page.version = Spells(periods, marks), 1
    return page


def fill(path: Path, number: int) -> None:
    with closing(open_store(f"sqlite:///{path}", "hacs", Path())) as store:
        for start in range(0, number, 1_000):
            pages = [page_of(one) for one in range(start, min(number, start + 1_000))]
            store.write(
                [Change(page_id_of(one.url), 0, encode_page(one), encode_row(one)) for one in pages]
            )


def json_dumps(source: str, target: str) -> None:
    """Write the lines of `source` again; the time counts json.dumps only."""
    seconds = 0.0
    with Path(source).open("rb") as lines, Path(target).open("wb") as file:
        for line in lines:
            fields = json.loads(line)
            started = time.perf_counter()
            file.write(json.dumps(fields).encode() + b"\n")
            seconds += time.perf_counter() - started
    print(seconds)


def json_loads(source: str) -> None:
    started = time.perf_counter()
    with Path(source).open("rb") as lines:
        for line in lines:
            json.loads(line)
    print(time.perf_counter() - started)


def dump(source: str, target: str) -> None:
    started = time.perf_counter()
    with closing(sqlite3.connect(source)) as db, Path(target).open("w") as file:
        for statement in db.iterdump():
            file.write(statement + "\n")
    print(time.perf_counter() - started)


def undump(source: str, target: str) -> None:
    started = time.perf_counter()
    with closing(sqlite3.connect(target)) as db:
        db.executescript(Path(source).read_text())
    print(time.perf_counter() - started)


STEPS: dict[str, Callable[..., None]] = {
    one.__name__: one for one in (json_dumps, json_loads, dump, undump)
}


def step(*arguments: str) -> tuple[float, float]:
    """Run a step of this script; return its own seconds and its peak memory in MiB."""
    return _run(sys.executable, __file__, "--step", *arguments)


def hacs(*arguments: str) -> tuple[float, float]:
    """Run the command; return seconds, start included, and peak memory in MiB."""
    code = "from hacs_crawler.cli.app import app; app()"
    started = time.perf_counter()
    _, peak = _run(sys.executable, "-c", code, *arguments)
    return time.perf_counter() - started, peak


def _run(*command: str) -> tuple[float, float]:
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as running:
        assert running.stdout is not None
        output = running.stdout.read()
        _, status, usage = os.wait4(running.pid, 0)
        running.returncode = os.waitstatus_to_exitcode(status)
    if running.returncode:
        raise RuntimeError(f"{command} ended with {running.returncode}")
    return float(output or 0), usage.ru_maxrss / 1024


def row(what: str, measured: tuple[float, float], number: int, size: int | None = None) -> None:
    seconds, peak = measured
    per_page = "" if size is None else f"{size / number:,.0f}"
    print(
        f"| {what} | {seconds:.1f} | {seconds / number * 1e6:.0f} | {peak:.0f} | {per_page} |",
        flush=True,
    )


def measure(number: int) -> None:
    with tempfile.TemporaryDirectory() as name, redis_server(Path(name)) as port:
        folder = Path(name)
        database, lines, sql = folder / "a.db", folder / "x.jsonl", folder / "x.sql"
        sqlite, redis = f"HACS_STATE=sqlite:///{database}", f"HACS_STATE=redis://127.0.0.1:{port}"
        fill(database, number)
        print(f"| {number:,} pages | s | µs a page | peak RSS, MiB | bytes a page |")
        print("|---|---:|---:|---:|---:|")
        done = hacs("export", "-o", str(lines), "-s", sqlite)
        row("export from SQLite", done, number, lines.stat().st_size)
        packed = lines.with_suffix(".jsonl.gz")
        done = hacs("export", "-o", str(packed), "-s", sqlite)
        row("export from SQLite, .gz", done, number, packed.stat().st_size)
        row("import into Redis, new", hacs("import", str(lines), "-s", redis), number)
        row("import into Redis, again", hacs("import", str(lines), "-s", redis), number)
        row("export from Redis", hacs("export", "-o", str(lines), "-s", redis), number)
        other = f"HACS_STATE=sqlite:///{folder / 'b.db'}"
        row("import into SQLite, new", hacs("import", str(lines), "-s", other), number)
        row("json.dumps alone", step("json_dumps", str(lines), os.devnull), number)
        row("json.loads alone", step("json_loads", str(lines)), number)
        done = step("dump", str(database), str(sql))
        row("SQLite iterdump", done, number, sql.stat().st_size)
        row("SQLite executescript", step("undump", str(sql), str(folder / "c.db")), number)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pages", type=int, default=100_000, help="pages (%(default)s)")
    parser.add_argument("--step", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        name, *arguments = options.step
        STEPS[name](*arguments)
        return
    print(f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}\n")
    measure(options.pages)


if __name__ == "__main__":
    main()

"""Size and speed of the two stores, against plainer layouts in the same run.

python benchmarks/store.py                     # all tables, about 6 minutes
python benchmarks/store.py --only read         # or: size, record

size: bytes a page of 50 visits, 10 of them with updates, at 20, 100 and 500 links. Every page is
written ten times as it grows, in random order, as crawls would; SQLite's file then has its free space
in it. Redis is `used_memory` of the server, keys and all. "Links alone" are the same fingerprints as
one Redis SET a page (intset), without the times at which they were first seen.

read: rates, last visits and taus of a million pages into numpy arrays, and of 100,000 pages by id. The
rows came through Store.write, with 8 bytes in place of each page's body, which both stores keep apart
from the rows. "One hash a page" is the plain layout: text fields, read by HMGET in pipelines of 5,000,
the ids given, measured on fewer pages and scaled.

record: visits in batches of 100, of pages as in "size" at 100 links; every fifth visit shows three new
links. "Pages given" is what a crawl does: it loads them while they are downloaded. The peer only adds
the links to a SET and sets two fields: no history, no rate. SQLite syncs every batch to disk
(`synchronous = FULL`), Redis runs without persistence.
"""

import argparse
import platform
import random
import sys
import tempfile
import time
from array import array
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np
import redis

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # servers: starts a redis-server
from hacs_crawler.links.keys import page_id_of
from hacs_crawler.state.address import open_store
from hacs_crawler.state.codec import encode_page
from hacs_crawler.state.database import State
from hacs_crawler.state.estimation import Estimation
from hacs_crawler.state.page import Page, Visit
from hacs_crawler.state.rows import encode_row
from hacs_crawler.state.spells import Spells
from hacs_crawler.state.store import Change, Store
from hacs_crawler.utils.times import DAY
from servers import redis_server

VISITS, UPDATES, STAGES = 50, 10, 10
FIRST = 1_500_000_000
FIELDS = ("rate", "last_visit", "last_update")


def tell(text: str) -> None:
    print(f"\r{text:<60}\r", end="", file=sys.stderr, flush=True)


def header(*cells: str) -> None:
    tell("")
    print("\n| " + " | ".join(cells) + " |\n|---" + "|---:" * (len(cells) - 1) + "|", flush=True)


def line(*cells: object) -> None:
    tell("")
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def url(number: int) -> str:
    return f"https://www.host{number % 1000}.example.edu/~author{number}/index.html"


def grown_page(number: int, links: int, stage: int = STAGES) -> Page:
    """Return a page after `stage` tenths of its visits; the last of every five found an update."""
    rng = np.random.default_rng(number)
    prints = rng.integers(-(2**63), 2**63 - 1, links).tolist()
    times = (FIRST + np.cumsum(rng.integers(DAY, 40 * DAY, VISITS))).tolist()
    added = max(1, links * 3 // 100)
    sizes = [links - UPDATES * added] + [added] * stage
    page = Page(url(number), rate=0.01, version=stage)
    page.visits = array("I", times[: stage * VISITS // STAGES])
    page.last_news = page.visits[-1]
    places = [0, *range(VISITS // UPDATES - 1, VISITS, VISITS // UPDATES)]
    page.rule_changes = {times[0]: 2}
    periods, marks, start = array("I"), array("q"), 0
    for place, size in zip(places, sizes, strict=False):
        periods.extend((times[place], 0, size))
        marks.extend(sorted(prints[start : start + size]))
        start += size
    page.spells = Spells(periods, marks)
    return page


def change_to(page: Page) -> Change:
    return Change(page_id_of(page.url), page.version - 1, encode_page(page), encode_row(page))


def fill(store: Store, number: int, links: int, what: str, *, is_grown: bool) -> None:
    """Write pages: in ten stages, each in another order, or in one go."""
    order = list(range(number))
    for stage in range(1, STAGES + 1) if is_grown else (STAGES,):
        tell(f"{what}: {links} links, stage {stage} of {STAGES}")
        random.Random(stage).shuffle(order)
        for start in range(0, number, 1_000):
            some = order[start : start + 1_000]
            pages = [grown_page(index, links, stage) for index in some]
            for page in pages:
                page.version = stage if is_grown else 1
            if store.write([change_to(page) for page in pages]):
                msg = "a page was not written"
                raise RuntimeError(msg)


@contextmanager
def a_redis() -> Iterator[tuple[str, redis.Redis]]:
    with (
        tempfile.TemporaryDirectory() as folder,
        redis_server(Path(folder)) as port,
        redis.Redis(port=port) as client,
    ):
        yield f"redis://127.0.0.1:{port}/0", client


def used_memory(client: redis.Redis) -> int:
    return int(client.info("memory")["used_memory"])


def sqlite_bytes(number: int, links: int) -> tuple[int, int]:
    """Return the size of the file as it grew, and after VACUUM."""
    import sqlite3

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "state.db"
        with closing(open_store(f"sqlite:///{file}", "hacs", Path())) as store:
            fill(store, number, links, "SQLite", is_grown=True)
        grown = file.stat().st_size  # the log went into the file when it was closed
        with closing(sqlite3.connect(file)) as database:
            database.execute("VACUUM")
        return grown, file.stat().st_size


def redis_bytes(number: int, links: int) -> int:
    with a_redis() as (state, client), closing(open_store(state, "hacs", Path())) as store:
        before = used_memory(client)
        fill(store, number, links, "Redis", is_grown=True)
        return used_memory(client) - before


def set_bytes(number: int, links: int) -> int:
    tell("Redis SETs")
    with a_redis() as (_, client):
        before = used_memory(client)
        for start in range(0, number, 1_000):
            with client.pipeline(transaction=False) as pipe:
                for index in range(start, min(start + 1_000, number)):
                    pipe.sadd(f"hacs:links:{index}", *grown_page(index, links).spells.marks)
                pipe.execute()
        return used_memory(client) - before


def size_table(number: int) -> None:
    header(
        f"bytes a page, {number:,} pages, 50 visits",
        "page encoded",
        "SQLite as grown",
        "SQLite after VACUUM",
        "Redis",
        "links alone, 8 bytes each",
        "links alone, Redis SETs",
    )
    for links in (20, 100, 500):
        body = len(encode_page(grown_page(0, links)))
        found = (*sqlite_bytes(number, links), redis_bytes(number, links))
        cells = [f"{size / number:,.0f}" for size in (*found, 8 * links * number)]
        line(f"{links} links", f"{body:,}", *cells, f"{set_bytes(number, links) / number:,.0f}")


def fill_rows(store: Store, number: int, what: str) -> np.ndarray:
    """Write pages without bodies; returns their ids."""
    rng = np.random.default_rng(1)
    ids = np.unique(rng.integers(-(2**63), 2**63 - 1, number + 10))[:number]
    rng.shuffle(ids)
    body = b"\1\0\0\0\1\0\0\0"  # layout, and version 1 where the Redis script looks for it
    for start in range(0, number, 5_000):
        tell(f"{what}: {start:,} of {number:,} rows written")
        changes = []
        for key in ids[start : start + 5_000].tolist():
            page = Page("", rate=(key % 1_000) / 10_000, visits=array("I", (FIRST, FIRST + DAY)))
            changes.append(Change(key, 0, body, encode_row(page)))
        store.write(changes)
    return ids


def best_seconds(call: Callable[[], object], repeat: int = 3) -> float:
    seconds = []
    for _ in range(repeat):
        started = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - started)
    return min(seconds)


def read_all(store: Store) -> int:
    """Read the three columns of every page; returns how many."""
    parts = [rows for _, rows in store.all_rows()]
    columns = [np.concatenate([part[name] for part in parts]) for name in FIELDS]
    return len(columns[0])


def naive_seconds(number: int) -> float:
    """Return the seconds to read `number` pages that are one hash of text fields each."""
    with a_redis() as (_, client):
        keys = [f"hacs:page:{index}" for index in range(number)]
        values = {"rate": "0.012345", "last_visit": "1500000000", "last_update": "1500086400"}
        for start in range(0, number, 5_000):
            with client.pipeline(transaction=False) as pipe:
                for key in keys[start : start + 5_000]:
                    pipe.hset(key, mapping=values)
                pipe.execute()

        def read() -> None:
            found = []
            for start in range(0, number, 5_000):
                with client.pipeline(transaction=False) as pipe:
                    for key in keys[start : start + 5_000]:
                        pipe.hmget(key, FIELDS)
                    found += pipe.execute()
            np.array(found, np.float64)

        return best_seconds(read)


def read_table(number: int) -> None:
    asked = min(number, 100_000)
    header(
        f"reading of {number:,} pages", "all, s", "µs a page", f"{asked:,} by id, s", "µs a page"
    )

    def time_reads(name: str, state: str) -> None:
        with closing(open_store(state, "hacs", Path())) as store:
            ids = fill_rows(store, number, name)[:asked]
            if read_all(store) != number or not store.rows(ids)["visits"].all():
                msg = f"{name} does not give back what was written"
                raise RuntimeError(msg)
            tell(f"{name}: reading")
            whole = best_seconds(lambda: read_all(store))
            some = best_seconds(lambda: store.rows(ids))
            micros = (f"{seconds * 1e6:.2f}" for seconds in (whole / number, some / asked))
            line(name, f"{whole:.2f}", next(micros), f"{some:.2f}", next(micros))

    with tempfile.TemporaryDirectory() as folder:
        time_reads("SQLite", f"sqlite:///{folder}/state.db")
    with a_redis() as (state, _):
        time_reads("Redis", state)
    seconds = naive_seconds(asked)
    micro = f"{seconds / asked * 1e6:.2f}"
    scaled = f"{seconds / asked * number:.2f}"
    line("Redis, one hash a page", f"{scaled} (scaled)", micro, f"{seconds:.2f}", micro)


def next_visits(number: int, count: int) -> list[list[Visit]]:
    """Return batches of 100 visits, each of other pages than the rest of its batch."""
    rng = random.Random(2)
    numbers = [page for _ in range(count // 100) for page in rng.sample(range(number), 100)]
    visits = []
    for index, page in enumerate(numbers):
        links = set(grown_page(page, 100).spells.marks)
        if index % 5 == 0:
            links.update(rng.getrandbits(63) for _ in range(3))
        at = FIRST + VISITS * 40 * DAY + index
        visits.append(Visit(url(page), at, marks=frozenset(links)))
    return [visits[start : start + 100] for start in range(0, count, 100)]


def first_visits(number: int, count: int) -> list[list[Visit]]:
    visits = [
        Visit(url(number + index), FIRST, marks=frozenset(grown_page(index, 100).spells.marks))
        for index in range(count)
    ]
    return [visits[start : start + 100] for start in range(0, count, 100)]


def record_line(name: str, seconds: float, count: int) -> None:
    line(name, f"{count / seconds:,.0f}", f"{seconds / count * 1e6:.0f}")


def time_records(name: str, state: str, number: int, count: int) -> None:
    with closing(open_store(state, "hacs", Path())) as store:
        fill(store, number, 100, name, is_grown=False)
        state = State(store, Estimation())
        seconds = {"pages given": 0.0, "pages not given": 0.0, "load alone": 0.0, "new pages": 0.0}
        tell(f"{name}: making visits")
        existing = next_visits(number, 2 * count)
        tell(f"{name}: recording")
        for turn, visits in enumerate(existing):
            started = time.perf_counter()
            known = state.load([page_id_of(visit.url) for visit in visits])
            loaded = time.perf_counter()
            recorded = state.record(visits, known if turn % 2 else None)
            ended = time.perf_counter()
            seconds["load alone"] += (loaded - started) / 2
            seconds["pages given" if turn % 2 else "pages not given"] += ended - loaded
            if sum(one.updated for one in recorded) != 20 or len(known) != 100:
                msg = f"{name} recorded something else"
                raise RuntimeError(msg)
        for visits in first_visits(number, count):
            started = time.perf_counter()
            state.record(visits)
            seconds["new pages"] += time.perf_counter() - started
        for what, spent in seconds.items():
            record_line(f"{name}: {what}", spent, count)


def time_plain(number: int, count: int) -> None:
    """Time adding links to a SET and setting two fields, 100 visits a round trip."""
    with a_redis() as (_, client):
        visits = next_visits(number, count)
        seconds = 0.0
        for is_timed in (False, True):
            for batch in visits:
                started = time.perf_counter()
                with client.pipeline(transaction=False) as pipe:
                    for visit in batch:
                        pipe.sadd(f"hacs:links:{visit.url}", *(visit.marks or ()))
                        fields = {"last_visit": visit.at, "last_update": visit.at}
                        pipe.hset(f"hacs:page:{visit.url}", mapping=fields)
                    pipe.execute()
                seconds += (time.perf_counter() - started) * is_timed
        record_line("Redis: SADD and HSET alone", seconds, count)


def record_table(number: int, count: int) -> None:
    header(f"visits of {number:,} pages with 100 links, 100 a batch", "visits a second", "µs each")
    with tempfile.TemporaryDirectory() as folder:
        time_records("SQLite", f"sqlite:///{folder}/state.db", number, count)
    with a_redis() as (state, _):
        time_records("Redis", state, number, count)
    time_plain(number, count)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    names = ("size", "read", "record")
    parser.add_argument("--only", choices=names, help="one table")
    parser.add_argument("--pages", type=int, default=20_000, help="size, record (%(default)s)")
    parser.add_argument("--rows", type=int, default=1_000_000, help="pages to read (%(default)s)")
    parser.add_argument("--visits", type=int, default=10_000, help="to record (%(default)s)")
    options = parser.parse_args()
    with a_redis() as (_, client):
        server = client.info("server")["redis_version"]
    print(
        f"Python {platform.python_version()}, redis-server {server}, redis-py {redis.__version__}"
    )
    tables = {
        "size": lambda: size_table(options.pages),
        "read": lambda: read_table(options.rows),
        "record": lambda: record_table(options.pages, options.visits),
    }
    for name, table in tables.items():
        if options.only in (None, name):
            table()
    tell("")


if __name__ == "__main__":
    main()

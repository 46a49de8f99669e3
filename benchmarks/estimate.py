"""How fast `hacs estimate` goes through a state, against reading and writing it alone.

python benchmarks/estimate.py [--pages 100000]

Pages of 30 visits, 8 of them with updates, and 60 links. "Estimate" is what the command does after
HACS_FADE_DAYS was changed: fit the prior, then load, estimate and write every page, 1,000 at a time.
"Nothing to change" is the same command again. "Closing" is CPU time of what a crawl of 100 pages does at
its end: every time; if a fit is due that changes the prior, with its slice of pages; and if only a slice
is left. The peer loads the same pages in the same batches and
writes them with another version number, but estimates nothing: its pages are decoded and encoded again,
as bytes they are not even that. Peak memory is of the process, and what of it the estimating adds.
"""

import argparse
import platform
import resource
import sys
import tempfile
import time
from array import array
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from zlib import crc32

import numpy as np
import store as stores  # its neighbour: a Redis, and how tables are printed
from msgspec.structs import replace

from hacs_crawler.links.keys import page_id_of
from hacs_crawler.model import DEFAULT_PRIOR
from hacs_crawler.state import Run, advanced, follow_prior, new_run
from hacs_crawler.state.address import open_store
from hacs_crawler.state.codec import VERSION_OFFSET, decode_page, encode_page
from hacs_crawler.state.database import PAGES_A_CALL, State
from hacs_crawler.state.estimation import Estimation
from hacs_crawler.state.page import Page
from hacs_crawler.state.priors import UNFITTED
from hacs_crawler.state.rows import encode_row
from hacs_crawler.state.rule_changes import UNNAMED
from hacs_crawler.state.spells import Spells
from hacs_crawler.state.store import Change, Store
from hacs_crawler.utils.times import DAY

VISITS, UPDATES, LINKS = 30, 8, 60


def page_of(number: int, rng: np.random.Generator) -> Page:
    times = stores.FIRST + np.cumsum(rng.integers(DAY, 40 * DAY, VISITS))
    places = np.sort(rng.choice(np.arange(1, VISITS), UPDATES, replace=False))
    prints = rng.integers(-(2**63), 2**63 - 1, LINKS).tolist()
    page = Page(stores.url(number), version=1)
    page.visits = array("I", times.tolist())
    page.last_news = page.visits[-1]
    periods, marks, start = array("I"), array("q"), 0
    for place, size in zip(
        [0, *places.tolist()], [LINKS - 2 * UPDATES] + [2] * UPDATES, strict=True
    ):
        periods.extend((page.visits[place], 0, size))
        marks.extend(sorted(prints[start : start + size]))
        start += size
    page.spells = Spells(periods, marks)
    page.rule_changes = {page.visits[0]: UNNAMED}
    return page


def fill(store: Store, number: int, name: str) -> None:
    rng = np.random.default_rng(1)
    for start in range(0, number, PAGES_A_CALL):
        stores.tell(f"{name}: {start:,} of {number:,} pages written")
        pages = [page_of(index, rng) for index in range(start, min(start + PAGES_A_CALL, number))]
        Estimation().estimate(pages)
        store.write(
            [Change(page_id_of(page.url), 0, encode_page(page), encode_row(page)) for page in pages]
        )


def through_all(store: Store, changed: Callable[[int, bytes], Change]) -> int:
    """Load all pages and write what `changed` makes of each; returns how many."""
    number = 0
    for ids, _ in store.all_rows():
        for start in range(0, len(ids), PAGES_A_CALL):
            bodies = store.load(np.sort(ids)[start : start + PAGES_A_CALL].tolist())
            if store.write([changed(key, body) for key, body in bodies.items()]):
                raise RuntimeError("a page was not written")
            number += len(bodies)
    return number


def version_of(body: bytes) -> int:
    return int.from_bytes(body[VERSION_OFFSET : VERSION_OFFSET + 4], "little")


def as_bytes(key: int, body: bytes) -> Change:
    version = version_of(body)
    rest = body[VERSION_OFFSET + 8 :]
    numbers = (version + 1, crc32(rest, version + 1))
    body = body[:VERSION_OFFSET] + b"".join(n.to_bytes(4, "little") for n in numbers) + rest
    return Change(key, version, body, bytes(len(encode_row(Page("")))))


def as_pages(key: int, body: bytes) -> Change:
    version = version_of(body)  # that in the page is older after `as_bytes`
    page = replace(decode_page(body), version=version + 1)
    return Change(key, version, encode_page(page), encode_row(page))


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def estimated(store: Store, fade_days: float) -> Run:
    state = State(store, Estimation(fade_days=fade_days))
    run, is_whole = advanced(state, new_run(state), lambda _: None)
    if not is_whole:
        raise RuntimeError("not all pages were estimated")
    return run


def time_all(name: str, state: str, number: int, repeat: int) -> None:
    with closing(open_store(state, "hacs", Path())) as store:
        fill(store, number, name)
        stores.tell(f"{name}: what churns is learned")
        for _ in range(2):  # by the first run, which the second goes by
            estimated(store, 29.0)
        before = peak_mib()
        seconds: dict[str, list[float]] = {}

        def timed(what: str, call: Callable[[], int], expected: int) -> None:
            stores.tell(f"{name}: {what}")
            started = time.perf_counter()
            found = call()
            seconds.setdefault(what, []).append(time.perf_counter() - started)
            if found != expected:
                raise RuntimeError(f"{name}, {what}: {found} pages instead of {expected}")

        for turn in range(repeat):
            fade_days = 30.0 + turn
            timed("load and write as bytes", lambda: through_all(store, as_bytes), number)
            timed("load, decode, encode and write", lambda: through_all(store, as_pages), number)
            timed("estimate", lambda fade=fade_days: estimated(store, fade).changed, number)
            timed(
                "estimate, nothing to change",
                lambda fade=fade_days: estimated(store, fade).changed,
                0,
            )
        for what, notes in (
            ("closing after 100 visits", {UNFITTED: 0}),
            ("the same, with a fit", {UNFITTED: number, "prior": asdict(DEFAULT_PRIOR)}),
            ("the same, with a slice", {UNFITTED: 0}),
        ):
            store.write_meta(notes)
            state_ = State(store, Estimation(fade_days=fade_days))
            started = time.process_time()
            run = follow_prior(state_, lambda _: None, visited=100)
            seconds_of = f"{time.process_time() - started:.2f}"
            pages = f"{run.pages if run else 0:,} pages estimated so far"
            stores.line(f"{name}: {what}, CPU ({pages})", seconds_of, "", "")
        peer = min(seconds["load, decode, encode and write"])
        for what, spent in seconds.items():
            best = min(spent)
            stores.line(
                f"{name}: {what}", f"{best:.1f}", f"{number / best:,.0f}", f"{best / peer:.2f}"
            )
        stores.tell("")
        print(
            f"\r{name}: peak memory {before:.0f} MiB before, {peak_mib():.0f} after",
            file=sys.stderr,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pages", type=int, default=100_000, help="how many (%(default)s)")
    parser.add_argument("--repeat", type=int, default=2, help="the best of so many (%(default)s)")
    options = parser.parse_args()
    print(f"Python {platform.python_version()}")
    stores.header(
        f"{options.pages:,} pages of {VISITS} visits", "s", "pages a second", "times peer"
    )
    with tempfile.TemporaryDirectory() as folder:
        time_all("SQLite", f"sqlite:///{folder}/state.db", options.pages, options.repeat)
    with stores.a_redis() as (state, _):
        time_all("Redis", state, options.pages, options.repeat)


if __name__ == "__main__":
    main()

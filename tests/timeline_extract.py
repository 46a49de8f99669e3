"""Generates the timelines in tests/lab/evaluation/data: small, synthetic, the same on every run.

python tests/timeline_extract.py
"""

from __future__ import annotations

import csv
import math
import random
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

FOLDER = Path(__file__).parent / "lab" / "evaluation" / "data"
SEED = 20_200_101
SITES = 5
PAGES_A_SITE = 4
FIRST, START, END = (datetime(year, 1, 1, tzinfo=UTC) for year in (2020, 2021, 2022))
DAY = 86_400

Row = Sequence[object]


def timelines(
    rng: random.Random, sites: int, pages_a_site: int
) -> tuple[list[Row], list[Row], list[Row]]:
    """Return the rows of pages, updates and captures.

    Rates are log-normal about 1 in 60 days. A third of the pages is abandoned at some time, and one
    in five is first seen in the last year, so that it takes no part in a simulation of that year.
    """
    pages: list[Row] = []
    updates: list[Row] = []
    captures: list[Row] = []
    first, end = FIRST.timestamp(), END.timestamp()
    for site in range(sites):
        for place in range(pages_a_site):
            homepage = f"http://s{site:02}.example.edu/~a{site:02}/"
            url = homepage if place == 0 else f"{homepage}p{place:02}.html"
            is_late = rng.random() < 0.2
            seen = first + (365 + rng.uniform(1, 300) if is_late else rng.uniform(0, 300)) * DAY
            gone = rng.uniform(seen, end) if rng.random() < 1 / 3 else end
            level = "subpage" if place else "homepage"
            pages.append((url, homepage, level, iso(seen)))
            rate = rng.lognormvariate(-math.log(60 * DAY), 1.0)
            updated = between(seen, gone, lambda rate=rate: rng.expovariate(rate))
            updates += [(url, iso(at), 1 + int(-math.log2(1.0 - rng.random()))) for at in updated]
            median = rng.uniform(20, 127) * DAY
            captured = between(seen, end, lambda median=median: median * rng.lognormvariate(0, 0.8))
            captures += [(url, iso(at)) for at in captured]
    return pages, updates, captures


def between(start: float, end: float, gap: Callable[[], float]) -> Iterator[float]:
    at = start + gap()
    while at < end:
        yield at
        at += gap()


def iso(second: float) -> str:
    return datetime.fromtimestamp(int(second), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def write(folder: Path, seed: int, sites: int, pages_a_site: int) -> None:
    tables = timelines(random.Random(seed), sites, pages_a_site)
    titles = {
        "pages": ("url", "site", "level", "first_seen"),
        "updates": ("url", "updated_at", "new_links"),
        "captures": ("url", "captured_at"),
    }
    for (name, columns), rows in zip(titles.items(), tables, strict=True):
        with (folder / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerows([columns, *rows])


if __name__ == "__main__":
    write(FOLDER, SEED, SITES, PAGES_A_SITE)

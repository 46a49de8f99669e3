"""Timelines of a few made-up websites, as files or not."""

import csv
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from hacs_crawler.lab.timelines import Events, Timelines
from hacs_crawler.links.keys import page_id_of

START = datetime(2020, 1, 1, tzinfo=UTC)


def write_timelines(folder: Path, *, updates_a_year: float = 12.0, sites: int = 5) -> None:
    """Two years of websites of two pages each, captured every ten days or so."""
    rng = np.random.default_rng(1)
    rows: dict[str, list[Sequence[object]]] = {
        "pages": [("url", "site", "level", "first_seen")],
        "updates": [("url", "updated_at", "new_links")],
        "captures": [("url", "captured_at")],
    }
    for site in range(sites):
        home = f"http://s{site}.example.edu/~a/"
        for url, level in ((home, "homepage"), (f"{home}p.html", "subpage")):
            rows["pages"].append((url, home, level, iso(0)))
            rate = updates_a_year * (site + 1) / sites / 365
            times = np.cumsum(rng.exponential(1 / rate, 200)) if rate else np.zeros(0)
            rows["updates"] += [(url, iso(at), 1) for at in times[times < 730]]
            times = np.cumsum(rng.exponential(10, 200))
            rows["captures"] += [(url, iso(at)) for at in times[times < 730]]
    for name, table in rows.items():
        with (folder / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file).writerows(table)


def iso(day: float) -> str:
    return (START + timedelta(days=float(day))).isoformat()


def timelines_of(
    updates: Sequence[Sequence[tuple[int, int]]],
    captures: Sequence[Sequence[int]],
    first_seen: Sequence[int],
) -> Timelines:
    """Homepages by their updates (second, new links), their captures, and the first sight of each."""
    urls = [f"http://example.edu/~a{number}/" for number in range(len(updates))]
    return Timelines(
        urls=urls,
        page_ids=np.array([page_id_of(url) for url in urls]),
        sites=urls,
        is_homepage=np.ones(len(urls), np.bool_),
        first_seen=np.array(first_seen, np.int64),
        updates=_events(updates),
        captures=_events([[(at, 0) for at in page] for page in captures]),
    )


def _events(of_pages: Sequence[Sequence[tuple[int, int]]]) -> Events:
    at, links = (
        np.array([row for page in of_pages for row in sorted(page)], np.int64).reshape(-1, 2).T
    )
    return Events(at, links, np.cumsum([0, *map(len, of_pages)]))

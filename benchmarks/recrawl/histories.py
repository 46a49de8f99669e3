"""Histories of pages as a folder of pages.csv, updates.csv and captures.csv: see docs/evaluation.md."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import numpy as np

from hacs_crawler.lab.timelines import Timelines, read_timelines
from hacs_crawler.utils.times import MAX_SECOND


class Page(NamedTuple):
    """A page's history in seconds since 1970 UTC: updates with their new marks, and known visits."""

    url: str
    site: str
    first_seen: int
    updates: dict[int, int]
    captures: Iterable[int]


def name_of(text: str) -> str:
    """Return a name that a URL may have, and no other text has."""
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    return plain if plain == text else f"{plain}-{crc32(text.encode(errors='surrogateescape')):08x}"


def write(folder: Path, pages: Iterable[Page]) -> str:
    """Write the folder, and return a line that says what is in it."""
    rows = sorted(pages, key=lambda page: page.url)
    tables: dict[str, list[tuple[object, ...]]] = {
        "pages": [("url", "site", "level", "first_seen")],
        "updates": [("url", "updated_at", "new_links")],
        "captures": [("url", "captured_at")],
    }
    for page in rows:
        tables["pages"].append((page.url, page.site, "homepage", _iso(page.first_seen)))
        tables["updates"] += [(page.url, _iso(at), new) for at, new in page.updates.items()]
        tables["captures"] += [(page.url, _iso(at)) for at in page.captures]
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in tables.items():
        with (folder / f"{name}.csv").open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(lines)
    sites, updates = len({page.site for page in rows}), len(tables["updates"]) - 1
    return f"{folder}: {len(rows):,} pages of {sites:,} sites, {updates:,} updates"


def read(folder: Path, start: int, most_pages: int) -> Timelines:
    """Read the pages known before the start; of more than `most_pages`, whole sites drawn at random."""
    files = [folder / f"{name}.csv" for name in ("pages", "updates", "captures")]
    timelines = read_timelines(files[0], files[1], files[2] if files[2].exists() else None)
    is_known = timelines.first_seen < start
    _, site = np.unique(timelines.sites, return_inverse=True)
    pages = np.bincount(site, is_known)
    order = np.random.default_rng(0).permutation(len(pages))
    is_kept = np.zeros(len(pages), np.bool_)
    is_kept[order[np.cumsum(pages[order]) <= most_pages]] = True
    is_known &= is_kept[site]
    # a simulation leaves out what is first seen after its start
    return replace(timelines, first_seen=np.where(is_known, timelines.first_seen, MAX_SECOND))


def _iso(second: int) -> str:
    return f"{datetime.fromtimestamp(second, UTC):%Y-%m-%dT%H:%M:%SZ}"

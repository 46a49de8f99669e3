"""Which links the updates of pages added: the versions of true histories, one JSON object a line.

`{"url": …, "versions": [{"at": …, "added": [link, …]}, …]}`, with further keys passed over. Links are
texts of any kind, the same one wherever it is the same link. A name that ends in `.gz` is that of a file
packed by gzip.
"""

from __future__ import annotations

import gzip
import json
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from hacs_crawler.archive.timelines import Events, TimelineError, second_of
from hacs_crawler.links import fingerprint
from hacs_crawler.utils.text import reason_of

Links = list[list[frozenset[int]]]
"""For each page the fingerprints of the links that it had at first, and that each update added."""


def read_versions(path: Path, urls: Sequence[str], updates: Events) -> Links:
    """Read which links each update of the pages added, those that the page had never shown before.

    What versions add before a page's first update it had at first, what they add from an update on up to
    the next one is that update's. Pages that are not among `urls` are passed over. Raises TimelineError
    where the file cannot be read, a value does not parse, a page is missing, or an update added nothing.
    """
    places = {url: place for place, url in enumerate(urls)}
    found: dict[int, list[frozenset[int]]] = {}
    for where, fields in _objects(path):
        url = fields.get("url") if isinstance(fields, dict) else None
        if not isinstance(url, str):
            raise TimelineError(f"{where}: there is no text 'url'")
        place = places.get(url)
        if place is None:
            continue
        if place in found:
            raise TimelineError(f"{where}: url = {url!r}: a second time")
        times = updates.of(place).tolist()
        found[place] = _added(where, fields.get("versions"), times)
        if not all(found[place][1:]):
            raise TimelineError(f"{where}: url = {url!r}: an update added no link")
    for place, url in enumerate(urls):
        if place not in found:
            raise TimelineError(f"{path}: there are no versions of {url}")
    return [found[place] for place in range(len(urls))]


def _added(where: str, versions: Any, times: list[int]) -> list[frozenset[int]]:
    """Return the links of the time before a page's first update, then of each update."""
    added: list[set[int]] = [set() for _ in range(len(times) + 1)]
    known: set[int] = set()
    try:
        in_order = [(second_of(version["at"]), version["added"]) for version in versions]
        if any(at > following for (at, _), (following, _) in pairwise(in_order)):
            raise TimelineError(f"{where}: its versions are not in the order of time")
        for at, links in in_order:
            new = {fingerprint(link) for link in links} - known
            known |= new
            added[bisect_right(times, at)] |= new
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        msg = f"{where}: each of 'versions' has to have a time 'at' and texts 'added': {error!r}"
        raise TimelineError(msg) from error
    return [frozenset(links) for links in added]


def _objects(path: Path) -> Iterator[tuple[str, Any]]:
    number = 0
    try:
        with gzip.open(path) if path.name.endswith(".gz") else path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield f"{path}, line {number}", json.loads(line)
    except (OSError, EOFError, zlib.error, ValueError, RecursionError) as error:
        raise TimelineError(f"{path}, line {number}: cannot read: {reason_of(error)}") from error

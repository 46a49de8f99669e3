"""What a source names that was never seen, and how like pages of it were asked for."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import parse_qsl, urlsplit

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.crawl.asked import Asked, read_asked
from hacs_crawler.links import page_id_of
from hacs_crawler.state import Annotation, State, source_id
from hacs_crawler.utils.times import DAY

MOST_A_SOURCE: Final = 5_000
"""Of the pages that a source names, and nobody has seen, at most so many are looked at: the newest."""
MOST_ASKED: Final = 1_000
"""Of the known pages of a source the ways of so many are compared."""
LEAST_ALIKE: Final = 3
MOST_TRIED: Final = 1_000
TRIED_DAYS: Final = 30
"""What was asked for, and did not become known, is not asked for again so soon."""
_TRIED: Final = np.dtype([("page_id", "<i8"), ("second", "<u4")])
_VERSION: Final = b"\x01"
_OF_A_LINK: Final = frozenset({"link_text"})
"""What a `CrawlSpider` writes into meta that is not of the page but of the link to it."""
_DIGITS = re.compile(r"\d+")

Tried = NDArray[np.void]


@dataclass(frozen=True, slots=True)
class Named:
    """What a source of a host names: URLs that were never seen, the newest first.

    `ways` says by the pattern of a URL how the known pages of that pattern were asked for, where that
    was in one way.
    """

    origin: str
    urls: list[str]
    ways: dict[str, Asked]


def named_by(
    state: State, spider_name: str, origin: str, pages: Mapping[str, int], now: float
) -> Named:
    """Return what a source names that a spider may ask for; `pages` are seconds by URL, 0 unknown."""
    ids: dict[int, str] = {}
    for url in sorted(pages, key=pages.__getitem__, reverse=True):
        try:
            ids.setdefault(page_id_of(url), url)
        except ValueError:
            continue
    page_ids = np.array(list(ids), np.int64)
    is_seen = state.rows(page_ids)["visits"] > 0
    tried = _read_tried(state, spider_name, origin, now)["page_id"]
    new = page_ids[~is_seen & ~np.isin(page_ids, tried)][:MOST_A_SOURCE]
    seen = page_ids[is_seen]
    ways = _ways(state, spider_name, ids, seen.tolist()) if len(new) else {}
    return Named(origin, [ids[one] for one in new.tolist()], ways)


def note_tried(
    state: State, spider_name: str, origin: str, page_ids: Sequence[int], now: float
) -> None:
    """Remember that pages which a host's sources name are asked for; of two at once one counts."""
    kind, key = _tried(spider_name), source_id(origin)
    before = _read_tried(state, spider_name, origin, now)
    new = np.array([(page_id, int(now)) for page_id in page_ids], _TRIED)
    value = _VERSION + np.concatenate([new, before])[:MOST_TRIED].tobytes()
    seen = state.store.annotations(kind, [key]).get(key, b"")
    state.store.annotate(kind, [Annotation(key, seen, value)])


def is_unseen(state: State, page_id: int) -> bool:
    """Whether a page was never seen."""
    return not state.rows(np.array([page_id], np.int64))["visits"][0]


def pattern_of(url: str) -> str:
    """Return what URLs of one kind have in common: host, folder, ending, and names in the query.

    Numbers in folders differ from page to page, as in those of days.
    """
    parts = urlsplit(url)
    path, slash = parts.path.rstrip("/"), "/" * parts.path.endswith("/")
    folder, _, name = path.rpartition("/")
    ending = name.rpartition(".")[2] if "." in name else ""
    names = sorted({name for name, _ in parse_qsl(parts.query, keep_blank_values=True)})
    shown = "*" if name else ""
    return f"{parts.netloc.lower()}{_DIGITS.sub('0', folder)}/{shown}.{ending}{slash}?{'&'.join(names)}"


def _ways(
    state: State, spider_name: str, urls: Mapping[int, str], seen: Sequence[int]
) -> dict[str, Asked]:
    """Return how like pages were asked for: three at least, in one way, and most of those there are."""
    patterns = {page_id: pattern_of(url) for page_id, url in urls.items()}
    listed, known = Counter(patterns.values()), Counter(patterns[page_id] for page_id in seen)
    compared = seen[:MOST_ASKED]
    looked_at = Counter(patterns[page_id] for page_id in compared)
    found: dict[str, list[Asked]] = {}
    for page_id, how in read_asked(state, spider_name, compared).items():
        if how is not None:
            found.setdefault(patterns[page_id], []).append(_way(how))
    return {
        pattern: ways[0]
        for pattern, ways in found.items()
        if len(ways) >= LEAST_ALIKE
        and 2 * len(ways) >= looked_at[pattern]
        and 2 * known[pattern] >= listed[pattern]
        and not ways[0].after_form
        and all(way == ways[0] for way in ways)
    }


def _way(asked: Asked) -> Asked:
    """Return how a page was asked for, without what is of that page alone."""
    headers = {
        name: values for name, values in (asked.headers or {}).items() if name.lower() != "referer"
    }
    meta = {key: value for key, value in (asked.meta or {}).items() if key not in _OF_A_LINK}
    return replace(asked, url="", headers=headers, meta=meta, depth=1, leads_on=False)


def _read_tried(state: State, spider_name: str, origin: str, now: float) -> Tried:
    key = source_id(origin)
    body = state.store.annotations(_tried(spider_name), [key]).get(key, b"")
    if body[:1] != _VERSION or len(body[1:]) % _TRIED.itemsize:
        return np.zeros(0, _TRIED)
    tried = np.frombuffer(body, _TRIED, offset=1)
    return tried[tried["second"] > now - TRIED_DAYS * DAY]


def _tried(spider_name: str) -> str:
    return f"tried/{spider_name}"

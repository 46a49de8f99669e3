"""A page as bytes, and the row of numbers that ranking needs of it.

Both stores keep these bytes, little-endian: the layout, the version, a checksum of all but the layout, a
header (in it the number of the links' source, see `Page.hrefs`), the URL and the validators in UTF-8,
the harvests (16 bytes each), the marks (8 each), then lists of numbers of 4 bytes, whose lengths the
header names: visits, runs of marks, changes of rules, digests, contents, echoes, and which links were
last seen at another time than the latest. A page of 100 links and 50 visits with 10 updates takes about
1.2 KB. Of marks other than links, most of which may be gone, the last list may have runs of marks that
were last seen together: then the latest is 0.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left
from collections.abc import Mapping
from itertools import accumulate, chain, groupby, repeat
from typing import Final, Literal
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from hacs_crawler.exceptions import StateError
from hacs_crawler.links import site_id
from hacs_crawler.state.page import Harvest, Page, Updates
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

LAYOUT: Final = 1
_LISTS: Final = 7
_BEGINNING: Final = struct.Struct("<BII")
_HEADER: Final = struct.Struct(f"<BBBIIIdfffffQHHHHII{_LISTS}I")
_HARVEST: Final = struct.Struct("<IIq")
VERSION_OFFSET: Final = 1
"""Where the four bytes of a page's version stand in its bytes; the Redis script compares them."""
_LONGEST_TEXT: Final = 65_535
_MOST_SINGLE: Final = float(np.finfo(np.float32).max)
_MOST_HALF: Final = float(np.finfo(np.float16).max)

ROW: Final = np.dtype(
    [
        ("rate", "<f4"),
        ("last_visit", "<u4"),
        ("last_update", "<u4"),
        ("not_before", "<u4"),
        ("visits", "<u2"),
        ("updates", "<u2"),
        ("failures", "u1"),
        ("before_update", "<u4"),
        ("site", "<u4"),
        ("log_sd", "<f4"),
        ("fast", "<f2"),
        ("slow", "<f2"),
        ("churn", "<f2"),
        ("churning", "<f2"),
        ("is_baseline", "u1"),
    ]
)
"""What ranking needs of a page: rate in 1/day and its log_sd, two rates, churn and churning (see
`model.Rates`), times in seconds since 1970 UTC, counts.

`last_visit` is 0 where the page was never seen. `last_update` is, where no update is known (`updates` is
0), the first visit or the last baseline: from then on the page is known not to have changed.
`before_update` is the visit before the last one that found an update, 0 where there is none; `site` is
`site_id` of the page's URL. `failures` counts the 404s and 410s, too, of a page that was never seen.
`is_baseline` is 1 where the last visit is one (`Page.baselines`).
"""
UNKNOWN_ROW: Final = np.zeros(1, ROW)


def encode_page(page: Page) -> bytes:
    """Return the page's bytes."""
    texts = [
        text.encode("utf-8", "replace")[:_LONGEST_TEXT]
        for text in (page.url, page.etag, page.last_modified)
    ]
    last_seen, exceptions = _packed_last_seen(page.last_seen)
    if page.keeps_spells and len(runs := _runs(page.last_seen)) < len(exceptions):
        last_seen, exceptions = 0, runs
    lists = (
        page.visits,
        page.runs,
        page.rule_changes,
        page.digests,
        page.contents,
        page.echoes,
        exceptions,
    )
    header = _HEADER.pack(
        page.gone,
        page.failures,
        page.is_in_site | page.keeps_spells << 1,
        page.marks_since,
        page.last_news,
        page.not_before,
        page.rate,
        page.log_sd,
        page.fast,
        page.slow,
        page.churn,
        page.churning,
        page.hrefs,
        *map(len, texts),
        len(page.harvests),
        len(page.marks),
        last_seen,
        *map(len, lists),
    )
    harvests = [
        _HARVEST.pack(harvest.source, harvest.until, harvest.digest)
        for _, harvest in sorted(page.harvests.items())
    ]
    numbers = b"".join(map(_to_bytes, lists))
    rest = b"".join([header, *texts, *harvests, _to_bytes(page.marks), numbers])
    return _BEGINNING.pack(LAYOUT, page.version, crc32(rest, page.version)) + rest


def decode_page(body: bytes) -> Page:
    """Return the page whose bytes these are.

    Raises StateError where they are damaged or of a layout that this version does not know.
    """
    if not body or body[0] != LAYOUT:
        found = f"layout {body[0]}" if body else "nothing"
        msg = f"a stored page is damaged or newer than this version: found {found}, not {LAYOUT}"
        raise StateError(msg)
    if len(body) >= _BEGINNING.size:
        _, version, checksum = _BEGINNING.unpack_from(body)
        rest = memoryview(body)[_BEGINNING.size :]
        if crc32(rest, version) == checksum:
            return _decode(rest, version)
    raise StateError(f"a stored page of {len(body)} bytes is damaged: its checksum is not theirs")


def decode_pages(bodies: Mapping[int, bytes]) -> dict[int, Page]:
    """Return pages by id; damaged ones are logged and left out."""
    pages: dict[int, Page] = {}
    for page_id, body in bodies.items():
        try:
            pages[page_id] = decode_page(body)
        except StateError as error:
            logger.error("the page with id %d cannot be read: %s", page_id, error)
    return pages


def _decode(body: memoryview, version: int) -> Page:
    gone, failures, flags, since, news, not_before, *rest = _HEADER.unpack_from(body)
    rate, log_sd, fast, slow, churn, churning, hrefs, *sizes = rest
    url, etag, modified, harvests, links, last_seen, *lengths = sizes
    parts = _HEADER.size, url, etag, modified, harvests * _HARVEST.size, 8 * links
    ends = [*accumulate(parts)]
    numbers = _from_bytes("I", body[ends[5] :])
    visits, runs, rule_changes, digests, contents, echoes, exceptions = (
        numbers[end - length : end]
        for end, length in zip(accumulate(lengths), lengths, strict=True)
    )
    return Page(
        str(body[ends[0] : ends[1]], "utf-8", "replace"),
        visits,
        runs,
        _from_bytes("q", body[ends[4] : ends[5]]),
        _last_seen(last_seen, exceptions, links),
        digests,
        contents,
        echoes,
        flags & 1 != 0,
        since,
        news,
        gone,
        failures,
        not_before,
        rate,
        log_sd,
        fast,
        slow,
        churn,
        churning,
        version,
        str(body[ends[1] : ends[2]], "utf-8", "replace"),
        str(body[ends[2] : ends[3]], "utf-8", "replace"),
        hrefs,
        {
            source: Harvest(source, until, digest)
            for source, until, digest in _HARVEST.iter_unpack(body[ends[3] : ends[4]])
        },
        rule_changes,
        flags & 2 != 0,
    )


def encode_row(page: Page, updates: Updates = "page") -> bytes:
    """Return the page's ranking row, one element of dtype `ROW`."""
    visits = page.visits
    times = page.updates_of(updates)
    baselines = [bisect_left(visits, at) for at in page.baselines]
    gaps_with_update = {bisect_left(visits, at) for at in times} - {0, len(visits), *baselines}
    first = visits[0] if visits else 0
    since = visits[baselines[-1]] if baselines and baselines[-1] < len(visits) else first
    row = (
        min(page.rate, _MOST_SINGLE),
        visits[-1] if visits else 0,
        max(first, times[-1]) if times else since,
        page.not_before,
        min(len(visits), 65_535),
        min(len(gaps_with_update), 65_535),
        page.failures if visits else min(page.failures + page.gone, 255),
        _visit_before(visits, times[-1]) if times else 0,
        site_id(page.url),
        page.log_sd,
        min(page.fast, _MOST_HALF),
        min(page.slow, _MOST_HALF),
        page.churn,
        page.churning,
        since == visits[-1] > first if visits else False,
    )
    return _ROW.pack(*row)


def unsound(rows: NDArray[np.void]) -> NDArray[np.intp]:
    """Return the places of ranking rows whose rate is no rate, or its log_sd, churn or churning none."""
    is_sound = np.ones(len(rows), np.bool_)
    for name, least, most in (
        ("rate", 0.0, _MOST_SINGLE),
        ("log_sd", -2.0, _MOST_SINGLE),
        ("fast", 0.0, _MOST_HALF),
        ("slow", 0.0, _MOST_HALF),
        ("churn", 0.0, 1.0),
        ("churning", 0.0, 1.0),
    ):
        is_sound &= (rows[name] >= least) & (rows[name] <= most)
    return np.flatnonzero(~is_sound)


def row_of(body: bytes, updates: Updates) -> bytes:
    """Return the ranking row of a page's bytes, that of an unknown page where they are damaged."""
    try:
        return encode_row(decode_page(body), updates)
    except StateError:
        return UNKNOWN_ROW.tobytes()


_ROW: Final = struct.Struct("<fIIIHHBIIfeeeeB")


def _visit_before(visits: array[int], at: int) -> int:
    place = bisect_left(visits, at)
    return visits[place - 1] if 0 < place < len(visits) else 0


def _packed_last_seen(last_seen: array[int]) -> tuple[int, array[int]]:
    """Return the latest of the times, and the places, then the times, of links with another one."""
    latest = max(last_seen, default=0)
    if last_seen.count(latest) == len(last_seen):  # as of most pages
        return latest, array("I")
    places = [place for place, at in enumerate(last_seen) if at != latest]
    return latest, array("I", [*places, *(last_seen[place] for place in places)])


def _runs(last_seen: array[int]) -> array[int]:
    return array("I", chain.from_iterable((at, len(list(run))) for at, run in groupby(last_seen)))


def _last_seen(latest: int, exceptions: array[int], links: int) -> array[int]:
    if exceptions and not latest:
        runs = zip(exceptions[::2], exceptions[1::2], strict=True)
        return array("I", chain.from_iterable(repeat(at, number) for at, number in runs))
    last_seen = array("I", [latest]) * links
    number = len(exceptions) // 2
    for place, at in zip(exceptions[:number], exceptions[number:], strict=True):
        last_seen[place] = at
    return last_seen


def _from_bytes(code: Literal["I", "q"], body: memoryview) -> array[int]:
    numbers = array(code)
    numbers.frombytes(body)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _swapped(numbers: array[int]) -> bytes:
    numbers = numbers[:]
    numbers.byteswap()
    return numbers.tobytes()


_to_bytes: Final = array.tobytes if sys.byteorder == "little" else _swapped

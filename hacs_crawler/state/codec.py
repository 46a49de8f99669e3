"""A page as bytes, and the row of numbers that ranking needs of it.

Both stores keep these bytes: the layout, the version and a checksum of all but the layout, and then what
is known of the page as an array of MessagePack (https://msgpack.org). Lists of numbers are bytes in it,
little-endian as all of it is, 8 for a mark and 4 for any other, and so is what comes with the rate. Of
when marks were last seen these are the latest time, and for each one with another time its place, then
these times. A page of 100 links and 50 visits with 10 updates takes about 1.2 KB. Of marks other than
links, most of which may be gone, they may be runs of marks that were last seen together: then the latest
is 0.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left
from collections.abc import Mapping
from itertools import chain, groupby, repeat
from typing import Any, Final
from zlib import crc32

import msgspec
import numpy as np
from numpy.typing import NDArray

from hacs_crawler.exceptions import StateError
from hacs_crawler.links import site_id
from hacs_crawler.state.page import Harvest, Page, Updates
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

LAYOUT: Final = 1
_BEGINNING: Final = struct.Struct("<BII")
_RATES: Final = struct.Struct("<5f")
VERSION_OFFSET: Final = 1
"""Where the four bytes of a page's version stand in its bytes; the Redis script compares them."""
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
        ("share", "<f2"),
        ("fast", "<f4"),
        ("slow", "<f2"),
        ("churn", "<f2"),
        ("churning", "<f2"),
        ("is_baseline", "u1"),
    ]
)
"""What ranking needs of a page: rate in 1/day, w, a and b of its survival, churn and churning (see
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
    latest, others = _packed_last_seen(page)
    if page.keeps_spells and len(runs := _runs(page.last_seen)) < len(others):
        latest, others = 0, runs
    known = _encode(
        (
            _text(page.url),
            _to_bytes(page.visits),
            _to_bytes(page.runs),
            _to_bytes(page.marks),
            _to_bytes(others),
            _to_bytes(page.digests),
            _to_bytes(page.contents),
            _to_bytes(page.echoes),
            page.is_in_site,
            page.marks_since,
            page.last_news,
            page.gone,
            page.failures,
            page.not_before,
            page.rate,
            _RATES.pack(page.share, page.fast, page.slow, page.churn, page.churning),
            _text(page.etag),
            _text(page.last_modified),
            page.hrefs,
            [(one.source, one.until, one.digest) for _, one in sorted(page.harvests.items())],
            _to_bytes(page.rule_changes),
            page.keeps_spells,
            latest,
        )
    )
    return _BEGINNING.pack(LAYOUT, page.version, crc32(known, page.version)) + known


def decode_page(body: bytes) -> Page:
    """Return the page whose bytes these are.

    Raises StateError where they are damaged or of a layout that this version does not know.
    """
    if not body or body[0] != LAYOUT:
        found = f"layout {body[0]}" if body else "nothing"
        msg = f"a stored page is damaged or newer than this version: found {found}, not {LAYOUT}"
        raise StateError(msg)
    try:
        _, version, checksum = _BEGINNING.unpack_from(body)
        known = memoryview(body)[_BEGINNING.size :]
        if crc32(known, version) == checksum:
            return _decoded(known, version)
        what = "its checksum is not theirs"
    except (struct.error, TypeError, ValueError) as error:  # whoever wrote it: not this package
        what = str(error)
    raise StateError(f"a stored page of {len(body)} bytes is damaged: {what}")


def decode_pages(bodies: Mapping[int, bytes]) -> dict[int, Page]:
    """Return pages by id; damaged ones are logged and left out."""
    pages: dict[int, Page] = {}
    for page_id, body in bodies.items():
        try:
            pages[page_id] = decode_page(body)
        except StateError as error:
            logger.error("the page with id %d cannot be read: %s", page_id, error)
    return pages


def _decoded(known: memoryview, version: int) -> Page:
    url, visits, runs, marks, others, digests, contents, echoes, *numbers = _decode(known)
    is_in_site, since, news, gone, failures, not_before, rate, rates, *rest = numbers
    etag, last_modified, hrefs, harvests, rule_changes, keeps_spells, latest = rest
    share, fast, slow, churn, churning = _RATES.unpack(rates)
    return Page(  # in the order of its fields: to name them takes longer
        url,
        _from_bytes("I", visits),
        _from_bytes("I", runs),
        _from_bytes("q", marks),
        _last_seen(latest, _from_bytes("I", others), len(marks) // 8),
        _from_bytes("I", digests),
        _from_bytes("I", contents),
        _from_bytes("I", echoes),
        is_in_site,
        since,
        news,
        gone,
        failures,
        not_before,
        rate,
        share,
        fast,
        slow,
        churn,
        churning,
        version,
        etag,
        last_modified,
        hrefs,
        {source: Harvest(source, until, digest) for source, until, digest in harvests},
        _from_bytes("I", rule_changes),
        keeps_spells,
    )


def encode_row(page: Page, updates: Updates = "page") -> bytes:
    """Return the page's ranking row, one element of dtype `ROW`."""
    visits, times, baselines = page.visits, page.updates_of(updates), page.baselines
    first, last = (visits[0], visits[-1]) if visits else (0, 0)
    since, number = first, 0
    if times or baselines:  # as of few pages
        starts = [bisect_left(visits, at) for at in baselines]
        since = visits[starts[-1]] if starts and starts[-1] < len(visits) else first
        number = len({bisect_left(visits, at) for at in times} - {0, len(visits), *starts})
    row = (
        min(page.rate, _MOST_SINGLE),
        last,
        max(first, times[-1]) if times else since,
        page.not_before,
        min(len(visits), 65_535),
        min(number, 65_535),
        page.failures if visits else min(page.failures + page.gone, 255),
        _visit_before(visits, times[-1]) if times else 0,
        site_id(page.url),
        page.share,
        min(page.fast, _MOST_SINGLE),
        min(page.slow, _MOST_HALF),
        page.churn,
        page.churning,
        since == last > first,
    )
    return _ROW.pack(*row)


def unsound(rows: NDArray[np.void]) -> NDArray[np.intp]:
    """Return the places of ranking rows whose rate, survival, churn or churning is not one."""
    is_sound = np.ones(len(rows), np.bool_)
    for name, least, most in (
        ("rate", 0.0, _MOST_SINGLE),
        ("share", -1.0, 1.0),
        ("fast", 0.0, _MOST_SINGLE),
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


_ROW: Final = struct.Struct("<fIIIHHBIIefeeeB")


def _visit_before(visits: array[int], at: int) -> int:
    place = bisect_left(visits, at)
    return visits[place - 1] if 0 < place < len(visits) else 0


def _packed_last_seen(page: Page) -> tuple[int, array[int]]:
    """Return the latest of the times, and the places, then the times, of links with another one."""
    latest, is_all = page.marks_until()
    if is_all:
        return latest, array("I")
    places = [place for place, at in enumerate(page.last_seen) if at != latest]
    return latest, array("I", [*places, *(page.last_seen[place] for place in places)])


def _runs(last_seen: array[int]) -> array[int]:
    return array("I", chain.from_iterable((at, len(list(run))) for at, run in groupby(last_seen)))


def _last_seen(latest: int, exceptions: array[int], links: int) -> array[int]:
    if not exceptions:  # as of most pages
        return array("I", [latest]) * links
    if not latest:
        runs = zip(exceptions[::2], exceptions[1::2], strict=True)
        return array("I", chain.from_iterable(repeat(at, number) for at, number in runs))
    last_seen = array("I", [latest]) * links
    number = len(exceptions) // 2
    for place, at in zip(exceptions[:number], exceptions[number:], strict=True):
        last_seen[place] = at
    return last_seen


def _text(text: str) -> str:
    """Return a text that can be written as UTF-8."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _swapped_array(code: str, body: bytes) -> array[int]:
    numbers = array(code, body)
    numbers.byteswap()
    return numbers


def _swapped_bytes(numbers: array[int]) -> bytes:
    return _swapped_array(numbers.typecode, numbers.tobytes()).tobytes()


_from_bytes: Final = array if sys.byteorder == "little" else _swapped_array
_to_bytes: Final = array.tobytes if sys.byteorder == "little" else _swapped_bytes
_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(list[Any]).decode

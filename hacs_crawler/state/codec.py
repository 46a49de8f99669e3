"""A page as bytes, and the row of numbers that ranking needs of it.

Both stores keep these bytes: the layout, the version and a checksum of all but the layout, and then the
page as an array of MessagePack (https://msgpack.org), its fields in their order. Lists of numbers are
bytes in it, little-endian as all of it is, 8 for a mark and 4 for any other, after a letter that says
which. A page of 100 links and 50 visits with 10 updates takes about 1.2 KB.
"""

from __future__ import annotations

import struct
import sys
from array import array
from bisect import bisect_left
from collections.abc import Callable, Mapping
from typing import Any, Final
from zlib import crc32

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from hacs_crawler.exceptions import StateError
from hacs_crawler.links import site_id
from hacs_crawler.state.page import Page
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

LAYOUT: Final = 1
_BEGINNING: Final = struct.Struct("<BII")
# Where the four bytes of a page's version stand in its bytes; the Redis script compares them.
VERSION_OFFSET: Final = 1
_MOST_SINGLE: Final = float(np.finfo(np.float32).max)
_MOST_HALF: Final = float(np.finfo(np.float16).max)

# A ranking row: rate in 1/day, w, a and b of its survival, churn and churning (see `model.Rates`),
# times in seconds since 1970 UTC, counts.
#
# Visits that did not show the page (`Page.sound`) are not in it. `last_visit` is 0 if the page was
# never seen. If no update is known (`updates` is 0), `last_update` is the first visit or the last
# baseline: from then on the page is known not to have changed. `before_update` is the visit before
# the last visit that found an update, 0 without one; `site` is `site_id` of the page's URL.
# `failures` counts the 404s and 410s, too, of a page that was never seen. `is_baseline` is 1 if the
# last visit is a baseline (`Page.baselines`).
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
UNKNOWN_ROW: Final = np.zeros(1, ROW)


def encode_page(page: Page) -> bytes:
    """Return the page's bytes."""
    try:
        encoded = _encode(page)
    except UnicodeEncodeError:
        texts = (page.url, page.etag, page.last_modified)
        url, etag, modified = (text.encode("utf-8", "replace").decode() for text in texts)
        encoded = _encode(replace(page, url=url, etag=etag, last_modified=modified))
    return _BEGINNING.pack(LAYOUT, page.version, crc32(encoded, page.version)) + encoded


def decode_page(body: bytes) -> Page:
    """Return the page whose bytes these are.

    Raises StateError if they are damaged or of a layout that this version does not know.
    """
    if not body or body[0] != LAYOUT:
        layout = f"layout {body[0]}" if body else "nothing"
        msg = f"a stored page is damaged or newer than this version: found {layout}, not {LAYOUT}"
        raise StateError(msg)
    try:
        _, version, checksum = _BEGINNING.unpack_from(body)
        content = memoryview(body)[_BEGINNING.size :]
        if crc32(content, version) == checksum:
            return _decode(content)
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


def encode_row(page: Page) -> bytes:
    """Return the page's ranking row, one element of dtype `ROW`."""
    page = page.sound
    visits, times, baselines = page.visits, page.update_times, page.baselines
    first, last = (visits[0], visits[-1]) if visits else (0, 0)
    since, number = first, 0
    if times or baselines:  # like few pages
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


def row_of(body: bytes) -> bytes:
    """Return the ranking row of a page's bytes; the row of an unknown page if they are damaged."""
    try:
        return encode_row(decode_page(body))
    except StateError:
        return UNKNOWN_ROW.tobytes()


_ROW: Final = struct.Struct("<fIIIHHBIIefeeeB")


def _visit_before(visits: array[int], at: int) -> int:
    index = bisect_left(visits, at)
    return visits[index - 1] if 0 < index < len(visits) else 0


def _packed(numbers: array[int]) -> bytes:
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers.typecode.encode() + numbers.tobytes()


def _unpacked(kind: type, body: Any) -> Any:
    if kind is not array:
        raise NotImplementedError
    code, packed = bytes(body[:1]).decode("ascii"), bytes(body[1:])
    if code not in {"I", "q"}:
        raise ValueError(f"no numbers are kept as {code!r}")
    numbers = array(code, packed)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


_encode: Final[Callable[[Page], bytes]] = msgspec.msgpack.Encoder(enc_hook=_packed).encode
_decode: Final = msgspec.msgpack.Decoder(Page, dec_hook=_unpacked).decode

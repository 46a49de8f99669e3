"""A page as bytes.

Both stores keep these bytes: the layout, the version, a checksum of everything but the layout, and the
page's fields in order, as an array of MessagePack (https://msgpack.org). In it, visits and spells are
byte strings: a type letter, then 8 bytes for each mark or 4 for any other number. A page of 100 links
and 50 visits with 10 updates takes about 1.3 KB.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Callable, Mapping
from typing import Any, Final
from zlib import crc32

import msgspec

from hacs_crawler.exceptions import StateError
from hacs_crawler.state.page import Page
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

# Numbers are in the machine's byte order: pages written with the other byte order are refused.
LAYOUT: Final = 1 if sys.byteorder == "little" else 129
_BEGINNING: Final = struct.Struct("<BII")
# Offset of the four bytes of a page's version, which the Redis script compares.
VERSION_OFFSET: Final = 1
_CODES: Final = {b"I": "I", b"q": "q"}


def encode_page(page: Page) -> bytes:
    """Return the page's bytes."""
    encoded = _encode(page)  # its version there is ignored: stores read the header's
    return _BEGINNING.pack(LAYOUT, page.version, crc32(encoded, page.version)) + encoded


def decode_page(body: bytes) -> Page:
    """Return the page; raises StateError if its bytes are damaged or have an unknown layout."""
    if not body or body[0] != LAYOUT:
        layout = f"layout {body[0]}" if body else "nothing"
        msg = f"a stored page is damaged or newer than this version: found {layout}, not {LAYOUT}"
        raise StateError(msg)
    try:
        _, version, checksum = _BEGINNING.unpack_from(body)
        content = body[_BEGINNING.size :]
        if crc32(content, version) == checksum:
            page: Page = _decode(content)
            page.version = version
            return page
        what = "its checksum is wrong"
    except (struct.error, TypeError, ValueError) as error:  # this package did not write it
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


def _packed(numbers: array[int]) -> bytes:
    return numbers.typecode.encode() + numbers.tobytes()


def _unpacked(kind: type, body: Any) -> Any:
    code = _CODES.get(body[:1]) if kind is array else None
    if code is None:
        raise ValueError(f"unknown type of numbers {body[:1]!r}")
    return array(code, body[1:])


_encode: Final[Callable[[Page], bytes]] = msgspec.msgpack.Encoder(enc_hook=_packed).encode
_decode: Final = msgspec.msgpack.Decoder(Page, dec_hook=_unpacked).decode

"""Splits WARC and ARC files into records (ISO 28500; the ARC format of the Internet Archive).

The length of each record is checked: a record with a wrong length shows a page with fewer links,
and the next visit would seem to find new ones. Reading continues after a damaged record. Segments
of a record (WARC-Segment-Number) are not joined.
"""

import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from itertools import groupby
from operator import itemgetter
from types import ModuleType
from typing import Final

from hacs_crawler.archive.capture import ArchiveError, parse_timestamp
from hacs_crawler.archive.source import LONGEST_LINE_BYTES, Source
from hacs_crawler.exceptions import needing
from hacs_crawler.utils.times import parse_iso

MOST_HEADERS_BYTES: Final = 1 << 20
_WARC: Final = b"WARC/"
_NEXT_WARC: Final = re.compile(rb"^WARC/[0-9.]{1,9}\r?\n", re.MULTILINE)
_LONGEST_BEGINNING: Final = 20
# Of revisit records; what others say of the content is not known.
_PROFILES: Final = ("identical-payload-digest", "server-not-modified")
_ARC_LINE: Final = re.compile(
    rb"(?P<url>\S.*) (?P<ip>\S+) (?P<at>[0-9]{8,17}) (?P<mime>\S+)(?: .*)? (?P<length>[0-9]{1,12})\s*\Z"
)
_TIME_OF_ARC: Final = 14


@dataclass(frozen=True, slots=True)
class Record:
    """One record: `block` is its content, up to the requested number of bytes.

    `at` is in seconds since 1970 UTC, None without a valid time. `is_cut` says that the record has
    only part of the answer, or that `block` has only part of the record. `mime` is the type of the
    block, or "".
    """

    kind: str
    url: str
    at: int | None
    block: bytes
    is_cut: bool
    mime: str = ""


class _DamagedError(Exception):
    """A record cannot be read; the bytes in `block` may contain the next record."""

    def __init__(self, problem: str, block: bytes = b"") -> None:
        super().__init__(problem)
        self.block = block


def read_records(source: Source, most_bytes: int) -> Iterator[Record]:
    """Yield the records of a WARC or ARC file, in its order, reading lazily.

    Raises ArchiveError, with the source's name and offset, where reading cannot continue, and at
    the end if records were damaged; also if warcio is missing. Offsets of records are in the
    unpacked data, offsets of gzip members in the file.
    """
    stream = _Stream(source)
    damage, damaged = "", 0
    while True:
        try:
            record = _next_record(stream, most_bytes)
        except _DamagedError as error:
            damage = damage or f"record at byte {stream.record_at}: {error}"
            damaged += 1
            if not (stream.next_beginning(error.block) or stream.next_member()):
                break
            continue
        if record is not None:
            yield record
        elif not stream.next_member():
            break
    if damage:
        more = f"; {damaged - 1} more are damaged" if damaged > 1 else ""
        raise ArchiveError(f"{source.name}, {damage}{more}")


@needing("archive", "reading WARC files needs warcio", ArchiveError)
def warcio_headers() -> ModuleType:
    """Return warcio's parser of headers; raises ArchiveError if warcio is not installed."""
    return import_module("warcio.statusandheaders")


def _next_record(stream: "_Stream", most_bytes: int) -> Record | None:
    """Return the next record of a gzip member, or of an uncompressed file; None at its end."""
    while True:
        stream.record_at = stream.offset
        line = stream.line()
        if not line or line.strip():
            break
    if not line:
        return None
    if line.startswith(_WARC):
        return _warc_record(stream, line, most_bytes)
    arc = _ARC_LINE.match(line)
    if arc is None:
        raise _DamagedError(f"damaged: neither WARC nor ARC begins with {line[:60]!r}")
    block, is_cut = stream.block(int(arc["length"]), most_bytes)
    url = arc["url"].decode("utf-8", "replace")
    kind = "filedesc" if url.startswith("filedesc:") else "response"
    return Record(kind, url, parse_timestamp(arc["at"].decode()[:_TIME_OF_ARC]), block, is_cut)


def _warc_record(stream: "_Stream", line: bytes, most_bytes: int) -> Record:
    lines, size = [line], 0
    while size < MOST_HEADERS_BYTES and lines[-1].strip() and (header := stream.line()):
        size += len(header)
        # continuation lines: headers that matter here do not contain blanks
        if header[:1] in b" \t" and header.strip():
            lines[-1] = lines[-1].rstrip() + header.lstrip()
        else:
            lines.append(header)
    warcio = warcio_headers()
    parser = warcio.StatusAndHeadersParser([], verify=False)
    try:
        headers = parser.parse(io.BytesIO(b"".join(lines)))
    except (warcio.StatusAndHeadersParserException, ValueError, EOFError) as error:
        raise _DamagedError(f"damaged: {' '.join(str(error).split())}") from error
    kind = headers.get_header("WARC-Type")
    length = (headers.get_header("Content-Length") or "").strip()
    if not kind or not (length.isascii() and length.isdecimal()) or lines[-1].strip():
        raise _DamagedError("damaged or truncated: no WARC-Type or no Content-Length")
    block, is_cut = stream.block(int(length), most_bytes)
    url = (headers.get_header("WARC-Target-URI") or "").strip("<>").replace(" ", "%20")
    at = parse_iso(headers.get_header("WARC-Date") or "")
    is_cut |= any(headers.get_header(f"WARC-{name}") for name in ("Truncated", "Segment-Number"))
    mime = headers.get_header("Content-Type") or ""
    kind = kind.strip().lower()
    profile = (headers.get_header("WARC-Profile") or "").strip("<>")
    if profile and not profile.endswith(_PROFILES):
        kind += " of an unknown profile"
    return Record(kind, url, at, block, is_cut, mime)


class _Stream:
    """Reads a source by lines and blocks; only `next_member` goes past the end of a gzip member."""

    def __init__(self, source: Source) -> None:
        self._members = groupby(source.pieces, itemgetter(0))
        self._pieces: Iterator[tuple[int, bytes]] = iter(())
        self._buffer = b""
        self._position = 0
        self.offset = 0
        self.record_at = 0
        self.next_member()

    def next_member(self) -> bool:
        """Go to the next gzip member; return whether there is one."""
        while self._fill():
            self._drop(len(self._buffer) - self._position)
        self._drop(len(self._buffer) - self._position)
        member = next(self._members, None)
        if member is not None:
            self._pieces = member[1]
        return member is not None

    def next_beginning(self, block: bytes) -> bool:
        """Go to the next WARC record in a damaged block or after it; return whether there is one."""
        self._buffer, self._position = block + self._buffer[self._position :], 0
        self.offset -= len(block)
        while (match := _NEXT_WARC.search(self._buffer, self._position)) is None:
            left = len(self._buffer) - self._position
            self._drop(max(0, left - _LONGEST_BEGINNING))
            if not self._fill():
                return False
        self._drop(match.start() - self._position)
        return True

    def line(self) -> bytes:
        """Return the next line including its end, b"" after the last line."""
        while (end := self._buffer.find(b"\n", self._position)) < 0:
            if len(self._buffer) - self._position > LONGEST_LINE_BYTES or not self._fill():
                end = len(self._buffer) - 1
                break
        return self._take(end + 1 - self._position)

    def block(self, length: int, most_bytes: int) -> tuple[bytes, bool]:
        """Return the first bytes of a block, and whether it is longer; raises _DamagedError."""
        parts: list[bytes] = []
        left, wanted = length, min(length, most_bytes)
        while left:
            if self._position == len(self._buffer) and not self._fill():
                raise _DamagedError(f"truncated, {left} bytes are missing", b"".join(parts))
            part = self._take(min(left, len(self._buffer) - self._position))
            left -= len(part)
            if wanted:
                parts.append(part[:wanted])
                wanted -= len(parts[-1])
        while (end := self._buffer.find(b"\n", self._position)) < 0 and self._fill():
            pass
        if self._buffer[self._position : end if end >= 0 else None].strip():
            raise _DamagedError("damaged: wrong length", b"".join(parts))
        return b"".join(parts), length > most_bytes

    def _fill(self) -> bool:
        """Read more of the current member into the buffer; return whether there was more."""
        _, data = next(self._pieces, (0, b""))
        self._buffer = self._buffer[self._position :] + data
        self._position = 0
        return bool(data)

    def _take(self, size: int) -> bytes:
        data = self._buffer[self._position : self._position + size]
        self._drop(len(data))
        return data

    def _drop(self, size: int) -> None:
        self._position += size
        self.offset += size

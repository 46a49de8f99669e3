"""Streams files of archives, gzipped or not, and reports the exact position of damage."""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator
from itertools import chain, count, repeat
from typing import IO, Any, Final

from hacs_crawler.archive.capture import ArchiveError
from hacs_crawler.archive.payload import GZIP_MAGIC
from hacs_crawler.utils.text import reason_of

# Longer lines are cut off, to limit memory for damaged files.
LONGEST_LINE_BYTES: Final = 1 << 20
# How much of a file is read to recognize its format.
BEGINNING_BYTES: Final = 1 << 16
_BLOCK_BYTES: Final = 1 << 16


_PACKED: Final = {
    b"\x28\xb5\x2f\xfd": ("zstd", "zstd -d"),
    b"\x5d\x2a\x4d\x18": ("zstd", "zstd -d"),  # a WARC file with its own dictionary
    b"BZh": ("bzip2", "bunzip2"),
    b"\xfd7zXZ\0": ("xz", "unxz"),
    b"\x04\x22\x4d\x18": ("lz4", "lz4 -d"),
    b"LZIP": ("lzip", "lzip -d"),
    b"7z\xbc\xaf": ("7-Zip", "7z x"),
    b"Rar!": ("RAR", "unrar x"),
    b"\x1f\x9d": ("compress", "uncompress"),
}


def refuse_packed(beginning: bytes, name: str) -> None:
    """Raise ArchiveError with advice if a file is compressed, but not by gzip."""
    for magic, (packer, command) in _PACKED.items():
        if beginning.startswith(magic):
            raise ArchiveError(f"{name} is packed with {packer}: unpack it with `{command}`")


def open_source(path: str) -> Source:
    """Open a file, or "-" for standard input, and unpack it if it is gzipped.

    Raises ArchiveError if it cannot be opened. Reading raises it at the position of damage; a
    buffer in between may lose data before that.
    """
    name = "standard input" if path == "-" else path
    try:
        file = io.BufferedReader(io.FileIO(0 if path == "-" else path, closefd=path != "-"))
        return source_of(file, name)
    except (OSError, ValueError) as error:  # ValueError: NUL in the path
        raise ArchiveError(f"{name}: cannot read: {reason_of(error)}") from error


def source_of(file: IO[bytes], name: str) -> Source:
    """Return a source that reads a file with `peek`, and unpacks it if it is gzipped."""
    is_packed = file.peek(2)[:2] == GZIP_MAGIC  # type: ignore[attr-defined]
    blocks = _blocks(file, name)
    return Source(file, name, _unpacked(blocks, name) if is_packed else zip(repeat(0), blocks))


def read_lines(source: str | Source, longest_bytes: int = LONGEST_LINE_BYTES) -> Iterator[bytes]:
    """Yield the lines of a file, cut off after `longest_bytes`; raises ArchiveError.

    `source` is a path or a result of `open_source`, and is closed at the end.
    """
    raw = open_source(source) if isinstance(source, str) else source
    with io.BufferedReader(raw, _BLOCK_BYTES) as stream:
        while line := stream.readline(longest_bytes):
            yield line
            while len(line) == longest_bytes and not line.endswith(b"\n"):
                line = stream.readline(longest_bytes)


class Source(io.RawIOBase):
    """A file whose errors are ArchiveErrors with the position; `beginning` looks ahead.

    `pieces` are its bytes in pieces, each with the number of its gzip member.
    """

    def __init__(self, file: IO[bytes], name: str, pieces: Iterator[tuple[int, bytes]]) -> None:
        self.name = name
        self.pieces = pieces
        self._file = file
        self._left = b""

    def beginning(self, size: int = BEGINNING_BYTES) -> bytes:
        """Return the first bytes, fewer if the file is shorter or damaged; call it before reading.

        Reading still begins at the first byte, and raises at the position of damage.
        """
        ahead: list[tuple[int, bytes]] = []
        rest, found = self.pieces, b""
        try:
            while len(found) < size and (piece := next(rest, None)):
                ahead.append(piece)
                found += piece[1]
        except ArchiveError as error:
            rest = _failing(error)
        self.pieces = chain(ahead, rest)
        return found[:size]

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, target: Any, /) -> int:
        """Read some bytes into `target` and return how many; 0 at the end."""
        view = memoryview(target).cast("B")
        data = self._left or next(self.pieces, (0, b""))[1]
        data, self._left = data[: len(view)], data[len(view) :]
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()


def _failing(error: ArchiveError) -> Iterator[tuple[int, bytes]]:
    yield from ()
    raise error


def _blocks(file: IO[bytes], name: str) -> Iterator[bytes]:
    position = 0
    try:
        while data := file.read(_BLOCK_BYTES):
            position += len(data)
            yield data
    except OSError as error:
        raise ArchiveError(f"{name}, byte {position}: cannot read: {reason_of(error)}") from error


def _unpacked(blocks: Iterator[bytes], name: str) -> Iterator[tuple[int, bytes]]:
    """Unpack gzip members; damage is reported with the member's offset.

    `gzip.GzipFile` does not know offsets, and warcio takes its EOFError for the end of the file.
    The last piece of a member is held back until its checksum is verified.
    """
    packed, position = b"", 0
    for member in count(1):
        # members may be padded with zero bytes
        while not (packed := packed.lstrip(b"\0")):
            packed = next(blocks, b"")
            position += len(packed)
            if not packed:
                return
        place = f"{name}, gzip member at byte {position - len(packed)}"
        unpacker, held = zlib.decompressobj(zlib.MAX_WBITS | 16), b""
        while not unpacker.eof:
            if not packed:
                packed = next(blocks, b"")
                position += len(packed)
            is_end = not packed
            try:
                piece = unpacker.decompress(packed, _BLOCK_BYTES)
            except zlib.error as error:
                raise ArchiveError(f"{place}: damaged: {error}") from error
            if is_end and not piece and not unpacker.eof:
                raise ArchiveError(f"{place}: truncated at byte {position}")
            packed = unpacker.unused_data or unpacker.unconsumed_tail
            if piece and held:
                yield member, held
            held = piece or held
        if held:
            yield member, held

"""Files as archives ship them, gzipped or not: streamed, with the exact place of any damage."""

from __future__ import annotations

import io
import zlib
from collections import deque
from collections.abc import Iterator
from typing import IO, Any, Final

from hacs_crawler.archive.capture import ArchiveError
from hacs_crawler.archive.payload import GZIP_MAGIC
from hacs_crawler.utils.text import reason_of

# What lies beyond this in a line is left out; it bounds the memory that a damaged file takes.
LONGEST_LINE_BYTES: Final = 1 << 20
# How much of a file is read to recognize its kind.
BEGINNING_BYTES: Final = 1 << 16
_BLOCK_BYTES: Final = 1 << 16


_PACKED: Final = {
    b"\x28\xb5\x2f\xfd": ("zstd", "zstd -d"),
    b"\x5d\x2a\x4d\x18": ("zstd", "zstd -d"),  # a WARC file that brings its dictionary along
    b"BZh": ("bzip2", "bunzip2"),
    b"\xfd7zXZ\0": ("xz", "unxz"),
    b"\x04\x22\x4d\x18": ("lz4", "lz4 -d"),
    b"LZIP": ("lzip", "lzip -d"),
    b"7z\xbc\xaf": ("7-Zip", "7z x"),
    b"Rar!": ("RAR", "unrar x"),
    b"\x1f\x9d": ("compress", "uncompress"),
}


def refuse_packed(beginning: bytes, name: str) -> None:
    """Raise ArchiveError that says how to unpack a file that is not packed with gzip but otherwise."""
    for magic, (packer, command) in _PACKED.items():
        if beginning.startswith(magic):
            raise ArchiveError(f"{name} is packed with {packer}: unpack it with `{command}`")


def open_source(path: str) -> Source:
    """Open a file, or "-" for standard input, unpacking it if it begins as gzip does.

    Raises ArchiveError if it cannot be opened, and so does reading at a place that is damaged, after
    all that comes before it (which a buffer in between could swallow).
    """
    name = "standard input" if path == "-" else path
    try:
        file = io.BufferedReader(io.FileIO(0 if path == "-" else path, closefd=path != "-"))
        return source_of(file, name)
    except (OSError, ValueError) as error:  # ValueError: NUL in the path
        raise ArchiveError(f"{name}: cannot read: {reason_of(error)}") from error


def source_of(file: IO[bytes], name: str) -> Source:
    """Return what reads a file that has `peek`, and unpacks it if it begins as gzip does."""
    beginning = file.peek(2)[:2]  # type: ignore[attr-defined]
    return _Gunzip(file, name) if beginning == GZIP_MAGIC else Source(file, name)


def read_lines(source: str | Source, longest_bytes: int = LONGEST_LINE_BYTES) -> Iterator[bytes]:
    """Yield the lines of a file, of overlong ones the beginning.

    `source` is a path or what `open_source` returned, and is closed at the end. Raises as that and its
    reads do.
    """
    raw = open_source(source) if isinstance(source, str) else source
    with io.BufferedReader(raw, _BLOCK_BYTES) as stream:
        while line := stream.readline(longest_bytes):
            yield line
            while len(line) == longest_bytes and not line.endswith(b"\n"):
                line = stream.readline(longest_bytes)


class Source(io.RawIOBase):
    """A file whose failures are ArchiveErrors with the place; its beginning can be peeked at."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self.name = name
        self._file = file
        self._read_bytes = 0
        self._member = 0
        self._ahead: deque[tuple[int, bytes]] = deque()
        self._damage: ArchiveError | None = None

    def beginning(self, size: int = BEGINNING_BYTES) -> bytes:
        """Return the first bytes, less if it is shorter or damaged, before anything else is read.

        Reading then starts with them all the same, and comes to the damage in its place.
        """
        missing = size
        try:
            while missing > 0 and (data := self._next(missing)):
                self._ahead.append((self._member, data))
                missing -= len(data)
        except ArchiveError as error:
            self._damage = error
        return b"".join(data for _, data in self._ahead)

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, target: Any, /) -> int:
        """Read some bytes into `target` and return how many; 0 at the end."""
        view = memoryview(target).cast("B")
        _, data = self.read_of_member(len(view))
        view[: len(data)] = data
        return len(data)

    def read_of_member(self, size: int = _BLOCK_BYTES) -> tuple[int, bytes]:
        """Return some bytes, and the number of the gzip member that they are of; b"" at the end."""
        if self._ahead:
            member, data = self._ahead.popleft()
            if len(data) > size:
                self._ahead.appendleft((member, data[size:]))
            return member, data[:size]
        if self._damage is not None:
            raise self._damage
        data = self._next(size)
        return self._member, data

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()

    def _next(self, size: int) -> bytes:
        """Return some bytes, of one gzip member only, which `_member` then names."""
        try:
            data = self._file.read(size)
        except OSError as error:
            position = f"{self.name}, byte {self._read_bytes}"
            raise ArchiveError(f"{position}: cannot read: {reason_of(error)}") from error
        self._read_bytes += len(data)
        return data


class _Gunzip(Source):
    """Unpacks gzip members one after another; damage is reported with the member's first byte.

    Not `gzip.GzipFile`, which knows no offsets, and whose EOFError warcio takes for the file's end.
    The last piece of a member is held back until its checksum has been seen to be right.
    """

    def __init__(self, file: IO[bytes], name: str) -> None:
        super().__init__(file, name)
        self._packed = b""
        self._held = b""
        self._checked = b""
        self._member_at = 0
        self._unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
        self._is_inside = False

    def _next(self, size: int) -> bytes:
        while not self._checked:
            if not self._is_inside and not self._begin():
                return b""
            piece = self._unpack(size)
            if self._is_inside:
                if piece:
                    self._checked, self._held = self._held, piece
            else:
                self._checked, self._held = self._held + piece, b""
        data, self._checked = self._checked[:size], self._checked[size:]
        return data

    def _begin(self) -> bool:
        """Whether another member begins here; the zero bytes that may follow one are skipped."""
        self._packed = self._packed.lstrip(b"\0")
        while not self._packed:
            block = super()._next(_BLOCK_BYTES)
            if not block:
                return False
            self._packed = block.lstrip(b"\0")
        self._member_at = self._read_bytes - len(self._packed)
        self._member += 1
        self._unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
        self._is_inside = True
        return True

    def _unpack(self, size: int) -> bytes:
        position = f"{self.name}, gzip member at byte {self._member_at}"
        if not self._packed:
            self._packed = super()._next(_BLOCK_BYTES)
        is_end = not self._packed
        try:
            piece = self._unpacker.decompress(self._packed, size)
        except zlib.error as error:
            raise ArchiveError(f"{position}: damaged: {error}") from error
        if is_end and not piece and not self._unpacker.eof:
            raise ArchiveError(f"{position}: truncated at byte {self._read_bytes}")
        self._packed = self._unpacker.unused_data or self._unpacker.unconsumed_tail
        self._is_inside = not self._unpacker.eof
        return piece

"""Files as archives ship them, gzipped or not: streamed, and exact about where they are damaged."""

import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final

from hacs_crawler.archive.capture import ArchiveError

LONGEST_LINE_BYTES: Final = 1 << 20
"""What lies beyond this in a line is left out; it bounds the memory that a damaged file takes."""
_BLOCK_BYTES: Final = 1 << 16
_GZIP_MAGIC: Final = b"\x1f\x8b"


def open_source(path: str) -> io.RawIOBase:
    """Open a file, unpacking it as it is read if it begins as gzip does, whatever its name is.

    Raises ArchiveError if it cannot be opened, and so does reading at a place that is damaged, after
    all that comes before it (which a buffer in between could swallow).
    """
    try:
        file = Path(path).open("rb")  # noqa: SIM115 - closed with what is returned
        is_gzip = file.peek(2)[:2] == _GZIP_MAGIC
    except (OSError, ValueError) as error:  # ValueError: NUL in the path
        raise ArchiveError(f"{path}: cannot read: {_reason(error)}") from error
    return _Gunzip(file, path) if is_gzip else _Plain(file, path)


def read_lines(path: str) -> Iterator[bytes]:
    """Yield a file's lines, of overlong ones the beginning; raises as `open_source` and its reads."""
    with io.BufferedReader(open_source(path), _BLOCK_BYTES) as stream:
        while line := stream.readline(LONGEST_LINE_BYTES):
            yield line
            while len(line) == LONGEST_LINE_BYTES and not line.endswith(b"\n"):
                line = stream.readline(LONGEST_LINE_BYTES)


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)


class _Plain(io.RawIOBase):
    """A file whose failures are ArchiveErrors that say where."""

    def __init__(self, file: IO[bytes], name: str) -> None:
        self._file = file
        self._name = name
        self._read_bytes = 0

    def readable(self) -> bool:
        return True

    def readinto(self, target: Any, /) -> int:
        view = memoryview(target).cast("B")
        data = self._next(len(view))
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()

    def _next(self, size: int) -> bytes:
        try:
            data = self._file.read(size)
        except OSError as error:
            place = f"{self._name}, byte {self._read_bytes}"
            raise ArchiveError(f"{place}: cannot read: {_reason(error)}") from error
        self._read_bytes += len(data)
        return data


class _Gunzip(_Plain):
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
        self._member = zlib.decompressobj(zlib.MAX_WBITS | 16)
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
        self._member = zlib.decompressobj(zlib.MAX_WBITS | 16)
        self._is_inside = True
        return True

    def _unpack(self, size: int) -> bytes:
        place = f"{self._name}, gzip member at byte {self._member_at}"
        if not self._packed:
            self._packed = super()._next(_BLOCK_BYTES)
        is_end = not self._packed
        try:
            piece = self._member.decompress(self._packed, size)
        except zlib.error as error:
            raise ArchiveError(f"{place}: damaged: {error}") from error
        if is_end and not piece and not self._member.eof:
            raise ArchiveError(f"{place}: truncated at byte {self._read_bytes}")
        self._packed = self._member.unused_data or self._member.unconsumed_tail
        self._is_inside = not self._member.eof
        return piece

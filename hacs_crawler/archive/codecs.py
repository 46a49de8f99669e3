"""Content encodings of HTTP, undone within bounds."""

import zlib
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Final

from hacs_crawler.exceptions import HacsError
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)

GZIP_MAGIC: Final = b"\x1f\x8b"
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_PLAIN: Final = frozenset({"", "identity", "none"})
_MOST_CODINGS: Final = 4


class MissingCodecError(HacsError):
    """What undoes an encoding is not installed; the message says what to install."""


def decoded(body: bytes, codings: str, most_bytes: int) -> bytes | None:
    """Undo the encodings that a Content-Encoding header names, the last one first.

    Returns None where that is impossible or gives more bytes than allowed. Archives store many payloads
    unpacked under their old headers: what does not look packed is plain. Servers pack some twice and
    say so once: what looks like gzip where a page should be is unpacked too. Raises MissingCodecError.
    """
    names = [name for one in codings.split(",") if (name := one.strip().lower()) not in _PLAIN]
    if len(names) > _MOST_CODINGS:
        return None
    content: bytes | None = body
    for name in reversed(names):
        if not content or content.lstrip()[:1] == b"<":
            return content
        if name not in _CODECS:
            return None
        content = _CODECS[name](content, most_bytes)
    for _ in range(_MOST_CODINGS - len(names)):
        if content is None or content[:2] != GZIP_MAGIC:
            return content
        content = _gunzip(content, most_bytes)
    return content


@cache
def say_missing(problem: str) -> None:
    """Log, once for each kind, that payloads cannot be read for want of a codec."""
    logger.error("pages of an archive cannot be read: %s", problem)


def _gunzip(packed: bytes, most_bytes: int) -> bytes | None:
    return _inflate(packed, most_bytes, 16 + zlib.MAX_WBITS) if packed[:2] == GZIP_MAGIC else packed


def _undeflate(packed: bytes, most_bytes: int) -> bytes | None:
    content = _inflate(packed, most_bytes, zlib.MAX_WBITS)
    return _inflate(packed, most_bytes, -zlib.MAX_WBITS) if content is None else content


def _inflate(packed: bytes, most_bytes: int, window: int) -> bytes | None:
    try:
        unpacker = zlib.decompressobj(window)
        content = unpacker.decompress(packed, most_bytes)
    except zlib.error:
        return None
    is_whole = unpacker.eof and not unpacker.unused_data.startswith(GZIP_MAGIC)
    return content if is_whole else None


def _unbrotli(packed: bytes, most_bytes: int) -> bytes | None:
    brotli = _module("br", "brotli", "brotlicffi")
    try:
        unpacker = brotli.Decompressor()
        content: bytes = unpacker.process(packed, output_buffer_limit=most_bytes)
        while not unpacker.is_finished() and len(content) < most_bytes:
            more = unpacker.process(b"", output_buffer_limit=most_bytes - len(content))
            if not more:
                return None
            content += more
    except TypeError as error:
        raise MissingCodecError("for 'br' brotli is too old: pip install 'brotli>=1.2'") from error
    except brotli.error:
        return None
    return content if unpacker.is_finished() else None


def _unzstd(packed: bytes, most_bytes: int) -> bytes | None:
    if packed[:4] != _ZSTD_MAGIC:
        return packed
    zstd = _module("zstd", "compression.zstd", "backports.zstd")
    content = b""
    while packed:  # one frame after the other
        unpacker = zstd.ZstdDecompressor()
        try:
            content += unpacker.decompress(packed, most_bytes - len(content))
        except zstd.ZstdError:
            return None
        if not unpacker.eof:
            return None
        packed = unpacker.unused_data
    return content


def _module(coding: str, *names: str) -> ModuleType:
    for name in names:
        try:
            return import_module(name)
        except ImportError:
            continue
    package = names[-1] if coding == "zstd" else names[0]
    raise MissingCodecError(f"'{coding}' needs a codec: pip install {package}")


_CODECS: Final[Mapping[str, Callable[[bytes, int], bytes | None]]] = {
    "gzip": _gunzip,
    "x-gzip": _gunzip,
    "deflate": _undeflate,
    "br": _unbrotli,
    "zstd": _unzstd,
}

"""Reads archived responses: turns the bytes that were sent into the marks of the page.

The result must be the same as in a live visit, or nothing at all: a truncated page shows fewer
links, and the next visit would seem to find new ones.
"""

import logging
import re
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Final

from lxml import etree
from parsel import Selector
from scrapy.http import HtmlResponse

from hacs_crawler.archive.capture import content_type
from hacs_crawler.archive.timemap import Rewriting, without_toolbar
from hacs_crawler.exceptions import HacsError
from hacs_crawler.links import UNREADABLE, MarkupError, check_markup, is_not_text, link_fingerprints
from hacs_crawler.utils.text import safe_logger
from hacs_crawler.watch import MarkRules, Rules, UnreadableMarksError

logger = safe_logger(__name__)

# Longer payloads, compressed or not, are not read, to limit memory.
MAX_BODY_BYTES: Final = 32 << 20

Header = Callable[[str], str | None]
_CHUNK_SIZE = re.compile(rb"([0-9a-fA-F]{1,8})[ \t]*(?:;[^\r\n]*)?\r?\n")


def payload_links(
    body: bytes,
    header: Header,
    url: str,
    rules: Rules | None = None,
    rewriting: Rewriting | None = None,
) -> frozenset[int] | None:
    """Return the marks of an HTML payload by `rules`, by default links; None if it is incomplete.

    `header` returns a response header by name; if Content-Encoding is repeated, all of its values.
    `url` is the page's own. Links that the archive rewrote as `rewriting` describes are restored,
    which is logged once.
    """
    headers = {"Content-Type": content_type(header("Content-Type") or "") or "text/html"}
    is_chunked = (header("Transfer-Encoding") or "").strip().lower() == "chunked"
    try:
        joined = _unchunked(body) if is_chunked else body
        content = joined and decoded(joined, header("Content-Encoding") or "", MAX_BODY_BYTES)
        if content is None or not content.strip():
            return None
        response = HtmlResponse(url, headers=headers, body=content)
        if is_not_text(content, response.encoding):
            return None
        root = _parsed(response.text, url)
        if rewriting is not None and rewriting.is_in(root):
            _say_once(
                logging.WARNING,
                "%s rewrites the links of pages, although the request was for the archived form; HACS "
                "restores them",
                rewriting.place,
            )
            root = _parsed(without_toolbar(response.text), url)
            rewriting.undo(root)
        if isinstance(rules, MarkRules):
            return rules.marks(response, root)
        return link_fingerprints(root, url, rules)
    except (MarkupError, UnreadableMarksError) as error:
        logger.warning("%s, as archived, is not read: %s", url, error)
    except MissingCodecError as error:
        _say_once(logging.ERROR, "pages of an archive cannot be read: %s", str(error))
    except UNREADABLE:
        pass
    return None


def _parsed(text: str, url: str) -> etree._Element:
    check_markup(text)
    # response.selector makes a reference cycle: pages would pile up until the garbage collector runs
    return Selector(text, type="html", base_url=url).root


def _unchunked(body: bytes) -> bytes | None:
    """Join chunks; None if the last one is missing. A body that is not chunked is returned as it is."""
    chunks: list[bytes] = []
    position = 0
    while match := _CHUNK_SIZE.match(body, position):
        size = int(match[1], 16)
        if not size:
            return b"".join(chunks)
        end = match.end() + size
        chunks.append(body[match.end() : end])
        position = end + (2 if body.startswith(b"\r\n", end) else 1)
    return None if chunks else body


GZIP_MAGIC: Final = b"\x1f\x8b"
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_PLAIN: Final = frozenset({"", "identity", "none"})
_MOST_CODINGS: Final = 4


class MissingCodecError(HacsError):
    """A codec is not installed; the message says what to install."""


def decoded(body: bytes, codings: str, most_bytes: int) -> bytes | None:
    """Undo the encodings in a Content-Encoding header, the last one first.

    Returns None if that is impossible or gives more than `most_bytes`. Archives store many payloads
    decoded, with their old headers, so bytes that look like markup are returned as they are. Servers
    gzip some payloads once more than the header says; this is undone, too. Raises MissingCodecError.
    """
    names = [
        name for coding in codings.split(",") if (name := coding.strip().lower()) not in _PLAIN
    ]
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
def _say_once(level: int, message: str, what: str) -> None:
    logger.log(level, message, what)


def _gunzip(packed: bytes, most_bytes: int) -> bytes | None:
    is_packed = packed[:2] == GZIP_MAGIC
    return _inflate(packed, most_bytes, 16 + zlib.MAX_WBITS) if is_packed else packed


def _inflate(packed: bytes, most_bytes: int, *windows: int) -> bytes | None:
    for window in windows or (zlib.MAX_WBITS, -zlib.MAX_WBITS):
        unpacker = zlib.decompressobj(window)
        with suppress(zlib.error):
            content = unpacker.decompress(packed, most_bytes)
            if unpacker.eof and not unpacker.unused_data.startswith(GZIP_MAGIC):
                return content
    return None


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
        raise MissingCodecError("brotli is too old for 'br': pip install 'brotli>=1.2'") from error
    except brotli.error:
        return None
    return content if unpacker.is_finished() else None


def _unzstd(packed: bytes, most_bytes: int) -> bytes | None:
    if packed[:4] != _ZSTD_MAGIC:
        return packed
    zstd = _module("zstd", "compression.zstd", "backports.zstd")
    content = b""
    while packed:  # several frames
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
    "deflate": _inflate,
    "br": _unbrotli,
    "zstd": _unzstd,
}

"""What an archived response shows: from the bytes that were sent to the links of the page.

The same bytes have to give the same links as in a live visit, or none at all: a page cut short would
show fewer links than it had, and the next visit would seem to have found new ones.
"""

import re
from collections.abc import Callable
from functools import cache
from typing import Final

from lxml import etree
from parsel import Selector
from scrapy.http import HtmlResponse

from hacs_crawler.archive.capture import content_type
from hacs_crawler.archive.codecs import MissingCodecError, decoded, say_missing
from hacs_crawler.archive.memento_uri import Rewriting, without_toolbar
from hacs_crawler.links import (
    UNREADABLE,
    MarkupError,
    check_markup,
    has_slow_encoding,
    is_binary,
    link_fingerprints,
)
from hacs_crawler.utils.text import safe_logger
from hacs_crawler.watch import MarkRules, Rules, UnreadableMarksError

logger = safe_logger(__name__)

MAX_BODY_BYTES: Final = 32 << 20
"""A longer payload, or one that unpacks to more, is not looked at; this bounds the memory it takes."""

Header = Callable[[str], str | None]
_CHUNK_SIZE = re.compile(rb"([0-9a-fA-F]{1,8})[ \t]*(?:;[^\r\n]*)?\r?\n")


def payload_links(
    body: bytes,
    header: Header,
    url: str,
    rules: Rules | None = None,
    rewriting: Rewriting | None = None,
) -> frozenset[int] | None:
    """Return the fingerprints of what an HTML payload shows, None if it cannot be read whole.

    That are its links, or what else `rules` say.
    `header` looks up a header of the response by its name, of a repeated Content-Encoding all, `url` is
    where the page was found. Links that are rewritten as `rewriting` knows it are put right, and it is
    said once.
    """
    content = _content(body, header)
    if content is None or not content.strip():
        return None
    headers = {"Content-Type": content_type(header("Content-Type") or "") or "text/html"}
    try:
        response = HtmlResponse(url, headers=headers, body=content)
        if is_binary(content, response.encoding) or has_slow_encoding(response.encoding):
            return None
        root = _parsed(response.text, url)
        if rewriting is not None and rewriting.is_in(root):
            _say_rewritten(rewriting.place)
            root = _parsed(without_toolbar(response.text), url)
            rewriting.undo(root)
        if isinstance(rules, MarkRules):
            return rules.marks(response, root)
        return link_fingerprints(root, url, rules)
    except (MarkupError, UnreadableMarksError) as error:
        logger.warning("%s, as archived, is not read: %s", url, error)
        return None
    except UNREADABLE:
        return None


def _parsed(text: str, url: str) -> etree._Element:
    check_markup(text)
    # Not response.selector: that and the response refer to each other, so pages would pile up
    # until the garbage collector runs.
    return Selector(text, type="html", base_url=url).root


@cache
def _say_rewritten(place: str) -> None:
    logger.warning(
        "%s answers with pages whose links it has rewritten, although asked for them as they were "
        "archived; that is undone",
        place,
    )


def _content(body: bytes, header: Header) -> bytes | None:
    """Undo transfer and content encoding; None if that is impossible or gives too much."""
    if (header("Transfer-Encoding") or "").strip().lower() == "chunked":
        joined = _unchunked(body)
        if joined is None:
            return None
        body = joined
    try:
        return decoded(body, header("Content-Encoding") or "", MAX_BODY_BYTES)
    except MissingCodecError as error:
        say_missing(str(error))
        return None


def _unchunked(body: bytes) -> bytes | None:
    """Join chunks; None if the last is missing. What does not begin with a chunk is plain."""
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

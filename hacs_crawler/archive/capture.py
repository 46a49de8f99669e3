"""Captures: single visits of a web archive to a page, and reasons why a row is not one."""

import base64
import hashlib
import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from scrapy.linkextractors import IGNORED_EXTENSIONS

from hacs_crawler.exceptions import HacsError
from hacs_crawler.links import check_url, kept_url, page_key
from hacs_crawler.utils.times import in_range

REVISIT: Final = "warc/revisit"
HTML_TYPES: Final = frozenset({"text/html", "application/xhtml+xml"})
UNKNOWN_TYPES: Final = frozenset({"unk", "-", ""})

# Rows and records that are not captures, by kind (after Jayawardana et al. 2020, data cleaning):
# invalid_date: not in 1970-2106, or with month or day 00
# invalid_digest: no checksum in base 32 or hexadecimal, in a row that is not a revisit
# bad_status: archived redirects and errors, which do not show the page
# not_html: images, PDF and others; not_http: mailto:, dns: and others, also http://mailto:me@a.edu/
# empty: the digest of no content; duplicate: the same capture as in the row before
# malformed: wrong number of fields, invalid JSON or UTF-8, a URL that no crawl could visit
# unreadable (WARC only): the payload is cut off, too long, empty, not text, or cannot be decoded
Cleaning = Counter[str]

EMPTY: Final = frozenset(  # SHA-1 of nothing, as archives write it
    {"3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ", "DA39A3EE5E6B4B0D3255BFEF95601890AFD80709"}
)

_TIMESTAMP = re.compile(r"[0-9]{4}(?:[0-9]{2}){0,5}|[0-9]{17}").fullmatch
_EARLIEST: Final = "00000101000000"
_DIGEST = re.compile(r"(?:[A-Za-z0-9-]+:)?([A-Z2-7]{26,104}=*|[0-9a-fA-F]{32,128})").fullmatch
_OTHER_ENDINGS = (*IGNORED_EXTENSIONS, "eot", "json", "otf", "ttf", "woff", "woff2")
_OTHER_FILE = re.compile(rf"\.(?:{'|'.join(map(re.escape, _OTHER_ENDINGS))})(?:\?|$)").search
_TYPE = re.compile(r"[\w!#$&^.+-]+/[\w!#$&^.+-]+").fullmatch
_CHARSET = re.compile(r"(?:^|;)\s*charset\s*=\s*\"?([^\s;\"]+)", re.IGNORECASE).search
_BASE32 = re.compile(r"[A-Z2-7]{26,104}=*").fullmatch


class ArchiveError(HacsError):
    """A source of captures cannot be read, or not to its end; the message names file and position."""


@dataclass(frozen=True, slots=True)
class Capture:
    """One row of a capture index.

    `page_key` is the page's key in the state (`links.page_key`), not the archive's. `at` is in
    whole seconds since 1970 UTC. `status` is None if the archive does not give it ("-"). `digest`
    lacks the algorithm, and is "" if a revisit record or a TimeMap does not give it. `place` is the
    address of the archived page if the index names it: the URI of a memento, or a part of a WARC
    file, `URL#bytes=FIRST-LAST`.
    """

    page_key: str
    url: str
    at: int
    status: int | None
    mime: str
    digest: str
    place: str = field(default="", compare=False)

    @property
    def key(self) -> tuple[str, int, str]:
        """Unique key within an archive: URL, time and place."""
        return self.url, self.at, self.place

    @property
    def is_revisit(self) -> bool:
        """Whether the archive found the same content again, and did not store a second copy."""
        return self.mime == REVISIT


def parse_timestamp(text: str) -> int | None:
    """Return the second of an archive's timestamp, `YYYYMMDDhhmmss`, or None if it is invalid.

    Missing digits at the end mean the earliest possible time; milliseconds are cut off.
    """
    if _TIMESTAMP(text) is None:
        return None
    full = text[:14] + _EARLIEST[len(text) :]
    day = int(full[:4]), int(full[4:6]), int(full[6:8])
    clock = int(full[8:10]), int(full[10:12]), int(full[12:14])
    try:
        return in_range(datetime(*day, *clock, tzinfo=UTC))
    except ValueError:
        return None


def parse_digest(text: str) -> str:
    """Return a digest without its algorithm ("sha1:"), "" if it is not a digest."""
    match = _DIGEST(text)
    return "" if match is None else match[1]


def digest_bytes(text: str) -> bytes:
    """Return the bytes of a digest that `parse_digest` returned, in base 32 or hexadecimal."""
    try:
        if _BASE32(text):
            return base64.b32decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 8))
        return bytes.fromhex(text)
    except ValueError:  # invalid length
        return text.encode()


def has_digest(body: bytes, digest: str) -> bool:
    """Whether a digest from an index is the SHA-1 of these bytes."""
    return digest_bytes(digest) == hashlib.sha1(body, usedforsecurity=False).digest()


def key_of(url: str) -> tuple[str, str]:
    """Return the page's key and "", or "" and the kind of problem if no crawl could visit the URL."""
    if not url[:8].lower().startswith(("http://", "https://")):
        return "", "not_http" if ":" in url else "malformed"
    # the key ignores logins, so it would be that of the host's homepage
    if "@" in url.split("/", 3)[2]:
        return "", "not_http"
    if check_url(kept_url(url)) is not None:
        return "", "malformed"
    return page_key(url), ""


def names_other_file(key: str) -> bool:
    """Whether a page's key has the ending of an image, font, script or similar file."""
    return _OTHER_FILE(key.lower()) is not None


def content_type(text: str) -> str:
    """Return the type that browsers use from a Content-Type header (repeated ones joined by commas).

    The last valid type counts; if it lacks a charset, with that of an earlier equal type
    (https://fetch.spec.whatwg.org/#concept-header-extract-mime-type). Text without a valid type is
    returned unchanged.
    """
    essence = charset = ""
    for part in text.split(","):
        kind, _, parameters = part.strip().partition(";")
        kind = kind.strip().lower()
        if _TYPE(kind) is None or kind == "*/*":
            continue
        match = _CHARSET(parameters)
        charset = match[1] if match else (charset if kind == essence else "")
        essence = kind
    return f"{essence}; charset={charset}" if charset else essence or text


def is_html(mime: str) -> bool:
    """Whether a MIME type, with or without parameters, is HTML's or unknown."""
    kind = content_type(mime).partition(";")[0].strip().lower()
    return kind in HTML_TYPES or kind in UNKNOWN_TYPES

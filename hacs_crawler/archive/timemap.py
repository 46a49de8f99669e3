"""Memento TimeMaps: when which mementos of a page were made (RFC 7089, section 5).

A TimeMap has no digests, so it is no evidence on whether the page had changed; recording its mementos
as visits would claim that they found nothing. It tells which mementos there are to be fetched.
What Wayback and pywb call a JSON TimeMap is their CDX server's answer: `read_cdx` reads that.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import IO, Any, Final

from hacs_crawler.archive.capture import (
    ArchiveError,
    Cleaning,
    key_of,
    parse_http_date,
    parse_timestamp,
)
from hacs_crawler.utils.times import parse_iso

MAX_TIMEMAP_BYTES: Final = 64 << 20
"""Some 400,000 mementos; archives serve longer TimeMaps in pages."""

LINK_FORMAT: Final = "application/link-format"

_BEGINNING = re.compile(
    rb"\A(?:\xef\xbb\xbf)?[\s,]*+"
    rb'(?:<[^<>\s]++>\s*+;\s*+[^\s=;,"<>]|\{.*?"(?:original_uri|mementos)"\s*:'
    rb'|(?:[!@][a-z]++ [^\n]*+\n)*?[!@]meta \{"original_uri"\s*:)',
    re.DOTALL,
)
_LINK = re.compile(  # possessive throughout: it never looks at a character twice
    r"[\s,]*+<([^>]*+)>"
    r'((?:\s*+;\s*+[^\s=;,"<>]++(?:\s*+=\s*+(?:"(?:[^"\\]|\\.)*+"|[^\s;,"<>]*+))?+)*+)\s*+(?=,|\Z)'
)
_PARAMETER = re.compile(r';\s*([^\s=;,"<>]+)(?:\s*=\s*(?:"((?:[^"\\]|\\.)*+)"|([^\s;,"<>]*)))?')


@dataclass(frozen=True, slots=True)
class TimeMapEntry:
    """That the page at `url` was archived at second `at` (since 1970 UTC), and is found at `uri`."""

    url: str
    at: int
    uri: str


def is_timemap(beginning: bytes) -> bool:
    """Whether a file that begins like this is a TimeMap, in link format, JSON or CDXJ."""
    return _BEGINNING.match(beginning) is not None


def timemaps_in(links: bytes) -> list[str]:
    """Return the TimeMaps that a Link header names, those in link format first.

    An answer that is a part of a longer TimeMap names the other parts, with the time that each is of; a
    TimeMap in another format of the same answer has no time. Raises ArchiveError as `read_timemap`.
    """
    found = [
        link
        for link in _links(links.decode(errors="replace"), "the Link header")
        if link.is_timemap
    ]
    return [link.uri for link in sorted(found, key=lambda link: link.type not in {LINK_FORMAT, ""})]


def parts_of(timemap: bytes) -> list[str]:
    """Return the other parts of a TimeMap in link format that is paged, or an index of parts."""
    if timemap.lstrip()[:1] != b"<":
        return []
    links = _links(timemap.decode(errors="replace"), "the TimeMap")
    return [link.uri for link in links if link.is_timemap and link.has_bounds]


def read_timemap(source: bytes | IO[bytes], name: str, dropped: Cleaning) -> Iterator[TimeMapEntry]:
    """Yield a TimeMap's mementos in its order, each once.

    It may be in link format, or in MemGator's JSON or CDXJ, told by its beginning.

    Those that cannot be used are counted in `dropped`. Raises ArchiveError, with `name` and an offset
    in characters, where the TimeMap is damaged (after the mementos before it), longer than
    `MAX_TIMEMAP_BYTES`, or does not say which page it is of.
    """
    data = source if isinstance(source, bytes) else source.read(MAX_TIMEMAP_BYTES + 1)
    if len(data) > MAX_TIMEMAP_BYTES:
        raise ArchiveError(f"{name}, byte {MAX_TIMEMAP_BYTES}: longer than a TimeMap may be")
    text = data.decode(errors="replace").lstrip("\ufeff \t\r\n")
    if text[:1] in {"!", "@"}:
        url, rows = _cdxj(text, name)
    else:
        url, rows = _json(text, name) if text.startswith("{") else _link_format(text, name)
    _key, problem = key_of(url)
    if problem:
        raise ArchiveError(f"{name}, character 0: the page is no http(s) URL: {url[:200]!r}")
    seen: set[tuple[int, str]] = set()
    for uri, at in rows:
        if at is None:
            dropped["invalid_date"] += 1
        elif (at, uri) in seen:
            dropped["duplicate"] += 1
        else:
            seen.add((at, uri))
            yield TimeMapEntry(url, at, uri)


_Rows = Iterator[tuple[str, int | None]]


def _link_format(text: str, name: str) -> tuple[str, _Rows]:
    links = _links(text, name)
    ahead: list[tuple[str, int | None]] = []
    for link in links:  # the original usually comes first, but need not
        if "original" in link.relations:
            rest = ((one.uri, one.at) for one in links if "memento" in one.relations)
            return link.uri, chain(ahead, rest)
        if "memento" in link.relations:
            ahead.append((link.uri, link.at))
    raise ArchiveError(f"{name}, character {len(text)}: ends without a link of rel=original")


@dataclass(frozen=True, slots=True)
class _Link:
    uri: str
    relations: list[str]
    at: int | None
    type: str
    has_bounds: bool

    @property
    def is_timemap(self) -> bool:
        return "timemap" in self.relations


def _links(text: str, name: str) -> Iterator[_Link]:
    position, end = 0, len(text.rstrip(" \t\r\n,"))
    while position < end:
        match = _LINK.match(text, position)
        if match is None:
            raise ArchiveError(f"{name}, character {position}: not in link format")
        values: dict[str, str] = {}
        for key, quoted, token in _PARAMETER.findall(match[2]):
            values.setdefault(key.lower(), quoted or token)
        yield _Link(
            match[1].strip(),
            values.get("rel", "").split(),
            parse_http_date(values.get("datetime")),
            values.get("type", ""),
            "from" in values or "until" in values,
        )
        position = match.end()


def _json(text: str, name: str) -> tuple[str, _Rows]:
    """Read MemGator's JSON: original_uri, mementos.list of datetime (ISO 8601) and uri."""
    try:
        document = json.loads(text)
        rows = [_json_row(row) for row in document["mementos"]["list"]]
        return str(document["original_uri"]), iter(rows)
    except json.JSONDecodeError as error:
        raise ArchiveError(f"{name}, character {error.pos}: {error.msg}") from error
    except (LookupError, TypeError) as error:
        raise ArchiveError(f"{name}, character 0: no JSON TimeMap: {error!r}") from error


def _cdxj(text: str, name: str) -> tuple[str, _Rows]:
    """Read MemGator's CDXJ: headers that begin with "!", then a timestamp and an object a line."""
    url = ""
    rows: list[tuple[str, int | None]] = []
    position = 0
    try:
        for line in text.splitlines(keepends=True):
            key, _, rest = line.strip().partition(" ")
            if key in {"!meta", "@meta"}:
                url = str(json.loads(rest).get("original_uri", url))
            elif key and key[0] not in "!@":
                rows.append((str(json.loads(rest)["uri"]), parse_timestamp(key)))
            position += len(line)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ArchiveError(f"{name}, character {position}: no CDXJ: {error}") from error
    return url, iter(rows)


def _json_row(row: Any) -> tuple[str, int | None]:
    return str(row["uri"]), parse_iso(str(row.get("datetime") if isinstance(row, dict) else ""))

"""Memento (RFC 7089): TimeMaps, which list a page's mementos, and the URIs of mementos.

A TimeMap lacks digests, so it does not show whether the page has changed: only mementos that were
fetched can be recorded as visits. The "JSON TimeMap" of Wayback and pywb is an answer of their CDX
server, which `read_cdx` reads.

The URI of a memento contains its time and the page's URL. With `id_` after the time, the archive is
to return the page as it was archived. An archive that does not know `id_` adds its toolbar, and
rewrites the links to lead to its own mementos of the same time.
"""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from operator import itemgetter
from typing import Final
from urllib.parse import urljoin, urlsplit

from lxml import etree

from hacs_crawler.archive.capture import ArchiveError, Cleaning, key_of, parse_timestamp
from hacs_crawler.utils.times import parse_http_date, parse_iso

# About 400,000 mementos; archives divide longer TimeMaps into parts.
MAX_TIMEMAP_BYTES: Final = 64 << 20

LINK_FORMAT: Final = "application/link-format"

_BEGINNING = re.compile(
    rb"\A(?:\xef\xbb\xbf)?[\s,]*+"
    rb'(?:<[^<>\s]++>\s*+;\s*+[^\s=;,"<>]|\{.*?"(?:original_uri|mementos)"\s*:'
    rb'|(?:[!@][a-z]++ [^\n]*+\n)*?[!@]meta \{"original_uri"\s*:)',
    re.DOTALL,
)
_LINK = re.compile(  # possessive throughout, so linear
    r"[\s,]*+<([^>]*+)>"
    r'((?:\s*+;\s*+[^\s=;,"<>]++(?:\s*+=\s*+(?:"(?:[^"\\]|\\.)*+"|[^\s;,"<>]*+))?+)*+)\s*+(?=,|\Z)'
)
_PARAMETER = re.compile(r';\s*([^\s=;,"<>]+)(?:\s*=\s*(?:"((?:[^"\\]|\\.)*+)"|([^\s;,"<>]*)))?')


@dataclass(frozen=True, slots=True)
class TimeMapEntry:
    """A memento, at `uri`, of the page at `url`, archived at second `at` since 1970 UTC."""

    url: str
    at: int
    uri: str


def is_timemap(beginning: bytes) -> bool:
    """Whether a file with this beginning is a TimeMap in link format, JSON or CDXJ."""
    return _BEGINNING.match(beginning) is not None


def timemaps_in(links: bytes) -> list[str]:
    """Return the TimeMaps in a Link header, those in link format first; raises as `read_timemap`."""
    timemaps = [
        (values.get("type", "") not in {LINK_FORMAT, ""}, uri)
        for uri, relations, values in _links(links.decode(errors="replace"), "the Link header")
        if "timemap" in relations
    ]
    return [uri for _, uri in sorted(timemaps, key=itemgetter(0))]


def parts_of(timemap: bytes) -> list[str]:
    """Return the other parts that a TimeMap in link format, or an index of parts, names.

    Links to parts say from or until when; links to the same TimeMap in other formats do not.
    """
    if timemap.lstrip()[:1] != b"<":
        return []
    return [
        uri
        for uri, relations, values in _links(timemap.decode(errors="replace"), "the TimeMap")
        if "timemap" in relations and not values.keys().isdisjoint({"from", "until"})
    ]


def read_timemap(data: bytes, name: str, dropped: Cleaning) -> Iterator[TimeMapEntry]:
    """Yield the mementos in a TimeMap, in its order, without duplicates.

    The format is recognized: link format, or MemGator's JSON or CDXJ. Unusable mementos are counted
    in `dropped`. Raises ArchiveError, with `name` and an offset in characters, where the TimeMap is
    damaged, and if it is longer than `MAX_TIMEMAP_BYTES` or does not name its page.
    """
    if len(data) > MAX_TIMEMAP_BYTES:
        raise ArchiveError(f"{name}, byte {MAX_TIMEMAP_BYTES}: longer than a TimeMap may be")
    text = data.decode(errors="replace").lstrip("\ufeff \t\r\n")
    if text[:1] in {"!", "@"}:
        url, rows = _cdxj(text, name)
    else:
        url, rows = _json(text, name) if text.startswith("{") else _link_format(text, name)
    _key, problem = key_of(url)
    if problem:
        raise ArchiveError(f"{name}, character 0: the page is not an http(s) URL: {url[:200]!r}")
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
    for uri, relations, _ in _links(text, name):  # the original usually comes first
        if "original" in relations:
            return uri, (
                (uri, parse_http_date(values.get("datetime")))
                for uri, relations, values in _links(text, name)
                if "memento" in relations
            )
    raise ArchiveError(f"{name}, character {len(text)}: ends without a link of rel=original")


def _links(text: str, name: str) -> Iterator[tuple[str, list[str], dict[str, str]]]:
    """Yield the target, the relations, and all parameters of each link."""
    position, end = 0, len(text.rstrip(" \t\r\n,"))
    while position < end:
        match = _LINK.match(text, position)
        if match is None:
            raise ArchiveError(f"{name}, character {position}: not in link format")
        values: dict[str, str] = {}
        for key, quoted, token in _PARAMETER.findall(match[2]):
            values.setdefault(key.lower(), quoted or token)
        yield match[1].strip(), values.get("rel", "").lower().split(), values
        position = match.end()


def _json(text: str, name: str) -> tuple[str, _Rows]:
    """Read MemGator's JSON: original_uri, mementos.list of datetime (ISO 8601) and uri."""
    try:
        document = json.loads(text)
        rows = [
            (str(row["uri"]), parse_iso(str(row.get("datetime", ""))))
            for row in document["mementos"]["list"]
        ]
        return str(document["original_uri"]), iter(rows)
    except json.JSONDecodeError as error:
        raise ArchiveError(f"{name}, character {error.pos}: {error.msg}") from error
    except (LookupError, TypeError, AttributeError) as error:
        raise ArchiveError(f"{name}, character 0: not a JSON TimeMap: {error!r}") from error


def _cdxj(text: str, name: str) -> tuple[str, _Rows]:
    """Read MemGator's CDXJ: headers with "!", then lines of a timestamp and an object."""
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
        raise ArchiveError(f"{name}, character {position}: not CDXJ: {error}") from error
    return url, iter(rows)


_MEMENTO: Final = re.compile(r"/([0-9]{4,17})(?:[a-z]{2}_)?/(https?:/.+|[^/:]+\..+)\Z", re.DOTALL)
# OpenWayback and the Wayback Machine put these around their toolbar.
_TOOLBAR: Final = ("<!-- BEGIN WAYBACK TOOLBAR INSERT -->", "<!-- END WAYBACK TOOLBAR INSERT -->")
# no "|", for which libxml2 takes quadratic time
_anchors: Final = etree.XPath("//*[self::a or self::area][@href]")
_bases: Final = etree.XPath("//base[@href]")


def timestamp_of(uri: str) -> int | None:
    """Return the time in a memento's URI, in seconds since 1970 UTC, or None."""
    match = _MEMENTO.search(uri)
    return None if match is None else parse_timestamp(match[1])


def original_of(uri: str) -> str:
    """Return the page's URL in a memento's URI, or ""."""
    match = _MEMENTO.search(uri)
    return "" if match is None else match[2]


def raw_uri(uri: str) -> str:
    """Return the URI of the archived form of a Wayback memento; any other URI as it is."""
    match = _MEMENTO.search(uri)
    if match is None:
        return uri
    return f"{uri[: match.start()]}/{match[1]}id_/{match[2]}"


def without_toolbar(text: str) -> str:
    """Return a page without Wayback's toolbar."""
    begin, end = _TOOLBAR
    # a regular expression would search for the end from each beginning, in quadratic time
    first, *others = text.split(begin)
    kept = (part.partition(end)[2] if end in part else begin + part for part in others)
    return "".join([first, *kept])


class Rewriting:
    """Recognizes and undoes an archive's rewriting of the links in the memento at `uri`.

    A rewritten link names the memento's own archive and time; a page's own link to a memento does not.
    """

    def __init__(self, uri: str) -> None:
        self._uri = uri
        match = _MEMENTO.search(uri)
        self._at = None if match is None else parse_timestamp(match[1])
        # Host and path of the archive's mementos.
        self.place = "" if match is None else _place(uri[: match.start()])

    def is_in(self, root: etree._Element | None) -> bool:
        """Whether any link of a parsed page is rewritten."""
        if root is None or self._at is None:
            return False
        return any(self._original(_href(link)) for link in _anchors(root))

    def undo(self, root: etree._Element) -> None:
        """Restore the links of a parsed page; remove the archive's own links."""
        for link in (*_bases(root), *_anchors(root)):
            href = _href(link)
            if _names_host_or_root(href):
                original = self._original(href)
                if original:
                    link.set("href", original)
                else:
                    del link.attrib["href"]

    def _original(self, href: str) -> str:
        """Return the original URL of a rewritten link, else ""."""
        # relative links are never rewritten: they work in the memento as in the page
        if not _names_host_or_root(href) or _MEMENTO.search(href) is None:
            return ""
        with suppress(ValueError):  # not a URL
            uri = urljoin(self._uri, href)
            match = _MEMENTO.search(uri)
            if match is not None and _place(uri[: match.start()]) == self.place:
                return match[2] if parse_timestamp(match[1]) == self._at else ""
        return ""


def _href(link: etree._Element) -> str:
    return str(link.get("href")).strip()


def _names_host_or_root(href: str) -> bool:
    return href[:8].lower().startswith(("/", "http://", "https://"))


def _place(prefix: str) -> str:
    """Return the prefix of an archive's mementos, without the scheme."""
    parts = urlsplit(prefix)
    return f"{parts.netloc.lower()}{parts.path}"

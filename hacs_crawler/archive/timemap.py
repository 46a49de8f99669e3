"""Memento (RFC 7089): TimeMaps, which list a page's mementos, and the URIs of mementos.

A TimeMap lacks digests, so it is no evidence on whether the page had changed; recording its mementos
as visits would claim that they found nothing. It names the mementos that can be fetched.
Wayback's and pywb's "JSON TimeMap" is their CDX server's answer: `read_cdx` reads that.

The URI of a memento holds the time and the page's URL. An archive is asked for a capture as it was
archived (`id_`). An archive that does not know this answers with a page whose links all lead to its own
mementos, of the page's own time, below a bar of links of its own.
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

from hacs_crawler.archive.capture import (
    ArchiveError,
    Cleaning,
    key_of,
    parse_timestamp,
)
from hacs_crawler.utils.times import parse_http_date, parse_iso

# Some 400,000 mementos; archives serve longer TimeMaps in pages.
MAX_TIMEMAP_BYTES: Final = 64 << 20

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

    An answer that is a part of a longer TimeMap names the other parts, with the time of each; a
    TimeMap in another format of the same answer comes without a time. Raises as `read_timemap`.
    """
    timemaps = [
        (values.get("type", "") not in {LINK_FORMAT, ""}, uri)
        for uri, relations, values in _links(links.decode(errors="replace"), "the Link header")
        if "timemap" in relations
    ]
    return [uri for _, uri in sorted(timemaps, key=itemgetter(0))]


def parts_of(timemap: bytes) -> list[str]:
    """Return the other parts of a TimeMap in link format that is paged, or an index of parts."""
    if timemap.lstrip()[:1] != b"<":
        return []
    return [
        uri
        for uri, relations, values in _links(timemap.decode(errors="replace"), "the TimeMap")
        if "timemap" in relations and not values.keys().isdisjoint({"from", "until"})
    ]


def read_timemap(data: bytes, name: str, dropped: Cleaning) -> Iterator[TimeMapEntry]:
    """Yield a TimeMap's mementos in its order, each once.

    It may be in link format, or in MemGator's JSON or CDXJ; its beginning decides.

    Unusable mementos are counted in `dropped`. Raises ArchiveError, with `name` and an offset
    in characters, if the TimeMap is damaged (after the mementos before it), longer than
    `MAX_TIMEMAP_BYTES`, or does not say which page it is of.
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
    for uri, relations, _ in _links(text, name):  # the original usually comes first, but need not
        if "original" in relations:
            return uri, (
                (uri, parse_http_date(values.get("datetime")))
                for uri, relations, values in _links(text, name)
                if "memento" in relations
            )
    raise ArchiveError(f"{name}, character {len(text)}: ends without a link of rel=original")


def _links(text: str, name: str) -> Iterator[tuple[str, list[str], dict[str, str]]]:
    """Yield the target of each link, its relations, and all parameters by name."""
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


_MEMENTO: Final = re.compile(r"/([0-9]{4,17})(?:[a-z]{2}_)?/(https?:/.+|[^/:]+\..+)\Z", re.DOTALL)
# What OpenWayback and the Wayback Machine put around the links of their own.
_TOOLBAR: Final = ("<!-- BEGIN WAYBACK TOOLBAR INSERT -->", "<!-- END WAYBACK TOOLBAR INSERT -->")
# not joined by "|", for which libxml2 compares each with each
_anchors: Final = etree.XPath("//*[self::a or self::area][@href]")
_bases: Final = etree.XPath("//base[@href]")


def timestamp_of(uri: str) -> int | None:
    """Return the second that a memento's URI names, None if it names none."""
    match = _MEMENTO.search(uri)
    return None if match is None else parse_timestamp(match[1])


def original_of(uri: str) -> str:
    """Return the URL whose memento a URI says it is, "" if it does not say."""
    match = _MEMENTO.search(uri)
    return "" if match is None else match[2]


def raw_uri(uri: str) -> str:
    """Return the URI of the same memento as it was archived, if it has Wayback's form."""
    match = _MEMENTO.search(uri)
    if match is None:
        return uri
    return f"{uri[: match.start()]}/{match[1]}id_/{match[2]}"


def without_toolbar(text: str) -> str:
    """Return a page without the bar that Wayback software puts on top of it."""
    begin, end = _TOOLBAR
    # an expression would look for the end from each beginning
    first, *others = text.split(begin)
    kept = (part.partition(end)[2] if end in part else begin + part for part in others)
    return "".join([first, *kept])


class Rewriting:
    """How the links of the memento at `uri` look if its archive has rewritten them.

    They name the page's own archive and time. A page that leads to mementos by itself names others.
    """

    def __init__(self, uri: str) -> None:
        self._uri = uri
        match = _MEMENTO.search(uri)
        self._at = None if match is None else parse_timestamp(match[1])
        # Host and path below which the archive's mementos are.
        self.place = "" if match is None else _place(uri[: match.start()])

    def is_in(self, root: etree._Element | None) -> bool:
        """Whether links of a parsed page are rewritten."""
        if root is None or self._at is None:
            return False
        return any(self._original(_href(link)) for link in _anchors(root))

    def undo(self, root: etree._Element) -> None:
        """Give the links of a parsed page back the addresses that they had; remove the archive's own."""
        for link in (*_bases(root), *_anchors(root)):
            href = _href(link)
            if _names_host_or_root(href):
                original = self._original(href)
                if original:
                    link.set("href", original)
                else:
                    del link.attrib["href"]

    def _original(self, href: str) -> str:
        """Return the URL that a link led to before it was rewritten, "" if it was not.

        A relative link is as it was: it leads to the memento's own folder, there as in the page.
        """
        if not _names_host_or_root(href) or _MEMENTO.search(href) is None:
            return ""
        with suppress(ValueError):  # no URL at all
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
    """Return the prefix of an archive's mementos, without its scheme."""
    parts = urlsplit(prefix)
    return f"{parts.netloc.lower()}{parts.path}"

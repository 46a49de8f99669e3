"""Capture indexes: CDX with a header or at least 7 columns, CDXJ, and the JSON of CDX servers.

Sources: https://iipc.github.io/warc-specifications/specifications/cdx-format/cdx-2015/ (columns and
their letters), https://specs.webrecorder.net/cdxj/0.1.0/ (CDXJ), and the CDX servers of the Wayback
Machine (an array of arrays, beginning with the names) and of pywb (one object per line). CDXJ of
InterPlanetary Wayback (ipwb) has other names, and content addresses instead of digests.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote

from hacs_crawler.archive.capture import (
    EMPTY,
    REVISIT,
    ArchiveError,
    Capture,
    Cleaning,
    digest_bytes,
    is_html,
    key_of,
    names_other_file,
    parse_digest,
    parse_timestamp,
)
from hacs_crawler.state import News, Visit, digest_number

_LETTERS: Final[dict[str, str]] = {
    "b": "timestamp",
    "a": "url",
    "m": "mime",
    "s": "status",
    "k": "digest",
}
# The first columns of rows without a header. The Wayback Machine's server has 7 columns, files have 9
# to 11, and servers that add counts or the location of a revisit's original have 12 or 14.
_FIRST_COLUMNS: Final = "Nbamsk"
_LEAST_COLUMNS: Final = 7
_SERVER_COLUMNS: Final = ("urlkey", "timestamp", "url", "mime", "status", "digest", "length")
_ALIASES: Final = {
    "original": "url",
    "original_uri": "url",  # this and those with _ are of ipwb
    "mimetype": "mime",
    "mime_type": "mime",
    "statuscode": "status",
    "status_code": "status",
    "payload_digest": "digest",
}
_IPFS: Final = re.compile("urn:ipfs/[^/]*/([1-9A-HJ-NP-Za-km-z]{46})").fullmatch
_BASE58: Final = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
# The header line; its first character is the separator of all lines.
_HEADER: Final = re.compile(r"(\W?)CDX(\W)").match
_SURT: Final = re.compile(r"([^\s():]+)(:[0-9]+)?,?\)(/\S*)").fullmatch

_STATUS: Final = re.compile("[0-9]{3}").fullmatch
# How many contents of dropped rows are remembered, to recognize revisits of them.
MOST_REPEATED: Final = 1 << 20
# consecutive rows are about the same page
_cached_key = lru_cache(maxsize=1024)(key_of)


class _MalformedRowError(ValueError):
    """A row in an unknown dialect."""


def read_cdx(
    lines: Iterable[bytes],
    name: str,
    dropped: Cleaning,
    *,
    is_sorted: bool = True,
    warc_url: str = "",
) -> Iterator[Capture]:
    """Yield the captures in an index, in its order, reading lazily.

    Each row may be in another dialect. Revisit rows are captures unless they repeat a dropped row:
    one that is not HTML, or, if the rows of each page are consecutive (`is_sorted`), an error. With
    `warc_url`, the base URL of WARC files, captures have a place. Rows that are not captures are
    counted in `dropped`. Raises ArchiveError, with `name` and a line number, if reading fails, and
    at the end if there were rows but none in a known dialect.
    """
    parse, repeated = _Dialects().rows, _Repeated(is_sorted=is_sorted)
    previous: Capture | None = None
    rows = well_formed = 0
    for line in _readable(lines, name):
        try:
            parsed = parse(line.decode().strip("\ufeff\r\n"))
        except (ValueError, RecursionError):  # invalid UTF-8 or JSON, or JSON nested too deeply
            rows += 1
            dropped["malformed"] += 1
            continue
        for fields in parsed:
            rows += 1
            capture = _capture(fields, repeated, warc_url)
            # its URL names a file, and no row before shows that this is a page
            if (
                isinstance(capture, Capture)
                and (capture.is_revisit and capture.status is None)
                and (previous is None or previous.page_key != capture.page_key)
                and names_other_file(capture.page_key)
            ):
                capture = "not_html"
            if isinstance(capture, str):
                dropped[capture] += 1
            elif capture == previous:
                dropped["duplicate"] += 1
            else:
                previous = capture
                yield capture
            well_formed += capture not in {"malformed", "not_http"}
    if rows and not well_formed:
        raise ArchiveError(f"{name}, line 1 to the end: not one of {rows} rows is CDX or CDXJ")


def _readable(lines: Iterable[bytes], name: str) -> Iterator[bytes]:
    number = 0
    try:
        for line in lines:
            yield line
            number += 1
    except (OSError, EOFError) as error:
        raise ArchiveError(f"{name}, after line {number}: cannot read: {error}") from error
    except ArchiveError as error:
        raise ArchiveError(f"{error} (after line {number})") from error


class _Dialects:
    """Parses lines; remembers the separator and the columns of the header."""

    def __init__(self) -> None:
        self._separator = ""
        self._columns: Sequence[str] = ()
        self._names: Sequence[str] = _SERVER_COLUMNS
        self._is_after_gap = False

    def rows(self, line: str) -> Iterable[Mapping[str, Any]]:
        """Return the rows of a line, with named fields; raises ValueError for an unknown dialect."""
        if (header := _HEADER(line)) is not None:
            self._separator = header[1] or header[2]
            self._columns = line[header.end() :].split(self._separator)
            return ()
        line = line.strip()
        # With showResumeKey, the Wayback Machine's answer ends with an empty row and the key, which
        # looks like a row in JSON.
        is_after_gap, self._is_after_gap = self._is_after_gap, line in {"", "[],"}
        # "!" and "@": headers in CDXJ
        if line in {"", "[", "]", "[],", "[]"} or line[0] in "!@":
            return ()
        if line[0] == "[":
            # a list after a gap is a resume key
            lists = [] if is_after_gap else _json_rows(line)
            return [row for values in lists if (row := self._server_row(values))]
        if line[0] == "{":
            return (_named(json.loads(line)),)
        return self._text_rows(line, is_after_gap=is_after_gap)

    def _text_rows(self, line: str, *, is_after_gap: bool) -> Iterable[Mapping[str, Any]]:
        separator = self._separator or (" " if " " in line else "\t")
        fields = line.split(separator)
        if len(fields) == 1 and is_after_gap:
            return ()
        if len(fields) > 2 and fields[2].startswith("{"):
            values = _named(json.loads(line.split(separator, 2)[2]))
            return ({"url": _url_of_surt(fields[0]), **values, "timestamp": fields[1]},)
        columns = self._columns or _FIRST_COLUMNS
        least, most = (len(columns),) * 2 if self._columns else (_LEAST_COLUMNS, len(fields))
        if not least <= len(fields) <= most:
            raise _MalformedRowError
        named = dict(zip(columns, fields, strict=False))
        row = {name: named[letter] for letter, name in _LETTERS.items() if letter in named}
        if "c" in named:  # the older kind of checksum
            row.setdefault("digest", named["c"])
        return (row,)

    def _server_row(self, values: Sequence[Any]) -> Mapping[str, Any]:
        # the row of names, which repeats if a file was joined from several answers
        if "timestamp" in values:
            self._names = [_ALIASES.get(str(key), str(key)) for key in values]
            return {}
        return dict(zip(self._names, values, strict=False))


def _json_rows(line: str) -> list[list[Any]]:
    """Return the arrays in a line, which may be the whole document, or its first, last or other line."""
    line = line.rstrip(",")
    for text in (line, line[1:], line[:-1]):
        try:
            values = json.loads(text)
        except ValueError:
            continue
        if isinstance(values, list):
            rows = values if values and isinstance(values[0], list) else [values]
            return [row for row in rows if isinstance(row, list) and row]
    raise _MalformedRowError


def _named(values: Any) -> dict[str, Any]:
    if not isinstance(values, dict):
        raise _MalformedRowError
    named = {_ALIASES.get(str(key), str(key)): value for key, value in values.items()}
    locator = _IPFS(str(named.get("locator")))
    if locator is not None:  # a content address contains the digest
        number = 0
        for letter in locator[1]:
            number = number * 58 + _BASE58.index(letter)
        named.setdefault("digest", number.to_bytes(34, "big").hex())
    return named


def _url_of_surt(key: str) -> str | None:
    """Return a URL with this key, for older indexes of ipwb, which do not give the URL."""
    match = _SURT(key)
    if match is None:
        return None
    return f"http://{'.'.join(reversed(match[1].split(',')))}{match[2] or ''}{match[3]}"


class _Repeated:
    """Recognizes revisits of dropped rows: revisit rows lack status and type.

    If the rows of each page are consecutive (`is_sorted`), only the current page is remembered, and
    archived errors are recognized, too. Otherwise, an error may come after its revisit, and is left
    to the state; files that are not HTML never reach the state.
    """

    def __init__(self, *, is_sorted: bool) -> None:
        self._is_sorted = is_sorted
        self._key = ""
        self._kinds: dict[tuple[str, str], str] = {}

    def note(self, key: str, digest: str, problem: str) -> None:
        """Remember the content of a row; content of a capture is never dropped later."""
        if self._is_sorted and key != self._key:
            self._key, self._kinds = key, {}
        if not problem and (self._is_sorted or (key, digest) in self._kinds):
            self._kinds[key, digest] = ""
        is_certain = problem == "not_html" or (self._is_sorted and problem == "bad_status")
        if is_certain and len(self._kinds) < MOST_REPEATED:
            self._kinds.setdefault((key, digest), problem)

    def problem(self, key: str, digest: str) -> str:
        """Return the kind under which rows with this content were dropped, else ""."""
        return self._kinds.get((key, digest), "") if digest else ""


def _capture(row: Mapping[str, Any], repeated: _Repeated, warc_url: str) -> Capture | str:
    """Return the capture in a row, or the kind of its problem."""
    url, timestamp = row.get("url"), row.get("timestamp")
    if not isinstance(url, str) or timestamp is None:
        return "malformed"
    key, problem = _cached_key(url)
    if problem:
        return problem
    at = parse_timestamp(str(timestamp))
    if at is None:
        return "invalid_date"
    mime = str(row.get("mime") or "unk")
    status = str(row.get("status") or "-")
    if status == "0":  # revisits of some archives (ukwa/ukwa-pywb issue 53)
        status = "-"
    digest = parse_digest(str(row.get("digest") or ""))
    problem = _problem(status, mime, digest)
    if mime != REVISIT:
        repeated.note(key, digest, problem)
    elif status == "-":
        problem = problem or repeated.problem(key, digest)
    if problem:
        return problem
    location = _place(row, warc_url) if warc_url else ""
    number = None if status == "-" else int(status)
    return Capture(key, url, at, number, mime, digest, location)


def _place(row: Mapping[str, Any], warc_url: str) -> str:
    """Return the part of a WARC file that a row names, else ""."""
    first, length = str(row.get("offset")), str(row.get("length"))
    if not (row.get("filename") and first.isdecimal() and length.isdecimal() and int(length)):
        return ""
    last = int(first) + int(length) - 1
    return f"{warc_url.rstrip('/')}/{quote(str(row['filename']))}#bytes={first}-{last}"


def _problem(status: str, mime: str, digest: str) -> str:
    """Return the kind of problem of a row with a page and a time, "" if it is a capture."""
    is_revisit = mime == REVISIT
    if status != "-" and _STATUS(status) is None:
        return "malformed"
    if status[0] not in "-2" and not (is_revisit and status == "304"):
        return "bad_status"
    if not is_revisit and not is_html(mime):
        return "not_html"
    if digest.upper() in EMPTY:
        return "empty"
    return "" if digest or is_revisit else "invalid_digest"


def visits_by_digest(captures: Iterable[Capture]) -> Iterator[Visit]:
    """Yield the visits of captures, in order, with digests instead of marks.

    The state decides which of them found an update (`state.digests`), since it also knows captures from
    other files. A revisit record without a status may repeat an error, so it counts only if the page is
    known to have had that content. Captures without a digest are left out unless they are revisits.
    """
    for capture in captures:
        digest = digest_number(digest_bytes(capture.digest)) if capture.digest else 0
        if not digest and not capture.is_revisit:
            continue
        is_unsure = capture.is_revisit and capture.status is None and digest
        news = News.REPEATED if is_unsure else News.SEEN
        yield Visit(capture.url, capture.at, news, digest=digest, repeats=capture.is_revisit)

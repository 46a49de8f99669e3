"""Reads WARC and ARC files, also in a WACZ file, as visits with the marks of archived responses.

A WACZ file is a ZIP archive with WARC files in its folder `archive`
(https://specs.webrecorder.net/wacz/1.1.1/).
"""

import io
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final

from msgspec.structs import replace

from hacs_crawler.archive.capture import ArchiveError, Cleaning, is_html, key_of
from hacs_crawler.archive.payload import MAX_BODY_BYTES, Header, payload_links
from hacs_crawler.archive.records import Record, read_records, warcio_headers
from hacs_crawler.archive.source import Source, open_source, source_of
from hacs_crawler.links import LinkRules
from hacs_crawler.state import Visit
from hacs_crawler.utils.text import counted, safe_logger
from hacs_crawler.watch import Rules

logger = safe_logger(__name__)

ZIP_MAGIC: Final = b"PK\x03\x04"
_FOLDER: Final = "archive/"
_ENDINGS: Final = (".warc", ".warc.gz", ".arc", ".arc.gz")
_CAPTURES: Final = frozenset({"response", "revisit", "resource"})
_DERIVED: Final = {
    "conversion": "a WET file has the text of pages; import the WARC file that it was made from",
    "metadata": "a WAT file has metadata of pages; import the WARC file that it was made from",
}


def is_warc(beginning: bytes, name: str) -> bool:
    """Whether a file with this beginning, or this name, has WARC or ARC records."""
    is_known = beginning.startswith((b"WARC/", b"filedesc:"))
    return is_known or name.endswith(_ENDINGS)


def read_warc(
    source: str | Source, dropped: Cleaning | None = None, rules: Rules | None = None
) -> Iterator[Visit]:
    """Yield the visits in a WARC or ARC file, in its order, reading lazily.

    `source` is a path or a result of `open_source`, and is closed at the end. HTML responses (2xx)
    and HTML resources are visits with marks by `rules`; revisit records are visits without marks.
    Other responses and resources are counted in `dropped`. If there are only WET or WAT records, a
    warning says so. Raises as `read_records`.
    """
    counts: Cleaning = Counter() if dropped is None else dropped
    with closing(open_source(source) if isinstance(source, str) else source) as stream:
        kinds: Counter[str] = Counter()
        for record in read_records(stream, MAX_BODY_BYTES):
            kinds[record.kind] += 1
            if record.kind not in _CAPTURES:
                continue
            visit = _visit(record, rules or LinkRules())
            if isinstance(visit, Visit):
                yield visit
            else:
                counts[visit] += 1
        if _CAPTURES.isdisjoint(kinds):
            for kind in _DERIVED.keys() & kinds:
                logger.warning(
                    "%s has %s of the type %s, but no captures: %s",
                    stream.name,
                    counted(kinds[kind], "record"),
                    kind,
                    _DERIVED[kind],
                )


def _visit(record: Record, rules: Rules) -> Visit | str:
    """Return the visit of a record, or the kind of its problem."""
    _key, problem = key_of(record.url)
    if problem:
        return problem
    if record.at is None:
        return "invalid_date"
    visit = Visit(record.url, record.at)
    is_revisit = record.kind == "revisit"
    body: bytes = record.block
    header: Header = {"Content-Type": record.mime}.get
    if record.kind == "resource":
        problem = "" if is_html(record.mime) else "not_html"
    else:
        stream, warcio = io.BytesIO(record.block), warcio_headers()
        try:
            http = warcio.StatusAndHeadersParser([], verify=False).parse(stream)
        # revisit records may lack HTTP headers
        except (warcio.StatusAndHeadersParserException, ValueError, EOFError):
            return visit if is_revisit else "malformed"
        body, header = stream.read(), _getter(http)
        status = http.get_statuscode() or ""
        problem = "" if is_html(header("Content-Type") or "") else "not_html"
        if not status.startswith("2") and not (is_revisit and status in {"", "304"}):
            problem = "bad_status"
    if problem or is_revisit:
        return problem or visit
    links = None if record.is_cut else payload_links(body, header, visit.url, rules)
    if links is None:
        return "unreadable"
    return replace(visit, marks=links, rules=rules.fingerprint)


def _getter(http: Any) -> Header:
    def header(name: str) -> str | None:
        if name in {"Content-Encoding", "Content-Type"}:  # all values count
            return ", ".join(value for key, value in http.headers if key.lower() == name.lower())
        value: str | None = http.get_header(name)
        return value

    return header


def warcs_of(path: str) -> Iterator[Source]:
    """Yield the WARC files in a WACZ file, each open until the next is requested.

    Raises ArchiveError, with the file's name, if it is not a ZIP archive or lacks WARC files.
    """
    if path == "-":
        raise ArchiveError("standard input: a ZIP file (WACZ?) can only be read by its name")
    try:
        with zipfile.ZipFile(path) as archive:
            inside = [name for name in archive.namelist() if name.startswith(_FOLDER)]
            names = [name for name in inside if name.endswith(_ENDINGS)]
            for name in names:
                with archive.open(name) as file:
                    yield source_of(file, f"{path}, {name}")
    except (OSError, zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError) as error:
        raise ArchiveError(f"{path}: cannot read: {error}") from error
    if not names:
        raise ArchiveError(f"{path}: a ZIP file, but not WACZ: there is no WARC file in {_FOLDER}")

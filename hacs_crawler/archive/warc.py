"""WARC files: visits with the links that the archived responses show (ISO 28500).

warcio takes the files apart. What it passes over in silence is checked here: a record that ends early,
a block of wrong length. Either would show a page with fewer links than it had, and the next visit
would seem to have found new ones.
"""

import io
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from importlib import import_module
from types import ModuleType
from typing import Any, Final

from hacs_crawler.archive.capture import ArchiveError, Cleaning, is_html, key_of
from hacs_crawler.archive.payload import MAX_BODY_BYTES, payload_links
from hacs_crawler.archive.source import Source, open_source
from hacs_crawler.links import LinkRules
from hacs_crawler.state import Visit
from hacs_crawler.utils.times import parse_iso

_BLOCK_BYTES: Final = 1 << 16


def read_warc(
    source: str | Source, dropped: Cleaning | None = None, rules: LinkRules | None = None
) -> Iterator[Visit]:
    """Yield the visits that a WARC file tells of, in its order, reading as they are asked for.

    `source` is a path or what `open_source` returned, and is closed at the end. Responses (2xx, HTML)
    are visits with the links that `rules` let count, revisit records visits without links. Other
    responses are counted in `dropped`. Raises ArchiveError, with the source's name and offset, at the
    first place that is damaged, after all visits before it; also without warcio.
    Offsets of records are those in the unpacked data, offsets of gzip members those in the file.
    """
    errors = _errors_of_warcio()
    counts: Cleaning = Counter() if dropped is None else dropped
    with closing(open_source(source) if isinstance(source, str) else source) as stream:
        path = stream.name
        # With no_record_parse, for an empty response would else end the iteration in silence.
        records = _warcio("archiveiterator").WARCIterator(stream, no_record_parse=True)
        while True:
            try:
                record = next(records, None)
            except errors as error:
                place = f"{path}, record at byte {records.offset}"
                raise ArchiveError(f"{place}: damaged: {' '.join(str(error).split())}") from error
            if records.err_count:  # the record before it did not end where it said
                raise ArchiveError(f"{path}, before byte {records.offset}: damaged: wrong length")
            if record is None:
                return
            visit = _visit(record, f"{path}, record at byte {records.offset}", rules)
            if isinstance(visit, Visit):
                yield visit
            elif visit:
                counts[visit] += 1


def _warcio(module: str) -> ModuleType:
    try:
        return import_module(f"warcio.{module}")
    except ImportError as error:
        msg = "reading WARC files needs warcio: pip install 'hacs-crawler[archive]'"
        raise ArchiveError(msg) from error


def _errors_of_warcio() -> tuple[type[Exception], ...]:
    framing: type[Exception] = _warcio("exceptions").ArchiveLoadFailed
    headers: type[Exception] = _warcio("statusandheaders").StatusAndHeadersParserException
    return framing, headers, ValueError, EOFError


def _visit(record: Any, place: str, rules: LinkRules | None) -> Visit | str:
    """Return the visit of a record, the kind under which it is dropped, or "" if it is none."""
    if (
        not record.rec_type
        or not (record.rec_headers.get_header("Content-Length") or "").isdecimal()
    ):
        raise ArchiveError(f"{place}: damaged or truncated: no WARC-Type or no Content-Length")
    # One byte more than is used says that there is more.
    block = record.raw_stream.read(MAX_BODY_BYTES + 1)
    _finish(record.raw_stream, place)
    if record.rec_type not in {"response", "revisit"}:
        return ""
    visit = _page_and_time(record.rec_headers)
    if isinstance(visit, str):
        return visit
    stream = io.BytesIO(block)
    try:
        http = _warcio("statusandheaders").StatusAndHeadersParser([], verify=False).parse(stream)
    except _errors_of_warcio():  # a revisit record need not have any
        return visit if record.rec_type == "revisit" else "malformed"
    problem = _problem(http, is_revisit=record.rec_type == "revisit")
    if problem or record.rec_type == "revisit":
        return problem or visit
    is_cut = len(block) > MAX_BODY_BYTES or record.rec_headers.get_header("WARC-Truncated")
    links = None if is_cut else payload_links(stream.read(), http.get_header, visit.url, rules)
    return "unreadable" if links is None else Visit(visit.url, visit.at, links=links)


def _page_and_time(headers: Any) -> Visit | str:
    # The grammar of WARC 1.0 has it in angle brackets, and wget follows that.
    url = (headers.get_header("WARC-Target-URI") or "").strip("<>")
    _surt, problem = key_of(url)
    if problem:
        return problem
    at = parse_iso(headers.get_header("WARC-Date") or "")
    return "invalid_date" if at is None else Visit(url, at)


def _problem(http: Any, *, is_revisit: bool) -> str:
    status = http.get_statuscode() or ""
    if not status.startswith("2") and not (is_revisit and status in {"", "304"}):
        return "bad_status"
    return "" if is_html(http.get_header("Content-Type") or "") else "not_html"


def _finish(raw: Any, place: str) -> None:
    """Read what is left of a record, and see whether it is as long as it said."""
    while raw.read(_BLOCK_BYTES):
        pass
    # What is left of the length that the record gave: warcio does not complain of an early end.
    missing = getattr(raw, "limit", 0)
    if missing:
        raise ArchiveError(f"{place}: truncated, {missing} bytes are missing")

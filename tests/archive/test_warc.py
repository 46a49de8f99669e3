"""WARC files that warcio wrote, whole and damaged."""

import gzip
import io
import os
import re
import sys
import tracemalloc
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from lxml.html import fromstring

from hacs_crawler.archive import ArchiveError, payload, read_warc, warc
from hacs_crawler.links.extract import LinkRules, link_fingerprints
from hacs_crawler.state.page import Visit
from hacs_crawler.utils.times import parse_iso

brotli = pytest.importorskip("brotli")
zstd = pytest.importorskip("backports.zstd" if sys.version_info < (3, 14) else "compression.zstd")
StatusAndHeaders = pytest.importorskip("warcio.statusandheaders").StatusAndHeaders
WARCWriter = pytest.importorskip("warcio.warcwriter").WARCWriter

URL = "http://a.org/"
DATE = "2001-09-09T01:46:40Z"
AT = 1_000_000_000
PAGE = b'<a href="x">x</a> <a href="http://b.org/">y</a>'
LINKS = link_fingerprints(fromstring(PAGE), URL)
VISIT = Visit(URL, AT, marks=LINKS, rules=LinkRules().fingerprint)
HTML = ("Content-Type", "text/html; charset=utf-8")


class Warc:
    def __init__(self, path: Path, *, packed: bool) -> None:
        self.path = path
        self.offsets: list[int] = []
        self._file = path.open("wb")
        self._writer = WARCWriter(self._file, gzip=packed)

    def add(self, body: bytes = PAGE, *headers: tuple[str, str], url: str = URL, date: str = DATE,
            status: str = "200 OK", kind: str = "response", protocol: str = "HTTP/1.1",
            extra: dict[str, str] | None = None) -> None:  # fmt: skip
        self.offsets.append(self._file.tell())
        http = StatusAndHeaders(status, list(headers or (HTML,)), protocol=protocol)
        record = self._writer.create_warc_record(
            url, kind, payload=io.BytesIO(body), http_headers=http, length=len(body),
            warc_headers_dict={"WARC-Date": date} | (extra or {}),
        )  # fmt: skip
        self._writer.write_record(record)
        self._file.flush()

    def revisit(self, status: str = "200 OK", *headers: tuple[str, str]) -> None:
        http = StatusAndHeaders(status, list(headers or (HTML,)), protocol="HTTP/1.1")
        shown, dated = ("sha1:" + "A" * 32, URL, DATE), {"WARC-Date": DATE}
        self._writer.write_record(
            self._writer.create_revisit_record(
                URL, *shown, http_headers=http, warc_headers_dict=dated
            )
        )
        self._file.flush()

    def info(self) -> None:
        self._writer.write_record(self._writer.create_warcinfo_record("x.warc", {"software": "x"}))

    def read(self) -> list[Visit]:
        return list(read_warc(str(self.path)))

    def read_to_error(self, match: str) -> list[Visit]:
        visits: list[Visit] = []
        with pytest.raises(ArchiveError, match=match):
            visits.extend(read_warc(str(self.path)))
        return visits

    def dropped(self) -> dict[str, int]:
        counts: Counter[str] = Counter()
        assert list(read_warc(str(self.path), counts)) == []
        return dict(counts)

    def close(self) -> None:
        self._file.close()


@pytest.fixture(params=[False, True], ids=["plain", "gzip"])
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Warc]:
    warc = Warc(tmp_path / "x.warc", packed=request.param)
    yield warc
    warc.close()


def pages_in(path: Path, number: int, *, packed: bool) -> Warc:
    warc = Warc(path, packed=packed)
    for _ in range(number):
        warc.add()
    warc.close()
    return warc


def chunked(body: bytes) -> bytes:
    return b"".join(b"%x\r\n%c\r\n" % (1, byte) for byte in body) + b"0\r\n\r\n"


def test_a_response_is_a_visit_with_its_links(archive: Warc) -> None:
    archive.info()
    archive.add()
    archive.add(b"<p>", url="https://b.org/x", date="2001-09-09T01:46:41.999999Z")
    assert archive.read() == [
        VISIT,
        Visit("https://b.org/x", AT + 1, marks=frozenset(), rules=VISIT.rules),
    ]


def test_a_revisit_is_a_visit_without_links(archive: Warc) -> None:
    archive.revisit()
    archive.revisit("304 Not Modified")
    assert archive.read() == [Visit(URL, AT)] * 2


@pytest.mark.parametrize(
    ("profile", "is_known"), [("uri-agnostic-identical-payload-digest", True), ("delta", False)]
)
def test_a_revisit_of_an_unknown_profile_says_nothing_of_the_page(
    archive: Warc, profile: str, is_known: bool
) -> None:
    named = {"WARC-Profile": f"http://netpreserve.org/warc/1.1/revisit/{profile}"}
    archive.add(b"", kind="revisit", extra=named)
    assert archive.read() == [Visit(URL, AT)] * is_known


def test_rules_say_which_links_count(archive: Warc) -> None:
    archive.add()
    (visit,) = read_warc(str(archive.path), rules=LinkRules("same-site"))
    assert len(visit.marks) == 1


@pytest.mark.parametrize("status", ["404 Not Found", "302 Found", "429 Slow Down", "503 No", "x"])
def test_other_statuses_are_no_captures(archive: Warc, status: str) -> None:
    archive.add(status=status)
    archive.revisit(status)
    assert archive.dropped() == {"bad_status": 2}


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        ({"url": "dns:a.org"}, "not_http"),
        ({"url": "http://a.org:99999/"}, "malformed"),
        ({"date": "2001-00-09T01:46:40Z"}, "invalid_date"),
        ({"date": "soon"}, "invalid_date"),
        ({"extra": {"WARC-Truncated": "length"}}, "unreadable"),
        ({"extra": {"WARC-Segment-Number": "1"}}, "unreadable"),
    ],
)
def test_unusable_records_are_counted_by_kind(
    archive: Warc, options: dict[str, str], kind: str
) -> None:
    archive.add(**options)
    assert archive.dropped() == {kind: 1}


def test_only_html_counts(archive: Warc) -> None:
    archive.add(PAGE, ("Content-Type", "image/png"))
    archive.revisit("200 OK", ("Content-Type", "image/png"))
    assert archive.dropped() == {"not_html": 2}


def test_what_crawlers_with_a_browser_write_is_read(archive: Warc) -> None:
    """As Browsertrix: bodies as the browser decoded them, and records of what a page was made of."""
    named = {"WARC-Page-ID": "abc", "WARC-Resource-Type": "document", "WARC-Protocol": "h2"}
    packed = ("content-encoding", "br"), ("X-Crawler-Transfer-Encoding", "chunked")
    date = DATE.replace("Z", ".123456Z")
    archive.add(PAGE, HTML, *packed, status="200", protocol="HTTP/2", date=date, extra=named)
    archive.add(b"{}", url=f"urn:pageinfo:{URL}", kind="resource")
    assert archive.read() == [VISIT]


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("gzip", gzip.compress),
        ("x-gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("deflate", lambda body: zlib.compress(body)[2:-4]),
        ("gzip", bytes),  # unpacked by the archive, its header kept
        ("br", bytes),
        ("zstd", bytes),
        ("br", brotli.compress),
        ("zstd", zstd.compress),
        ("zstd", lambda body: zstd.compress(body[:9]) + zstd.compress(body[9:])),
        ("br, gzip", lambda body: gzip.compress(brotli.compress(body))),
        ("gzip, gzip", lambda body: gzip.compress(gzip.compress(body))),
        ("gzip", lambda body: gzip.compress(gzip.compress(body))),
        ("", gzip.compress),
    ],
)
@pytest.mark.parametrize("split", [chunked, bytes])
def test_encodings_are_undone(
    archive: Warc, encoding: str, pack: Callable[[bytes], bytes], split: Callable[[bytes], bytes]
) -> None:
    transfer = ("Transfer-Encoding", "chunked")  # archives keep it even where they unchunked
    archive.add(split(pack(PAGE)), HTML, ("Content-Encoding", encoding), transfer)
    assert archive.read() == [VISIT]


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", gzip.compress(PAGE, mtime=0)[:-9]),
        ("gzip", gzip.compress(PAGE, mtime=0)[:20] + b"\0" * 30),
        ("deflate", b"\0\1\2"),
        ("br", b"\x8b\x03"),
        ("br", brotli.compress(PAGE)[:-3]),
        ("zstd", zstd.compress(PAGE)[:-3]),
        ("zstd", zstd.compress(PAGE)[:9] + b"\0" * 9),
        ("gzip" + ", gzip" * 9, gzip.compress(PAGE, mtime=0)),
        ("compress", b"\x1f\x9d\0"),
        ("", b""),
        ("", b" \r\n"),
        *(("", b"<a\0b>"), ("", b"%PDF-1.4\n" + PAGE)),
        ("", chunked(PAGE)[:-20]),
    ],
)
def test_a_payload_that_cannot_be_unpacked_shows_nothing(
    archive: Warc, encoding: str, body: bytes
) -> None:
    archive.add(body, HTML, ("Content-Encoding", encoding), ("Transfer-Encoding", "chunked"))
    assert archive.dropped() == {"unreadable": 1}


@pytest.mark.parametrize(
    ("name", "values", "body"),
    [
        ("Content-Type", ["text/html, text/html; charset=utf-8"], PAGE),
        ("Content-Type", ["text/html", "text/html;charset=utf-8"], PAGE),
        ("Content-Encoding", ["br", "gzip"], gzip.compress(brotli.compress(PAGE), mtime=0)),
    ],
)
def test_a_header_that_came_twice_is_read(
    archive: Warc, name: str, values: list[str], body: bytes
) -> None:
    archive.add(body, HTML, *((name, value) for value in values))
    assert archive.read() == [VISIT]


def record_of(kind: str, mime: str, body: bytes) -> bytes:
    return (
        f"WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Date: {DATE}\r\nWARC-Target-URI: {URL}\r\n"
        f"Content-Type: {mime}\r\nContent-Length: {len(body)}\r\n\r\n"
    ).encode() + body + b"\r\n\r\n"  # fmt: skip


def test_a_page_that_was_archived_as_a_resource_is_a_visit(tmp_path: Path) -> None:
    path = tmp_path / "x.warc"
    parts = [("text/html; charset=utf-8", PAGE), ("image/png", b"x"), ("text/html", b" ")]
    path.write_bytes(b"".join(record_of("resource", *part) for part in parts))
    counts: Counter[str] = Counter()
    assert list(read_warc(str(path), counts)) == [VISIT]
    assert counts == {"not_html": 1, "unreadable": 1}


@pytest.mark.parametrize(("kind", "name"), [("conversion", "WET"), ("metadata", "WAT")])
def test_what_was_made_of_captures_is_named(
    tmp_path: Path, kind: str, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "x.warc"
    path.write_bytes(record_of("warcinfo", "application/warc-fields", b"a: b\r\n"))
    assert list(read_warc(str(path))) == []
    assert not caplog.messages
    path.write_bytes(record_of(kind, "text/plain", b"x") * 2)
    assert list(read_warc(str(path))) == []
    assert re.search(rf"x.warc has 2 records of the type {kind}, .* {name} file", caplog.text)


def test_a_payload_of_too_many_bytes_shows_nothing(
    archive: Warc, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warc, "MAX_BODY_BYTES", 9_999)
    monkeypatch.setattr(payload, "MAX_BODY_BYTES", 9_999)
    archive.add(b" " * 20_000)
    for encoding, codec in (("gzip", gzip), ("br", brotli), ("zstd", zstd)):
        archive.add(codec.compress(b" " * 20_000), HTML, ("Content-Encoding", encoding))
    assert archive.dropped() == {"unreadable": 4}


@pytest.mark.parametrize(
    ("encoding", "codec", "package"), [("br", brotli, "brotli"), ("zstd", zstd, "backports")]
)
def test_a_codec_that_is_not_installed_is_named(
    archive: Warc, encoding: str, codec: Any, package: str,
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    payload._say_once.cache_clear()
    for name in ("brotli", "brotlicffi", "compression.zstd", "backports.zstd"):
        monkeypatch.setitem(sys.modules, name, None)
    for _ in range(2):
        archive.add(codec.compress(PAGE), HTML, ("Content-Encoding", encoding))
    assert archive.dropped() == {"unreadable": 2}
    (line,) = caplog.messages
    assert f"'{encoding}' needs a codec: pip install {package}" in line


def test_an_old_brotli_that_cannot_be_bounded_is_named(
    archive: Warc, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Decompressor:
        def process(self, data: bytes) -> bytes:
            raise NotImplementedError

    payload._say_once.cache_clear()
    monkeypatch.setattr(brotli, "Decompressor", Decompressor)
    archive.add(b"\x8b", HTML, ("Content-Encoding", "br"))
    assert archive.dropped() == {"unreadable": 1}
    assert "pip install 'brotli>=1.2'" in caplog.text


def test_charset_of_the_header_is_used(archive: Warc) -> None:
    text = '<a href="/\u0439">x</a>'
    archive.add(text.encode("koi8-r"), ("Content-Type", "text/html; charset=koi8-r"))
    assert archive.read()[0].marks == link_fingerprints(fromstring(text), URL)


def test_an_empty_block_does_not_end_the_file(archive: Warc) -> None:
    archive.add()
    archive.close()
    block = (
        b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: <http://a.org/>\r\nWARC-Date: %s\r\n"
    )
    empty = block % DATE.encode() + b"Content-Length: 0\r\n\r\n\r\n\r\n"
    whole = archive.path.read_bytes()
    is_packed = whole[:2] == b"\x1f\x8b"
    archive.path.write_bytes((gzip.compress(empty) if is_packed else empty) + whole)
    counts: Counter[str] = Counter()
    assert list(read_warc(str(archive.path), counts)) == [VISIT]
    assert counts == {"malformed": 1}


def test_a_file_packed_as_one_member(tmp_path: Path) -> None:
    plain = pages_in(tmp_path / "x.warc", 2, packed=False)
    plain.path.write_bytes(gzip.compress(plain.path.read_bytes()))
    assert plain.read() == [VISIT] * 2


def test_an_empty_file_has_no_visits(archive: Warc) -> None:
    assert archive.read() == []


@pytest.mark.parametrize("missing", [1, 9, 60, 150])
def test_truncated_gzip_keeps_what_comes_before(tmp_path: Path, missing: int) -> None:
    archive = Warc(tmp_path / "x.warc.gz", packed=True)
    archive.add()
    archive.add(os.urandom(40_000).hex().encode())
    archive.close()
    os.truncate(archive.path, archive.path.stat().st_size - missing)
    place = rf"x\.warc\.gz, gzip member at byte {archive.offsets[1]}: truncated at byte \d+$"
    assert archive.read_to_error(place) == [VISIT]


def test_damaged_gzip_member_keeps_what_comes_before(tmp_path: Path) -> None:
    archive = pages_in(tmp_path / "x.warc.gz", 3, packed=True)
    data = bytearray(archive.path.read_bytes())
    data[archive.offsets[1] + 100] ^= 0xFF
    archive.path.write_bytes(data)
    place = rf"x\.warc\.gz, gzip member at byte {archive.offsets[1]}: damaged: "
    assert archive.read_to_error(place) == [VISIT]


def test_truncation_at_any_byte_is_noticed(tmp_path: Path) -> None:
    archive = pages_in(tmp_path / "x.warc", 2, packed=False)
    first, whole = archive.offsets[1], archive.path.read_bytes()
    for size in range(first + 1, len(whole) - 4):  # of the last record only its end may be missing
        archive.path.write_bytes(whole[:size])
        assert archive.read_to_error(rf"x\.warc, (record at|before) byte {first}: ") == [VISIT]


@pytest.mark.parametrize("length", [b"3", b"99999", b"-1", b"x"])
def test_a_record_of_wrong_length_is_damaged_and_the_next_gzip_member_is_read(
    tmp_path: Path, length: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    archive = pages_in(tmp_path / "x.warc", 4, packed=False)
    whole = archive.path.read_bytes()
    records = [whole[start:end] for start, end in pairwise([*archive.offsets, len(whole)])]
    for place in (1, 2):
        head, _, rest = records[place].partition(b"Content-Length: ")
        records[place] = head + b"Content-Length: " + length + rest[rest.index(b"\r\n") :]
    archive.path.write_bytes(records[0] + records[1] + records[3])
    assert archive.read_to_error(r"x\.warc, (record at|before) byte \d+: ") == [VISIT] * 2
    archive.path.write_bytes(b"".join(map(gzip.compress, records)))
    some = r"x\.warc, record at byte \d+: .*; 1 more are damaged$"
    assert archive.read_to_error(some) == [VISIT] * 2
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("fold", [b"\r\n ", b"\r\n\t"])
def test_folded_headers_are_read(tmp_path: Path, fold: bytes) -> None:
    archive = pages_in(tmp_path / "x.warc", 1, packed=False)
    whole = archive.path.read_bytes()
    for name in (b"WARC-Target-URI:", b"WARC-Date:"):
        whole = whole.replace(name + b" ", name + fold)
    archive.path.write_bytes(whole.replace(b"http://a", b"http:" + fold + b"//a", 1))
    assert archive.read() == [VISIT]


def arc_record(url: str, body: bytes, at: str = "20010909014640", more: str = "") -> bytes:
    http = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + body
    return f"{url} 127.0.0.1 {at} text/html {more}{len(http)}\n".encode() + http + b"\n"


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("more", ["", "200 - - 0 x.arc "])  # the second version of the format
def test_an_arc_file_is_read_as_a_warc_file_is(tmp_path: Path, packed: bool, more: str) -> None:
    version = b"1 0 Internet Archive\nURL IP-address Archive-date Content-type Archive-length\n"
    records = [
        b"filedesc://x.arc 0.0.0.0 20010909014640 text/plain %d\n%s\n" % (len(version), version),
        arc_record(URL, PAGE, more=more),
        arc_record("http://a.org/a b", PAGE, more=more),
        arc_record("dns:a.org", b"", more=more),
        arc_record(URL, PAGE, at="20010009014640", more=more),
    ]
    path = tmp_path / "x.arc"
    path.write_bytes(b"".join(gzip.compress(one) if packed else one for one in records))
    counts: Counter[str] = Counter()
    visits = list(read_warc(str(path), counts))
    assert [(one.url, one.at) for one in visits] == [(URL, AT), ("http://a.org/a%20b", AT)]
    assert visits[0].marks == LINKS
    assert counts == {"not_http": 1, "invalid_date": 1}


def test_a_file_that_is_missing_or_no_warc_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.warc"
    with pytest.raises(ArchiveError, match=r"x\.warc: cannot read: No such file"):
        list(read_warc(str(path)))
    path.write_bytes(b"<html><p>not a WARC file at all")
    with pytest.raises(ArchiveError, match=r"x\.warc, record at byte 0: damaged: "):
        list(read_warc(str(path)))


def test_without_warcio_the_error_says_what_to_install(
    archive: Warc, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive.add()
    monkeypatch.setitem(sys.modules, "warcio.statusandheaders", None)
    with pytest.raises(ArchiveError, match=r"pip install 'hacs-crawler\[archive\]'"):
        next(read_warc(str(archive.path)))


def test_memory_does_not_grow_with_the_file(archive: Warc) -> None:
    def peak(more: int) -> int:
        for _ in range(more):
            archive.add(PAGE + b" " * 50_000)
        tracemalloc.start()
        for _ in read_warc(str(archive.path)):
            pass
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(5)  # fills caches
    assert peak(100) < peak(0) + 300_000


@pytest.mark.parametrize("text", ["2001-09-09T01:46:40Z", "2001-09-09T01:46:40.123456789Z",
                                  "2001-09-09T03:46:40+02:00", "20010909T014640Z"])  # fmt: skip
def test_dates(text: str) -> None:
    assert parse_iso(text) == AT

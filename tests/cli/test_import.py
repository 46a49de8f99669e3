"""The `hacs` command, run as a user runs it."""

import bz2
import gzip
import lzma
import zipfile
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from cli_support import hacs_process as hacs, said
from hacs_crawler.links.keys import page_id_of
from hacs_crawler.state.page import Page
from state_support import opened

pytestmark = pytest.mark.slow  # `hacs` as a process

URL = "http://example.edu/~ada/"
ROWS = "".join(
    f"edu,example)/~ada/ {at} {URL} {kind} {digest * 32} 1\n"
    for at, kind, digest in (
        ("20200101000000", "text/html 200", "A"),
        ("20200201000000", "text/html 200", "A"),
        ("20200301000000", "text/html 200", "B"),
        ("20200401000000", "warc/revisit -", "B"),
        ("20200501000000", "text/html 404", "C"),
    )
)


def known(folder: Path) -> Page:
    with opened("sqlite:///.hacs/state.db", folder=folder) as state:
        return state.load([page_id_of(URL)])[page_id_of(URL)]


@pytest.mark.parametrize(
    ("packed", "named"),
    [
        (b"\x28\xb5\x2f\xfd" + bytes(99), "zstd: unpack it with `zstd -d`"),
        (b"\x5d\x2a\x4d\x18" + bytes(99), "zstd: unpack it with `zstd -d`"),
        (b"\x04\x22\x4d\x18" + bytes(99), "lz4: unpack it with `lz4 -d`"),
        (bz2.compress(b"WARC/1.0"), "bzip2: unpack it with `bunzip2`"),
        (lzma.compress(b"WARC/1.0"), "xz: unpack it with `unxz`"),
    ],
)
def test_a_file_that_is_packed_otherwise_is_named_for_what_it_is(
    packed: bytes, named: str, tmp_path: Path
) -> None:
    (tmp_path / "a.warc.x").write_bytes(packed)
    done = hacs(tmp_path, "import", "a.warc.x")
    assert said(done, 1) == f"ERROR: a.warc.x is packed with {named}\n"


def test_a_cdx_file_becomes_visits_with_the_captures_own_times_once(tmp_path: Path) -> None:
    (tmp_path / "captures.cdx.gz").write_bytes(gzip.compress(ROWS.encode()))
    first = said(hacs(tmp_path, "import", "captures.cdx.gz"))
    page = known(tmp_path)
    assert (len(page.visits), page.last_update) == (4, page.visits[2])
    assert "4 visits recorded, 1 of them with an update" in first
    assert "1 capture left out: bad_status" in first
    again = said(hacs(tmp_path, "import", "captures.cdx.gz"))
    assert "0 visits recorded, 0 of them with an update" in again
    after = known(tmp_path)
    assert (after.visits, after.update_times) == (page.visits, page.update_times)


def test_of_a_truncated_file_what_could_be_read_is_kept(tmp_path: Path) -> None:
    pages = (ROWS.replace("ada", f"zed{number}") for number in range(2_000))
    whole = gzip.compress((ROWS + "".join(pages)).encode(), 0)
    (tmp_path / "captures.cdx.gz").write_bytes(whole[: len(whole) // 2])
    line = said(hacs(tmp_path, "import", "captures.cdx.gz"), 1)
    assert "captures.cdx.gz, gzip member at byte 0: truncated" in line
    assert len(known(tmp_path).visits) == 4


def warc(url: str, body: bytes, at: str = "2020-01-01T00:00:00Z") -> bytes:
    http = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + body
    head = (
        f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: {url}\r\nWARC-Date: {at}\r\n"
        f"Content-Length: {len(http)}\r\n\r\n"
    )
    return head.encode() + http + b"\r\n\r\n"


def wacz(path: Path, **files: bytes) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, body in files.items():
            archive.writestr(name.replace("__", "/").replace("_", "."), body)


@pytest.mark.parametrize("damaged", [{}, {"archive__c_warc": warc(URL, b"<a href='x'>")[:-40]}])
def test_the_warc_files_in_a_wacz_file_are_imported_also_beside_a_damaged_one(
    damaged: dict[str, bytes], tmp_path: Path
) -> None:
    one, two = (warc(URL, b"<a href='x'>", f"2020-01-0{day}T00:00:00Z") for day in (1, 2))
    packed = {"archive__b_warc_gz": gzip.compress(two), "pages_x": b"", **damaged}
    wacz(tmp_path / "x.wacz", archive__a_warc=one, **packed)
    lines = said(hacs(tmp_path, "import", "x.wacz"), len(damaged))
    assert ("x.wacz, archive/c.warc, record at byte 0: truncated" in lines) is bool(damaged)
    assert len(known(tmp_path).visits) == 2


def test_a_zip_file_that_is_no_wacz_is_named(tmp_path: Path) -> None:
    wacz(tmp_path / "other", data_txt=b"x")
    (tmp_path / "cut").write_bytes(b"PK\3\4 and no more")
    for name, message in (
        ("other", "other: a ZIP file, but not WACZ: there is no WARC file in archive/"),
        ("cut", "cut: cannot read: "),
    ):
        assert message in said(hacs(tmp_path, "import", name), 1)


def arc(url: str, body: bytes) -> bytes:
    http = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + body
    record = f"{url} 127.0.0.1 20200101000000 text/html {len(http)}\n".encode() + http + b"\n"
    version = b"1 0 x\nURL IP-address Archive-date Content-type Archive-length\n"
    first = b"filedesc://x.arc 0.0.0.0 20200101000000 text/plain %d\n" % len(version) + version
    return first + b"\n" + record


@pytest.mark.parametrize("kind", [warc, arc])
def test_a_warc_and_an_arc_are_told_by_their_beginning(kind: Any, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(gzip.compress(kind(URL, b"<a href=x>")))
    assert "x: 1 visit recorded" in hacs(tmp_path, "import", "x").stderr
    assert len(known(tmp_path).spells.marks) == 1


def test_of_archived_pages_that_is_read_which_is_watched(tmp_path: Path) -> None:
    """A price that returns is a change, whatever the links do."""
    for day, price in enumerate("ABA", start=1):
        body = f"<a href='x{day}'><p>{price}</p>".encode()
        (tmp_path / f"{day}.warc").write_bytes(warc(URL, body, f"2020-01-0{day}T00:00:00Z"))
    files = sorted(map(str, tmp_path.glob("*.warc")), reverse=True)
    said(hacs(tmp_path, "import", *files, "-s", "HACS_WATCH=css:p"))
    page = known(tmp_path)
    assert len(page.update_times) == 2
    assert (len(replace(page, updates="page").update_times), len(page.spells.marks)) == (1, 3)


def test_archives_are_not_read_where_items_are_watched(tmp_path: Path) -> None:
    (tmp_path / "1.warc").write_bytes(warc(URL, b"<a href='x'>"))
    done = hacs(tmp_path, "import", str(tmp_path / "1.warc"), "-s", "HACS_WATCH=items")
    assert "HACS_WATCH = 'items': archives do not show what callbacks yield" in said(done, 1)
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("file", "line", "status"),
    [
        ("empty.jsonl", "empty.jsonl is empty", 0),
        ("-", "standard input is empty", 0),
        ("missing", "missing: cannot read: No such file", 1),
        (".", ".: cannot read: Is a directory", 1),
        ("seeds.txt", "seeds.txt is a list of URLs", 1),
        ("words", "not one of 1 rows is CDX", 1),
    ],
)
def test_a_file_that_shows_nothing_is_named_and_leaves_no_state_behind(
    file: str, line: str, status: int, tmp_path: Path
) -> None:
    for name, text in {"empty.jsonl": "", "seeds.txt": f"{URL}\n", "words": "none\n"}.items():
        (tmp_path / name).write_text(text)
    assert line in said(hacs(tmp_path, "import", file), status)
    assert not (tmp_path / ".hacs").exists()

"""Seed files."""

import gzip
import io
import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hacs_crawler.crawl.seeds import LONGEST_LINE_BYTES, SeedsError, read_seeds, weighted_seeds
from hacs_crawler.exceptions import HacsError

Write = Callable[[bytes], str]


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


@pytest.mark.parametrize(
    ("content", "seeds"),
    [
        (b"http://b.org/\nhttp://a.org/\r\n  http://c.org/  ", "http://b.org/ http://a.org/ http://c.org/"),
        (b"# head\n\n   \n  # indented\nhttp://a.org/ # trailing\nb.org/\t#x # y\n", "http://a.org/ http://b.org/"),
        (b"http://a.org/#me\n", "http://a.org/#me"),
        (b"\xef\xbb\xbfhttp://a.org/\n", "http://a.org/"),
        (b"http://a.org/x,y;z\n", "http://a.org/x,y;z"),
        (b"127.0.0.1:8/x\nlocalhost/y\nlocalhost:8/z\n",
         "http://127.0.0.1:8/x http://localhost/y http://localhost:8/z"),
    ],
    ids=["in order", "comments", "a fragment", "a byte order mark", "a comma", "hosts of one's own"],
)  # fmt: skip
def test_one_url_a_line_is_read(
    content: bytes, seeds: str, write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    assert list(read_seeds(write(content))) == seeds.split()
    assert warnings_of(caplog) == []


MUST = "must be a number above 0"


@pytest.mark.parametrize(
    ("content", "warnings"),
    [
        (b"url,weight\na.org/,high\na.org/,0\nhttp://c.org/,1\n",
         [f"line 2: weight 'high': {MUST}", f"line 3: weight '0': {MUST}"]),
        (b"name,url\nAda,\nBob,http://c.org/\n", ["line 2: it has no URL"]),
        (b'name,url\n"Ada,http://b.org/\nBob,http://c.org/\n', ["line 2: a quote is not closed"]),
        (b"# c\nftp://b.org/\nhttp://c.org/\n",
         ["line 2: scheme 'ftp' is not http or https: 'ftp://b.org/'"]),
        (b"http://a.org/\xff\nhttp://c.org/\n", ["line 1: not UTF-8 at byte 14"]),
    ],
    ids=["a weight", "no URL", "a quote", "no seed", "bytes"],
)  # fmt: skip
def test_a_malformed_line_is_a_warning_with_its_place(
    content: bytes, warnings: list[str], write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(content)
    assert list(read_seeds(path)) == ["http://c.org/"]
    assert warnings_of(caplog) == [
        f"{path}, {warning}; the line is skipped" for warning in warnings
    ]


@pytest.mark.parametrize(
    "lines",
    [
        'name,url,field\r\n"Lovelace, Ada",http://a.org/~ada,math\r\nBob,b.org/bob,\r\n',
        "Homepage;Name\nhttp://a.org/~ada;Ada\nhttp://b.org/bob;Bob\n",
        "id\tlink\n1\thttp://a.org/~ada\n2\tb.org/bob\n",
        "URL\nhttp://a.org/~ada\nhttp://b.org/bob\n",
        "Ada Lovelace http://a.org/~ada\nBob: http://b.org/bob\n",
        "http://a.org/~ada,Ada Lovelace\n(http://b.org/bob)\n",
        "http://a.org/~ada;Ada\nhttp://b.org/bob\n",
        "Ada Lovelace, http://a.org/~ada,\nBob,b.org/bob\n",
        "a.org/~ada\nb.org/bob\n",
        "http://a.org/~ada  Ada Lovelace\nb.org/bob J. Bob (bob@b.org)\n",
    ],
)
def test_lists_are_read_as_people_have_them(
    lines: str, write: Write, caplog: pytest.LogCaptureFixture
) -> None:
    path = write(b"\xef\xbb\xbf" + lines.encode())
    assert list(read_seeds(path)) == ["http://a.org/~ada", "http://b.org/bob"]
    assert warnings_of(caplog) == []


@pytest.mark.parametrize(
    "lines",
    [
        "weight,url\n3,http://a.org/\n,http://b.org/1,2\n0.5,c.org/c\n",
        "http://a.org/ 3\nhttp://b.org/1,2\nc.org/c, 0.5\n",
        "http://a.org/\t3 # most\nhttp://b.org/1,2\nc.org/c;\t0.5\n",
    ],
)
def test_a_list_may_give_weights(lines: str, write: Write) -> None:
    lines = lines.replace(",http://b.org/1,2", ',"http://b.org/1,2"')
    seeds = [("http://a.org/", 3.0), ("http://b.org/1,2", None), ("http://c.org/c", 0.5)]
    assert list(weighted_seeds(write(lines.encode()))) == seeds


@pytest.mark.parametrize("length", [LONGEST_LINE_BYTES, 3 * LONGEST_LINE_BYTES + 7])
def test_enormous_line_is_one_warning(
    write: Write, caplog: pytest.LogCaptureFixture, length: int
) -> None:
    path = write(b"x" * length + b"\nhttp://b.org/\nftp://c.org/\n")
    assert list(read_seeds(path)) == ["http://b.org/"]
    first, second = warnings_of(caplog)
    assert len(first) < 400
    assert f"{path}, line 1: " in first
    assert f"{path}, line 3: " in second


def test_enormous_line_is_never_held_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stream(io.BytesIO):
        largest = 0

        def readline(self, size: int | None = -1, /) -> bytes:
            line = super().readline(size)
            self.largest = max(self.largest, len(line))
            return line

    stream = Stream(b"x" * 1_000_000 + b"\nhttp://a.org/")
    monkeypatch.setattr(sys, "stdin", type("Stdin", (), {"buffer": stream}))
    assert list(read_seeds("-")) == ["http://a.org/"]
    assert stream.largest <= LONGEST_LINE_BYTES + 1


def test_gzipped_file(tmp_path: Path) -> None:
    path = tmp_path / "seeds.txt.gz"
    path.write_bytes(gzip.compress(b"http://a.org/\nhttp://b.org/\n"))
    assert list(read_seeds(str(path))) == ["http://a.org/", "http://b.org/"]


def test_standard_input(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"http://a.org/\nx\n")))
    assert list(read_seeds("-")) == ["http://a.org/"]
    assert warnings_of(caplog)[0].startswith("standard input, line 2: no scheme")


def test_lines_are_read_as_they_are_asked_for() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"http://a.org/\n")
    try:
        assert next(read_seeds(f"/dev/fd/{reading}")) == "http://a.org/"  # the pipe is still open
    finally:
        os.close(reading)
        os.close(writing)


RANDOM = os.urandom(50_000).hex().encode()


@pytest.mark.parametrize(
    "content",
    [
        gzip.compress(RANDOM + b"\nhttp://a.org/\n")[:-10],
        b"http://a.org/\n",
        gzip.compress(b"http://a.org/\n" * 99, mtime=0)[:12] + b"\xff" * 30,
    ],
    ids=["cut off", "not packed", "rubbish after the header"],
)
def test_damaged_gzip(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "seeds.gz"
    path.write_bytes(content)
    with pytest.raises(SeedsError, match=r"seeds\.gz: damaged gzip file: "):
        list(read_seeds(str(path)))


@pytest.mark.parametrize("name", ["missing.txt", "missing.gz", "", "nul\0"])
def test_source_that_cannot_be_opened(tmp_path: Path, name: str) -> None:
    source = str(tmp_path / name)  # "" is the folder itself
    with pytest.raises(SeedsError) as caught:
        next(read_seeds(source))
    assert str(caught.value).startswith(f"{source}: cannot read seeds: ")
    assert isinstance(caught.value, HacsError)


def test_the_seeds_that_ship_are_well_formed(caplog: pytest.LogCaptureFixture) -> None:
    seeds = list(read_seeds(str(Path(__file__).parents[2] / "seeds" / "scholar.txt")))
    assert len(seeds) == len(set(seeds)) >= 15
    assert warnings_of(caplog) == []

"""Files, gzipped or not, whole or damaged."""

import gzip
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from hacs_crawler.archive import ArchiveError, Source, open_source, read_lines
from hacs_crawler.archive.source import LONGEST_LINE_BYTES

Write = Callable[[bytes], str]
LINES = [b"%d %d\n" % (number, number * 7919) for number in range(50_000)]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_lines_packed_or_not_whatever_the_name(
    write: Write, pack: Callable[[bytes], bytes]
) -> None:
    assert list(read_lines(write(pack(b"".join(LINES))))) == LINES


def test_many_members_and_padding(write: Write) -> None:
    members = [gzip.compress(b"".join(LINES[at : at + 999])) for at in range(0, len(LINES), 999)]
    path = write(b"".join([*members, gzip.compress(b""), bytes(200_000)]))
    assert list(read_lines(path)) == LINES


@pytest.mark.parametrize("content", [b"", gzip.compress(b"", mtime=0)])
def test_empty_file(write: Write, content: bytes) -> None:
    assert list(read_lines(write(content))) == []


def lines_before_the_error(source: str | Source, match: str) -> list[bytes]:
    lines: list[bytes] = []
    with pytest.raises(ArchiveError, match=match):
        lines.extend(read_lines(source))
    return lines


def test_truncated_member_gives_what_it_holds_and_names_its_place(write: Write) -> None:
    first, second = gzip.compress(b"".join(LINES[:999])), gzip.compress(b"".join(LINES[999:]))
    path = write(first + second[:-5])
    place = (
        rf"x\.cdx, gzip member at byte {len(first)}: truncated at byte {len(first + second) - 5}"
    )
    lines = lines_before_the_error(path, place)
    assert lines == LINES[: len(lines)]
    assert len(lines) > 0.8 * len(LINES)


def test_wrong_checksum_keeps_the_members_before_it(write: Write) -> None:
    first, second = gzip.compress(b"a\n"), bytearray(gzip.compress(b"b\n"))
    second[-8] ^= 1
    path = write(first + second)
    assert lines_before_the_error(path, rf"member at byte {len(first)}: damaged: ") == [b"a\n"]


@pytest.mark.parametrize("seed", range(20))
def test_any_flipped_byte_is_noticed(write: Write, seed: int) -> None:
    packed = bytearray(gzip.compress(b"".join(LINES[:2000]), mtime=0))
    packed[random.Random(seed).randrange(10, len(packed))] ^= 0x55
    assert len(lines_before_the_error(write(bytes(packed)), "damaged|truncated")) < 2000


def test_enormous_line_is_cut(write: Write) -> None:
    path = write(b"x" * (3 * LONGEST_LINE_BYTES + 5) + b"\ny\n")
    assert list(read_lines(path)) == [b"x" * LONGEST_LINE_BYTES, b"y\n"]


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
@pytest.mark.parametrize("size", [0, 1, 1000, 1 << 16, 1 << 24])
def test_what_was_looked_at_is_read_all_the_same(
    write: Write, pack: Callable[[bytes], bytes], size: int
) -> None:
    content = b"".join(LINES)
    source = open_source(write(pack(content)))
    assert source.beginning(size) == content[:size]
    assert list(read_lines(source)) == LINES


def test_damage_in_what_was_looked_at_is_reported_in_its_place(write: Write) -> None:
    source = open_source(write(gzip.compress(b"".join(LINES[:999])) + b"oops"))
    assert source.beginning() == b"".join(LINES[:999])
    assert lines_before_the_error(source, r"damaged: .*incorrect header check") == LINES[:999]


@pytest.mark.parametrize("name", ["missing", "", "nul\0"])
def test_file_that_cannot_be_opened(tmp_path: Path, name: str) -> None:
    with pytest.raises(ArchiveError, match="cannot read: "):
        next(read_lines(str(tmp_path / name)))

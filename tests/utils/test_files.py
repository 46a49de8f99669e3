"""Files that appear under their names when they are whole."""

import gzip
import os
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from hacs_crawler.exceptions import HacsError
from hacs_crawler.utils.files import Writable, replacing


def end(file: Writable, error: type[BaseException]) -> None:
    file.write(b"half")
    raise error


def test_a_file_has_its_name_only_when_it_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "out.txt"
    with replacing(target) as file:
        file.write(b"some")
        assert not target.exists()
    assert target.read_bytes() == b"some"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_one_that_is_not_finished_leaves_what_was_there(
    tmp_path: Path, error: type[BaseException]
) -> None:
    target = tmp_path / "out.txt"
    target.write_bytes(b"of yesterday")
    with pytest.raises(error), replacing(target) as file:
        end(file, error)
    assert target.read_bytes() == b"of yesterday"
    assert list(tmp_path.iterdir()) == [target]


def test_a_name_that_says_so_is_gzipped_the_same_way_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    targets = [tmp_path / name for name in ("a.gz", "b.gz")]
    for year, target in enumerate(targets):
        monkeypatch.setattr("time.time", lambda year=year: 1e9 + year * 3e7)
        with replacing(target) as file:
            file.write(b"text" * 100)
    packed = {target.read_bytes() for target in targets}
    assert len(packed) == 1
    assert gzip.decompress(packed.pop()) == b"text" * 100


def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path: Path) -> None:
    target, link = tmp_path / "real.txt", tmp_path / "link.txt"
    target.write_bytes(b"old")
    link.symlink_to(target)
    with replacing(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert target.read_bytes() == b"new"


def test_a_pipe_is_written_to_and_stays_one(tmp_path: Path) -> None:
    pipe, read = tmp_path / "pipe", list[bytes]()
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    with replacing(pipe) as file:
        file.write(b"through")
    reader.join(60)
    assert read == [b"through"]
    assert pipe.is_fifo()


@pytest.mark.parametrize(
    ("name", "why"), [("missing/out", "No such file or directory"), ("", "Is a directory")]
)
def test_where_none_can_be_written_an_error_says_so(tmp_path: Path, name: str, why: str) -> None:
    with pytest.raises(HacsError, match=f"cannot write .*: {why}"), replacing(tmp_path / name):
        pytest.fail("opened")
    assert list(tmp_path.iterdir()) == []


def test_a_database_is_not_replaced(tmp_path: Path) -> None:
    state = tmp_path / "state.db"
    with closing(sqlite3.connect(state)) as database:
        database.execute("create table t (a)")
    before = state.read_bytes()
    with pytest.raises(HacsError, match="it is an SQLite database"), replacing(state):
        pytest.fail("opened")
    assert state.read_bytes() == before
    assert list(tmp_path.iterdir()) == [state]

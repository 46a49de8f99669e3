"""The web of the tutorial: one small web for everybody, whose clock a reader turns."""

from __future__ import annotations

import socket
import sys
import urllib.request
from pathlib import Path

import pytest

from hacs_crawler.demo import clock, tutorial
from hacs_crawler.demo.histories import START
from hacs_crawler.exceptions import HacsError
from hacs_crawler.utils.times import DAY


def get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return bytes(answer.read())


def test_every_page_of_the_list_is_there_and_changes_as_the_clock_is_turned(tmp_path: Path) -> None:
    with tutorial.serve(tmp_path / "web", 0):
        urls = (tmp_path / "web" / tutorial.PAGES_FILE).read_text().split()
        before = [get(url) for url in urls]
        assert tutorial.turn(tmp_path / "web", 30) == "2024-01-31"
        after = [get(url) for url in urls]
    changed = sum(one != other for one, other in zip(before, after, strict=True))
    assert 0 < changed < len(urls)


def test_a_folder_that_is_there_goes_on_where_it_was(tmp_path: Path) -> None:
    with tutorial.serve(tmp_path, 0):
        tutorial.turn(tmp_path, 30)
    with tutorial.serve(tmp_path, 0):
        days = (clock.read(tmp_path / tutorial.CLOCK_FILE) - START) / DAY
    assert 30 <= days < 31


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(HacsError, match=rf"port {port} cannot be used: .*; try --port"):
            tutorial.serve(tmp_path, port)


def test_a_clock_that_is_not_there_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["tutorial", str(tmp_path / "none"), "--later", "30"])
    with pytest.raises(SystemExit) as ended:
        tutorial.main()
    assert str(ended.value).startswith("ERROR: ")
    assert "cannot read the clock" in str(ended.value)

"""Files of versions: which links the updates of pages added."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from hacs_crawler.lab.timelines import Events, Links, TimelineError, read_versions
from hacs_crawler.links import fingerprint

URLS = ["http://a.example/", "http://a.example/b.html"]
DAY_2, DAY_3 = 1_577_923_200, 1_578_009_600
"""2020-01-02 and the day after."""


def events(*of_pages: list[int]) -> Events:
    times = [at for page in of_pages for at in page]
    offsets = np.cumsum([0, *map(len, of_pages)])
    return Events(np.array(times, np.int64), np.ones(len(times), np.int64), offsets)


def version(day: int, *links: str) -> dict[str, object]:
    return {"at": f"2020-01-0{day}T00:00:00Z", "added": list(links), "removed": []}


def page(url: str, *versions: object) -> str:
    return json.dumps({"url": url, "site": "of no use", "versions": versions})


def read(path: Path, *lines: str, updates: Events | None = None) -> Links:
    path.write_text("\n".join(lines))
    return read_versions(path, URLS, updates or events([], []))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "versions.jsonl"


def test_links_are_of_the_update_that_they_came_with_or_after(path: Path) -> None:
    first = page(URLS[0], version(1, "x"), version(2, "x", "y"), version(4, "z"), version(5))
    found = read(path, page(URLS[1], version(3, "y")), first, updates=events([DAY_2, DAY_3], []))
    x, y, z = map(fingerprint, "xyz")
    assert found == [[{x}, {y}, {z}], [{y}]]


def test_pages_that_are_not_asked_for_and_empty_lines_are_passed_over(path: Path) -> None:
    lines = [page("http://other.example/", version(1, "x")), "", *(page(url) for url in URLS)]
    assert read(path, *lines) == [[frozenset()], [frozenset()]]


def test_a_packed_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "versions.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(page(url) for url in URLS).encode()))
    assert len(read_versions(path, URLS, events([], []))) == 2


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        ([page(URLS[0])], "there are no versions of http://a.example/b.html"),
        ([page(URLS[0])] * 2, "line 2: url = 'http://a.example/': a second time"),
        (["{"], "line 1: cannot read"),
        (["[]"], "line 1: there is no text 'url'"),
        ([page(URLS[0], version(2), version(1))], "line 1: its versions are not in the order"),
        ([page(URLS[0], {"at": "2020-01-01"})], "line 1: each of 'versions' has to have"),
        ([page(URLS[0], {"at": "2020-01-01", "added": [7]})], "line 1: each of 'versions'"),
        ([page(URLS[0], 7)], "line 1: each of 'versions' has to have"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(path: Path, lines: list[str], problem: str) -> None:
    with pytest.raises(TimelineError) as caught:
        read(path, *lines)
    assert problem in str(caught.value)


def test_an_update_has_to_have_added_something(path: Path) -> None:
    with pytest.raises(TimelineError, match=r"line 1: url = .*: an update added no link"):
        read(path, page(URLS[0], version(1, "x"), version(2, "x")), updates=events([DAY_2], []))


def test_a_file_that_is_not_there_or_cut_is_named(tmp_path: Path) -> None:
    with pytest.raises(TimelineError, match=r"no\.jsonl, line 0: cannot read: No such file"):
        read_versions(tmp_path / "no.jsonl", URLS, events([], []))
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(gzip.compress(page(URLS[0]).encode())[:-9])
    with pytest.raises(TimelineError, match=r"cut\.jsonl\.gz, line .: cannot read"):
        read_versions(cut, URLS, events([], []))

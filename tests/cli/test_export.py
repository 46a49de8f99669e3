"""`hacs export`, and `hacs import` of what it wrote, of TimeMaps and from standard input."""

import gzip
import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from cli_support import hacs_process as hacs, said
from hacs_crawler.links.keys import page_id_of
from hacs_crawler.state.codec import decode_page, encode_page
from hacs_crawler.state.page import Visit
from hacs_crawler.state.rows import ROW, encode_row
from hacs_crawler.state.store import Change
from hacs_crawler.utils.times import DAY
from state_support import opened

pytestmark = pytest.mark.slow  # `hacs` as a process

ADDRESS = "sqlite:///.hacs/state.db"
URLS = [f"http://example.edu/~a{number}/" for number in range(5)]
TIMEMAP = """<http://example.edu/~ada/>; rel="original",
<http://archive.example/web/20200101000000/http://example.edu/~ada/>; rel="first memento";
 datetime="Wed, 01 Jan 2020 00:00:00 GMT",
<http://archive.example/web/20210101000000/http://example.edu/~ada/>; rel="last memento";
 datetime="Fri, 01 Jan 2021 00:00:00 GMT"
"""


def history() -> list[Visit]:
    return [
        Visit(f"http://example.edu/{page}/", day * DAY, marks=frozenset(range(page % 5 + day // 2)))
        for page in range(3)
        for day in range(1, 6)
    ]


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """A folder with a state of three pages, and one without any."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    theirs.mkdir()
    fill(ours, history())
    return ours, theirs


def contents_of(folder: Path) -> dict[int, tuple[bytes, bytes]]:
    """Every page's bytes, but for its version, and its ranking row; rates to nine digits.

    How they are rounded depends on the pages they are estimated together with.
    What sites remember is not exported, and so not that they know a page's links.
    """
    found: dict[int, tuple[bytes, bytes]] = {}
    with opened(ADDRESS, folder=folder) as state:
        for ids, rows in state.store.all_rows():
            bodies = state.store.load(ids.tolist())
            for key, row in zip(ids.tolist(), rows, strict=True):
                page = replace(decode_page(bodies[key]), is_in_site=False, version=0)
                page.rate, page.share = float(f"{page.rate:.9g}"), float(f"{page.share:.3g}")
                page.fast, page.slow = float(f"{page.fast:.3g}"), float(f"{page.slow:.3g}")
                assert row["rate"] == pytest.approx(page.rate)
                found[key] = encode_page(page), encode_row(page)
    return found


def fill(folder: Path, visits: list[Visit]) -> None:
    with opened(ADDRESS, folder=folder) as state:
        state.record(visits)


def damage(folder: Path, page_id: int) -> None:
    with opened(ADDRESS, folder=folder) as state:
        state.store.write([Change(page_id, 0, b"\x01rubbish", bytes(ROW.itemsize))])


def test_every_page_is_a_line_on_standard_output(tmp_path: Path) -> None:
    fill(tmp_path, history())
    done = hacs(tmp_path, "export")
    assert "3 pages exported" in said(done)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted(line["url"] for line in lines) == [f"http://example.edu/{n}/" for n in range(3)]
    assert {line["last_visit"] for line in lines} == {"1970-01-06T00:00:00Z"}
    assert {line["last_update"] for line in lines} == {"1970-01-05T00:00:00Z"}
    assert {tuple(one["new_marks"] for one in line["visits"]) for line in lines} == {
        (0, 1, 0, 1, 0)
    }


def test_a_file_has_the_same_lines_and_replaces_the_one_before(tmp_path: Path) -> None:
    fill(tmp_path, history())
    lines = hacs(tmp_path, "export").stdout
    for _ in range(2):
        assert said(hacs(tmp_path, "export", "-o", "pages.jsonl.gz"))
    assert gzip.decompress((tmp_path / "pages.jsonl.gz").read_bytes()) == lines.encode()
    assert sorted(path.name for path in tmp_path.iterdir()) == [".hacs", "pages.jsonl.gz"]


def test_importing_an_export_restores_the_state_and_twice_changes_nothing(
    folders: tuple[Path, Path],
) -> None:
    ours, theirs = folders
    said(hacs(ours, "export", "-o", "../pages.jsonl.gz"))
    first = said(hacs(theirs, "import", "../pages.jsonl.gz"))
    assert "pages.jsonl.gz: 3 pages read, 3 new, 0 added to" in first
    assert contents_of(theirs) == contents_of(ours)
    again = said(hacs(theirs, "import", "../pages.jsonl.gz", "../pages.jsonl.gz"))
    assert again.count("3 pages read, 0 new, 0 added to") == 2
    assert contents_of(theirs) == contents_of(ours)


def test_an_import_of_what_is_watched_otherwise_says_so(folders: tuple[Path, Path]) -> None:
    ours, theirs = folders
    said(hacs(ours, "export", "-o", "../pages.jsonl"))
    done = said(hacs(theirs, "import", "../pages.jsonl", "-s", "HACS_WATCH=items"))
    assert "pages, links were watched, but these settings watch items (HACS_WATCH)" in done
    assert "HACS_WATCH" not in said(hacs(theirs, "import", "../pages.jsonl"))


def test_states_are_joined_whichever_comes_first(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in "abc"]
    for folder, part in zip(folders, (slice(0, 9), slice(7, None), slice(0, 0)), strict=True):
        folder.mkdir()
        fill(folder, history()[part])
        said(hacs(folder, "export", "-o", "pages.jsonl"))
    said(hacs(folders[0], "import", "../b/pages.jsonl"))
    said(hacs(folders[1], "import", "../a/pages.jsonl"))
    whole = tmp_path / "whole"
    fill(whole, history())
    assert visits_of(folders[0]) == visits_of(folders[1]) == visits_of(whole)


def visits_of(folder: Path) -> dict[str, object]:
    lines = map(json.loads, hacs(folder, "export").stdout.splitlines())
    return {line["url"]: (line["visits"], line["marks"]) for line in lines}


def test_damaged_pages_are_left_out_so_that_the_others_can_be_imported(
    folders: tuple[Path, Path],
) -> None:
    ours, theirs = folders
    fill(ours, [replace(history()[0], url="2ttp://127.0.0.1/")])
    damage(ours, 5)
    done = hacs(ours, "export")
    assert "the page 2ttp://127.0.0.1/ cannot be exported: it has no valid URL" in done.stderr
    assert "3 pages exported, 2 damaged left out" in said(done, 1)
    (theirs / "x").write_text(done.stdout)
    said(hacs(theirs, "import", "x"))
    assert len(contents_of(theirs)) == 3


def test_of_an_export_with_a_bad_line_the_pages_before_it_are_kept(
    folders: tuple[Path, Path],
) -> None:
    ours, theirs = folders
    lines = hacs(ours, "export").stdout.splitlines(keepends=True)
    (theirs / "x").write_text(lines[0] + lines[1] + lines[2].replace('"visits"', '"visit"'))
    assert "x, line 3: Object missing required field `visits`" in said(
        hacs(theirs, "import", "x"), 1
    )
    assert len(contents_of(theirs)) == 2


def test_a_page_that_is_damaged_in_the_state_is_named(folders: tuple[Path, Path]) -> None:
    ours, theirs = folders
    lines = hacs(ours, "export").stdout
    damage(theirs, page_id_of("http://example.edu/1/"))
    message = said(hacs(theirs, "import", "-", given=lines), 1)
    assert "page http://example.edu/1/ cannot be recorded" in message
    assert "standard input: 3 pages read, 2 new" in message


def test_a_timemap_makes_its_page_known_but_claims_no_visit(tmp_path: Path) -> None:
    (tmp_path / "timemap").write_text(TIMEMAP)
    message = said(hacs(tmp_path, "import", "timemap"))
    assert "timemap: 2 mementos of http://example.edu/~ada/, but no visit recorded" in message
    assert "scrapy crawl wayback -a seeds=state" in message
    (line,) = map(json.loads, hacs(tmp_path, "export").stdout.splitlines())
    assert (line["url"], line["visits"]) == ("http://example.edu/~ada/", [])
    fill(tmp_path, [Visit("http://example.edu/~ada", DAY, marks=frozenset({1}))])
    before = contents_of(tmp_path)
    said(hacs(tmp_path, "import", "timemap"))
    assert contents_of(tmp_path) == before, "it leaves a known page as it is"

"""The `hacs` command, run as a user runs it."""

from __future__ import annotations

import gzip
import subprocess
from pathlib import Path

import pytest

import forks
from hacs_crawler.links.urls import page_id_of
from hacs_crawler.state.address import open_store
from hacs_crawler.state.database import State
from hacs_crawler.state.estimation import Estimation
from hacs_crawler.state.page import Page

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


def hacs(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = forks.run("hacs", arguments, folder)
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


def known(folder: Path) -> Page:
    store = open_store("sqlite:///.hacs/state.db", "hacs", folder)
    page = State(store, Estimation()).load([page_id_of(URL)])[page_id_of(URL)]
    store.close()
    return page


@pytest.mark.parametrize("name", ["captures.cdx", "captures.cdx.gz"])
def test_a_cdx_file_becomes_visits_with_the_captures_own_times(name: str, tmp_path: Path) -> None:
    body = ROWS.encode()
    (tmp_path / name).write_bytes(gzip.compress(body) if name.endswith(".gz") else body)
    done = hacs(tmp_path, "import", name)
    assert done.returncode == 0, done.stderr
    page = known(tmp_path)
    assert len(page.visits) == 4
    assert page.last_update == page.visits[2]
    assert "4 visits recorded, 1 of them with an update" in done.stderr
    assert "1 captures left out: bad_status" in done.stderr


def test_importing_twice_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "captures.cdx").write_text(ROWS)
    hacs(tmp_path, "import", "captures.cdx")
    before = known(tmp_path)
    hacs(tmp_path, "import", "captures.cdx")
    after = known(tmp_path)
    assert (after.visits, after.content_changes) == (before.visits, before.content_changes)


def test_of_a_truncated_file_what_could_be_read_is_kept(tmp_path: Path) -> None:
    pages = (ROWS.replace("ada", f"zed{number}") for number in range(2_000))
    whole = gzip.compress((ROWS + "".join(pages)).encode(), 0)
    (tmp_path / "captures.cdx.gz").write_bytes(whole[: len(whole) // 2])
    done = hacs(tmp_path, "import", "captures.cdx.gz")
    assert done.returncode == 1
    assert "captures.cdx.gz, gzip member at byte 0: truncated" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(known(tmp_path).visits) == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("import", "no-such-file.cdx"), "no-such-file.cdx"),
        (("import", "captures.cdx", "-s", "HACS_STATE=mysql://x"), "HACS_STATE"),
        (("import", "captures.cdx", "-s", "HACS_STATE"), "NAME=VALUE"),
    ],
)
def test_what_is_wrong_is_named(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    (tmp_path / "captures.cdx").write_text(ROWS)
    done = hacs(tmp_path, *arguments)
    assert done.returncode != 0
    assert message in done.stderr
    assert "Traceback" not in done.stderr

"""What the report is drawn with is what others published, and is as small as it is said to be."""

import re
from hashlib import sha256
from pathlib import Path

from hacs_crawler.report import html

FOLDER = Path(html.__file__).parent
VENDOR = FOLDER / "vendor"
ROW = re.compile(r"`[^`]*/([^`/]+)` \| \[\w+\]\(([^)]+)\) \| `(\w{64})`")


def test_files_of_others_are_unchanged_and_have_their_licences() -> None:
    rows = ROW.findall((VENDOR / "README.md").read_text("utf-8"))
    assert {name for name, _, _ in rows} == {path.name for path in VENDOR.glob("*.js")}
    assert {name for name, _, _ in rows} == set(html.SCRIPTS)
    for name, licence, digest in rows:
        assert sha256((VENDOR / name).read_bytes()).hexdigest() == digest
        assert "Permission" in (VENDOR / licence).read_text("utf-8")


def test_the_report_is_at_most_a_thousand_lines_of_ours() -> None:
    ours = [path for path in FOLDER.iterdir() if path.suffix in {".py", ".js", ".css", ".html"}]
    assert sum(len(path.read_text("utf-8").splitlines()) for path in ours) <= 1_000

"""`hacs interest`, as a user runs it."""

from __future__ import annotations

import gzip
import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from hacs_crawler.cli.app import app
from hacs_crawler.crawl.seeds import read_seeds
from hacs_crawler.interest import day_of, day_text

AGENT = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"
FIRST = day_of("2026-08-01")


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["interest", *map(str, arguments)])


@pytest.fixture(autouse=True)
def _logging(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.INFO):
        yield


@pytest.fixture
def views(tmp_path: Path) -> Path:
    """Two sites with a story every four days among other pages, and four without."""
    random = np.random.default_rng(0)
    lines = ["page,date,views"]
    for site in range(6):
        for page in range(12):
            born = 3 + 4 * page
            for day in range(60):
                if site < 2:
                    number = round(500 * 0.4 ** (day - born)) if day >= born else 0
                else:
                    number = int(random.poisson(10))
                if number:
                    name = "news" if site < 2 else "about"
                    lines.append(
                        f"https://s{site}.example/{name}/{page}.html,{day_text(FIRST + day)},{number}"
                    )
    path = tmp_path / "views.csv"
    path.write_text("\n".join(lines))
    return path


def access_log() -> str:
    """Forty people read a story on its day and the next, and a page all the time."""
    lines = []
    for day in range(50):
        date = f"{(day % 28) + 1:02}/{('Aug', 'Sep')[day // 28]}/2026"
        for visitor in range(40):
            shown = ["/about.html"] if visitor < 4 else []
            if day in {20, 21} and visitor < 60 - 20 * (day - 19):
                shown.append("/news/story.html")
            begin = f"192.0.2.{visitor} - - [{date}:12:00:00 +0000]"
            lines += [f'{begin} "GET {path} HTTP/1.1" 200 9 "-" "{AGENT}"' for path in shown]
    return "\n".join(lines) + "\n"


def test_a_log_is_imported_fitted_and_becomes_a_seed_file(tmp_path: Path) -> None:
    log, out, seeds = tmp_path / "access.log.gz", tmp_path / "views.csv.gz", tmp_path / "seeds.txt"
    log.write_bytes(gzip.compress(access_log().encode()))
    assert run("import", log, "-o", out, "--site", "https://news.example").exit_code == 0
    assert gzip.decompress(out.read_bytes()).startswith(b"page,date,views\nhttps://news.example/")
    result = run("fit", out, "--json", tmp_path / "rows.json", "--min-views", 50)
    assert result.exit_code == 0
    rows = {row["page"]: row for row in json.loads((tmp_path / "rows.json").read_text())}
    assert rows["https://news.example/news/story.html"]["class"] == "temporal"
    assert rows["https://news.example/about.html"]["class"] == "steady"
    found = run("seeds", out, "-o", seeds, "--by", "folder", "--min-views", 50)
    assert found.exit_code == 0
    assert list(read_seeds(str(seeds))) == ["https://news.example/news/"]


def test_fit_prints_the_classes_beside_what_needs_no_curve(views: Path) -> None:
    result = run("fit", views)
    assert result.exit_code == 0
    assert "72 pages, 2026-08-01 to 2026-09-29" in result.output
    lines = {
        line.split()[0]: line.split()[1:] for line in result.output.splitlines() if line.strip()
    }
    assert lines["temporal"][0] == "24"
    assert lines["steady"][0] == "48"
    assert float(lines["temporal"][2]) > 0.7 > float(lines["steady"][2])
    assert {"gini", "half-life"} <= set(lines["class"])


@pytest.mark.parametrize("model", ["anchored", "paper"])
def test_the_rows_of_fit_have_the_promised_columns(views: Path, model: str) -> None:
    target = views.with_name("rows.json")
    assert run("fit", views, "--model", model, "--days", 60, "--json", target).exit_code == 0
    rows = json.loads(target.read_text())
    assert len(rows) == 72
    for row in rows:
        assert {"page", "mu", "sigma", "b", "scale", "sse", "phi", "class"} <= set(row)


def test_the_seed_list_is_what_the_spider_scholar_reads(views: Path) -> None:
    result = run("seeds", views)
    assert result.exit_code == 0
    target = views.with_name("seeds.txt")
    target.write_text(result.stdout)
    assert sorted(read_seeds(str(target))) == ["https://s0.example/", "https://s1.example/"]
    assert len(run("seeds", views, "--top", 1).stdout.splitlines()) == 1
    assert len(run("seeds", views, "--burden", 12).stdout.splitlines()) == 1


def test_the_report_is_one_page_that_loads_nothing_and_runs_nothing(views: Path) -> None:
    target = views.with_name("report.html")
    assert run("report", views, "-o", target).exit_code == 0
    page = target.read_text()
    assert "https://s0.example/news/" in page
    assert "<script" not in page
    assert "src=" not in page
    assert "default-src 'none'" in page


def test_names_of_pages_cannot_write_tags_into_the_report(tmp_path: Path) -> None:
    path, target = tmp_path / "views.csv", tmp_path / "report.html"
    days = "\n".join(
        f'"<script>alert(1)</script>\x1b[2J",{day_text(FIRST + k)},9' for k in range(60)
    )
    path.write_text(f"page,date,views\n{days}\n")
    assert run("report", path, "-o", target).exit_code == 0
    assert "<script" not in target.read_text()
    assert "\x1b" not in target.read_text()


def test_what_is_left_out_is_said_with_its_place(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "views.csv"
    path.write_text(
        "page,date,views\n/a,2026-09-01,70\n/a,nonsense,1\n/a,2036-01-01,1\n/a,2026-09-01,5\n"
    )
    result = run("import", path, "-o", tmp_path / "out.csv")
    assert result.exit_code == 0
    assert "no date such as 2026-01-31" in caplog.text
    assert "a date in the future: 1 (first: line 4)" in caplog.text
    assert "1 rows repeat a page and a day" in caplog.text
    assert (tmp_path / "out.csv").read_text() == "page,date,views\n/a,2026-09-01,75\n"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "there is nothing in it"),
        (b"\x00\xff" * 5000, "no header of a table"),
        (b"page,date,views\n", "there are no views in it"),
        (b"page,date,views\n/a,2026-09-01,0\n", "there are no views in it"),
        (b"\x1f\x8b damaged", "damaged"),
    ],
)
@pytest.mark.parametrize("command", ["fit", "seeds", "report"])
def test_a_file_without_views_ends_the_command_with_a_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, content: bytes, words: str, command: str
) -> None:
    path = tmp_path / "views.csv"
    path.write_bytes(content)
    result = run(command, path)
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert words in caplog.text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("fit", "--model", "cubic"), "--model 'cubic': allowed are anchored, paper"),
        (("fit", "--until", "soon"), "--until 'soon'"),
        (("fit", "--until", "2020-01-01"), "no views between"),
        (("fit", "--json", "/no/such/folder/x.json"), "--json"),
        (("seeds", "--by", "planet"), "--by 'planet': allowed are site, folder"),
        (("seeds", "-q", "1"), "there is no site to list: no page is temporal"),
        (("import", "-o", "out.csv", "--timezone", "Mars/Base"), "time zone 'Mars/Base'"),
        (("import", "-o", "out.csv", "--column", "page"), "--column 'page'"),
        (("import", "-o", "out.csv", "--site", "?"), "--site '?'"),
    ],
)
def test_a_wrong_option_is_named(
    views: Path, caplog: pytest.LogCaptureFixture, arguments: tuple[str, ...], words: str
) -> None:
    command, *options = arguments
    result = run(command, views, *options)
    assert result.exit_code == 1
    assert isinstance(result.exception, SystemExit)
    assert words in caplog.text
    assert not Path("out.csv").exists()


def test_tables_need_no_library_of_their_own(
    views: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for library in ("apachelogs", "crawleruseragents"):
        monkeypatch.setitem(sys.modules, library, None)
    out = tmp_path / "out.csv"
    assert run("import", views, "-o", out).exit_code == 0
    assert run("fit", out).exit_code == 0


def test_a_dash_is_standard_output(views: Path) -> None:
    result = run("import", views, "-o", "-")
    assert result.exit_code == 0
    assert result.stdout.startswith("page,date,views\nhttps://s0.example/news/0.html,")
    assert not Path("-").exists()


def test_logs_and_tables_are_joined(tmp_path: Path) -> None:
    log, table, out = tmp_path / "access.log", tmp_path / "t.csv", tmp_path / "out.csv"
    log.write_text(access_log().splitlines()[0] + "\n")
    table.write_text("page,date,views\n/about.html,2026-08-01,5\n/b,2026-08-02,7\n")
    assert run("import", log, table, "-o", out, "--site", "news.example").exit_code == 0
    assert out.read_text().splitlines()[1:] == [
        "https://news.example/about.html,2026-08-01,6",
        "https://news.example/b,2026-08-02,7",
    ]


@pytest.mark.parametrize("command", ["fit", "seeds"])
def test_a_full_disk_behind_standard_output_is_one_line(
    command: str, views: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with Path("/dev/full").open("w") as full, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", full)
        with pytest.raises(SystemExit) as ended:
            app(["interest", command, str(views)])
    assert ended.value.code == 1
    assert "cannot write to standard output: No space left on device" in caplog.text

"""`hacs interest`, as a user runs it."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from cli_support import rows_of
from hacs_crawler.cli.app import app
from hacs_crawler.crawl.seeds import read_seeds
from hacs_crawler.utils.times import DAY, day_text

AGENT = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"
FIRST = 20_666
"""2026-08-01, in days since 1970."""


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["interest", *map(str, arguments)])


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
                    url, at = f"https://s{site}.example/{name}/{page}.html", DAY * (FIRST + day)
                    lines.append(f"{url},{day_text(at)},{number}")
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
    assert run("fit", out, "--csv", tmp_path / "rows.csv", "--min-views", 50).exit_code == 0
    rows = {row["page"]: row for row in rows_of(tmp_path / "rows.csv")}
    assert rows["https://news.example/news/story.html"]["temporal"] == "True"
    assert rows["https://news.example/about.html"]["temporal"] == "False"
    found = run("seeds", out, "-o", seeds, "--by", "folder", "--min-views", 50)
    assert found.exit_code == 0
    assert list(read_seeds(str(seeds))) == ["https://news.example/news/"]


def test_fit_says_how_many_pages_are_temporal_and_warns_of_a_short_window(
    views: Path, caplog: pytest.LogCaptureFixture
) -> None:
    result = run("fit", views)
    assert result.exit_code == 0
    assert "72 pages, 2026-08-01 to 2026-09-29\n" in result.output
    assert "24 temporal, with " in result.output
    assert run("fit", views, "--days", 30).exit_code == 0
    assert "the window has 30 days" in caplog.text


def test_the_seed_list_is_what_the_spider_scholar_reads(views: Path) -> None:
    result = run("seeds", views)
    assert result.exit_code == 0
    target = views.with_name("seeds.txt")
    target.write_text(result.stdout)
    assert sorted(read_seeds(str(target))) == ["https://s0.example/", "https://s1.example/"]
    assert len(run("seeds", views, "--top", 1).stdout.splitlines()) == 1


def test_lines_that_are_left_out_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = tmp_path / "access.log"
    log.write_text("rubbish\n" + access_log())
    assert run("import", log, "-o", tmp_path / "out.csv").exit_code == 0
    assert "access.log: 1 line left out: of another format" in caplog.text


def test_nothing_is_listed_where_no_page_is_temporal(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    days = "\n".join(f"https://a.example/x,{day_text(DAY * (FIRST + day))},9" for day in range(60))
    path = tmp_path / "views.csv"
    path.write_text(f"page,date,views\n{days}\n")
    assert run("seeds", path).exit_code == 1
    assert "there is no site to list: no page is temporal" in caplog.text


def test_several_logs_are_joined_and_a_dash_is_standard_output(tmp_path: Path) -> None:
    lines = access_log().splitlines(keepends=True)
    logs = [tmp_path / "access.log.1", tmp_path / "access.log"]
    for log, part in zip(logs, (lines[:1], lines[1:2]), strict=True):
        log.write_text("".join(part))
    result = run("import", *logs, "-o", "-", "--site", "news.example")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        "page,date,views",
        "https://news.example/about.html,2026-08-01,2",
    ]
    assert not Path("-").exists()

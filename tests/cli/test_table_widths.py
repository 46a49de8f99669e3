"""Tables of measurements at the widths that terminals have, and their rows in files."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console
from typer.testing import CliRunner, Result

from calibration_support import drawn, keep
from hacs_crawler.cli import evaluate
from hacs_crawler.cli.app import app
from hacs_crawler.cli.log import TerminalFormatter
from hacs_crawler.demo.rounds import RoundScore
from hacs_crawler.demo.screen import Screen
from hacs_crawler.evaluation.instant import Found, InstantEvaluation
from hacs_crawler.links import Varying
from hacs_crawler.links.varying import Part
from hacs_crawler.state.address import open_store
from hacs_crawler.state.database import State
from hacs_crawler.state.estimation import Estimation
from hacs_crawler.state.varying import NOTE
from hacs_crawler.utils.columns import Column, lines_of, side_by_side
from made_timelines import write_timelines

WIDTHS = (60, 80, 120, 200)
FILES = ("--pages", "pages.csv", "--updates", "updates.csv", "--captures", "captures.csv")
COMMANDS = {
    "calibrate": ("calibrate", "--dry-run", "-s", "HACS_STATE=sqlite:///s.db"),
    "doctor": ("doctor", "-s", "HACS_STATE=sqlite:///s.db"),
    "a host": ("show", "www.example.org", "-s", "HACS_STATE=sqlite:///s.db"),
    "interest": ("interest", "fit", "views.csv"),
    "evaluate": ("evaluate", *FILES),
    "evaluate singh": ("evaluate", "--paper", "singh", "--synthetic-pages", "300"),
    "evaluate instant": ("evaluate", "--paper", "instant"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("t")
    write_timelines(made)
    store = open_store("sqlite:///s.db", "hacs", made)
    keep(State(store, Estimation()), drawn(3_000, lambda p: p**2))
    varying = Varying("www.example.org", frozenset({Part("", "sid"), Part("/s/", "")}))
    store.write_meta(NOTE, {varying.host: varying.to_json()})
    store.close()
    lines = ["page,date,views"]
    for day in range(1, 31):
        lines += [f"https://s{n}.example/news/a.html,2026-06-{day:02},{20 + n}" for n in range(5)]
        lines.append(f"https://n.example/news/b.html,2026-06-{day:02},{999 * (day in {9, 10})}")
    (made / "views.csv").write_text("\n".join(lines))
    return made


@pytest.fixture(scope="module")
def measured() -> InstantEvaluation:
    found = Found(0.5, 0.25, 1_000.0)
    return InstantEvaluation(
        dict.fromkeys(("paper_fit", "not_shrunk", "sites", "folders", "manual", "known"), found),
        dict.fromkeys(("paper", "curve", "days"), found),
    )


@pytest.fixture
def hacs(
    folder: Path, measured: InstantEvaluation, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Result]:
    monkeypatch.chdir(folder)
    monkeypatch.delenv("SCRAPY_SETTINGS_MODULE", raising=False)
    monkeypatch.setattr(evaluate, "evaluate_instant", lambda *_: measured)

    def run(*arguments: str, width: int | None = None) -> Result:
        environment = {"COLUMNS": None if width is None else str(width)}
        return CliRunner().invoke(app, list(arguments), env=environment)

    return run


def too_long(text: str, width: int) -> list[str]:
    """The lines that are longer and could have been broken: a path is copied whole."""
    return [line for line in text.splitlines() if cell_len(line) > width and " " in line.strip()]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", COMMANDS)
def test_no_line_is_longer_than_the_terminal_is_wide(
    name: str, width: int, hacs: Callable[..., Result]
) -> None:
    found = hacs(*COMMANDS[name], width=width)
    assert found.exit_code == 0, found.output
    assert found.stdout.strip()
    assert too_long(found.stdout, width) == []


@pytest.mark.parametrize("name", COMMANDS)
def test_rows_are_written_as_csv_and_parquet(
    name: str, hacs: Callable[..., Result], folder: Path
) -> None:
    polars = pytest.importorskip("polars")
    csv, parquet = folder / "rows.csv", folder / "rows.parquet"
    found = hacs(*COMMANDS[name], "--csv", str(csv), "--parquet", str(parquet))
    assert found.exit_code == 0, found.output
    frame = polars.read_parquet(parquet)
    head, *rows = csv.read_text().splitlines()
    assert head.split(",") == frame.columns
    assert len(rows) == len(frame)
    assert rows


@pytest.mark.parametrize("name", COMMANDS)
def test_csv_on_standard_output_is_all_there_is_on_it(
    name: str, hacs: Callable[..., Result]
) -> None:
    head, *rows = hacs(*COMMANDS[name], "--csv", "-", width=60).stdout.splitlines()
    assert "," in head
    assert all("," in row for row in rows)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_folder_that_is_not_there_is_named(
    name: str, hacs: Callable[..., Result], caplog: pytest.LogCaptureFixture
) -> None:
    assert hacs(*COMMANDS[name], "--csv", "no/rows.csv").exit_code == 1
    assert "--csv no/rows.csv: allowed is a file in a folder that exists" in caplog.text


def test_a_scores_table_keeps_what_was_predicted_and_found(hacs: Callable[..., Result]) -> None:
    narrow = hacs(*COMMANDS["calibrate"], width=60).stdout
    heads = [line for line in narrow.splitlines() if "predicted" in line and "found" in line]
    assert all("skill" in head for head in heads[:2])
    assert "#####" not in narrow
    assert "--json has all)" in narrow
    assert "#####" in hacs(*COMMANDS["calibrate"], width=120).stdout


def test_an_evaluation_keeps_every_models_f1_and_says_once_what_it_leaves_out(
    hacs: Callable[..., Result],
) -> None:
    narrow = hacs(*COMMANDS["evaluate"], width=60).stdout
    title, groups, head = narrow.split("Homepages, micro-averaged")[1].splitlines()[:3]
    assert title == ""
    assert groups.split() == ["HACS", "Random", "Brute", "Force"]
    assert head.split().count("F1") == 3
    assert narrow.count("not shown at this width") == 1
    assert "not shown" not in hacs(*COMMANDS["evaluate"], width=80).stdout


def test_columns_that_do_not_fit_beside_one_another_are_in_further_tables() -> None:
    names = Column("estimator", ["a", "b"], 1, is_text=True)
    numbers = [Column(f"number {n}", ["1.00", "2.00"], 0) for n in range(7)]
    parts = list(side_by_side(names, numbers, 40))
    assert [len(part) - 1 for part in parts] == [3, 3, 1]
    assert all(part[0] is names for part in parts)
    assert list(side_by_side(names, numbers, None)) == [[names, *numbers]]


def test_a_groups_name_is_above_its_columns_however_few_are_left() -> None:
    columns = [
        Column("w", ["1"], 9),
        Column("P", ["0.123456789"], 1, group="Brute Force"),
        Column("F1", ["0.2"], 5, group="Brute Force"),
    ]
    assert list(lines_of(columns, 60)) == [
        "     Brute Force",
        "w            P   F1",
        "1  0.123456789  0.2",
    ]
    groups, titles, cells, *note = lines_of(columns, 14)
    assert [groups, titles, cells] == ["   Brute Force", "w           F1", "1          0.2"]
    assert "Brute Force P" in " ".join(note)


def written(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", WIDTHS)
def test_the_rounds_of_a_demonstration_fit(width: int) -> None:
    console = Console(file=io.StringIO(), width=width)
    Screen(console).round(RoundScore(1_704_067_200, (195, 200), (153, 99)), 153.0)
    line = written(console).rstrip("\n")
    assert cell_len(line) <= width
    assert line.split()[-1] == "99"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def record(text: str) -> logging.LogRecord:
    return logging.LogRecord("hacs", logging.INFO, "", 0, text, (), None)


def test_log_lines_are_wrapped_where_a_terminal_shows_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setattr(sys, "stderr", Terminal())
    lines = TerminalFormatter("%(message)s").format(record("word " * 30)).splitlines()
    assert len(lines) == 3
    assert max(map(len, lines)) <= 60


def test_log_lines_are_whole_where_they_go_to_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert TerminalFormatter("%(message)s").format(record("word " * 30)).count("\n") == 0


def test_parts_of_a_hosts_links_are_rows(hacs: Callable[..., Result]) -> None:
    rows = hacs(*COMMANDS["a host"], "--csv", "-").stdout.splitlines()
    assert rows == [
        "host,part,is_left_out",
        "www.example.org,?sid=*,True",
        "www.example.org,/s/*,True",
    ]

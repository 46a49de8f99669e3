"""Tables and sentences in terminals, files and pipes; rows as JSON and CSV."""

import csv
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.cells import cell_len
from typer.testing import CliRunner, Result

from calibration_support import drawn, keep
from hacs_crawler.cli.app import app
from hacs_crawler.links import LinkPart, VolatileLinkParts
from hacs_crawler.state import Estimation, State, Visit, open_store
from hacs_crawler.state.volatile_parts import NOTE
from hacs_crawler.utils.terminal import column_table, laid_out
from hacs_crawler.utils.times import DAY
from made_timelines import write_timelines

START = 1_600_000_000
FOLDER = "department-of-comparative-linguistics/" * 3
URLS = [
    *(f"https://www.example.edu/{FOLDER}~author-{n}/publications.html" for n in range(3)),
    "https://www.example.edu/~ひらがな/",
]
STATE = ("-s", "HACS_STATE=sqlite:///s.db", "-s", "HACS_RENDER=never")
FILES = ("--pages", "pages.csv", "--updates", "updates.csv", "--captures", "captures.csv")
COMMANDS = {
    "rank": ("rank", *STATE),
    "a page": ("show", URLS[0], *STATE),
    "a host": ("show", "www.example.org", *STATE),
    "doctor": ("doctor", *STATE),
    "interest": ("interest", "fit", "views.csv"),
    "simulate": ("simulate", "--end", "2024-01-03", "--policy", "last-obs"),
    "evaluate": ("evaluate", *FILES),
    "evaluate singh": ("evaluate", "--paper", "singh", "--synthetic-pages", "300"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("t")
    write_timelines(made)
    store = open_store("sqlite:///s.db", "hacs", made)
    state = State(store, Estimation())
    keep(state, drawn(1_000, lambda p: p**2))
    for url in URLS:
        state.record(
            [
                Visit(url, START + days * DAY, marks=frozenset(range(days)))
                for days in range(1, 90, 9)
            ]
        )
    volatile = VolatileLinkParts(
        "www.example.org", frozenset({LinkPart("", "sid"), LinkPart("/s/", "")})
    )
    store.write_meta({NOTE: {volatile.host: volatile.to_json()}})
    store.close()
    lines = ["page,date,views"]
    for day in range(1, 31):
        lines += [f"https://s{n}.example/news/a.html,2026-06-{day:02},{20 + n}" for n in range(5)]
        lines.append(f"https://n.example/news/b.html,2026-06-{day:02},{999 * (day in {9, 10})}")
    (made / "views.csv").write_text("\n".join(lines))
    return made


@pytest.fixture
def hacs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.chdir(folder)
    monkeypatch.setattr(os, "cpu_count", lambda: 1)

    def run(*arguments: str, width: int | None = None) -> Result:
        environment = {"COLUMNS": None if width is None else str(width)}
        return CliRunner().invoke(app, list(arguments), env=environment)

    return run


@pytest.mark.parametrize("name", COMMANDS)
def test_lines_are_as_wide_as_the_terminal_and_whole_in_a_pipe(
    name: str, hacs: Callable[..., Result]
) -> None:
    narrow, piped = hacs(*COMMANDS[name], width=80), hacs(*COMMANDS[name])
    assert (narrow.exit_code, piped.exit_code) == (0, 0), narrow.output
    # a URL, alone or at the end of a row, is left whole to be copied
    lines = [line for line in narrow.stdout.splitlines() if " " in line.strip()]
    without_urls = [re.sub(r"https?://\S+$", "", line) for line in lines]
    assert [line for line in without_urls if cell_len(line) > 80] == []
    assert len(lines) >= len(piped.stdout.split("\n\n"))
    assert "…" not in narrow.stdout + piped.stdout


@pytest.mark.parametrize("name", ["rank", "interest", "simulate", "evaluate", "evaluate singh"])
def test_rows_are_written_as_csv_which_is_all_there_is_on_standard_output(
    name: str, hacs: Callable[..., Result]
) -> None:
    found = hacs(*COMMANDS[name], "--csv", "-", width=60)
    assert found.exit_code == 0, found.output
    head, *rows = csv.reader(found.stdout.splitlines())
    assert len(set(head)) == len(head) > 1
    assert rows
    assert {len(row) for row in rows} == {len(head)}


@pytest.mark.parametrize("name", ["rank", "a page", "a host"])
def test_json_is_all_there_is_on_standard_output(name: str, hacs: Callable[..., Result]) -> None:
    printed = hacs(*COMMANDS[name], "--json").stdout
    if name.startswith("rank"):
        printed = printed.splitlines()[0]
    assert json.loads(printed)


def test_urls_are_whole_in_a_pipe_and_in_a_terminal(hacs: Callable[..., Result]) -> None:
    for shown in (hacs(*COMMANDS["rank"]), hacs(*COMMANDS["rank"], width=80)):
        assert all(url in shown.stdout.split() for url in URLS)


def test_a_column_keeps_its_place_whatever_script_its_cells_are_in() -> None:
    table = column_table({"name": ["ひらがな", "abc"], "n": [1, 2]}, texts=("name",))
    assert {cell_len(line) for line in laid_out(table).splitlines()} == {11}


def test_a_fact_is_broken_into_lines_behind_what_it_is_about() -> None:
    facts = column_table({"": ["rate"], " ": ["word " * 20]}, texts=("", " "), has_head=False)
    first, *rest = laid_out(facts, width=40).splitlines()
    assert first.startswith("rate  word")
    assert rest
    assert all(line.startswith(" " * 6 + "word") for line in rest)


def test_no_cell_and_no_sentence_writes_to_the_terminal() -> None:
    evil = "a\x1b[31m\x07\u202e[bold]b"
    table = column_table({"URL": [evil]}, page="URL")
    for width in (60, 100_000):
        shown = laid_out(
            table, column_table({"": ["x"], " ": [evil]}, has_head=False), f"{evil} c", width=width
        )
        assert shown.replace("\n", "").isprintable()
        assert "[bold]" in shown.replace("\n", "")

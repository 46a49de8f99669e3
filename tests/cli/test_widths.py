"""Tables and sentences at the widths that terminals have, and where lines go to a file."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
from rich.cells import cell_len
from typer.testing import CliRunner, Result

from hacs_crawler.cli.app import app
from hacs_crawler.state.address import open_store
from hacs_crawler.state.database import State
from hacs_crawler.state.estimation import Estimation
from hacs_crawler.state.page import Visit
from hacs_crawler.utils.columns import Column, fitting, lines_of, shortened, wrapped
from hacs_crawler.utils.times import DAY

NOW = 20_000 * DAY
WIDTHS = (60, 80, 120, 200)
FOLDER = "department-of-comparative-linguistics/" * 3
URLS = [
    *(f"https://www.example.edu/{FOLDER}~author-{n}/publications.html" for n in range(6)),
    "https://www.example.edu/~ひらがな/",
]


def clock() -> float:
    return NOW


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "test_widths_clock", sys.modules[__name__])
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    store = open_store(f"sqlite:///{tmp_path}/state.db", "hacs", tmp_path)
    State(store, Estimation()).record(
        [
            Visit(url, NOW - days * DAY, links=frozenset(range(400 - days * (place + 1) // 4)))
            for place, url in enumerate(URLS)
            for days in range(300, 0, -10)
        ]
    )
    store.close()
    return tmp_path


def hacs(folder: Path, *arguments: str, width: int | None = None) -> Result:
    given = (f"HACS_STATE=sqlite:///{folder}/state.db", "HACS_CLOCK=test_widths_clock.clock")
    options = [part for one in given for part in ("-s", one)]
    environment = {} if width is None else {"COLUMNS": str(width)}
    return CliRunner().invoke(app, [*arguments, *options], env=environment)


ARMS = ("hacs", "last-obs", "random", "freshness", "staleness")
EXPERIMENT = f"HACS_EXPERIMENT={json.dumps(dict.fromkeys(ARMS, 0.2))}"
COMMANDS = {
    "rank": ("rank",),
    "rank with arms": ("rank", "-s", EXPERIMENT),
    "show": ("show", URLS[0], "--from", "2024-01-01"),
    "experiment": ("experiment", "status", "-s", EXPERIMENT),
}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=COMMANDS)
def test_no_line_is_longer_than_the_terminal_is_wide(
    arguments: tuple[str, ...], width: int, folder: Path
) -> None:
    found = hacs(folder, *arguments, width=width)
    assert found.exit_code == 0, found.output
    lines = found.stdout.splitlines()
    assert len(lines) > len(URLS)
    # the URL that is shown is what one copies
    assert [line for line in lines if cell_len(line) > width and line != URLS[0]] == []


@pytest.mark.parametrize("width", WIDTHS)
def test_a_simulations_table_fits(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    found = CliRunner().invoke(
        app,
        ["simulate", "--end", "2024-01-03", "--policy", "hacs,last-obs"],
        env={"COLUMNS": str(width)},
    )
    assert found.exit_code == 0, found.output
    lines = found.stdout.splitlines()
    assert lines[0].startswith("| policy")
    assert max(map(len, lines)) <= width
    assert ("not shown at this width" in found.stdout) == (width < 200)


def test_columns_go_in_the_order_of_their_weight(folder: Path) -> None:
    titles = {
        width: hacs(folder, "rank", width=width).stdout.splitlines()[0] for width in (60, 80, 200)
    }
    assert titles[60].split("  ")[-1] == titles[80].split("  ")[-1] == "URL"
    assert "update every" in titles[60]
    assert "last visit" not in titles[60]
    assert "last visit" in titles[80]
    assert "last update" not in titles[80]
    assert "updates  failed  URL" in titles[200]


def test_what_is_left_out_is_named_with_where_it_is(folder: Path) -> None:
    said = " ".join(hacs(folder, "rank", width=60).stdout.split("(not shown")[1].split())
    assert (
        said
        == "at this width: last visit; last update; visits; updates; failed. --json and --csv have all)"
    )


def test_urls_are_shortened_in_the_middle_so_that_both_ends_tell_them_apart(folder: Path) -> None:
    lines = hacs(folder, "rank", width=120).stdout.splitlines()[1:]
    shown = {line.split()[-1] for line in lines if line.endswith(".html")}
    assert len(shown) == 6
    assert all(url.startswith("www.example") and "…" in url for url in shown)


def test_nothing_is_left_out_or_shortened_where_lines_go_to_a_file(folder: Path) -> None:
    printed = hacs(folder, "rank").stdout
    assert "…" not in printed
    assert all(url in printed for url in URLS)
    assert "failed" in printed.splitlines()[0]


def test_many_arms_are_shown_in_several_tables(folder: Path) -> None:
    narrow = hacs(folder, "experiment", "status", "-s", EXPERIMENT, width=60).stdout
    heads = [line for line in narrow.splitlines() if line.startswith("| arm ")]
    assert len(heads) > 1
    shown = [arm for head in heads for arm in head.split("|")[2:-1]]
    assert [arm.strip() for arm in shown] == list(ARMS)


def test_csv_has_every_column_at_any_width(folder: Path) -> None:
    head, *rows = hacs(folder, "rank", "--csv", "-", width=60).stdout.splitlines()
    assert head.split(",")[:3] == ["rank", "url", "p"]
    assert len(rows) == len(URLS)
    assert all(URLS[0] not in row or row.count(",") == head.count(",") for row in rows)


@pytest.mark.parametrize(
    "arguments",
    [("rank",), ("show", URLS[0]), ("experiment", "status", "-s", EXPERIMENT)],
    ids=["rank", "show", "experiment"],
)
def test_rows_are_written_as_csv_and_parquet(arguments: tuple[str, ...], folder: Path) -> None:
    polars = pytest.importorskip("polars")
    csv, parquet = folder / "rows.csv", folder / "rows.parquet"
    found = hacs(folder, *arguments, "--csv", str(csv), "--parquet", str(parquet))
    assert (found.exit_code, found.stdout) == (0, "")
    frame = polars.read_parquet(parquet)
    assert csv.read_text().splitlines()[0].split(",") == frame.columns
    assert len(csv.read_text().splitlines()) == len(frame) + 1 > 1


def test_a_folder_that_is_not_there_is_named(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert hacs(folder, "rank", "--csv", "no/rows.csv").exit_code == 1
    assert "--csv no/rows.csv: allowed is a file in a folder that exists" in caplog.text


def test_a_column_keeps_its_place_whatever_script_its_cells_are_in() -> None:
    columns = [Column("name", ["ひらがな", "abc"], 1, is_text=True), Column("n", ["1", "2"], 1)]
    assert {cell_len(line) for line in lines_of(columns, 60)} == {11}


def test_the_last_column_is_never_left_out() -> None:
    only = [Column("a", ["x" * 90], 1), Column("b", ["y" * 90], 2)]
    kept, dropped = fitting(only, 40)
    assert ([one.title for one in kept], dropped) == (["b"], ["a"])


@pytest.mark.parametrize("width", [5, 8, 9])
@pytest.mark.parametrize("text", ["https://example.edu/", "ひらがなカタカナ", "short"])
def test_a_shortened_text_has_at_most_the_width(text: str, width: int) -> None:
    assert cell_len(shortened(text, width)) <= width


def test_a_sentence_is_wrapped_behind_what_it_is_about() -> None:
    first, *rest = wrapped("  rate     " + "word " * 20, 40, " " * 11)
    assert first.startswith("  rate     word")
    assert all(line.startswith(" " * 11 + "word") for line in rest)


def test_no_colour_is_shown_where_none_is_wanted(folder: Path) -> None:
    arguments = ["doctor", "-s", f"HACS_STATE=sqlite:///{folder}/state.db"]
    for environment in ({"NO_COLOR": "1"}, {"NO_COLOR": "1", "FORCE_COLOR": "1"}):
        assert "\x1b" not in CliRunner().invoke(app, arguments, env=environment, color=True).output
    assert "\x1b" in CliRunner().invoke(app, arguments, color=True).output

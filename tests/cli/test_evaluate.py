"""`hacs evaluate` as a user runs it: tables and CSV."""

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from cli_support import hacs_process, record, rows_of
from hacs_crawler.cli.app import app
from hacs_crawler.lab.evaluation.histories import from_timelines
from hacs_crawler.lab.evaluation.paper import (
    Evaluation,
    all_rows,
    choose_period,
    evaluate,
    table_parts,
)
from hacs_crawler.lab.timelines import read_timelines
from hacs_crawler.state.page import Visit
from hacs_crawler.utils.terminal import laid_out
from made_timelines import write_timelines

STATE = ("-s", "HACS_STATE=sqlite:///state.db")
FILES = ("--pages", "pages.csv", "--updates", "updates.csv", "--captures", "captures.csv")


def evaluation(folder: Path) -> Evaluation:
    files = (folder / f"{name}.csv" for name in ("pages", "updates", "captures"))
    levels = from_timelines(read_timelines(*files))
    return evaluate(levels, choose_period(levels, None, None)[0])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("timelines")
    write_timelines(made)
    return made


@pytest.fixture(scope="module")
def result(folder: Path) -> Evaluation:
    return evaluation(folder)


@pytest.mark.slow
def test_a_run_from_files_end_to_end(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "rows.csv"
    done = hacs_process(folder, "evaluate", *FILES, "--csv", str(out))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Conclusion, homepages, from 91 weeks: ")
    assert "Homepages, micro-averaged" in done.stdout
    assert "Websites, macro-averaged" in done.stdout
    for level in ("homepage", "website"):
        rows = [row for row in rows_of(out) if row["level"] == level]
        assert len(rows) == 3 * 12 * 3 + 12 * 3
        rows = [row for row in rows if row["window_weeks"] == "12"]
        f1 = {row["model"]: float(row["f1"]) for row in rows if row["average"] == "micro"}
        assert f1["HACS"] > f1["Random"]
        order = {
            row["model"]: float(row["weighted_precision"]) for row in rows if not row["average"]
        }
        assert order["HACS"] > order["Random"]
    assert not list(tmp_path.rglob("*.part"))


@pytest.mark.slow
def test_a_run_from_a_state(folder: Path, result: Evaluation, tmp_path: Path) -> None:
    record(tmp_path, visits(folder))
    done = hacs_process(tmp_path, "evaluate", *STATE, "--csv", "all.csv")
    assert done.returncode == 0, done.stderr
    found = [row for row in rows_of(tmp_path / "all.csv") if row["average"] == "micro"]
    known = [row for row in all_rows(result) if row["average"] == "micro"]
    # the same captures lead to the same rates, whatever counts as the truth afterwards
    assert [row["level"] for row in found] == [row["level"] for row in known]
    assert all(float(row["f1"]) > 0 for row in found if row["model"] == "HACS")


def visits(folder: Path) -> list[Visit]:
    timelines = read_timelines(*(folder / f"{n}.csv" for n in ("pages", "updates", "captures")))
    return [
        Visit(url, at, marks=frozenset(range(1 + int(np.sum(timelines.updates.of(place) <= at)))))
        for place, url in enumerate(timelines.urls)
        for at in timelines.captures.of(place).tolist()
    ]


@pytest.mark.parametrize("updates_a_year", [0.0, 2000.0], ids=["never", "always"])
def test_a_truth_of_one_class_leaves_no_number_undefined_without_a_word(
    updates_a_year: float, tmp_path: Path
) -> None:
    write_timelines(tmp_path, updates_a_year=updates_a_year, sites=2)
    found = evaluation(tmp_path)
    text = laid_out(*table_parts(found))
    assert "nan" not in text.lower()
    assert "- is undefined" in text
    rows = list(all_rows(found))
    json.dumps(rows, allow_nan=False)
    if not updates_a_year:
        assert (rows[0]["model"], rows[0]["theta"], rows[0]["f1"]) == ("HACS", None, None)
        assert rows[-1]["weighted_precision"] is None


def test_a_range_before_the_first_capture_of_a_level_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_timelines(tmp_path)
    captures = (tmp_path / "captures.csv").read_text().splitlines(keepends=True)
    late = [row for row in captures if "p.html" in row or "2021-1" in row]
    (tmp_path / "captures.csv").write_text("".join(captures[:1] + late))
    assert CliRunner().invoke(app, ["evaluate", *FILES, "--until", "2021-03-01"]).exit_code == 1
    assert "no captures between 20" in caplog.text


def test_weeks_of_which_the_truth_is_not_known_are_left_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(folder)
    weeks = ("--since", "2021-12-01", "--until", "2023-01-01")
    assert CliRunner().invoke(app, ["evaluate", *FILES, *weeks]).exit_code == 0
    assert "until is moved to 2021-12-2" in caplog.text


def test_the_columns_of_table_1_are_documented_in_their_order(result: Evaluation) -> None:
    text = (Path(__file__).parents[2] / "docs" / "evaluation.md").read_text()
    body = text.split("\n### Columns of Table I\n", 1)[1].split("\n#", 1)[0]
    assert re.findall(r"^\| `(\w+)` \|", body, re.MULTILINE) == list(next(all_rows(result)))


# With `--paper singh`


def singh(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return hacs_process(folder, "evaluate", "--paper", "singh", *arguments)


@pytest.fixture(scope="module")
def updated_often(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("timelines")
    write_timelines(made, updates_a_year=60.0)
    return made


def values(rows: list[dict[str, str]], table: str, row: str) -> dict[str, float]:
    """Return the numbers of a row of a table by their columns."""
    return {
        one["column"]: float(one["value"])
        for one in rows
        if (one["table"], one["row"]) == (table, row)
    }


@pytest.mark.slow
def test_without_files_pages_are_made_up(tmp_path: Path) -> None:
    done = singh(tmp_path, "--synthetic-pages", "500", "--csv", "out.csv")
    assert done.returncode == 0, done.stderr
    found = rows_of(tmp_path / "out.csv")
    assert {row["table"] for row in found} == {"table1", "table2", "table3", "table4", "figure1"}
    assert values(found, "table1", "pages") == {"": 500.0}
    names = {"observed", "premature", "precision", "visits"}
    assert set(values(found, "table4", "weibull")) == names
    assert "Table 1: the data (synthetic)" in done.stdout
    assert "Figure 1" in done.stdout


@pytest.mark.slow
def test_timelines_are_accessed_daily_or_as_captures_show(
    updated_often: Path, tmp_path: Path
) -> None:
    files = (
        "--pages",
        str(updated_often / "pages.csv"),
        "--updates",
        str(updated_often / "updates.csv"),
    )
    daily = singh(tmp_path, *files, "--csv", "daily.csv")
    seen = singh(
        tmp_path, *files, "--captures", str(updated_often / "captures.csv"), "--csv", "seen.csv"
    )
    assert daily.returncode == seen.returncode == 0, daily.stderr + seen.stderr
    assert "an access a day" in daily.stdout
    means = [
        values(rows_of(tmp_path / f"{name}.csv"), "table1", "updates_mean")[""]
        for name in ("daily", "seen")
    ]
    assert means[0] > means[1]  # updates between two captures are one

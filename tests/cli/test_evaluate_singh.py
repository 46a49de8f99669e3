"""`hacs evaluate --paper singh` as a user runs it."""

import subprocess
from pathlib import Path

import pytest

from cli_support import hacs_process, rows_of
from made_timelines import write_timelines

pytestmark = pytest.mark.slow  # `hacs` as a process


def singh(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return hacs_process(folder, "evaluate", "--paper", "singh", *arguments)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
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


def test_without_files_pages_are_made_up(tmp_path: Path) -> None:
    done = singh(tmp_path, "--synthetic-pages", "500", "--csv", "out.csv")
    assert done.returncode == 0, done.stderr
    found = rows_of(tmp_path / "out.csv")
    assert {row["table"] for row in found} == {"table1", "table2", "table3", "table4", "figure1"}
    assert values(found, "table1", "pages") == {"": 500.0}
    assert set(values(found, "table4", "weibull")) == {
        "observed",
        "premature",
        "precision",
        "visits",
    }
    assert "Table 1: the data (synthetic)" in done.stdout
    assert "Figure 1" in done.stdout


def test_timelines_are_accessed_daily_or_as_captures_show(folder: Path, tmp_path: Path) -> None:
    files = ("--pages", str(folder / "pages.csv"), "--updates", str(folder / "updates.csv"))
    daily = singh(tmp_path, *files, "--csv", "daily.csv")
    seen = singh(tmp_path, *files, "--captures", str(folder / "captures.csv"), "--csv", "seen.csv")
    assert daily.returncode == seen.returncode == 0, daily.stderr + seen.stderr
    assert "an access a day" in daily.stdout
    means = [
        values(rows_of(tmp_path / f"{name}.csv"), "table1", "updates_mean")[""]
        for name in ("daily", "seen")
    ]
    assert means[0] > means[1]  # updates between two captures are one

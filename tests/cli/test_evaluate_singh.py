"""`hacs evaluate --paper singh` as a user runs it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import forks
from made_timelines import write_timelines

pytestmark = pytest.mark.slow  # `hacs` as a process


def singh(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    done = forks.run("hacs", ["evaluate", "--paper", "singh", *arguments], folder)
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("timelines")
    write_timelines(made, updates_a_year=60.0)
    return made


def test_without_files_pages_are_made_up(tmp_path: Path) -> None:
    done = singh(tmp_path, "--synthetic-pages", "500", "--json", "out.json")
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "out.json").read_text())
    assert {"table1", "table2", "table3", "table4", "figure1"} < set(found)
    assert found["table1"]["pages"] == 500
    assert set(found["table4"]["weibull"]) == {"observed", "premature", "precision", "visits"}
    assert "Table 1: the data (synthetic)" in done.stdout
    assert "Figure 1" in done.stdout


def test_timelines_are_accessed_daily_or_as_captures_show(folder: Path, tmp_path: Path) -> None:
    files = ("--pages", str(folder / "pages.csv"), "--updates", str(folder / "updates.csv"))
    daily = singh(tmp_path, *files, "--json", "daily.json")
    seen = singh(
        tmp_path, *files, "--captures", str(folder / "captures.csv"), "--json", "seen.json"
    )
    assert daily.returncode == seen.returncode == 0, daily.stderr + seen.stderr
    assert "an access a day" in daily.stdout
    means = [
        json.loads((tmp_path / f"{name}.json").read_text())["table1"]["updates_mean"]
        for name in ("daily", "seen")
    ]
    assert means[0] > means[1]  # updates between two captures are one


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--since", "2020-01-01"), "are not for this paper"),
        (("-s", "HACS_STATE=sqlite:///x.db"), "are not for this paper"),
        (("--pages", "pages.csv"), "--pages and --updates go together"),
        (
            ("--pages", "pages.csv", "--updates", "updates.csv", "--synthetic-pages", "1"),
            "--synthetic-pages is about made-up pages",
        ),
        (("--json", "missing/../pages.csv/x.json"), "must be a file in an existing folder"),
    ],
)
def test_what_does_not_fit_is_named(folder: Path, arguments: tuple[str, ...], said: str) -> None:
    if "--json" in arguments:
        arguments += ("--synthetic-pages", "5")
    done = singh(folder, *arguments)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr

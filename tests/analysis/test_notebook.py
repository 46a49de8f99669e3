"""The notebook in docs/, run cell by cell, and what docs/python.md says of tables."""

import ast
import re
from pathlib import Path
from typing import Any

import nbformat
import pytest

import hacs_crawler as hacs
from calibration_support import drawn, keep
from hacs_crawler.state.page import Visit
from hacs_crawler.utils.times import DAY
from state_support import opened

DOCS = Path(__file__).parents[2] / "docs"
ADDRESS = "sqlite:///.hacs/state.db"


@pytest.fixture(autouse=True)
def _a_project_that_has_crawled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SCRAPY_SETTINGS_MODULE", raising=False)
    (tmp_path / ".hacs").mkdir()
    visits = [
        Visit(f"http://example.edu/~{name}/", day * DAY, marks=frozenset(range(day // every)))
        for name, every in (("ada", 2), ("bea", 9), ("cat", 30))
        for day in range(19_000, 19_100)
    ]
    with opened(ADDRESS, folder=tmp_path) as state:
        state.record(visits)
        keep(state, drawn(50, lambda p: p))


def run(code: str, names: dict[str, Any]) -> Any:
    """Run a cell; return what its last expression is."""
    *before, last = ast.parse(code).body
    exec(compile(ast.Module(before, []), "cell", "exec"), names)
    if isinstance(last, ast.Expr):
        return eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    exec(compile(ast.Module([last], []), "cell", "exec"), names)
    return None


def test_the_notebook_runs_in_a_project_that_has_crawled() -> None:
    notebook = nbformat.read(DOCS / "python.ipynb", as_version=4)
    nbformat.validate(notebook)
    names: dict[str, Any] = {}
    shown = [run(one.source, names) for one in notebook.cells if one.cell_type == "code"]
    assert shown[0].startswith("3 pages, hacs-crawler ")
    assert set(shown[-1]) == {"hacs", "last-obs"}
    assert all(one is not None for one in shown[:-2])
    assert all(not one.get("outputs") for one in notebook.cells)


@pytest.mark.parametrize("heading", ["Pages", "Visits", "Outcomes", "The plan"])
def test_the_columns_of_tables_are_documented_in_their_order(heading: str) -> None:
    section = (DOCS / "python.md").read_text().split(f"\n## {heading}\n")[1].split("\n## ")[0]
    documented = [
        name
        for line in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", line)
    ]
    with hacs.open(ADDRESS) as state:
        made = {
            "Pages": state.pages,
            "Visits": state.visits,
            "Outcomes": state.outcomes,
            "The plan": state.plan,
        }[heading]()
    assert documented == list(made.columns)


def test_what_is_public_is_documented() -> None:
    section = (DOCS / "python.md").read_text().split("\n## What is public\n")[1]
    named = {
        name
        for line in re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", line)
    }
    assert named == set(hacs.__all__)

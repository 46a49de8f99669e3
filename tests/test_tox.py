"""`tox -e min` runs with the oldest of everything that pyproject.toml allows."""

import re
import tomllib
from configparser import ConfigParser
from itertools import chain
from pathlib import Path

import yaml
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[1]
NOT_RUN_THERE = {"mypy", "ruff"}


def lower_bounds() -> dict[str, Version]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    required = map(Requirement, chain(project["dependencies"], *extras))
    return {
        one.name: Version(bound.version)
        for one in required
        for bound in one.specifier
        if one.name not in NOT_RUN_THERE
    }


def test_ci_runs_environments_that_exist_on_each_python_that_the_project_names() -> None:
    tox = ConfigParser()
    tox.read(ROOT / "tox.ini")
    ci = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    jobs = ci["jobs"]["tox"]["strategy"]["matrix"]["include"]
    named = {name for job in jobs for name in job["env"].split(",")} - {"py"}
    assert {f"testenv:{name}" for name in named} <= set(tox.sections())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pythons = {name.rpartition(" ")[2] for name in project["classifiers"] if ":: 3." in name}
    assert {job["python"] for job in jobs} == pythons


def test_the_oldest_versions_of_tox_are_the_lower_bounds_of_the_project() -> None:
    tox = ConfigParser()
    tox.read(ROOT / "tox.ini")
    pins = [Requirement(line) for line in tox["testenv:min"]["deps"].split("\n") if line]
    pinned = {one.name: Version(str(one.specifier).removeprefix("==")) for one in pins}
    assert lower_bounds().items() <= pinned.items()
    assert pinned.keys() - lower_bounds().keys() == {"click", "pyparsing"}


def test_tox_names_only_tests_that_exist() -> None:
    tox = (ROOT / "tox.ini").read_text()
    assert [
        path for path in re.findall(r"\btests/[\w./]+", tox) if not (ROOT / path).exists()
    ] == []

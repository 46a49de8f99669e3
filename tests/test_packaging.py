"""What is published: what is imported is declared, and what is said of it is true."""

import ast
import importlib.metadata
import re
import runpy
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from configparser import ConfigParser
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.licenses import canonicalize_license_expression
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import hacs_crawler
from hacs_crawler.report.html import SCRIPTS

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
DISTRIBUTIONS = {
    "pydispatch": "pydispatcher",
    "playwright": "scrapy-playwright",  # which is no use without it
    "prometheus_client": "prometheus-client",
    "scrapy_redis": "scrapy-redis",
}
"""Names of packages on PyPI that are not those of their modules."""
LICENSES = list((ROOT / "LICENSES").iterdir())
PACKAGES = ("hacs_crawler", "middlewares", "spiders")
SOURCES = {*PACKAGES, "LICENSE", "LICENSES", "pyproject.toml", "setup.py"}
"""What a wheel is built of."""
DOCUMENTS = ("README.md", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "MANIFEST.in")
BESIDE = {*DOCUMENTS, "docs", "examples", "seeds"}
"""What a source distribution has for its readers."""


def setup_script() -> dict[str, Any]:
    """The names that setup.py defines; it builds nothing when it is not run."""
    return runpy.run_path(str(ROOT / "setup.py"))


def requirements(texts: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(text).name) for text in texts}


NEEDED = requirements(PROJECT["dependencies"])
EXTRAS = {
    name: requirements(texts)
    for name, texts in PROJECT["optional-dependencies"].items()
    if name != "test"
}


def imported(*, at_start: bool) -> dict[str, str]:
    """Top-level modules that the sources import, each with one file that does.

    With `at_start` only what a module cannot be imported without.
    """
    found: dict[str, str] = {}
    for folder in PACKAGES:
        for path in sorted((ROOT / folder).rglob("*.py")):
            tree = ast.parse(path.read_text())
            for node in tree.body if at_start else ast.walk(tree):
                names = []
                if isinstance(node, ast.Import):
                    names = [alias.name for alias in node.names]
                elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                    names = [node.module]
                found.update((name.split(".")[0], str(path)) for name in names)
    others = found.keys() - sys.stdlib_module_names - {"hacs_crawler"}
    return {DISTRIBUTIONS.get(name, name): found[name] for name in others}


def test_all_that_is_imported_is_a_dependency_or_an_extra() -> None:
    declared = NEEDED.union(*EXTRAS.values())
    assert {
        name: path
        for name, path in imported(at_start=False).items()
        if canonicalize_name(name) not in declared
    } == {}


def test_every_dependency_is_imported_or_named_in_the_sources() -> None:
    assert {canonicalize_name(name) for name in imported(at_start=False)} >= NEEDED


def test_crawls_need_no_extra_and_tests_have_a_line_of_their_own() -> None:
    (crawls,), (tests,) = (
        re.findall("^[^#\n].*", (ROOT / name).read_text(), re.M)
        for name in ("requirements.txt", "requirements-test.txt")
    )
    assert crawls == "-e ."
    extras = tests.removeprefix("-e .[").removesuffix("]").split(",")
    assert set(extras) <= PROJECT["optional-dependencies"].keys()
    assert "test" in extras


def test_the_version_is_one_wherever_it_is_said() -> None:
    version = PROJECT["version"]
    assert hacs_crawler.__version__ == importlib.metadata.version("hacs-crawler") == version
    assert re.findall(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.M) == [version]
    assert f"## {version}" in (ROOT / "CHANGELOG.md").read_text() or version == "0.1.0"


def test_the_licence_names_those_of_what_comes_along() -> None:
    expression = canonicalize_license_expression(PROJECT["license"])
    assert expression == "BSD-3-Clause AND ISC AND MIT AND MPL-2.0"
    head = (ROOT / "hacs_crawler" / "links" / "trackers.txt").read_text()[:1_000]
    assert "Mozilla Public License, v. 2.0" in head
    text = (ROOT / "LICENSES" / "MPL-2.0.txt").read_text()
    assert text.startswith("Mozilla Public License Version 2.0")
    assert "Exhibit A - Source Code Form License Notice" in text


@pytest.mark.slow
def test_what_is_built_passes_the_check_of_the_index(distributions: tuple[Path, Path]) -> None:
    check = [sys.executable, "-m", "twine", "check", "--strict", *map(str, distributions)]
    checked = subprocess.run(check, check=True, capture_output=True, text=True).stdout
    assert checked.count("PASSED") == 2


@pytest.mark.slow
def test_the_wheel_has_the_package_with_all_files_that_it_reads_and_nothing_else(
    wheel: Path,
) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    inside = {name.split("/licenses/")[1] for name in names if "/licenses/" in name}
    assert inside == {"LICENSE", *(f"LICENSES/{path.name}" for path in LICENSES)}
    data = {
        f"hacs_crawler/lab/simulation/made-up/{name}.csv"
        for name in ("pages", "updates", "captures")
    }
    data |= {f"hacs_crawler/report/vendor/{name}" for name in SCRIPTS}
    assert data <= names
    modules = ("__main__.py", "py.typed", "spiders/scholar.py", "middlewares/link_additions.py")
    assert {f"hacs_crawler/{name}" for name in modules} <= names
    assert {name.split("/")[0].split("-")[0] for name in names} == {"hacs_crawler"}


@pytest.mark.slow
def test_the_source_has_documents_examples_and_seeds_and_no_test(
    distributions: tuple[Path, Path],
) -> None:
    with tarfile.open(distributions[0]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True)
    named = tracked.stdout.decode().split("\n")
    wanted = [name for name in named if name.split("/")[0] in {*SOURCES, *BESIDE}]
    assert set(wanted) <= names
    made = {"", "PKG-INFO", "setup.cfg", "hacs_crawler.egg-info"}
    assert {name.split("/")[0] for name in names} - made == {*SOURCES, *BESIDE}


def test_the_index_shows_the_readme_with_links_that_lead_somewhere() -> None:
    """Without a repository's address none leads into the repository."""
    readme = setup_script()["readme"]
    targets = re.compile(r"\]\(([^)#]+)[^)]*\)")
    assert all(target.startswith("https://") for target in targets.findall(readme("")))
    files = re.compile(rf"https://code.example/us/hacs/(?:blob|raw)/v{PROJECT['version']}/(.*)")
    own = [
        link[1]
        for target in targets.findall(readme("https://code.example/us/hacs"))
        if (link := files.fullmatch(target))
    ]
    assert len(own) > 10
    assert all((ROOT / name).exists() for name in own)


def test_what_the_index_says_leads_to_no_placeholder() -> None:
    script = setup_script()
    named = script["project_urls"](script["REPOSITORY"])
    assert named["Paper"].endswith("10.1109/BigData50022.2020.9377796")
    assert "OWNER" not in "".join(named.values())


# `tox -e min` runs with the oldest of everything that pyproject.toml allows


def lower_bounds() -> dict[str, Version]:
    extras = PROJECT["optional-dependencies"].values()
    required = map(Requirement, chain(PROJECT["dependencies"], *extras))
    return {
        one.name: Version(bound.version)
        for one in required
        for bound in one.specifier
        if one.name not in {"mypy", "ruff"}
    }


def test_ci_runs_environments_that_exist_on_each_python_that_the_project_names() -> None:
    tox = ConfigParser()
    tox.read(ROOT / "tox.ini")
    ci = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())
    jobs = ci["jobs"]["tox"]["strategy"]["matrix"]["include"]
    named = {name for job in jobs for name in job["env"].split(",")} - {"py"}
    assert {f"testenv:{name}" for name in named} <= set(tox.sections())
    pythons = {name.rpartition(" ")[2] for name in PROJECT["classifiers"] if ":: 3." in name}
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

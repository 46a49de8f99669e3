"""Imports run down the house only, and through a folder's face where it has one."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from itertools import chain
from pathlib import Path

import pytest

from architecture import (
    FLOORS,
    PACKAGE,
    PICTURE,
    PUBLIC,
    ROOT,
    SOURCES,
    Import,
    all_imports,
    arrows,
    drawing,
    imports_of,
    room,
)

BEHIND_AN_EXTRA = {
    f"hacs_crawler.state.{name}" for name in ("redis", "redis_buckets", "redis_connection")
}
"""A face cannot import these: redis-py need not be installed."""


def floor(name: str) -> int:
    return next(number for number, rooms in enumerate(FLOORS) if name in rooms)


def faces() -> set[str]:
    """Folders whose `__init__` gives names: outsiders import those from there."""
    return {
        room(module)
        for module, path in SOURCES.items()
        if path.name == "__init__.py" and "import" in path.read_text()
    }


def faults(found: Iterator[Import]) -> list[str]:
    """What is wrong with imports, in words."""
    wrong = []
    for one in found:
        here, there = room(one.importer), room(one.imported)
        if here == there or here in PUBLIC or not here:
            continue
        if there in PUBLIC or floor(here) >= floor(there):
            wrong.append(f"{one.importer}:{one.line} imports {one.imported}, which is not below it")
        elif there in faces() and one.imported not in {f"{PACKAGE}.{there}", *BEHIND_AN_EXTRA}:
            wrong.append(f"{one.importer}:{one.line} reaches past the face of {there}")
    return wrong


def test_every_room_has_its_floor() -> None:
    rooms = {room(module) for module in SOURCES} - {""} - PUBLIC
    assert rooms == set(chain(*FLOORS))


def test_no_import_runs_up_or_past_a_face() -> None:
    assert faults(all_imports()) == []


def test_nothing_that_a_crawl_imports_imports_the_lab() -> None:
    users = {room(one.importer) for one in all_imports() if room(one.imported) == "lab"}
    assert users - {"lab"} == {"cli", "analysis"}


@pytest.mark.parametrize("is_within", [False, True])
def test_neither_folders_nor_files_of_one_import_each_other_in_a_circle(is_within: bool) -> None:
    graph: dict[str, set[str]] = {}
    for one in all_imports():
        here, there = room(one.importer), room(one.imported)
        if is_within and here == there and SOURCES[one.importer].name != "__init__.py":
            graph.setdefault(one.importer, set()).add(one.imported)
        elif not is_within and here != there and here:
            graph.setdefault(here, set()).add(there)
    TopologicalSorter(graph).prepare()  # raises CycleError


def test_nothing_is_imported_by_its_own_folders_face() -> None:
    """A module that imports the face of its own folder imports whatever imports it."""
    wrong = [
        one
        for one in all_imports()
        if one.imported == f"{PACKAGE}.{room(one.importer)}" and one.importer != one.imported
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("hacs_crawler.state.page", "from hacs_crawler.config import Config"),
        ("hacs_crawler.state.page", "import hacs_crawler.crawl.crawl"),
        ("hacs_crawler.state.page", "from ..crawl import crawl"),
        ("hacs_crawler.state.page", "def late():\n    from ..ranking.plan import make_plan"),
        ("hacs_crawler.crawl.crawl", "from hacs_crawler.state.page import Page"),
        ("hacs_crawler.crawl.crawl", "from ..state.page import Page"),
        ("hacs_crawler.crawl.crawl", "from hacs_crawler.settings import BOT_NAME"),
        ("hacs_crawler.model.grid", "from hacs_crawler.statistics import scoring"),
    ],
)
def test_a_wrong_import_is_found(module: str, text: str) -> None:
    assert len(faults(imports_of(module, text))) == 1


def test_the_picture_of_the_house_is_up_to_date() -> None:
    """If not: `python docs/architecture.py` draws it anew."""
    assert PICTURE.read_text() == drawing(arrows(all_imports()))


def test_no_two_classes_bear_one_name() -> None:
    places: dict[str, list[str]] = {}
    for module, path in SOURCES.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(module)
    assert {name: modules for name, modules in places.items() if len(modules) > 1} == {}


def kernel() -> dict[str, Path]:
    """The modules of the kernel: those of `crawl`, and what adapts them to Scrapy."""
    adapters = {f"{PACKAGE}.middlewares.{name}" for name in ("downloads", "link_additions")}
    return {
        module: path
        for module, path in SOURCES.items()
        if room(module) == "crawl" or module in adapters
    }


def identifiers(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        for field in ("id", "attr", "name", "arg"):
            if isinstance(name := getattr(node, field, None), str):
                yield name


def test_the_kernel_names_no_part() -> None:
    """Not even by a name like a part's, but for words that mean other things, too."""
    of_others = {"signals", "pauses"}  # those of Scrapy; `start()` and writes pause as well
    parts = {path.stem for path in (ROOT / PACKAGE / "parts").glob("[a-z]*")} - of_others
    stems = {name.removesuffix("s").removesuffix("e") for name in parts}
    found = {
        f"{module} names {name}"
        for module, path in kernel().items()
        for name in identifiers(path)
        if any(stem in name.lower() for stem in stems)
    }
    assert found == set()
    assert [
        one for one in all_imports() if one.importer in kernel() and room(one.imported) == "parts"
    ] == []


def test_nobody_writes_to_a_crawl_but_itself() -> None:
    found = []
    for module, path in SOURCES.items():
        for node in ast.walk(ast.parse(path.read_text())):
            targets = (
                node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            )
            for target in targets:
                holder = getattr(target, "value", None)
                name = getattr(holder, "attr", None) or getattr(holder, "id", None)
                if isinstance(target, ast.Attribute) and name in {"crawl", "_crawl"}:
                    found.append(f"{module}:{node.lineno}")
    assert found == []

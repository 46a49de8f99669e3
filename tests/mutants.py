"""Mutation testing: change the code a little, and see whether the fast tests of its folder notice.

`python tests/mutants.py` tries the kernel, the parts and the mathematics, or the files of the package
that it is given. `--each N` tries at most N mutants of each file, drawn with `--seed`. It prints every
mutant that survives or loops, and ends with status 1 if fewer than `--least` per cent do not survive.

A mutant is one change of a module's syntax tree, compiled when a process of its own imports the module:
no file is written.
"""

import argparse
import ast
import copy
import importlib.abc
import importlib.machinery
import importlib.util
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Final

ROOT: Final = Path(__file__).parents[1]
FILES: Final = (
    *("crawl/scheduler.py", "crawl/ranker.py", "state/merging.py", "state/spells.py"),
    *("state/judging.py", "ranking/choice.py", "ranking/finalists.py"),
    *("parts", "experiment", "model"),
)
PAIRS: Final[tuple[tuple[type[ast.AST], type[ast.AST]], ...]] = (
    *((ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot)),
    *((ast.In, ast.NotIn), (ast.Add, ast.Sub), (ast.Mult, ast.Div), (ast.BitAnd, ast.BitOr)),
)
OTHER: Final = {**dict(PAIRS), **{other: one for one, other in PAIRS}}
"""What an operator becomes in a mutant."""
LOOPS: Final = 6.0
"""A mutant loops if its tests take this many times as long as without it, and `SECONDS` more."""
SECONDS: Final = 60.0


def changes(node: ast.AST) -> Iterator[Callable[[ast.AST], ast.AST]]:
    """Yield the functions that make a mutant of a node, each of a copy of it."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in OTHER:
            yield lambda it: _set(it, "ops", [OTHER[type(op)]()])
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in OTHER:
            yield lambda it: _set(it, "op", OTHER[type(op)]())
        case ast.BoolOp(op=op, values=values):
            yield lambda it: _set(it, "op", ast.Or() if isinstance(op, ast.And) else ast.And())
            for left in range(len(values)):
                yield lambda it, left=left: _without(it, left)
        case ast.UnaryOp(op=ast.Not()):
            yield lambda it: it.operand
        case ast.If() | ast.IfExp() | ast.While():
            yield lambda it: _set(it, "test", ast.UnaryOp(ast.Not(), it.test))
        case ast.Expr(value=ast.Call()):
            yield lambda _: ast.Pass()
        case ast.Constant(value=bool() as value):
            yield lambda it: _set(it, "value", not value)
        case ast.Constant(value=int() | float() as value):
            yield lambda it: _set(it, "value", value + 1)


def _set(node: ast.AST, field: str, value: object) -> ast.AST:
    setattr(node, field, value)
    return node


def _without(it: ast.BoolOp, left: int) -> ast.AST:
    """Leave one operand out; Python takes no operator with a single one."""
    rest = [*it.values[:left], *it.values[left + 1 :]]
    return _set(it, "values", rest) if len(rest) > 1 else rest[0]


def _nodes(tree: ast.AST) -> Iterator[tuple[ast.AST, str, int | None]]:
    """Yield the children whose change a test could notice, with parent field and index."""
    for field, value in ast.iter_fields(tree):
        if field in {"annotation", "returns", "decorator_list", "exc", "type_params"}:
            continue
        for index, child in enumerate(value) if isinstance(value, list) else ((None, value),):
            if isinstance(child, ast.AST) and "logger" not in ast.dump(child)[:80]:
                yield child, field, index


def mutants(
    tree: ast.AST,
) -> Iterator[tuple[ast.AST, str, int | None, Callable[[ast.AST], ast.AST], ast.AST]]:
    """Yield parent, field, index and change of every mutant, and the node that it changes."""
    for child, field, index in _nodes(tree):
        for change in changes(child):
            yield tree, field, index, change, child
        yield from mutants(child)


def mutated(source: str, number: int) -> tuple[ast.Module, str]:
    """Return a module's tree with its mutant of that number, and what the mutant is."""
    tree = ast.parse(source)
    parent, field, index, change, child = list(mutants(tree))[number]
    before = ast.unparse(child)
    changed = change(copy.deepcopy(child))
    if isinstance(index, int):
        getattr(parent, field)[index] = ast.copy_location(changed, child)
    else:
        setattr(parent, field, ast.copy_location(changed, child))
    after = ast.unparse(ast.fix_missing_locations(tree) and changed)
    head = (before.splitlines()[0], after.splitlines()[0])
    return tree, f"{child.lineno}: {head[0]}  ->  {head[1]}"


class MutantLoader(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module with a mutant in it."""

    def __init__(self, path: Path, number: int) -> None:
        self.path, self.number = path, number
        self.name = ".".join(path.relative_to(ROOT).with_suffix("").parts)

    def find_spec(self, name: str, *_: object) -> importlib.machinery.ModuleSpec | None:
        if name != self.name:
            return None
        return importlib.util.spec_from_file_location(name, self.path, loader=self)

    def exec_module(self, module: ModuleType) -> None:
        tree, _ = mutated(self.path.read_text(), self.number)
        exec(compile(tree, str(self.path), "exec"), module.__dict__)


def tests(path: Path) -> list[str]:
    """Return pytest's arguments for the fast tests of a module's folder."""
    folder = ROOT / "tests" / path.relative_to(ROOT / "hacs_crawler").parts[0]
    options = ["-q", "-x", "-p", "no:xdist", "-p", "no:cacheprovider", "-m", "not slow"]
    return [*options, "-o", "addopts=--import-mode=importlib", str(folder)]


def verdict(path: Path, number: int, seconds: float | None = None) -> str:
    """Say what became of a mutant (-1: none) in the fast tests: killed, survived, or looped."""
    command = [sys.executable, __file__, "--run", str(path), str(number)]
    try:
        done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return "looped"
    return "killed" if done.returncode else "survived"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("files", nargs="*", default=FILES, metavar="FILE")
    parser.add_argument("--each", type=int, default=20, help="mutants of each file")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--least", type=float, default=85.0, help="per cent that have to be killed")
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    asked_for = [ROOT / "hacs_crawler" / name for name in asked.files]
    paths = [
        one
        for path in asked_for
        for one in (sorted(path.rglob("*.py")) if path.is_dir() else [path])
    ]
    total: Counter[str] = Counter()
    for path in paths:
        numbers = range(sum(1 for _ in mutants(ast.parse(path.read_text()))))
        if not numbers:
            continue
        began = time.monotonic()
        with ThreadPoolExecutor(asked.jobs) as pool:  # as many at once as later
            if "killed" in pool.map(lambda _, path=path: verdict(path, -1), range(asked.jobs)):
                sys.exit(f"{path.relative_to(ROOT)}: its tests fail without a mutant")
        seconds = LOOPS * (time.monotonic() - began) + SECONDS
        drawn = random.Random(asked.seed).sample(numbers, min(asked.each, len(numbers)))
        with ThreadPoolExecutor(asked.jobs) as pool:
            verdicts = list(
                pool.map(lambda one, path=path, limit=seconds: verdict(path, one, limit), drawn)
            )
        total.update(verdicts)
        print(f"{path.relative_to(ROOT)}: {dict(Counter(verdicts))}", flush=True)
        for number, found in zip(drawn, verdicts, strict=True):
            if found != "killed":
                print(f"  {found}, line {mutated(path.read_text(), number)[1]}", flush=True)
    share = 100 * (1 - total["survived"] / total.total())
    print(f"{dict(total)}: {share:.1f} % do not survive")
    return int(share < asked.least)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        import pytest

        module, mutant = Path(sys.argv[2]), int(sys.argv[3])
        sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
        if mutant >= 0:
            sys.meta_path.insert(0, MutantLoader(module, mutant))
        sys.exit(pytest.main(tests(module)))
    sys.exit(main())

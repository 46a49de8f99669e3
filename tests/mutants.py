"""Mutation testing: change the code a little, and see whether the fast tests of its folder notice.

`python tests/mutants.py` tries the kernel, the parts and the mathematics, or the files of the package
that it is given. `--each N` tries at most N mutants of each file, drawn with `--seed`. It prints every
mutant that survives or loops, and ends with status 1 if fewer than `--least` per cent do not survive.
The tests named after the module run first, so most mutants are killed without the rest of the folder.

A mutant is one change of a module's syntax tree, compiled when a process of its own imports the module:
no file is written.
"""

import argparse
import ast
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType
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
    (ast.And, ast.Or),
)
OTHER: Final = {**dict(PAIRS), **{other: one for one, other in PAIRS}}
"""What an operator becomes in a mutant."""
SMALL: Final = 10
"""Smaller numbers are one greater in a mutant, others are doubled."""
UNTESTED: Final = {"annotation", "returns", "decorator_list", "exc", "type_params"}
OPTIONS: Final = {"strict", "daemon", "stacklevel", "frozen"}
"""Fields of the syntax tree, and arguments, whose changes no test has to notice."""
LOOPS: Final = 6.0
"""A mutant loops if its tests take this many times as long as without it, and `SECONDS` more."""
SECONDS: Final = 60.0


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what a node may be in a mutant."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in OTHER:
            yield _with(node, ops=[OTHER[type(op)]()])
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in OTHER:
            yield _with(node, op=OTHER[type(op)]())
        case ast.BoolOp(op=op, values=values):
            yield _with(node, op=OTHER[type(op)]())
            for left in range(len(values)):
                rest = [*values[:left], *values[left + 1 :]]
                yield _with(node, values=rest) if len(rest) > 1 else rest[0]
        case ast.UnaryOp(op=ast.Not()):
            yield node.operand
        case ast.If() | ast.IfExp() | ast.While():
            yield _with(node, test=ast.UnaryOp(ast.Not(), node.test))
        case ast.Expr(value=ast.Call()):
            yield ast.Pass()
        case ast.Constant(value=bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(value=int() | float() as value):
            yield ast.Constant(value + 1 if abs(value) < SMALL else 2 * value)


def _with(node: ast.AST, **fields: object) -> ast.AST:
    return type(node)(**{**dict(ast.iter_fields(node)), **fields})


def mutants(tree: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Yield the nodes whose change a test could notice, each with what it becomes."""
    for field, value in ast.iter_fields(tree):
        if field in UNTESTED:
            continue
        for node in value if isinstance(value, list) else [value]:
            if isinstance(node, ast.AST) and not _is_untested(node):
                for changed in changes(node):
                    yield node, ast.copy_location(changed, node)
                yield from mutants(node)


def _is_untested(node: ast.AST) -> bool:
    match node:
        case ast.keyword(arg=name):
            return name in OPTIONS
        case ast.If(test=ast.Name(id=name)):
            return name == "TYPE_CHECKING"
    return "logger" in ast.dump(node)[:80]


def mutated(path: Path, number: int) -> tuple[CodeType, str]:
    """Return a module's code with its mutant of that number, and what the mutant is."""
    tree = ast.parse(path.read_text())
    node, changed = list(mutants(tree))[number]
    before, after = (ast.unparse(one).splitlines()[0] for one in (node, changed))

    class Mutation(ast.NodeTransformer):
        def visit(self, at: ast.AST) -> ast.AST:
            return changed if at is node else self.generic_visit(at)

    code = compile(ast.fix_missing_locations(Mutation().visit(tree)), str(path), "exec")
    return code, f"{node.lineno}: {before}  ->  {after}"


def verdict(path: Path, number: int, seconds: float | None = None) -> str:
    """Say what became of a mutant (-1: none) in the fast tests: killed, survived, or looped."""
    command = [sys.executable, __file__, "--run", str(path), str(number)]
    try:
        done = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return "looped"
    return "killed" if done.returncode else "survived"


def run(path: Path, number: int) -> int:
    """Run the fast tests of a module's folder in this process, with a mutant of the module."""
    import pytest

    get_code = SourceFileLoader.get_code

    def get_mutated(loader: SourceFileLoader, name: str) -> CodeType | None:
        is_module = number >= 0 and Path(loader.path) == path
        return mutated(path, number)[0] if is_module else get_code(loader, name)

    class NamedFirst:
        @staticmethod
        def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
            items.sort(key=lambda item: not item.path.stem.startswith(f"test_{path.stem}"))

    SourceFileLoader.get_code = get_mutated
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    folder = ROOT / "tests" / path.relative_to(ROOT / "hacs_crawler").parts[0]
    options = ["-q", "-x", "-p", "no:xdist", "-p", "no:cacheprovider", "-m", "not slow"]
    return pytest.main(
        [*options, "-o", "addopts=--import-mode=importlib", str(folder)], plugins=[NamedFirst]
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("files", nargs="*", default=FILES, metavar="FILE")
    parser.add_argument("--each", type=int, default=20, help="mutants of each file")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--least", type=float, default=85.0, help="per cent that have to be killed")
    parser.add_argument("--jobs", type=int, default=2)
    asked = parser.parse_args()
    total: Counter[str] = Counter()
    for named in (ROOT / "hacs_crawler" / name for name in asked.files):
        for path in sorted(named.rglob("*.py")) if named.is_dir() else [named]:
            total += tried(path, asked)
    share = 100 * (1 - total["survived"] / total.total())
    print(f"{dict(total)}: {share:.1f} % do not survive")
    return int(share < asked.least)


def tried(path: Path, asked: argparse.Namespace) -> Counter[str]:
    """Try mutants of a file, print those that were not killed, and count what became of all."""
    numbers = range(sum(1 for _ in mutants(ast.parse(path.read_text()))))
    drawn = random.Random(asked.seed).sample(numbers, min(asked.each, len(numbers)))
    with ThreadPoolExecutor(asked.jobs) as pool:
        began = time.monotonic()
        # as many at once as later
        if drawn and "killed" in pool.map(verdict, [path] * asked.jobs, [-1] * asked.jobs):
            sys.exit(f"{path.relative_to(ROOT)}: its tests fail without a mutant")
        seconds = LOOPS * (time.monotonic() - began) + SECONDS
        verdicts = list(pool.map(lambda number: verdict(path, number, seconds), drawn))
    print(f"{path.relative_to(ROOT)}: {dict(Counter(verdicts))}", flush=True)
    for number, found in zip(drawn, verdicts, strict=True):
        if found != "killed":
            print(f"  {found}, line {mutated(path, number)[1]}", flush=True)
    return Counter(verdicts)


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[2]), int(sys.argv[3])) if sys.argv[1:2] == ["--run"] else main())

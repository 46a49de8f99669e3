"""The figures that README.md, this folder's page and the documents quote, each from a result.

python benchmarks/figures.py            # write them
python benchmarks/figures.py --check    # name those that differ from the results, exit with 1

A figure is named `{script: row | column}`: of the first table in results/SCRIPT.md that has both. A row
is named by the beginning of its cells, joined by ", ". `page.md` becomes README.md of this folder: where
a line is `{script}` or `{script 2}`, that table of the result stands. `quotes.toml` holds sentences of
other files, with such names in the place of their figures.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent
RESULTS = HERE / "results"
NAME = re.compile(r"\{(\w+): ([^|{}]+?) \| ([^{}]+?)\}")
TABLE = re.compile(r"^\{(\w+)(?: (\d+))?\}$", re.MULTILINE)
FIGURE = r"(-?\d(?:[\d,.]*\d)?)"
BOLD = re.compile(r"\*\*|`")

Table = list[list[str]]


def lines_of_tables(script: str) -> Iterator[list[str]]:
    """Yield the lines of each table of a result."""
    table: list[str] = []
    for line in [*(RESULTS / f"{script}.md").read_text().splitlines(), ""]:
        if line.startswith("|"):
            table.append(line)
        elif table:
            yield table
            table = []


def table_of(lines: list[str]) -> Table:
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [cells[0], *cells[2:]]


def figure(script: str, row: str, column: str) -> str:
    """Return the number in a cell, without its unit. Raises LookupError where there is no such cell."""
    for lines in lines_of_tables(script):
        head, *rows = table_of(lines)
        for cells in rows:
            is_named = BOLD.sub("", ", ".join(cells)).startswith(f"{BOLD.sub('', row)}, ")
            if is_named and column in head:
                found = re.search(FIGURE, cells[head.index(column)])
                if found:
                    return found[1]
    msg = f"results/{script}.md has no number in row {row!r}, column {column!r}"
    raise LookupError(msg)


def page() -> str:
    """Return README.md of this folder as it has to be."""

    def table(match: re.Match[str]) -> str:
        tables, number = list(lines_of_tables(match[1])), int(match[2] or 1)
        if number > len(tables):
            msg = f"results/{match[1]}.md has no table {number}"
            raise LookupError(msg)
        return "\n".join(tables[number - 1])

    text = TABLE.sub(table, (HERE / "page.md").read_text())
    return NAME.sub(lambda match: figure(*match.groups()), text)


def quoted(path: Path, sentences: list[str]) -> str:
    """Return the file with these sentences' figures as the results have them.

    Raises LookupError where it does not have such a sentence.
    """
    text = path.read_text()
    for sentence in sentences:
        names = NAME.findall(sentence)
        words = [re.escape(part) for part in NAME.sub("\0", sentence).split("\0")]
        pattern = re.sub(r"(\\ )+", r"\\s+", FIGURE.join(words))
        found = re.search(pattern, text)
        if not found:
            msg = f"{path.relative_to(ROOT)} does not say: {sentence}"
            raise LookupError(msg)
        for place, name in reversed(list(enumerate(names, start=1))):
            start, end = found.span(place)
            text = text[:start] + figure(*name) + text[end:]
    return text


def files() -> Iterator[tuple[Path, str]]:
    """Yield each file that quotes figures, and how it has to read."""
    yield HERE / "README.md", page()
    for name, sentences in tomllib.loads((HERE / "quotes.toml").read_text()).items():
        yield ROOT / name, quoted(ROOT / name, sentences)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true")
    is_check = parser.parse_args().check
    differing = [(path, text) for path, text in files() if path.read_text() != text]
    for path, text in differing:
        print(path.relative_to(ROOT), file=sys.stderr)
        if not is_check:
            path.write_text(text)
    sys.exit(bool(differing and is_check))


if __name__ == "__main__":
    main()

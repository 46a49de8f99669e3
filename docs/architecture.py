"""Draws docs/architecture.svg, the rooms of the house and who imports whom, from the sources.

Run `python docs/architecture.py` after a room has come, gone or moved, or imports another one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "architecture.svg"
PACKAGE = "hacs_crawler"
STOREYS = {
    "what is started": (
        ("cli",),
        ("analysis",),
        ("doctor",),
        ("spiders", "addon", "pipelines"),
        ("demo",),
    ),
    "a crawl": (("middlewares",), ("harvest",), ("parts",), ("crawl",)),
    "looking back": (("report", "experiment"), ("lab",), ("shards",)),
    "what users meet": (("config",), ("outcome", "items", "signals")),
    "who is visited": (("ranking",),),
    "what is known": (("archive",), ("state",)),
    "mathematics": (("model", "statistics"),),
    "tools": (("watch",), ("links",), ("utils",), ("exceptions",)),
}
"""Floors from top to bottom, under the names they have in the picture."""
FLOORS = tuple(floor for floors in STOREYS.values() for floor in floors)
"""Each the rooms that do not import each other; all of them import lower floors only."""
PUBLIC = {"settings", "__main__"}
"""`hacs_crawler.settings` and the command; no module imports them."""

LEFT, TOP = 142, 12
STEP = 31
BOX_WIDTH, BOX_HEIGHT = 100, 23
ENTRY = 13
"""How far from a box's right edge arrows come in: less than STEP, so that they miss the box above."""


class Import(NamedTuple):
    """A module that imports another, and in which line."""

    importer: str
    imported: str
    line: int


def module_name(path: Path) -> str:
    """Return the dotted name of a source; middlewares/ and spiders/ lie at the top for their users."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    if parts[0] != PACKAGE:
        parts = (PACKAGE, *parts)
    return ".".join(parts).removesuffix(".__init__")


SOURCES = {
    module_name(path): path
    for folder in (PACKAGE, "middlewares", "spiders")
    for path in sorted((ROOT / folder).rglob("*.py"))
}


def imports_of(module: str, text: str, *, is_package: bool = False) -> Iterator[Import]:
    """Yield what a module imports of the package, by absolute or relative names."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = module.split(".")[: len(module.split(".")) - node.level + is_package]
                base = ".".join([*above, *filter(None, [node.module])])
            found = [
                name if (name := f"{base}.{alias.name}") in SOURCES else base
                for alias in node.names
            ]
        else:
            continue
        for name in found:
            if name == PACKAGE or name.startswith(f"{PACKAGE}."):
                yield Import(module, name, node.lineno)


def all_imports() -> Iterator[Import]:
    """Yield every import of the package by the package."""
    for module, path in SOURCES.items():
        yield from imports_of(module, path.read_text(), is_package=path.name == "__init__.py")


def room(module: str) -> str:
    """Name the folder, or the single module, right below the package."""
    return [*module.split("."), ""][1]


def arrows(imports: Iterable[Import]) -> set[tuple[str, str]]:
    """Return which room imports which other one; old paths of what has moved are left out."""
    found = {(room(one.importer), room(one.imported)) for one in imports}
    return {
        (upper, lower) for upper, lower in found if upper != lower and upper not in {"", *PUBLIC}
    }


def drawing(found: Iterable[tuple[str, str]]) -> str:
    """Draw SVG: rooms go down to the right, and so do the arrows; one up would stand out."""
    place = {name: number for number, name in enumerate(chain(*FLOORS))}
    width = LEFT + (len(place) - 1) * STEP + BOX_WIDTH + TOP
    height = 2 * TOP + len(place) * STEP
    ordered = sorted((place[upper], place[lower]) for upper, lower in found)
    parts = [
        HEAD.format(width=width, height=height),
        *_bands(place, width),
        *(_line(*ends) for ends in ordered),
        *(_dot(*ends) for ends in ordered),
        *(_box(name, number) for name, number in place.items()),
        "</svg>\n",
    ]
    return "\n".join(parts)


def _bands(place: dict[str, int], width: int) -> Iterator[str]:
    for number, (storey, floors) in enumerate(STOREYS.items()):
        rooms = list(chain(*floors))
        top, tall = TOP + place[rooms[0]] * STEP, len(rooms) * STEP
        shade = "even" if number % 2 else "odd"
        yield (
            f'<rect class="{shade}" x="4" y="{top}" width="{width - 8}" height="{tall}"/>'
            f'<text class="storey" x="14" y="{top + tall / 2 + 4:g}">{storey}</text>'
        )


def _box(name: str, number: int) -> str:
    x, y = LEFT + number * STEP, TOP + number * STEP + (STEP - BOX_HEIGHT) / 2
    return (
        f'<rect class="box" x="{x}" y="{y:g}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="4"/>'
        f'<text class="name" x="{x + BOX_WIDTH / 2:g}" y="{y + 16:g}">{name}</text>'
    )


def _corner(upper: int, lower: int) -> tuple[int, float]:
    """Where the line of an import turns down."""
    return LEFT + lower * STEP + BOX_WIDTH - ENTRY, TOP + upper * STEP + STEP / 2


def _line(upper: int, lower: int) -> str:
    x, y = _corner(upper, lower)
    start = LEFT + upper * STEP + BOX_WIDTH
    return f'<path class="line" d="M{start} {y:g}H{x}V{TOP + lower * STEP}"/>'


def _dot(upper: int, lower: int) -> str:
    x, y = _corner(upper, lower)
    end = TOP + lower * STEP + (STEP - BOX_HEIGHT) / 2
    return (
        f'<circle class="dot" cx="{x}" cy="{y:g}" r="3.5"/>'
        f'<path class="dot" d="M{x - 3.5:g} {end - 6:g}h7l-3.5 6z"/>'
    )


HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" \
aria-labelledby="t d" font-family="system-ui, 'Segoe UI', Helvetica, Arial, sans-serif">
<title id="t">The rooms of hacs-crawler and who imports whom</title>
<desc id="d">Folders from top left to bottom right. A line leaves the importing folder to the right, \
turns at a dot, and goes down to the imported one. No line goes up.</desc>
<style>
.odd {{ fill: #ffffff; }} .even {{ fill: #f3f5f8; }}
.box {{ fill: #ddeeff; stroke: #0a5cb8; }}
.name {{ fill: #1f2328; font-size: 14px; text-anchor: middle; }}
.storey {{ fill: #424a53; font-size: 14px; font-style: italic; }}
.line {{ fill: none; stroke: #8c959f; }} .dot {{ fill: #424a53; }}
@media (prefers-color-scheme: dark) {{
.odd {{ fill: #0d1117; }} .even {{ fill: #1c222b; }}
.box {{ fill: #10294a; stroke: #6cb1ff; }}
.name {{ fill: #f0f6fc; }} .storey {{ fill: #c3cad3; }}
.line {{ stroke: #656d76; }} .dot {{ fill: #c3cad3; }}
}}
</style>"""

if __name__ == "__main__":
    PICTURE.write_text(drawing(arrows(all_imports())))

"""Packages whose names are imported on first use."""

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def face(package: str, init: str) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package, given its name and the file of its `__init__`.

    The names are the imports in the `if TYPE_CHECKING` block of `__init__`. Importing a name then loads
    one module, not the whole package: a crawl needs little of `state`.
    """
    places: dict[str, str] = {}

    def get(name: str) -> Any:
        if not places:
            for node in ast.walk(ast.parse(Path(init).read_text())):
                if isinstance(node, ast.ImportFrom) and node.module:
                    places.update(dict.fromkeys((alias.name for alias in node.names), node.module))
        if name.startswith("__") or name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(places[name]), name)
        setattr(sys.modules[package], name, value)  # the next import does not ask here
        return value

    return get

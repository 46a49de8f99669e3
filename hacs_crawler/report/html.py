"""A report's data as a self-contained HTML page that runs no script but its own."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final

from hacs_crawler.report.unscripted import unscripted

SCRIPTS: Final = (
    "format.js",
    "dom.js",
    "address.js",
    "hints.js",
    "charts.js",
    "tables.js",
    "pages.js",
    "sections.js",
    "verdicts.js",
    "main.js",
)
_PLACE: Final = re.compile(r"\{\{ (\w+) \}\}")


def html(data: Mapping[str, Any]) -> str:
    """Return the page. What is in `data` comes into it as JSON, in which no tag can begin or end."""
    style = _read("report.css")
    script = "\n".join(_read(name) for name in SCRIPTS)
    parts = {
        "style": style,
        "style_hash": _hash(style),
        "script": script,
        "script_hash": _hash(script),
        "unscripted": unscripted(data),
        "data": embedded(data),
    }
    return _PLACE.sub(lambda found: parts[found[1]], _read("report.html"))


def embedded(data: Mapping[str, Any]) -> str:
    """Return JSON that may stand in a script element: without characters that mean something there.

    Numbers that are not finite have no place in it.
    """
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _read(name: str) -> str:
    return files("hacs_crawler.report").joinpath(name).read_text("utf-8")


def _hash(text: str) -> str:
    """Return the hash by which a Content-Security-Policy allows an inline element."""
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"

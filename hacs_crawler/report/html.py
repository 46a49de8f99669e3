"""A report's data as a self-contained HTML page that runs no script but its own."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any, Final

SCRIPTS: Final = ("d3.min.js", "plot.umd.min.js", "dataTables.min.js")
"""Of others, unchanged, in the folder `vendor`; their licences are in LICENSES."""
OWN_SCRIPTS: Final = ("tables.js", "charts.js", "report.js")
_PLACE: Final = re.compile(r"\{\{ (\w+) \}\}")


def html(data: Mapping[str, Any]) -> str:
    """Return the page. What is in `data` comes into it as JSON, in which no tag can begin or end."""
    scripts = [_read(f"vendor/{name}") for name in SCRIPTS]
    script = ";\n".join([*scripts, *map(_read, OWN_SCRIPTS)])
    parts = {
        "style": _read("report.css"),
        "script": script,
        "script_hash": f"sha256-{b64encode(sha256(script.encode()).digest()).decode()}",
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


def unscripted(data: Mapping[str, Any]) -> str:
    """Return HTML that says the most important without a script."""
    said = "".join(
        f"<p>{escape(text)}</p>" for text in (data["subtitle"], *data["words"]["headline"])
    )
    return f"<main><h1>HACS report</h1>{said}<p>All else needs this file's script.</p></main>"


def _read(name: str) -> str:
    return files("hacs_crawler.report").joinpath(name).read_text("utf-8")

"""What a state holds, opened again, and whether it survives an export and an import."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

from hacs_crawler.cli.export import write_pages
from hacs_crawler.state import Estimation, State, read_export
from hacs_crawler.state.address import open_state
from hacs_crawler.state.memory import MemoryStore
from hacs_crawler.utils.progress import Progress

DERIVED = ("rate_per_day", "churn")
"""By the prior, which no export holds."""


def exported(url: str, namespace: str) -> dict[str, Any]:
    """The visits of each page by URL, and what an export and import changed."""
    state = open_state(url, namespace, Path(), Estimation())
    try:
        lines, damaged = _lines(state)
        other = State(MemoryStore(), Estimation())
        other.restore(read_export([one + b"\n" for one in lines], "export"))
        again, damaged_again = _lines(other)
        times = {page.url: list(page.visits) for page in state.pages() if page is not None}
    finally:
        state.close()
    before, after = map(_comparable, (lines, again))
    changed = [text for text in before if text not in after]
    return {"visits": times, "damaged": damaged + damaged_again, "changed": changed[:3]}


def _lines(state: State) -> tuple[list[bytes], int]:
    file = io.BytesIO()
    _, damaged = write_pages(state, file, Progress("export", is_shown=False))
    return file.getvalue().splitlines(), damaged


def _comparable(lines: list[bytes]) -> list[str]:
    found = []
    for line in lines:
        fields = json.loads(line)
        for name in DERIVED:
            fields.pop(name)
        found.append(json.dumps(fields, sort_keys=True))
    return sorted(found)

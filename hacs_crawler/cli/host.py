"""`hacs show HOST` and `hacs forget HOST`: what is left out of a host's links."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated

import typer

from hacs_crawler.analysis import Table, table_of_rows
from hacs_crawler.cli.common import Set, opened
from hacs_crawler.cli.tables import Records
from hacs_crawler.links import VolatileLinkParts
from hacs_crawler.state import State, forget_volatile_parts, read_volatile_parts
from hacs_crawler.utils.text import safe_logger

logger = safe_logger(__name__)


def host_records(state: State, host: str) -> Records:
    """Return which parts of a host's links change with every request, as far as is known."""
    known = read_volatile_parts(state).get(host, VolatileLinkParts(host))
    return Records(
        rows=lambda: _rows(known),
        text=lambda: _lines(known),
        json=lambda: [json.dumps({"host": host, **known.to_json()}, indent=2)],
    )


def _rows(known: VolatileLinkParts) -> Table:
    """Return a row for each part of the host's links that is left out, or may be."""
    rows = [
        {"host": known.host, "part": str(part), "is_left_out": is_left_out}
        for parts, is_left_out in ((known.parts, True), (known.suspected, False))
        for part in sorted(parts)
    ]
    names = ("host", "part", "is_left_out")
    return table_of_rows(rows, texts=names[:2], names=names)


def _lines(known: VolatileLinkParts) -> Iterator[str]:
    yield known.host
    if not known.parts and not known.suspected:
        yield "  nothing is left out of its links"
    if known.parts:
        left_out = ", ".join(map(str, sorted(known.parts)))
        yield f"  left out of its links, as control visits showed other ones each time: {left_out}"
        yield f"  `hacs forget {known.host}` keeps them as parts of its links again"
    if known.suspected:
        suspected = ", ".join(map(str, sorted(known.suspected)))
        yield f"  may be left out after another control visit: {suspected}"


def forget(
    host: Annotated[str, typer.Argument(help="a host, as in its pages' URLs: www.example.org")],
    settings: Set = None,
) -> None:
    """Count all links of a host again, with the parts that changed with every request.

    The next visit of each of its pages is a baseline.
    """
    with opened(settings, writes=True) as (_, state):
        found = forget_volatile_parts(state, host.lower())
        if found is None or not found.parts:
            logger.info("nothing was left out of the links of %s", host)
            return
        logger.info(
            "no longer left out of the links of %s: %s",
            host,
            ", ".join(map(str, sorted(found.parts))),
        )

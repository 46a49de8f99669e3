"""Tables and sentences, laid out by rich for a terminal; whole where they go to a file or a pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Container, Iterable, Mapping
from io import StringIO
from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hacs_crawler.utils.text import printable

UNLIMITED: Final = 100_000
"""The width of a file or a pipe: nothing is wrapped there."""


def terminal_width() -> int:
    """Return the width of what standard output is written for, `UNLIMITED` for a file or a pipe.

    COLUMNS in the environment says it for any of them.
    """
    is_told = os.environ.get("COLUMNS", "").isdecimal()
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    return Console().width if is_told or is_terminal else UNLIMITED


def column_table(
    columns: Mapping[str, Iterable[object]],
    texts: Container[str] = (),
    page: str = "",
    *,
    is_markdown: bool = False,
) -> Table:
    """Return a table of columns by title; those in `texts` are flush left, all others flush right.

    Where a terminal is narrow, cells are broken into lines, but for the URLs of the column `page`.
    """
    style = {"box": box.MARKDOWN} if is_markdown else {"box": None, "padding": (0, 2, 0, 0)}
    made = Table(pad_edge=is_markdown, header_style="", **style)
    for title in columns:
        is_page = title == page
        made.add_column(
            Text(title),
            justify="left" if is_page or title in texts else "right",
            overflow="fold",
            no_wrap=is_page,
        )
    for cells in zip(*columns.values(), strict=True):
        made.add_row(*(Text(printable(cell)) for cell in cells))
    return made


def facts_table(facts: Iterable[tuple[str, str]], label_width: int = 0) -> Table:
    """Return a table of facts, each behind what it is about; long ones are broken into lines."""
    made = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    made.add_column(no_wrap=True, min_width=label_width)
    made.add_column(overflow="fold")
    for label, fact in facts:
        made.add_row(Text(label), Text(printable(fact)))
    return made


def laid_out(*parts: str | Table, width: int = UNLIMITED) -> str:
    """Return tables, and sentences broken into lines of the width, below one another.

    A URL is left whole, to be copied, be it a line of its own or the end of a table's row: a terminal
    breaks it where a line is full.
    """
    out = StringIO()
    console = Console(file=out, width=width, color_system=None, force_terminal=False)
    for part in parts:
        if isinstance(part, str):
            console.print(Text(printable(part)), soft_wrap=" " not in part.strip())
            continue
        if width < UNLIMITED:
            # a header in several lines is none of Markdown, so its bars would only take room
            part.box, part.pad_edge, part.padding = None, False, (0, 1, 0, 0)
        if any(column.no_wrap for column in part.columns):
            console.width = UNLIMITED  # else no more than the width is measured
            console.width = max(width, console.measure(part).minimum + len(part.columns))
        console.print(part)
        console.width = width
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())

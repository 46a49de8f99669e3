"""Tables and sentences, laid out by rich for a terminal; unwrapped in a file or a pipe."""

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
"""Width of a file or a pipe, where nothing is wrapped."""


def terminal_width() -> int:
    """Return the width of standard output: `UNLIMITED` for a file or a pipe.

    COLUMNS in the environment overrides it.
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
    has_head: bool = True,
) -> Table:
    """Return a table of columns by title; those in `texts` are flush left, all others flush right.

    In a narrow terminal cells are wrapped, except for the URLs of the column `page`. Without a head, the
    first column is a label, which is never wrapped either.
    """
    style = {"box": box.MARKDOWN} if is_markdown else {"box": None, "padding": (0, 2, 0, 0)}
    made = Table(pad_edge=is_markdown, header_style="", show_header=has_head, **style)
    for title in columns:
        is_page = title == page
        made.add_column(
            Text(title),
            justify="left" if is_page or title in texts else "right",
            overflow="fold",
            no_wrap=is_page or not (has_head or made.columns),
        )
    for cells in zip(*columns.values(), strict=True):
        made.add_row(*(Text(printable(cell)) for cell in cells))
    return made


def laid_out(*parts: str | Table, width: int = UNLIMITED) -> str:
    """Return tables, and sentences wrapped to the width, below one another.

    A URL on a line of its own or at the end of a table's row is left whole, so that it can be copied.
    """
    out = StringIO()
    console = Console(file=out, width=width, color_system=None, force_terminal=False)
    for part in parts:
        if isinstance(part, str):
            console.print(Text(printable(part)), soft_wrap=" " not in part.strip())
            continue
        if width < UNLIMITED and part.show_header:
            # Markdown has no header of several lines, so its bars would only take room
            part.box, part.pad_edge, part.padding = None, False, (0, 1, 0, 0)
        if part.show_header and any(column.no_wrap for column in part.columns):
            console.width = UNLIMITED  # else the measure is capped at the width
            console.width = max(width, console.measure(part).minimum + len(part.columns))
        console.print(part)
        console.width = width
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())

"""Rows in columns for a terminal: what does not fit is left out, URLs shortened, sentences wrapped."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, TextIO

from rich.cells import cell_len, set_cell_size

ELLIPSIS: Final = "…"
LEAST_URL: Final = 24
URL_SHARE: Final = 0.4
"""Below this share of the line, or so many characters, a URL hardly tells pages apart: rather another
column goes."""
TAIL_SHARE: Final = 0.6
"""How much of a shortened URL is its end, where pages of a site differ."""
LEAST_WIDTH: Final = 40
ELSEWHERE: Final = "--json and --csv have all"
_GAP: Final = "  "


@dataclass(frozen=True, slots=True)
class Column:
    """A column as it is shown: its cells, and its weight: the lightest goes first.

    Numbers are flush right. A `wide` column takes what is left of the line, and is shortened in the
    middle. Neighbours of one `group` have its name above them.
    """

    title: str
    cells: Sequence[str]
    weight: float
    is_text: bool = False
    is_wide: bool = False
    group: str = ""

    @property
    def name(self) -> str:
        """The title, behind that of its group."""
        return f"{self.group} {self.title}".lstrip()

    @property
    def width(self) -> int:
        """The width of its widest cell."""
        return max(cell_len(self.title), *map(cell_len, self.cells), 0)

    def least(self, line: int) -> int:
        """Return the width below which it is of no use in a line of that width."""
        return (
            min(self.width, max(LEAST_URL, int(URL_SHARE * line))) if self.is_wide else self.width
        )


def terminal_width(stream: TextIO | None = None) -> int | None:
    """Return the width of what lines are written for; None where they go to a file or a pipe.

    COLUMNS says it for any of them. The stream is standard output unless another one is given.
    """
    stream = stream or sys.stdout
    told = os.environ.get("COLUMNS", "")
    if told.isdecimal() and int(told):
        return max(int(told), LEAST_WIDTH)
    if stream is None or not stream.isatty():
        return None
    return max(shutil.get_terminal_size().columns, LEAST_WIDTH)


def fitting(
    columns: Sequence[Column], width: int | None, gap: int = len(_GAP), ends: int = 0
) -> tuple[list[Column], list[str]]:
    """Return the columns that fit into a width, and the titles of those left out, lightest first.

    `gap` is how many characters stand between columns, `ends` those around all of them.
    """
    left, dropped = list(columns), []
    while width is not None and len(left) > 1:
        least = [one.least(width) for one in left]
        if sum(_with_groups(left, least, gap)) + gap * (len(left) - 1) + ends <= width:
            break
        lightest = min(left, key=lambda one: one.weight)
        left.remove(lightest)
        dropped.append(lightest.name)
    return left, dropped


def lines_of(
    columns: Sequence[Column], width: int | None, elsewhere: str = ELSEWHERE
) -> Iterator[str]:
    """Yield the lines of a table, its titles first, and a line that names the columns left out.

    `elsewhere` says where these are.
    """
    lines, dropped = laid_out(columns, width)
    yield from lines
    yield from left_out(dropped, width, elsewhere)


def laid_out(columns: Sequence[Column], width: int | None) -> tuple[list[str], list[str]]:
    """Return the lines of a table, its titles first, and the names of the columns left out."""
    shown, dropped = fitting(columns, width)
    gap = len(_GAP)
    widths = _with_groups(shown, _widths(shown, width, gap * (len(shown) - 1)), gap)
    lines = [_group_line(shown, widths)] if any(one.group for one in shown) else []
    for cells in zip(*([one.title, *one.cells] for one in shown), strict=True):
        aligned = (
            _cell(cell, one, space) for cell, one, space in zip(cells, shown, widths, strict=True)
        )
        lines.append(_GAP.join(aligned).rstrip())
    return lines, dropped


def side_by_side(
    first: Column, columns: Sequence[Column], width: int | None, gap: int = len(_GAP), ends: int = 0
) -> Iterator[list[Column]]:
    """Yield the columns in as many tables as a width demands, each behind the first column."""
    left = list(columns)
    while left:
        fits = len(left)
        while fits > 1 and fitting([first, *left[:fits]], width, gap, ends)[1]:
            fits -= 1
        yield [first, *left[:fits]]
        left = left[fits:]


def left_out(dropped: Sequence[str], width: int | None, elsewhere: str = ELSEWHERE) -> list[str]:
    """Return the lines that name columns left out, and where they are."""
    if not dropped:
        return []
    names = "; ".join(reversed(dropped))
    return wrapped(f"(not shown at this width: {names}. {elsewhere})", width)


def markdown_lines(columns: Sequence[Column], width: int | None) -> Iterator[str]:
    """Yield the same as a table in Markdown."""
    shown, dropped = fitting(columns, width, gap=3, ends=4)
    widths = _widths(shown, width, 3 * (len(shown) - 1) + 4)
    rows = list(zip(*([one.title, *one.cells] for one in shown), strict=True))
    rule = [
        "-" * space if one.is_text else "-" * (space - 1) + ":"
        for one, space in zip(shown, widths, strict=True)
    ]
    for row in (rows[0], rule, *rows[1:]):
        aligned = (
            _cell(cell, one, space) for cell, one, space in zip(row, shown, widths, strict=True)
        )
        yield f"| {' | '.join(aligned)} |"
    yield from left_out(dropped, width)


def wrapped(text: str, width: int | None, indent: str = "") -> list[str]:
    """Return a sentence in lines of a width, those after the first behind `indent`."""
    if width is None or cell_len(text) <= width:
        return [text]
    return textwrap.wrap(
        text,
        width,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
        drop_whitespace=True,
    )


def shortened(text: str, width: int) -> str:
    """Return a text in a width, without its middle where it is longer: both ends tell pages apart."""
    if cell_len(text) <= width:
        return text
    text = text.partition("://")[2] or text  # what is cut cannot be followed anyway
    if cell_len(text) <= width:
        return text
    tail = int(TAIL_SHARE * (width - 1))
    end = text[len(text) - tail :] if tail else ""
    while cell_len(end) > tail:
        end = end[1:]
    return set_cell_size(text, width - 1 - cell_len(end)).rstrip() + ELLIPSIS + end


def _widths(shown: Sequence[Column], width: int | None, between: int) -> list[int]:
    if width is None:
        return [one.width for one in shown]
    spare = max(width - between - sum(one.least(width) for one in shown), 0)
    widths = []
    for one in shown:
        more = min(one.width - one.least(width), spare)
        widths.append(one.least(width) + more)
        spare -= more
    return widths


def _with_groups(shown: Sequence[Column], widths: Sequence[int], gap: int) -> list[int]:
    """Return the widths, with room for the groups' names."""
    roomy = list(widths)
    for name, span in _spans(shown):
        has = sum(roomy[place] for place in span) + gap * (len(span) - 1)
        roomy[span[-1]] += max(cell_len(name) - has, 0)
    return roomy


def _spans(shown: Sequence[Column]) -> list[tuple[str, list[int]]]:
    places = groupby(range(len(shown)), key=lambda place: shown[place].group)
    return [(name, list(span)) for name, span in places]


def _group_line(shown: Sequence[Column], widths: Sequence[int]) -> str:
    gap = len(_GAP)
    return _GAP.join(
        name.center(sum(widths[place] for place in span) + gap * (len(span) - 1))
        for name, span in _spans(shown)
    ).rstrip()


def _cell(text: str, column: Column, width: int) -> str:
    text = shortened(text, width) if column.is_wide else text
    space = " " * (width - cell_len(text))
    return text + space if column.is_text else space + text

"""Tables, sentences and progress bars, laid out by rich for a terminal; unwrapped in files and pipes."""

import logging
import os
import sys
from collections.abc import Callable, Container, Iterable, Mapping
from io import StringIO
from typing import TYPE_CHECKING, Final, Self, TextIO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from hacs_crawler.utils.text import printable

# Width of a file or a pipe, in which lines are not wrapped.
UNLIMITED: Final = 100_000


def terminal_width() -> int:
    """Return the width of standard output: COLUMNS if set, else `UNLIMITED` for a file or a pipe."""
    is_set = os.environ.get("COLUMNS", "").isdecimal()
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    return Console().width if is_set or is_terminal else UNLIMITED


def column_table(
    columns: Mapping[str, Iterable[object]],
    texts: Container[str] = (),
    page: str = "",
    *,
    is_markdown: bool = False,
    has_head: bool = True,
) -> Table:
    """Return a table of columns by title; columns in `texts` are left-aligned, all others right-aligned.

    In a narrow terminal cells are wrapped, except for the URLs of the column `page`, and, without a
    head, for the labels in the first column.
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

    URLs on their own lines and at the end of a table's row are not wrapped, so that they can be copied.
    """
    out = StringIO()
    console = Console(file=out, width=width, color_system=None, force_terminal=False)
    for part in parts:
        if isinstance(part, str):
            console.print(Text(printable(part)), soft_wrap=" " not in part.strip())
            continue
        if width < UNLIMITED and part.show_header:
            # a wrapped header is not valid Markdown, so its bars would only waste space
            part.box, part.pad_edge, part.padding = None, False, (0, 1, 0, 0)
        if part.show_header and any(column.no_wrap for column in part.columns):
            console.width = UNLIMITED  # otherwise the measure is capped at the width
            console.width = max(width, console.measure(part).minimum + len(part.columns))
        console.print(part)
        console.width = width
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


if TYPE_CHECKING:
    from rich import progress as bars


class Progress:
    """Shows the progress of a task while its `with` block runs.

    It is one line with a bar, which disappears at the end; log lines and other output appear above it.
    Used from one thread at a time.
    """

    def __init__(self, title: str, *, is_shown: bool = True) -> None:
        self._is_shown = is_shown and sys.stderr is not None and sys.stderr.isatty()
        self._title = title
        self._bar: bars.Progress | None = None
        self._stderr: TextIO = sys.stderr

    def __enter__(self) -> Self:
        # not console.is_terminal, which FORCE_COLOR makes true for files, too
        if not self._is_shown:
            return self
        from rich import progress as bars  # noqa: PLC0415 - large, and crawls show no bar

        console = Console(stderr=True)
        if console.is_dumb_terminal:
            return self
        self._bar = bars.Progress(
            bars.SpinnerColumn(),
            bars.TextColumn("{task.description}", markup=False),
            bars.BarColumn(),
            bars.TaskProgressColumn(),
            bars.TimeElapsedColumn(),
            bars.TimeRemainingColumn(),
            console=console,
            transient=True,
            redirect_stdout=sys.stdout is not None and sys.stdout.isatty(),
        )
        self._bar.add_task(self._title, total=None)
        self._stderr = sys.stderr
        self._bar.start()  # replaces sys.stderr by a stream that prints above the bar
        _redirect_logging(self._stderr, sys.stderr)
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            _redirect_logging(sys.stderr, self._stderr)
            self._bar.stop()
            self._bar = None

    def update(self, text: str, completed: int | None = None, total: int | None = None) -> None:
        """Show `text` as the progress; with `completed` of `total`, the remaining time, too."""
        if self._bar is not None:
            (task,) = self._bar.task_ids
            description = f"{self._title}: {text}"
            self._bar.update(task, description=description, completed=completed, total=total)

    def counts(self, nouns: str, total: int | None = None) -> Callable[..., None]:
        """Return a callback that shows a number as done, of `total` or of its second argument."""
        return lambda done, of=total: self.update(f"{done} {nouns}", done, of)


def _redirect_logging(old: TextIO, new: TextIO) -> None:
    """Redirect handlers that log to the stream `old`, such as Scrapy's, to `new`."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler) and handler.stream is old:
            handler.setStream(new)

"""How far a long task is: a bar on standard error, where that is a terminal."""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING, Self, TextIO

if TYPE_CHECKING:
    from rich import progress as bars


class Progress:
    """Shows how far a task is while its `with` block runs.

    It is one line with a bar, which is gone at the end; log lines, and what is printed to the terminal,
    appear above it. Used from one thread at a time.
    """

    def __init__(self, title: str, *, is_shown: bool = True) -> None:
        self._is_shown = is_shown and sys.stderr is not None and sys.stderr.isatty()
        self._title = title
        self._bar: bars.Progress | None = None
        self._stderr: TextIO = sys.stderr

    def __enter__(self) -> Self:
        if not self._is_shown:  # not console.is_terminal: FORCE_COLOR makes that true of files
            return self
        from rich import progress as bars  # noqa: PLC0415 - large, and crawls show no bar
        from rich.console import Console  # noqa: PLC0415 - as above

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
        self._bar.start()  # replaces sys.stderr by what prints above the bar
        _redirect_logging(self._stderr, sys.stderr)
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            _redirect_logging(sys.stderr, self._stderr)
            self._bar.stop()
            self._bar = None

    def update(self, text: str, completed: int | None = None, total: int | None = None) -> None:
        """Say in `text` how far the task is; with `completed` of `total` the time left is shown too."""
        if self._bar is not None:
            (task,) = self._bar.task_ids
            description = f"{self._title}: {text}"
            self._bar.update(task, description=description, completed=completed, total=total)


def _redirect_logging(old: TextIO, new: TextIO) -> None:
    """Have the handlers that log to the stream `old`, such as Scrapy's, log to `new`."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, logging.StreamHandler) and handler.stream is old:
            handler.setStream(new)
